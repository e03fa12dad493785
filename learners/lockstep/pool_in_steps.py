"""What a scenario must be for the lock-step model: one pool in steps, whose jobs learners draw."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.scenario.workload import WorkloadSource
from simkit.traces.models.deeprm import DeepRMModel, SchedQRMModel, SofiaModel

__all__ = [
    "RESOURCES", "change_problems", "is_pool_in_steps", "longest_job", "pool_of_steps_problems",
    "pool_problems",
]  # fmt: skip

RESOURCES = ("cpu", "mem")
"""Resources of the pool."""
DrawnWorkload = DeepRMModel | SofiaModel


def is_pool_in_steps(scenario: Scenario, layout: str) -> bool:
    """Tell whether lock-step knows a scenario, its jobs laid out in ``slots`` or in ``classes``."""
    problems = pool_problems if layout == "slots" else pool_of_steps_problems
    return not any(problems(scenario, scenario.workload, ""))  # type: ignore[arg-type]


def change_problems(scenario: Scenario) -> Iterator[str]:
    """Yield what would change a pool during a run."""
    for name in ("failures", "maintenance", "partitions", "containers", "trace"):
        if getattr(scenario.cluster, name, None):
            yield f"cluster.{name}: lock-step knows a pool that stays as it is; leave it out"
    if scenario.processes:
        yield "processes: lock-step runs none; leave them out"


def pool_problems(scenario: Scenario, workload: DrawnWorkload, who: str) -> Iterator[str]:
    """Yield what keeps a scenario from being one pool in steps with numbered slots.

    See `pool_of_steps_problems`.
    """
    yield from pool_of_steps_problems(scenario, workload, who)
    admission = scenario.admission
    if admission.slots is None or admission.order != "fifo" or admission.refill != "at_once":
        yield "admission: must have slots, such as 10, filled at_once in the order fifo"


def pool_of_steps_problems(
    scenario: Scenario, workload: DrawnWorkload | SchedQRMModel, who: str
) -> Iterator[str]:
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
    if scenario.scheduling.step != workload.step_s:
        yield f"scheduling.step: must be workload.step_s, {workload.step_s:g}s"
    if scenario.estimates.type not in ("actual", "requested"):
        yield f"estimates: {who} knows run times exactly; set it to actual"
    if scenario.power is not None and scenario.power.supply.limit != "none":
        yield "power.supply.limit: lock-step knows a pool that always has power; give none"
    yield from change_problems(scenario)


def longest_job(workload: DrawnWorkload, horizon: int) -> int:
    """Return the steps of the longest job; raises ScenarioError if it exceeds the horizon."""
    longest = max(workload.long_steps[1], workload.short_steps[1])
    if longest >= horizon:
        raise ScenarioError(
            f"learn.arguments.horizon: is {horizon}, and jobs take up to {longest} steps; give at "
            f"least {longest + 1}"
        )
    return longest
