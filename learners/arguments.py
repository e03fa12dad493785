"""The arguments of learners: kinds of numbers, and how they are read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Field, ValidationError

from simkit.errors import ScenarioError
from simkit.learners.bundle import safetensors
from simkit.learners.common.devices import check_device
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import JobSource
from simkit.sections import Section, problems_of

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Extent = Annotated[int, Field(ge=1, le=10_000)]
"""A dimension of an observation."""

T = TypeVar("T")
Chosen = TypeVar("Chosen", bound=Section)


def read_arguments(kind: type[Chosen], given: Mapping[str, Any]) -> Chosen:
    """Return `learn.arguments` as a learner's model; raises ScenarioError, all problems at once."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise ScenarioError(
            [
                f"learn.arguments.{'.'.join(map(str, problem.path))}: {problem.text}"
                for problem in problems_of(error, kind)
            ]
        ) from None


def attempt(make: Callable[[], T], problems: list[str]) -> T | None:
    """Return what a call makes; if it raises ScenarioError, add to the problems and return None."""
    try:
        return make()
    except ScenarioError as error:
        problems += error.problems
        return None


def prepared(
    kind: type[Chosen], given: Mapping[str, Any], source: Callable[[Chosen], T], device: str
) -> tuple[Chosen, T]:
    """Return what a training begins with: its arguments, and the source of its job sets.

    Args:
        kind: the learner's arguments; all of them have defaults.
        given: `learn.arguments`.
        source: makes the source.
        device: to train on.

    Raises ScenarioError, all problems at once; PluginError without safetensors, which the first
    checkpoint needs.
    """
    safetensors()
    problems = check_device(device)
    chosen = attempt(lambda: read_arguments(kind, given), problems) or kind()
    found = attempt(lambda: source(chosen), problems)
    if problems or found is None:
        raise ScenarioError(problems)
    return chosen, found


def refuse_loads_without_sets(job_sets: int, loads: Sequence[float], source: JobSource) -> None:
    """Raise ScenarioError if some loads would get none of an iteration's job sets."""
    sets = np.bincount(source.source_of(job_sets), minlength=len(loads))
    without = [f"{load:g}" for load, count in zip(loads, sets, strict=False) if not count]
    if without:
        raise ScenarioError(
            f"learn.arguments.job_sets: is {job_sets}, of which the loads {', '.join(without)} get "
            "none, since all loads bring as many jobs; give more"
        )


def refuse_without_jobs(drawn: Mapping[str, JobSets]) -> None:
    """Raise ScenarioError for job sets that hold no job between them.

    Args:
        drawn: the argument that gives the number of sets → the sets.
    """
    problems = [
        f"learn.arguments.{argument}: the workload brings so few jobs that all {len(sets)} of "
        "these job sets are empty; raise the workload's rate or load, or give more sets"
        for argument, sets in drawn.items()
        if not sets.jobs.any()
    ]
    if problems:
        raise ScenarioError(problems)
