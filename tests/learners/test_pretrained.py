"""The agents that come with simkit are found by name, whole, and better than the paper's rules."""

from __future__ import annotations

import hashlib
import json

import pytest

from simkit.learners.reproductions.deeprm.study import RATES, judged_scenario
from simkit.scenario.bundled import agent_folder, agent_names
from simkit.training.candidates import Candidate
from simkit.training.evaluate import evaluate


def test_they_are_found_by_name(tmp_path):
    assert agent_names() == ["deeprm-130", "deeprm-70"]
    for name in agent_names():
        folder = agent_folder(name, tmp_path)
        weights = (folder / "weights.safetensors").read_bytes()
        description = json.loads((folder / "agent.json").read_text())
        assert description["weights_sha256"] == hashlib.sha256(weights).hexdigest()
        assert description["scenario"]["workload"]["rate"] == RATES[int(name.split("-")[1])]
        assert (description["seed"], description["curve_end"]["iteration"]) == (0, 400)


@pytest.mark.parametrize(("load", "gain"), [(70, 0.15), (130, 0.25)])
def test_they_are_better_than_the_rules_on_unseen_job_sets(load, gain):
    """On ten sets; the page of the reproduction has all of them, with intervals."""
    rules = {"SJF": {"name": "slotted-sjf"}, "Packer": {"name": "slotted-packer"}}
    rows = evaluate(
        judged_scenario(load),
        [
            *(Candidate("policy", section, label) for label, section in rules.items()),
            Candidate("agent", {"agent": f"deeprm-{load}"}, "agent"),
        ],
        sets=10,
        workers=1,
    ).candidates
    found = {one.label: one for one in rows}
    assert [one.unfinished for one in rows] == [0, 0, 0]
    best = min(found["SJF"].pooled_mean, found["Packer"].pooled_mean)
    assert found["agent"].pooled_mean < (1 - gain) * best
