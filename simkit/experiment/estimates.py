"""What a run's estimates really are: requests, or true run times under the name of requests."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.policy import Policy
from simkit.policy.declared import reads_estimates
from simkit.scenario import Scenario
from simkit.text import counted
from simkit.workload import Trace, Workload

WORTH_SAYING: Final = 0.2
"""Share of tasks told their run time from which on it is said; it is below 0.11 in most logs of the
Parallel Workloads Archive: jobs that ran longer than requested."""


def told_run_time(workload: Workload) -> int:
    """Return how many tasks have no requested time, or one that equals their run time."""
    requested = workload.requested_time_s
    return int(np.count_nonzero(np.isnan(requested) | (requested == workload.run_time_s)))


def estimates_name(scenario: Scenario, workload: Workload) -> str:
    """Return what the estimates are: ``requested``, ``run times (no requests)``, ….

    A correction follows: ``user-mean + tsafrir``.
    """
    choice, told, tasks = scenario.estimates, told_run_time(workload), workload.tasks
    given = ",".join(f"{key}={value}" for key, value in choice.args.items())
    name = f"{choice.type}({given})" if given else choice.type
    if choice.correction != "none":
        name += f" + {choice.correction}"
    if not tasks or told < WORTH_SAYING * tasks:
        return name
    if choice.type == "requested":
        return (
            "run times (no requests)" if told == tasks else f"{name} ({told / tasks:.0%} run times)"
        )
    return (
        f"{name} ({told / tasks:.0%} at most the run time)" if choice.type == "user-mean" else name
    )


def estimates_info(scenario: Scenario, workload: Workload, policy: Policy) -> dict[str, Any]:
    """Return the entry ``estimates`` of run.json."""
    return {
        "name": estimates_name(scenario, workload),
        "used": reads_estimates(policy),
        "tasks": workload.tasks,
        "told_run_time": told_run_time(workload),
    }


def estimates_warnings(scenario: Scenario, trace: Trace, policy: Policy) -> list[str]:
    """Return what a reader of the results must know of estimates and the wall-time limit.

    Generated workloads have requests only if their model was given users' estimates, so that
    nothing is said of them.
    """
    if not trace.inputs or not trace.workload.tasks:
        return []
    workload = trace.workload
    perfect = _perfect_knowledge(scenario, workload) if reads_estimates(policy) else ""
    return [text for text in (perfect, _kills_nobody(scenario, workload)) if text]


def _perfect_knowledge(scenario: Scenario, workload: Workload) -> str:
    told, tasks, kind = told_run_time(workload), workload.tasks, scenario.estimates.type
    if told < WORTH_SAYING * tasks:
        return ""
    by_reader = getattr(scenario.workload, "requested_time", None) == "max"
    who = counted(tasks, "job" if tasks == len(workload) else "task")
    whose = (
        f"none of {who} has" if told == tasks else f"{told:,} of {who} ({told / tasks:.0%}) lack"
    )
    lacking = f"{whose} a requested time other than the run time"
    raw = "workload.requested_time: raw" if by_reader else ""
    if kind == "requested":
        return (
            f"warning: estimates: requested stands for true run times: {lacking}, so that the "
            "policy plans with perfect knowledge there; for less, choose estimates: perturbed, or "
            f"user-mean{f' with {raw}' if raw else ''}"
        )
    if kind == "user-mean" and raw:
        return (
            f"warning: estimates: user-mean is never above the true run time where {lacking}, "
            f"because the reader puts that in place of the request; set {raw}"
        )
    return ""


def _kills_nobody(scenario: Scenario, workload: Workload) -> str:
    if scenario.walltime != "kill":
        return ""
    requested = workload.requested_time_s
    if (requested < workload.longest_run_time_s()).any():
        return ""
    if np.isnan(requested).all():
        return "warning: walltime: kill kills no job: none has a requested time"
    text = "warning: walltime: kill kills no job: none runs longer than its requested time"
    if getattr(scenario.workload, "requested_time", None) != "max":
        return text
    return (
        f"{text}, because the reader raises requests to run times; set "
        "workload.requested_time: raw to keep them as the log has them"
    )
