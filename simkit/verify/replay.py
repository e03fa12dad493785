"""The check of the stated policy: every job starts when that policy starts it.

The schedule is computed again from the jobs, the scenario and the documented rules alone, and
compared start by start. A run that cannot be replayed is not audited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import log10, sqrt
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.scenario.policy import PLACEMENT, BackfillChoice, ComposedPolicy
from simkit.sections import Section
from simkit.verify.admission import limits_users, machines_of
from simkit.verify.audit import (
    ENDLESS,
    TICK,
    Check,
    Floats,
    Ints,
    NotApplicableError,
    NotAuditedError,
    first_true,
    not_audited_if,
    rule,
    stream,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.backfill import Conservative, Easy, NoBackfill, Rule
from simkit.verify.estimates import ADDED_S
from simkit.verify.folder import BY_LIMIT
from simkit.verify.machines import maintenance_windows
from simkit.verify.pool import Pool, PoolJobs, Rules, Sort, Windows, on_one_clock, pool_windows


@dataclass(frozen=True)
class Setting:
    """What an order knows apart from the jobs."""

    capacity: float
    """Capacity of the pool."""
    seed: int
    arguments: Mapping[str, Any]
    """Arguments of the order, as the scenario gives them."""


Keys = Callable[[PoolJobs, Setting], Floats]
"""(J,): a number that a job keeps while it waits."""
ChangingKeys = Callable[[PoolJobs, Setting, Ints, float], tuple[Floats, ...]]
"""(W,) keys of W waiting jobs at an instant, the first decides."""


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(value) for value in values.tolist()], dtype=np.float64)


def _logs(values: Floats) -> Floats:
    """Return log10(x), x at least 2."""
    return _each(log10, np.maximum(values, 2.0))


def _roots(values: Floats) -> Floats:
    return _each(sqrt, values)


def _log_submit(jobs: PoolJobs) -> Floats:
    """Return log10 of the submit time since the first job, in s, at least 1."""
    return _logs(np.maximum(jobs.submit - jobs.submit.min(initial=np.inf), 1.0))


def _r(jobs: PoolJobs) -> Floats:
    """Return estimates in s; one without an end is a number, too."""
    return np.minimum(jobs.estimate, ENDLESS)


def _at_least_10(jobs: PoolJobs) -> Floats:
    """Return estimates in s, at least 10."""
    return np.maximum(_r(jobs), 10.0)


def _density(jobs: PoolJobs, setting: Setting) -> Floats:
    """Return minus value / (share of the cluster * estimate)."""
    held = jobs.size / setting.capacity * _r(jobs)
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(held > 0, jobs.value / held, np.inf)


def _drawn(jobs: PoolJobs, setting: Setting) -> Floats:
    """Return SplitMix64 of the policy's first draw plus the rank.

    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    first = int(stream(setting.seed, "policy").integers(2**63))
    with np.errstate(over="ignore"):
        mixed = jobs.rank.astype(np.uint64) + np.uint64(first + 1)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed.astype(np.float64) / 2.0**64


STATIC: Final[dict[str, Keys]] = {
    "fcfs": lambda jobs, _: jobs.submit,
    "lcfs": lambda jobs, _: -jobs.rank.astype(np.float64),
    "sjf": lambda jobs, _: jobs.estimate,
    "ljf": lambda jobs, _: -jobs.estimate,
    "saf": lambda jobs, _: jobs.size * _r(jobs),
    "laf": lambda jobs, _: -(jobs.size * _r(jobs)),
    "f1": lambda jobs, _: _logs(_r(jobs)) * jobs.size + 870.0 * _log_submit(jobs),
    "f2": lambda jobs, _: _roots(_r(jobs)) * jobs.size + 25_600.0 * _log_submit(jobs),
    "f3": lambda jobs, _: _r(jobs) * jobs.size + 6_860_000.0 * _log_submit(jobs),
    "f4": lambda jobs, _: _r(jobs) * _roots(jobs.size) + 530_000.0 * _log_submit(jobs),
    "log-r-n": lambda jobs, _: _logs(_r(jobs)) * jobs.size,
    "r2-n": lambda jobs, _: _at_least_10(jobs) * _at_least_10(jobs) * jobs.size,
    "random": _drawn,
    "fewest-remaining": lambda jobs, _: jobs.instances,
    "largest-request": lambda jobs, setting: -jobs.request / setting.capacity,
    "qos": lambda jobs, _: -jobs.qos,
    "value": lambda jobs, _: -jobs.value,
    "value-density": _density,
}
"""Orders whose keys do not change while a job waits; all jobs are gangs of a pool."""
BY_VALUE: Final = ("value", "value-density")
"""Orders that need the value of jobs."""


def _facts(jobs: PoolJobs, waiting: Ints, now: float) -> tuple[Floats, Floats, Floats]:
    """Return wait, estimate (at least a tick) and processors."""
    estimate = np.clip(jobs.estimate[waiting], TICK, ENDLESS)
    return now - jobs.submit[waiting], estimate, jobs.size[waiting]


def _hrrn(jobs: PoolJobs, _: Setting, waiting: Ints, now: float) -> tuple[Floats]:
    wait, estimate, _size = _facts(jobs, waiting, now)
    return (-((wait + estimate) / estimate),)


def _wfp3(jobs: PoolJobs, _: Setting, waiting: Ints, now: float) -> tuple[Floats]:
    wait, estimate, size = _facts(jobs, waiting, now)
    return (-((wait / estimate) ** 3 * size),)


def _unicef(jobs: PoolJobs, _: Setting, waiting: Ints, now: float) -> tuple[Floats]:
    wait, estimate, size = _facts(jobs, waiting, now)
    return (-(wait / (np.log2(np.maximum(size, 2.0)) * estimate)),)


def _least_slack(
    jobs: PoolJobs, setting: Setting, waiting: Ints, now: float
) -> tuple[Floats, Floats]:
    """Return whether it is too late, if that comes first, and the latest start, on the grid."""
    estimate, deadline = _r(jobs)[waiting], jobs.deadline[waiting]
    due = jobs.submit[waiting] + estimate / jobs.qos[waiting]
    latest = np.floor((np.where(np.isfinite(deadline), deadline, due) - estimate) / TICK) * TICK
    late = (latest < now) & bool(setting.arguments.get("hopeless_last", True))
    return late.astype(np.float64), latest


CHANGING: Final[dict[str, ChangingKeys]] = {
    "hrrn": _hrrn,
    "wfp3": _wfp3,
    "unicef": _unicef,
    "least-slack": _least_slack,
}
"""Orders that are sorted again at every decision."""
ARGUMENTS: Final = {"least-slack": {"hopeless_last"}}
"""Order → names of its arguments; the others have none."""


BACKFILLS: Final[dict[str, Callable[[], Rule]]] = {
    "none": NoBackfill,
    "easy": Easy,
    "easy, the shortest first": partial(Easy, shortest_first=True),
    "conservative": Conservative,
    "conservative, by planned starts": partial(Conservative, by_start=True),
}
"""Backfilling rules that are replayed."""
_WITHOUT_PLANS: Final = frozenset({"none", "easy", "easy, the shortest first"})
"""Those that plan no starts, so that nothing is to be decided when a planned start comes."""
_DISTURBING: Final = {
    "capacity": "the capacity changes",
    "reserved": "jobs wait for reservations",
    "suspended": "jobs are suspended",
    "lost": "jobs lose their work and start over",
}
"""Kind of event → why a run with it is not replayed."""


@rule
def check_schedule(run: AuditedRun, check: Check) -> None:
    """Every job starts when the stated policy starts it."""
    policy = run.scenario.policy
    if not isinstance(policy, ComposedPolicy):
        raise NotAuditedError("only policies of an order and a backfilling rule are replayed")
    _needs_known_policy(run, policy)
    _needs_steady_pool(run)
    if run.scenario.cluster.maintenance and _windows(run) is None:
        raise NotAuditedError("maintenance windows may overlap, or recur with several periods")
    jobs = PoolJobs.of(run)
    _needs_facts(run, policy, jobs)
    check.examined = run.rows_of("jobs")
    expected = expected_schedule(run, policy, jobs)
    if run.preempts:
        _compare_attempts(check, run, expected.attempts)
    else:
        _compare(check, run, expected.starts)


def _compare(check: Check, run: AuditedRun, expected: Floats) -> None:
    """Record the jobs that start at another instant; the first difference comes first."""
    due = pl.Series("expected_start_s", expected).fill_nan(None)
    jobs = run.only("jobs", "job_id", "submit_time_s", "start_time_s").with_columns(due)
    found, due_then = pl.col("start_time_s"), pl.col("expected_start_s")
    wrong = jobs.filter(found.ne_missing(due_then))
    wrong = wrong.sort(pl.min_horizontal(found, due_then), "submit_time_s", "job_id")
    check.add_rows("does not start when the stated policy starts it", wrong)


def _compare_attempts(check: Check, run: AuditedRun, due: pl.DataFrame) -> None:
    """Record the attempts that start or are preempted at another instant, the first one first."""
    reasons = run.jobs.select("job_id", "reason")
    stopped = (pl.col("outcome") == "lost") | ((pl.col("outcome") == "killed") & ~BY_LIMIT)
    found = run.allocations.join(reasons, on="job_id", how="left", maintain_order="left").select(
        "job_id", "attempt", "start_time_s", preempted_s=pl.when(stopped).then("end_time_s")
    )
    jobs = run.jobs.with_row_index("row").select(pl.col("row").cast(pl.Int64), "job_id")
    due = due.join(jobs, on="row").drop("row")
    rows = found.join(due, on=["job_id", "attempt"], how="full", coalesce=True)
    earliest = []
    for found_s, due_s in _OF_ATTEMPTS.items():
        differs = pl.col(found_s).ne_missing(pl.col(due_s))
        earliest.append(pl.when(differs).then(pl.min_horizontal(found_s, due_s)))
    rows = rows.with_columns(first_s=pl.min_horizontal(*earliest))
    wrong = rows.filter(pl.col("first_s").is_not_null()).sort("first_s", "job_id", "attempt")
    message = "does not start, or is not preempted, when the stated policy does so"
    check.add_rows(message, wrong.drop("first_s"))


_OF_ATTEMPTS: Final = {"start_time_s": "expected_start_s", "preempted_s": "expected_preempted_s"}
"""What is recorded of an attempt → what is expected."""


@dataclass(frozen=True)
class Schedule:
    """What a policy does with the jobs of some pools."""

    pools: Sequence[Pool]
    """At their ends."""
    rows: Sequence[Ints]
    """Of each pool, (J,): row of each of its jobs in the table of jobs."""

    @cached_property
    def starts(self) -> Floats:
        """(J,): the first start of each job by its row; NaN if it never starts."""
        starts = np.empty(sum(map(len, self.rows)))
        for pool, row in zip(self.pools, self.rows, strict=True):
            starts[row] = pool.first_start
        return starts

    @cached_property
    def attempts(self) -> pl.DataFrame:
        """``row`` of the job, ``attempt``, ``expected_start_s`` and ``expected_preempted_s``.

        The last is null if it is not preempted.
        """
        return pl.concat(map(_attempts, self.pools, self.rows))


def _attempts(pool: Pool, row: Ints) -> pl.DataFrame:
    """Return the attempts of the jobs of a pool."""
    names = ("row", "attempt", "expected_start_s", "expected_preempted_s")
    schema = dict(zip(names, (pl.Int64, pl.Int64, pl.Float64, pl.Float64), strict=True))
    stopped = [(int(row[job]), *facts) for job, *facts in pool.stopped]
    last = {(stop.job, stop.attempt) for stop in pool.stopped}
    ran = [
        (int(row[job]), attempt, start, None)
        for job, (attempt, start) in enumerate(zip(pool.attempts, pool.start, strict=True))
        if attempt and (job, attempt) not in last
    ]
    return pl.DataFrame(stopped + ran, schema=schema, orient="row")


def expected_schedule(run: AuditedRun, policy: ComposedPolicy, jobs: PoolJobs) -> Schedule:
    """Return what the stated policy does with the rows of the table of jobs."""
    pools = _pools(run, jobs)
    assert pools is not None
    capacity = sum(rules.capacity for rules, _ in pools)
    setting = Setting(capacity, run.scenario.seed, policy.order.args)
    return replayed(jobs, pools, setting, policy.order.type, _backfill(policy.backfill))


def replayed(
    jobs: PoolJobs,
    pools: Sequence[tuple[Rules, Ints]],
    setting: Setting,
    order: str,
    backfill: str,
) -> Schedule:
    """Return what a policy does with jobs.

    Args:
        jobs: the jobs by rank.
        pools: the rules of each pool, and which jobs go to it.
        setting: what the order knows apart from the jobs.
        order: one of `STATIC` or `CHANGING`.
        backfill: one of `BACKFILLS`.
    """
    keys = STATIC[order](jobs, setting) if order in STATIC else None
    made, rows = [], []
    for rules, mine in pools:
        own = jobs.take(mine)
        if keys is not None:
            own, rules = _numbered(own, rules, keys[mine])
        made.append(Pool(own, rules, None if keys is not None else _sorting(own, setting, order)))
        rows.append(own.row)
    if len(made) > 1 and _sees_every_decision(jobs, order, backfill):
        rule_of = {pool: BACKFILLS[backfill]() for pool in made}
        for pool in on_one_clock(made):
            rule_of[pool].decide(pool)
    else:
        for pool in made:
            rule = BACKFILLS[backfill]()
            for _ in pool.decisions():
                rule.decide(pool)
    return Schedule(made, rows)


def _sees_every_decision(jobs: PoolJobs, order: str, backfill: str) -> bool:
    """Return whether a decision may start jobs at which nothing but the time is new."""
    return order in CHANGING or (jobs.overrun and backfill != "none")


def _numbered(jobs: PoolJobs, rules: Rules, keys: Floats) -> tuple[PoolJobs, Rules]:
    """Number the jobs in the order of the queue, which does not change."""
    order = np.lexsort((jobs.rank, keys, -jobs.priority))
    rank = None if rules.rank is None else rules.rank[order]
    return jobs.take(order), replace(rules, rank=rank)


def _sorting(jobs: PoolJobs, setting: Setting, order: str) -> Sort:
    """Return what sorts a queue whose order changes; jobs are numbered by rank."""
    keys = CHANGING[order]

    def sort(waiting: Ints, now: float) -> Ints:
        first = keys(jobs, setting, waiting, now)[::-1]
        return waiting[np.lexsort((waiting, *first, -jobs.priority[waiting]))]

    return sort


def _pools(run: AuditedRun, jobs: PoolJobs) -> list[tuple[Rules, Ints]] | None:
    """Return the rules of each pool and its jobs; None if the cluster does not consist of pools.

    It does if it is one machine, or if each partition has one machine.
    """
    if len(run.capacity) == 1:
        return [(_rules(run, jobs, *run.capacity), np.arange(len(jobs.row)))]
    machines = [machines_of(run, part) for part in run.partitions or [{"machines": None}]]
    if any(len(one) != 1 for one in machines):
        return None
    machine = np.array([one[0] for one in machines])[jobs.partition]
    return [(_rules(run, jobs, m), np.flatnonzero(machine == m)) for m in run.capacity]


def _rules(run: AuditedRun, jobs: PoolJobs, machine: int) -> Rules:
    admission = run.scenario.admission
    compared = {"qos": jobs.qos, "value": jobs.value}
    return Rules(
        capacity=run.capacity[machine][0],
        period=run.period_s,
        steps=run.scenario.scheduling.step is not None,
        slots=admission.slots,
        refill_at_once=admission.refill == "at_once",
        added=ADDED_S[run.scenario.estimates.correction],
        windows=_windows(run),
        rank=compared.get(admission.order),
    )


def _windows(run: AuditedRun) -> Windows | None:
    """Return the maintenance of the only pool; None without maintenance.

    Raises ValueError if a window has no place in time.
    """
    if not (windows := maintenance_windows(run)):
        return None
    ((machine, (capacity, *_)),) = run.capacity.items()
    return pool_windows(windows, machine, capacity)


# ---- what is not replayed -----------------------------------------------------------------------


def _needs_known_policy(run: AuditedRun, policy: ComposedPolicy) -> None:
    """Raise NotAuditedError if the policy is not replayed."""
    order, backfill = policy.order.type, _backfill(policy.backfill)
    correction = run.scenario.estimates.correction
    unknown = policy.order.args.keys() - ARGUMENTS.get(order, set())
    not_audited_if({
        f"the order {order} is not replayed": order not in STATIC and order not in CHANGING,
        f"backfilling by {backfill} is not replayed": backfill not in BACKFILLS,
        f"policies with the argument {', '.join(unknown)} are not replayed": unknown,
        f"estimates corrected by {correction} are not replayed": correction not in ADDED_S,
    })  # fmt: skip


def _backfill(choice: BackfillChoice) -> str:
    """Return the name of a backfilling rule in `BACKFILLS`, or its words if it is not there."""
    name, arguments = choice.type, choice.args
    if name == "easy" and arguments == {"order": "sjf"}:
        return "easy, the shortest first"
    if name == "easy" and arguments == {"order": "queue"}:
        return "easy"
    if name == "conservative" and arguments == {"compress": "completion"}:
        return "conservative, by planned starts"
    if name == "conservative" and arguments == {"compress": "queue"}:
        return "conservative"
    return " ".join([name, *(f"with {key} {value}" for key, value in arguments.items())])


def decides_at_changes_alone(policy: Section) -> bool:
    """Return whether a policy is known to ask for no decision, and to read no signal of power.

    Static orders ask for no wake-up; neither does backfilling without planned starts.
    """
    if not isinstance(policy, ComposedPolicy) or policy.placement.type != PLACEMENT:
        return False
    return policy.order.type in STATIC and _backfill(policy.backfill) in _WITHOUT_PLANS


def _needs_steady_pool(run: AuditedRun) -> None:
    """Raise NotAuditedError if the run is not that of a pool that stays as it is."""
    kinds = set(run.tables["events"]["kind"].unique().to_list())
    others = (r for r in run.requested if r != run.resources[0])
    cluster = run.scenario.cluster
    windows = cluster.maintenance  # they are known ahead
    if windows:
        kinds.discard("capacity")
    stop_jobs = any(window.running != "drain" for window in windows)
    if run.preempts:
        kinds.discard("lost")
    happened = [reason for kind, reason in _DISTURBING.items() if kind in kinds]
    attempts = run.only("jobs", "attempts")["attempts"].is_in([0, 1]).all()
    not_audited_if({
        "the run is not complete": not run.complete,
        "jobs wait for their release": run.has_releases,
        "several machines have slots or maintenance": (
            len(run.capacity) > 1 and (run.scenario.admission.slots is not None or windows)
        ),
        "jobs request several resources, or not the first": any(others) or not run.requested,
        "machines change, or users' processes run": (
            run.scenario.processes or cluster.trace or cluster.containers or cluster.failures
        ),
        "both partitions and maintenance stop running jobs": run.preempts and stop_jobs,
        "it is not known how often jobs may start over": (
            run.preempts and not run.retries_known and run.given_up.height > 0
        ),
        "jobs that are preempted go on later": run.pauses,
        "late jobs leave": run.scenario.admission.late == "leave",
        "power limits the capacity": run.power_limits_capacity,
        "; ".join(happened): bool(happened),
        "jobs have several tasks, no task, or bags": not run.one_gang_each,
        "jobs were started more than once": not (attempts or run.preempts),
    })  # fmt: skip


def _needs_facts(run: AuditedRun, policy: ComposedPolicy, jobs: PoolJobs) -> None:
    """Raise NotAuditedError if something is missing to replay these jobs."""
    order, backfill = policy.order.type, _backfill(policy.backfill)
    admission = run.scenario.admission.order
    needed = {"submit": jobs.submit, "estimate": jobs.estimate, "run": jobs.run, "size": jobs.size}
    missing = [name for name, column in needed.items() if np.isnan(column).any()]
    by_value = order in BY_VALUE or admission == "value"
    # Such decisions may come at instants that leave no record.
    sensitive = _sees_every_decision(jobs, order, backfill)
    recurs = any(w.every is not None for w in maintenance_windows(run))
    not_audited_if({
        "an order that changes with time is not replayed if maintenance recurs": (
            order in CHANGING and recurs
        ),
        f"not all jobs have a {' and a '.join(missing)} time or size": bool(missing),
        "the cluster is not one machine, nor one for each partition": _pools(run, jobs) is None,
        "with several pools, planned starts are not replayed if jobs overrun their estimates": (
            len(run.capacity) > 1 and jobs.overrun and backfill not in _WITHOUT_PLANS
        ),
        "the values that the policy saw do not follow from the scenario": (
            by_value and bool(np.isnan(jobs.value).any())
        ),
        "jobs are decided on when power changes, and such instants are not replayed": (
            "power" in run.tables and sensitive
        ),
    })  # fmt: skip


@rule
def check_fcfs_order(run: AuditedRun, check: Check) -> None:
    """Without backfilling, jobs start in order of submission."""
    _needs_order_of_submission(run)
    kinds = set(run.tables["events"]["kind"].to_list())
    once = run.jobs["attempts"].is_in([0, 1]).all()
    not_audited_if({
        "the run is not complete": not run.complete,
        "jobs wait for their release": run.has_releases,
        "the cluster is not a pool of one resource": len(run.capacity) * len(run.resources) != 1,
        "users' jobs are held back by partitions": limits_users(run),
        "the cluster has partitions": len(run.partitions) > 1,
        "there are reservations, suspensions or losses": kinds & {"reserved", "suspended", "lost"},
        "jobs have several tasks or attempts, no task, or bags": not (once and run.one_gang_each),
    })  # fmt: skip
    started = pl.col("start_time_s").is_not_null()
    jobs = run.jobs.filter(started).sort("submit_time_s", "job_id")
    check.examined = jobs.height
    jobs = jobs.with_columns(pl.col("job_id").shift(1).alias("starts_before_job"))
    early = jobs.filter(pl.col("start_time_s").diff() < 0)
    check.add_rows("starts before a job that was submitted earlier", early)


def _needs_order_of_submission(run: AuditedRun) -> None:
    """Raise NotApplicableError if the policy of the run promises another order, or none."""
    policy, admitted = run.scenario.policy, run.scenario.admission.order
    if not isinstance(policy, ComposedPolicy):
        raise NotApplicableError("the policy is not made of an order and a backfilling rule")
    order, backfill = policy.order.type, policy.backfill.type
    reasons = {
        f"admission is by {admitted}, not by submission": admitted != "fifo",
        f"the order is {order}, not fcfs": order != "fcfs",
        f"backfilling is {backfill}": backfill != "none",
    }
    if reason := first_true(reasons):
        raise NotApplicableError(reason)
