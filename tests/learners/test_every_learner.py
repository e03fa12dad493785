"""Every learner is repeatable, resumable, honest about its arguments; its agent is a policy."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from trainings import (
    SMALLEST,
    check_held_out_changes_nothing,
    check_resume,
    small_training,
    weights,
)

import simkit
from simkit import plugins
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.scenario import Scenario

LEARNERS = plugins.names("simkit.learners")
FORMS = [
    pytest.param(learner, form, marks=[pytest.mark.thorough] if form else [])
    for learner in LEARNERS
    for form in ({}, *(SMALLEST[learner].forms if learner in SMALLEST else ()))
]
COMPILED = re.compile(r"simkit\.learners\..*(kernel|compiled)")


def test_every_learner_is_tried() -> None:
    assert sorted(SMALLEST) == LEARNERS


@pytest.mark.parametrize(("learner", "form"), FORMS)
def test_resumed_is_as_not_interrupted(learner: str, form: dict[str, Any], tmp_path: Path) -> None:
    check_resume(lambda: small_training(learner, **form), tmp_path)


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_evaluation_changes_nothing(learner: str) -> None:
    check_held_out_changes_nothing(lambda: small_training(learner))


@pytest.mark.parametrize("learner", LEARNERS)
def test_another_seed_is_another_training(learner: str, tmp_path: Path) -> None:
    one, other = small_training(learner, 1), small_training(learner, 2)
    one.save(tmp_path)
    with pytest.raises(RunError, match="seed"):
        other.load(tmp_path)
    one.step()
    other.step()
    assert weights(one) != weights(other)


@pytest.mark.parametrize("learner", LEARNERS)
def test_all_mistakes_come_at_once(learner: str) -> None:
    small = SMALLEST[learner]
    begin = plugins.find("simkit.learners", learner)
    with pytest.raises(ScenarioError) as caught:
        begin(small.where(), {**small.arguments, "itterations": 3}, seed=0, device="cuda:99")
    places = {text.partition(":")[0] for text in caught.value.problems}
    assert places == {"device", "learn.arguments.itterations"}


@pytest.mark.parametrize(
    ("learner", "library", "extra"),
    [
        *((learner, "safetensors.numpy", "agents") for learner in LEARNERS),
        *((learner, "numba", "learn") for learner in ("deepjs", "fitness", "rlscheduler")),
        *((learner, "cma", "learn") for learner in ("fitness", "rlscheduler")),
    ],
)
def test_without_its_libraries_it_names_the_extra(
    learner: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if COMPILED.fullmatch(name)]:
        monkeypatch.delitem(sys.modules, name)
        package, _, module = name.rpartition(".")
        monkeypatch.delattr(sys.modules[package], module, raising=False)
    with pytest.raises(PluginError, match=rf"simkit-cluster\[{extra}\]"):
        small_training(learner)


@pytest.mark.parametrize("learner", LEARNERS)
def test_its_agent_is_a_policy(learner: str, tmp_path: Path) -> None:
    made = small_training(learner)
    made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    stated = SMALLEST[learner].where().model_dump(mode="json", exclude={"policy"})
    policy: dict[str, Any] = {"agent": str(tmp_path / "agent")}
    if learner in ("deepjs", "fitness"):  # these decide under the rules of CloudSimPy
        policy["compat"], stated["scheduling"] = "cloudsimpy", {"every": "1s"}
    run = simkit.simulate(Scenario.model_validate({**stated, "policy": policy}))
    assert run.metrics["jobs"]["finished"] > 0
