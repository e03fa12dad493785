"""How many decisions a second go through `step`: DeepRM at 70 % load, resets included.

    pytest tests/benchmarks/test_env_speed.py -m slow -s

A random policy on the compact observation, one process; the figures are recorded in
docs/benchmarks.md. Printed beside them is the time of a million additions in a Python loop, about
0.04 s on a quiet core, to tell a slow machine from slow code. Nothing is asserted about time.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium

from simkit.env import SchedulingEnv

DECISIONS = 30_000


def additions_s() -> float:
    """Return the processor time of a million additions."""
    begin, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begin


def measure(env: Any) -> dict[str, float]:
    """Return decisions per second of processor time, and µs of a step and of a reset."""
    actions = np.random.default_rng(0).integers(0, env.action_space.n, DECISIONS).tolist()
    env.reset(seed=0)
    resets, in_resets, begin = 0, 0.0, time.process_time()
    for action in actions:
        if any(env.step(action)[2:4]):
            resets, entered = resets + 1, time.process_time()
            env.reset()
            in_resets += time.process_time() - entered
    spent = time.process_time() - begin
    return {
        "decisions_per_s": DECISIONS / spent,
        "step_us": (spent - in_resets) / DECISIONS * 1e6,
        "reset_us": in_resets / resets * 1e6,
        "resets": resets,
    }


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["deeprm-compact", "deeprm-image"])
@pytest.mark.parametrize("made", [False, True], ids=["unwrapped", "gymnasium.make"])
def test_decisions_per_second(observation: str, made: bool) -> None:
    env: Any = (
        gymnasium.make("simkit/DeepRM-v0", observation=observation)
        if made
        else SchedulingEnv("deeprm", observation)
    )
    figures = measure(env)
    print(f"\n{observation}: {figures | {'million_additions_s': additions_s()}}")
    assert figures["resets"] > 0
