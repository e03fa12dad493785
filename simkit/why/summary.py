"""All waiting time of a run by cause: "61% of waiting is fragmentation, 22% limits of users"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import fsum
from typing import Any, NamedTuple

from simkit.engine.simulation import Simulation
from simkit.policy.lane import Line
from simkit.policy.task import Task
from simkit.results.run_folder import RunOrFolder
from simkit.shown import heading, table
from simkit.text import counted, printable
from simkit.units import format_duration
from simkit.why.causes import MEANINGS, Cause
from simkit.why.rerun import EndReachedError, original, rerun
from simkit.why.samples import Onlooker
from simkit.workload import Workload

__all__ = ["Share", "Summary", "explain_summary"]

_LONG = 16
"""From this many tasks of a line on, arrays count them."""


class Share(NamedTuple):
    """Waiting of one cause."""

    wait_s: float
    """Waiting of all tasks together, in s."""
    weighted: float
    """The same, each task's times what it asks of the first resource."""


@dataclass
class Summary:
    """Waiting time of a run by cause; `text` is what the command line prints."""

    run: str
    resource: str
    """The first resource; the second share is weighted with it."""
    causes: dict[Cause, Share]
    users: dict[tuple[str, str], Share] = field(default_factory=dict)
    """(user, partition) → what a limit of the user made wait."""
    tasks: int = 0
    """Tasks that waited."""
    note: str = ""

    @property
    def total(self) -> Share:
        """All waiting of tasks that had been submitted, until they started or the run's end."""
        return Share(
            fsum(share.wait_s for share in self.causes.values()),
            fsum(share.weighted for share in self.causes.values()),
        )

    def rows(self) -> list[tuple[Cause, float, float, float]]:
        """Return (cause, seconds, share of all, share weighted), the largest first."""
        total = self.total
        found = [
            (cause, each.wait_s, each.wait_s / total.wait_s,
             each.weighted / total.weighted if total.weighted else 0.0)
            for cause, each in self.causes.items() if each.wait_s
        ]  # fmt: skip
        return sorted(found, key=lambda row: -row[1])

    def limit_rows(self) -> list[tuple[str, str, float, float]]:
        """Return (user, partition, seconds, share of all) of limits, the largest first."""
        total = self.total.wait_s
        found = [(*key, each.wait_s, each.wait_s / total) for key, each in self.users.items()]
        return sorted(found, key=lambda row: -row[2])

    def as_json(self) -> dict[str, Any]:
        """Return the summary for scripts."""
        return {
            "run": self.run, "wait_s": self.total.wait_s, "tasks": self.tasks, "note": self.note,
            "causes": [
                {"cause": str(cause), "title": MEANINGS[cause].title, "wait_s": seconds,
                 "share": share, f"share_by_{self.resource}": weighted}
                for cause, seconds, share, weighted in self.rows()
            ],
            "limits": [
                {"user": user, "partition": partition, "wait_s": seconds, "share": share}
                for user, partition, seconds, share in self.limit_rows()
            ],
        }  # fmt: skip

    def text(self) -> str:
        """Return the summary as text."""
        return "\n".join(printable(line) for line in self._lines())

    def __str__(self) -> str:
        return self.text()

    def _lines(self) -> Iterator[str]:
        total = self.total
        if not total.wait_s:
            yield f"{self.run}: no task waited"
            return
        yield (
            f"{self.run}: {counted(self.tasks, 'task')} waited {format_duration(total.wait_s)} "
            "in all"
        )
        if self.note:
            yield f"note: {self.note}"
        yield f"{'of waiting':>12}{'by ' + self.resource:>16}  cause"
        for cause, seconds, share, weighted in self.rows():
            yield (
                f"{_percent(share):>12}{_percent(weighted):>16}  {MEANINGS[cause].title} "
                f"({format_duration(seconds)})"
            )
        limits = self.limit_rows()
        if limits:
            yield ""
            yield "limits of users, by what they made wait:"
        for user, partition, seconds, share in limits[:10]:
            where = f" in partition {partition}" if partition else ""
            yield f"{_percent(share):>12}  user {user}{where} ({format_duration(seconds)})"
        if len(limits) > 10:
            yield f"{'':12}  and {counted(len(limits) - 10, 'more user')}"

    def _repr_html_(self) -> str:
        """Return the summary for a notebook."""
        rows = [
            (MEANINGS[cause].title, format_duration(seconds), _percent(share), _percent(weighted))
            for cause, seconds, share, weighted in self.rows()
        ]
        return heading(self.run) + table(("cause", "waiting", "share", f"by {self.resource}"), rows)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 or not share else "< 0.1%"


def explain_summary(
    run: RunOrFolder,
    *,
    allow_partial: bool = False,
    allow_code: bool = True,
    progress: Any = None,
) -> Summary:
    """Return all waiting time of a run by cause; the run is made again.

    Every task counts from its job's submission to its first start, and again while it waits to
    start over or to go on. Between two decisions counts what blocked it after the first of them.

    Args:
        run: a run, or its folder.
        allow_partial: also explain a run that did not finish, up to its end.
        allow_code: False refuses a run whose scenario names code.
        progress: is called after every decision of the rerun.

    Raises RunError if the run cannot be made again.
    """
    first = original(run, allow_partial=allow_partial, allow_code=allow_code)
    workload = first.experiment.trace.workload
    sums = _Sums(workload, first.experiment.policy, first.end_s, progress)
    again = rerun(first, sums)
    note = "" if first.complete else f"the run is {first.run.status}; it is explained up to its end"
    names = first.experiment.cluster.partitions
    users = {
        (str(workload.label_of("user", user)), names[part].name if len(names) > 1 else ""): share
        for (user, part), share in sums.users.items()
    }
    shares = {cause: Share(*pair) for cause, pair in sums.causes.items()}
    resource = first.experiment.cluster.resources[0]
    return Summary(again.name, resource, shares, users, len(sums.waited), note)


class _Sums:
    """Adds up, decision by decision, what keeps how many tasks waiting."""

    def __init__(self, workload: Workload, policy: object, until_s: float, then: Any) -> None:
        self._workload, self._policy = workload, policy
        self._until_s, self._then = until_s, then
        self._onlooker: Onlooker | None = None
        self._now: dict[Cause, tuple[int, float]] = {}  # cause → tasks, and what they ask for
        self._limited: dict[tuple[int, int], tuple[int, float]] = {}
        self._since_s = 0.0
        self.causes: dict[Cause, tuple[float, float]] = {}
        self.users: dict[tuple[int, int], Share] = {}
        self.waited: set[int] = set()

    def __call__(self, simulation: Simulation) -> None:
        """Add up until this decision, and look at what waits after it."""
        if self._onlooker is None:
            self._onlooker = Onlooker(simulation, self._policy)
        now = simulation.state.now
        if now > self._until_s:
            raise EndReachedError
        self._add_up(now)
        self._onlooker.note_decision()
        self._look(self._onlooker)
        if self._then is not None:
            self._then(simulation)

    def _add_up(self, now: float) -> None:
        length = now - self._since_s
        if length and self._now:
            for cause, (count, weight) in self._now.items():
                seconds, weighted = self.causes.get(cause, (0.0, 0.0))
                self.causes[cause] = seconds + length * count, weighted + length * weight
            for key, (count, weight) in self._limited.items():
                share = self.users.get(key, Share(0.0, 0.0))
                self.users[key] = Share(
                    share.wait_s + length * count, share.weighted + length * weight
                )
        self._since_s = now

    def _look(self, onlooker: Onlooker) -> None:
        self._now.clear()
        self._limited.clear()
        state = onlooker.state
        self.waited.update(task.index for task in state.arrived if task.waiting)
        if state.queue.tasks:
            for line in onlooker.lines():
                self._look_at(onlooker, line)
        for cause, tasks in onlooker.simulation.held_back().items():
            for task in tasks:
                self._note(Cause(cause), task)
                self.waited.add(task.index)
        for task in state.reservations:
            self._note(Cause.RESERVED, task)
        for allocation in state.suspended:
            self._note(Cause.SUSPENDED_FIRST, allocation.task)

    def _look_at(self, onlooker: Onlooker, line: Line) -> None:
        if len(line.tasks) >= _LONG and self._look_at_long(onlooker, line):
            return
        for place, task in enumerate(line.tasks):
            self._note(onlooker.cause(task, place, line.passing), task)

    def _look_at_long(self, onlooker: Onlooker, line: Line) -> bool:
        """Count the tasks of a long line by arrays, where numbers tell it all; return whether so.

        That is where the line is the whole queue, of gangs, on one pool of one resource, and
        nothing is away, known ahead or suspended.
        """
        state = onlooker.state
        columns = state.queue.columns()
        plain = (
            line.passing in ("none", "head", "all")
            and len(line.tasks) == len(columns)
            and state.capacity.size == 1
            and not (onlooker.away or state.constrained or state.suspended)
        )
        if not plain or not columns.gang.all():
            return False
        head, demand = line.tasks[0], columns.demand[0]
        fits = demand <= max(float(state.room.total_free()[0]), 0.0)
        fits[state.queue.tasks.index(head)] = False
        if line.passing == "none":
            self._add(Cause.ORDER, len(columns) - 1, float(demand.sum()) - head.demand[0])
        else:
            behind = int(fits.sum())
            within = float(demand[fits].sum())
            self._add(Cause.RESERVATION, behind, within)
            rest = float(demand.sum()) - within - head.demand[0]
            self._add(Cause.RESOURCE, len(columns) - 1 - behind, rest)
        self._note(onlooker.cause(head, 0, line.passing), head)
        return True

    def _note(self, cause: Cause, task: Task) -> None:
        weight = task.demand[0] if task.gang else task.request[0] * task.remaining
        self._add(cause, 1, weight)
        if cause is Cause.USER_LIMIT:
            key = task.user, task.partition
            count, before = self._limited.get(key, (0, 0.0))
            self._limited[key] = count + 1, before + weight

    def _add(self, cause: Cause, tasks: int, weight: float) -> None:
        if tasks:
            count, before = self._now.get(cause, (0, 0.0))
            self._now[cause] = count + tasks, before + weight
