"""Attempts of a job in Slurm's accounting: what ran counts, and what belongs together is joined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simkit.traces import rules
from simkit.traces.convert import convert_log
from simkit.traces.sacct import SacctLog, read_sacct
from simkit.workload import Trace

COLUMNS = ("Cluster", "JobID", "User", "JobName", "State", "Submit", "Start", "End", "Elapsed",
           "AllocCPUS", "MaxRSS")  # fmt: skip
Write = Callable[..., Path]


def row(job: str = "10", state: str = "COMPLETED", day: int = 1, **fields: str) -> dict[str, str]:
    """Return a row of an hour on a day of May 2024, submitted a minute before."""
    at = f"2024-05-{day:02}T"
    return {
        "Cluster": "alpha", "JobID": job, "User": "ann", "JobName": "run", "State": state,
        "Submit": at + "11:59:00", "Start": at + "12:00:00", "End": at + "13:00:00",
        "Elapsed": "01:00:00", "AllocCPUS": "4", "MaxRSS": "",
    } | fields  # fmt: skip


def step(job: str, start: str, rss: str, **fields: str) -> dict[str, str]:
    return row(f"{job}.0", Submit=start, Start=start, MaxRSS=rss, **fields)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def table(*rows: dict[str, str], without: tuple[str, ...] = ()) -> Path:
        names = [name for name in COLUMNS if name not in without]
        lines = ["|".join(names), *("|".join(one[name] for name in names) for one in rows)]
        (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
        return tmp_path / "log.txt"

    return table


STATES = (
    "REQUEUED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "RESIZING", "PENDING", "REQUEUE_HOLD",
    "RUNNING", "SUSPENDED", "COMPLETING", "FAILED", "TIMEOUT", "CANCELLED by 7", "DEADLINE",
    "OUT_OF_MEMORY", "REVOKED", "requeued", "",
)  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_what_has_a_start_an_end_and_a_run_time_ran_whatever_its_state_says(write, state):
    trace = read_sacct(write(row("1"), row("2", state)))
    assert (len(trace.workload), trace.report.dropped) == (2, {})


WITHOUT_TIMES = (
    # state, run time, the rule where neither Start nor End is a column
    ("REQUEUED", "01:00:00", None),
    ("NODE_FAIL", "01:00:00", None),
    ("RUNNING", "01:00:00", rules.STILL_RUNNING),
    ("PENDING", "00:00:00", rules.NOT_STARTED),
    ("REQUEUED", "00:00:00", rules.NOT_STARTED),
    ("CANCELLED", "00:00:00", rules.CANCELLED),
)


@pytest.mark.parametrize(("state", "elapsed", "rule"), WITHOUT_TIMES)
def test_the_state_counts_where_the_table_has_no_times(write, state, elapsed, rule):
    path = write(row("1"), row("2", state, Elapsed=elapsed), without=("Start", "End"))
    assert read_sacct(path).report.dropped == ({rule: 1} if rule else {})


def test_a_row_that_ended_at_once_is_not_called_not_started(write):
    path = write(row("1"), row("2", "REQUEUED", Elapsed="00:00:00", End="2024-05-01T12:00:00"))
    assert read_sacct(path).report.dropped == {rules.ZERO_RUN: 1}


def attempts(write: Write, *states: str) -> Path:
    """Return a table of a job whose attempts follow each other, an hour apart, and another job."""
    rows = []
    for hour, state in enumerate(states, 10):
        at = {"Submit": f"{hour}:00:00", "Start": f"{hour}:01:00", "End": f"{hour}:31:00"}
        times = {name: f"2024-05-01T{clock}" for name, clock in at.items()}
        rows.append(row("10", state, Elapsed="00:30:00", **times))
    return write(*rows, row("11", day=2))


@pytest.mark.parametrize(
    "state", ["REQUEUED", "PREEMPTED", "NODE_FAIL", "FAILED", "TIMEOUT", "CANCELLED by 7", ""]
)
def test_one_rule_holds_for_attempts_of_all_states(write, state):
    path = attempts(write, state, state, "COMPLETED")
    every = read_sacct(path)
    assert every.workload.run_time_s.tolist() == [1800, 1800, 1800, 3600]
    assert every.report.notes == {rules.FURTHER_ATTEMPT: 2}
    last = read_sacct(path, attempts="last")
    assert last.workload.job_id.tolist() == [10, 11]
    assert last.report.dropped == {rules.EARLIER_ATTEMPT: 2}
    assert last.report.lines[rules.EARLIER_ATTEMPT] == [2, 3]
    assert last.report.balanced()
    submitted = last.workload.submit_time_s + last.workload.epoch_s
    assert submitted[0] == every.workload.submit_time_s[2] + every.workload.epoch_s


def test_the_last_attempt_is_the_last_that_ran(write):
    again = row("10", "PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00", day=2)
    path = write(row("10", "REQUEUED"), again)
    assert read_sacct(path, attempts="last").report.dropped == {rules.NOT_STARTED: 1}


OTHERS = (
    # what tells the second row of id 10 from an attempt of the first
    {"day": 3},  # more than a day later: the numbers began again
    {"day": 2, "Cluster": "beta"},
    {"day": 2, "User": "bob"},
    {"day": 2, "JobName": "other"},
)


@pytest.mark.parametrize("other", OTHERS)
def test_an_id_that_recurs_by_chance_is_another_job(write, other):
    path = write(row("10", "REQUEUED"), row("10", **other))  # type: ignore[arg-type]
    for which in ("all", "last"):
        trace = read_sacct(path, attempts=which)
        assert (len(trace.workload), trace.report.notes) == (2, {rules.REPEATED_ID: 1})


SAME_NUMBER = (
    # state and times of the first row, times of the second, which are a job of its own
    ("COMPLETED", "12:00 13:00", "13:10 14:00"),  # what completed is not started again
    ("COMPLETED", "12:00 13:00", "12:00 15:00"),
    ("REQUEUED", "12:00 13:00", "12:00 15:00"),  # both ran at the same time, in two clusters
    ("REQUEUED", "12:00 13:00", "12:59 15:00"),
    ("NODE_FAIL", "12:00 15:00", "13:00 14:00"),
)


def timed(job: str, state: str, times: str, **fields: str) -> dict[str, str]:
    start, end = (f"2024-05-01T{clock}:00" for clock in times.split())
    minutes = sum(
        sign * (60 * int(clock[:2]) + int(clock[3:]))
        for sign, clock in zip((-1, 1), times.split(), strict=True)
    )
    elapsed = f"{minutes // 60:02}:{minutes % 60:02}:00"
    return row(job, state, Start=start, End=end, Elapsed=elapsed, **fields)


@pytest.mark.parametrize("without", [("Cluster",), ("Cluster", "Start"), ("Cluster", "End")])
@pytest.mark.parametrize(("state", "first", "second"), SAME_NUMBER)
def test_what_completed_or_still_ran_was_not_started_again(write, state, first, second, without):
    rows = (timed("10", state, first), timed("10", "COMPLETED", second))
    path = write(*rows, without=without)
    for which in ("all", "last"):
        trace = read_sacct(path, attempts=which)
        assert (len(trace.workload), trace.report.notes) == (2, {rules.REPEATED_ID: 1})
        assert trace.report.dropped == {}


def test_an_attempt_may_begin_as_the_one_before_ends(write):
    rows = (timed("10", "RESIZING", "12:00 13:00"), timed("10", "COMPLETED", "13:00 14:00"))
    assert read_sacct(write(*rows)).report.notes == {rules.FURTHER_ATTEMPT: 1}


def test_tasks_of_an_array_are_no_attempts_of_it(write):
    path = write(row("10_1", "REQUEUED"), row("10_2"), row("10_1", day=2), row("10"))
    report = read_sacct(path, attempts="last").report
    assert (report.dropped, report.notes) == (
        {rules.EARLIER_ATTEMPT: 1}, {rules.OUT_OF_ORDER: 1},
    )  # fmt: skip


def test_a_row_given_twice_counts_once(write):
    again = row("10", day=2)
    path = write(row("10", "REQUEUED"), again, again, row("10", "REQUEUED"), row("11"))
    every = read_sacct(path)
    assert every.report.dropped == {rules.REPEATED_ROW: 2}
    assert every.report.lines[rules.REPEATED_ROW] == [4, 5]
    assert len(every.workload) == 3
    last = read_sacct(path, attempts="last")
    assert last.report.dropped == {rules.REPEATED_ROW: 2, rules.EARLIER_ATTEMPT: 1}


def memory_kb(path: Path, **keys: str) -> list[float]:
    """Return the used memory, in KB a processor, of a log's jobs in its SWF."""
    convert_log(SacctLog.of(path=path, **keys), path.with_suffix(".swf"))
    lines = path.with_suffix(".swf").read_text().splitlines()
    return [float(line.split()[6]) for line in lines if not line.startswith(";")]


def test_steps_go_to_the_attempt_in_which_they_began(write):
    path = write(
        row("10", "REQUEUED"), step("10", "2024-05-01T12:00:01", "4000K"),
        row("10", day=2), step("10", "2024-05-02T12:30:00", "8000K"),
        row("10", Cluster="beta"), step("10", "2024-05-01T12:00:02", "400K", Cluster="beta"),
        row("11", day=3), step("11", "2024-05-09T00:00:00", "12K"),  # of no other row: it counts
    )  # fmt: skip
    assert memory_kb(path) == [1000, 100, 2000, 3]
    assert memory_kb(path, attempts="last") == [100, 2000, 3]


def test_the_memory_of_a_recurring_id_is_unknown_where_times_do_not_tell(write):
    rows = (row("10"), step("10", "2024-05-01T12:00:01", "4000K"), row("10", day=9))
    assert memory_kb(write(*rows, without=("Start",))) == [-1, -1]
    late = step("10", "2024-05-05T12:00:01", "4000K")
    assert memory_kb(write(rows[0], late, rows[2])) == [-1, -1]


def test_the_memory_of_jobs_that_ran_at_once_with_one_number_is_unknown(write):
    rows = (timed("10", "COMPLETED", "12:00 13:00"), timed("10", "COMPLETED", "12:30 15:00"))
    early, both, late = (
        step("10", f"2024-05-01T{at}:00", kb)
        for at, kb in (("12:10", "400K"), ("12:40", "800K"), ("14:00", "1200K"))
    )
    assert memory_kb(write(*rows, both)) == [-1, -1]
    assert memory_kb(write(*rows, early, late)) == [100, 300]


def test_run_time_without_elapsed_leaves_out_what_was_suspended(tmp_path):
    def read(suspended: str) -> float:
        (tmp_path / "log.txt").write_text(
            "JobID|Submit|Start|End|Suspended|AllocCPUS\n"
            f"1|2024-05-14T08:00:00|2024-05-14T08:00:00|2024-05-14T11:00:00|{suspended}|4\n"
        )
        return float(read_sacct(tmp_path / "log.txt").workload.run_time_s[0])

    assert [read(text) for text in ("01:00:00", "3600", "", "00:00:00")] == [
        7200, 7200, 10800, 10800,
    ]  # fmt: skip


def clock(
    tmp_path: Path, *rows: str, columns: str = "JobID|Submit|Start|End|Elapsed|NCPUS"
) -> Trace:
    (tmp_path / "log.txt").write_text("\n".join((columns, *rows)) + "\n")
    return read_sacct(tmp_path / "log.txt", time_zone="Europe/Berlin")


def test_a_time_that_the_clock_skips_is_called_so(tmp_path):
    good = "1|2024-03-30T12:00:00|2024-03-30T12:00:00|2024-03-30T13:00:00|01:00:00|1"
    submit = "2|2024-03-31T02:30:00|2024-03-31T03:30:00|2024-03-31T04:30:00|01:00:00|1"
    report = clock(tmp_path, good, submit).report
    assert report.dropped == {rules.SKIPPED_TIME: 1}
    start = "2|2024-03-31T01:30:00|2024-03-31T02:30:00|2024-03-31T04:30:00|01:00:00|1"
    trace = clock(tmp_path, good, start)  # Elapsed says how long it ran
    assert (trace.report.dropped, trace.report.notes) == ({}, {rules.SKIPPED_TIME: 1})
    assert trace.workload.run_time_s.tolist() == [3600, 3600]
    rows = (one.replace("|01:00:00|", "|") for one in (good, start))
    report = clock(tmp_path, *rows, columns="JobID|Submit|Start|End|NCPUS").report
    assert report.dropped == {rules.SKIPPED_TIME: 1}


def test_an_hour_that_the_clock_shows_twice_is_called_so(tmp_path):
    once = "1|2024-10-27T01:59:00|2024-10-27T03:01:00|2024-10-27T04:30:00|01:00:00|1"
    twice = "2|2024-10-27T02:30:00|2024-10-27T03:30:00|2024-10-27T04:30:00|01:00:00|1"
    trace = clock(tmp_path, once, twice)
    assert trace.report.notes == {rules.FIRST_HOUR: 1}
    assert np.diff(trace.workload.submit_time_s).tolist() == [31 * 60]  # the first time
