"""The system at an instant of a run: what waits and why, what is free, reservations, scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from math import inf, isfinite, nan
from typing import Any, NamedTuple

from simkit.engine.simulation import Simulation
from simkit.errors import RunError
from simkit.policy.task import Task
from simkit.results.run_folder import RunOrFolder
from simkit.text import amount_text, counted, printable
from simkit.units import format_duration
from simkit.why.causes import MEANINGS, Cause
from simkit.why.intervals import IntervalMaker
from simkit.why.rerun import Original, RunClock, original, rerun
from simkit.why.samples import Onlooker, Sample
from simkit.why.watcher import JobId, Watcher, shadow_time_s

__all__ = ["Instant", "Waiting", "queue_at"]

MOST_SHOWN = 40
"""Rows of a list that text shows."""


class Waiting(NamedTuple):
    """A task that waits at an instant."""

    job_id: JobId
    task_id: JobId
    waited_s: float
    asks: dict[str, float]
    """Resource → what all of it asks for; of a bag, one instance."""
    estimate_s: float
    cause: Cause
    sentence: str
    score: float | None
    """The policy's score of it; None where it has none."""


class Machine(NamedTuple):
    """A machine at an instant."""

    name: str
    capacity: dict[str, float]
    free: dict[str, float]
    away: tuple[str, ...]
    """Why it has less than at the start."""


class Planned(NamedTuple):
    """A task whose start is reserved or, of a head, expected."""

    job_id: JobId
    start_s: float
    why: str


@dataclass
class Instant:
    """The system after the last decision up to a time; `text` is what the command line prints."""

    run: str
    time_s: float
    """The time that was asked for."""
    decided_s: float
    """When the last decision up to it was made."""
    waiting: list[Waiting] = field(default_factory=list)
    """In the order of the policy; what it does not see yet comes last."""
    machines: list[Machine] = field(default_factory=list)
    running: int = 0
    head: JobId | None = None
    """The job at the head of the queue, if nobody may delay its start."""
    shadow_s: float | None = None
    """When the head of the queue is expected to start; infinity: never by all that is known; None:
    nothing waits in an order."""
    reservations: list[Planned] = field(default_factory=list)
    clock: RunClock = field(default_factory=RunClock)
    """How its times are written."""

    def as_json(self) -> dict[str, Any]:
        """Return the instant for scripts."""
        waiting = [
            {**each._asdict(), "cause": str(each.cause),
             "estimate_s": each.estimate_s if isfinite(each.estimate_s) else None}
            for each in self.waiting
        ]  # fmt: skip
        shadow = self.shadow_s
        return {
            "run": self.run, "time_s": self.time_s, "decided_s": self.decided_s,
            "running": self.running, "head": self.head,
            "shadow_time_s": shadow if shadow is not None and isfinite(shadow) else None,
            "waiting": waiting, "machines": [each._asdict() for each in self.machines],
            "reservations": [each._asdict() for each in self.reservations],
        }  # fmt: skip

    def text(self) -> str:
        """Return the instant as text."""
        return "\n".join(printable(line) for line in self._lines())

    def __str__(self) -> str:
        return self.text()

    def _lines(self) -> Iterator[str]:
        yield (
            f"{self.run} at {self._time(self.time_s)}, after the decision at "
            f"{self._time(self.decided_s)}"
        )
        yield self.clock.line
        yield from self._free()
        if self.shadow_s is not None:
            when = "never, by all that is expected" if self.shadow_s == inf else (
                f"at {self._time(self.shadow_s)} (the shadow time)"
            )  # fmt: skip
            yield f"the head of the queue, job {self.head}, can start {when}"
        if self.reservations:
            yield f"{counted(len(self.reservations), 'reservation')}:"
        for planned in self.reservations[:MOST_SHOWN]:
            yield f"  job {planned.job_id} from {self._time(planned.start_s)}"
        yield ""
        yield f"{counted(len(self.waiting), 'task')} waiting" + (":" if self.waiting else "")
        for place, each in enumerate(self.waiting[:MOST_SHOWN], 1):
            asks = " ".join(amount_text(amount, name) for name, amount in each.asks.items())
            score = "" if each.score is None else f", score {each.score:.6g}"
            yield (
                f"{place:>4}. job {each.job_id}, {asks}, waiting {format_duration(each.waited_s)}"
                f"{score}: {MEANINGS[each.cause].title}: {each.sentence}"
            )
        if len(self.waiting) > MOST_SHOWN:
            yield f"      and {len(self.waiting) - MOST_SHOWN:,} more (--json has all)"

    def _free(self) -> Iterator[str]:
        names = self.machines[0].capacity if self.machines else {}
        total = ", ".join(
            f"{sum(max(m.free[name], 0.0) for m in self.machines):,.10g} of "
            f"{sum(m.capacity[name] for m in self.machines):,.10g} {name}"
            for name in names
        )
        yield f"{counted(self.running, 'allocation')} running; free: {total}"
        some = [m for m in self.machines if m.away or any(x > 0 for x in m.free.values())]
        if len(self.machines) == 1 and not self.machines[0].away:
            return
        for machine in some[:MOST_SHOWN]:
            free = " ".join(amount_text(amount, name) for name, amount in machine.free.items())
            away = f"; smaller: {', '.join(machine.away)}" if machine.away else ""
            yield f"  {machine.name}: {free} free{away}"
        if len(some) > MOST_SHOWN:
            yield f"  and {len(some) - MOST_SHOWN:,} more machines with something free"

    def _time(self, time_s: float) -> str:
        return self.clock.text(time_s)

    def _repr_html_(self) -> str:
        """Return the instant for a notebook."""
        lines = self.text().split("\n")
        return f"<div><b>{escape(lines[0])}</b><pre>{escape(chr(10).join(lines[1:]))}</pre></div>"


def queue_at(
    run: RunOrFolder,
    time_s: float,
    *,
    allow_partial: bool = False,
    allow_code: bool = True,
    progress: Any = None,
) -> Instant:
    """Return what waits at a time of a run and why, and what is free; the run is made again.

    Args:
        run: a run, or its folder.
        time_s: on the trace's clock, in s. What the last decision up to then has left is shown.
        allow_partial: also explain a run that did not finish, up to its end.
        allow_code: False refuses a run whose scenario names code.
        progress: is called after every decision of the rerun.

    Raises RunError for a time before the first decision or after the last, and if the run cannot be
    made again.
    """
    first = original(run, allow_partial=allow_partial, allow_code=allow_code)
    times: list[float] = first.run.timeline["time_s"].to_list()
    if not times:
        raise RunError(f"{first.run.folder}: nothing was decided in the run")
    text = first.clock.text
    if text(time_s) in (text(times[0]), text(times[-1])):  # as printed, which is to the second
        time_s = min(max(time_s, times[0]), times[-1])
    if not times[0] <= time_s <= times[-1]:
        raise RunError(
            f"{first.run.folder}: nothing is decided at {text(time_s)}; the run is from "
            f"{text(times[0])} to {text(times[-1])} ({first.clock.line})"
        )
    return _Looker(first, time_s, progress).look()


class _Looker:
    """Makes the run again until a time has passed, then to its end for the digest."""

    def __init__(self, first: Original, time_s: float, progress: Any) -> None:
        self._first, self._time_s, self._progress = first, time_s, progress
        last = first.run.timeline["time_s"]
        clocked = first.experiment.scenario.scheduling.period_s is not None
        # Without a clock, the last row up to the time is that of the last decision.
        self._since_s = -inf if clocked else float(last.filter(last <= time_s).max())  # type: ignore[arg-type]
        self._due_s = -inf
        load = first.experiment.trace.workload
        policy = first.experiment.policy
        self._watcher = Watcher(load, (), policy, first.end_s, self._note, clock=first.clock)
        self._found: list[tuple[Task, Sample]] = []
        self._scores: dict[Task, float] = {}
        self._instant = Instant(first.run.name, time_s, nan, clock=first.clock)

    def look(self) -> Instant:
        """Return what was found."""
        again = rerun(self._first, self._watcher)
        load, names = self._first.experiment.trace.workload, again.resources
        ends = dict(again.jobs.select("job_id", "end_time_s").drop_nulls().rows())
        self._watcher.tasks |= {task.index: task for task, _ in self._found}
        for task, sample in self._found:
            self._watcher.samples[task.index] = [(self._due_s, sample)]
        maker = IntervalMaker(self._watcher, load, names, ends)
        for task, _ in self._found:
            self._instant.waiting.append(self._row(maker, task, names))
        return self._instant

    def _row(self, maker: IntervalMaker, task: Task, names: Sequence[str]) -> Waiting:
        load = self._first.experiment.trace.workload
        (piece,) = maker.of(task.index, self._due_s, self._due_s + 1.0)
        asks = {name: amount for name, amount in zip(names, task.least, strict=True) if amount}
        return Waiting(
            load.job_id[task.job_index : task.job_index + 1].tolist()[0],
            load.task_id[task.index : task.index + 1].tolist()[0],
            max(self._time_s - task.submit_time_s, 0.0), asks, task.estimate_s, piece.cause,
            piece.sentence, self._scores.get(task),
        )  # fmt: skip

    def _note(self, simulation: Simulation) -> None:
        if self._since_s <= simulation.state.now <= self._time_s:
            self._take(self._watcher.onlooker(simulation))
        if self._progress is not None:
            self._progress(simulation)

    def _take(self, onlooker: Onlooker) -> None:
        """Take in the state; a later decision up to the time asked for takes its place."""
        state, instant = onlooker.state, self._instant
        instant.decided_s = self._due_s = state.now
        self._found = [*self._samples(onlooker)]
        self._scores = onlooker.scores()
        instant.running = len(state.running)
        self._note_machines(onlooker)
        self._note_plans(onlooker)

    @staticmethod
    def _samples(onlooker: Onlooker) -> Iterator[tuple[Task, Sample]]:
        for line in onlooker.lines():
            for place, task in enumerate(line.tasks):
                yield task, onlooker.queued(task, line, place)
        for tasks in onlooker.simulation.held_back().values():
            for task in tasks:
                if (sample := onlooker.held(task)) is not None:
                    yield task, sample
        others = [*onlooker.state.reservations]
        others += [allocation.task for allocation in onlooker.state.suspended]
        for task in others:
            if (sample := onlooker.elsewhere(task)) is not None:
                yield task, sample

    def _note_machines(self, onlooker: Onlooker) -> None:
        info, state, away = onlooker.state.info, onlooker.state, onlooker.away
        rows = zip(info.machine_names, state.capacity.tolist(), state.free.tolist(), strict=True)
        self._instant.machines = [
            Machine(
                name, dict(zip(info.resources, has, strict=True)),
                dict(zip(info.resources, free, strict=True)), away.get(number, ()),
            )
            for number, (name, has, free) in enumerate(rows)
        ]  # fmt: skip

    def _note_plans(self, onlooker: Onlooker) -> None:
        load, state = self._first.experiment.trace.workload, onlooker.state

        def name(task: Task) -> JobId:
            found: JobId = load.job_id[task.job_index : task.job_index + 1].tolist()[0]
            return found

        lines = [line for line in onlooker.lines() if line.passing in ("none", "head", "all")]
        self._instant.head = name(lines[0].tasks[0]) if lines else None
        self._instant.shadow_s = shadow_time_s(onlooker, lines[0].tasks[0]) if lines else None
        planned = [Planned(name(t), place.start_s, "reserved") for t, place in
                   state.reservations.items()]  # fmt: skip
        if lines:  # else it holds no places for them
            planned += [Planned(name(t), at, "planned") for t, at in onlooker.planned().items()]
        self._instant.reservations = sorted(planned, key=lambda each: each.start_s)
