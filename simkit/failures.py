"""Random failures: machines fail and are repaired, each in its own stream of random times."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np

from simkit.cluster import Failures
from simkit.machine_capacity import CapacityChange
from simkit.processes import Environment, Occurrence, Rank
from simkit.units import time_on_grid

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
