"""The Sofia study's model: its dimensions, and job sets, from a scenario."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.scenario_models import SofiaWorkload
from simkit.scenario_workload import WorkloadBase
from simkit.slotted import Slotted
from simkit.traces.sofia import draw_batches

from .job_sets import JobSets

RESOURCES = ("cpu", "mem")


def slotted_model(scenario: Scenario, horizon: int, backlog_shown: int) -> Slotted:
    """Return the slotted model that a scenario describes.

    Raises ScenarioError, all problems at once, if it is not Sofia's batch on one pool in steps.
    """
    if problems := list(_problems(scenario)):
        raise ScenarioError(problems)
    workload = scenario.workload
    assert isinstance(workload, SofiaWorkload)  # or it were among the problems
    model = Slotted(
        capacity=(workload.capacity,) * 2,
        slots=scenario.admission.slots or 0,
        horizon=horizon,
        max_length=max(workload.long_steps[1], workload.short_steps[1]),
        backlog=scenario.admission.backlog,
        backlog_shown=backlog_shown,
        step_s=workload.step_s,
    )
    if model.latest_start(model.max_length) < 0:
        raise ScenarioError(
            f"learn.arguments.horizon: is {horizon}, and jobs take up to {model.max_length} steps; "
            f"give at least {model.max_length + 1}"
        )
    return model


def _problems(scenario: Scenario) -> Iterator[str]:
    workload, admission = scenario.workload, scenario.admission
    if not isinstance(workload, SofiaWorkload):
        yield f"workload.type: the learner sofia takes sofia, not {workload.type}"
        return
    for name, field in WorkloadBase.model_fields.items():
        if name != "type" and getattr(workload, name) != field.default:
            yield f"workload.{name}: the learner sofia draws its own job sets; leave it out"
    wanted = dict.fromkeys(RESOURCES, float(workload.capacity))
    machines = scenario.cluster.machines or ()
    if [(group.count, group.capacity) for group in machines] != [(1, wanted)]:
        shown = ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items())
        yield f"cluster.machines: must be one pool as in workload.capacity, {{count: 1, {shown}}}"
    if admission.slots is None or admission.order != "fifo" or admission.refill != "at_once":
        yield "admission: must have slots, such as 10, filled at_once in the order fifo"
    if scenario.scheduling.step != workload.step_s:
        yield f"scheduling.step: must be workload.step_s, {workload.step_s:g}s"
    if scenario.estimates.type not in ("actual", "requested"):
        yield "estimates: the learner sofia knows run times exactly; set it to actual"


def draw_sets(scenario: Scenario, model: Slotted, count: int, rng: np.random.Generator) -> JobSets:
    """Draw job sets of the scenario's workload; raises ScenarioError if jobs do not fit."""
    arguments = scenario.workload.reader_arguments()
    kept = {k: v for k, v in arguments.items() if k not in ("step_s", "capacity")}
    sets = JobSets(*draw_batches(rng, sets=count, **kept))
    sets.check_fit(model)
    return sets
