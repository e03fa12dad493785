"""What a scenario must be for the learners that draw their own job sets for a pool in steps."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.scenario_models import DeepRMWorkload, SofiaWorkload
from simkit.scenario_workload import WorkloadBase

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
