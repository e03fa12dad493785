"""How fast windows of a log are played to learn from: whole, by a rule or a scorer, or decision by
decision.

    pytest tests/benchmarks/test_episode_speed.py -m slow -s

The unit of time is a plain loop of a million additions, which takes 0.026 s of a quiet core of the
machine on which docs/benchmarks.md was written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from simkit.gym.agent_view import AgentView
from simkit.learners.common.games import Games
from simkit.learners.games.simulations import SimulatedSource
from simkit.learners.pools.games import PoolGames
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.job_model import Rule, Windows, play_windows
from simkit.learners.scorers.job_scorer import JobScorer
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.swf import read_swf

SHARED = Path(__file__).resolve().parents[3] / "shared"
DATA = Path(os.environ.get("SIMKIT_DATA", SHARED / "data"))
LOG = DATA / "swf" / "SDSC-SP2-1998-4.2-cln.swf.gz"
UNIT_S = 0.026

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LOG.is_file(), reason="no log; set SIMKIT_DATA"),
]


def least_s(run: Callable[[], object], times: int = 5) -> float:
    """Return the least processor time of several runs."""
    taken = []
    for _ in range(times):
        before = time.process_time()
        run()
        taken.append(time.process_time() - before)
    return min(taken)


def a_million_additions() -> int:
    total = 0
    for number in range(1_000_000):
        total += number
    return total


def report(what: str, count: float, taken_s: float) -> float:
    """Print how many there are per second, and return how many in 0.026 s of the unit's machine."""
    unit_s = least_s(a_million_additions)
    found = count * unit_s / taken_s
    print(
        f"\n{what}: {count / taken_s / 1e6:.2f} M/s, a million additions {unit_s:.3f} s; "
        f"{found / UNIT_S / 1e6:.1f} M/s in units of {UNIT_S} s"
    )
    return found / UNIT_S


@pytest.fixture(scope="module")
def windows() -> Windows:
    workload = read_swf(LOG).workload
    jobs, rng = PoolJobs.of(workload, 128), np.random.default_rng(0)
    first = rng.integers(0, len(workload) - 256, 1024)
    return Windows.of([jobs.window(int(row), 256) for row in first])


def test_a_rule_plays_windows(windows: Windows) -> None:
    rules = [Rule.by_key(jobs.requested_s * jobs.processors) for jobs in windows.jobs]
    jobs = play_windows(windows, rules, visible=128).size
    taken_s = least_s(lambda: play_windows(windows, rules, visible=128))
    assert report("jobs by smallest area first", jobs, taken_s) > 6e6


@pytest.mark.parametrize("units", [0, 4])
def test_a_scorer_plays_windows(windows: Windows, units: int) -> None:
    blank = JobScorer.zero(units)
    drawn = blank.with_flat(np.random.default_rng(1).normal(0, 0.3, len(blank.flat)))
    jobs = play_windows(windows, [drawn], visible=128).size
    taken_s = least_s(lambda: play_windows(windows, [drawn], visible=128))
    assert report(f"jobs by {len(blank.flat)} weights", jobs, taken_s) > 1.5e6


@pytest.mark.parametrize(("slots", "least"), [(32, 1e6), (128, 4e5)])
@pytest.mark.parametrize("actions", ["next-head", "start"])
def test_games_are_played_decision_by_decision(
    monkeypatch: pytest.MonkeyPatch, actions: str, slots: int, least: float
) -> None:
    """64 environments, with masks and observations; one core."""
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    view = AgentView(observation="queue-set", actions=actions, slots=slots)
    source = SimulatedSource.of(load_scenario(scenario_path("sdsc-sp2")), view, "bounded-slowdown")
    slices = source.draw(np.random.default_rng(0), 64)
    simulated = source.simulations(slices[:8])
    slow_s = least_s(lambda: _play(simulated, 50), 1) / (8 * 50)
    assert isinstance(source.games(slices), PoolGames)
    _play(source.games(slices), 10)  # numba compiles
    taken = []
    for _ in range(5):
        games = source.games(slices)
        before = time.process_time()
        decisions = _play(games, 10_000)
        taken.append((time.process_time() - before) / decisions)
    print(f"\nsimulations {1 / slow_s:,.0f}/s, {slow_s / min(taken):,.0f} times slower")
    assert report(f"decisions, {actions}, {slots} rows", 1.0, min(taken)) > least
    assert slow_s / min(taken) > 50


def _play(games: Games, most: int) -> int:
    """Take the first action that is allowed while all games go on; return the decisions."""
    decisions = 0
    count = len(games.active)
    for _ in range(most):
        if len(games.active) < count:
            break
        games.observe()
        games.step(games.mask().argmax(axis=1))
        decisions += count
    return decisions
