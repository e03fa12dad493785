"""The commands that list what is available: policies, scenarios, schema, version."""

from __future__ import annotations

from typing import get_args

from simkit.cli.options import AsJson
from simkit.cli.text import echo, print_or_json

KINDS = {
    "order": "policy.order",
    "backfill": "policy.backfill",
    "placement": "policy.placement",
    "fitness": "policy.fitness",
    "compat": "policy.compat",
    "policy": "policy.name",
}


def policies(as_json: AsJson = False) -> None:
    """List the orders, backfilling and placement rules, policies and estimators by name."""
    from simkit import plugins
    from simkit.cli.text import plugins_blocks
    from simkit.scenario.policy import LookaheadPolicy

    found = {key: plugins.names("simkit.policies", kind) for kind, key in KINDS.items()}
    found["policy.objective"] = list(get_args(LookaheadPolicy.model_fields["objective"].annotation))
    found["estimates"] = plugins.names("simkit.predictors")
    readers = plugins.names("simkit.readers")
    found["workload.type"] = [name for name in readers if "." not in name]  # others are dotted
    print_or_json(plugins_blocks(found), found, as_json=as_json)


def scenarios(as_json: AsJson = False) -> None:
    """List the bundled scenarios; `simkit run NAME` runs one."""
    from simkit.cli.text import pairs_blocks
    from simkit.scenario.bundled import scenario_names, scenario_path, scenario_summary

    found = {name: scenario_summary(scenario_path(name)) for name in scenario_names()}
    print_or_json(pairs_blocks("Scenario", "What it is", found), found, as_json=as_json)


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    from simkit.cli.text import print_json
    from simkit.scenario import json_schema

    print_json(json_schema())


def version() -> None:
    """Print simkit's version."""
    from importlib.metadata import version as version_of

    echo(f"simkit {version_of('simkit-cluster')}")
