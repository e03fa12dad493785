"""Games of a pool as arrays are those of simulations, number for number, and so are trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_replay import small_workload

pytest.importorskip("numba")

from simkit.agent.rewards import make_reward
from simkit.errors import PolicyError
from simkit.gym.agent_view import AgentView, Play
from simkit.gym.episodes import Episode, Episodes
from simkit.learners import ppo
from simkit.learners.games.pools import pool_rules, pool_slice
from simkit.learners.games.simulations import ORDERS, SimulatedGames, SimulatedSource
from simkit.learners.networks.shapes import SetPlaces
from simkit.learners.pools.games import PoolGames
from simkit.plugins import find
from simkit.scenario import Scenario

SMALL: dict[str, Any] = {
    "workload": {"type": "poisson", "jobs": 200, "processors": 8, "rate_per_s": 0.02},
    "cluster": {"processors": 8},
}
REWARDS = ("bounded-slowdown", "slowdown", "completion-time", "wait")
SLOTS = 4
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 40), st.integers(1, 8), st.integers(1, 60), st.just(-1)
    ),
    min_size=1,
    max_size=40,
)
"""Gap, run time, processors, request and user; run times may exceed requests, some are 0."""


def both(rows: Any, actions: str, reward: str, most: int) -> tuple[SimulatedGames, PoolGames]:
    """Return one episode twice: as a simulation, and as arrays."""
    scenario = Scenario.model_validate(SMALL)
    view = AgentView(observation="queue-set", actions=actions, slots=SLOTS)
    made = Episodes(scenario).prepare(0, workload=small_workload(rows))
    episode = Episode(made, make_reward(reward), records=True)
    play = Play(*view.build(scenario, episode.state.info))
    places = SetPlaces.of(play.encoder.schema, SLOTS)
    assert places is not None
    slow = SimulatedGames([play], [episode], places.order, most, keeps_records=True)
    rules = pool_rules(
        scenario, play.actions, play.encoder.schema, make_reward(reward), made, steps=256, most=most
    )
    own = pool_slice(made, make_reward(reward))
    assert rules is not None
    assert own is not None
    return slow, PoolGames([own], rules)


@given(
    rows=ROWS, actions=st.sampled_from(["next-head", "start"]), reward=st.sampled_from(REWARDS),
    seed=st.integers(0, 99), most=st.sampled_from([7, 2_000]),
)  # fmt: skip
@settings(deadline=None)
def test_everything_is_equal(rows, actions, reward, seed, most):
    slow, fast = both(rows, actions, reward, most)
    rng = np.random.default_rng(seed)
    orders = [find("simkit.policies", f"order.{name}")() for name in ORDERS]
    while True:
        for name in ("active", "steps", "cut"):
            assert getattr(slow, name).tolist() == getattr(fast, name).tolist(), name
        assert slow.waiting().tolist() == fast.waiting().tolist()
        assert slow.observe().tobytes() == fast.observe().tobytes()
        assert slow.observe().strides == fast.observe().strides  # networks add up in this order
        assert slow.mask().tolist() == fast.mask().tolist()
        if not len(slow.active):
            break
        for order in orders:
            assert slow.first_by(order).tolist() == fast.first_by(order).tolist()
        actions_taken = rng.integers(0, SLOTS + 1, 1)  # those that the mask forbids, too
        assert slow.step(actions_taken).tobytes() == fast.step(actions_taken).tobytes()
    told = slow.outcome()
    assert told == pytest.approx(fast.outcome(), rel=0, abs=0, nan_ok=True)
    found = slow.plays[0].episode.records().jobs["start_time_s"].fill_null(np.nan).to_numpy()
    assert np.array_equal(fast.start_s[0][: len(found)], found, equal_nan=True)


def test_crowded_pools_start_the_same():
    """Many jobs overtake heads here, so that spare processors matter."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        run = rng.integers(1, 40, 60)
        rows = np.stack([
            rng.integers(0, 3, 60), run, np.minimum(rng.geometric(0.4, 60), 8),
            np.ceil(run * rng.uniform(1, 4, 60)), np.full(60, -1),
        ], axis=1)  # fmt: skip
        slow, fast = both(rows.tolist(), "next-head", "wait", 5_000)
        while len(slow.active):
            actions = rng.integers(0, SLOTS, 1)
            assert slow.step(actions).tolist() == fast.step(actions).tolist()
        assert not len(fast.active)


def source(**changes: Any) -> SimulatedSource:
    view = AgentView(observation="queue-set", actions=changes.pop("actions", "next-head"), slots=9)
    reward = changes.pop("reward", "bounded-slowdown")
    return SimulatedSource.of(Scenario.model_validate(SMALL | changes), view, reward)


def test_several_slices_and_replicas():
    where = source()
    slices = where.draw(np.random.default_rng(0), 3)
    slow, fast = where.simulations(slices, 2), where.games(slices, 2)
    assert isinstance(fast, PoolGames)
    rng = np.random.default_rng(1)
    while len(slow.active):
        assert slow.observe().tobytes() == fast.observe().tobytes()
        actions = rng.integers(0, 10, len(slow.active))
        assert slow.step(actions).tobytes() == fast.step(actions).tobytes()
    assert not len(fast.active)
    assert slow.outcome() == fast.outcome()


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": {"machines": [{"count": 2, "processors": 4}]}},
        {"cluster": SMALL["cluster"] | {"maintenance": [
            {"start": "60s", "duration": "10s", "processors": 4}]}},
        {"walltime": "kill"},
        {"scheduling": {"every": "30s"}},
        {"admission": {"backlog": 5}},
        {"estimates": "user-mean"},
        {"estimates": {"type": "actual", "correction": "tsafrir"}},
        {"reward": "utilisation"},
        {"actions": "pick"},
    ],
)  # fmt: skip
def test_what_is_no_game_of_a_pool_is_simulated(changes):
    where = source(**changes)
    assert where.as_pools is None
    assert isinstance(where.games(where.draw(np.random.default_rng(0), 1)), SimulatedGames)


def test_a_number_that_is_no_action_is_refused():
    games = source().games(source().held_out(1))
    with pytest.raises(PolicyError, match=r"each must be one of 0 … 9"):
        games.step(np.array([10]))


@pytest.mark.thorough
def test_a_training_is_the_same(monkeypatch):
    """The same weights, numbers and held-out metrics, by either form."""
    arguments = {
        "jobs": 40, "job_sets": 2, "rollouts": 2, "warm_start": 2, "held_out_sets": 2, "hidden": 8,
    }  # fmt: skip
    found = []
    for _ in range(2):
        made = ppo.begin(Scenario.model_validate(SMALL), arguments, seed=0)
        logged = [dict(made.step()) for _ in range(2)]
        weights = [w.detach().numpy().tobytes() for w in made.network.parameters()]
        found.append((weights, logged, made.evaluate()))
        monkeypatch.setattr(SimulatedSource, "as_pools", None)
    assert found[0] == found[1]
