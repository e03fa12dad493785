"""Decisions a second through `VectorEnv.step`: 256 replicas of DeepRM, and one at a time.

    pytest tests/benchmarks/test_vector_env_speed.py -m slow -s

Random actions, the compact observation, masks and all infos; episodes end and begin among them.
What counts is processor time, and the best of several windows. Windows of the lock-step environment
and of single ones take turns, so that the ratio holds on a busy machine too.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from simkit.env import SchedulingEnv  # noqa: E402
from simkit.learners.lockstep.vector_env import LockstepVectorEnv  # noqa: E402

REPLICAS, WINDOWS = 256, 12
TIMES_SINGLE = 9.5
"""500,000 decisions a second where a single environment takes 52,500, as on a quiet machine."""


def of_many(envs: LockstepVectorEnv, rng: np.random.Generator) -> float:
    """Return decisions per second of processor time in 400 steps of all replicas."""
    actions = rng.integers(0, 11, (400, REPLICAS))
    begin = time.process_time()
    for chosen in actions:
        envs.step(chosen)
    return actions.size / (time.process_time() - begin)


def of_one(env: Any, rng: np.random.Generator) -> float:
    """Return decisions per second of processor time in 3,000 steps."""
    actions = rng.integers(0, 11, 3_000).tolist()
    begin = time.process_time()
    for action in actions:
        if any(env.step(action)[2:4]):
            env.reset()
    return len(actions) / (time.process_time() - begin)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_decisions_per_second(mode: str) -> None:
    rng = np.random.default_rng(0)
    envs, env = LockstepVectorEnv(REPLICAS, autoreset_mode=mode), SchedulingEnv("deeprm")
    envs.reset(seed=0)
    env.reset(seed=0)
    pairs = [(of_many(envs, rng), of_one(env, rng)) for _ in range(WINDOWS)]
    many, one = (max(speeds) for speeds in zip(*pairs, strict=True))
    print(f"\n{mode}, {REPLICAS} replicas: {many:,.0f} decisions/s; a single one: {one:,.0f}/s")
    assert many > TIMES_SINGLE * one
