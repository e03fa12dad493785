"""The arguments of learners, and what a scenario must be for them to draw its job sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from simkit.errors import ScenarioError
from simkit.learners.bundle import safetensors
from simkit.learners.common.devices import check_device
from simkit.learners.lockstep.job_sets import JobSets
from simkit.scenario import Scenario
from simkit.scenario.error_messages import problems_of
from simkit.scenario.types import Section
from simkit.scenario.workload import WorkloadSource
from simkit.traces.models.deeprm import DeepRMModel
from simkit.traces.models.sofia import SofiaModel

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


RESOURCES = ("cpu", "mem")
"""Of the pool."""
Drawn = DeepRMModel | SofiaModel


def pool_problems(scenario: Scenario, workload: Drawn, who: str) -> Iterator[str]:
    """Yield what keeps a scenario from being one pool in steps whose jobs the learner draws.

    Args:
        scenario: of the training.
        workload: the scenario's.
        who: draws the jobs, such as ``the learner ppo``, for the messages.
    """
    for name, field in WorkloadSource.model_fields.items():
        if name != "type" and getattr(workload, name) != field.default:
            yield f"workload.{name}: {who} draws its own job sets; leave it out"
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
        yield f"estimates: {who} knows run times exactly; set it to actual"


def longest_job(workload: Drawn, horizon: int) -> int:
    """Return the steps of the longest job; raises ScenarioError if it exceeds the horizon."""
    longest = max(workload.long_steps[1], workload.short_steps[1])
    if longest >= horizon:
        raise ScenarioError(
            f"learn.arguments.horizon: is {horizon}, and jobs take up to {longest} steps; give at "
            f"least {longest + 1}"
        )
    return longest
