"""A run folder is whole, or says that it is not; its tables are valid in any case."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import simkit
from simkit.errors import RunError
from simkit.results import run_writer
from simkit.results.all_metrics import compute_metrics
from simkit.results.run_folder import open_run
from simkit.results.run_writer import ROW_GROUP, TABLES, FailedRunError, RunWriter

INFO = {"format": 1, "name": "test"}


def rows(count=3):
    return pl.DataFrame({"job_id": list(range(count)), "end_time_s": [1.0] * count})


def status(folder):
    return str(json.loads((folder / "run.json").read_text())["status"])


def written(folder):
    return sorted(path.name for path in folder.iterdir())


def test_nothing_has_its_name_before_it_is_whole(tmp_path):
    writer = RunWriter(tmp_path / "run", INFO)
    for table in TABLES:
        writer.write(table, rows())
    assert status(tmp_path / "run") == "incomplete"
    assert written(tmp_path / "run") == sorted(["run.json", *(f"{t}.parquet.part" for t in TABLES)])
    writer.close_tables()
    assert status(tmp_path / "run") == "incomplete"
    writer.complete({"jobs": 3}, {"m": {"value": 1}})
    tables = sorted(f"{table}.parquet" for table in TABLES)
    assert written(tmp_path / "run") == sorted(["run.json", "metrics.json", *tables])
    run = open_run(tmp_path / "run")
    assert (run.status, run.info["jobs"], run.metrics) == ("complete", 3, {"m": {"value": 1}})
    assert len(run.digest) == 64


@pytest.mark.parametrize("most", [0, 20_000, 1 << 30])
def test_metrics_are_equal_from_memory_and_from_files(tmp_path, monkeypatch, most):
    """Whatever part of the tables is still in memory when the metrics are computed."""
    monkeypatch.setattr(run_writer, "MOST_KEPT_BYTES", most)
    run = simkit.simulate("quickstart", output=tmp_path / "run")
    again = compute_metrics(open_run(tmp_path / "run"))
    assert again == run.metrics
    assert run.digest == simkit.simulate("quickstart").digest


def test_rows_that_are_too_many_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(run_writer, "MOST_KEPT_BYTES", 1000)
    writer = RunWriter(tmp_path / "run", INFO)
    for expected in (30, 60, None, None):
        writer.write("jobs", rows(30))
        kept = writer._kept.get("jobs")
        assert (kept and sum(map(len, kept))) == expected
    writer.close_tables()
    assert pl.read_parquet(tmp_path / "run" / "jobs.parquet").height == 120


def test_rows_come_back_in_order_in_row_groups_of_bounded_size(tmp_path):
    writer = RunWriter(tmp_path / "run", INFO)
    for first in range(0, 100_000, 10_000):
        writer.write("jobs", pl.DataFrame({"job_id": range(first, first + 10_000)}))
    writer.close_tables()
    file = pq.ParquetFile(tmp_path / "run" / "jobs.parquet")
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sum(groups) == 100_000
    assert max(groups) < ROW_GROUP + 10_000
    assert len(groups) <= 4
    frame = pl.read_parquet(tmp_path / "run" / "jobs.parquet")
    assert frame["job_id"].to_list() == list(range(100_000))


@pytest.mark.parametrize("how", ["interrupted", "failed"])
def test_an_abandoned_run_keeps_valid_tables_and_says_so(tmp_path, how):
    writer = RunWriter(tmp_path / "run", INFO)
    writer.write("jobs", rows())
    writer.write("jobs", rows(2))
    writer.abandon(how, "why", {"peak_memory_bytes": 1})
    assert status(tmp_path / "run") == how
    assert pl.read_parquet(tmp_path / "run" / "jobs.parquet").height == 5
    with pytest.raises(RunError, match=f"the run is {how} \\(why\\)"):
        open_run(tmp_path / "run")
    assert open_run(tmp_path / "run", allow_partial=True).status == how


def finished(folder, count=3, **info):
    """Write a whole run of so many jobs."""
    writer = RunWriter(folder, INFO | info)
    writer.write("jobs", rows(count))
    writer.close_tables()
    writer.complete({}, {"m": {"value": count}})
    return writer


def test_a_finished_run_stays_until_the_new_one_is_whole(tmp_path):
    folder = tmp_path / "run"
    finished(folder, 3)
    (folder / "notes.txt").write_text("mine")
    second = RunWriter(folder, INFO)
    second.write("jobs", rows(5))
    second.write("events", rows(1))
    second.close_tables()
    assert (status(folder), status(folder / "unfinished")) == ("complete", "incomplete")
    assert pl.read_parquet(folder / "jobs.parquet").height == 3
    second.complete({}, {"m": {"value": 5}})
    names = ["events.parquet", "jobs.parquet", "metrics.json", "notes.txt", "run.json"]
    assert written(folder) == names
    assert (status(folder), pl.read_parquet(folder / "jobs.parquet").height) == ("complete", 5)
    assert json.loads((folder / "metrics.json").read_text()) == {"m": {"value": 5}}


def test_a_run_that_fails_leaves_the_finished_one_and_the_next_one_cleans_up(tmp_path):
    folder = tmp_path / "run"
    finished(folder, 3)
    second = RunWriter(folder, INFO)
    second.write("jobs", rows(5))
    second.abandon("interrupted", "why", {})
    assert (status(folder), status(folder / "unfinished")) == ("complete", "interrupted")
    assert pl.read_parquet(folder / "unfinished" / "jobs.parquet").height == 5
    finished(folder, 4)
    assert written(folder) == ["jobs.parquet", "metrics.json", "run.json"]
    assert pl.read_parquet(folder / "jobs.parquet").height == 4


def test_a_run_that_is_not_whole_is_replaced_at_once(tmp_path):
    first = RunWriter(tmp_path / "run", INFO)
    first.write("jobs", rows())
    first.abandon("failed", "", {})
    second = RunWriter(tmp_path / "run", INFO)
    assert written(tmp_path / "run") == ["run.json"]
    second.abandon("failed", "", {})


def test_a_full_disk_does_not_take_the_finished_run(tmp_path, monkeypatch):
    finished(tmp_path / "run")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _full_disk(0))
    writer = RunWriter(tmp_path / "run", INFO)
    with pytest.raises(FailedRunError, match="unfinished: cannot be written: no space is left"):
        writer.write("jobs", rows())
    assert status(tmp_path / "run") == "complete"
    assert status(tmp_path / "run" / "unfinished") == "failed"


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"holds other files \(thesis.tex\).*--force"):
        RunWriter(tmp_path, INFO)
    assert written(tmp_path) == ["thesis.tex"]
    RunWriter(tmp_path, INFO, force=True).abandon("failed", "", {})
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_two_writers_do_not_share_a_folder(tmp_path):
    first = RunWriter(tmp_path / "run", INFO)
    with pytest.raises(RunError, match="another process is writing"):
        RunWriter(tmp_path / "run", INFO)
    first.abandon("interrupted", "", {})
    RunWriter(tmp_path / "run", INFO).abandon("interrupted", "", {})


def _full_disk(after):
    """Return a `write_table` that finds the disk full after some calls."""
    write, calls = pq.ParquetWriter.write_table, [0]

    def write_table(self, *args, **kwargs):
        calls[0] += 1
        if calls[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, *args, **kwargs)

    return write_table


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_full_disk_leaves_no_half_table(tmp_path, monkeypatch, after):
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _full_disk(after))
    writer = RunWriter(tmp_path / "run", INFO)
    for table in TABLES[:after]:
        writer.write(table, rows())
    with pytest.raises(
        FailedRunError, match=r"no space is left on the disk.*marked as not complete"
    ):
        writer.write(TABLES[after], rows())
    assert written(tmp_path / "run") == ["run.json"]
    assert status(tmp_path / "run") == "failed"


def test_a_disk_too_full_even_for_the_mark_leaves_incomplete(tmp_path, monkeypatch):
    writer = RunWriter(tmp_path / "run", INFO)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _full_disk(0))

    def no_text(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", no_text)
    with pytest.raises(FailedRunError):
        writer.write("jobs", rows())
    assert status(tmp_path / "run") == "incomplete"
