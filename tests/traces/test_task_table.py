"""Tables of tasks with a map of columns; without one, the table of jobs of CloudSimPy."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import DATA, needs_real, real_file, refusal
from typer.testing import CliRunner

from simkit.cli import app
from simkit.errors import TraceError
from simkit.experiment.api import simulate
from simkit.traces import rules as shared_rules
from simkit.traces import task_jobs as names
from simkit.traces.task_table import read_task_table

ALIBABA = DATA / "alibaba"
HEAD = ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk"
real = needs_real("alibaba", "cloudsimpy_jobs.csv.gz")


def row(submit=5, run=2.5, cpu=0.5, mem=0.25, job=1, number=1, instances=3):
    return f"0,{submit},{run},{cpu},{mem},{job},{number},{instances},0"


@pytest.fixture
def table(write_table):
    return partial(write_table, head=HEAD)


message = partial(refusal, read_task_table)


# ---- what a row becomes -------------------------------------------------------------------------


def test_without_a_map_the_table_is_that_of_cloudsimpy(table):
    path = table(row(), row(submit=4, job=2, number=7, instances=1))
    trace = read_task_table(path)
    jobs = trace.workload
    assert jobs.resources == ("cpu", "mem")
    assert (jobs.job_id.tolist(), jobs.task_id.tolist()) == ([2, 1], [7, 1])
    assert (jobs.submit_time_s.tolist(), jobs.instances.tolist()) == ([4, 5], [1, 3])
    assert jobs.run_time_s.tolist() == [2.5, 2.5]
    assert jobs.request.tolist() == [[0.5, 0.25]] * 2
    assert not jobs.gang.any()
    assert np.isnan(jobs.requested_time_s).all()
    assert (trace.report.read, trace.report.accepted, trace.inputs) == (2, 2, (path,))


MAP = {
    "job_id": "j", "submit_time_s": "at_ms", "run_time_s": "run_ms", "gpu": "gpus",
    "task_id": "t", "parents": "after", "user": "who", "requested_time_s": "limit_ms",
}  # fmt: skip
MAP_HEAD = "t,after,who,at_ms,run_ms,limit_ms,gpus,j,more"


def test_a_map_names_columns_and_factors(table):
    path = table(
        "a,,ann,2000,1500,4000,50,x,?",
        "b,a,ann,2000,500,,100,x,?",
        "c,b|a,ann,2000,0,,0,x,?",
        "a,,bob,1000,250,,25,y,?",
        head=MAP_HEAD,
    )
    factors = {"submit_time_s": 1e-3, "run_time_s": 1e-3, "requested_time_s": 1e-3, "gpu": 0.01}
    jobs = read_task_table(path, columns=MAP, factors=factors, parent_separator="|").workload
    assert jobs.resources == ("gpu",)
    assert jobs.job_id.tolist() == ["y", "x"]
    assert jobs.submit_time_s.tolist() == [1, 2]
    assert jobs.run_time_s.tolist() == [0.25, 1.5, 0.5, 0]
    assert jobs.requested_time_s.tolist()[1:3] == pytest.approx([4, np.nan], nan_ok=True)
    assert jobs.request[:, 0].tolist() == [0.25, 0.5, 1, 0]
    assert jobs.instances.tolist() == [1, 1, 1, 1]
    assert jobs.first_parent.tolist() == [0, 0, 0, 1, 3]
    assert jobs.parent.tolist() == [1, 2, 1]
    assert jobs.user.tolist() == [0, 1]
    assert jobs.labels == {"user": ("bob", "ann")}


# ---- order --------------------------------------------------------------------------------------

MIXED = [
    row(submit=9, job=3, number=5),
    row(submit=7, job=8, number=4),
    row(submit=7, job=2, number=3),
    row(submit=6, job=3, number=2),
    row(submit=7, job=8, number=1),
]


def test_jobs_of_one_instant_and_their_tasks_keep_the_order_of_rows(table):
    trace = read_task_table(table(*MIXED))
    jobs = trace.workload
    assert jobs.job_id.tolist() == [8, 2, 3]
    assert jobs.submit_time_s.tolist() == [7, 7, 9]
    assert jobs.task_id.tolist() == [4, 1, 3, 5, 2]
    assert trace.report.notes == {names.OTHER_SUBMIT: 1, shared_rules.OUT_OF_ORDER: 4}
    assert trace.report.lines[names.OTHER_SUBMIT] == [5]


def test_the_last_row_can_say_when_a_job_is_submitted(table):
    trace = read_task_table(table(*MIXED), submit="last")
    assert trace.workload.job_id.tolist() == [3, 8, 2]
    assert trace.workload.submit_time_s.tolist() == [6, 7, 7]
    assert trace.workload.task_id.tolist() == [5, 2, 4, 1, 3]
    assert trace.report.lines[names.OTHER_SUBMIT] == [2]


# ---- rules --------------------------------------------------------------------------------------

RULES = [
    # row, rule
    (row(job=""), names.NO_ID),
    (row(submit=""), names.BAD_SUBMIT),
    (row(submit=1e11), names.BAD_SUBMIT),
    (row(run=""), names.BAD_RUN),
    (row(run="inf"), names.BAD_RUN),
    (row(run=-3), names.NEGATIVE_RUN),
    (row(instances=0), names.BAD_INSTANCES),
    (row(instances=1.5), names.BAD_INSTANCES),
    (row(cpu=-1), names.BAD_REQUEST),
    (row(cpu="", mem=""), names.BAD_REQUEST),
    (row(mem="NaN"), names.BAD_REQUEST),
]


@pytest.mark.parametrize(("line", "rule"), RULES)
def test_each_rule_is_counted_once(table, line, rule):
    report = read_task_table(table(row(job=9), line)).report
    assert report.balanced()
    assert (report.read, report.accepted, report.dropped) == (2, 1, {rule: 1})
    assert report.lines == {rule: [3]}


def test_rules_can_be_chosen(table):
    path = table(row(run=-3, job=1), row(run=0, job=2), row(run=1, job=3))
    trace = read_task_table(path, negative_run="zero")
    assert trace.workload.run_time_s.tolist() == [0, 0, 1]
    assert trace.report.repaired == {names.NEGATIVE_RUN: 1}
    trace = read_task_table(path, zero_run="drop")
    assert trace.report.dropped == {names.NEGATIVE_RUN: 1, names.ZERO_RUN: 1}
    assert "did you mean 'first'" in message(path, submit="frist")


def test_repeated_task_ids_are_kept_and_noted(table):
    trace = read_task_table(table(row(), row(job=2), row(), row()))
    assert trace.workload.tasks == 4
    assert trace.report.notes == {names.REPEATED_TASK: 2}
    assert trace.report.lines == {names.REPEATED_TASK: [4, 5]}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", 1, 2, 3]), st.integers(0, 5), st.integers(-1, 3),
            st.integers(0, 2), st.sampled_from(["", 0, 0.5, -1]),
        )
    ),
    st.sampled_from(["first", "last"]),
)  # fmt: skip
def test_every_row_is_accounted_for_and_submit_times_rise(table, rows, submit):
    lines = [
        row(at, run, cpu, 0.1, job, n, count) for n, (job, at, run, count, cpu) in enumerate(rows)
    ]
    trace = read_task_table(table(*lines, row(job=7, number=99)), submit=submit)
    assert trace.report.balanced()
    assert trace.report.jobs == trace.workload.tasks
    jobs = trace.workload
    for job, first, end in zip(jobs.job_id, jobs.first_task[:-1], jobs.first_task[1:], strict=True):
        tasks = jobs.task_id[first:end].tolist()
        assert tasks == sorted(tasks)  # the order of rows, as they are numbered here
        assert all(n == 99 or rows[n][0] == job for n in tasks)


# ---- gangs, empty requests, rows of instances ----------------------------------------------------


def test_an_empty_cell_asks_for_none_and_tasks_may_be_gangs(table):
    path = table(row(mem=""), row(cpu="", job=2), row(mem=0, job=3))
    for gang in (False, True):
        jobs = read_task_table(path, gang=gang).workload
        assert jobs.request.tolist() == [[0.5, 0], [0, 0.25], [0.5, 0]]
        assert jobs.gang.tolist() == [gang] * 3


@pytest.mark.parametrize(("cpu", "mem"), [(0, 0), ("", ""), (0, ""), (0, -1)])
def test_a_task_that_asks_for_nothing_is_left_out(table, cpu, mem):
    trace = read_task_table(table(row(), row(cpu=cpu, mem=mem, job=2)))
    assert trace.workload.job_id.tolist() == [1]
    assert trace.report.dropped == {names.BAD_REQUEST: 1}


def test_zeros_are_a_barrier_where_tasks_have_parents(table):
    columns = {"job_id": "j", "task_id": "t", "submit_time_s": "at", "run_time_s": "run",
               "cpu": "cpu", "parents": "after"}  # fmt: skip
    path = table("1,a,0,5,1,", "1,b,0,0,0,a", "1,c,0,5,,b", head="j,t,at,run,cpu,after")
    trace = read_task_table(path, columns=columns)
    assert trace.workload.task_id.tolist() == ["a", "b"]
    assert trace.report.dropped == {names.BAD_REQUEST: 1}  # an empty cell says nothing


@pytest.mark.parametrize(
    ("head", "columns", "notes"),
    [
        ("j,at,run,cpu,usr,n", {}, ["column 'usr' is not read; is it `user`? Add it to `columns`"]),
        ("j,at,run,cpu,parents,n", {},
         ["column 'parents' is not read; is it `parents`? Add it to `columns`"]),
        ("j,at,run,cpu,x,n", {"instance": "n"},
         ["columns: 'instance' is a resource; did you mean 'instances'?"]),
        ("j,at,run,cpu,users,n", {"user": "users", "instances": "n"}, []),  # both are read
        ("j,at,run,cpu,disk,n", {"gpu": "n"}, []),  # names of their own are nobody's mistake
    ],
)  # fmt: skip
def test_an_optional_column_that_looks_misspelt_is_noted(table, head, columns, notes):
    given = {"job_id": "j", "submit_time_s": "at", "run_time_s": "run", "cpu": "cpu", **columns}
    report = read_task_table(table("1,0,5,1,2,3", head=head), columns=given).report
    assert (list(report.notes), report.accepted) == (notes, 1)


INSTANCES = {
    "job_id": "j", "task_id": "t", "submit_time_s": "at", "run_time_s": "run", "cpu": "cpu",
    "retries": "again",
}  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3), st.integers(1, 2), st.integers(0, 5), st.integers(0, 9),
            st.integers(1, 2), st.sampled_from(["", 0, 2]),
        ),
        min_size=1,
    ),
    st.sampled_from(["first", "last"]),
    st.booleans(),
)  # fmt: skip
def test_a_row_may_be_an_instance_with_its_own_run_time(table, rows, submit, with_ids):
    path = table(*(",".join(map(str, row)) for row in rows), head="j,t,at,run,cpu,again")
    columns = INSTANCES if with_ids else {k: v for k, v in INSTANCES.items() if k != "task_id"}
    trace = read_task_table(path, columns=columns, rows="instance", submit=submit)
    expected: dict = {}  # job -> task -> its rows, in the order of the file
    for job, task, *rest in rows:
        expected.setdefault(job, {}).setdefault(task if with_ids else 1, []).append(rest)
    when = {
        job: [r[2] for r in rows if r[0] == job][0 if submit == "first" else -1] for job in expected
    }
    order = sorted(expected, key=when.get)  # stable: jobs of one instant as they first appear
    jobs = trace.workload
    assert jobs.job_id.tolist() == order
    assert jobs.submit_time_s.tolist() == [when[job] for job in order]
    tasks = [(task, found) for job in order for task, found in expected[job].items()]
    assert jobs.task_id.tolist() == [task for task, _ in tasks]
    assert jobs.instances.tolist() == [len(found) for _, found in tasks]
    assert jobs.instance_run_time_s.tolist() == [run for _, found in tasks for _, run, *_ in found]
    assert jobs.request[:, 0].tolist() == [found[0][2] for _, found in tasks]
    again = [found[0][3] for _, found in tasks]
    assert jobs.retries.tolist() == [-1 if own == "" else own for own in again]
    gangs = read_task_table(path, columns=columns, rows="instance", submit=submit, gang=True)
    longest = [max(run for _, run, *_ in found) for _, found in tasks]
    assert gangs.workload.run_time_s.tolist() == longest
    others = sum(one[2] != found[0][2] for _, found in tasks for one in found)
    assert trace.report.notes.get(names.OTHER_REQUEST, 0) == others
    assert trace.report.accepted == len(rows) == jobs.instances.sum()


def test_counts_of_instances_do_not_go_with_rows_of_instances(table):
    found = message(table(row()), rows="instance")
    assert "columns.instances: does not go with rows: instance" in found


@pytest.mark.parametrize("own", ["-1", "1.5", "inf"])
def test_an_impossible_number_of_retries_is_left_out(table, own):
    path = table("1,1,0,1,1,2", f"2,1,0,1,1,{own}", head="j,t,at,run,cpu,again")
    trace = read_task_table(path, columns=INSTANCES)
    assert trace.workload.retries.tolist() == [2]
    assert trace.report.dropped == {names.BAD_RETRIES: 1}


def test_values_in_another_unit_are_noted_and_an_error_says_the_remedy(table):
    late, large = row(submit=1.7e12, job=2), row(mem=2e10, job=3)
    trace = read_task_table(table(row(), late, large))
    assert trace.report.notes[names.OTHER_UNIT] == 2
    assert trace.report.lines[names.OTHER_UNIT] == [3, 4]
    assert "factors: {submit_time_s: 0.001}" in message(table(late))


# ---- bad input ----------------------------------------------------------------------------------


def test_all_missing_columns_are_named(table):
    found = message(table(row(), head=HEAD.replace("cpu", "cpus").replace("duration", "time")))
    assert ":1: no column 'cpu'; did you mean 'cpus'?" in found
    assert ":1: no column 'duration'" in found


def test_a_map_that_is_not_usable_is_refused_at_once(table):
    columns = {"job_id": "j", "submit_time_s": "s"}
    found = message(table(row()), columns=columns, factors={"cpu": 2})
    assert "run_time_s is missing" in found
    assert "no resource" in found
    assert "factors.cpu: is no column of numbers" in found
    assert "factors.cpu: must be more than 0" in message(table(row()), factors={"cpu": 0})


# ---- parents that cannot be kept -----------------------------------------------------------------

NEEDS = {"job_id": "job", "task_id": "task", "submit_time_s": "at", "run_time_s": "run",
         "cpu": "cpu", "parents": "needs"}  # fmt: skip
GOOD = ("b,1,0,10,1,", "b,2,0,10,1,1")
BROKEN = {
    # (rows of job a, lines under each rule; GOOD stands behind them)
    "ghost": (["a,1,0,10,1,", "a,2,0,10,1,1;Stg8"], {names.NO_PARENT: [2, 3]}),
    "of another job": (["a,x,0,10,1,", "c,y,0,10,1,x"], {names.NO_PARENT: [3]}),
    "itself": (["a,1,0,10,1,1"], {names.LOOP: [2]}),
    "circle": (["a,1,0,10,1,3", "a,2,0,10,1,1", "a,3,0,10,1,2"], {names.LOOP: [2, 3, 4]}),
    "behind a circle": (["a,1,0,10,1,1", "a,2,0,10,1,1", "a,3,0,10,1,2"], {names.LOOP: [2, 3, 4]}),
    "no run time": (
        ["a,1,0,,1,", "a,2,0,10,1,1"], {names.BAD_RUN: [2], names.PARENT_LEFT_OUT: [3]}
    ),
    "children of children": (
        ["a,1,0,-5,1,", "a,2,0,10,1,1", "a,3,0,10,1,2", "a,4,0,10,1,"],
        {names.NEGATIVE_RUN: [2], names.PARENT_LEFT_OUT: [3, 4, 5]},
    ),
    "malformed": (
        ["a,1,0,ten,1,", "a,2,0,10,1,1"],
        {shared_rules.MALFORMED: [2], names.NO_PARENT: [3]},
    ),
    "rows apart": (
        ["a,1,0,10,1,2", "c,1,0,10,1,9", "a,2,0,10,1,1", "c,2,0,10,1,"],
        {names.NO_PARENT: [3, 5], names.LOOP: [2, 4]},
    ),
    "numbers with zeros": (["a,01,0,10,1,", "a,2,0,10,1,1;8"], {names.NO_PARENT: [2, 3]}),
}  # fmt: skip


@pytest.fixture
def dag(write_table):
    return partial(write_table, head="job,task,at,run,cpu,needs")


@pytest.mark.parametrize("case", BROKEN)
def test_jobs_whose_parents_cannot_be_kept_are_left_out_whole_and_counted(dag, case):
    broken, wanted = BROKEN[case]
    path = dag(*broken, *GOOD)
    trace = read_task_table(path, columns=NEEDS, on_error="skip")
    assert trace.report.lines == wanted
    assert trace.report.dropped == {rule: len(lines) for rule, lines in wanted.items()}
    assert trace.report.read == len(broken) + 2
    kept = set(trace.workload.job_id.tolist())
    assert kept == {"b"} | ({"a"} if case == "of another job" else set())
    alone = read_task_table(dag(*GOOD), columns=NEEDS).workload
    if kept == {"b"}:
        for name in ("job_id", "task_id", "parent", "first_parent", "run_time_s"):
            assert getattr(trace.workload, name).tolist() == getattr(alone, name).tolist()


def test_the_error_lists_all_with_their_lines_and_a_remedy(dag):
    path = dag(
        "a,1,0,10,1,2", "a,2,0,10,1,1", "b,1,0,10,1,7;8", "c,1,0,,1,", "c,2,0,10,1,1", "d,1,0,1,1,"
    )
    found = message(path, columns=NEEDS).splitlines()
    found[0] = f"{path}{found[0]}"
    assert [line.removeprefix(f"{path}:").partition(":")[0] for line in found] == [
        "2", "4", "4", "6", " 3 jobs with dependencies that cannot be kept; correct `parents`, or "
        "leave these jobs out with on_error",
    ]  # fmt: skip
    many = [f"j{n},1,0,10,1,7" for n in range(30)]
    assert "… and 10 more such problems" in message(dag(*many), columns=NEEDS)


def test_validate_says_what_a_run_would(dag, tmp_path):
    scenario = tmp_path / "dag.yaml"
    columns = ", ".join(f"{ours}: {theirs}" for ours, theirs in NEEDS.items())
    for case in ("ghost", "malformed"):
        dag(*BROKEN[case][0], *GOOD).rename(tmp_path / "dag.csv")
        for on_error in ("refuse", "skip"):
            scenario.write_text(
                f"workload: {{type: tasks, path: dag.csv, on_error: {on_error}, "
                f"columns: {{{columns}}}}}\ncluster: {{machines: [{{count: 1, cpu: 2}}]}}\n"
            )
            told = CliRunner().invoke(app, ["validate", str(scenario)])
            assert (told.exit_code == 0) == (on_error == "skip"), case
            if on_error == "skip":
                simulate(scenario)
                continue
            with pytest.raises(TraceError) as caught:
                simulate(scenario)
            assert all(line in str(told.exception) for line in str(caught.value).splitlines())


def test_a_row_that_nothing_waits_for_is_left_out_alone(dag):
    path = dag("a,1,0,10,1,", "a,2,0,,1,1")
    for on_error in ("refuse", "skip"):
        trace = read_task_table(path, columns=NEEDS, on_error=on_error)
        assert trace.workload.task_id.tolist() == [1]
        assert trace.report.dropped == {names.BAD_RUN: 1}


def test_of_a_table_of_instances_the_first_row_of_a_task_says_what_it_waits_for(dag):
    path = dag(
        "a,1,0,10,1,", "a,2,0,10,1,1", "a,1,0,12,1,9", "a,2,0,,1,1",  # 9 counts for nothing
        "b,1,0,,1,", "b,1,0,5,1,", "b,2,0,1,1,1",  # an instance of b's first task is left
        "c,1,0,1,1,3", "c,2,0,1,1,", "c,2,0,1,1,",
        "d,1,0,1,1,2", "d,2,0,1,1,1", "d,1,0,1,1,",
    )  # fmt: skip
    trace = read_task_table(path, columns=NEEDS, rows="instance", on_error="skip")
    assert trace.workload.job_id.tolist() == ["a", "b"]
    assert trace.workload.instances.tolist() == [2, 1, 1, 1]
    assert trace.report.dropped == {names.BAD_RUN: 2, names.NO_PARENT: 3, names.LOOP: 3}


def test_tasks_without_ids_are_counted_as_their_rows_are(dag):
    columns = {name: NEEDS[name] for name in NEEDS if name != "task_id"}
    path = dag("a,,0,10,1,", "a,,0,,1,", "a,,0,30,1,1", "b,,0,,1,", "b,,0,1,1,", "b,,0,1,1,1")
    trace = read_task_table(path, columns=columns, on_error="skip")
    assert trace.workload.task_id.tolist() == [1, 3]
    assert trace.workload.parent.tolist() == [0]
    assert trace.report.dropped == {names.BAD_RUN: 2, names.PARENT_LEFT_OUT: 2}
    lacking = dag("a,,0,ten,1,", "a,,0,10,1,", "a,,0,10,1,2")
    assert "name a column task_id" in message(lacking, columns=columns, on_error="skip")
    assert "task_id is missing" in message(path, columns=columns, rows="instance")


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(1, 5), st.sampled_from(["10", "10", "10", "", "ten"]),
        st.lists(st.integers(1, 6), max_size=2),
    ),
    max_size=9,
)  # fmt: skip


@given(ROWS)
def test_what_is_skipped_is_what_no_order_of_tasks_could_run(tmp_path_factory, rows):
    """Against a plain reading of the rule, job by job."""
    path = tmp_path_factory.mktemp("dag") / "table.csv"
    lines = [
        f"{job},{task},0,{run},1,{';'.join(map(str, needs))}" for job, task, run, needs in rows
    ]
    path.write_text("\n".join(["job,task,at,run,cpu,needs", *lines, "z,1,0,1,1,"]) + "\n")
    wanted = []
    for name in "ab":
        own = [(task, needs) for job, task, run, needs in rows if job == name and run == "10"]
        ids, first = {task for task, _ in own}, {}
        for row, (task, _) in enumerate(own):
            first.setdefault(task, row)
        done, more = set(), True
        while more:  # a task is done when the first rows of its parents' ids are
            more = [r for r, (_, needs) in enumerate(own) if r not in done
                    and all(n in ids and first[n] in done for n in needs)]  # fmt: skip
            done |= set(more)
        wanted += [name] * len(own) if len(done) == len(own) else []
    trace = read_task_table(path, columns=NEEDS, on_error="skip")
    load = trace.workload
    kept = np.repeat(load.job_id, np.diff(load.first_task)).tolist()
    assert sorted(kept) == sorted([*wanted, "z"])
    report = trace.report
    assert report.read == report.accepted + sum(report.dropped.values()) == len(rows) + 1


# ---- the real tables ----------------------------------------------------------------------------


@real
@pytest.mark.parametrize(("submit", "others"), [("first", 181), ("last", 257)])
def test_the_whole_table_of_cloudsimpy(submit, others):
    trace = read_task_table(ALIBABA / "cloudsimpy_jobs.csv.gz", submit=submit)
    jobs, report = trace.workload, trace.report
    assert (len(jobs), jobs.tasks, jobs.instances.sum()) == (5_216, 31_756, 2_551_075)
    assert (report.read, report.accepted, report.dropped) == (31_756, 31_756, {})
    assert report.notes[names.OTHER_SUBMIT] == others


@real
def test_negative_durations_of_the_table_of_2017_are_left_out_by_a_rule():
    real_file("alibaba", "jobs_2017.csv.gz")
    report = read_task_table(ALIBABA / "jobs_2017.csv.gz").report
    assert report.balanced()
    assert (report.read, report.accepted) == (71_369, 71_287)
    assert report.dropped == {names.NEGATIVE_RUN: 82}
