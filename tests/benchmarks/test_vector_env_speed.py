"""Decisions a second through `VectorEnv.step`: 256 replicas of DeepRM, and one at a time.

    pytest tests/benchmarks/test_vector_env_speed.py -m slow -s

Random actions, the compact observation, masks and all infos; episodes end and begin among them.
What counts is processor time, and the best of several windows, each preceded by the time of a
million additions in a Python loop: about 0.037 s on a quiet core, more where others use the core or
its caches. The bar of the mode NextStep, 500,000 decisions a second on a quiet core, falls with
them. Windows of single environments take their turns among them, to compare.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from core_speed import additions_s

gymnasium = pytest.importorskip("gymnasium")

from simkit.env import SchedulingEnv  # noqa: E402
from simkit.learners.lockstep.vector_env import LockstepVectorEnv  # noqa: E402

REPLICAS, WINDOWS = 256, 12
BAR_PER_S = 500_000
QUIET_S = 0.037
"""A million additions on a quiet core."""


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
    windows = [(additions_s(), of_many(envs, rng), of_one(env, rng)) for _ in range(WINDOWS)]
    additions, many, one = zip(*windows, strict=True)
    bar = BAR_PER_S * min(QUIET_S / min(additions), 1.0)
    print(
        f"\n{mode}, {REPLICAS} replicas: {max(many):,.0f} decisions/s, a single one {max(one):,.0f}"
    )
    print(f"quickest million additions: {min(additions):.4f} s; bar of NextStep: {bar:,.0f}/s")
    if mode == "NextStep":
        assert max(many) >= bar
