"""The SimPy side: what happens by itself, and in which order at one instant.

Completions come first, then changes of capacity, then reservations that fall due, then arrivals,
then wake-ups and the scheduler's ticks; when nothing is left at the instant, ONE decision. The
rank in SimPy's queue settles it: among events of one rank, the one scheduled first comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from enum import IntEnum
from typing import Any, TypeVar

import simpy

from simkit.submission import Submitted
from simkit.task import Allocation

Environment = simpy.Environment
T = TypeVar("T")


class Rank(IntEnum):
    """The order of simultaneous events. What ends as its machine fails has ended."""

    COMPLETION = 0
    CAPACITY = 1
    RESERVATION = 3
    ARRIVAL = 4
    WAKE = 5


_COMPLETION = int(Rank.COMPLETION)  # a member of an enum costs more to look up


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


class Completion(simpy.Event):
    """The end of an allocation."""

    _ok = True
    _value = None

    def __init__(
        self,
        env: simpy.Environment,
        after_s: float,
        callbacks: list[Callable[[Any], None]],
        allocation: Allocation,
    ) -> None:
        self.callbacks = callbacks  # shared by all completions: nobody else may wait for one
        self.allocation = allocation
        env.schedule(self, _COMPLETION, after_s)  # type: ignore[arg-type]


def run_instant(env: simpy.Environment) -> float | None:
    """Let everything happen that is due at the next instant, and return that instant.

    None: nothing will happen any more. This is the one place that reads SimPy's own queue.
    """
    queue = env._queue
    if not queue:
        return None
    now, step = queue[0][0], env.step
    while queue and queue[0][0] == now:
        step()
    return now


def arrivals(
    env: simpy.Environment, jobs: Iterable[Submitted], submit: Callable[[Submitted], None]
) -> Generator[simpy.Event, None, None]:
    """Submit every job at its time; a process."""
    due, rank = None, int(Rank.ARRIVAL)
    alarm = Occurrence.__new__(Occurrence)  # one event, wound again for every instant
    for job in jobs:
        if job.time_s != due:
            due = job.time_s
            alarm.callbacks = []
            env.schedule(alarm, rank, due - env.now)  # type: ignore[arg-type]
            yield alarm
        submit(job)


def capacity_changes(
    env: simpy.Environment,
    instants: Iterable[tuple[float, T]],
    change: Callable[[T], None],
) -> Generator[simpy.Event, None, None]:
    """Let capacities change as known ahead; a process. `instants` are in order of time."""
    for time_s, subject in instants:
        yield Occurrence(env, time_s, Rank.CAPACITY)
        change(subject)
