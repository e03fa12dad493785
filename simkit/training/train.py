"""Trains an agent: the loop around a learner, with progress, checkpoints and early stopping.

done = train(load_scenario("deeprm.yaml"), "trainings/mine")

A training that is interrupted goes on where it was when it is started again, and comes to the same
numbers and the same agent as one that never was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

from simkit import plugins
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.experiment.interrupt import DeferredInterrupt
from simkit.results.run_info import versions
from simkit.scenario import Scenario, refuse_sweep
from simkit.scenario.bundled import AGENT
from simkit.scenario.learn import Learn
from simkit.training import Training
from simkit.training.criterion import check_criterion, check_look
from simkit.training.folder import Row, TrainingFolder
from simkit.training.log import TrainingLog, open_log

LEARNERS: Final = "simkit.learners"
HELD_OUT: Final = "held_out_"
"""What the names of held-out numbers begin with in the metrics."""
OF_THE_CLOCK: Final = ("wall_time_s", "decisions_per_s")
"""Numbers of a row that differ from one machine and day to the next; no agent carries them."""
EXTRA: Final = ("torch", "safetensors", "gymnasium")
"""Packages of the extra `learn`, without which learners do not work."""

Watch = Callable[[Training, Row], None]
"""Is called after every iteration with its row of the metrics, e.g. to show progress."""


@dataclass(frozen=True)
class Trained:
    """A training that came to its end, now or before."""

    folder: Path
    info: Mapping[str, Any]
    """The content of training.json."""
    rows: tuple[Row, ...]
    """The content of metrics.parquet."""
    was_finished: bool
    """Whether nothing was left to do."""

    @property
    def agent(self) -> Path:
        """The bundle, which a scenario can name."""
        return self.folder / AGENT


def train(
    scenario: Scenario,
    output: str | PathLike[str],
    *,
    device: str = "cpu",
    checkpoint_every_s: float = 60.0,
    force: bool = False,
    watch: Watch | None = None,
) -> Trained:
    """Train an agent on a scenario that has a section `learn`, or go on with doing so.

    Args:
        scenario: without a sweep; its seed is that of the training.
        output: the folder: new, empty, or of this very training, which then goes on.
        device: where the learner calculates: ``cpu`` or ``cuda``.
        checkpoint_every_s: seconds from one checkpoint to the next; one is made at the end and on
            an interruption, too.
        force: begin anew, and throw away another training that is there.
        watch: see `Watch`.

    Raises ScenarioError, PluginError (the learner is unknown, or its packages are missing) or
    RunError (the folder). On Ctrl-C and SIGTERM it ends the iteration, writes a checkpoint and
    raises KeyboardInterrupt.
    """
    refuse_sweep(scenario)
    section = _section(scenario)
    begin = find_learner(section.learner)
    training = _with_extra(
        section.learner,
        lambda: begin(scenario, section.all_arguments, seed=scenario.seed, device=device),
    )
    check_criterion(section.criterion, training)
    folder = TrainingFolder(Path(output))
    course = _Course(training, section, folder, checkpoint_every_s)
    wanted = _identity(scenario, section, training, device)
    extendable = bool(getattr(training, "extendable", False))
    if not folder.find(wanted, force=force, extendable=extendable):
        course.look_first()  # may refuse, and nothing has been written or thrown away so far
    info = folder.open(wanted, force=force, extendable=extendable)
    try:
        was_finished = course.go_on(info, watch)
        return Trained(folder.folder, info, tuple(course.rows), was_finished)
    except Exception:
        if folder.checkpoint is None:
            folder.discard()  # it would stand in the way of the command once that is corrected
        raise
    finally:
        folder.close()


def _section(scenario: Scenario) -> Learn:
    if scenario.learn is None:
        raise ScenarioError(
            "learn: is missing, so nothing says what trains the agent; add `learn: {learner: "
            f"NAME}}` or give --learner NAME; known: {', '.join(plugins.names(LEARNERS)) or 'none'}"
        )
    return scenario.learn


def find_learner(name: str) -> Callable[..., Training]:
    """Return the learner of a name; raises PluginError, which says what to install."""
    try:
        found = plugins.find(LEARNERS, name)
    except PluginError as error:
        raise (_missing(name, error.__cause__) or error) from error
    if not callable(found):
        raise PluginError(f"{name!r} is no learner: a learner is a function, see simkit.training")
    learner: Callable[..., Training] = found
    return learner


def _with_extra(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call gives; a package of the extra that is missing is told in words."""
    try:
        return call()
    except ModuleNotFoundError as error:
        raise (_missing(name, error) or error) from error


def _missing(name: str, cause: BaseException | None) -> PluginError | None:
    package = (getattr(cause, "name", None) or "").partition(".")[0]
    if not isinstance(cause, ModuleNotFoundError) or package not in EXTRA:
        return None
    return PluginError(
        f"learner {name!r} needs {package}, which is not installed; install simkit-cluster[learn]"
    )


def _identity(
    scenario: Scenario, section: Learn, training: Training, device: str
) -> dict[str, Any]:
    """Return what training.json says from the start."""
    return {
        "name": scenario.name,
        "learner": section.learner,
        "arguments": section.all_arguments,
        "seed": scenario.seed,
        "device": device,
        "iterations": training.iterations,
        "scenario": scenario.model_dump(mode="json"),
        "versions": versions(),
    }


class _Course:
    """The iterations of a training, from where it stands to its end."""

    def __init__(
        self,
        training: Training,
        section: Learn,
        folder: TrainingFolder,
        checkpoint_every_s: float,
    ) -> None:
        self.rows: list[Row] = []
        self._training = training
        self._learn = section
        self._folder = folder
        self._info: dict[str, Any] = {}
        self._every_s = checkpoint_every_s
        self._saved = perf_counter()
        self._first: Row | None = None

    def look_first(self) -> None:
        """Measure the untrained agent; raises ScenarioError if the criterion tells nothing."""
        self._first = self._measured({"iteration": 0}, always=True)

    def go_on(self, info: dict[str, Any], watch: Watch | None) -> bool:
        """Do what is left; return whether that was nothing.

        Args:
            info: the content of training.json; is kept up to date.
            watch: see `Watch`.
        """
        self._info = info
        self._resume()
        was_finished: bool = info["status"] == "complete"
        if not was_finished:
            self._run(watch)
        return was_finished

    def _resume(self) -> None:
        """Go on from the checkpoint, if there is one.

        Raises RunError if it is gone, or the agent that was to be kept.
        """
        place, iteration = self._folder.checkpoint, int(self._info["iteration"])
        complete = self._info["status"] == "complete"
        if place is not None:
            self._training.load(place)
            self.rows = self._folder.metrics(self._training.iteration)
            self._see_to_agent(complete=complete)
        elif complete and self._folder.has_agent:
            self.rows = self._folder.metrics(iteration)
        elif iteration > 0:
            raise RunError(
                f"{self._folder.folder}: its checkpoint is gone, so it cannot go on from iteration "
                f"{iteration:,}; restore the folder checkpoint, or begin anew with --force"
            )

    def _see_to_agent(self, *, complete: bool) -> None:
        """Write the agent that the checkpoint makes, unless it is there and finished."""
        if self._is_to_be_kept():
            if not (complete and self._folder.has_agent):
                self._write_agent()  # a kill may have come between the checkpoint and the agent
        elif not self._folder.has_agent:
            best = self._info["best"]["iteration"]
            raise RunError(
                f"{self._folder.folder}: the agent of iteration {best:,} is gone, and the "
                f"checkpoint is of iteration {self._training.iteration:,}; restore the folder "
                "agent, or begin anew with --force"
            )

    def _run(self, watch: Watch | None) -> None:
        """Do the iterations that are left.

        Raises KeyboardInterrupt after the iteration in which it was asked for.
        """
        log = open_log(self._folder.folder, self._training.iteration)
        try:
            with DeferredInterrupt() as interrupt:
                self._iterate(log, watch, lambda: interrupt.requested)
        except KeyboardInterrupt:
            self._mark("interrupted")
            raise
        finally:
            log.close()
        self._mark("complete")

    def _iterate(
        self, log: TrainingLog, watch: Watch | None, interrupted: Callable[[], bool]
    ) -> None:
        if not self.rows:
            self._add(log, self._first or self._measured({"iteration": 0}, always=True))
        while (why := self._end()) is None:
            if interrupted():
                self._save()
                raise KeyboardInterrupt
            row = self._measured(self._step())
            self._add(log, row)
            if watch is not None:
                watch(self._training, row)
            if perf_counter() - self._saved >= self._every_s:
                self._save()
        self._info["stopped"] = why
        self._save()

    def _step(self) -> Row:
        """Do an iteration; return its row."""
        begin = perf_counter()
        logged = _with_extra(self._learn.learner, self._training.step)
        seconds = perf_counter() - begin
        row: Row = {"iteration": self._training.iteration, "wall_time_s": seconds}
        row |= _finite(logged)
        if "decisions" in row and seconds > 0:
            row["decisions_per_s"] = row["decisions"] / seconds
        return row

    def _measured(self, row: Row, *, always: bool = False) -> Row:
        """Add the held-out numbers to a row if it is time for them."""
        iteration = self._training.iteration
        last = iteration >= self._training.iterations
        if always or last or iteration % self._learn.held_out_every == 0:
            found = _with_extra(self._learn.learner, self._training.held_out)
            check_look(self._learn.criterion, found, learner=self._learn.learner)
            row |= {HELD_OUT + name: value for name, value in _finite(found).items()}
        return row

    def _add(self, log: TrainingLog, row: Row) -> None:
        self.rows.append(row)
        log.add(row)
        if self._learn.keep == "best" and self._is_to_be_kept():
            self._save()

    @property
    def _criterion(self) -> str:
        return HELD_OUT + self._learn.criterion

    def _looks(self) -> list[tuple[float, float]]:
        """Return (criterion, iteration) of every look at the held-out sets."""
        name = self._criterion
        return [(row[name], row["iteration"]) for row in self.rows if name in row]

    def _is_to_be_kept(self) -> bool:
        """Tell whether the agent as it is now is what the folder is to hold."""
        if self._learn.keep == "last":
            return True
        looks = self._looks()
        return not looks or min(looks)[1] == self._training.iteration

    def _end(self) -> Literal["all iterations done", "no further gain"] | None:
        """Return why the training is over; None if it is not."""
        if self._training.iteration >= self._training.iterations:
            return "all iterations done"
        looks, patience = self._looks(), self._learn.patience
        if patience is None or not looks:
            return None
        since_best = len(looks) - 1 - looks.index(min(looks))
        return "no further gain" if since_best >= patience else None

    def _save(self) -> None:
        """Write metrics and checkpoint, then the agent, then how far it is."""
        self._folder.save(self.rows, self._training.save)
        if self._is_to_be_kept():
            self._write_agent()
        looks = self._looks()
        self._info["iteration"] = self._training.iteration
        if looks:
            best, iteration = min(looks)
            self._info["best"] = {self._criterion: best, "iteration": int(iteration)}
        self._mark("incomplete")
        self._saved = perf_counter()

    def _write_agent(self) -> None:
        last = self.rows[-1] if self.rows else {}
        row = {name: value for name, value in last.items() if name not in OF_THE_CLOCK}
        self._folder.replace_folder(
            AGENT, lambda place: self._training.write_agent(place, curve_end=row)
        )

    def _mark(self, status: str) -> None:
        self._info["status"] = status
        self._folder.put_info(self._info)


def _finite(numbers: Mapping[str, float]) -> Row:
    """Return numbers without those that are none, such as the mean over no job."""
    return {name: float(value) for name, value in numbers.items() if isfinite(value)}


def stands_at(folder: Path) -> str:
    """Say how far the training in a folder is; for the message after an interruption."""
    from simkit.training.folder import read_training

    try:
        info = read_training(folder)
    except RunError:
        return f"{folder} holds nothing yet"
    return f"{folder} stands at iteration {info['iteration']:,} of {info['iterations']:,}"
