"""The event loop: SimPy's environment, with the engine's order of events at one instant.

Completions come first, then changes of capacity, then power, then reservations that fall due, then
arrivals, then wake-ups and the scheduler's ticks; when nothing is left at the instant, ONE
decision. The rank in SimPy's queue settles it: among events of one rank, the one scheduled first
comes first. No other file knows this queue.

A replay spends most of its time here, so two things are leaner than SimPy makes them: allocations
stand in SimPy's queue themselves, those that end together as one entry and without a separate
event; and arrivals, like the ticks of a clock, are a generator that its one alarm resumes directly.
See docs/decisions/0009-lean-completions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from math import inf, nextafter
from typing import Any, NoReturn, TypeVar

import simpy

from simkit.errors import ProcessError, SimkitError
from simkit.policy.task import Allocation, Task
from simkit.units import TIME_GRID, time_on_grid

Arriving = tuple[float, int, Sequence[Task], str]
"""A job at its submission: (time, row in the workload, tasks, why it can never run; or empty)."""
T = TypeVar("T")
Event = simpy.Event


class Rank(IntEnum):
    """The order of simultaneous events. What ends as its machine fails has ended."""

    LIMIT = -2  # nothing more happens
    COMPLETION = -1  # before SimPy's own events, which begin at 0: no other has it
    CAPACITY = 1  # SimPy's normal priority: that of every event of a process
    POWER = 2
    RESERVATION = 3
    ARRIVAL = 4
    WAKE = 5


class Occurrence(simpy.Event):
    """Something that happens at a set time, to a subject."""

    def __init__(
        self, loop: EventLoop, callback: Callable[[Any], None], subject: Any = None
    ) -> None:
        self.env = loop
        self.callbacks = [callback]
        self.subject = subject


class BackgroundOccurrence(Occurrence):
    """One that does not keep the run going."""


class NamedEvent(simpy.Event):
    """An event that a process made; errors name the process."""

    def __init__(self, loop: EventLoop, process: str) -> None:
        super().__init__(loop)
        self.process = process


class EventLoop(simpy.Environment):
    """SimPy's environment; the simulation takes instants from it instead of calling `run`.

    The run goes on for as long as an `Occurrence`, a job or a completion is to come. All else is
    background: the events of SimPy processes (timeouts, conditions, …) and what `in_background`
    announces.
    """

    now = 0.0  # a property in SimPy, which takes a call; time is read very often
    """Seconds on the trace's clock."""

    def __init__(self, begin_s: float) -> None:
        super().__init__(begin_s)
        self.now = begin_s
        self._background = 0  # background events in the queue
        self._limits = 0  # those of them that only end the run
        self.worth_waiting: list[Callable[[], bool]] = []
        """Asked when only background is left: whether to let it happen. One yes is enough."""

    def schedule(self, event: simpy.Event, priority: int = Rank.CAPACITY, delay: float = 0) -> None:
        """Put an event of a SimPy process in the queue, on the grid of times."""
        self._background += 1
        time_s = float(time_on_grid(self.now + delay))
        heappush(self._queue, (time_s, priority, next(self._eid), event))  # type: ignore[misc]

    def at(
        self, time_s: float, rank: Rank, callback: Callable[[Any], None], subject: Any = None
    ) -> None:
        """Call back at a time, with an occurrence that holds the subject."""
        event = Occurrence(self, callback, subject)
        heappush(self._queue, (time_s, rank, next(self._eid), event))  # type: ignore[misc]

    def in_background(
        self, time_s: float, rank: Rank, callback: Callable[[Any], None], subject: Any = None
    ) -> None:
        """Call back at a time, if the run goes on until then."""
        self._background += 1
        event = BackgroundOccurrence(self, callback, subject)
        heappush(self._queue, (time_s, rank, next(self._eid), event))  # type: ignore[misc]

    def stop_after(self, time_s: float, error: Callable[[], SimkitError]) -> None:
        """Raise an error instead of anything that would happen later than a time.

        A run that ends before then does not meet it.
        """

        def stop(_event: Occurrence) -> NoReturn:
            raise error()

        after_s = max(time_s + TIME_GRID, nextafter(time_s, inf))  # at the clock's end, coarser
        self.in_background(after_s, Rank.LIMIT, stop)
        self._limits += 1

    def at_every(self, step_s: float, begin_s: float, tick: Callable[[], None]) -> None:
        """Call back at a time and at every step from then on, as a wake-up in the background."""
        alarm = BackgroundOccurrence.__new__(BackgroundOccurrence)  # one event, set again and again
        ticks = self._ticks(alarm, step_s, begin_s, tick)
        next(ticks)
        ticks.send([ticks.send])

    def _ticks(
        self, alarm: BackgroundOccurrence, step_s: float, due_s: float, tick: Callable[[], None]
    ) -> Generator[None, Any, None]:
        """Tick; first sent what resumes it, then resumed by the alarm that it sets."""
        resume = yield
        queue, numbers, rank = self._queue, self._eid, int(Rank.WAKE)
        while True:
            self._background += 1
            alarm.callbacks = resume
            heappush(queue, (due_s, rank, next(numbers), alarm))  # type: ignore[misc]
            yield
            tick()
            due_s += step_s

    def at_each(
        self,
        times: Iterable[tuple[float, T]],
        rank: Rank,
        callback: Callable[[T], None],
        last_s: float = inf,
    ) -> None:
        """Call back with each subject at its time; `times` are in order.

        Those after `last_s`, which may have no end, are in the background.
        """
        remaining = iter(times)

        def happen(event: Occurrence) -> None:
            callback(event.subject)
            wait_for_next()

        def wait_for_next() -> None:
            for time_s, subject in remaining:
                announce = self.at if time_s <= last_s else self.in_background
                announce(time_s, rank, happen, subject)
                return

        wait_for_next()

    def end_at(self, time_s: float, together: Sequence[Allocation]) -> None:
        """Complete allocations at a time."""
        heappush(self._queue, (time_s, -1, next(self._eid), together))  # type: ignore[misc]

    def submit_each(
        self, jobs: Iterable[Arriving], submit: Callable[[int, Sequence[Task], str], None]
    ) -> None:
        """Submit every job at its time; `jobs` are in order of time."""
        alarm = Occurrence.__new__(Occurrence)  # one event, set again for every instant
        process = self._arrivals(alarm, jobs, submit)
        next(process)
        process.send([process.send])

    def _arrivals(
        self,
        alarm: Occurrence,
        jobs: Iterable[Arriving],
        submit: Callable[[int, Sequence[Task], str], None],
    ) -> Generator[None, Any, None]:
        """Submit jobs; first sent what resumes it, then resumed by the alarm that it sets."""
        resume = yield
        queue, numbers, rank, due = self._queue, self._eid, int(Rank.ARRIVAL), None
        for time_s, row, tasks, refusal in jobs:
            if time_s != due:
                due, alarm.callbacks = time_s, resume
                heappush(queue, (due, rank, next(numbers), alarm))  # type: ignore[misc]
                yield
            submit(row, tasks, refusal)
        yield  # for good

    def instants(self, complete: Callable[[Sequence[Allocation], float], None]) -> Iterator[float]:
        """Run everything that is due at an instant and yield that instant; then the next.

        Ends when only background is left that is not worth waiting for. An exception that a SimPy
        process raises comes out here. Raises ProcessError for an event that fails while no process
        waits for it.
        """
        queue, first = self._queue, int(Rank.COMPLETION)
        while len(queue) > self._background or (
            len(queue) > self._limits and self._is_worth_waiting()
        ):
            now, rank, _, event = heappop(queue)
            self.now = now
            while True:
                if rank == first:
                    complete(event, now)  # type: ignore[arg-type]
                else:
                    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
                    for callback in callbacks:
                        callback(event)
                    kind = event.__class__
                    if kind is not Occurrence:
                        self._background -= 1
                        if kind is not BackgroundOccurrence and not (event.ok or event.defused):
                            _raise_failure(event, now)
                if not queue or queue[0][0] != now:
                    break
                _, rank, _, event = heappop(queue)
            yield now

    def _is_worth_waiting(self) -> bool:
        answers = [ask() for ask in self.worth_waiting]  # each keeps its own count, so ask all
        return any(answers)


def error_text(error: BaseException) -> str:
    """Return ``ValueError: pump broke`` of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _raise_failure(event: simpy.Event, now: float) -> NoReturn:
    """Raise the error of an event that failed; one of a process that nobody handled is quoted."""
    error: Any = event.value
    if isinstance(error, SimkitError) or not isinstance(error, Exception):
        raise error
    who = f"process {event.process} " if isinstance(event, NamedEvent) else ""
    raise ProcessError(
        f"{who}at {now:g} s: an event failed and no process waited for it: {error_text(error)}"
    ) from error
