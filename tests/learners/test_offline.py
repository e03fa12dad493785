"""Learning from others' decisions: phases, mixtures of data and games, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ready_pools import check_acts_as_in_lockstep, ready_scenario
from trainings import check_resume, deeprm_scenario, small_training

from simkit.errors import RunError, ScenarioError
from simkit.gym.dataset import mix
from simkit.gym.record_dataset import Recording, record
from simkit.learners.actor_critic import ActorCriticTraining
from simkit.learners.agent import load_agent
from simkit.learners.common.off_policy.actor_and_critics import Transitions
from simkit.learners.lockstep.ready_pool.rules import ORDERS
from simkit.scenario import Scenario

PHASES: dict[str, Any] = {"clone": 1, "offline": 1}
PAID: dict[str, Any] = {
    "reward": "value-at-decision",
    "reward_arguments": {"discount": 0.98, "time_unit_s": 3600.0},
}  # fmt: skip
SEEN: dict[str, Any] = {
    "actions": "ready-pool", "observation": "ready-set", "action_arguments": {"max_start": 0},
}  # fmt: skip


def recorded(folder: Path, order: str = "qos", episodes: int = 2, **changes: Any) -> str:
    """Record what a rule does, and return the file."""
    path, where = folder / f"{order}.parquet", ready_scenario(**POLICY[order])
    record(where, path, Recording(**{**SEEN, **PAID, **changes}), range(episodes))
    return str(path)


POLICY: dict[str, dict[str, Any]] = {
    order: {"policy": {"order": order, "backfill": {"type": "ready-pool", "horizon": 0}}}
    for order in ("qos", "sjf")
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded(tmp_path_factory.mktemp("data"))


def training(where: Scenario | None = None, **arguments: Any) -> ActorCriticTraining:
    return small_training("offline", where=where, **arguments)


@pytest.mark.parametrize("further", [{}, {"actor": "regression", "critics": 1}])
def test_resumed_with_data_is_as_not_interrupted(further, data, tmp_path):
    check_resume(lambda: training(dataset=data, **PHASES, **further), tmp_path)


def test_phases_follow_one_another(data):
    made = training(dataset=data, **PHASES)
    rows = [made.step() for _ in range(4)]
    assert [row["loss"] > 0 for row in rows] == [False, True, True, True]
    assert ["value_per_hour" in row for row in rows] == [False, False, True, True]
    assert ["temperature" in row for row in rows] == [False, False, True, True]


@pytest.mark.thorough
def test_a_clone_decides_as_its_model(tmp_path):
    made = training(
        dataset=recorded(tmp_path, episodes=8), iterations=12, clone=12, offline=0, updates=120, hidden=32, batch=128,
        learning_rate=0.003,
    )  # fmt: skip
    assert agreement(made) < 0.85
    for _ in range(12):
        made.step()
    assert agreement(made) > 0.9


def agreement(made: ActorCriticTraining) -> float:
    """Return how often the likeliest action is that of the order by quality, where it acts."""
    streams, same, count = made.source.streams(range(901, 921)), 0, 0
    games = made.source.games(streams)
    while len(games.active):
        wanted = ORDERS["qos"](games)
        choice = games.mask()[:, :-1].sum(axis=1) > 1
        with torch.inference_mode():
            scores = made.network.actor(torch.from_numpy(games.observe())).numpy()
        own = np.where(games.mask(), scores, -np.inf).argmax(axis=1)
        same += int((own == wanted)[choice].sum())
        count += int(choice.sum())
        games.step(wanted)
    return same / count


@pytest.mark.parametrize("with_data", [False, True])
def test_the_wanted_entropy_falls_from_the_first_game_on(with_data, data):
    phases = {"dataset": data, **PHASES, "iterations": 6} if with_data else {}
    made = training(entropy=0.5, entropy_end=0.1, **phases)
    shares = []
    for _ in range(made.iterations):
        made.step()
        if made.phase == "online":
            shares.append(made._wanted_entropy())
    assert shares == pytest.approx([0.5, 0.3, 0.1, 0.1])


def test_half_of_what_is_learned_online_is_of_games(data):
    """Before games are played the data are all; without data the games are."""
    made = training(dataset=data, **PHASES, batch=1000)
    assert made.data is not None
    for _ in range(3):
        made.step()
    made.experience.memory._columns["seen"][:] = 7.0
    for phase, share in (("clone", 0.0), ("offline", 0.0), ("online", 0.5)):
        seen = made._batch(phase).seen
        assert len(seen) == 1000
        assert float((seen == 7.0).all(dim=1).float().mean()) == pytest.approx(share)
    alone = training(batch=1000)
    alone.step()
    assert len(alone._batch("online").seen) == 1000


def test_a_missing_dataset_is_said(tmp_path):
    with pytest.raises(RunError, match=r"nowhere\.parquet"):
        training(dataset=str(tmp_path / "nowhere.parquet"), **PHASES)


def test_data_of_another_pool_or_reward_are_refused(tmp_path):
    path = recorded(tmp_path, action_arguments={"max_start": 3, "reject": True}, reward="wait",
                    reward_arguments={})  # fmt: skip
    with pytest.raises(ScenarioError) as caught:
        training(dataset=path, **PHASES)
    kinds = ["max_start 3", "reject True", "reward is wait"]
    assert [kind in text for kind, text in zip(kinds, caught.value.problems, strict=True)] == [
        True
    ] * 3
    other = ready_scenario(admission={"slots": 5, "backlog": 144, "late": "leave"})
    with pytest.raises(ScenarioError, match="dataset"):
        training(dataset=path, where=other, **PHASES)


def test_data_of_another_size_or_rule_are_refused(data):
    other = ready_scenario(
        cluster={"machines": [{"count": 1, "processors": 20, "gpu": 20}]},
        admission={"slots": 8, "backlog": 144, "late": "stay"},
        workload={"type": "rare", "jobs": 40, "offered_load": 1.2, "units": 20},
    )
    with pytest.raises(ScenarioError) as caught:
        training(dataset=data, where=other, **PHASES)
    assert len(caught.value.problems) == 2


def test_data_are_paid_as_games_are(data):
    """The rewards of a recorded stream add up to those of the same stream in lock-step."""
    made = training(dataset=data, **PHASES)
    assert made.data is not None
    games, paid, hours = made.source.games(made.source.streams([0, 1])), 0.0, 0
    while len(games.active):
        paid += float(games.step(ORDERS["qos"](games)).sum())
        hours += int(games.passed.sum())
    columns = made.data.memory._columns
    until = float(columns["passed"].sum())
    assert until >= hours
    assert made.data.mean == pytest.approx(paid / hours, rel=0.15)


def test_a_dataset_that_has_changed_is_told(tmp_path):
    path = recorded(tmp_path)
    made = training(dataset=path, **PHASES)
    made.step()
    (tmp_path / "checkpoint").mkdir()
    made.save(tmp_path / "checkpoint")
    assert recorded(tmp_path, episodes=1) == path
    with pytest.raises(RunError, match="has changed since the training began"):
        training(dataset=path, **PHASES).load(tmp_path / "checkpoint")


def test_a_mix_is_checked_part_by_part(data, tmp_path):
    both = tmp_path / "mix.parquet"
    mix({Path(data): 0.5, Path(recorded(tmp_path, "sjf")): 0.5}, both)
    made = training(dataset=str(both), **PHASES)
    assert np.isnan(made.step()["loss"])  # a clone learns no values
    stay = ready_scenario(admission={"slots": 8, "backlog": 144, "late": "stay"})
    with pytest.raises(ScenarioError, match="late") as caught:
        training(dataset=str(both), where=stay, **PHASES)
    assert len(caught.value.problems) == 1


def test_any_reward_will_do_without_games(tmp_path):
    path = recorded(tmp_path, reward="value", reward_arguments={})
    made = training(dataset=path, iterations=2, **PHASES)
    assert ["value_per_hour" in made.step() for _ in range(2)] == [False, False]


def test_an_agent_of_a_ready_pool_knows_a_larger_one(tmp_path):
    made = small_training("rare")
    made.step()
    made.write_agent(tmp_path / "agent", {})
    larger = ready_scenario(
        cluster={"machines": [{"count": 1, "processors": 20, "gpu": 20}]},
        workload={"type": "rare", "jobs": 40, "offered_load": 1.2, "units": 20},
    )
    check_acts_as_in_lockstep(made, ready_scenario(), tmp_path / "again")
    assert load_agent(tmp_path / "agent", larger).differences(larger) == []


# --- other scenarios ------------------------------------------------------------------------------


def imitation(where: Scenario, folder: Path, seen: dict[str, Any], **arguments: Any) -> Any:
    """Return a training that has imitated what the policy of a scenario does."""
    path = folder / "other.parquet"
    record(where, path, Recording(**seen), range(30))
    made = small_training(
        "actor-critic", where=where, dataset=str(path), iterations=9, clone=8, offline=0,
        updates=60, hidden=32, batch=128, learning_rate=0.01, **arguments,
    )  # fmt: skip
    before = likeness(made)
    for _ in range(8):
        made.step()
    assert 1 - likeness(made) < 0.6 * (1 - before)
    return made


def likeness(made: Any) -> float:
    """Return the mean probability of the recorded actions."""
    columns = made.data.memory.draw(2000, np.random.default_rng(0)).columns
    batch = Transitions.of([columns])
    chances = made.network.log_probabilities(batch.seen, batch.allowed).exp()
    return float(chances.gather(-1, batch.actions.unsqueeze(-1)).mean().detach())


def test_a_rule_for_numbered_slots_is_imitated_before_episodes_are_played(tmp_path):
    where = deeprm_scenario(policy={"order": "sjf"})
    made = imitation(where, tmp_path, {
        "actions": "slots", "observation": "slot-set", "action_arguments": {"mask": "now"},
    })  # fmt: skip
    assert made.step()["return"] < 0


@pytest.mark.thorough
def test_a_rule_for_a_simulated_queue_is_imitated_before_episodes_are_played(tmp_path):
    where = Scenario.model_validate({
        "workload": {"type": "poisson", "jobs": 30, "processors": 4, "rate_per_s": 1.0,
                     "mean_run_time_s": 4},
        "cluster": {"processors": 8}, "policy": {"order": "sjf", "backfill": "none"},
    })  # fmt: skip
    seen = {"actions": "start", "observation": "queue-set", "slots": 64}
    made = imitation(where, tmp_path, seen, actions="start")
    assert "return" in made.step()
    with pytest.raises(ScenarioError, match="was recorded with actions start, but here it is"):
        imitation(where, tmp_path, seen)
    with pytest.raises(ScenarioError, match=r"offline: its critics count rewards as recorded"):
        small_training("actor-critic", where=where, dataset="x", clone=1, offline=1)
