"""How many decisions a second environments take: one, a vector of them, and games in lock-step.

    pytest tests/benchmarks/test_decisions_per_second.py -m slow -s

Random actions, masks and infos, resets among them, in one process; the figures are recorded in
docs/benchmarks.md. What counts is processor time, and the best of several windows. Where a bar is
absolute, each window is preceded by the time of a million additions in a Python loop, longer where
others use the core or its caches: the bar falls with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium

from simkit.agent.ready_pool import ready_set
from simkit.agent.slotted import Slotted
from simkit.env import SchedulingEnv
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.ready_pool.accounts import ACCOUNTS
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import streams_of
from simkit.learners.lockstep.vector_env import LockstepVectorEnv
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.models.deeprm import DeepRMModel

WINDOWS, QUIET_S = 12, 0.040
"""Windows of a measurement, and a million additions on a quiet core (s)."""


def additions_s() -> float:
    """Return the processor time of a million additions."""
    begin, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begin


def best(window: Callable[[], float], windows: int = WINDOWS) -> tuple[float, float]:
    """Return the most decisions a second in a window, and the share of a quiet core's speed."""
    found = [(additions_s(), window()) for _ in range(windows)]
    additions, speeds = zip(*found, strict=True)
    return max(speeds), min(QUIET_S / min(additions), 1.0)


def played(env: Any, actions: list[int]) -> float:
    """Return decisions a second of one environment."""
    env.reset(seed=0)
    begin = time.process_time()
    for action in actions:
        if any(env.step(action)[2:4]):
            env.reset()
    return len(actions) / (time.process_time() - begin)


@pytest.mark.slow
@pytest.mark.parametrize("made", [False, True], ids=["unwrapped", "gymnasium.make"])
@pytest.mark.parametrize("observation", ["deeprm-compact", "deeprm-image"])
def test_one_environment(observation: str, made: bool) -> None:
    """The compact observation takes 30,000 decisions a second on a quiet core."""
    env: Any = (
        gymnasium.make("simkit/DeepRM-v0", observation=observation)
        if made
        else SchedulingEnv("deeprm", observation)
    )
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 5_000).tolist()
    speed, share = best(lambda: played(env, actions))
    print(
        f"\n{observation}: {speed:,.0f} decisions/s, bar of the compact one {30_000 * share:,.0f}"
    )
    assert observation != "deeprm-compact" or speed >= 30_000 * share


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_vector_of_256(mode: str) -> None:
    """The mode NextStep takes 460,000 decisions a second on a quiet core."""
    envs, rng = LockstepVectorEnv(256, autoreset_mode=mode), np.random.default_rng(0)
    envs.reset(seed=0)

    def window() -> float:
        actions = rng.integers(0, 11, (400, 256))
        begin = time.process_time()
        for chosen in actions:
            envs.step(chosen)
        return actions.size / (time.process_time() - begin)

    speed, share = best(window)
    print(
        f"\n{mode}, 256 replicas: {speed:,.0f} decisions/s, bar of NextStep {460_000 * share:,.0f}"
    )
    assert mode != "NextStep" or speed >= 460_000 * share


@pytest.mark.slow
def test_two_thousand_games_of_slots() -> None:
    """A paper iteration's 2,000 games of DeepRM take half a million actions a second."""
    rng = np.random.default_rng(0)
    sets = JobSets(*DeepRMModel.of(rate=0.3794).draw_sets(rng, 100))
    env = Lockstep(Slotted(), sets, replicas=20)

    def window() -> float:
        env.reset()
        begin = time.process_time()
        while len(env.active):
            env.step(rng.integers(0, env.model.actions, len(env.active)))
        return float(env.decisions.sum()) / (time.process_time() - begin)

    speed, share = best(window, 5)
    print(f"\nlock-step, 2,000 games: {speed:,.0f} actions/s")
    assert speed > 500_000 * share


# ---- ready pools ---------------------------------------------------------------------------------

SCENARIO = load_scenario(scenario_path("rare"))
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


def in_lockstep(
    replicas: int, decisions: int, parts: Sequence[str] = ("value-at-decision", "wait")
) -> float:
    """Play random choices, seen as a set; return decisions a second."""
    hours, rng = 2200, np.random.default_rng(0)
    env = SchedulingEnv(SCENARIO, actions="ready-pool")
    pool = env._play.actions._tracker.pool  # type: ignore[attr-defined]
    where = POWERED if {"energy-cost", "carbon"} & {*parts} else SCENARIO
    streams = streams_of(where, range(64), hours, parts)
    games = ReadyGames(pool, streams, replicas, hours=hours, accounts=parts)
    taken, begun = 0, time.process_time()
    for _ in range(decisions):
        mask = games.mask()
        ready_set(games.view(), pool)
        taken += len(mask)
        games.step((mask * rng.random(mask.shape)).argmax(axis=1))
    return taken / (time.process_time() - begun)


def in_the_environment(decisions: int) -> float:
    """Play random choices; return decisions a second."""
    env, rng = SchedulingEnv(SCENARIO, actions="ready-pool"), np.random.default_rng(0)
    _, info = env.reset(seed=0)
    begun = time.process_time()
    for _ in range(decisions):
        mask = info["action_mask"]
        _, _, over, _, info = env.step(int((mask * rng.random(mask.shape)).argmax()))
        assert not over
    return decisions / (time.process_time() - begun)


@pytest.mark.thorough
def test_a_ready_pool_in_lockstep_is_five_times_faster_than_the_environment() -> None:
    ratios = [in_lockstep(2, 60) / in_the_environment(400) for _ in range(3)]
    assert max(ratios) > 5.0, ratios


@pytest.mark.slow
def test_512_ready_pools_and_what_each_part_of_their_accounts_takes() -> None:
    """Fifty thousand decisions a second; no part more than doubles the time of one."""
    without, both = (
        max(in_lockstep(8, 150, p) for _ in range(3)) for p in ((), ("value-at-decision", "wait"))
    )
    print(
        f"\nready pool of 5, 512 replicas: {both:,.0f} decisions/s, without accounts {without:,.0f}"
    )
    assert both > 50_000
    for name in ACCOUNTS:
        speed = max(in_lockstep(8, 150, (name,)) for _ in range(3))
        print(f"{name}: {speed:,.0f} decisions/s")
        assert speed > without / 2
