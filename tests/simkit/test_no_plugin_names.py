"""The core knows no names of plug-ins: what it needs to know of one, that says of itself.

A name of a policy, a reader, a signal, an estimator, a controller or a learner stands in no file of
simkit as a constant, but for the defaults of the schema, nor in a help text, but for examples of syntax. Words
of the scenario's own keys and of the tables' columns, which some plug-ins share, do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_args

import simkit
from simkit import records
from simkit.policy import Policy
from simkit.policy.state import Foreseen
from simkit.scenario import Scenario

CORE = Path(simkit.__file__).parent
INDEPENDENT = {"verify"}
"""The auditor replays rules and reads formats by itself, so it knows which those are."""

ALLOWED: dict[str, set[str]] = {
    "scenario/policy.py": {"fcfs", "first-fit"},  # the defaults of a policy's parts
    "scenario/power.py": {"source-order"},  # the default of a controller
    "scenario/cluster.py": {"alibaba2017"},  # the default of a trace of machines
    "experiment/calibration.py": {"fcfs", "sjf", "user-mean"},  # what it compares
    "agent/actions.py": {"easy", "sjf"},  # the rule behind the actions that pick a job
    "gym/agent_view.py": {"ready-pool", "deeprm"},  # an agent's actions, a bundled scenario
    "gym/dataset.py": {"ready-pool"},  # the same
    "env.py": {"deeprm"},  # the scenario
    "cli/options.py": {"easy", "sjf"},  # examples of policies
    "cli/dataset.py": {"ready-pool"},  # actions, not the placement
    "cli/results.py": {"fcfs", "easy", "swf", "csv"},  # options: what a schedule claims, formats
    "cli/run.py": {"sjf"},  # an example of a policy
    "cli/trace.py": {"sacct", "swf"},  # examples of formats
    "cli/trace_generate.py": {"alibaba2017", "csv", "swf"},  # tables that it draws, formats
    "analysis/export.py": {"swf", "csv"},  # the formats that it writes
    "policy/remaining_work.py": {
        "balance",
        "cosine",
    },  # terms of a score, which have their own names
}
"""File of the core → names that it may hold, and why."""


def words_of(schema: Any) -> Iterator[str]:
    """Yield the keys of a scenario, and the words that stand for choices."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from (word for word in schema.get("enum", ()) if isinstance(word, str))
        yield from (word for part in schema.values() for word in words_of(part))
    elif isinstance(schema, list):
        yield from (word for part in schema for word in words_of(part))


def vocabulary() -> set[str]:
    """Return words that mean other things too: of scenarios, tables, columns and signals."""
    tables = {n.lower(): t for n, t in vars(records).items() if n.isupper() and isinstance(t, dict)}
    columns = {column for table in tables.values() for column in table}
    keys = words_of(Scenario.model_json_schema())
    return {*keys, *tables, *columns, *get_args(Foreseen), *vars(Policy)}


def names() -> set[str]:
    """Return the distinctive names of plug-ins that are not keys of the core's own schema."""
    kinds = ("policies", "readers", "signals", "predictors", "controllers", "learners")
    points = [point for kind in kinds for point in entry_points(group=f"simkit.{kind}")]
    own = {point.name for point in points if point.value.startswith("simkit.scenario.")}
    found = {point.name.partition(".")[2] or point.name for point in points} - own
    return found - vocabulary()


def named_in(path: Path, known: set[str]) -> set[str]:
    """Return which names a file holds as constants, alone or behind their kind, or in helps."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    found = {text.rpartition(".")[2] for node in nodes for text in _texts(node)}
    helps = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "help"]
    for text in (text for value in helps for part in ast.walk(value) for text in _texts(part)):
        found |= set(re.findall(r"[a-z][a-z0-9-]+", text))
    return found & known


def _texts(node: ast.AST) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_the_core_knows_no_names_of_plugins() -> None:
    known = names()
    assert {"sjf", "tetris", "power-cap", "lublin", "gleamm", "cloudsimpy", "user-mean"} <= known
    held = {
        str(path.relative_to(CORE)): found
        for path in sorted(CORE.rglob("*.py"))
        if path.relative_to(CORE).parts[0] not in INDEPENDENT and (found := named_in(path, known))
    }
    assert held == ALLOWED
