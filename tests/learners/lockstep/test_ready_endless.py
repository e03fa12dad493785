"""Ready pools without an end: each game is as one that ends, and the next one begins afresh."""

from __future__ import annotations

import numpy as np

from simkit.learners.lockstep.ready_pool.endless import EndlessReadyGames
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.streams import JobStreams, streams_of
from simkit.learning.ready_pool.observation import ReadyPool, ready_set
from simkit.scenario import Scenario

POOL = ReadyPool(ready=3, horizon=40, max_start=39)
HOURS = 120
SCENARIO = Scenario.model_validate({
    "name": "endless", "workload": {"type": "rare", "jobs": 60, "offered_load": 1.0}, "value": {},
    "estimates": "actual", "scheduling": {"step": "1h"},
    "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
})  # fmt: skip


def test_each_game_is_as_one_that_ends():
    rng, given = np.random.default_rng(0), list[int]()

    def fresh(count: int) -> JobStreams:
        seeds = [len(given) + number for number in range(count)]
        given.extend(seeds)
        return streams_of(SCENARIO, seeds, HOURS + POOL.horizon)

    endless = EndlessReadyGames(POOL, 3, fresh, hours=HOURS, late_leave=True)
    current, ended, seen = [0, 1, 2], 0, {seed: [] for seed in range(40)}
    for _ in range(400):
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
        alone = ReadyGames(
            POOL, streams_of(SCENARIO, [seed], HOURS + POOL.horizon), hours=HOURS, late_leave=True
        )
        for shown, action in seen[seed]:
            assert ready_set(alone.view(), POOL)[0].tolist() == shown.tolist()
            alone.step([action])
        assert not len(alone.active)
