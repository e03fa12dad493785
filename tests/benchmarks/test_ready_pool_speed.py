"""Decisions a second of lock-step ready pools, beside the environment that they equal."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import numpy as np
import pytest

from simkit.agent.ready_pool import ready_set
from simkit.env import SchedulingEnv
from simkit.learners.lockstep.ready_pool.accounts import ACCOUNTS
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import streams_of
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario

LEAST_RATIO = 5.0
LEAST_PER_S = 50_000
SCENARIO = load_scenario(scenario_path("rare"))


COUNTED = ("value-at-decision", "wait")
POWER = {
    "machines": {"idle_w": 20, "full_w": 100},
    "sources": {"wind": {"signal": {
        "type": "levels", "high_w": 1400, "low_w": 600, "high_share": 0.8, "step": "1h",
    }}},
    "grid": {"price_per_kwh": 0.2, "carbon_gco2_per_kwh": 300}, "supply": {"limit": "none"},
    "forecast": {"type": "perfect", "horizon": "48h", "step": "1h"},
}  # fmt: skip
POWERED = SCENARIO.model_validate(
    SCENARIO.model_dump(mode="json", exclude_unset=True) | {"power": POWER}
)


def in_lockstep(replicas: int, decisions: int, parts: Sequence[str] = COUNTED) -> float:
    """Play random choices, seen as a set; return decisions a second."""
    hours, rng = 2200, np.random.default_rng(0)
    env = SchedulingEnv(SCENARIO, actions="ready-pool")
    pool = env._actions._tracker.pool  # type: ignore[attr-defined]
    streams = streams_of(
        POWERED if {"energy-cost", "carbon"} & {*parts} else SCENARIO, range(64), hours, parts
    )
    games = ReadyGames(pool, streams, replicas, hours=hours, accounts=parts)
    taken, begun = 0, process_time()
    for _ in range(decisions):
        mask = games.mask()
        ready_set(games.view(), pool)
        taken += len(mask)
        games.step((mask * rng.random(mask.shape)).argmax(axis=1))
    return taken / (process_time() - begun)


def in_the_environment(decisions: int) -> float:
    """Play random choices; return decisions a second."""
    env, rng = SchedulingEnv(SCENARIO, actions="ready-pool"), np.random.default_rng(0)
    _, info = env.reset(seed=0)
    begun = process_time()
    for _ in range(decisions):
        mask = info["action_mask"]
        _, _, over, _, info = env.step(int((mask * rng.random(mask.shape)).argmax()))
        assert not over
    return decisions / (process_time() - begun)


def test_lockstep_is_several_times_faster_than_the_environment() -> None:
    ratios = [in_lockstep(2, 60) / in_the_environment(400) for _ in range(3)]
    assert max(ratios) > LEAST_RATIO, ratios


@pytest.mark.slow
def test_512_replicas_take_fifty_thousand_decisions_a_second() -> None:
    speeds = [in_lockstep(8, 150) for _ in range(5)]
    print(f"ready pool of 5, 512 replicas: {max(speeds):,.0f} decisions/s")
    assert max(speeds) > LEAST_PER_S


@pytest.mark.slow
def test_what_each_part_of_the_accounts_takes() -> None:
    """No part more than doubles the time of a decision."""
    without = max(in_lockstep(8, 150, ()) for _ in range(3))
    print(f"no accounts: {without:,.0f} decisions/s")
    for name in ACCOUNTS:
        speed = max(in_lockstep(8, 150, (name,)) for _ in range(3))
        print(f"{name}: {speed:,.0f} decisions/s")
        assert speed > without / 2
