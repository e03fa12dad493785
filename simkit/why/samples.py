"""What keeps tasks waiting at one decision: looks at the state that the policy has left."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from inspect import signature
from math import inf, isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError
from simkit.policy import Profile, Room, State
from simkit.policy.lane import Line, Passing
from simkit.policy.room import total_usable
from simkit.policy.task import Allocation, Task
from simkit.policy.what_if import starts_now
from simkit.text import amount_text, counted
from simkit.why.causes import Cause
from simkit.why.rerun import RunClock
from simkit.workload.cluster import MAINTENANCE

_POWER = ("power", "switched off")
_CONTAINER = "container"  # a service that is always there: it is not missed


class Scene(NamedTuple):
    """What several samples of one decision share."""

    room: Room
    """What was free, a copy."""
    running: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """What keeps one task waiting from a decision on, until the next."""

    cause: Cause
    ahead: tuple[Task, ...] = ()
    """The tasks that are named, in order."""
    place: int = 0
    """How many tasks are ahead of it in the queue."""
    short: tuple[float, ...] = ()
    """(R,) what it lacks of each resource, over all machines it may use."""
    needs: str = ""
    """What it lacks besides: ``room``, a place that running jobs hold; ``capacity`` that is away;
    ``window``, that one begins later."""
    scene: Scene | None = field(default=None, compare=False)
    resumes: Allocation | None = None
    """The suspended allocation that waits to go on."""
    says: str = ""
    """What the policy, or who holds it back, says of it."""
    takers: tuple[Task, ...] = ()
    """Tasks ahead that would take the place that ends leave."""
    gone: tuple[Task, ...] = ()
    """What ends when a task that is held back is let in and starts at once."""
    rivals: int = 0
    """How many tasks wait in the queue then."""
    known: int = 0
    """How many of the named tasks were let in before it; the others are ahead of it."""


class Onlooker:
    """Tells causes at a decision, once the policy has acted; one for a whole run."""

    def __init__(
        self,
        simulation: Simulation,
        policy: object,
        fresh: object = None,
        clock: RunClock | None = None,
    ) -> None:
        """`fresh` is a copy of the policy from before the run, to try things with; None: none.

        `clock`: how times are written; None: since the trace's zero.
        """
        self._clock = clock or RunClock()
        self.simulation, self.policy, self._fresh = simulation, policy, fresh
        self.state: State = simulation.state
        self._installed = simulation.info.capacity
        self._seen_events = 0
        self._away: dict[int, dict[str, None]] = {}  # machine → why it is smaller
        self._scene: tuple[tuple[int, int, float], Scene] | None = None
        self._profile: tuple[float, int, Profile] | None = None
        self._planned: dict[Task, float] | None = None

    # ---- what has happened to machines --------------------------------------------------------

    def note_decision(self) -> None:
        """Take in that another decision is made, and why machines are smaller since the last."""
        self._planned = None
        events = self.simulation.recorder.events
        if len(events) < self._seen_events:
            self._seen_events = 0  # they have been written
        for row in events[self._seen_events :]:
            if row[1] == "capacity":
                self._note_capacity(int(row[4]), json.loads(row[5]))
        self._seen_events = len(events)

    def _note_capacity(self, machine: int, facts: dict[str, Any]) -> None:
        amounts = np.array([*facts["capacity"].values()])
        causes = self._away.setdefault(machine, {})
        if (amounts >= self._installed[machine]).all():
            causes.clear()
        elif facts.get("taken", True) and facts["cause"] != _CONTAINER:
            causes[str(facts["cause"])] = None

    @property
    def away(self) -> dict[int, tuple[str, ...]]:
        """Machine → why it has less than at the start, as far as it has."""
        return {machine: tuple(causes) for machine, causes in self._away.items() if causes}

    # ---- causes -------------------------------------------------------------------------------

    def lines(self) -> list[Line]:
        """Return the waiting tasks in order; those that the policy does not name come last."""
        found: list[Line] = []
        if (ask := getattr(self.policy, "lines", None)) is not None:
            found = ask(self.state)
        shown = sum(len(line.tasks) for line in found)
        if shown != len(self.state.queue.tasks):
            known = {task for line in found for task in line.tasks}
            rest = [task for task in self.state.queue.tasks if task not in known]
            found = [*found, Line(rest, "own")]
        return found

    def cause(self, task: Task, place: int, passing: Passing, fits: bool | None = None) -> Cause:
        """Return why a task in the queue does not start; `place` tasks are ahead of it."""
        if place and passing == "none":
            return Cause.ORDER
        if passing == "own" and self.planned().get(task, -inf) > self.state.now:
            return Cause.POLICY  # its start was chosen, whatever is free until then
        if (self.state.room.fit(task) is not None) if fits is None else fits:
            return self._cause_of_fitting(task, place, passing)
        if self._away and (why := self._missing(task)) is not None:
            return why
        return Cause.RESOURCE if any(self.short(task)) else Cause.FRAGMENTATION

    def _cause_of_fitting(self, task: Task, place: int, passing: Passing) -> Cause:
        state = self.state
        if (state.constrained or state.suspended) and not self._fits_through(task):
            if state.reservations:
                return Cause.RESERVED
            return Cause.WINDOW_AHEAD
        if place and passing in ("head", "all"):
            return Cause.RESERVATION
        if passing == "all" and (planned := self.planned().keys()):
            return Cause.RESERVATION if planned - {task} else Cause.RESERVED
        return Cause.SUSPENDED_FIRST if state.suspended else Cause.POLICY

    def _fits_through(self, task: Task) -> bool:
        """Return whether it fits now through its estimate, whatever else waits."""
        return self.profile().fit(task, self.state.now) is not None

    def profile(self) -> Profile:
        """Return the availability profile after the decision; not to be changed."""
        now, starts = self.state.now, self.state.starts
        if self._profile is None or self._profile[:2] != (now, starts):
            self._profile = now, starts, self.state.profile()
        return self._profile[2]

    def _missing(self, task: Task) -> Cause | None:
        """Return why capacity is away with which a task would fit; None: it would not."""
        room = self.state.room.copy()
        for machine in self._away:
            room.change_capacity(machine, self._installed[machine].tolist())
        if room.fit(task) is None:
            return None
        rows = self._away if task.machines is None else set(task.machines) & self._away.keys()
        causes = {cause for machine in rows for cause in self._away[machine]}
        if causes & {*_POWER}:
            return Cause.POWER
        return Cause.MAINTENANCE if MAINTENANCE in causes else Cause.MACHINES_DOWN

    def short(self, task: Task) -> tuple[float, ...]:
        """Return (R,) what a task lacks of each resource, over all machines it may use."""
        room = self.state.room
        free: Sequence[float] = total_usable(room)
        if task.machines is not None:
            free = np.maximum(room.free()[list(task.machines)], 0.0).sum(axis=0).tolist()
        return tuple(
            [
                max(amount - max(left, 0.0), 0.0)
                for amount, left in zip(task.least, free, strict=True)
            ]
        )

    # ---- samples ------------------------------------------------------------------------------

    def scene(self) -> Scene:
        """Return what is free and what runs now."""
        state = self.state
        version = (state.starts, state.releases, state.now if state.suspended else 0.0)
        if self._scene is None or self._scene[0] != version:
            self._scene = version, Scene(state.room.copy(), tuple(state.running))
        return self._scene[1]

    def queued(self, task: Task, line: Line, place: int) -> Sample:
        """Return why a task of the queue does not start."""
        fits = self.state.room.fit(task) is not None
        cause = self.cause(task, place, line.passing, fits)
        ahead: tuple[Task, ...] = ()
        needs = says = ""
        if cause in (Cause.RESOURCE, Cause.FRAGMENTATION):
            needs = "room"
        elif cause in (Cause.MAINTENANCE, Cause.MACHINES_DOWN, Cause.POWER):
            ahead, needs = tuple(line.tasks[:place]), "capacity"  # which would start first
            says = self._nearest(task)
        elif cause is Cause.WINDOW_AHEAD:
            needs = "window"
        elif cause is Cause.SUSPENDED_FIRST:
            ahead = tuple(allocation.task for allocation in self.state.suspended)
        elif cause is Cause.RESERVED:
            ahead = tuple(self.state.reservations)
            says = self._planned_for(self.planned().get(task))
        elif cause is Cause.ORDER:
            ahead, needs = tuple(line.tasks[:place]), self._needs_besides(task, fits)
        elif cause is Cause.RESERVATION:
            ahead = self._delayed(task, line, place)
        return Sample(
            cause, ahead, place, self.short(task), needs, self.scene(),
            says=self._word_of_policy(task) if cause is Cause.POLICY else says,
        )  # fmt: skip

    def _nearest(self, task: Task) -> str:
        """Return what an instance lacks on the machine that comes nearest; empty if one has room.

        Nearest is where the sum of what is lacking, each as a share of what is asked, is least.
        """
        rows = np.arange(len(self.state.free)) if task.machines is None else [*task.machines]
        asked = np.array(task.request)
        lacking = np.maximum(asked - np.maximum(self.state.room.free()[rows], 0.0), 0.0)
        shares = np.divide(lacking, asked, out=np.zeros_like(lacking), where=asked > 0).sum(axis=1)
        nearest = int(shares.argmin())
        info = self.state.info
        short = " and ".join(
            amount_text(amount, name)
            for name, amount in zip(info.resources, lacking[nearest].tolist(), strict=True)
            if amount
        )
        machine = info.machine_names[rows[nearest]]
        return f"no machine has room, {machine} came nearest: short by {short}" if short else ""

    def _planned_for(self, start_s: float | None) -> str:
        if start_s is None:
            return ""
        return f"its start is planned for {self._clock.text(start_s)}"

    def confirmed(self, task: Task, line: Line, sample: Sample, gone: Sequence[Task]) -> Sample:
        """Return a sample with the jobs ahead that would take the place that others leave.

        `gone` are the jobs that end at the task's start. If it would not start now without them,
        others ahead would: the shortest part of the queue, from the head on, is named as well.
        """
        testable = sample.needs == "room" and sample.place and line.passing in ("head", "all")
        if not testable or not gone or self._starts_without(task, line, gone):
            return sample
        ahead = line.tasks[: sample.place]
        if not self._starts_without(task, line, [*gone, *ahead]):
            return sample
        takers = self._shortest(task, line, ahead, 0, gone)
        return replace(sample, takers=tuple(takers))

    def _needs_besides(self, task: Task, fits: bool) -> str:
        """Return what a task would lack if it were first in the queue."""
        if not fits:
            return "capacity" if self._away and self._missing(task) is not None else "room"
        return "window" if self.state.constrained and not self._fits_through(task) else ""

    def _word_of_policy(self, task: Task) -> str:
        words = words_of(self.policy, "why", self.state.now, self.state, task)
        if start_s := self._planned_for(self.planned().get(task)):
            words = f"{words}; {start_s}" if words else start_s
        score = self.scores().get(task)
        return words if score is None else f"{words or 'not chosen'}; its score is {score:.6g}"

    def planned(self) -> dict[Task, float]:
        """Return when waiting tasks are to start, of a policy that plans this; else nothing."""
        if self._planned is None:
            self._planned = numbers_of(self.policy, "planned", self.state.now)
        return self._planned

    def scores(self) -> dict[Task, float]:
        """Return the scores of waiting tasks, of a policy with ``scores(state)``; else none."""
        scores = numbers_of(self.policy, "scores", self.state.now, self.state)
        return {task: score for task, score in scores.items() if isfinite(score)}

    def _delayed(self, task: Task, line: Line, place: int) -> tuple[Task, ...]:
        """Return the jobs ahead that a task would delay: few without which it starts.

        First the one at the head is tried; then the shortest part of the queue, from the head on,
        by halving; and of that part, its last alone.
        """
        ahead = line.tasks[:place]
        if not ahead:
            return self._planned_before(task)
        if self._starts_without(task, line, ahead[:1]):
            return (ahead[0],)
        first = self._shortest(task, line, ahead, 1)
        last = first[-1]
        if self._starts_without(task, line, [last]):
            return (last,)
        return tuple(first)

    def _shortest(
        self, task: Task, line: Line, ahead: Sequence[Task], low: int, gone: Sequence[Task] = ()
    ) -> Sequence[Task]:
        """Return the first of those ahead, as few as suffice without which a task starts.

        All of them suffice, besides those that are gone; the first `low` do not.
        """
        high = len(ahead)
        while high - low > 1:
            middle = (low + high) // 2
            if self._starts_without(task, line, [*gone, *ahead[:middle]]):
                high = middle
            else:
                low = middle
        return ahead[:high]

    def _planned_before(self, task: Task) -> tuple[Task, ...]:
        """Return the tasks behind that are to start before a task would end, soonest first."""
        end_s = self.state.now + task.estimate_s
        others = [(at, o.index, o) for o, at in self.planned().items() if o is not task]
        others.sort()
        return tuple([each[2] for each in others if each[0] < end_s] or [o for *_, o in others])

    def _starts_without(self, task: Task, line: Line, without: Sequence[Task]) -> bool:
        if self.state.suspended or self._fresh is None:
            return False  # what is suspended cannot be played on
        try:
            return starts_now(self.state, self._as_ordered(line), task, {*without})
        except PolicyError:
            return False

    def _as_ordered(self, line: Line) -> Any:
        """Return a copy of the policy whose order is what the line is now."""
        policy: Any = copy(self._fresh)
        policy.order = _AsItIs({task.index: n for n, task in enumerate(line.tasks)})
        policy.backfill = deepcopy(getattr(policy, "backfill", None))
        return policy

    def held(self, task: Task) -> Sample | None:
        """Return what holds a task back before the queue; None: nothing does."""
        for cause, tasks in self.simulation.held_back().items():
            if task in tasks:
                let_in, ahead = self.simulation.ahead_of(task)
                fits = self.state.room.fit(task) is not None
                needs = self._needs_besides(task, fits) if let_in else ""
                return Sample(
                    Cause(cause), (*let_in, *ahead), len(ahead), self.short(task), needs,
                    self.scene(), says=self._limit(Cause(cause), task, len(let_in)),
                    known=len(let_in),
                )  # fmt: skip
        return None

    def _limit(self, cause: Cause, task: Task, let_in: int) -> str:
        """Return which limit of a number of jobs or tasks holds a task back; empty: none does."""
        if cause is Cause.ADMISSION:
            fill = "fills" if let_in == 1 else "fill"
            return f"{counted(let_in, 'task')} {fill} the slots of the queue"
        if cause is not Cause.USER_LIMIT:
            return ""
        partition = self.state.info.partitions[task.partition]
        jobs = counted(int(partition.max_running_per_user), "job")
        where = f" in partition {partition.name}" if partition.name else ""
        return f"at most {jobs} of its user may run{where}"

    def elsewhere(self, task: Task) -> Sample | None:
        """Return why a task that is neither queued nor held back waits; None: it does not."""
        if (place := self.state.reservations.get(task)) is not None:
            return Sample(Cause.RESERVED, says=self._planned_for(place.start_s))
        for allocation in self.state.suspended:
            if allocation.task is task:
                return Sample(
                    Cause.SUSPENDED_FIRST, needs="room", scene=self.scene(), resumes=allocation
                )
        return None


def fresh_copy(policy: object) -> object:
    """Return a copy of a policy that has not run; None if it has an order and cannot be copied."""
    try:
        return deepcopy(policy) if hasattr(policy, "order") else None
    except Exception:  # objects of others may raise anything
        return None


class _AsItIs:
    """An order that is what it is now."""

    def __init__(self, place: dict[int, int]) -> None:
        self._place = place

    def key(self, task: Task) -> float:
        return float(self._place.get(task.index, inf))


_FORMS: Final = {
    "why": "why(self, state, task) → text",
    "scores": "scores(self, state) → {task: number}",
    "planned": "planned(self) → {task: time in s}",
}
"""Method → how it is asked, and what it returns."""


def words_of(policy: object, name: str, now_s: float, *given: object) -> str:
    """Return the words of a policy's method; empty if it has none.

    Raises PolicyError if it cannot be called so.
    """
    ask = _method(policy, name, now_s, given)
    return "" if ask is None else str(ask(*given))


def numbers_of(policy: object, name: str, now_s: float, *given: object) -> dict[Task, float]:
    """Return task → number of a policy's method; nothing if it has none.

    Raises PolicyError if it cannot be called so, or returns anything else.
    """
    ask = _method(policy, name, now_s, given)
    if ask is None:
        return {}
    found = ask(*given)
    if not isinstance(found, Mapping):
        raise _wrong(policy, name, now_s, f"returned {_shown(found)}")
    for task, number in found.items():
        if not isinstance(task, Task):
            raise _wrong(policy, name, now_s, f"has {_shown(task)} where a task is due")
        if isinstance(number, str) or not hasattr(number, "__float__"):
            raise _wrong(policy, name, now_s, f"has {_shown(number)} where a number is due")
    return {task: float(number) for task, number in found.items()}


def _method(
    policy: object, name: str, now_s: float, given: tuple[object, ...]
) -> Callable[..., Any] | None:
    ask: Callable[..., Any] | None = getattr(policy, name, None)
    if ask is None:
        return None
    if not callable(ask):
        raise _wrong(policy, name, now_s, f"is {_shown(ask)}")
    try:
        signature(ask).bind(*given)
    except TypeError as error:
        raise _wrong(policy, name, now_s, f"cannot be called: {error}") from None
    except ValueError:  # compiled code does not tell what it takes
        pass
    return ask


def _wrong(policy: object, name: str, now_s: float, what: str) -> PolicyError:
    return PolicyError(
        f"{type(policy).__name__} at {now_s:g} s: {name} {what}; explain asks for {_FORMS[name]}"
    )


def _shown(value: object) -> str:
    """Return a value's type, and its text if that is short."""
    text = repr(value)
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= 40 and value is not None else kind
