"""The Sofia learner: its model, that it learns, and that it goes on where it stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import check_resume, weights

from simkit.agent.slotted import Slotted
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.learners.common.torch_training import weights_of
from simkit.learners.lockstep import MeteredLockstep, load
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.sofia import begin, first_of_steps
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Training

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {
    "job_sets": 2, "rollouts": 4, "horizon": 12, "backlog_shown": 12, "held_out_sets": 4,
    "fisher_share": 0.5, "last_step": 10, "max_decisions": 300,
}  # fmt: skip
UPDATES = ("gradient", "natural", "proximal")


def small_scenario(**workload: Any) -> Scenario:
    """Return some eight short jobs for a small pool with three slots."""
    shape = {"positions": 12, "capacity": 10, "short_steps": [1, 2], "long_steps": [5, 8]}
    shape |= {"dominant": [4, 6], "other": [1, 2]}
    return Scenario.model_validate(
        {
            "name": "small", "workload": {"type": "sofia", **shape, **workload},
            "cluster": {"machines": [{"count": 1, "cpu": 10, "mem": 10}]},
            "admission": {"slots": 3}, "estimates": "actual", "scheduling": {"step": 1},
            "policy": {"order": "sjf"},
        }
    )  # fmt: skip


def small(seed: int = 0, **arguments: Any) -> Training:
    return begin(small_scenario(), SMALL | arguments, seed=seed, device="cpu")


def test_the_ready_scenario_is_the_studys_model() -> None:
    training: Any = begin(load_scenario(ROOT / "scenarios" / "sofia.yaml"), {}, seed=0)
    assert training.model == Slotted(
        (50, 50), slots=10, horizon=60, max_length=45, backlog=None, backlog_shown=60
    )
    weights = training.network.parameters()
    assert sum(array.numel() for array in weights) == 27_851  # as in the study's program


@pytest.mark.parametrize("update", UPDATES)
def test_it_learns(update: str) -> None:
    training = small(update=update, job_sets=8, rollouts=8, held_out_sets=40, learning_rate=0.01)
    before = training.held_out()["slowdown"]
    for _ in range(35):
        logged = training.step()
        assert all(np.isfinite(value) for value in logged.values()), logged
    after = training.held_out()
    assert after["slowdown"] < 0.85 * before
    assert after["unfinished"] == 0


def test_natural_steps_keep_their_bound() -> None:
    training = small(update="natural", kl=0.002)
    kls = [training.step()["kl"] for _ in range(10)]
    assert max(kls) <= 0.002
    assert np.mean(kls) > 0.0005  # and are not given up


VARIANTS = [
    {"update": "natural"},
    {"update": "gradient", "optimiser": "rmsprop", "fresh": False},
    {"update": "proximal", "batch": 64, "mask": True, "entropy": 0.01},
    {"update": "natural", "baseline": "value", "credit": "first", "mask": True, "entropy": 0.01},
    {"update": "gradient", "observation": "sofia-compact", "objective": "completion"},
]


@pytest.mark.parametrize("arguments", VARIANTS)
def test_going_on_equals_not_stopping(arguments: dict[str, Any], tmp_path: Path) -> None:
    check_resume(lambda: small(seed=3, **arguments), tmp_path)


def test_another_seed_is_another_training(tmp_path: Path) -> None:
    one, other = small(seed=1), small(seed=2)
    assert one.step() != other.step()
    one.save(tmp_path)
    with pytest.raises(RunError, match="belongs to another training"):
        other.load(tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot read a checkpoint"):
        small().load(tmp_path)


def test_held_out_sets_are_the_same_for_all_and_not_trained_on() -> None:
    one: Any = small(seed=0)
    other: Any = small(seed=7, update="gradient")
    assert (one.unseen_sets.length == other.unseen_sets.length).all()
    drawn = [one.fixed_sets, *(one.draw_job_sets() for _ in range(20))]
    known = {row[row > 0].tobytes() for row in one.unseen_sets.length}
    assert not known & {row[row > 0].tobytes() for sets in drawn for row in sets.length}


def test_an_agent_says_what_it_fits(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    from simkit.learners.bundle import read_bundle

    training: Any = small()
    training.step()
    training.write_agent(tmp_path / "agent", {"return": -1.0})
    bundle = read_bundle(tmp_path / "agent")
    for name, array in weights_of(training.network).items():
        assert (bundle.weights[name] == array).all()
    said = json.loads((tmp_path / "agent" / "agent.json").read_text())
    assert said["architecture"]["layers"] == [12 * 9, 20, 4]
    assert said["observation"]["sha256"] == training.input.schema.sha256
    assert said["slotted"]["capacity"] == [10, 10]
    assert said["curve_end"] == {"return": -1.0}


def test_the_first_decision_of_each_step() -> None:
    rewards = np.array([[0.0, -1], [-2, 0], [0, -1], [-1, 0]])
    assert first_of_steps(rewards).tolist() == [[True, True], [False, True], [True, False], [False, True]]  # fmt: skip


def test_load_is_slots_plus_grid() -> None:
    model = Slotted((4,), slots=2, horizon=4, max_length=2, backlog=None)
    sets = JobSets(*(np.array(x) for x in ([[0, 0]], [[2, 2]], [[[4], [4]]])))
    game = MeteredLockstep(model, sets)
    game.meter(2)
    assert load(game.view(), model.capacity) == pytest.approx([1.0])  # two slots of two, grid empty
    for action in (0, 2, 1, 2, 2, 2):  # place; a step; place; steps to the end
        game.step(np.array([action]))
    # 1/2 of slots + 2/4 of the grid; then all is placed: 1 + 2 steps, 2, 1 of four
    loads = [0.5 + 0.5, 0.75, 0.5, 0.25]
    assert game.measured()["load"] == pytest.approx(np.mean(loads))
    assert game.measured()["last_load"] == pytest.approx(loads[1])
    assert game.measured()["last_reward"] == -1.0  # both jobs, two steps long, are in the system
    assert not len(game.active)


WRONG = [
    ({"kl": 0}, "learn.arguments.kl: must be more than 0, not 0"),
    ({"rollouts": 2.5}, "learn.arguments.rollouts: must be a whole number, not 2.5"),
    ({"fresh": 1}, "learn.arguments.fresh: must be true or false, not 1"),
    ({"discount": 1.1}, "learn.arguments.discount: must be at most 1, not 1.1"),
    ({"update": "nature"}, "unknown value 'nature'; did you mean 'natural'?"),
    ({"epoch": 2}, "learn.arguments.epoch: unknown key; did you mean 'epochs'?"),
    ({"rollouts": 1}, "learn.arguments.rollouts: is 1, and with baseline decision"),
    ({"horizon": 8}, "learn.arguments.horizon: is 8, and jobs take up to 8 steps; give at least 9"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG)
def test_arguments_that_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        small(**arguments)
    assert text in str(caught.value)


def test_all_problems_at_once() -> None:
    scenario = small_scenario(load=2.0)
    wrong = {"admission": {}, "cluster": {"machines": [{"count": 2, "cpu": 10, "mem": 10}]}}
    scenario = Scenario.model_validate(scenario.model_dump(mode="json") | wrong)
    with pytest.raises(ScenarioError) as caught:
        begin(scenario, {"hidden": 0, "entropi": 1}, seed=0, device="cuda")
    named = [text.partition(":")[0] for text in caught.value.problems]
    assert named == [
        "device", "learn.arguments.hidden", "learn.arguments.entropi", "workload.load",
        "cluster.machines", "admission",
    ]  # fmt: skip


def test_other_workloads_are_refused() -> None:
    scenario = load_scenario(ROOT / "scenarios" / "quickstart.yaml")
    with pytest.raises(ScenarioError, match=r"workload.type: the learner sofia takes sofia, not"):
        begin(scenario, {}, seed=0)


@pytest.mark.parametrize("arguments", VARIANTS)
def test_an_iteration_without_a_job_changes_nothing(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    training: Any = small(**arguments)
    training.step()
    before = weights(training)
    monkeypatch.setattr(training, "draw_job_sets", lambda: JobSets.empty(2, 3, 2))
    assert training.step() == {"return": 0.0, "unfinished": 0.0, "decisions": 0.0}
    assert (training.iteration, weights(training)) == (2, before)


@pytest.mark.parametrize(("fresh", "argument"), [(True, "held_out_sets"), (False, "job_sets")])
def test_job_sets_without_a_job_are_refused(fresh: bool, argument: str) -> None:
    rare = small_scenario(rate=0.0001)
    with pytest.raises(ScenarioError, match=f"learn.arguments.{argument}: .*sets are empty"):
        begin(rare, SMALL | {"fresh": fresh}, seed=0)


def test_without_safetensors_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(PluginError, match="need safetensors"):
        small()
