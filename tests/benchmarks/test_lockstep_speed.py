"""Steps a second of the lock-step environment: a paper iteration's 2,000 games of DeepRM."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest

from simkit.agent.slotted import Slotted
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.traces.models.deeprm import DeepRMModel

LEAST_PER_S = 500_000
RATE_OF_70_PERCENT = 0.3794


def actions_per_s(env: Lockstep, rng: np.random.Generator) -> float:
    """Play all games with random actions; return decisions a second, drawing them included."""
    env.reset()
    begun = perf_counter()
    while len(env.active):
        env.step(rng.integers(0, env.model.actions, len(env.active)))
    return float(env.decisions.sum()) / (perf_counter() - begun)


@pytest.mark.slow
def test_two_thousand_games_take_half_a_million_actions_a_second() -> None:
    rng = np.random.default_rng(0)
    sets = JobSets(*DeepRMModel.of(rate=RATE_OF_70_PERCENT).draw_sets(rng, 100))
    env = Lockstep(Slotted(), sets, replicas=20)
    speeds = [actions_per_s(env, rng) for _ in range(5)]
    print(f"lock-step, 2,000 games: {max(speeds):,.0f} actions/s")
    assert max(speeds) > LEAST_PER_S
