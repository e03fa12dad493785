"""The metrics of a run: simkit's, and those of the user that the scenario names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from simkit import plugins
from simkit.errors import ScenarioError, SimkitError
from simkit.results.all_metrics import compute_metrics, facts_of
from simkit.results.custom_metrics import CustomMetric, custom_metric
from simkit.results.group_metrics import COLUMNS
from simkit.results.metric import CUSTOM, Metrics, run_window
from simkit.results.run_folder import Run
from simkit.scenario import Scenario

_TAKEN: Final = (CUSTOM, *COLUMNS)
"""Names that mean something else in metrics.json or in a table of groups."""


def build_metrics(
    scenario: Scenario, functions: Sequence[Callable[..., Any]] = ()
) -> tuple[CustomMetric, ...]:
    """Return the user's metrics of a scenario, and those that are given as functions.

    Raises ScenarioError, with all that is wrong, for what is no metric or has the name of another
    one.
    """
    has_power = scenario.power is not None
    found, problems = list[CustomMetric](), list[str]()
    named: list[tuple[str, str, Any]] = [
        (f"metrics.custom.{n}", name, None) for n, name in enumerate(scenario.metrics.custom)
    ]
    named += [
        (f"metrics.{n}", getattr(function, "__name__", type(function).__name__), function)
        for n, function in enumerate(functions)
    ]
    for what, name, function in named:
        try:
            if function is None:
                function = plugins.find("simkit.metrics", name)
            found.append(custom_metric(what, name, function, has_power=has_power))
        except ScenarioError as error:
            problems += error.problems
        except SimkitError as error:
            problems.append(f"{what}: {error}")
    times = Counter(metric.name for metric in found)
    for metric in dict.fromkeys(found):
        if facts_of(metric.name) is not None or metric.name in _TAKEN:
            problems.append(
                f"metrics.custom: {metric.source!r}: {metric.name} is a name of simkit's own; "
                "rename the function"
            )
        elif times[metric.name] > 1:
            problems.append(
                f"metrics.custom: {metric.source!r}: {metric.name} is the name of "
                f"{times[metric.name]} metrics; rename one"
            )
    if problems:
        raise ScenarioError(dict.fromkeys(problems))
    return tuple(found)


def measure(run: Run, scenario: Scenario, custom: Sequence[CustomMetric]) -> Metrics:
    """Return the metrics of a run whose tables are closed."""
    given = scenario.metrics
    window = {"warmup": given.warmup, "cooldown": given.cooldown}
    found = Metrics(compute_metrics(run, tau=given.tau, **window))
    if custom:
        jobs = run.scan("jobs")
        kept = run_window(jobs, run.scan("timeline"), **window)
        counted = jobs if kept is None else kept.jobs(jobs)
        found[CUSTOM] = {metric.name: metric.entry(run, counted, kept) for metric in custom}
    return found


def failures(metrics: Metrics) -> list[str]:
    """Return why metrics of the user could not be computed, a warning each."""
    errors = (entry.get("error") for entry in metrics.get(CUSTOM, {}).values())
    return [f"{error}\n  metrics.json has null instead" for error in errors if error]
