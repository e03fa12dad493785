"""How many decisions a second go through `step`: DeepRM at 70 % load, resets included.

    pytest tests/benchmarks/test_env_speed.py -m slow -s

A random policy, one process; the figures are recorded in docs/benchmarks.md. What counts is
processor time, and the best of several windows, each preceded by the time of a million additions
in a Python loop: about 0.04 s on a quiet core, more where others use the core or its caches. The
bar of the compact observation, 30,000 decisions a second on a quiet core, falls with them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from core_speed import additions_s

pytest.importorskip("gymnasium")

import gymnasium

from simkit.env import SchedulingEnv

DECISIONS, WINDOWS = 5_000, 12
BAR_PER_S = 30_000
QUIET_S = 0.040
"""A million additions on a quiet core."""


def window(env: Any, actions: list[int]) -> dict[str, float]:
    """Return decisions per second of processor time, and µs of a step and of a reset."""
    before = additions_s()
    env.reset(seed=0)
    resets, in_resets, begin = 0, 0.0, time.process_time()
    for action in actions:
        if any(env.step(action)[2:4]):
            resets, entered = resets + 1, time.process_time()
            env.reset()
            in_resets += time.process_time() - entered
    spent = time.process_time() - begin
    return {
        "decisions_per_s": len(actions) / spent,
        "step_us": (spent - in_resets) / len(actions) * 1e6,
        "reset_us": in_resets / resets * 1e6,
        "million_additions_s": before,
    }


@pytest.mark.slow
@pytest.mark.parametrize("made", [False, True], ids=["unwrapped", "gymnasium.make"])
@pytest.mark.parametrize("observation", ["deeprm-compact", "deeprm-image"])
def test_decisions_per_second(observation: str, made: bool) -> None:
    env: Any = (
        gymnasium.make("simkit/DeepRM-v0", observation=observation)
        if made
        else SchedulingEnv("deeprm", observation)
    )
    actions = np.random.default_rng(0).integers(0, env.action_space.n, DECISIONS).tolist()
    window(env, actions)
    windows = [window(env, actions) for _ in range(WINDOWS)]
    best = max(windows, key=lambda one: one["decisions_per_s"])
    quickest_s = min(one["million_additions_s"] for one in windows)
    bar = BAR_PER_S * min(QUIET_S / quickest_s, 1.0)
    shown = {key: round(value, 4 if value < 1 else 1) for key, value in best.items()}
    print(f"\n{observation}, best of {WINDOWS} windows: {shown}")
    print(f"quickest million additions: {quickest_s:.4f} s; bar of the compact one: {bar:,.0f}/s")
    if observation == "deeprm-compact":
        assert best["decisions_per_s"] >= bar
