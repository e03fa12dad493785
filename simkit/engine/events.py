"""The SimPy side: what happens by itself, and in which order at one instant.

Completions come first, then changes of capacity, then power, then reservations that fall due, then
arrivals, then wake-ups and the scheduler's ticks; when nothing is left at the instant, ONE
decision. The rank in SimPy's queue settles it: among events of one rank, the one scheduled first
comes first.

A replay spends most of its time here, so two things are leaner than SimPy makes them: an
allocation stands in SimPy's queue itself, without an event of its own, and arrivals are a
generator that its one alarm resumes directly. See docs/decisions/0009-lean-completions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

import simpy

from simkit.policy.task import Allocation, Task

Environment = simpy.Environment
Arriving = tuple[float, int, Sequence[Task], str]
"""A job at its submission: (time, row in the workload, tasks, why it can never run; or empty)."""
T = TypeVar("T")


class Rank(IntEnum):
    """The order of simultaneous events. What ends as its machine fails has ended."""

    COMPLETION = -1  # before SimPy's own events, which begin at 0: no other has it
    CAPACITY = 1
    POWER = 2
    RESERVATION = 3
    ARRIVAL = 4
    WAKE = 5


class Occurrence(simpy.Event):
    """Something that happens at a set time, to a subject."""

    _ok = True
    _value = None

    def __init__(
        self,
        env: simpy.Environment,
        time_s: float,
        rank: int,
        callback: Callable[[Any], None] | None = None,
        subject: Any = None,
    ) -> None:
        self.env = env
        self.callbacks = [] if callback is None else [callback]
        self.subject = subject
        env.schedule(self, rank, time_s - env.now)  # type: ignore[arg-type]


class Background(Protocol):
    """Events that keep no run alive by themselves."""

    @property
    def pending(self) -> int:
        """How many of them stand in SimPy's queue."""

    def worth_waiting(self) -> bool:
        """Tell, when nothing else is left, whether to let them happen all the same."""


class Backgrounds:
    """Several of them."""

    def __init__(self, parts: Sequence[Background]) -> None:
        self._parts = tuple(parts)

    @property
    def pending(self) -> int:
        return sum(part.pending for part in self._parts)

    def worth_waiting(self) -> bool:
        answers = [part.worth_waiting() for part in self._parts]  # each keeps count of its own
        return any(answers)


class NoBackground:
    """There are none."""

    pending = 0

    def worth_waiting(self) -> bool:
        return False


def completions(env: simpy.Environment) -> Callable[[float, Allocation], None]:
    """Return the function that lets an allocation end at a time."""
    queue, numbers = env._queue, env._eid

    def end_at(time_s: float, allocation: Allocation) -> None:
        heappush(queue, (time_s, -1, next(numbers), allocation))  # type: ignore[misc]

    return end_at


def instants(
    env: simpy.Environment, complete: Callable[[Allocation, float], None], background: Background
) -> Iterator[float]:
    """Let everything happen that is due at an instant, and yield that instant; then the next.

    Ends when nothing is left but the background.

    This is the one place that reads SimPy's own queue.
    """
    queue, first = env._queue, int(Rank.COMPLETION)
    alone = isinstance(background, NoBackground)
    while queue and (alone or len(queue) > background.pending or background.worth_waiting()):
        now, rank, _, event = heappop(queue)
        env._now = now
        while True:
            if rank == first:
                complete(event, now)  # type: ignore[arg-type]
            else:
                _happen(event)
            if not queue or queue[0][0] != now:
                break
            _, rank, _, event = heappop(queue)
        yield now


def _happen(event: simpy.Event) -> None:
    """Do what SimPy's `step` does with an event."""
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
    if not event._ok:
        raise event._value  # a process has failed


def submit_at_their_times(
    env: simpy.Environment,
    jobs: Iterable[Arriving],
    submit: Callable[[int, Sequence[Task], str], None],
) -> None:
    """Let every job be submitted at its time; `jobs` are in order of time."""
    alarm = Occurrence.__new__(Occurrence)  # one event, wound again for every instant
    process = _arrivals(env, alarm, jobs, submit)
    next(process)
    process.send([process.send])


def _arrivals(
    env: simpy.Environment,
    alarm: Occurrence,
    jobs: Iterable[Arriving],
    submit: Callable[[int, Sequence[Task], str], None],
) -> Generator[None, Any, None]:
    """Submit jobs; first sent what resumes it, then resumed by the alarm that it sets itself."""
    resume = yield
    queue, numbers, rank, due = env._queue, env._eid, int(Rank.ARRIVAL), None
    for time_s, row, tasks, refusal in jobs:
        if time_s != due:
            due, alarm.callbacks = time_s, resume
            heappush(queue, (due, rank, next(numbers), alarm))  # type: ignore[misc]
            yield
        submit(row, tasks, refusal)
    yield  # for good


def capacity_changes(
    env: simpy.Environment,
    instants: Iterable[tuple[float, T]],
    change: Callable[[T], None],
) -> Generator[simpy.Event, None, None]:
    """Let capacities change as known ahead; a process. `instants` are in order of time."""
    for time_s, subject in instants:
        yield Occurrence(env, time_s, Rank.CAPACITY)
        change(subject)


# MERGED The clock of slotted time: a decision at every step, whether or not something has changed.


_RANK = int(Rank.WAKE)
PATIENCE = 2000
"""Steps without a start after which a run in which nothing runs and nobody comes is over."""


class StepClock:
    """Ticks at every multiple of a step; a `Background`, so that it keeps no finished run alive.

    While tasks wait it goes on ticking even if nothing runs: a policy that withheld them may start
    them yet. One that never does is let go after `PATIENCE` steps.
    """

    def __init__(
        self,
        env: Environment,
        step_s: float,
        begin_s: float,
        tick: Callable[[], None],
        starts: Callable[[], int],
        anyone_waits: Callable[[], bool],
    ) -> None:
        self.pending = 1
        self._queue, self._numbers = env._queue, env._eid
        self._tick, self._starts, self._anyone_waits = tick, starts, anyone_waits
        self._step, self._due = step_s, -(-begin_s // step_s) * step_s
        self._last_starts = self._idle_steps = 0
        self._alarm = Occurrence.__new__(Occurrence)  # one event, wound again at every step
        self._callbacks: list[Callable[[Any], None]] = [self._ring]
        self._wind()

    def worth_waiting(self) -> bool:
        started, self._last_starts = self._starts() - self._last_starts, self._starts()
        self._idle_steps = 0 if started else self._idle_steps + 1
        return self._idle_steps <= PATIENCE and self._anyone_waits()

    def _ring(self, _event: Any) -> None:
        self._due += self._step
        self._wind()
        self._tick()

    def _wind(self) -> None:
        self._alarm.callbacks = self._callbacks
        heappush(self._queue, (self._due, _RANK, next(self._numbers), self._alarm))  # type: ignore[misc]
