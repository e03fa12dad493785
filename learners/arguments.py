"""A learner's arguments: a frozen dataclass with defaults, and the rules that its fields keep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from simkit.errors import ScenarioError, did_you_mean
from simkit.learners.lockstep.job_sets import JobSets
from simkit.scenario import Scenario
from simkit.scenario.models import DeepRMWorkload, SofiaWorkload
from simkit.scenario.workload import WorkloadBase

T = TypeVar("T")
Range = tuple[float, float]
"""The least and the most, both allowed."""


def read_arguments(
    cls: type[T],
    given: Mapping[str, Any],
    *,
    ranges: Mapping[str, Range],
    choices: Mapping[str, tuple[str, ...]],
) -> T:
    """Return an instance of a dataclass whose fields all have plain defaults.

    Args:
        cls: the dataclass; a field takes what its default is: a truth value, a whole number, a
            number, or a word.
        given: the values of some fields.
        ranges: what numbers may be.
        choices: what words may be.

    Raises ScenarioError, all problems at once.
    """
    defaults = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    problems = [
        f"learn.arguments.{name}: {text}"
        for name, value in given.items()
        for text in _wrong(name, value, defaults, ranges, choices)
    ]
    if problems:
        raise ScenarioError(problems)
    return cls(**{n: float(v) if isinstance(defaults[n], float) else v for n, v in given.items()})


def credit_problems(baseline: str, rollouts: int) -> list[str]:
    """Return why no action could be told from another with a baseline; empty if it can."""
    if baseline != "decision" or rollouts > 1:
        return []
    return [
        "learn.arguments.rollouts: is 1, and with baseline decision the mean over a job set's "
        "rollouts is then each one's own return, so that nothing is learned; give 2 or more, or "
        "baseline: value"
    ]


def refuse_without_jobs(drawn: Mapping[str, JobSets]) -> None:
    """Raise ScenarioError for job sets that hold no job between them: they tell nothing.

    Args:
        drawn: the argument that says how many sets there are → the sets.
    """
    problems = [
        f"learn.arguments.{argument}: the workload brings so few jobs that all {len(sets)} of "
        "these job sets are empty; raise the workload's rate or load, or give more sets"
        for argument, sets in drawn.items()
        if not sets.jobs.any()
    ]
    if problems:
        raise ScenarioError(problems)


def _wrong(
    name: str,
    value: Any,
    defaults: Mapping[str, Any],
    ranges: Mapping[str, Range],
    choices: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    """Tell what is wrong with one value; nothing if it keeps the rules."""
    if name not in defaults:
        yield f"is no argument of this learner{did_you_mean(name, defaults)}"
    elif isinstance(defaults[name], bool):
        if not isinstance(value, bool):
            yield f"must be true or false, not {value!r}"
    elif isinstance(defaults[name], str):
        if value not in choices[name]:
            yield f"unknown value {value!r}{did_you_mean(str(value), choices[name])}"
    else:
        kind, word = (int, "whole number") if isinstance(defaults[name], int) else (float, "number")
        is_one = isinstance(value, (int, kind)) and not isinstance(value, bool)
        low, high = ranges[name]
        if not is_one or not (low <= value <= high and math.isfinite(value)):
            most = f" to {high:g}" if math.isfinite(high) else " on"
            yield f"must be a {word} from {low:g}{most}, not {value!r}"


# MERGED What a scenario must be for the learners that draw their own job sets for a pool in steps.


RESOURCES = ("cpu", "mem")
"""Of the pool."""
Drawn = DeepRMWorkload | SofiaWorkload


def pool_problems(scenario: Scenario, workload: Drawn, learner: str) -> Iterator[str]:
    """Yield what keeps a scenario from being one pool in steps whose jobs the learner draws.

    Args:
        scenario: of the training.
        workload: the scenario's.
        learner: its name, for the messages.
    """
    for name, field in WorkloadBase.model_fields.items():
        if name != "type" and getattr(workload, name) != field.default:
            yield f"workload.{name}: the learner {learner} draws its own job sets; leave it out"
    wanted = dict.fromkeys(RESOURCES, float(workload.capacity))
    machines = scenario.cluster.machines or ()
    if [(group.count, group.capacity) for group in machines] != [(1, wanted)]:
        shown = ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items())
        yield f"cluster.machines: must be one pool as in workload.capacity, {{count: 1, {shown}}}"
    admission = scenario.admission
    if admission.slots is None or admission.order != "fifo" or admission.refill != "at_once":
        yield "admission: must have slots, such as 10, filled at_once in the order fifo"
    if scenario.scheduling.step != workload.step_s:
        yield f"scheduling.step: must be workload.step_s, {workload.step_s:g}s"
    if scenario.estimates.type not in ("actual", "requested"):
        yield f"estimates: the learner {learner} knows run times exactly; set it to actual"


def longest_job(workload: Drawn, horizon: int) -> int:
    """Return the steps that jobs take at most; raises ScenarioError if none fits the horizon."""
    longest = max(workload.long_steps[1], workload.short_steps[1])
    if longest >= horizon:
        raise ScenarioError(
            f"learn.arguments.horizon: is {horizon}, and jobs take up to {longest} steps; give at "
            f"least {longest + 1}"
        )
    return longest
