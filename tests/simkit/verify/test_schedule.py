"""The stated policy is replayed: honest runs pass, and another policy's schedule does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.scenario import Scenario
from simkit.verify import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.pool import PoolJobs, Rules
from simkit.verify.replay import (
    BACKFILLS,
    CHANGING,
    STATIC,
    Setting,
    check_schedule,
    replayed,
)

pytestmark = pytest.mark.sampled

ORDERS = [*STATIC, *CHANGING]
POLICIES = [(order, backfill) for order in ORDERS for backfill in BACKFILLS]


RULES = {
    "easy, the shortest first": {"type": "easy", "order": "sjf"},
    "conservative, by planned starts": {"type": "conservative", "compress": "completion"},
}
"""Name of a replayed rule → what a scenario says, where that is not the same."""


def policy_of(order: str, backfill: str) -> dict[str, Any]:
    """Return the section of a scenario."""
    return {"order": order, "backfill": RULES.get(backfill, backfill)}


def write_jobs(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    """Write (submit, run, processors, requested, QoS, queue, user) as a table of jobs."""
    names = (
        "submit_time_s", "run_time_s", "processors", "requested_time_s", "qos", "queue", "user",
    )  # fmt: skip
    table = pl.DataFrame(rows, schema=list(names), orient="row", strict=False)
    table.with_row_index("job_id").cast({"job_id": pl.Int64}).write_csv(path)
    return path


def scenario_of(jobs: Path, order: str, backfill: str, **sections: Any) -> dict[str, Any]:
    return {
        "name": "replayed", "seed": 3, "workload": {"type": "jobs", "path": str(jobs)},
        "cluster": {"processors": 6}, "value": {"qos": "column", "prices": {"processors": 0.5}},
        "policy": policy_of(order, backfill),
    } | sections  # fmt: skip


def log_of(jobs: int) -> list[tuple[Any, ...]]:
    """A crowded log in which every policy has a schedule of its own, or nearly."""
    rng = np.random.default_rng(7)
    submit = np.floor(np.cumsum(rng.exponential(6.0, jobs)))
    run = rng.integers(1, 40, jobs)
    return [
        (float(s), float(r), int(p), float(r + more), q, 0, 0)
        for s, r, p, more, q in zip(
            submit, run, rng.integers(1, 7, jobs), rng.integers(0, 30, jobs),
            rng.choice([0.25, 0.5, 0.75, 1.0], jobs).tolist(), strict=True,
        )
    ]  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function: policy → its run of one log, made once."""
    folder = tmp_path_factory.mktemp("honest")
    jobs = write_jobs(folder / "jobs.csv", log_of(45))

    @cache
    def run_of(order: str, backfill: str) -> AuditedRun:
        target = folder / f"{order}-{backfill}"
        simkit.simulate(scenario_of(jobs, order, backfill), output=target)
        return AuditedRun.read(target)

    return run_of


def declared(run: AuditedRun, order: str, backfill: str) -> AuditedRun:
    """The same tables under another name."""
    scenario = run.manifest["scenario"] | {"policy": policy_of(order, backfill)}
    return replace(run, scenario=Scenario.model_validate(scenario))


def starts_of(run: AuditedRun) -> list[float]:
    return run.jobs.sort("job_id")["start_time_s"].to_list()


@pytest.mark.parametrize(("order", "backfill"), POLICIES)
def test_an_honest_run_is_replayed_start_by_start(order: str, backfill: str, honest: Any) -> None:
    check = check_schedule(honest(order, backfill))
    assert (check.skipped, check.examined, check.found) == ("", 45, 0)


def is_caught(run: AuditedRun, honest: Any, order: str, backfill: str) -> bool:
    """Whether the run, declared as another policy's, is judged as the schedules tell."""
    same = starts_of(run) == starts_of(honest(order, backfill))
    return bool(check_schedule(declared(run, order, backfill)).found) is not same


@pytest.mark.thorough
@pytest.mark.parametrize(("order", "backfill"), POLICIES)
def test_no_schedule_passes_as_that_of_another_policy(
    order: str, backfill: str, honest: Any
) -> None:
    run = honest(order, backfill)
    others = [(o, b) for o, b in POLICIES if o == order or b == backfill]
    wrong = [other for other in others if not is_caught(run, honest, *other)]
    assert wrong == []


@pytest.mark.thorough
def test_the_schedules_of_the_log_differ(honest: Any) -> None:
    """What the test above rests on: most pairs of policies do not have one schedule."""
    schedules = [tuple(starts_of(honest(*policy))) for policy in POLICIES]
    pairs = list(combinations(schedules, 2))
    assert sum(a != b for a, b in pairs) > 0.95 * len(pairs)
    # the two compressions of conservative backfilling have one schedule here for some orders
    assert len(set(schedules)) > 0.6 * len(POLICIES)


def test_a_start_moved_by_a_second_is_named(kit: Any, plain_jobs: Any, tmp_path: Path) -> None:
    world = kit.replayed(plain_jobs, [8])
    for table in ("jobs", "tasks", "allocations"):
        row = world.row_of(table, job_id=9)
        later = {name: lambda t: t + 1 for name in ("start_time_s", "end_time_s")}
        world.set(table, row, **later)
    row = world.row_of("jobs", job_id=9)
    world.set("jobs", row, wait_time_s=lambda t: t + 1, turnaround_time_s=lambda t: t + 1)
    audit = world.audit(tmp_path / "run")
    (violation,) = [v for v in audit.violations if v.check == "schedule"]
    assert violation.row == {
        "job_id": 9, "submit_time_s": 400.0, "start_time_s": 401.0, "expected_start_s": 400.0,
    }  # fmt: skip
    assert "does not start when the stated policy starts it" in str(violation)


def test_the_first_difference_comes_first(honest: Any) -> None:
    run = honest("fcfs", "none")
    check = check_schedule(declared(run, "fcfs", "easy"))
    first = [min(v.row["start_time_s"], v.row["expected_start_s"]) for v in check.violations]
    assert check.found > 10
    assert first == sorted(first)


# --- the replay and the engine are two implementations of one document ----------------------------

JOB = st.tuples(
    st.sampled_from([0, 0, 1, 1, 2, 3, 7]),  # gap to the job before
    st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13]),  # run time
    st.integers(1, 6),  # processors
    st.integers(-6, 6),  # how much longer the request is; shorter ones overrun
    st.sampled_from([0.25, 0.5, 1.0]),  # QoS
    st.integers(0, 2),  # queue
    st.integers(0, 1),  # user
)
PARTITIONS = [
    {"name": "urgent", "queues": [1], "priority": 2.0},
    {"name": "soon", "queues": [2], "priority": 1.0},
    {"name": "rest"},
]
RECURS = "an order that changes with time is not replayed if maintenance recurs"
PERIOD = st.sampled_from([0.5, 1.0, 2.0, 5.0])
ADMISSION = st.fixed_dictionaries({
    "slots": st.integers(1, 4), "refill": st.sampled_from(["at_once", "next_decision"]),
    "order": st.sampled_from(["fifo", "qos", "value"]), "backlog": st.none() | st.integers(0, 4),
})  # fmt: skip
DRAWN_WINDOW = st.fixed_dictionaries(
    {"start": st.integers(0, 40).map(float), "duration": st.integers(1, 9).map(float),
     "processors": st.integers(1, 3)}, optional={"every": st.just(17.0)},
)  # fmt: skip
SECTIONS = st.fixed_dictionaries(
    {"seed": st.integers(0, 5)},
    optional={
        "walltime": st.just("kill"),
        "scheduling": st.builds(lambda kind, period: {kind: period},
                                st.sampled_from(["every", "step"]), PERIOD),
        "admission": ADMISSION,
        "cluster": st.fixed_dictionaries({"processors": st.just(6)}, optional={
            "partitions": st.just(PARTITIONS),
            "maintenance": st.lists(DRAWN_WINDOW, min_size=1, max_size=2),
        }),
        "estimates": st.sampled_from([
            "actual", {"type": "perturbed", "factor": 2.0}, "user-mean",
            {"type": "user-mean", "correction": "tsafrir"},
            {"type": "user-mean", "correction": "request"},
        ]),
        "minutes": st.booleans(),  # the unit of all times in the log, for corrections; else seconds
    },
)  # fmt: skip


@given(
    rows=st.lists(JOB, min_size=1, max_size=25),
    order=st.sampled_from(ORDERS),
    backfill=st.sampled_from(list(BACKFILLS)),
    sections=SECTIONS,
)
def test_the_replay_equals_the_engine(
    rows: list[Any], order: str, backfill: str, sections: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    check = replay(rows, order, backfill, sections, tmp_path_factory.mktemp("run"))
    assert check.skipped in (("", RECURS) if order in CHANGING else ("",))
    assert check.violations == []


def replay(
    rows: list[Any], order: str, backfill: str, sections: dict[str, Any], folder: Path
) -> Check:
    """Simulate drawn jobs, and return the check of their schedule."""
    submit, jobs = 0, []
    unit = 60 if sections.pop("minutes", False) else 1
    for gap, run, size, more, qos, queue, user in rows:
        submit += gap * unit
        requested = max(run + more, 0) * unit
        jobs.append((submit, run * unit, size, requested, qos, queue, user))
    scenario = scenario_of(write_jobs(folder / "jobs.csv", jobs), order, backfill, **sections)
    simkit.simulate(scenario, output=folder / "run")
    return check_schedule(AuditedRun.read(folder / "run"))


TREATMENT = st.sampled_from([None, "requeue", "cancel"])
MOST = st.none() | st.integers(1, 3)


@given(
    rows=st.lists(JOB, min_size=1, max_size=25),
    order=st.sampled_from(ORDERS),
    backfill=st.sampled_from([name for name in BACKFILLS if "conservative" not in name]),
    sections=SECTIONS,
    preempt=st.tuples(TREATMENT, TREATMENT).filter(any),
    most=st.tuples(MOST, MOST, MOST),
)
def test_the_replay_equals_the_engine_where_partitions_preempt(
    rows: list[Any], order: str, backfill: str, sections: dict[str, Any],
    preempt: tuple[str | None, ...], most: tuple[int | None, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    partitions = [
        partition | {"preempt": treatment, "max_running_per_user": limit}
        for partition, treatment, limit in zip(PARTITIONS, (None, *preempt), most, strict=True)
    ]
    cluster = sections.get("cluster", {"processors": 6}) | {"partitions": partitions}
    sections = sections | {"cluster": cluster}
    check = replay(rows, order, backfill, sections, tmp_path_factory.mktemp("run"))
    assert check.skipped in (("", RECURS) if order in CHANGING else ("",))
    assert check.violations == []


POOLS = [
    {"name": "urgent", "queues": [1], "processors": 6, "priority": 2.0},
    {"name": "soon", "queues": [2], "processors": 3},
    {"name": "rest", "processors": 5},
]
PLANNED = "with several pools, planned starts are not replayed if jobs overrun their estimates"
NO_POOLS = "the cluster is not one machine, nor one for each partition"
SLOTTED = "several machines have slots or maintenance"


@given(
    rows=st.lists(JOB, min_size=1, max_size=25),
    order=st.sampled_from(ORDERS),
    backfill=st.sampled_from(list(BACKFILLS)),
    sections=SECTIONS,
    most=st.tuples(MOST, MOST, MOST),
)
def test_the_replay_equals_the_engine_where_partitions_have_processors_of_their_own(
    rows: list[Any], order: str, backfill: str, sections: dict[str, Any],
    most: tuple[int | None, ...], tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    pools = [
        pool | {"max_running_per_user": limit} for pool, limit in zip(POOLS, most, strict=True)
    ]
    sections = sections | {"cluster": {"partitions": pools}}
    check = replay(rows, order, backfill, sections, tmp_path_factory.mktemp("run"))
    left_out = {PLANNED: "conservative" in backfill, SLOTTED: "admission" in sections}
    assert not check.skipped or any(text in check.skipped for text in left_out if left_out[text])
    assert check.violations == []


@pytest.mark.parametrize("machines", [[3, 5], [4, 2, 2]])
def test_machines_without_partitions_are_no_pools(
    machines: list[int], kit: Any, tmp_path: Path
) -> None:
    audit = kit.replayed([kit.rigid(1, 0, 5, 2, 5)], machines).audit(tmp_path / "run")
    assert audit.violations == ()
    assert audit.not_audited["schedule"] == NO_POOLS


def test_steps_meet_the_only_gap_after_more_than_a_cycle(tmp_path):
    """A job of 11 s fits between windows of 17 s only from 17 k + 6 s on: of the steps, at 40 s."""
    jobs = [(0, 0, 1, 0, 0.25, 0, 0)] * 8 + [(0, 13, 6, 11, 0.25, 0, 0)]
    windows = [{"start": 0.0, "duration": 1.0, "processors": 1},
               {"start": 0.0, "duration": 6.0, "processors": 1, "every": 17.0}]  # fmt: skip
    scenario = scenario_of(
        write_jobs(tmp_path / "jobs.csv", jobs), "fcfs", "none", scheduling={"step": 5.0},
        cluster={"processors": 6, "maintenance": windows},
    )  # fmt: skip
    run = simkit.simulate(scenario, output=tmp_path / "run")
    assert run.jobs["start_time_s"].max() == 40
    assert check_schedule(AuditedRun.read(tmp_path / "run")).violations == []


# --- the reference schedules of other programs -----------------------------------------------------

LOGS = {"KTH-SP2-1996-2.1-cln": 100, "lublin_256": 256, "SDSC-SP2-1998-4.2-cln": 128}
LONG_LOGS = {"HPC2N-2002-2.2-cln": 240, "SDSC-BLUE-2000-4.2-cln": 1152}
COLUMNS = {
    ("fcfs", "none"): "start_fcfs_s", ("fcfs", "easy"): "start_easy_s",
    ("sjf", "none"): "start_sjf_s", ("sjf", "easy"): "start_sjf_easy_s",
}  # fmt: skip


def pool_jobs(log: pl.DataFrame) -> PoolJobs:
    """The jobs of a reference log, sorted by (submit time, job id)."""
    names = ("submit_time_s", "run_time_s", "requested_time_s", "processors")
    submit, run, requested, size = (log[name].cast(pl.Float64).to_numpy() for name in names)
    ones, rank = np.ones(log.height), np.arange(log.height)
    return PoolJobs(
        row=rank, rank=rank, rejected=np.zeros(log.height, bool), submit=submit, run=run,
        estimate=requested, size=size, instances=size, request=ones, partition=0 * rank,
        priority=0 * ones, qos=ones,
        value=0 * ones, deadline=np.inf * ones, requested=requested,
        account=np.full(log.height, -1), most_running=np.inf * ones,
        treatment=[None] * log.height, retries=np.inf * ones,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("log", "processors"),
    [*LOGS.items(), *(pytest.param(*item, marks=pytest.mark.slow) for item in LONG_LOGS.items())],
)
def test_the_replay_equals_the_reference_schedules(
    log: str, processors: int, reference: Any
) -> None:
    table = reference(log).sort("submit_time_s", "job_id")
    jobs, setting = pool_jobs(table), Setting(processors, 0, {})
    for (order, backfill), column in COLUMNS.items():
        found = replayed(jobs, [(Rules(processors), jobs.rank)], setting, order, backfill)
        assert np.array_equal(found.starts, table[column].cast(pl.Float64).to_numpy()), column


# --- what is not replayed -------------------------------------------------------------------------

WINDOW = {"start": 5.0, "duration": 5.0}
STOPPING = {"maintenance": [WINDOW | {"running": "requeue"}]}
FAILING = {"failures": {"mtbf": "1d", "mttr": "1h"}}
LIMITED = {"supply": {"limit": "power"}, "grid": {}, "machines": {"idle_w": 1.0, "full_w": 2.0}}
LEFT_OUT: list[tuple[dict[str, Any], str]] = [
    # what the scenario says, why it is not audited
    ({"policy": {"path": "mine.py:Mine", "args": {}}}, "only policies of an order"),
    ({"policy": {"name": "slotted-sjf"}}, "only policies of an order"),
    ({"policy": {"agent": "deeprm-70"}}, "only policies of an order"),
    ({"policy": {"fitness": "tetris"}}, "only policies of an order"),
    ({"policy": {"order": "multifactor", "backfill": "easy"}}, "order multifactor"),
    ({"policy": {"order": {"type": "sjf", "mine": 1}}}, "argument mine"),
    ({"policy": {"order": "fcfs", "backfill": "ready-pool"}}, "backfilling by ready-pool"),
    ({"policy": {"order": "fcfs", "backfill": {"type": "easy", "mine": 1}}}, "easy with mine 1"),
    ({"cluster": FAILING}, "machines change"),
    ({"cluster": {"maintenance": [WINDOW, WINDOW]}}, "windows may overlap"),
    ({"cluster": STOPPING}, "both partitions and maintenance stop"),
    ({"power": LIMITED}, "power limits the capacity"),
    ({"processes": [{"path": "mine.py:Mine"}]}, "users' processes"),
]


@pytest.mark.parametrize(("settings", "reason"), LEFT_OUT)
def test_what_cannot_be_replayed_is_not_audited(
    settings: dict[str, Any], reason: str, honest: Any
) -> None:
    run = honest("fcfs", "easy")
    manifest = dict(run.manifest)
    scenario = Scenario.model_validate(run.manifest["scenario"] | settings)
    if settings.get("cluster") is STOPPING:
        partitions = [{"name": "urgent", "priority": 1}, {"name": "rest", "preempt": "cancel"}]
        manifest["cluster"] = manifest["cluster"] | {"partitions": partitions}
    check = check_schedule(replace(run, manifest=manifest, scenario=scenario))
    assert check.applies
    assert reason in check.skipped


def test_if_machines_fail_the_order_is_still_audited(kit: Any, tmp_path: Path) -> None:
    jobs = [(0, 12, 8, 12), (1, 10, 8, 10)]
    audit = kit.rescheduled(jobs, [0, 12], "none", cluster=FAILING).audit(tmp_path / "run")
    assert "machines change" in audit.not_audited["schedule"]
    assert "fcfs-order" in {check.name for check in audit.done}


def test_jobs_of_several_tasks_are_not_audited(kit: Any, tmp_path: Path) -> None:
    two = kit.Job(1, 0.0, (kit.Task(0, 1, 5.0), kit.Task(1, 1, 5.0)), 5.0)
    segments = [kit.Segment(1, task, 0, 0, 1, 0.0, 5.0) for task in (0, 1)]
    world = kit.with_utilisation(kit.build([two], segments, [{"processors": 8.0}]))
    assert "several tasks" in world.audit(tmp_path / "run").not_audited["schedule"]
