"""Ready pools without an end: each game is as one that ends, and the next one begins afresh."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from simkit.agent.ready_pool import ReadyPool, ready_set
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import JobStreams, streams_of
from simkit.scenario import Scenario

POOL = ReadyPool(ready=3, horizon=40, max_start=39)
HOURS = 120
SCENARIO = Scenario.model_validate({
    "name": "endless", "workload": {"type": "rare", "jobs": 60, "offered_load": 1.0}, "value": {},
    "estimates": "actual", "scheduling": {"step": "1h"},
    "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
    "admission": {"slots": 3},
})  # fmt: skip


@pytest.mark.thorough
def test_each_game_is_as_one_that_ends():
    rng, given = np.random.default_rng(0), list[int]()

    def fresh(count: int) -> JobStreams:
        seeds = [len(given) + number for number in range(count)]
        given.extend(seeds)
        return streams_of(SCENARIO, seeds, HOURS + POOL.horizon)

    rules = {"hours": HOURS, "late_leave": True}
    endless = ReadyGames(POOL, fresh(3), fresh=fresh, **rules)
    current, ended, seen = [0, 1, 2], 0, defaultdict[int, list[tuple[Any, int]]](list)
    for _ in range(1000):
        shown, mask = ready_set(endless.view(), POOL), endless.mask()
        actions = (mask * rng.random(mask.shape)).argmax(axis=1)
        for game in range(3):
            seen[current[game]].append((shown[game], int(actions[game])))
        known = len(given)
        endless.step(actions)
        assert endless.active.tolist() == [0, 1, 2]
        for number, game in enumerate(np.flatnonzero(endless.begun)):
            current[game] = known + number
            ended += 1
    assert ended >= 6
    for seed in range(ended):
        if seed in current:
            continue
        alone = ReadyGames(POOL, streams_of(SCENARIO, [seed], HOURS + POOL.horizon), **rules)
        for shown, action in seen[seed]:
            assert ready_set(alone.view(), POOL)[0].tolist() == shown.tolist()
            alone.step([action])
        assert not len(alone.active)


def test_streams_of_unequal_length_take_turns():
    """A window of the workload holds other numbers of jobs under other seeds."""
    told = SCENARIO.model_dump(mode="json", exclude_unset=True)
    told["workload"]["window"] = {"end": "3d"}
    scenario, seeds, lengths = Scenario.model_validate(told), iter(range(1000)), set()

    def fresh(count: int) -> JobStreams:
        found = streams_of(scenario, [next(seeds) for _ in range(count)], HOURS + POOL.horizon)
        lengths.add(found.enter.shape[1])
        return found

    endless, rng = ReadyGames(POOL, fresh(2), hours=HOURS, fresh=fresh), np.random.default_rng(0)

    def go(games: ReadyGames, draws: np.random.Generator, steps: int) -> list[int]:
        shown = []
        for _ in range(steps):
            mask = games.mask()
            games.step((mask * draws.random(mask.shape)).argmax(axis=1))
            shown.append(hash(ready_set(games.view(), POOL).tobytes()))
        return shown

    go(endless, rng, 300)
    assert len(lengths) > 1
    same = streams_of(scenario, [5, 5], 168)
    other = ReadyGames(POOL, same, hours=HOURS, fresh=lambda _: same)
    other.restore(endless.state())
    steps = 8  # within which no game ends
    assert go(other, np.random.default_rng(1), steps) == go(
        endless, np.random.default_rng(1), steps
    )
