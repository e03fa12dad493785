"""Reading run folders: what is there is given, what is not is said."""

from __future__ import annotations

import json

import polars as pl
import pytest

from simkit.errors import RunError
from simkit.records import POWER_TABLES, TABLES
from simkit.results.run_folder import open_run

JOBS = {
    "job_id": [3, 1, 2],
    "submit_time_s": [5.0, 5.0, 0.0],
    "run_time_s": [1.0, 9.0, 4.0],
    "processors": [1.0, 1.0, 2.0],
    "start_time_s": [5.0, 5.0, 0.0],
}


@pytest.fixture
def folder(write_run):
    return write_run("good", JOBS, digest="abc", seed=4)


def change(folder, **info):
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | info))


def test_a_run_gives_its_facts(folder):
    run = open_run(folder)
    assert (run.name, run.status, run.digest, run.seed) == ("good", "complete", "abc", 4)
    assert run.resources == ("processors",)
    assert run.capacity == {"processors": 8.0}
    assert run.metrics == {}
    assert repr(run).endswith("good', 3 jobs)")


def test_jobs_come_in_order_of_submission_then_id(folder):
    assert open_run(str(folder)).jobs["job_id"].to_list() == [2, 1, 3]


def test_each_table_is_loaded_once_and_can_be_scanned(folder):
    run = open_run(folder)
    for name in TABLES:
        assert getattr(run, name) is getattr(run, name)
        assert set(TABLES[name]) <= set(run.scan(name).collect_schema().names())


def test_a_run_with_power_has_two_tables_more(folder):
    change(folder, scenario={"power": {"machines": {}}})
    with pytest.raises(RunError, match="power.parquet, energy.parquet is missing"):
        open_run(folder)
    for table in ("power", "energy"):
        columns = POWER_TABLES[table]
        types = {name: pl.Int64 if name == "job_id" else pl.Float64 for name in columns}
        pl.DataFrame(schema=types).write_parquet(folder / f"{table}.parquet")
    run = open_run(folder)
    assert run.power.columns == list(POWER_TABLES["power"])
    assert run.energy.columns == list(POWER_TABLES["energy"])


def test_a_run_without_power_has_no_table_of_it(folder):
    with pytest.raises(RunError, match="the tables of the run are jobs, tasks, allocations"):
        open_run(folder).scan("power")


def damage_json(folder):
    (folder / "run.json").write_text('{"format": 1')


def list_json(folder):
    (folder / "run.json").write_text("[]")


DAMAGES = [
    # what happened to the folder, what the error says
    (lambda f: (f / "run.json").unlink(), "no run.json"),
    (damage_json, "cannot be read"),
    (list_json, "no JSON object"),
    (lambda f: change(f, format=2), "format 2, this simkit reads format 1"),
    (lambda f: change(f, status="interrupted"), "the run is interrupted"),
    (lambda f: change(f, status="failed", error="disk full"), "failed \\(disk full\\)"),
    (lambda f: (f / "tasks.parquet").unlink(), "tasks.parquet is missing"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_a_run_that_is_not_complete_is_refused(folder, damage, words):
    damage(folder)
    with pytest.raises(RunError, match=words):
        open_run(folder)


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere", "no such run folder"), ("a.txt", "is a file")]
)
def test_a_path_that_is_not_a_folder_is_refused(tmp_path, name, words):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(RunError, match=words):
        open_run(tmp_path / name)


def test_partial_results_are_given_when_asked_for(folder):
    change(folder, status="interrupted")
    (folder / "events.parquet").unlink()
    run = open_run(folder, allow_partial=True)
    assert run.status == "interrupted"
    assert len(run.jobs) == 3
    with pytest.raises(RunError, match="there is no such table"):
        _ = run.events


def test_a_damaged_table_is_named(folder):
    path = folder / "jobs.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(RunError, match=r"jobs.parquet: damaged"):
        _ = open_run(folder).jobs


def test_a_table_without_a_column_is_refused(folder):
    run = open_run(folder)
    run.jobs.drop("wait_time_s").write_parquet(folder / "jobs.parquet")
    with pytest.raises(RunError, match="column wait_time_s is missing"):
        run.scan("jobs")
