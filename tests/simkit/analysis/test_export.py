"""Exports: the columns that other tools read, with the values that the run has."""

from __future__ import annotations

import io
import json

import polars as pl
import pytest

from simkit.analysis.export import export_batsim, export_swf, processor_numbers
from simkit.errors import RunError
from simkit.results.run_folder import open_run
from simkit.traces.swf.writer import write_swf

JOBS = {
    # finished; killed at its limit; killed before; rejected; waits; starts when 1 has ended
    "job_id": [1, 2, 3, 4, 5, 6],
    "submit_time_s": [0.0, 0.0, 10.0, 20.0, 30.0, 40.0],
    "run_time_s": [100.0, 50.0, 20.0, 5.0, 5.0, 10.0],
    "requested_time_s": [120.0, 50.0, 90.0, 5.0, 5.0, 10.0],
    "processors": [2.0, 1.0, 1.0, 99.0, 1.0, 3.0],
    "start_time_s": [0.0, 0.0, 10.0, None, None, 100.0],
    "status": ["finished", "killed", "killed", "rejected", "waiting", "finished"],
    "user": [3, 3, 4, 4, 5, 5],
}


BATSIM_HEADER = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,"
    "success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,"
    "stretch,allocated_resources,consumed_energy,metadata"
)


@pytest.fixture
def folder(write_run):
    return write_run("mixed", JOBS, capacity=4, epoch_s=1000.0, digest="d1")


def test_batsim_has_its_columns_states_and_processors(folder, tmp_path):
    target = tmp_path / "out_jobs.csv"
    export_batsim(folder, target)
    assert target.read_text().splitlines()[0] == BATSIM_HEADER
    table = pl.read_csv(target).sort("job_id")
    assert table["final_state"].to_list() == [
        "COMPLETED_SUCCESSFULLY",
        "COMPLETED_WALLTIME_REACHED",
        "COMPLETED_KILLED",
        "REJECTED",
        "SUBMITTED",
        "COMPLETED_SUCCESSFULLY",
    ]
    assert table["success"].to_list() == [1, 0, 0, 0, 0, 1]
    assert table["allocated_resources"].to_list() == ["0-1", "2", "3", None, None, "0-2"]
    last = table.row(5, named=True)
    assert (last["waiting_time"], last["turnaround_time"], last["stretch"]) == (60, 70, 7)
    assert table["starting_time"].to_list() == [0, 0, 10, None, None, 100]
    assert table["requested_number_of_resources"].to_list() == [2, 1, 1, 99, 1, 3]


def test_processors_of_several_machines_follow_each_other(folder):
    held = open_run(folder).allocations
    second = held["job_id"].is_in([2]).cast(pl.Int64)
    held.with_columns(machine_id=second).write_parquet(folder / "allocations.parquet")
    info = json.loads((folder / "run.json").read_text())
    machine = info["cluster"]["machines"][0]
    info["cluster"]["machines"] = [machine, {**machine, "id": 1}]
    (folder / "run.json").write_text(json.dumps(info))
    assert processor_numbers(open_run(folder))[2] == "4"


def test_only_the_last_attempt_counts(folder):
    held = open_run(folder).allocations
    again = held.filter(pl.col("job_id") == 1).with_columns(
        attempt=pl.lit(2), start_time_s=pl.lit(200.0), end_time_s=pl.lit(210.0), count=pl.lit(1)
    )
    both = pl.concat([held, again.select(held.columns)], how="vertical_relaxed")
    both.write_parquet(folder / "allocations.parquet")
    assert processor_numbers(open_run(folder))[1] == "0"


def test_fractions_of_a_processor_give_machines_instead_of_numbers(folder):
    tasks = open_run(folder).tasks.with_columns(processors=pl.lit(0.5))
    tasks.write_parquet(folder / "tasks.parquet")
    assert set(processor_numbers(open_run(folder)).values()) == {"0"}


def test_an_unwritable_place_is_said_and_nothing_left(folder, tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        export_batsim(folder, tmp_path / "nowhere" / "jobs.csv")
    assert not (tmp_path / "nowhere").exists()


def swf_rows(text):
    return [line.split() for line in text.splitlines() if not line.startswith(";")]


def test_swf_has_the_schedule(folder, tmp_path):
    target = tmp_path / "out.swf"
    export_swf(folder, target, writer=write_swf)
    text = target.read_text()
    assert "; UnixStartTime: 1000" in text
    assert "digest d1" in text
    fields = [(r[0], r[1], r[2], r[3], r[4], r[8], r[10], r[11]) for r in swf_rows(text)]
    assert fields == [
        # job, submit, wait, run, processors, requested time, status, user
        ("1", "0", "0", "100", "2", "120", "1", "3"),
        ("2", "0", "0", "50", "1", "50", "0", "3"),
        ("3", "10", "0", "20", "1", "90", "0", "4"),
        ("4", "20", "-1", "-1", "99", "5", "5", "4"),
        ("5", "30", "-1", "-1", "1", "5", "-1", "5"),
        ("6", "40", "60", "10", "3", "10", "1", "5"),
    ]


def test_names_of_users_become_numbers(write_run, tmp_path):
    named = {**JOBS, "user": ["zoe", "-1", "ann", "zoe", "bob", "ann"]}
    target = tmp_path / "out.swf"
    export_swf(write_run("named", named), target, writer=write_swf)
    assert [row[11] for row in swf_rows(target.read_text())] == ["3", "-1", "1", "3", "2", "1"]


def test_what_swf_cannot_hold_is_refused(folder, tmp_path):
    run = open_run(folder)
    halves = run.jobs.with_columns(processors=pl.lit(0.5))
    halves.write_parquet(folder / "jobs.parquet")
    with pytest.raises(RunError, match="fraction of processors"):
        export_swf(folder, tmp_path / "out.swf", writer=write_swf)
    pl.concat([run.tasks, run.tasks]).write_parquet(folder / "tasks.parquet")
    with pytest.raises(RunError, match="6 jobs have several tasks"):
        export_swf(folder, tmp_path / "out.swf", writer=write_swf)


def test_reading_the_batsim_file_back_keeps_the_times(write_run, random_jobs, tmp_path):
    folder = write_run("many", random_jobs(300), capacity=4000)
    export_batsim(folder, tmp_path / "jobs.csv")
    table = pl.read_csv(io.BytesIO((tmp_path / "jobs.csv").read_bytes()))
    run = open_run(folder)
    joined = run.jobs.join(table, on="job_id")
    assert joined["start_time_s"].equals(joined["starting_time"], check_names=False)
    assert joined["end_time_s"].equals(joined["finish_time"], check_names=False)
