"""Trains an agent: the loop around a learner, with checkpoints and early stopping.

    done = train(load_scenario("deeprm.yaml"), "trainings/mine")

A training that was interrupted goes on where it was when it is started again, and comes to the same
numbers and the same agent as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal

from simkit import plugins
from simkit.errors import PluginError, RunError, ScenarioError, did_you_mean, warn_of
from simkit.experiment.interrupt import DeferredInterrupt
from simkit.experiment.workers import Workers
from simkit.results.run_info import versions
from simkit.scenario import Learn, Scenario, refuse_sweep
from simkit.scenario.bundled import AGENT
from simkit.shown import heading, notes, table
from simkit.text import printable
from simkit.training import Training
from simkit.training.folder import Row, TrainingFolder, is_training, read_training

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def train_all(
    trainings: Sequence[tuple[Scenario, Path]], *, workers: int, say: Callable[[str], None]
) -> None:
    """Do all trainings that are not complete, each in its folder; `say` gets a line for each."""
    if workers == 1:
        for scenario, folder in trainings:
            say(f"trained {_train(scenario, folder)}")
        return
    with Workers(workers, grace_s=0.0) as pool:
        for done in as_completed([pool.submit(_train, *one) for one in trainings]):
            say(f"trained {done.result()}")


def _train(scenario: Scenario, folder: Path) -> str:
    train(scenario, folder)
    return folder.name


class TrainingLog:
    """Receives the rows of a training; this one drops them."""

    def add(self, row: Row) -> None:
        """Write the row of an iteration."""

    def close(self) -> None:
        """Write what is buffered."""


def open_log(folder: Path, iteration: int) -> TrainingLog:
    """Return the log of a training that resumes from an iteration.

    Rows of later iterations that an earlier start has written are discarded.
    """
    if find_spec("tensorboard") is None or find_spec("torch") is None:
        return TrainingLog()
    log: TrainingLog = plugins.find("simkit.tools", "training.tensorboard")(folder, iteration)
    return log


HELD_OUT: Final = "held_out_"
"""Prefix of the names of held-out metrics."""
LESS_IS_BETTER: Final = (
    "slowdown", "bounded_slowdown", "turnaround", "wait", "cost", "unfinished",
)  # fmt: skip
"""Prefixes of metric names where lower is better."""
_LEARNERS: Final = "simkit.learners"
EVALUATION: Final = "evaluation_time_s"
"""Seconds that the evaluation on held-out job sets took; `wall_time_s` leaves them out."""
CLOCK: Final = ("wall_time_s", EVALUATION, "decisions_per_s")
"""Metrics that depend on the machine and its load; a bundle leaves them out."""
_EXTRA: Final = ("torch", "safetensors", "gymnasium", "cma", "numba")
"""Packages of the extra `learn`, which learners may need."""

Watch = Callable[[Training, Row], None]
"""Is called with each row of the metrics, e.g. to show progress: that of the untrained agent, then
after every iteration."""


@dataclass(frozen=True, repr=False)
class Trained:
    """A training that has ended, now or before."""

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

    @property
    def name(self) -> str:
        """The scenario's name, or else the folder's."""
        return str(self.info.get("name") or self.folder.name)

    @property
    def criterion(self) -> str:
        """The held-out metric by which agents are compared, as a column of the rows."""
        learn = (self.info.get("scenario") or {}).get("learn") or {}
        return HELD_OUT + str(self.info.get("criterion") or learn.get("criterion") or "")

    def __repr__(self) -> str:
        done, whole = self.info.get("iteration", 0), self.info.get("iterations", 0)
        text = f"<training {self.name} in {self.folder}: iteration {done:,} of {whole:,}>"
        return printable(text)

    def _repr_html_(self) -> str:
        measured = [row for row in self.rows if any(name.startswith(HELD_OUT) for name in row)]
        names = list(dict.fromkeys(name for row in measured for name in row if name != "iteration"))
        names = [name for name in names if name.startswith(HELD_OUT) or name == "return"]
        ends = [*measured[:1], *measured[-1:]] if len(measured) > 1 else measured
        if self.criterion in names:
            judged = [row for row in measured if self.criterion in row]
            ends.insert(1, min(judged, key=lambda row: row[self.criterion]))
        lines = {int(row["iteration"]): row for row in ends}
        rows = [
            [f"{at:,}", *(f"{row[name]:,.5g}" if name in row else "-" for name in names)]
            for at, row in lines.items()
        ]
        known = {"learner": "learner {}", "seed": "seed {}", "status": "{}"}
        facts = [form.format(self.info[key]) for key, form in known.items() if key in self.info]
        text = table(("iteration", *names), rows) if names else ""
        return heading(self.name, *facts) + text + notes([f"folder {self.folder}"])

    def plot(self) -> Figure:
        """Draw the learning curves; return the matplotlib figure.

        Raises SimkitError without matplotlib, RunError if nothing was logged.
        """
        figure: Figure = plugins.view("training.plot")(self)
        return figure


def open_training(folder: str | PathLike[str]) -> Trained:
    """Open the folder of a training, finished or under way, for reading.

    Raises RunError if there is none, or it is of another format or damaged.
    """
    path = Path(folder)
    if not path.is_dir() or not is_training(path):
        raise RunError(f"{path}: holds no training; `simkit train` prints where it wrote")
    info = read_training(path)
    has_rows = (path / "metrics.parquet").is_file()
    rows = TrainingFolder(path).metrics(int(info["iteration"])) if has_rows else []
    return Trained(path, info, tuple(rows), was_finished=info["status"] == "complete")


def train(
    scenario: Scenario,
    output: str | PathLike[str],
    *,
    device: str = "cpu",
    checkpoint_every_s: float = 60.0,
    force: bool = False,
    watch: Watch | None = None,
) -> Trained:
    """Train an agent on a scenario, or continue such a training.

    Args:
        scenario: without a sweep; its seed is that of the training. See `with_learner` for one
            that names no learner.
        output: the folder: new, empty, or of the same training, which then resumes.
        device: where the learner computes: ``cpu`` or ``cuda``.
        checkpoint_every_s: seconds from one checkpoint to the next; there is also one at the end
            and on an interruption.
        force: start over, and delete another training that is in the folder.
        watch: see `Watch`.

    What must be known of the agent, such as that nothing was learned, is a `SimkitWarning` each.

    Raises ScenarioError, PluginError (the learner is unknown, or its packages are missing) or
    RunError (the folder). On Ctrl-C and SIGTERM it ends the iteration, writes a checkpoint and
    raises KeyboardInterrupt.
    """
    scenario, training, criterion = _checked(scenario, device)
    section = scenario.learn
    assert section is not None
    folder = TrainingFolder(Path(output))
    course = _Course(training, section, criterion, folder, checkpoint_every_s)
    wanted = _identity(scenario, section, training, device) | {"criterion": criterion}
    if not folder.find(wanted, force=force, extendable=training.extendable):
        course.judge_untrained()  # may raise; nothing has been written or deleted so far
    info = folder.open(wanted, force=force, extendable=training.extendable)
    try:
        was_finished = course.go_on(info, watch)
        warn_of(training.warnings() if info["iteration"] and not was_finished else ())
        return Trained(folder.folder, info, tuple(course.rows), was_finished)
    except Exception:
        if folder.checkpoint is None:
            folder.discard()  # or the corrected command would be refused
        raise
    finally:
        folder.close()


def with_learner(scenario: Scenario) -> Scenario:
    """Return the scenario with the usual learner for its workload, unless it names one.

    Raises PluginError if no learners are installed.
    """
    section = scenario.learn or Learn()
    if section.learner is not None:
        return scenario
    usual: str = plugins.find("simkit.tools", "learn.usual")(scenario)
    return scenario.model_copy(update={"learn": section.model_copy(update={"learner": usual})})


def check_learn(scenario: Scenario) -> None:
    """Check all of the section `learn` that is known before the first game.

    Raises what `train` raises: ScenarioError, or PluginError for a learner that is unknown or whose
    packages are missing.
    """
    _checked(scenario, "cpu")


def _checked(scenario: Scenario, device: str) -> tuple[Scenario, Training, str]:
    """Return a scenario with a learner, its training, which has done nothing, and the criterion."""
    refuse_sweep(scenario)
    scenario = with_learner(scenario)
    assert scenario.learn is not None
    training = _begin(scenario, scenario.learn, device)
    return scenario, training, _criterion(scenario.learn, training)


def _begin(scenario: Scenario, section: Learn, device: str) -> Training:
    """Return what the section's learner begins."""
    name = _name(section)
    try:
        begin = plugins.find(_LEARNERS, name)
    except PluginError as error:
        raise (_missing(name, error.__cause__) or error) from error
    if not callable(begin):
        raise PluginError(
            f"{name!r} is not a learner: a learner is a function, see simkit.training"
        )
    training = _with_extra(
        name, lambda: begin(scenario, section.all_arguments, seed=scenario.seed, device=device)
    )
    if not isinstance(training, Training):
        raise PluginError(
            f"learner {name!r} returned a {type(training).__name__}; it must return a "
            "simkit.training.Training"
        )
    return training


def _name(section: Learn) -> str:
    assert section.learner is not None  # `with_learner` has seen to it
    return section.learner


def _with_extra(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call returns; raises PluginError if a package of the extra is missing."""
    try:
        return call()
    except ModuleNotFoundError as error:
        raise (_missing(name, error) or error) from error


def _missing(name: str, cause: BaseException | None) -> PluginError | None:
    package = (getattr(cause, "name", None) or "").partition(".")[0]
    if not isinstance(cause, ModuleNotFoundError) or package not in _EXTRA:
        return None
    return PluginError(
        f"learner {name!r} needs {package}, which is not installed; install simkit-cluster[learn]"
    )


def _criterion(section: Learn, training: Training) -> str:
    """Return the criterion; raises ScenarioError unless lower is better."""
    criterion = section.criterion or training.criterion
    own, told = (training.criterion, *training.less_is_better), training.held_out_metrics
    known = sorted({one for one in told or own if one.startswith(LESS_IS_BETTER) or one in own})
    if criterion not in known and (told or not criterion.startswith(LESS_IS_BETTER)):
        raise ScenarioError(
            f"learn.criterion: {criterion!r} is not a held-out metric of {section.learner} where "
            f"lower is better{did_you_mean(criterion, known)}"
        )
    return criterion


def _check_known(learn: Learn, criterion: str, names: Collection[str]) -> None:
    if criterion not in names:
        raise ScenarioError(
            f"learn.criterion: {criterion!r} is not among the held-out metrics of "
            f"{learn.learner}{did_you_mean(criterion, names)}"
        )


def _check_held_out(learn: Learn, criterion: str, found: Mapping[str, float]) -> None:
    """Raise ScenarioError if the held-out metrics lack the criterion, or what needs them."""
    if not found:
        _refuse_what_compares(learn)
        return
    _check_known(learn, criterion, found)
    if not isfinite(found[criterion]):
        raise ScenarioError(
            f"learn.criterion: the held-out {criterion} is {found[criterion]}: there is no job, or "
            "the weights have diverged; make sure that the held-out job sets hold jobs, or lower "
            "the learning rate"
        )


def _refuse_what_compares(learn: Learn) -> None:
    """Raise ScenarioError, all problems at once, for keys that need held-out metrics."""
    given = {
        "keep": "best" if learn.keep == "best" else None,
        "patience": learn.patience,
        "criterion": learn.criterion,
    }
    problems = [
        f"learn.{key}: is {value}, but {learn.learner} holds nothing out, so that no agents are "
        "compared; leave it out, or hold out jobs"
        for key, value in given.items()
        if value is not None
    ]
    if problems:
        raise ScenarioError(problems)


def _identity(
    scenario: Scenario, section: Learn, training: Training, device: str
) -> dict[str, Any]:
    """Return what training.json holds from the start."""
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
        criterion: str,
        folder: TrainingFolder,
        checkpoint_every_s: float,
    ) -> None:
        self._criterion = criterion
        self.rows: list[Row] = []
        self._training = training
        self._learn = section
        self._folder = folder
        self._info: dict[str, Any] = {}
        self._every_s = checkpoint_every_s
        self._saved = perf_counter()
        self._first: Row | None = None

    def judge_untrained(self) -> None:
        """Judge the untrained agent; raises ScenarioError if it has no value of the criterion."""
        self._first = self._measured({"iteration": 0}, always=True)

    def go_on(self, info: dict[str, Any], watch: Watch | None) -> bool:
        """Do the iterations that are left; return whether there were none.

        `info`, the content of training.json, is kept up to date.
        """
        self._info = info
        self._resume()
        was_finished: bool = info["status"] == "complete"
        if not was_finished:
            self._run(watch)
        return was_finished

    def _resume(self) -> None:
        """Resume from the checkpoint, if there is one.

        Raises RunError if the checkpoint is gone, or the agent that should be kept.
        """
        place, iteration = self._folder.checkpoint, int(self._info["iteration"])
        complete = self._info["status"] == "complete"
        if place is not None:
            self._training.load(place)
            self.rows = self._folder.metrics(self._training.iteration)
            self._restore_agent(complete=complete)
        elif complete and self._folder.has_agent:
            self.rows = self._folder.metrics(iteration)
        elif iteration > 0:
            raise RunError(
                f"{self._folder.folder}: its checkpoint is gone, so it cannot resume from "
                f"iteration {iteration:,}; restore the folder checkpoint, or start over with "
                "--force"
            )

    def _restore_agent(self, *, complete: bool) -> None:
        """Write the checkpoint's agent, unless the training is complete and has its agent."""
        if self._keeps_agent():
            if not (complete and self._folder.has_agent):
                self._write_agent()  # a kill may have come between the checkpoint and the agent
        elif not self._folder.has_agent:
            best = self._info["best"]["iteration"]
            raise RunError(
                f"{self._folder.folder}: the agent of iteration {best:,} is gone, and the "
                f"checkpoint is of iteration {self._training.iteration:,}; restore the folder "
                "agent, or start over with --force"
            )

    def _run(self, watch: Watch | None) -> None:
        """Run the remaining iterations.

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
            first = self._first or self._measured({"iteration": 0}, always=True)
            self._add(log, first)
            if watch is not None:
                watch(self._training, first)
        while (why := self._reason_to_stop()) is None:
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
        logged = _with_extra(_name(self._learn), self._training.step)
        seconds = perf_counter() - begin
        row: Row = {"iteration": self._training.iteration, "wall_time_s": seconds}
        row |= _finite(logged)
        if "decisions" in row and seconds > 0:
            row["decisions_per_s"] = row["decisions"] / seconds
        return row

    def _measured(self, row: Row, *, always: bool = False) -> Row:
        """Add the held-out numbers to a row if they are due."""
        iteration = self._training.iteration
        last = iteration >= self._training.iterations
        if always or last or iteration % self._learn.held_out_every == 0:
            begin = perf_counter()
            found = _with_extra(_name(self._learn), self._training.held_out)
            if found:
                row[EVALUATION] = perf_counter() - begin
            _check_held_out(self._learn, self._criterion, found)
            row |= {HELD_OUT + name: value for name, value in _finite(found).items()}
        return row

    def _add(self, log: TrainingLog, row: Row) -> None:
        self.rows.append(row)
        log.add(row)
        if self._learn.keep == "best" and self._keeps_agent():
            self._save()

    def _evaluations(self) -> list[tuple[float, float]]:
        """Return (criterion, iteration) of every evaluation on the held-out sets."""
        name = HELD_OUT + self._criterion
        return [(row[name], row["iteration"]) for row in self.rows if name in row]

    def _keeps_agent(self) -> bool:
        """Return whether the folder should hold the agent as it is now."""
        if self._learn.keep == "last":
            return True
        evaluated = self._evaluations()
        return not evaluated or min(evaluated)[1] == self._training.iteration

    def _reason_to_stop(self) -> Literal["all iterations done", "no further gain"] | None:
        """Return why the training is over; None if it is not."""
        if self._training.iteration >= self._training.iterations:
            return "all iterations done"
        evaluated, patience = self._evaluations(), self._learn.patience
        if patience is None or not evaluated:
            return None
        since_best = len(evaluated) - 1 - evaluated.index(min(evaluated))
        return "no further gain" if since_best >= patience else None

    def _save(self) -> None:
        """Write metrics and checkpoint, then the agent, then training.json."""
        self._folder.save(self.rows, self._training.save)
        if self._keeps_agent():
            self._write_agent()
        evaluated = self._evaluations()
        self._info["iteration"] = self._training.iteration
        if evaluated:
            best, iteration = min(evaluated)
            self._info["best"] = {HELD_OUT + self._criterion: best, "iteration": int(iteration)}
        self._mark("incomplete")
        self._saved = perf_counter()

    def _write_agent(self) -> None:
        last = self.rows[-1] if self.rows else {}
        row = {name: value for name, value in last.items() if name not in CLOCK}
        self._folder.replace_folder(
            AGENT, lambda place: self._training.write_agent(place, curve_end=row)
        )

    def _mark(self, status: str) -> None:
        self._info["status"] = status
        self._folder.put_info(self._info)


def _finite(numbers: Mapping[str, float]) -> Row:
    """Return the finite numbers; the mean over no job is not one."""
    return {name: float(value) for name, value in numbers.items() if isfinite(value)}


def stands_at(folder: Path) -> str:
    """Return how far the training in a folder is, and what the same command does, in words."""
    try:
        info = read_training(folder)
    except RunError:
        return f"{folder} holds nothing yet: the same command starts anew"
    stand = f"{folder} stands at iteration {info['iteration']:,} of {info['iterations']:,}"
    if not TrainingFolder(folder).checkpoint:
        return f"{stand}, without a checkpoint: the same command starts anew"
    return f"{stand}: the same command resumes from there"
