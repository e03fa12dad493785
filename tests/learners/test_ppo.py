"""PPO over numbered slots: repeatable, resumable, honest about its arguments, and it learns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trainings import check_held_out_changes_nothing, check_resume, deeprm_scenario, weights

from simkit.errors import RunError, ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.common.rollouts import roll_out
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import MixedJobs, job_source
from simkit.learners.lockstep.outcome import outcome
from simkit.learners.ppo import PPOTraining, begin
from simkit.scenario import Scenario
from simkit.training.evaluate import Candidate, evaluate

SMALL = {
    "job_sets": 4,
    "rollouts": 3,
    "iterations": 4,
    "held_out_sets": 3,
    "hidden": 8,
    "batch": 64,
}


SOFIA = {
    "workload": {
        "type": "sofia", "positions": 20, "capacity": 10, "short_steps": [1, 2],
        "long_steps": [5, 8], "dominant": [4, 6], "other": [1, 2],
    },
    "admission": {"slots": 3},
}  # fmt: skip


CROWDED = {"workload": {"type": "deeprm", "offered_load": 1.3, "steps": 15}}
"""So many jobs that it matters which one begins."""


def training(seed: int = 0, where: Scenario | None = None, **arguments: Any) -> PPOTraining:
    made = begin(where or deeprm_scenario(), {**SMALL, **arguments}, seed=seed)
    assert isinstance(made, PPOTraining)
    return made


SETTINGS: list[Mapping[str, Any]] = [
    {},
    {"loads": [0.3, 1.3], "weights": [3, 1]},
    {"objective": "completion"},
    {"starts": "ahead"},
]


@pytest.mark.parametrize("arguments", SETTINGS)
def test_resumed_is_as_not_interrupted(arguments: Mapping[str, Any], tmp_path: Path) -> None:
    check_resume(lambda: training(**arguments), tmp_path)


def test_the_number_of_torchs_threads_changes_nothing() -> None:
    before = torch.get_num_threads()
    one, other = training(), training()
    one.step()
    torch.set_num_threads(2)
    other.step()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    assert weights(one) == weights(other)


def test_a_look_at_the_held_out_sets_changes_nothing() -> None:
    check_held_out_changes_nothing(training)


def test_another_seed_is_another_training(tmp_path: Path) -> None:
    one, other = training(seed=0), training(seed=1)
    one.save(tmp_path)
    assert weights(one) != weights(other)
    with pytest.raises(RunError, match="seed is 0 there, 1 here"):
        other.load(tmp_path)


def test_the_agent_that_is_written_decides_as_the_network_does(tmp_path: Path) -> None:
    made = training()
    made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    agent = load_agent(tmp_path / "agent", deeprm_scenario())
    games = made._games(made.unseen_sets, 1)
    seen = games.observe()
    with torch.inference_mode():
        expected = made.network.actor(torch.from_numpy(seen)).numpy()
    assert np.allclose(agent._network.logits(seen), expected, atol=1e-6)


def test_an_agent_that_places_ahead_runs_as_in_its_training(tmp_path: Path) -> None:
    made = training(starts="ahead")
    made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    games = made._games(made.unseen_sets, 1)
    while len(games.active):
        mask = games.mask()
        assert (mask[:, -1] != mask[:, :-1].any(axis=1)).all()
        with torch.inference_mode():
            logits = made.network.actor(torch.from_numpy(games.observe())).numpy()
        games.step(np.where(mask, logits, -np.inf).argmax(axis=1))
    greedy = {"agent": str(tmp_path / "agent"), "args": {"choose": "greedy"}}
    found = evaluate(deeprm_scenario(), [Candidate("agent", greedy)], sets=3, workers=1)
    assert found.candidates[0].pooled_mean == pytest.approx(outcome(games.lockstep)["slowdown"])


def test_a_load_counts_by_its_weight_in_the_gain() -> None:
    equal, weighted = training(loads=[0.3, 1.3]), training(loads=[0.3, 1.3], weights=[3, 1])
    parts = []
    for made in (equal, weighted):
        sets = made.source.draw(np.random.default_rng(0), 4)
        games = made._games(sets, made.chosen.rollouts)
        rollouts = roll_out(games, made.network, np.random.default_rng(0))
        parts.append(made._batch(rollouts, *made._advantages(rollouts)))
    ratio = (parts[1].advantage / parts[0].advantage).numpy()
    assert set(ratio[np.isfinite(ratio)].round(4)) == {0.5, 1.5}


def test_all_mistakes_are_told_at_once() -> None:
    wrong = deeprm_scenario(
        cluster={"machines": [{"count": 2, "cpu": 10, "mem": 10}]}, scheduling={"step": "2s"}
    )
    with pytest.raises(ScenarioError) as error:
        begin(wrong, {"hiden": 3, "rollouts": 1, "loads": [0.5, -1]}, seed=0, device="cuda")
    told = [text.partition(":")[0] for text in error.value.problems]
    assert told == [
        "device", "learn.arguments.loads.1", "learn.arguments.rollouts", "learn.arguments.hiden",
        "cluster.machines", "scheduling.step",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "arguments", "text"),
    [
        (SOFIA, {"loads": [0.5]}, "learn.arguments.loads: only the workload deeprm has"),
        ({}, {"loads": [0.5, 2.0]}, "^learn.arguments.loads: 2 needs"),
        ({}, {"loads": [0.1, 0.2, 1.8]}, "job_sets: is 4, of which the loads 1.8 get none"),
        ({}, {"weights": [1.0]}, "^learn.arguments.weights: has 1 numbers for 0 loads"),
        ({"workload": {"type": "deeprm", "rate": 0.0001}}, {}, "held_out_sets: .* are empty"),
    ],
)
def test_what_it_cannot_learn_from_is_refused(changes, arguments, text) -> None:
    with pytest.raises(ScenarioError, match=text):
        training(where=deeprm_scenario(**changes), **arguments)


def test_of_several_loads_each_brings_as_many_jobs() -> None:
    mixed = job_source(deeprm_scenario(), "ppo", (0.1, 0.3, 1.2))
    sets = mixed.draw(np.random.default_rng(0), 1700)
    assert np.bincount(mixed.source_of(1700)).tolist() == [1200, 400, 100]
    jobs = np.bincount(mixed.source_of(1700), sets.jobs)
    assert jobs == pytest.approx([jobs.mean()] * 3, rel=0.1)


def test_of_several_loads_as_many_sets_are_held_out() -> None:
    mixed = job_source(deeprm_scenario(), "ppo", (0.1, 1.8))
    assert isinstance(mixed, MixedJobs)
    few, many = mixed.sources[0].held_out(3), mixed.sources[1].held_out(2)
    assert mixed.held_out(5).jobs.tolist() == [*few.jobs, *many.jobs]


def test_an_iteration_without_a_job_learns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = training()
    before = weights(made)
    monkeypatch.setattr(made.source, "draw", lambda rng, sets: JobSets.empty(2, 3, 2))
    assert made.step() == {"return": 0.0, "unfinished": 0.0, "decisions": 0.0}
    assert weights(made) == before


@pytest.mark.long
@pytest.mark.parametrize("changes", [CROWDED, SOFIA])
def test_it_learns_to_do_better_than_chance(changes) -> None:
    made = training(
        where=deeprm_scenario(**changes), iterations=8, job_sets=16, rollouts=6, hidden=32,
        held_out_sets=40, learning_rate=0.01, batch=512,
    )  # fmt: skip
    before = made.held_out()["slowdown"]
    for _ in range(8):
        made.step()
    assert made.held_out()["slowdown"] < 0.75 * before
