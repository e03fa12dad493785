"""Replays a run up to an instant, takes blockers away there, and sees whether a job starts.

The past stays what it was, the decision at that instant included. Then the named jobs are gone
wherever they wait or run, and the named limit, window or missing capacity with them, and another
decision follows at that instant. With `before`, they are gone before the first of these decisions:
then what would have started at that instant does not, and others may take its place.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from simkit.engine.events import Rank
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policy import Kill
from simkit.results.run_writer import MemoryWriter


class _OverError(Exception):
    """The instant is over."""


@dataclass
class Removal:
    """What is taken away, and when."""

    time_s: float
    jobs: Collection[int]
    """Rows of the workload."""
    window: bool = False
    """Whether the maintenance windows that are known ahead go, too."""
    capacity: bool = False
    """Whether all machines get back what they had at the start."""
    before: bool = False

    @classmethod
    def of(cls, interval, row_of, *, before=False):
        """Return the removal of what an interval names, at its beginning."""
        rows = {row_of[job] for job in interval.jobs}
        window, capacity = interval.needs == "window", interval.needs == "capacity"
        return cls(interval.start_s, rows, window, capacity, before)


@dataclass
class Intervening:
    """A policy before whose decisions at an instant something is taken away."""

    policy: Any
    removal: Removal
    job: int
    """Row of the job that is watched."""
    simulation: Any = None
    others: list[int] = field(default_factory=list)
    """Rows of the other jobs that waited or ran then and are not taken away."""
    started: bool = False
    _done: bool = False

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def reset(self, info, rng):
        self.policy.reset(info, rng)

    def schedule(self, state):
        due = state.now >= self.removal.time_s and not self._done
        if due and self.removal.before:
            self._done = True
            yield from self._take_away(state)
        yield from self.policy.schedule(state)
        if due and not self._done:
            self._done = True
            yield from self._take_away(state)
            events = self.simulation._events
            events.at(state.now, Rank.WAKE, self.simulation._wake)

    def _take_away(self, state):
        present = _present(self.simulation)
        waiting = False
        known = {task.job_index for task in present}
        self.others = sorted(known - {*self.removal.jobs, self.job})
        for task in present:
            if task.job_index in self.removal.jobs and task.job_index != self.job:
                waiting = waiting or task.waiting
                yield Kill(task)
        system = self.simulation._system
        if self.removal.window:
            system.outlook.known_steps.clear()
            system.outlook.recurring = ()
            system.note_constraints()
        if self.removal.capacity:
            for machine, amounts in enumerate(system.info.capacity.tolist()):
                system.room.change_capacity(machine, amounts)
            state.releases += 1
        if waiting and hasattr(self.policy, "plan"):
            self.policy.plan.void = True  # its places for jobs that were never there

    def watch(self, now):
        """See after a decision whether the job has started."""
        if now < self.removal.time_s:
            return
        state = self.simulation.state
        begun = any(a.task.job_index == self.job for a in state.running)
        self.started = self.started or begun
        if now > self.removal.time_s:
            raise _OverError


def _present(simulation):
    state = simulation.state
    found = dict.fromkeys(state.queue.tasks)
    for allocation in (*state.running, *state.suspended):
        found[allocation.task] = None
    for tasks in simulation.held_back().values():
        found.update(dict.fromkeys(tasks))
    found.update(dict.fromkeys(state.reservations))
    return list(found)


def replay_without(experiment, removal, job):
    """Return what happened; `started` tells whether the job started at the removal's instant."""
    policy = Intervening(experiment.policy, removal, job)
    load, cluster = experiment.trace.workload, experiment.cluster
    store = MemoryWriter({}, digested=False)
    simulation = Simulation(
        load, cluster, Recorder(load, cluster.resources, store, ()), rules=experiment.scenario,
        correction=experiment.scenario.estimates.correction, predictor=experiment.predictor,
        seed=experiment.scenario.seed, site=experiment.site,
        processes=experiment.build_processes(),
    )  # fmt: skip
    policy.simulation = simulation

    def watch(now):
        if removal.time_s < now:
            raise _OverError
        policy.watch(now)

    with suppress(_OverError):
        simulation.run(policy, experiment.scenario.seed, watch)
    return policy
