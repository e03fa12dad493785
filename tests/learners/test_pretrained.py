"""The agents that come with simkit are found by name, whole, and better than the paper's rules."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import workplace

from simkit.learners.studies.deepjs import trainings as deepjs
from simkit.learners.studies.deeprm import STUDY
from simkit.learners.studies.deeprm.judge import seeded
from simkit.learners.studies.deeprm.trainings import (
    ALL,
    ALONE,
    FULL,
    RATES,
    our_agents,
    scenario_at,
)
from simkit.scenario import Scenario
from simkit.scenario.bundled import agent_folder, agent_names
from simkit.training.evaluate import Candidate, evaluate

TRAININGS = {"deeprm-mixed": (ALL, 2, list(RATES)), "deeprm-70": (ALONE, 1, [70])}
"""Agent → arm of the study, its seed, and the loads in percent at which seeds are ranked."""
COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reproductions"


def whole(stated: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario with the keys that have come since it was written, at their defaults.

    When a run is stopped teaches nothing, and its default has changed since.
    """
    return Scenario.model_validate(stated).model_dump(mode="json", exclude={"learn", "limits"})


def test_they_are_those_of_the_reproduction(tmp_path):
    assert agent_names() == sorted([*TRAININGS, "fitness-alibaba"])
    arms = {agents.arm: agents for agents in our_agents(workplace(tmp_path), FULL)}
    for name, (arm, seed, _) in TRAININGS.items():
        folder = agent_folder(name, tmp_path)
        weights = (folder / "weights.safetensors").read_bytes()
        description = json.loads((folder / "agent.json").read_text())
        assert description["weights_sha256"] == hashlib.sha256(weights).hexdigest()
        trained = arms[arm].kept[seed].scenario
        assert trained.learn is not None
        assert description["learner"] == "ppo"
        assert description["seed"] == seed
        assert description["curve_end"]["iteration"] == trained.learn.iterations
        arguments = json.loads(json.dumps(dict(trained.learn.arguments)))
        assert description["arguments"].items() >= arguments.items()
        assert whole(description["scenario"]) == whole(trained.model_dump(mode="json"))


@pytest.mark.parametrize("name", TRAININGS)
def test_they_are_the_median_of_their_seeds(name):
    arm, bundled, loads = TRAININGS[name]
    results = STUDY.read(COMMITTED)
    asked = [f"slowdown | {arm} | {seeded(load)} | over=headroom" for load in loads]
    ranked = np.mean([results.ask(one).by_seed for one in asked], axis=0).argsort()
    assert bundled == ranked[len(ranked) // 2]


def test_the_fitness_is_that_of_the_reproduction(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    table = tmp_path / "alibaba" / "cloudsimpy_jobs.csv.gz"
    table.parent.mkdir()
    table.touch()
    trained = deepjs.scenarios(deepjs.FULL)["fitness"][0]
    description = json.loads((agent_folder("fitness-alibaba", tmp_path) / "agent.json").read_text())
    assert (description["learner"], description["seed"]) == ("fitness", 0)
    assert description["curve_end"]["iteration"] == trained.learn.iterations
    arguments = json.loads(json.dumps(dict(trained.learn.arguments)))
    assert description["arguments"].items() >= arguments.items()
    expected = whole(trained.model_dump(mode="json"))
    expected["workload"]["path"] = table.name
    assert whole(description["scenario"]) == expected


HEADROOM = {"name": "slotted-headroom", "args": {"headroom": 6, "patience": 50}}
SJF = {"name": "slotted-sjf"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("load", "gains"), [(70, [(HEADROOM, 0.0), (SJF, 0.3)]), (130, [(SJF, 0.35)])]
)
def test_they_are_better_than_rules_on_unseen_job_sets(load, gains):
    """On forty sets of the thousand that the page of the reproduction has, with intervals."""
    agents = [
        Candidate("agent", {"agent": name, "args": {"choose": "greedy"}}, name)
        for name in TRAININGS
    ]
    rules = [Candidate("policy", rule, rule["name"]) for rule, _ in gains]
    judged = evaluate(scenario_at(load), [*agents, *rules], seeds=range(1000, 1040), workers=1)
    found = {one.label: one for one in judged.candidates}
    for name in TRAININGS:
        assert found[name].unfinished == 0
        for rule, gain in gains:
            assert found[name].pooled_mean < (1 - gain) * found[rule["name"]].pooled_mean


# ---- what they need -------------------------------------------------------------------------------

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
MODULES = {"stable-baselines3": "stable_baselines3", "sb3-contrib": "sb3_contrib"}
"""Packages whose module has another name."""
WITHOUT = """
import sys
for name in {absent}:
    sys.modules[name] = None
sys.argv = ["simkit", *{words}]
from simkit.cli import main
main()
"""


def packages(*extras):
    """Return the modules of the packages that some extras install, those of simkit left out."""
    found = names_of(wanted for extra in extras for wanted in EXTRAS[extra])
    return {MODULES.get(name, name) for name in found - {"simkit-cluster"}}


def names_of(requirements):
    """Return the names of the packages that requirements name."""
    return {re.split(r"[\[<>=]", wanted)[0] for wanted in requirements}


def simkit_without(modules, *words):
    """Run a command where these modules are not installed."""
    code = WITHOUT.format(absent=sorted(modules), words=list(words))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_they_run_with_their_extra_alone(tmp_path):
    agent = "deeprm-70"
    others = packages(*EXTRAS) - packages("agents") - names_of(PROJECT["project"]["dependencies"])
    assert {"torch", "gymnasium", "matplotlib"} <= others
    place = str(tmp_path / "run")
    ran = simkit_without(
        others, "run", "deeprm", "--set", f"policy={{agent: {agent}}}", "-o", place
    )
    assert ran.returncode == 0, ran.stderr
    assert simkit_without(others, "verify", place).returncode == 0
    judged = simkit_without(
        others, "evaluate", "deeprm", "--agent", agent, "--policy", "sjf", "--sets", "2", "-j", "1"
    )
    assert judged.returncode == 0, judged.stderr
