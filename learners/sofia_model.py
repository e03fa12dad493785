"""The Sofia study's model: its dimensions, and job sets, from a scenario."""

from __future__ import annotations

import numpy as np

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.scenario_models import SofiaWorkload
from simkit.slotted import Slotted
from simkit.traces.sofia import draw_batches

from .job_sets import JobSets
from .pool_rules import RESOURCES, longest_job, pool_problems


def slotted_model(scenario: Scenario, horizon: int, backlog_shown: int) -> Slotted:
    """Return the slotted model that a scenario describes.

    Raises ScenarioError, all problems at once, if it is not Sofia's batch on one pool in steps.
    """
    workload = scenario.workload
    if not isinstance(workload, SofiaWorkload):
        raise ScenarioError(f"workload.type: the learner sofia takes sofia, not {workload.type}")
    if problems := list(pool_problems(scenario, workload, "sofia")):
        raise ScenarioError(problems)
    return Slotted(
        capacity=(workload.capacity,) * len(RESOURCES),
        slots=scenario.admission.slots or 0,
        horizon=horizon,
        max_length=longest_job(workload, horizon),
        backlog=scenario.admission.backlog,
        backlog_shown=backlog_shown,
        step_s=workload.step_s,
    )


def draw_sets(scenario: Scenario, model: Slotted, count: int, rng: np.random.Generator) -> JobSets:
    """Draw job sets of the scenario's workload; raises ScenarioError if jobs do not fit."""
    arguments = scenario.workload.reader_arguments()
    kept = {k: v for k, v in arguments.items() if k not in ("step_s", "capacity")}
    sets = JobSets(*draw_batches(rng, sets=count, **kept))
    sets.check_fit(model)
    return sets
