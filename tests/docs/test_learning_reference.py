"""The pages on learning: no key, column, argument or name that the code knows is left out."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import polars as pl
import pytest

from simkit import plugins, training
from simkit.agent.observation import ENCODERS
from simkit.agent.rewards import REWARDS
from simkit.gym.env_arguments import ENVS
from simkit.learners.agent import load_agent
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Training
from simkit.training.train import Trained, train

DOCS = Path(__file__).parents[2] / "docs"
LEARNERS = (DOCS / "reference" / "learners.md").read_text("utf-8")
CONTRACT = (DOCS / "reference" / "learners-contract.md").read_text("utf-8")
OBSERVATIONS = (DOCS / "reference" / "observations.md").read_text("utf-8")
SMALL = {"job_sets": 2, "rollouts": 2, "held_out_sets": 1}
SCENARIOS = {
    "cocorl": "rare", "deepjs": "cloud-quickstart", "dqn": "schedqrm", "fitness": "cloud-quickstart",
    "offline": "rare", "ppo": "deeprm", "rlscheduler": "quickstart",
}  # fmt: skip
"""Learner → the bundled scenario to train on, where it is not called like the learner."""
_MACHINES = {
    "cluster": {"machines": [{"count": 5, "cpu": 64, "mem": 1.0}]},
    "workload.instances": False,
}
CHANGES = {
    "cocorl": {"learn.criterion": "lost_value", "workload.jobs": 40},
    "offline": {"learn.criterion": "lost_value", "workload.jobs": 40},
    "rare": {"learn.criterion": "lost_value", "workload.jobs": 40},
    "deepjs": _MACHINES | {"learn.criterion": "cost"},
    "fitness": _MACHINES | {"learn.criterion": "cost_ratio"},
}
"""Learner → what else must change in that scenario."""
ARGUMENTS = {
    "cocorl": {"games": 2, "decisions": 4, "hours": 60, "held_out_games": 1},
    "offline": {
        "games": 2,
        "decisions": 4,
        "hours": 60,
        "held_out_games": 1,
        "updates": 1,
        "batch": 4,
    },
    "rare": {
        "games": 2,
        "decisions": 4,
        "hours": 60,
        "held_out_games": 1,
        "updates": 1,
        "batch": 4,
    },
    "deepjs": {"rollouts": 2, "held_out_share": 0.2},
    "dqn": {"job_sets": 2, "held_out_sets": 1},
    "fitness": {"candidates": 4, "chunks": 1, "units": 0},
    "ppo": SMALL,
    "rlscheduler": {"candidates": 4, "windows": 1, "fewest_jobs": 20, "most_jobs": 20},
}
"""Learner → its arguments, where they are not those of the two that are alike."""


@pytest.fixture(scope="module", params=plugins.names("simkit.learners"))
def trained(request, tmp_path_factory) -> Trained:
    name = request.param
    arguments = ARGUMENTS.get(name, SMALL | {"baseline": "value"})
    section = {"learner": name, "iterations": 1, "arguments": arguments}
    path = scenario_path(SCENARIOS.get(name, name))
    scenario = load_scenario(path, overrides={"learn": section, **CHANGES.get(name, {})})
    return train(scenario, tmp_path_factory.mktemp(request.param) / "training")


def told(head: str, page: str = LEARNERS) -> set[str]:
    """Return the names in the first column of a page's table below a head."""
    table = page.partition(f"\n| {head} |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_key_of_a_training_is_told(trained):
    found = json.loads((trained.folder / "training.json").read_text("utf-8"))
    assert set(found) == told("key of `training.json`")


def test_every_column_of_the_metrics_is_told(trained):
    columns = pl.read_parquet(trained.folder / "metrics.parquet").columns
    assert set(columns) <= told("column of `metrics.parquet`")


def test_every_key_of_a_bundle_is_told(trained):
    found = json.loads((trained.agent / "agent.json").read_text("utf-8"))
    slotted = {
        "rlscheduler": set(),
        "fitness": {"resources"},
        "deepjs": {"resources"},
        "dqn": {"resources"},
        "cocorl": {"resources"},
        "offline": {"resources"},
        "rare": {"resources"},
    }.get(found["learner"], {"slotted", "resources"})
    of_some = {
        "slotted", "resources", "horizon", "backlog_shown", "step_s", "ready", "waiting", "longest",
        "worth",
    }  # fmt: skip
    assert set(found) | of_some == told("key of `agent.json`")
    assert slotted <= set(found)


def test_every_file_of_a_training_is_told(trained):
    named = set(re.findall(r"^\| `([\w.]+)/?` \|", LEARNERS, re.MULTILINE))
    assert {p.name for p in trained.folder.iterdir() if not p.name.startswith(".")} <= named


def test_the_contract_of_a_learner_is_the_reference():
    assert set(training.__all__) == told("name | meaning", CONTRACT)
    members = {name for name in {*vars(Training), *Training.__annotations__} if name[0] != "_"}
    assert members == told("member of `Training`", CONTRACT)


@pytest.mark.parametrize("name", plugins.names("simkit.learners"))
def test_every_learner_has_a_chapter(name):
    assert f"\n## `{name}`\n" in LEARNERS


def test_every_argument_of_an_agent_is_told():
    parameters = inspect.signature(load_agent).parameters.values()
    found = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert found - {"compat"} == told("argument in `policy: {agent: …, args: {…}}`")


@pytest.mark.parametrize("name", [*ENCODERS, *REWARDS])
def test_every_encoder_and_reward_is_in_the_reference(name):
    assert f"`{name}`" in OBSERVATIONS


@pytest.mark.parametrize("name", [*ENCODERS, *REWARDS, *ENVS])
def test_every_name_for_gymnasium_is_in_its_how_to(name):
    assert f"`{name}`" in (DOCS / "howto" / "gymnasium.md").read_text("utf-8")


def test_tables_speak_of_numbers_and_lists_not_of_python():
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text("utf-8")
        assert not [word for word in ("typing.", "PydanticUndefined", "FieldInfo") if word in text]
