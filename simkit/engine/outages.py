"""Outages: capacity that goes and comes back, what happens to tasks on it, and random failures."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

import numpy as np

from simkit.engine.events import Event, Rank
from simkit.engine.execution import Execution
from simkit.engine.system import Patience, System
from simkit.workload.capacity import CapacityChange, MachineCapacity
from simkit.workload.cluster import MAINTENANCE, CapacityStep, Failures


class Outages:
    """Carries out changes of capacity."""

    def __init__(self, system: System, execution: Execution) -> None:
        """Begin without the machines that join later; announce the changes known ahead."""
        self._system = system
        self._execution = execution
        cluster = system.cluster
        self.machines = MachineCapacity(cluster.capacity)
        """What each machine offers, and why."""
        self.machines.leave_out(cluster.absent)
        self.any = bool(
            cluster.absent or cluster.maintenance or cluster.changes or cluster.failures
        )
        """Whether anything but power ever changes capacities."""
        self.on_change: Callable[[], None] | None = None
        """Called when anything but power has changed capacities."""
        self.changes_made = 0
        """Rises whenever capacities change."""
        for machine in cluster.absent:
            self._resize(machine, "drain", "joins later")
        by_instant = groupby(cluster.known_changes(), key=lambda change: change.time_s)
        groups = ((time_s, tuple(group)) for time_s, group in by_instant)
        last_s = cluster.last_single_change_s()
        system.events.at_each(groups, Rank.CAPACITY, self.take_place, last_s)
        if cluster.recurring:
            # A task that starts at none of the instants of one cycle never will.
            patience = Patience(system, system.outlook.cycle_s, lambda: system.state.starts)
            system.events.worth_waiting.append(patience.left)

    def take_place(self, group: Sequence[CapacityChange]) -> None:
        """Make all changes of an instant, then stop tasks that no longer fit."""
        self.change(group)
        if self.on_change is not None:
            self.on_change()
        for change in group:
            if change.running != "drain" and change.takes_away:
                self._evict(change.machine, keep_work=change.running == "suspend")

    def change(self, group: Sequence[CapacityChange], running: str | None = None) -> None:
        """Change capacities and stop nothing; `running` says how the caller will stop tasks."""
        state = self._system.state
        self._system.changed = True
        state.releases += 1
        self.changes_made += 1
        for change in group:
            self.machines.change(change)
            if change.cause == MAINTENANCE:
                self._pass_step(change)
            asker = {"process": change.process, "taken": change.takes_away}
            self._resize(
                change.machine,
                running or change.running,
                change.cause,
                asker if change.process else {},
            )
        self._system.note_constraints()

    def _pass_step(self, change: CapacityChange) -> None:
        """Take a step out of those that lie ahead; one that recurs is not among them."""
        sign = -1.0 if change.takes_away else 1.0
        amounts = tuple([sign * amount for amount in change.amount])
        step = CapacityStep(change.time_s, change.machine, amounts)
        with suppress(ValueError):
            self._system.outlook.known_steps.remove(step)

    def _resize(
        self, machine: int, running: str, cause: str, asker: Mapping[str, object] | None = None
    ) -> None:
        """Give a machine the capacity that it has by now, and record that.

        What a process asks for (`asker`) is recorded even if the capacity stays the same, as when
        the machine is down already.
        """
        system, room, new = self._system, self._system.room, self.machines.of(machine)
        old = room.capacity[machine].tolist()
        if new == old and not asker:
            return
        room.change_capacity(machine, new)
        totals = zip(system.recorder.capacity, old, new, strict=True)
        system.recorder.change_capacity([amount + b - a for amount, a, b in totals])
        names = system.cluster.resources
        facts = {"running": running, "cause": cause, **(asker or {})}
        system.books.capacity(machine, dict(zip(names, new, strict=True)), facts)

    def _evict(self, machine: int, *, keep_work: bool) -> None:
        """Take tasks off a machine until it has what the others hold, youngest first.

        A task that holds nothing of what is short stays.
        """
        for allocation in reversed(self._system.state.running):
            free = self._system.room.free()[machine]
            if (free >= 0).all():
                return
            needs_short = any(
                amount > 0 > left
                for amount, left in zip(allocation.task.request, free, strict=True)
            )
            if needs_short and any(row == machine for row, _ in allocation.on):
                self._execution.stop(allocation, keep_work=keep_work)


FAILURE = "failure"
"""The cause of random failures, in the records."""
_FAULT = -1  # the number of a random fault; a machine has one at a time


class MachineFailures:
    """Machines fail and are repaired at random for as long as anything else happens.

    Every machine draws from a separate stream, so its failures are the same whatever the
    policy does and whichever other machines fail.

    Failures and repairs never end, so they do not keep a run going. When nothing else is
    left, waiting tasks are given the repair of every machine that is down by then, once: one that
    starts on none of them never will.
    """

    def __init__(
        self,
        system: System,
        failures: Failures,
        rng: np.random.Generator,
        outages: Outages,
    ) -> None:
        self._system = system
        self._failures = failures
        self._outages = outages
        self._down: set[int] = set()
        self._awaited: set[int] = set()
        self._started = -1
        machines = len(system.cluster.capacity)
        streams = rng.spawn(machines)
        for machine in range(machines) if failures.machines is None else failures.machines:
            system.events.process(self._life(machine, streams[machine]))
        system.events.worth_waiting.append(self._worth_waiting)

    def _worth_waiting(self) -> bool:
        if not self._system.anyone_waits():
            return False
        if self._started != self._system.state.starts:
            self._started = self._system.state.starts
            self._awaited = set(self._down)
        return bool(self._awaited)

    def _life(self, machine: int, rng: np.random.Generator) -> Generator[Event, None, None]:
        """Make one machine fail and be repaired, without end; a SimPy process."""
        failures, events, outages = self._failures, self._system.events, self._outages
        while True:
            yield events.timeout(rng.exponential(failures.mtbf_s))
            self._down.add(machine)
            down = CapacityChange(
                events.now, machine, "down", FAILURE, (), failures.running, _FAULT
            )
            outages.take_place([down])
            yield events.timeout(rng.exponential(failures.mttr_s))
            self._down.discard(machine)
            self._awaited.discard(machine)
            outages.take_place([CapacityChange(events.now, machine, "up", FAILURE, fault=_FAULT)])
