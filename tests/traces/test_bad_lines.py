"""Malformed lines: all of a file in one error, or left out, counted, and agreed on by the audit."""

import polars as pl
import pytest

import simkit
from simkit.errors import TraceError
from simkit.traces.convert import clean_swf
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.rules import MALFORMED
from simkit.traces.sacct import read_sacct
from simkit.traces.swf import read_swf
from simkit.traces.task_table import read_task_table
from simkit.verify import verify_run


def swf(job, submit=0, run=10, user=1):
    return f"{job} {submit} -1 {run} 2 -1 -1 2 20 -1 1 {user} 1 -1 -1 -1 -1 -1"


TASK_HEAD = "job_id,task_id,submit_time,duration,instances_num,cpu,memory"
FORMATS = {
    # reader, header, good lines, malformed lines with what is wrong with each
    "swf": (
        read_swf, ["; MaxProcs: 8"], [swf(1), swf(2, 5)],
        [("1 2 3", "3 fields, SWF has 18"),
         (swf(3, run="ten"), "field 4 (run) is 'ten', not a number"),
         (swf(3.5), "field 1 (job) is 3.5, not a whole number"),
         (swf(4, user="ann") + " 19 20", "field 12 (user) is 'ann', not a number")],
    ),
    "sacct": (
        read_sacct, ["JobID|Submit|Elapsed|NCPUS"],
        ["1|2024-01-01T08:00:00|00:10:00|4", "2|2024-01-01T08:00:05|00:10:00|2"],
        [("3|2024-01-01T08:00:05|00:10:00", "3 fields, the header has 4"),
         ("4|yesterday|00:10:00|4", "Submit is 'yesterday'; it should look like 2024-05-01T12"),
         ("5|2024-01-01T08:00:05|00:10:00|x|y", "5 fields, the header has 4"),
         ("six|2024-01-01T08:00:05|00:10:00|1", "JobID is 'six'; it should look like 12")],
    ),
    "jobs": (
        read_jobs_table, ["job_id,submit_time_s,run_time_s,processors"],
        ["1,0,10,2", "2,5,10,2"],
        [("3,0,10", "3 fields, the header has 4"),
         ("3,x,10,2", "submit_time_s is 'x', not a number"),
         ("3,0,-1,2", "run_time_s is -1, it must be finite and at least 0"),
         ("3,,10,2", "submit_time_s is empty"),
         ('3,"0,10,2', "a quote is not closed, or text follows a quoted field")],
    ),
    "tasks": (
        read_task_table, [TASK_HEAD], ["1,1,0,10,2,1,0.5", "2,1,5,10,2,1,0.5"],
        [("3,1,5,10,2,1", "6 fields, the header has 7"),
         ("3,1,5,ten,2,1,0.5", "duration is 'ten', not a number"),
         ('3,1,5,10,2,"1,5",0.5,9', "8 fields, the header has 7")],
    ),
}  # fmt: skip


@pytest.fixture
def log(table):
    return lambda lines, name="log.txt": table(*lines, name=name)


def message(read, path, **arguments):
    with pytest.raises(TraceError) as caught:
        read(path, **arguments)
    return str(caught.value)


@pytest.mark.parametrize("kind", FORMATS)
def test_all_malformed_lines_of_a_file_are_in_one_error(log, kind):
    read, head, good, malformed = FORMATS[kind]
    path = log([*head, good[0], *(line for line, _ in malformed), good[1]])
    found = message(read, path).splitlines()
    number = len(head) + 1
    for (line, problem), text in zip(malformed, found, strict=False):
        number += 1
        assert text.startswith(f"{path}:{number}: {problem}"), text
        number += line.count("\n")
    assert found[-1].startswith(f"{path}: ")
    assert "malformed lines; correct them, or leave them out with on_error: skip" in found[-1]


@pytest.mark.parametrize("kind", FORMATS)
def test_skipped_lines_are_counted_under_a_rule(log, kind):
    read, head, good, malformed = FORMATS[kind]
    path = log([*head, good[0], *(line for line, _ in malformed), good[1]])
    lines = sum(1 + line.count("\n") for line, _ in malformed)
    trace = read(path, on_error="skip")
    assert trace.workload.job_id.tolist() == [1, 2]
    assert trace.report.dropped == {MALFORMED: lines}
    assert trace.report.read == lines + 2
    assert trace.report.balanced()
    assert trace.report.lines[MALFORMED][0] == len(head) + 2
    good_alone = read(log([*head, *good], "good.txt")).workload
    assert trace.workload.submit_time_s.tolist() == good_alone.submit_time_s.tolist()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_of_nothing_but_malformed_lines_is_refused_even_so(log, kind):
    read, head, _, malformed = FORMATS[kind]
    found = message(read, log([*head, malformed[0][0]]), on_error="skip")
    assert "left out (malformed line 1)" in found


def test_an_error_names_twenty_lines_and_counts_the_rest(log):
    path = log([swf(1), *(swf(n, run="x") for n in range(2, 37))])
    found = message(read_swf, path).splitlines()
    assert [text.split(":")[1] for text in found[:20]] == [str(n) for n in range(2, 22)]
    assert found[20] == "… and 15 more malformed lines"
    assert found[21].startswith(f"{path}: 35 malformed lines; correct them")


def test_blocks_of_a_long_log_do_not_show(log, monkeypatch):
    lines = [swf(n) if n % 3 else swf(n, run="x") for n in range(1, 100)]
    path = log([*lines, "1 2", swf(100) + " 19"])
    expected, whole = message(read_swf, path), read_swf(path, on_error="skip")
    monkeypatch.setattr("simkit.traces.files.text_blocks.__defaults__", (97,))
    assert message(read_swf, path) == expected
    pieces = read_swf(path, on_error="skip")
    assert pieces.report == whole.report
    assert pieces.workload.job_id.tolist() == whole.workload.job_id.tolist()


def test_a_cleaned_log_lacks_the_malformed_lines(log, tmp_path):
    path = log(["; MaxProcs: 8", swf(1), "1 2 3", swf(2, 5) + " 19", swf(3, run="x")])
    report = clean_swf(path, tmp_path / "clean.swf", on_error="skip")
    assert report.dropped == {MALFORMED: 2}
    assert read_swf(tmp_path / "clean.swf").workload.job_id.tolist() == [1, 2]


def test_rows_of_parquet_are_named_by_their_number(tmp_path):
    path = tmp_path / "jobs.parquet"
    columns = {"job_id": [1, 2, 3], "submit_time_s": [0, 1, 2], "run_time_s": [5, -5, -6]}
    pl.DataFrame(columns | {"processors": [1, 1, 1]}).write_parquet(path)
    found = message(read_jobs_table, path).splitlines()
    assert [text.partition(" is")[0] for text in found[:2]] == [
        f"{path}: row 2: run_time_s", f"{path}: row 3: run_time_s",
    ]  # fmt: skip
    assert "2 malformed rows" in found[2]
    assert read_jobs_table(path, on_error="skip").workload.job_id.tolist() == [1]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_that_skips_lines_is_audited_by_a_reader_that_skips_them(log, tmp_path, kind):
    _, head, good, malformed = FORMATS[kind]
    path = log([*head, good[0], *(line for line, _ in malformed), good[1]])
    cluster = {"machines": [{"count": 1, "cpu": 8, "mem": 8}]}
    scenario = {
        "workload": {"type": kind, "path": str(path), "on_error": "skip"},
        "cluster": cluster if kind == "tasks" else {"processors": 8},
        "policy": {"fitness": "first-fit"} if kind == "tasks" else {"order": "fcfs"},
    }
    simkit.simulate(scenario, output=tmp_path / "run")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok, [f"{v.check}: {v.message} {v.rows}" for v in audit.violations]
    rule = {"swf": "trace", "tasks": "tasks"}.get(kind)
    assert rule is None or rule in {check.name for check in audit.done}
