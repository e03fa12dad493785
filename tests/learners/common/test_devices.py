"""A device that is not there is refused before a training begins, with the remedy."""

from __future__ import annotations

import pytest
import torch

from simkit.errors import ScenarioError
from simkit.learners.common import arguments as devices
from simkit.learners.common.arguments import check_device
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training.train import train


def test_the_cpu_is_always_there():
    assert check_device("cpu") == []


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda _name: None)
    assert check_device("cuda") == [
        "device: 'cuda' needs torch: pip install 'simkit-cluster[learn]'"
    ]


@pytest.mark.parametrize("learner", ["deeprm", "ppo", "sofia"])
def test_without_a_gpu_no_training_begins(learner, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    name = "sofia" if learner == "sofia" else "deeprm"
    scenario = load_scenario(scenario_path(name), overrides={"learn": {"learner": learner}})
    with pytest.raises(ScenarioError, match="finds no 'cuda' here; leave --device out"):
        train(scenario, "never", device="cuda")
