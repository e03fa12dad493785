"""Outages: capacity that goes and comes back, and what becomes of the tasks that hold it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby

import numpy as np

from simkit.arrays import Floats
from simkit.engine.bookkeeping import Bookkeeping
from simkit.engine.events import Environment, Occurrence, Rank
from simkit.engine.execution import Execution
from simkit.engine.recorder import Recorder
from simkit.policy import State
from simkit.units import time_on_grid
from simkit.workload.capacity import CapacityChange, MachineCapacity
from simkit.workload.cluster import CapacityStep, Cluster, Failures, Maintenance

MAINTENANCE = "maintenance"


def changes(cluster: Cluster) -> list[CapacityChange]:
    """Return all changes in order of time; at one instant, what comes back before what goes."""
    windows = [change for window in cluster.maintenance for change in _window(window)]
    both = [*windows, *cluster.changes]
    return sorted(both, key=lambda change: (change.time_s, change.takes_away))


def _window(window: Maintenance) -> tuple[CapacityChange, CapacityChange]:
    down, up = window.steps()
    facts = (MAINTENANCE, window.amount, window.running)
    return (
        CapacityChange(down.time_s, window.machine, "take", *facts),
        CapacityChange(up.time_s, window.machine, "give", *facts),
    )


def known_ahead(cluster: Cluster) -> list[CapacityStep]:
    """Return the steps that policies may plan with: those of maintenance, in order of time."""
    steps = [step for window in cluster.maintenance for step in window.steps()]
    return sorted(steps, key=lambda step: (step.time_s, min(step.change) < 0))


def by_instant(
    all_changes: Sequence[CapacityChange],
) -> Iterator[tuple[float, list[CapacityChange]]]:
    """Yield each instant with the changes that take place at it."""
    for time_s, group in groupby(all_changes, key=lambda change: change.time_s):
        yield time_s, list(group)


class Outages:
    """Carries out changes of capacity."""

    def __init__(
        self,
        env: Environment,
        cluster: Cluster,
        state: State,
        recorder: Recorder,
        books: Bookkeeping,
        execution: Execution,
    ) -> None:
        self._env = env
        self._state = state
        self._recorder = recorder
        self._books = books
        self._execution = execution
        self._machines = MachineCapacity(cluster.capacity)
        self._machines.leave_out(cluster.absent)
        self._any = bool(
            cluster.absent or cluster.changes or cluster.maintenance or cluster.failures
        )
        self.on_change: Callable[[], None] = _nothing
        """Called when anything but power has changed capacities."""
        self.changes_made = 0
        """Rises whenever capacities change."""
        for machine in cluster.absent:
            self._resize(machine, "drain", "joins later")

    def take_place(self, group: Sequence[CapacityChange]) -> None:
        """Let all changes of an instant happen; only then is anything taken off."""
        self._change(group)
        self.on_change()
        for change in group:
            if change.running != "drain" and change.takes_away:
                self._evict(change.machine, keep_work=change.running == "suspend")

    def change(self, group: Sequence[CapacityChange], running: str) -> None:
        """Let changes happen; whoever asks for it stops tasks itself, `running` says how."""
        self._change(group, running)

    def _change(self, group: Sequence[CapacityChange], running: str | None = None) -> None:
        state = self._state
        self._state.changed = True
        state.releases += 1
        self.changes_made += 1
        for change in group:
            self._machines.change(change)
            if change.cause == MAINTENANCE:
                self._pass_step(change)
            self._resize(change.machine, running or change.running, change.cause)
        state.note_constraints()

    @property
    def any(self) -> bool:
        """Whether anything but power ever changes capacities."""
        return self._any

    def untouched(self, machine: int) -> list[float]:
        """Return (R,): what a machine would offer if power carried all of it."""
        return self._machines.untouched(machine)

    def is_there(self, machine: int) -> bool:
        """Tell whether a machine has joined and not left."""
        return self._machines.is_there(machine)

    def is_sound(self, machine: int) -> bool:
        """Tell whether a machine would offer anything if it were on."""
        return self._machines.is_sound(machine)

    def installed(self) -> Floats:
        """Return (M, R): what each machine brings when it is there."""
        return self._machines.installed

    def _pass_step(self, change: CapacityChange) -> None:
        """Take a step out of those that lie ahead."""
        sign = -1.0 if change.takes_away else 1.0
        amounts = tuple([sign * amount for amount in change.amount])
        self._state.known_steps.remove(CapacityStep(change.time_s, change.machine, amounts))

    def _resize(self, machine: int, running: str, cause: str) -> None:
        """Give a machine the capacity that it has by now."""
        room, new = self._state.room, self._machines.of(machine)
        old = room.capacity[machine].tolist()
        if new == old:
            return
        room.change_capacity(machine, new)
        total = [
            amount + b - a for amount, a, b in zip(self._recorder.capacity, old, new, strict=True)
        ]
        self._recorder.change_capacity(total)
        names = self._state.info.resources
        self._books.capacity(self._env.now, machine, new, names, running, cause)

    def _evict(self, machine: int, *, keep_work: bool) -> None:
        """Take tasks off a machine until it has what the others hold, youngest first.

        A task that holds nothing of what is short stays.
        """
        for allocation in reversed(self._state.running):
            free = self._state.room.free()[machine]
            if (free >= 0).all():
                return
            needs_short = any(
                amount > 0 > left
                for amount, left in zip(allocation.task.request, free, strict=True)
            )
            if needs_short and any(row == machine for row, _ in allocation.on):
                self._execution.stop(allocation, keep_work=keep_work)


def _nothing() -> None:
    """Do nothing."""


# MERGED Random failures: machines fail and are repaired, each in its own stream of random times.


FAILURE = "failure"
_FAULT = -1  # the number of a random fault; a machine has one at a time


class RandomFailures:
    """Lets machines fail for as long as anything else happens.

    Every machine draws from a stream of its own, so that its failures are the same whatever the
    policy does and whichever other machines fail.

    Failures and repairs would go on for ever; by themselves they keep no run alive. When nothing
    else is left, tasks that wait are given the repair of every machine that is down by then, once:
    whoever does not start on any of them never will.
    """

    def __init__(
        self,
        env: Environment,
        failures: Failures,
        machines: int,
        rng: np.random.Generator,
        take_place: Callable[[Sequence[CapacityChange]], None],
        starts: Callable[[], int],
        anyone_waits: Callable[[], bool],
    ) -> None:
        """`starts` counts what has started so far."""
        self._env = env
        self._failures = failures
        self._take_place = take_place
        self._starts = starts
        self._anyone_waits = anyone_waits
        self._down: set[int] = set()
        self._awaited: set[int] = set()
        self._started = -1
        self.pending = 0
        """Events in SimPy's queue that are of this process."""
        streams = rng.spawn(machines)
        for machine in range(machines) if failures.machines is None else failures.machines:
            env.process(self._life(machine, streams[machine]))

    def worth_waiting(self) -> bool:
        """Tell, when only failures and repairs are left, whether to let them happen."""
        if not self._anyone_waits():
            return False
        if self._started != self._starts():
            self._started = self._starts()
            self._awaited = set(self._down)
        return bool(self._awaited)

    def _life(self, machine: int, rng: np.random.Generator) -> Generator[Occurrence, None, None]:
        """Let one machine fail and be repaired, for ever; a process."""
        failures, running = self._failures, self._failures.running
        while True:
            yield self._after(rng.exponential(failures.mtbf_s))
            self.pending -= 1
            self._down.add(machine)
            now = self._env.now
            self._take_place([CapacityChange(now, machine, "down", FAILURE, (), running, _FAULT)])
            yield self._after(rng.exponential(failures.mttr_s))
            self.pending -= 1
            self._down.discard(machine)
            self._awaited.discard(machine)
            now = self._env.now
            self._take_place([CapacityChange(now, machine, "up", FAILURE, fault=_FAULT)])

    def _after(self, seconds: float) -> Occurrence:
        self.pending += 1
        time_s = float(time_on_grid(self._env.now + seconds))
        return Occurrence(self._env, time_s, Rank.CAPACITY)
