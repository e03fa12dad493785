"""Schedules of other tools: times, capacity, first come first served, EASY; tables as they come."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Simkit

import simkit
from simkit.errors import RunError
from simkit.verify import schedules as rules_of_schedules
from simkit.verify.schedules import verify_schedule

# 4 processors; b must wait for a; c fits beside a and ends before it, d would delay b.
GOOD = """job,submit,start,end,processors,requested
a,0,0,100,3,100
b,1,100,200,4,100
c,2,2,90,1,98
d,3,200,400,1,200
"""


WRONG = [
    # what is changed, policy, rule that is broken, message
    ("a,0,0,100", "a,0,-0.5,100", "any", "times", None),
    ("a,0,0,100", "a,5,0,100", "any", "times", "starts before its submission"),
    ("c,2,2,90", "c,2,2,1", "any", "times", "ends before its start"),
    ("c,2,2,90,1", "c,2,2,90,0", "any", "times", "has no processors"),
    ("c,2,2,90,1", "c,2,2,90,2", "any", "capacity", "too few processors are free"),
    ("b,1,100,200", "b,1,99,200", "any", "capacity", "too few processors are free"),
    ("b,1,100,200", "b,1,100,100", "any", None, None),
    ("", "", "easy", None, None),
    ("d,3,200,400", "d,3,90,290", "easy", "easy", "delays its reservation"),
    ("b,1,100,200", "b,1,101,201", "easy", "easy", "is first in the queue and fits, but waits"),
    ("c,2,2,90", "c,2,201,289", "easy", "easy", "would delay no reservation, but waits"),
    ("c,2,2,90", "c,2,2,90", "fcfs", "order", "starts before a job that was submitted earlier"),
]


@pytest.mark.parametrize(("old", "new", "policy", "rule", "message"), WRONG)
def test_a_broken_rule_is_named(
    tmp_path: Path, old: str, new: str, policy: str, rule: str | None, message: str | None
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GOOD.replace(old, new))
    found = verify_schedule(path, processors=4, policy=policy)  # type: ignore[arg-type]
    if message is None:
        assert found.ok
        return
    assert rule in found.found
    assert any(message in str(violation) for violation in found.violations)


def test_a_start_below_zero_is_no_start(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GOOD.replace("d,3,200,400", "d,3,-1,-1"))
    (times, *_) = verify_schedule(path, processors=4).checks
    assert times.notes == {"rows without a start or an end, left out": 1}
    assert times.examined == 3


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("did", "claim"),
    [("fcfs+easy", "easy"), ("fcfs", "fcfs"), ("sjf+easy", "easy"), ("fcfs", "easy"),
     ("fcfs+easy", "fcfs")],
)  # fmt: skip
def test_runs_of_simkit_are_told_apart(tmp_path: Path, seed: int, did: str, claim: str) -> None:
    order, _, backfill = did.partition("+")
    scenario = {
        "seed": seed, "estimates": "requested",
        "workload": {"type": "lublin", "jobs": 150, "processors": 32, "offered_load": 0.95,
                     "estimates": "modal"},
        "policy": {"order": order, "backfill": backfill or "none"},
    }  # fmt: skip
    run = simkit.simulate(scenario)
    run.jobs.write_parquet(tmp_path / "jobs.parquet")
    asked = run.jobs["requested_time_s"].fill_null(0).to_numpy()
    took = (run.jobs["end_time_s"] - run.jobs["start_time_s"]).to_numpy()
    assert (asked >= took).all() or did != "fcfs+easy"  # what the estimates of the run were
    found = verify_schedule(tmp_path / "jobs.parquet", processors=32, policy=claim)  # type: ignore[arg-type]
    assert "capacity" not in found.found
    honest = did in ("fcfs+easy" if claim == "easy" else "", claim)
    assert found.ok is honest, found.summary()


ORACLE = Path(os.environ.get("SIMKIT_DATA", "nowhere")).parent / "oracle" / "hpc"


@pytest.mark.skipif(not ORACLE.exists(), reason="needs schedules beside SIMKIT_DATA")
@pytest.mark.parametrize(("log", "size"), [("KTH-SP2-1996-2.1-cln", 100), ("lublin_256", 256)])
def test_schedules_of_another_program_hold(tmp_path: Path, log: str, size: int) -> None:
    table = pl.read_csv(ORACLE / f"{log}.csv.gz")
    for policy in ("fcfs", "easy"):
        start = pl.col(f"start_{policy}_s")
        columns = ("job_id", "submit_time_s", "processors", "requested_time_s")
        end = (start + pl.col("run_time_s")).alias("end")
        table.select(*columns, start.alias("start"), end).write_csv(tmp_path / "t.csv")
        assert verify_schedule(tmp_path / "t.csv", processors=size, policy=policy).ok  # type: ignore[arg-type]


def test_tables_as_they_come(tmp_path: Path) -> None:
    batsim = GOOD.replace(
        "job,submit,start,end,processors,requested",
        "job_id;Submission Time;starting_time;finish_time;requested_number_of_resources;walltime",
    )
    (tmp_path / "b.csv").write_text(batsim.replace(",", ";"))
    assert verify_schedule(tmp_path / "b.csv", processors=4).ok
    dates = "job,submit,start,end,processors\n1,2020-01-01T00:00:00,2020-01-01 00:00:10,2020-01-01T00:01:00,2\n"
    (tmp_path / "d.csv").write_text(dates)
    (times, *_, easy) = verify_schedule(tmp_path / "d.csv", processors=4).checks
    assert times.examined == 1
    assert easy.notes == {"jobs without a requested time, planned with their run time": 1}
    assert easy.found == 1  # it waits ten seconds for nothing
    (tmp_path / "g.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    assert verify_schedule(tmp_path / "g.csv.gz", processors=4).ok


def test_repeated_jobs_are_noted_and_long_lists_say_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"a,{n},{n + 100},{n + 110},1\n" for n in range(30))
    (tmp_path / "t.csv").write_text(f"job,submit,start,end,processors\n{rows}")
    (times, *_) = verify_schedule(tmp_path / "t.csv", processors=40).checks
    assert times.notes == {"rows with the job of another row, taken as jobs of their own": 29}
    done = Simkit(capsys, monkeypatch)("verify", str(tmp_path / "t.csv"), "--processors", "40")
    assert "easy: and 19 more" in done.out
    assert "violated: easy 30" in " ".join(done.out.split())


BAD_TABLES = {
    "": "cannot be read as a table",
    "job,submit,start,end,processors\n": "no rows below the header",
    "job,submit,start\n1,0,0\n": "no column end",
    GOOD.replace("100,3", "100,x"): "processors of row 1 of the data is 'x'",
    GOOD.replace("b,1,", "b,,"): "1 row without submit (row 2",
    GOOD.replace("b,1,100", "b,1,soon"): "start of row 2 of the data is 'soon'",
}


@pytest.mark.parametrize(("text", "says"), BAD_TABLES.items())
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(RunError) as caught:
        verify_schedule(tmp_path / "t.csv", processors=4)
    assert says in str(caught.value)


def test_a_queue_without_end_is_not_followed_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_of_schedules, "_MOST_LOOKS", 10_000)
    jobs = np.arange(2_000)
    table = pl.DataFrame({"job": jobs, "submit": jobs, "start": 10_000 + 10 * jobs,
                          "end": 10_010 + 10 * jobs, "processors": 1})  # fmt: skip
    table.write_csv(tmp_path / "t.csv")
    easy = verify_schedule(tmp_path / "t.csv", processors=1).checks[-1]
    assert easy.found > 0
    assert "too long to be followed beyond" in easy.notes["not followed to the end"]


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text(GOOD)
    Path("bad.csv").write_text(GOOD.replace("d,3,200,400", "d,3,90,290"))
    run = Simkit(capsys, monkeypatch)
    assert run("verify", "good.csv", "--processors", "4").code == 0
    both = run("verify", "good.csv", "bad.csv", "--processors", "4")
    assert both.code == 1
    assert "bad.csv: violated: capacity 1, easy 1" in both.out
    assert "good.csv: every rule holds" in both.out
    assert run("verify", "bad.csv", "--processors", "5", "-p", "any").code == 0
    assert run("verify", "bad.csv").code == 2
    assert "--processors N" in run("verify", "bad.csv").err
    assert run("verify", "absent.csv", "--processors", "4").code == 2
