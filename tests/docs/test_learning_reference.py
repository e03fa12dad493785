"""The pages on learning: no key, column, argument or name that the code knows is left out."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import polars as pl
import pytest
from trainings import small_scenario

from simkit import plugins, training
from simkit.agent.observation import ENCODERS
from simkit.agent.rewards import REWARDS
from simkit.gym.agent_view import ENVS
from simkit.learners.agent import load_agent
from simkit.training import Training
from simkit.training.train import train

DOCS = Path(__file__).parents[2] / "docs"
LEARNERS = (DOCS / "reference" / "learners.md").read_text("utf-8")
CONTRACT = (DOCS / "reference" / "learners-contract.md").read_text("utf-8")
OBSERVATIONS = (DOCS / "reference" / "observations.md").read_text("utf-8")


def told(head: str, page: str = LEARNERS) -> set[str]:
    """Return the names in the first column of a page's table below a head."""
    table = page.partition(f"\n| {head} |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


MARKS = {
    "deepjs": pytest.mark.slow, "fitness": pytest.mark.thorough, "rlscheduler": pytest.mark.thorough,
}  # fmt: skip
"""Learners whose shortest training takes many seconds."""


@pytest.mark.parametrize(
    "learner",
    [pytest.param(name, marks=MARKS.get(name, ())) for name in plugins.names("simkit.learners")],
)
def test_all_that_a_training_writes_is_told(learner, tmp_path):
    trained = train(small_scenario(learner, 1), tmp_path / "training")
    found = json.loads((trained.folder / "training.json").read_text("utf-8"))
    assert set(found) == told("key of `training.json`")
    columns = pl.read_parquet(trained.folder / "metrics.parquet").columns
    assert set(columns) <= told("column of `metrics.parquet`")
    of_views = {"view", "requires", "resources", "choose"}
    found = json.loads((trained.agent / "agent.json").read_text("utf-8"))
    assert set(found) | of_views == told("key of `agent.json`")
    named = set(re.findall(r"^\| `([\w.]+)/?` \|", LEARNERS, re.MULTILINE))
    assert {p.name for p in trained.folder.iterdir() if not p.name.startswith(".")} <= named


def test_the_contract_of_a_learner_is_the_reference():
    assert set(training.__all__) == told("name | meaning", CONTRACT)
    members = {name for name in {*vars(Training), *Training.__annotations__} if name[0] != "_"}
    assert members == told("member of `Training`", CONTRACT)


def test_every_learner_has_a_chapter():
    names = plugins.names("simkit.learners")
    assert [name for name in names if f"\n## `{name}`\n" not in LEARNERS] == []
    tables = [f"<!-- generated: {name}_arguments -->" for name in names]
    assert [table for table in tables if table not in LEARNERS] == []


def test_every_argument_of_an_agent_is_told():
    parameters = inspect.signature(load_agent).parameters.values()
    found = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert found - {"compat"} == told("argument in `policy: {agent: …, args: {…}}`")


def test_every_name_for_gymnasium_is_in_the_reference_and_the_how_to():
    how_to = (DOCS / "howto" / "gymnasium.md").read_text("utf-8")
    names = [*ENCODERS, *REWARDS]
    assert [name for name in names if f"`{name}`" not in OBSERVATIONS] == []
    assert [name for name in [*names, *ENVS] if f"`{name}`" not in how_to] == []


def test_tables_speak_of_numbers_and_lists_not_of_python():
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text("utf-8")
        assert not [word for word in ("typing.", "PydanticUndefined", "FieldInfo") if word in text]
