"""Which engine replays a run: the compiled one where it covers everything, else SimPy's.

`choose` says which, and why not the other; `auto` compiles nothing for a short run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from simkit import machine_code
from simkit.engine.submission import Routing
from simkit.errors import ScenarioError
from simkit.policy.declared import FitRule, FixedForm, PoolRule
from simkit.policy.estimates import Predictor, UserMean
from simkit.rules import Engine, Rules
from simkit.text import counted
from simkit.units import amount_on_grid
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance, Partition

__all__ = ["FROM_JOBS", "Chosen", "choose", "module_of", "why_not_compiled"]

FROM_JOBS: Final = 20_000
"""Jobs from which on `auto` takes the compiled engine: below, compiling it costs more."""
LEAST_DECISIONS: Final = 100_000
"""No compiled replay makes so many decisions in a row without a job that comes or ends, and without
maintenance that begins or ends."""
MOST_RESOURCES: Final = 8
"""From so many on, NumPy adds up a row in another order than resource by resource."""


class Chosen(NamedTuple):
    """The engine of a run."""

    name: Literal["simpy", "compiled"]
    why: str
    """Why not the other; empty if that was not asked for."""
    rule: PoolRule | FitRule | None = None
    """The policy's rule, for the compiled one."""


def choose(
    engine: Engine, policy: Any, workload: Workload, cluster: Cluster, rules: Rules,
    predictor: Predictor, others: Sequence[str] = (),
) -> Chosen:  # fmt: skip
    """Return the engine of a run.

    Args:
        engine: what the scenario asks for.
        policy: that of the run, like the arguments that follow.
        workload: its jobs.
        cluster: its machines.
        rules: its rules.
        predictor: its estimator.
        others: parts of the run that no compiled replay has, such as a site's power.

    Raises ScenarioError if the compiled engine is asked for and does not cover the run, with all
    reasons.
    """
    if engine == "simpy":
        return Chosen("simpy", "engine: simpy")
    rule = rule_of(policy)
    bags = isinstance(rule, FitRule)
    reasons = list(why_not_compiled(rule, workload, cluster, rules, predictor, others))
    if engine == "compiled" and reasons:
        listed = "; ".join(reasons)
        raise ScenarioError(
            f"engine: compiled does not cover this run: {listed}; change that, or use "
            "engine: auto or simpy"
        )
    if reasons:
        return Chosen("simpy", "; ".join(reasons))
    what, count = ("task", workload.tasks) if bags else ("job", len(workload))
    if engine == "auto" and count < FROM_JOBS:
        few = f"{counted(count, what)}; auto compiles from {FROM_JOBS:,} {what}s on"
        return Chosen("simpy", few)
    assert not isinstance(rule, str)
    return Chosen("compiled", "", rule)


def module_of(rule: PoolRule | FitRule) -> str:
    """Return the file that replays by a rule, as long as nothing is learned."""
    if isinstance(rule, FitRule):
        return "replay_bags"
    if rule.overtaking in ("all", "all, by start"):
        return "replay_planned"
    return "replay_fixed" if isinstance(rule.form, FixedForm) else "replay_changing"


def rule_of(policy: Any) -> PoolRule | FitRule | str:
    """Return a policy's rule, or why it has none."""
    ask = getattr(policy, "decision_rule", None)
    if ask is None:
        return f"policy {type(policy).__name__} has no compiled form"
    found: PoolRule | FitRule | str = ask()
    return found


def why_not_compiled(
    rule: PoolRule | FitRule | str, workload: Workload, cluster: Cluster, rules: Rules,
    predictor: Predictor, others: Sequence[str] = (),
) -> Iterator[str]:  # fmt: skip
    """Yield what of a run the compiled engine does not cover."""
    if not machine_code.is_there():
        yield "numba is not installed (pip install 'simkit-cluster[fast]')"
    yield from others
    if isinstance(rule, FitRule):
        yield from _of_machines(cluster)
        yield from _of_bags(workload)
    elif isinstance(rule, PoolRule):
        yield from _of_pools(cluster)
        yield from _of_maintenance(cluster.maintenance, workload)
        yield from _of_rigid_jobs(workload)
        if _waiting_jobs_decide(workload, cluster):
            yield "a user's waiting jobs decide which of several partitions takes a job"
    yield from _of_rules(rules, len(cluster.maintenance) + len(cluster.changes))
    if isinstance(rule, str):  # whether it is of pools or of bags is not known
        yield rule
    elif isinstance(rule, PoolRule):
        yield from _of_learning(rule, cluster, predictor)
    elif predictor.learns:
        yield f"estimates by {type(predictor).__name__} are learned during the run"


def _of_learning(rule: PoolRule, cluster: Cluster, predictor: Predictor) -> Iterator[str]:
    """Yield what of learned run times is not covered in pools."""
    predicts = predictor.learns or getattr(rule.form, "predicts", False)
    if predicts and len(cluster.partitions) > 1:
        yield "run times are learned across partitions"
    if not predictor.learns:
        return
    if type(predictor) is not UserMean:
        yield f"estimates by {type(predictor).__name__} are learned during the run"
    elif _reads_estimates_by_task(rule):
        yield f"order {type(rule.order).__name__} of learned estimates has no compiled form"


def _reads_estimates_by_task(rule: PoolRule) -> bool:
    form = rule.form
    reads = getattr(rule.order, "reads_estimates", True)
    return isinstance(form, FixedForm) and form.formula is None and reads


def _of_pools(cluster: Cluster) -> Iterator[str]:
    """Yield what is not a pool of one resource that stays as it is."""
    (machines, resources), parts = cluster.capacity.shape, cluster.partitions
    own = [part.machines or tuple(range(machines)) for part in parts]
    if sorted(row for rows in own for row in rows) != list(range(machines)):
        yield "partitions share machines, or leave some out"
    elif machines > len(own):
        yield f"the cluster has {machines:,} machines, not a pool for each partition"
    if resources > 1:
        yield f"the machines have {resources} resources"
    if any(part.preempt is not None for part in parts):
        yield "partitions are preempted"
    if cluster.changes or cluster.absent or cluster.failures is not None:
        yield "machines fail, join or leave"


def _waiting_jobs_decide(workload: Workload, cluster: Cluster) -> bool:
    """Return whether a job that one partition refuses, as too many wait, may go to another."""
    limited = np.array([part.max_waiting_per_user < np.inf for part in cluster.partitions])
    if len(limited) == 1 or not limited.any():
        return False
    admits = Routing(workload, cluster).admits(0, len(workload))
    return bool(((admits.sum(axis=0) > 1) & limited[admits.argmax(axis=0)]).any())


def _of_maintenance(windows: Sequence[Maintenance], workload: Workload) -> Iterator[str]:
    """Yield what windows of maintenance are other than a pool that is smaller for a time."""
    if windows and not (workload.request[:, 0] > 0).all():
        yield "jobs ask for nothing, and so run while too much is taken away"
    if any(window.every_s is not None for window in windows):
        yield "maintenance recurs"
    if any(window.running != "drain" for window in windows):
        yield "maintenance stops what runs"
    amounts = [window.amount for window in windows]
    if amounts and not np.array_equal(amounts, amount_on_grid(np.array(amounts))):
        yield "maintenance takes finer amounts than can be added up exactly"


def _of_machines(cluster: Cluster) -> Iterator[str]:
    """Yield what is not one partition of machines that come and go without stopping a task."""
    if cluster.partitions != (Partition(cluster.partitions[0].name),):
        yield "partitions divide the machines, or limit jobs"
    if (resources := len(cluster.resources)) >= MOST_RESOURCES:
        yield f"the machines have {resources} resources"
    if cluster.maintenance or cluster.failures is not None:
        yield "machines fail, or are maintained"
    if cluster.absent:
        yield "machines join later"
    if any(change.takes_away and change.running != "drain" for change in cluster.changes):
        yield "tasks are stopped where machines are taken away"


def _of_bags(workload: Workload) -> Iterator[str]:
    """Yield what jobs are that is not bags."""
    if bool(np.any(workload.gang & (workload.instances > 1))):
        yield "some tasks start all their instances together"
    yield from _of_waiting(workload)


def _of_waiting(workload: Workload) -> Iterator[str]:
    """Yield whether jobs or tasks wait for others."""
    if workload.has_releases or len(workload.parent):
        yield "jobs wait for others"


def _of_rigid_jobs(workload: Workload) -> Iterator[str]:
    """Yield what jobs are that is not rigid."""
    if workload.tasks != len(workload) or not bool(np.all(workload.gang)):
        yield "jobs have several tasks, or instances that start one by one"
    yield from _of_waiting(workload)
    if workload.request.shape[1] != 1:
        yield "jobs ask for several resources"


def _of_rules(rules: Rules, windows: int) -> Iterator[str]:
    """Yield which rules are not the usual ones."""
    if rules.admission.slots is not None or rules.admission.late != "stay":
        yield "admission limits what the policy sees"
    if rules.scheduling.period_s is not None:
        yield "decisions are made at multiples of a time"
    least = LEAST_DECISIONS + 4 * windows
    if rules.limits.decisions is not None and rules.limits.decisions < least:
        yield "limits.decisions is low"
