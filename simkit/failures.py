"""Random failures: machines fail and are repaired, each in its own stream of random times."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np

from simkit.cluster import Failures
from simkit.machine_capacity import CapacityChange
from simkit.processes import Background, Environment, Occurrence, Rank
from simkit.units import time_on_grid

FAILURE = "failure"


def let_fail(
    env: Environment,
    failures: Failures,
    machines: int,
    rng: np.random.Generator,
    take_place: Callable[[Sequence[CapacityChange]], None],
    background: Background,
) -> None:
    """Let machines fail for as long as anything else happens.

    Every machine draws from a stream of its own, so that its failures are the same whatever the
    policy does and whichever other machines fail.
    """
    streams = rng.spawn(machines)
    for machine in range(machines) if failures.machines is None else failures.machines:
        env.process(_life(env, failures, machine, streams[machine], take_place, background))


def _life(
    env: Environment,
    failures: Failures,
    machine: int,
    rng: np.random.Generator,
    take_place: Callable[[Sequence[CapacityChange]], None],
    background: Background,
) -> Generator[Occurrence, None, None]:
    """Let one machine fail and be repaired, for ever; a process."""
    while True:
        with background:
            yield _after(env, rng.exponential(failures.mtbf_s))
        now = env.now
        take_place([CapacityChange(now, machine, "down", FAILURE, running=failures.running)])
        yield _after(env, rng.exponential(failures.mttr_s))
        take_place([CapacityChange(env.now, machine, "up", FAILURE)])


def _after(env: Environment, seconds: float) -> Occurrence:
    return Occurrence(env, float(time_on_grid(env.now + seconds)), Rank.CAPACITY)
