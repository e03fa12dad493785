"""The command `simkit bound`: lower bounds on metrics of a scenario."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from simkit.cli.options import AsJson, NoCode, Scenario, Seed, Settings, overrides, scenario_source
from simkit.cli.text import Blocks, Line, Table, print_or_json
from simkit.text import counted
from simkit.units import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simkit.analysis.time_bound import TimeBound

REASONS: Final = {
    "alone": "no job ends before its run time has passed",
    "one machine": "all work on one machine of the whole size, the shortest remaining first",
    "mean work": "all work on one machine of the whole size, by weight and size",
    "prices": "each job at its cheapest start, at the best prices found",
}
"""Method of a bound → what it rests on."""


def bound(
    scenario: Scenario,
    seed: Seed = None,
    settings: Settings = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="A metric; may be repeated. Default: all that have one."
        ),
    ] = None,
    closest: Annotated[
        bool,
        typer.Option(
            "--closest",
            help="Look for the closest bounds of more than 5,000 jobs as well; a third of a second "
            "for every 250 jobs and metric.",
        ),
    ] = False,
    no_code: NoCode = False,
    as_json: AsJson = False,
) -> None:
    """Say how small waits, turnarounds and slowdowns can be at all, whatever the policy.

    No schedule that finishes all jobs and interrupts none is better, even if it knows all of them
    and their true run times beforehand, on the cluster as one pool that is always whole. `--set
    workload.window.jobs=0..255` takes a part of a log.
    """
    from simkit.analysis.time_bound import FEW, METRICS, bounds_of
    from simkit.experiment import prepare
    from simkit.scenario.yaml_document import load_scenario

    loaded = load_scenario(
        scenario_source(scenario), overrides=overrides(settings, seed), single=True,
        allow_code=not no_code,
    )  # fmt: skip
    experiment = prepare(loaded)
    jobs = len(experiment.trace.workload)
    found = bounds_of(experiment, metric or METRICS, few=jobs if closest else FEW)
    content = {
        "scenario": loaded.name, "jobs": jobs, "bounds": [asdict(one) for one in found]
    }  # fmt: skip
    print_or_json(bound_blocks(str(loaded.name), jobs, found), content, as_json=as_json)


def bound_blocks(name: str, jobs: int, found: Sequence[TimeBound]) -> Blocks:
    """Yield the bounds as a table."""
    yield Line("Scenario", name)
    yield Line("Jobs", counted(jobs, "job"))
    rows = [
        [one.metric, quantity(one.value, "s" if one.metric.endswith("_s") else "1"),
         f"{one.jobs:,}", REASONS[one.method]]
        for one in found
    ]  # fmt: skip
    yield Table(["Metric", "at least", "jobs", "because"], rows, text=1)
