"""Alibaba's batch jobs: which rows become tasks, how long instances run, what the report counts."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import DATA, needs_real, real_file, refusal

from simkit.traces import rules as shared_rules
from simkit.traces.alibaba2017 import read_alibaba2017
from simkit.traces.alibaba2017 import tables as names
from simkit.traces.alibaba2017.batch import SHARES, Durations

ALIBABA = DATA / "alibaba"
real = needs_real("alibaba", "batch_task.csv.gz")


def task(create=10, end=40, job=1, number=1, instances=2, status="Terminated", cpu=50, mem=0.25):
    """A row of batch_task."""
    return f"{create},{end},{job},{number},{instances},{status},{cpu},{mem}"


def attempt(start=10, end=20, job=1, number=1, machine=5, status="Terminated", seq=1, total=1):
    """A row of batch_instance."""
    return f"{start},{end},{job},{number},{machine},{status},{seq},{total},1.5,1,0.1,0.1"


@pytest.fixture
def folder(tmp_path):
    """Write tables into a folder and return it."""

    def write(tasks, instances=None, servers=None):
        tables = {"batch_task": tasks, "batch_instance": instances, "server_event": servers}
        for name, rows in tables.items():
            if rows is not None:
                (tmp_path / f"{name}.csv").write_text("".join(f"{row}\n" for row in rows))
        return tmp_path

    return write


message = partial(refusal, read_alibaba2017)


# ---- what a row becomes -------------------------------------------------------------------------


def test_a_row_becomes_a_bag_of_instances(folder):
    trace = read_alibaba2017(folder([task(create=10, end=40, job=7, number=9, instances=3)]))
    jobs = trace.workload
    assert jobs.resources == ("cpu", "mem")
    assert (jobs.job_id.tolist(), jobs.task_id.tolist()) == ([7], [9])
    assert (jobs.submit_time_s[0], jobs.run_time_s[0], jobs.instances[0]) == (10, 30, 3)
    assert jobs.request.tolist() == [[0.5, 0.25]]  # plan_cpu is in hundredths of a core
    assert not jobs.gang[0]
    assert np.isnan(jobs.requested_time_s[0])
    assert (jobs.user[0], len(jobs.instance_run_time_s)) == (-1, 0)
    assert trace.tables == {"batch_task": trace.report}
    assert [path.name for path in trace.inputs] == ["batch_task.csv"]


RULE_TABLE = [
    # row, rule, what the report calls it
    (task(), None, "accepted"),
    (task(job=""), names.NO_IDS, "dropped"),
    (task(number=""), names.NO_IDS, "dropped"),
    (task(create=""), names.NOT_A_NUMBER, "dropped"),
    (task(create=5e9, end=6e9), names.NOT_A_NUMBER, "dropped"),
    (task(job=1.5), names.NOT_A_NUMBER, "dropped"),
    (task(cpu=-50), names.NOT_A_NUMBER, "dropped"),
    (task(mem="NaN"), names.NOT_A_NUMBER, "dropped"),
    (task(status="Sleeping"), names.UNKNOWN_STATUS, "dropped"),
    # a task that waits has no request either: the first rule counts
    (task(status="Waiting", cpu="", mem=""), names.WAITING, "dropped"),
    (task(status="Ready"), names.WAITING, "dropped"),
    (task(status="Running"), names.RUNNING, "dropped"),
    (task(status="Failed"), None, "accepted"),
    (task(status="terminated"), None, "accepted"),
    (task(end=0), names.NO_END, "dropped"),
    (task(create=-90, end=0), names.NO_END, "dropped"),
    (task(create=-90, end=-60), names.EARLY, "notes"),
    (task(end=9), names.NEGATIVE_RUN, "dropped"),
    (task(end=10), names.ZERO_RUN, "dropped"),
    (task(instances=0), names.NO_INSTANCES, "dropped"),
    (task(instances=1.5), names.NO_INSTANCES, "dropped"),
    (task(cpu=""), names.NO_REQUEST, "dropped"),
    (task(mem=""), names.NO_REQUEST, "dropped"),
    (task(cpu=0, mem=0), None, "accepted"),
]


@pytest.mark.parametrize(("row", "rule", "kind"), RULE_TABLE)
def test_each_rule_is_counted_once(folder, row, rule, kind):
    report = read_alibaba2017(folder([row, task(create=9999, end=99999, job=99)])).report
    assert report.balanced()
    assert (report.read, report.accepted) == (2, 1 if kind == "dropped" else 2)
    assert report.dropped == ({rule: 1} if kind == "dropped" else {})
    assert report.notes == ({rule: 1} if kind == "notes" else {})
    assert report.lines == ({rule: [1]} if rule else {})


CHOICES = [
    # rules, row, submit and run time, request, what is repaired
    ({"waiting": "keep"}, task(status="Waiting"), 10, 30, [0.5, 0.25], {}),
    ({"running": "keep"}, task(status="Running"), 10, 30, [0.5, 0.25], {}),
    ({"zero_run": "keep"}, task(end=10), 10, 0, [0.5, 0.25], {}),
    ({"negative_run": "zero"}, task(end=3), 10, 0, [0.5, 0.25], {names.NEGATIVE_RUN: 1}),
    ({"early": "zero"}, task(create=-60, end=20), 0, 80, [0.5, 0.25], {names.EARLY: 1}),
    ({"early": "keep"}, task(create=-60, end=20), -60, 80, [0.5, 0.25], {}),
    # the median of the other rows, which ask for 100, 200 and 600 hundredths
    ({"no_request": "median"}, task(cpu=""), 10, 30, [2, 0.25], {names.NO_REQUEST: 1}),
]
OTHERS = [task(create=500, end=900, job=2, number=n, cpu=100 * n) for n in (1, 2, 6)]


@pytest.mark.parametrize(("rules", "row", "submit", "run", "request_", "repaired"), CHOICES)
def test_rules_can_be_chosen(folder, rules, row, submit, run, request_, repaired):
    trace = read_alibaba2017(folder([*OTHERS, row]), rules=rules)
    jobs = trace.workload
    assert (jobs.submit_time_s[0], jobs.run_time_s[0]) == (submit, run)
    assert jobs.request[0].tolist() == request_
    assert trace.report.repaired == repaired
    assert trace.report.balanced()


@pytest.mark.parametrize(
    ("rules", "row", "rule"),
    [
        ({"failed": "drop"}, task(status="Failed"), names.FAILED),
        ({"early": "drop"}, task(create=-1), names.EARLY),
    ],
)
def test_rules_can_leave_out_more(folder, rules, row, rule):
    report = read_alibaba2017(folder([*OTHERS, row]), rules=rules).report
    assert (report.dropped, report.accepted) == ({rule: 1}, 3)


def test_choices_that_do_not_exist_are_named_all_at_once(folder):
    path = folder([task()])
    text = message(path, rules={"wating": "keep", "earlier": "drop"})
    assert "rules.wating: unknown key; did you mean 'waiting'?" in text
    assert "rules.earlier: unknown key" in text
    text = message(path, rules={"waiting": "kept", "early": "no"})
    assert "rules.waiting: unknown value 'kept'; did you mean 'keep'?" in text
    assert "rules.early: unknown value 'no'" in text


# ---- order --------------------------------------------------------------------------------------


def test_jobs_and_tasks_are_put_in_order(folder):
    rows = [
        task(create=50, end=90, job=3, number=8),
        task(create=20, end=90, job=9, number=4),
        task(create=20, end=90, job=4, number=7),
        task(create=20, end=90, job=4, number=6),
        task(create=21, end=90, job=4, number=5),
    ]
    trace = read_alibaba2017(folder(rows))
    jobs = trace.workload
    assert jobs.job_id.tolist() == [4, 9, 3]
    assert jobs.submit_time_s.tolist() == [20, 20, 50]
    assert jobs.first_task.tolist() == [0, 3, 4, 5]
    assert jobs.task_id.tolist() == [6, 7, 5, 4, 8]
    assert trace.report.notes == {shared_rules.OUT_OF_ORDER: 4, names.LATER_TASK: 1}
    assert trace.report.lines[names.LATER_TASK] == [5]


def test_repeated_task_ids_are_kept_and_noted(folder):
    trace = read_alibaba2017(folder([task(), task(), task(number=2)]))
    assert trace.workload.tasks == 3
    assert trace.report.notes == {names.REPEATED_TASK: 1}
    assert trace.report.lines == {names.REPEATED_TASK: [2]}


# ---- run times of instances ---------------------------------------------------------------------


def test_instances_take_their_own_run_times(folder):
    """Task 1 has all its rows (in the order of starts), task 2 lacks one, task 3 has none."""
    tasks = [task(instances=3), task(number=2, instances=3), task(number=3, instances=2)]
    rows = [
        attempt(start=30, end=35),
        attempt(start=20, end=27),
        attempt(start=20, end=23),
        attempt(start=40, end=50, number=2),
        attempt(start=41, end=45, number=2),
    ]
    trace = read_alibaba2017(folder(tasks, rows))
    jobs, report = trace.workload, trace.tables["batch_instance"]
    assert jobs.instance_run_time_s.tolist() == [3, 7, 5, 10, 4, 7, 30, 30]
    assert jobs.run_time_s.tolist() == [5, 7, 30]
    assert (report.read, report.accepted, report.dropped) == (5, 5, {})
    assert report.notes == {names.MISSING_INSTANCES: 1, names.TASKS_WITHOUT_ROWS: 1}
    assert [path.name for path in trace.inputs] == ["batch_task.csv", "batch_instance.csv"]


def test_the_table_of_instances_can_be_left_alone(folder):
    trace = read_alibaba2017(folder([task()], [attempt()]), instances=False)
    assert trace.workload.run_time_s.tolist() == [30]
    assert list(trace.tables) == ["batch_task"]


ATTEMPTS = [
    # row, rule
    (attempt(job=""), names.NO_IDS),
    (attempt(number=""), names.NO_IDS),
    (attempt(start="inf"), names.NOT_A_NUMBER),
    (attempt(number=77), names.UNKNOWN_TASK),
    (attempt(job=2), names.TASK_LEFT_OUT),
    (attempt(status="Waiting", start=0, end=0), names.INSTANCE_WAITING),
    (attempt(status="Running", end=0), names.INSTANCE_RUNNING),
    (attempt(status="Failed", end=0), names.INSTANCE_FAILED),
    (attempt(status="Interupted"), names.INSTANCE_FAILED),
    (attempt(status="Gone"), names.UNKNOWN_STATUS),
    (attempt(seq=1, total=2), names.RETRIED),
    (attempt(start=0), names.NO_START),
    (attempt(end=0), names.NO_END),
    (attempt(end=9), names.NEGATIVE_ATTEMPT),
    # two instances are planned, and the first row and this one start later than two others
    (attempt(start=90, end=95), names.SURPLUS),
]


@pytest.mark.parametrize(("row", "rule"), ATTEMPTS)
def test_each_rule_for_attempts_is_counted_once(folder, row, rule):
    good = [attempt(start=50, end=54), attempt(start=60, end=66, seq=2, total=2)]
    tasks = [task(instances=2), task(job=2, status="Waiting")]
    trace = read_alibaba2017(folder(tasks, [*good, row]))
    report = trace.tables["batch_instance"]
    assert report.balanced()
    assert (report.read, report.accepted, report.dropped) == (3, 2, {rule: 1})
    assert report.lines[rule] == [3]
    assert trace.workload.instance_run_time_s.tolist() == [4, 6]


def test_attempts_of_retried_instances_can_count(folder):
    rows = [attempt(seq=1, total=2), attempt(start=30, end=35, seq=2, total=2)]
    jobs = read_alibaba2017(folder([task()], rows), rules={"retries": "all"}).workload
    assert jobs.instance_run_time_s.tolist() == [10, 5]


def test_instances_on_unknown_machines_are_kept_and_noted(folder):
    servers = ["0,5,add,,64,1,1", "0,6,add,,64,1,1"]
    rows = [attempt(machine=5), attempt(machine=7), attempt(machine="")]
    trace = read_alibaba2017(folder([task(instances=3)], rows, servers))
    report = trace.tables["batch_instance"]
    assert report.accepted == 3
    assert report.notes == {names.UNKNOWN_MACHINE: 1}
    assert report.lines == {names.UNKNOWN_MACHINE: [2]}
    assert trace.tables["server_event"].accepted == 2


# ---- models of durations ------------------------------------------------------------------------


def test_models_of_durations():
    wall, instances = np.array([100.0, 100.0, 100.0, 100.0]), np.array([1, 3, 4, 60_000])
    assert Durations.model_validate("task").run_time_s(wall, instances).tolist() == [100] * 4
    assert Durations.model_validate("share").run_time_s(wall, instances) == pytest.approx(
        [93, 93, 86, 13]
    )
    half = Durations.model_validate({"type": "share", "share": 0.5})
    assert half.run_time_s(wall, instances).tolist() == [50] * 4


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("shares", "did you mean 'share'?"),
        ({"type": "share", "share": 0}, "durations.share: must be more than 0, not 0"),
        ({"type": "task", "share": 0.5}, "belongs to the type share"),
        ({"kind": "task"}, "durations.kind: unknown key"),
    ],
)
def test_models_that_do_not_exist_are_refused(folder, model, text):
    assert text in message(folder([task()]), durations=model)


def test_the_model_fills_in_for_tasks_without_rows(folder):
    tasks = [task(number=1, instances=1), task(number=2, instances=4)]
    jobs = read_alibaba2017(folder(tasks, [attempt()]), durations="share").workload
    assert jobs.run_time_s.tolist() == pytest.approx([10, 30 * 0.86], abs=1e-6)


@real
def test_the_shares_are_those_of_the_tasks_whose_mean_durations_are_known():
    import polars as pl

    real_file("alibaba", "cloudsimpy_jobs.csv.gz")
    known = pl.read_csv(ALIBABA / "cloudsimpy_jobs.csv.gz").select("job_id", "task_id", "duration")
    keep = {"running": "keep", "zero_run": "keep"}
    load = read_alibaba2017(ALIBABA / "batch_task.csv.gz", rules=keep).workload
    job = np.repeat(load.job_id, np.diff(load.first_task))
    frame = pl.DataFrame(
        {"job_id": job, "task_id": load.task_id, "n": load.instances, "wall": load.run_time_s}
    ).filter(pl.col("wall") > 0)
    frame = frame.join(known, on=["job_id", "task_id"])
    assert frame.height == 31_735
    sizes, shares = np.array(SHARES).T
    rung = np.searchsorted(sizes, frame["n"], side="right") - 1
    seconds = [
        np.bincount(rung, (frame[name] * frame["n"]).to_numpy()) for name in ("duration", "wall")
    ]
    assert seconds[0] / seconds[1] == pytest.approx(shares, abs=0.005)
    model = Durations(type="share").run_time_s(frame["wall"].to_numpy(), frame["n"].to_numpy())
    assert (model * frame["n"].to_numpy()).sum() == pytest.approx(seconds[0].sum(), rel=0.01)


# ---- invariants ---------------------------------------------------------------------------------

statuses = st.sampled_from(["Terminated"] * 4 + ["Failed", "Waiting", "Running", "Odd"])
small = st.integers(0, 3)
tasks_drawn = st.dictionaries(
    st.tuples(small, small),
    st.tuples(st.integers(-5, 20), st.integers(-5, 40), st.integers(0, 3), statuses),
    min_size=1,
)
attempts_drawn = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 30), small, small, statuses, st.integers(1, 2))
)


@given(tasks_drawn, attempts_drawn, st.randoms(use_true_random=False))
def test_rows_are_conserved_and_their_order_has_no_influence(folder, tasks, attempts, random):
    rows = [
        task(create, end, job, number, count, status)
        for (job, number), (create, end, count, status) in tasks.items()
    ] + [task(create=1, end=3, job=50)]
    tries = [attempt(s, e, j, n, 5, status, seq, 2) for s, e, j, n, status, seq in attempts]
    first = read_alibaba2017(folder(rows, tries))
    random.shuffle(rows)
    random.shuffle(tries)
    second = read_alibaba2017(folder(rows, tries))
    for trace in (first, second):
        assert all(report.balanced() for report in trace.tables.values())
        assert trace.workload.tasks == trace.tables["batch_task"].jobs
    for name in ("job_id", "task_id", "submit_time_s", "run_time_s", "instance_run_time_s"):
        assert getattr(first.workload, name).tolist() == getattr(second.workload, name).tolist()
    for table, report in first.tables.items():
        assert report.dropped == second.tables[table].dropped
    lacking = first.tables["batch_instance"].notes.get(names.MISSING_INSTANCES, 0)
    with_rows = first.tables["batch_instance"].accepted + lacking
    assert with_rows <= first.workload.instances.sum()


# ---- the real table -----------------------------------------------------------------------------


@real
def test_the_real_table_adds_up():
    trace = read_alibaba2017(ALIBABA / "batch_task.csv.gz")
    report, jobs = trace.report, trace.workload
    assert report.balanced()
    assert (report.read, report.accepted, report.repaired) == (80_553, 68_104, {})
    assert report.dropped == {
        names.WAITING: 8_847,
        names.RUNNING: 3_567,
        names.NEGATIVE_RUN: 1,
        names.ZERO_RUN: 33,
        names.NO_REQUEST: 1,
    }
    assert report.notes[names.EARLY] == 167
    assert (len(jobs), jobs.tasks, jobs.instances.sum()) == (11_939, 68_104, 10_607_661)
    assert (jobs.submit_time_s[0], jobs.request[:, 0].min()) == (-1078, pytest.approx(0.4))


@real
def test_the_real_table_adds_up_with_everything_kept():
    kept = {"waiting": "keep", "running": "keep", "zero_run": "keep", "negative_run": "zero"}
    kept |= {"no_request": "median", "early": "zero"}
    report = read_alibaba2017(ALIBABA / "batch_task.csv.gz", rules=kept).report
    assert report.balanced()
    assert report.dropped == {names.NO_END: 208}
    assert report.repaired == {names.EARLY: 167, names.NEGATIVE_RUN: 1, names.NO_REQUEST: 8_890}


PEAK = """
import resource, sys
from simkit.traces.alibaba2017 import read_alibaba2017
trace = read_alibaba2017(sys.argv[1])
assert len(trace.workload.instance_run_time_s) == trace.workload.instances.sum()
assert trace.tables["batch_instance"].read == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.slow
def test_twelve_million_instances_stay_inside_four_gigabytes(tmp_path):
    """A gigabyte of rows; the peak was 0.7 GiB when this was written."""
    import subprocess
    import sys

    tasks, each = 80_000, 150
    rows = [task(n, n + 500, n // 6, n, each) for n in range(1, tasks + 1)]
    (tmp_path / "batch_task.csv").write_text("\n".join(rows) + "\n")
    with (tmp_path / "batch_instance.csv").open("w") as stream:
        for number in range(each * tasks):
            start, own = number * 7919 % 90_000, number % tasks + 1
            stream.write(f"{start},{start + 1 + number % 400},{own // 6},{own},{number % 1313},"
                         "Terminated,1,1,0.3719246,0.1294837,0.0731924,0.0419283\n")  # fmt: skip
    out = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path), str(tasks * each)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert float(out.stdout) < 4
