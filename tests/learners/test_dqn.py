"""The deep Q-network: its targets and values by hand, and its agent on any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trainings import deeprm_scenario, schedqrm_scenario, small_training

from simkit import simulate
from simkit.arrays import stream
from simkit.errors import ScenarioError
from simkit.learners.common.off_policy.action_values import ValueNetwork, best_next
from simkit.learners.common.off_policy.experience import ComparingRecorder, Move
from simkit.learners.dqn import DQNTraining
from simkit.learners.lockstep.class_games import ClassGames
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.outcome import outcome
from simkit.learners.networks.build import build
from simkit.learners.networks.shapes import PerceptronShape
from simkit.learners.studies.schedqrm.rules import RULES
from simkit.scenario import Scenario


def training(where: Scenario | None = None, **arguments: Any) -> DQNTraining:
    return small_training("dqn", where=where, **arguments)


def plain(**changes: Any) -> dict[str, Any]:
    return schedqrm_scenario().model_dump(mode="json", exclude={"policy"}) | changes


@pytest.mark.parametrize(
    ("where", "starts", "rule"),
    [(schedqrm_scenario, "ahead", "SJF in order"), (deeprm_scenario, "now", "SJF")],
)
def test_untrained_it_is_shortest_first(where, starts, rule):
    made = training(where=where(), starts=starts, layout="classes")
    games = ClassLockstep(made.source.jobs.model, made.unseen)
    while len(games.active):
        games.step(RULES[rule].choose(games))
    found = dict(made.held_out())
    del found["return"]
    assert found == outcome(games)


@pytest.mark.thorough
def test_it_learns():
    """A few hundred updates see through a memory of random play that packs large jobs first."""
    made = training(iterations=12, job_sets=60, batch=64, hidden=16, explore=1.0, explore_end=1.0,
                    decisions_per_update=8, held_out_sets=100, replay=5000)  # fmt: skip
    with torch.no_grad():  # of a network that prefers the longest job
        made.network.advantages.score.weight[:] = 1.0
        made.network.advantages.item.weight[:, 1] = 1.0
    before = made.held_out()["slowdown"]
    for _ in range(12):
        made.step()
    assert made.held_out()["slowdown"] < before - 0.3


def test_an_error_counts_by_the_job_that_waits():
    """All values are 0 at first, so that the error of an episode's last decision is its reward."""
    jobs = np.array([2.0, 8.0], np.float32)
    losses = {}
    for per_job in (True, False):
        made = training(per_job=per_job, batch=64, duelling=False)
        for waiting in jobs:
            seen = np.zeros(made.shape.inputs + made.shape.outputs + 1, np.float32)
            seen[made.shape.inputs :] = 1.0
            seen[-1] = waiting
            made.memory.add(
                {"seen": seen, "action": 0, "reward": -3.0, "after": seen, "discount": 0.0}
            )
        drawn = made.memory.draw(64, np.random.default_rng(0)).columns["seen"][:, -1]
        made.generators["memories"] = np.random.default_rng(0)
        losses[per_job] = made._improve()
    assert losses[False] == pytest.approx(9.0)
    assert losses[True] == pytest.approx(float(np.mean((3.0 / drawn) ** 2)), rel=1e-5)


def test_double_networks_take_each_others_word():
    shape = PerceptronShape(type="perceptron", layers=(1, 1, 3), activation="relu")
    network, target = (ValueNetwork(build(shape), duelling=False) for _ in range(2))
    with torch.no_grad():
        network.advantages.last.bias[:] = torch.tensor([1.0, 3.0, 9.0])
        target.advantages.last.bias[:] = torch.tensor([5.0, 2.0, 7.0])
    seen, allowed = torch.zeros(1, 1), torch.tensor([[True, True, False]])
    assert best_next(network, target, seen, allowed, double=True).tolist() == [2.0]
    assert best_next(network, target, seen, allowed, double=False).tolist() == [5.0]


def test_two_streams_are_measured_from_the_mean_of_what_is_allowed():
    shape = PerceptronShape(type="perceptron", layers=(2, 4, 3), activation="relu")
    network = ValueNetwork(build(shape), duelling=True)
    with torch.no_grad():
        network.advantages.last.bias[:] = torch.tensor([1.0, 3.0, 100.0])
    values = network(torch.ones(1, 2), torch.tensor([[True, True, False]])).detach()
    assert (values[0, 1] - values[0, 0]).item() == pytest.approx(2.0)
    assert values[0, 2] == -torch.inf
    assert network.streams is not None
    state = network.streams(torch.ones(1, 2))[1]
    assert values[0, :2].mean().item() == pytest.approx(state.item(), abs=1e-5)


# --- The agent ------------------------------------------------------------------------------------


def agent_in(folder: Path, made: DQNTraining, iterations: int = 3) -> Path:
    for _ in range(iterations):
        made.step()
    folder.mkdir(exist_ok=True)
    made.write_agent(folder, {})
    return folder


def starts_in_lockstep(made: DQNTraining, where: Scenario) -> list[int]:
    sets = JobSets(*where.workload.draw_sets(stream(where.seed, "workload"), 1))  # type: ignore[union-attr]
    games = ClassGames(
        ClassLockstep(made.source.jobs.model, sets), made.chosen.starts,
        patience=made.chosen.patience, paper=made.chosen.network == "perceptron",
    )  # fmt: skip
    while len(games.active):
        games.step(made._best(made._see(games)))
    return games.lockstep.start[0].tolist()


@pytest.mark.parametrize(
    ("arguments", "rate"),
    [({}, None), ({}, 0.4), ({"network": "perceptron"}, 0.4), ({"starts": "now"}, None)],
)
def test_a_run_does_as_the_lockstep_games(arguments, rate, tmp_path):
    made = training(**arguments)
    folder = agent_in(tmp_path / "agent", made)
    for seed in range(2):
        workload = {"type": "schedqrm", "jobs": 12, "rate": rate}
        stated = plain(workload=workload, seed=seed, policy={"agent": str(folder)})
        found = simulate(stated).jobs.sort("job_id")["start_time_s"].to_list()
        assert found == starts_in_lockstep(made, Scenario.model_validate(stated))


@pytest.mark.parametrize("scheduling", [{"step": "1s"}, {}])
@pytest.mark.parametrize("patience", [0, 5])
def test_who_would_wait_for_ever_starts_when_patience_ends(scheduling, patience, tmp_path):
    """One task each time, in steps and from event to event; see also ``test_class_actions.py``."""
    made = training(starts="now", network="perceptron", patience=patience)
    with torch.no_grad():
        made.network.advantages.last.bias[-1] = 1e6  # that time goes on
    folder = agent_in(tmp_path / "agent", made, iterations=0)
    stated = plain(policy={"agent": str(folder)})
    found = simulate({**stated, "scheduling": scheduling}).jobs.sort("job_id")
    starts = found["start_time_s"].to_list()
    assert starts == starts_in_lockstep(made, Scenario.model_validate(stated))
    assert min(starts) == patience


def test_wrong_uses_of_an_agent(tmp_path):
    mine = {"agent": str(agent_in(tmp_path / "agent", training()))}
    three = {"machines": [{"count": 1, "cpu": 10, "mem": 10, "gpu": 1}]}
    for changes, text in (
        ({"policy": mine | {"args": {"patience": 3}}}, "does not take patience, but choose and"),
        ({"policy": mine | {"args": {"keep": "yes"}}}, "keep: must be true or false"),
        ({"policy": mine | {"args": {"step": "soon"}}}, "step: 'soon'"),
        ({"policy": {"agent": "deeprm-70", "args": {"step": "1h"}}}, "step"),
        ({"admission": {"slots": 3}, "policy": mine}, r"admission\.slots"),
        ({"cluster": three, "policy": mine}, "but 2 can be shown"),
    ):
        with pytest.raises(ScenarioError, match=text):
            simulate(plain(**changes))


def test_what_was_cut_off_is_not_taken_for_the_end():
    """Transitions that lead to a limit bootstrap, and the shaping does not reward it."""
    made = training(mask="none", max_decisions=5, steps=3, job_sets=4, network="perceptron")
    made.step()
    memory = made.memory.state()
    assert len(memory["discount"]) > 0
    assert (memory["discount"] == 1.0).all()  # eight jobs need eight decisions: none ended
    sets = made.unseen
    games = ClassGames(ClassLockstep(made.source.jobs.model, sets, limit=3), shaped=True)
    total = np.zeros(len(sets))
    first = games._potential
    assert first is not None
    while len(active := games.active):
        total[active] += games.step(RULES["SJF in order"].choose(games.lockstep))
    assert games.lockstep.cut.all()
    assert (total < 0).all()


def test_a_return_is_compared_with_the_mean_of_its_slice():
    """Two episodes of one slice: the second waits longer at its second step."""
    recorder = ComparingRecorder(2, 2, 1.0, by_step=True)
    both, none = np.array([0, 1]), np.zeros(2, np.bool_)
    for step, rewards in enumerate(([-1.0, -1.0], [-1.0, -5.0])):
        seen = np.full((2, 1), step, np.float32)
        move = Move(
            both, np.full(2, step), seen, both, none, ~none, np.array(rewards), seen, none, none
        )
        assert list(recorder.add(move)) == []
    found = list(recorder.rest())
    assert [row["reward"] for row in found] == pytest.approx([1.0, -1.0, 1.0, -1.0])
    assert [row["action"] for row in found] == [0, 1, 0, 1]
    assert all(row["discount"] == 0.0 for row in found)


@pytest.mark.parametrize("key", [{"mask": "none"}, {"network": "perceptron"}, {"shaping": False}])
def test_rules_of_classes_are_refused_elsewhere(key):
    with pytest.raises(ScenarioError, match=f"learn.arguments.{next(iter(key))}: "):
        training(where=deeprm_scenario(), **key)
