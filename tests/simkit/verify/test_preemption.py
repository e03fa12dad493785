"""Preemption: honest runs pass; tasks that stop for nobody, wrongly, or out of order are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.errors import ScenarioError
from simkit.policy import State
from simkit.policy import ordered as preemption
from simkit.policy.task import Allocation, Task
from simkit.verify import Audit, verify_run

pytestmark = pytest.mark.sampled

LOAD = {"type": "lublin", "jobs": 500, "processors": 64, "offered_load": 1.1}


def scenario(mode: str | None, **policy: Any) -> dict[str, Any]:
    partitions = [
        {"name": "urgent", "priority": 10, "max_time": "30m", "max_processors": 16},
        {"name": "rest", "preempt": mode},
    ]
    cluster = {"processors": 64, "partitions": partitions}
    return {"workload": LOAD, "cluster": cluster, "policy": {"order": "fcfs"} | policy}


HONEST = preemption.victims
"""The engine's choice of who gives way."""
POOL: dict[str, Any] = {"processors": 64}
MACHINES: dict[str, Any] = {"machines": [{"name": "m", "count": 4, "processors": 16}]}
GROUPS = [
    {"name": "urgent", "priority": 10, "max_time": "30m", "max_processors": 16},
    {"name": "middle", "priority": 5, "max_time": "3h", "preempt": "requeue"},
    {"name": "rest", "preempt": "requeue"},
]


def audited(folder: Path, cluster: dict[str, Any], mode: str = "requeue") -> Audit:
    """Return the audit of a run with three partitions on a pool, or on machines."""
    groups = [group | ({"preempt": mode} if "preempt" in group else {}) for group in GROUPS]
    cluster = cluster | {"partitions": groups}
    policy = {"order": "fcfs", "backfill": "easy"}
    simkit.simulate({"workload": LOAD, "cluster": cluster, "policy": policy}, output=folder)
    return verify_run(folder)


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    simkit.simulate(scenario(request.param, backfill="easy"), output=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("mode", ["requeue", "cancel", "suspend"])
def test_honest_runs_pass(mode: str, backfill: str, tmp_path: Path) -> None:
    before = simkit.simulate(scenario(None, backfill=backfill))
    run = simkit.simulate(scenario(mode, backfill=backfill), output=tmp_path / "run")
    audit = verify_run(tmp_path / "run")
    assert audit.found == {}
    (check,) = (check for check in audit.checks if check.name == "preemption")
    assert check.examined > 10
    waits = [dict(r.metrics_by("partition").select("partition", "wait_time_s").iter_rows())
             for r in (before, run)]  # fmt: skip
    assert waits[1]["urgent"] < 0.5 * waits[0]["urgent"]
    stopped = {
        "requeue": run.jobs["lost_time_s"].sum(), "cancel": run.metrics["jobs"]["killed"],
        "suspend": run.jobs["suspended_time_s"].sum(),
    }  # fmt: skip
    assert [way for way, much in stopped.items() if much > 0] == [mode]


def changed(
    folder: Path, key: str, value: object, row: int = 1, *, facts_alone: bool = False
) -> set[str]:
    """Return what the rule finds after a change of a partition; without one of the scenario."""
    info = json.loads((folder / "run.json").read_text())
    forms = (info, info["scenario"], info["portable_scenario"])
    for form in forms[:1] if facts_alone else forms:
        form["cluster"]["partitions"][row][key] = value
    (folder / "run.json").write_text(json.dumps(info))
    return {v.message for v in verify_run(folder).violations if v.check == "preemption"}


@pytest.mark.parametrize("run", ["requeue"], indirect=True)
@pytest.mark.parametrize("value", [None, "cancel"])
def test_who_stops_in_another_way_is_found(run: Path, value: str | None) -> None:
    assert changed(run, "preempt", value) == {"stopped in another way than its partition says"}


@pytest.mark.parametrize("run", ["requeue"], indirect=True)
def test_who_gives_way_to_no_higher_priority_is_found(run: Path) -> None:
    found = changed(run, "priority", 10, facts_alone=True)
    assert found == {"stopped, but nothing of a higher priority starts"}


@pytest.mark.parametrize("run", ["requeue"], indirect=True)
def test_who_runs_on_in_the_place_of_another_is_found(run: Path) -> None:
    """The victim's number changes place with that of a younger one that ran on."""
    file = run / "allocations.parquet"
    rows = pl.read_parquet(file)
    jobs = pl.read_parquet(run / "jobs.parquet").filter(site_partition="rest")["job_id"]
    rest = rows.filter(pl.col("job_id").is_in(jobs.implode()))
    for victim in rest.filter(outcome="lost").iter_rows(named=True):
        older = rest.filter(
            pl.col("start_time_s") < victim["start_time_s"],
            pl.col("end_time_s") > victim["end_time_s"], pl.col("count") <= victim["count"],
        )  # fmt: skip
        if older.height:
            break
    mine = (pl.col("job_id") == victim["job_id"]) & (pl.col("outcome") == "lost")
    other = (pl.col("job_id") == older["job_id"][0]) & (
        pl.col("end_time_s") == older["end_time_s"][0]
    )
    end = pl.when(mine).then(older["end_time_s"][0]).when(other).then(victim["end_time_s"])
    outcome = pl.when(mine).then(pl.lit("finished")).when(other).then(pl.lit("lost"))
    rows.with_columns(
        end_time_s=end.otherwise("end_time_s"), outcome=outcome.otherwise("outcome")
    ).write_parquet(file)
    found = {v.message for v in verify_run(run).violations if v.check == "preemption"}
    assert any("gave way before it" in message for message in found)


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"order": "fcfs", "backfill": "conservative"}, "policy.backfill: conservative"),
        ({"fitness": "best-fit"}, "policy.fitness: best-fit"),
    ],
)
def test_a_policy_that_does_not_preempt_is_refused_by_its_key(
    policy: dict[str, Any], named: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        simkit.simulate(scenario("requeue") | {"policy": policy})
    assert caught.value.problems == (
        f"{named} preempts no running tasks, but the scenario has cluster.partitions.1.preempt: "
        "requeue; use an order with backfill none or easy, or leave preempt out",
    )


def test_a_partition_that_no_other_could_preempt_is_refused() -> None:
    wrong = scenario("cancel")
    wrong["cluster"]["partitions"][0]["priority"] = 0
    words = r"cluster\.partitions\.1\.preempt: no partition has a higher priority"
    with pytest.raises(ScenarioError, match=words):
        simkit.simulate(wrong)


def write(path: Path, rows: list[tuple[float, ...]], *more: str) -> dict[str, Any]:
    """Write (submit, run, processors, queue, …) as a table of jobs; return the workload."""
    names = ["submit_time_s", "run_time_s", "processors", "queue", *more]
    table = pl.DataFrame(rows, schema=names, orient="row").with_row_index("job_id")
    table.cast({"job_id": pl.Int64}).write_csv(path)
    return {"type": "jobs", "path": str(path)}


TWO = [{"name": "urgent", "queues": [2], "priority": 1}, {"name": "rest", "preempt": "requeue"}]


def test_a_job_that_may_not_start_over_again_is_killed_rightly(tmp_path: Path) -> None:
    rows = [(0, 50, 8, 0, 1), (4, 5, 8, 2, ""), (20, 5, 8, 2, "")]
    load = write(tmp_path / "jobs.csv", rows, "retries")
    cluster = {"processors": 8, "partitions": TWO}
    run = simkit.simulate({"workload": load, "cluster": cluster}, output=tmp_path / "run")
    assert run.jobs.sort("job_id")["attempts"].to_list() == [2, 1, 1]
    assert run.metrics["jobs"]["killed"] == 1
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.found == {}
    assert not {"schedule", "preemption"} & set(audit.not_audited)
    audit = verify_run(tmp_path / "run")  # without the table, the event says that it may not
    assert audit.found == {}
    assert "how often jobs may start over" in audit.not_audited["schedule"]


def test_a_job_may_give_way_twice_at_an_instant(tmp_path: Path) -> None:
    """Of two urgent jobs, the second becomes visible only when the batch job has started again."""
    load = write(tmp_path / "jobs.csv", [(0, 9, 8, 0), (0, 0, 8, 2), (0, 5, 8, 2)])
    cluster = {"processors": 8, "partitions": TWO}
    scenario = {"workload": load, "cluster": cluster, "admission": {"slots": 1}}
    run = simkit.simulate(scenario, output=tmp_path / "run")
    assert run.jobs.sort("job_id")["attempts"].to_list() == [3, 1, 1]
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.found == {}
    assert not {"schedule", "preemption"} & set(audit.not_audited)


JOB = st.tuples(
    st.sampled_from([0, 0, 1, 1, 2, 3, 7]),  # gap to the job before
    st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13]),  # run time
    st.integers(1, 8),  # processors
    st.integers(0, 2),  # queue
)


@given(
    rows=st.lists(JOB, min_size=5, max_size=40),
    modes=st.tuples(*[st.sampled_from(["requeue", "cancel"])] * 2),
    order=st.sampled_from(["fcfs", "sjf", "wfp3"]),
    backfill=st.sampled_from(["none", "easy"]),
    pool=st.booleans(),
)
def test_an_honest_run_of_drawn_jobs_passes(
    rows: list[Any], modes: tuple[str, str], order: str, backfill: str, *, pool: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """On a pool, or on machines that partitions share in part."""
    folder, submit, jobs = tmp_path_factory.mktemp("run"), 0, []
    for gap, run, size, queue in rows:
        submit += gap
        jobs.append((submit, run, size, queue))
    groups = [{"name": name, "count": n, "processors": 4} for name, n in (("a", 2), ("b", 1))]
    places = [{}, {}, {}] if pool else [{"machines": ["a"]}, {}, {"machines": ["b", "a"]}]
    partitions = [
        {"name": "urgent", "queues": [2], "priority": 2} | places[0],
        {"name": "middle", "queues": [1], "priority": 1, "preempt": modes[0]} | places[1],
        {"name": "rest", "preempt": modes[1]} | places[2],
    ]
    cluster = ({"processors": 8} if pool else {"machines": groups}) | {"partitions": partitions}
    policy = {"order": order, "backfill": backfill}
    load = write(folder / "jobs.csv", jobs)
    simkit.simulate({"workload": load, "cluster": cluster, "policy": policy}, output=folder / "run")
    audit = verify_run(folder / "run", inputs=[folder])
    assert audit.found == {}
    assert ("schedule" in audit.not_audited) is not pool


# --- an engine that chooses wrongly ---------------------------------------------------------------


@pytest.mark.parametrize("mode", ["requeue", "cancel"])
@pytest.mark.parametrize("cluster", [POOL, MACHINES])
def test_an_honest_choice_passes(cluster: dict[str, Any], mode: str, tmp_path: Path) -> None:
    audit = audited(tmp_path / "run", cluster, mode)
    assert audit.found == {}
    (check,) = (check for check in audit.checks if check.name == "preemption")
    left_out = check.notes["instants at which it is not recorded who gave way to whom"]
    assert check.examined > 10 * left_out
    assert ("schedule" in audit.not_audited) is (cluster is MACHINES)


Victims = list[Allocation]


def too_many(state: State, task: Task, *rest: Any) -> Victims:
    """One more than needed stops, if there is one."""
    chosen = HONEST(state, task, *rest)
    spared = [each for each in preemption._candidates(state, task) if each not in chosen]
    return chosen + spared[:1] if chosen else []


def in_the_order(key: Any) -> Any:
    """Return a choice in another order than that of the documents."""
    honest = preemption._candidates

    def victims(*of: Any) -> Victims:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(preemption, "_candidates", lambda *of: sorted(honest(*of), key=key))
            return HONEST(*of)

    return victims


highest_first = in_the_order(lambda each: (-each.task.priority, -each.rank))
oldest_first = in_the_order(lambda each: (each.task.priority, each.rank))


def nobody(*_: Any) -> Victims:
    return []


def never_for_the_wide(state: State, task: Task, *rest: Any) -> Victims:
    return HONEST(state, task, *rest) if task.demand[0] < 16 else []


def for_nothing(state: State, task: Task, *rest: Any) -> Victims:
    """The tasks stop although the head does not fit without them either."""
    return HONEST(state, task, *rest) or preemption._candidates(state, task)


SABOTAGES = [
    # who gives way, cluster, violated rules
    (too_many, POOL, {"schedule", "preemption"}),
    (highest_first, POOL, {"schedule", "preemption"}),
    (oldest_first, POOL, {"schedule", "preemption"}),
    (for_nothing, POOL, {"schedule", "preemption"}),
    (nobody, POOL, {"schedule"}),
    (never_for_the_wide, POOL, {"schedule"}),
    (too_many, MACHINES, {"preemption"}),
    (highest_first, MACHINES, {"preemption"}),
    (oldest_first, MACHINES, {"preemption"}),
    (for_nothing, MACHINES, {"preemption"}),
]


@pytest.mark.parametrize(("victims", "cluster", "rules"), SABOTAGES)
def test_a_wrong_choice_is_found(
    victims: Any, cluster: dict[str, Any], rules: set[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(preemption, "victims", victims)
    assert set(audited(tmp_path / "run", cluster, "cancel").found) == rules


@pytest.mark.parametrize("cluster", [POOL, MACHINES])
def test_who_gives_way_to_an_equal_is_found(
    cluster: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def candidates(state: State, task: Task) -> list[Allocation]:
        partitions = state.info.partitions
        return [
            each
            for each in state.running
            if each.task.priority == task.priority
            and partitions[each.task.partition].preempt is not None
        ]

    monkeypatch.setattr(preemption, "_candidates", candidates)
    audit = audited(tmp_path / "run", cluster, "cancel")
    assert "preemption" in audit.found
    assert ("schedule" in audit.found) is (cluster is POOL)
