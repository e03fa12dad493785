"""Files of strangers: what a small one stands for is refused before it fills memory or time."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Simkit

from simkit import files as foreign
from simkit.errors import RunError, TraceError
from simkit.experiment.api import simulate
from simkit.files import SpecialFileError, TooMuchError, parse_json, read_json, refuse_special
from simkit.gym.dataset import read_dataset
from simkit.gym.record_dataset import Recording, record
from simkit.results.run_folder import open_run
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.swf import MOST_REMARKS, read_swf
from simkit.verify import verify_run

ROW = b"1 0 -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"

NO_JSON = [
    (b"[" * 100_000, "nested more than 100 levels deep"),
    (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested more than 100 levels deep"),
    (b"[" * 101 + b"]" * 101, "nested more than 100 levels deep"),
    (b'{"a": NaN}', "NaN is not a number of JSON"),
    (b"[-Infinity]", "-Infinity is not a number"),
    (b"[1e999]", "1e999, which is too large"),
    (b"9" * 2_000, "holds a number of 2,000 digits"),
    (b"{", "Expecting"),
    (b"\xff\xfe", "can't decode"),
    (b"", "Expecting value"),
]


@pytest.mark.parametrize(("text", "said"), NO_JSON)
def test_json_that_no_file_of_simkit_has(text: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text)
    with pytest.raises(ValueError, match=said):
        read_json(tmp_path / "x.json")


def test_brackets_in_texts_do_not_count() -> None:
    text = '["' + "[{" * 500 + '", "\\"' + "[" * 500 + '"]'
    assert parse_json(text.encode()) == ["[{" * 500, '"' + "[" * 500]
    assert parse_json(b"[" * 100 + b"]" * 100)


def test_devices_and_pipes_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(SpecialFileError, match="is a device or a pipe, not a file; copy"):
            refuse_special(path)
    refuse_special(tmp_path)
    refuse_special(tmp_path / "absent")


SPECIAL = ["trace info {}", "trace check {}", "trace convert {} out.swf", "init {}",
           "trace info -f swf {}", "trace info -f jobs {}", "trace info -f sacct {}",
           "trace info -f tasks {}", "trace info -f alibaba2017 {}",
           "trace power csv {} --set column=v --set unit=kW --set zone=UTC", "dataset show {}",
           "run {}", "validate {}", "verify {}", "plot {}", "compare {} {}", "export {} x.swf",
           "evaluate quickstart --agent {}", "burst-times predict {} -o x"]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.skipif(os.name != "posix", reason="pipes and devices")
@pytest.mark.parametrize("words", SPECIAL)
@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/null", "pipe"])
def test_a_device_is_a_sentence_in_every_command(
    words: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A pipe without a writer would be waited for without end."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    done = Simkit(capsys, monkeypatch)(*words.format(kind, kind).split())
    assert done.code in (2, 3)
    assert "Traceback" not in done.err
    assert kind in done.err or words.startswith("burst")


def packed(path: Path, *parts: bytes, times: int) -> Path:
    with gzip.open(path, "wb") as file:
        for part in parts:
            file.write(part * times)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that files of a test reach."""
    monkeypatch.setattr(foreign, "FREE_BYTES", 2**16)


@pytest.mark.usefixtures("small")
def test_a_packed_log_of_equal_lines_is_refused(tmp_path: Path) -> None:
    said = r"unpacks to more than .* 25 times its size .* gunzip and give the plain file"
    for name, part in (("rows", ROW), ("remarks", b"; note\n"), ("blank", b"\n")):
        path = packed(tmp_path / f"{name}.swf.gz", part, ROW, times=20_000)
        with pytest.raises(TraceError, match=said):
            read_swf(path)
    header = b"job_id,submit_time_s,run_time_s,processors\n"
    table = packed(tmp_path / "t.csv.gz", header + b"1,0,1,1\n" * 20_000, times=1)
    with pytest.raises(TraceError, match=said):
        read_jobs_table(table)


def test_a_plain_log_of_the_same_rows_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.swf").write_bytes(ROW * 2_000)
    assert len(read_swf(tmp_path / "rows.swf").workload) == 2_000
    assert len(read_swf(packed(tmp_path / "a.swf.gz", ROW, times=2_000)).workload) == 2_000


def test_a_log_of_comments_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_bytes(b";\n" * (MOST_REMARKS + 1) + ROW)
    with pytest.raises(TraceError, match="more than 1,000,000 lines are comments or empty"):
        read_swf(tmp_path / "x.swf")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few jobs."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    simulate({"workload": {"type": "lublin", "jobs": 30, "processors": 8}}, output=folder)
    return folder


def changed(run: Path, place: Path, table: str, frame: pl.DataFrame) -> Path:
    place.mkdir()
    for file in run.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    frame.write_parquet(place / f"{table}.parquet", compression="zstd")
    return place


BLOWN: list[tuple[str, Callable[[pl.DataFrame], pl.DataFrame], str]] = [
    ("jobs", lambda jobs: pl.concat([jobs.head(1)] * 40_000).rechunk(), "stands for"),
    ("jobs", lambda jobs: jobs.with_columns(reason=pl.lit("x" * 100_000)), "stands for"),
    ("jobs", lambda jobs: jobs.with_columns(more=pl.lit([1.0])), "holds lists"),
    ("timeline", lambda rows: pl.concat([rows.head(1)] * 40_000), "stands for"),
]  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("table", "blow", "said"), BLOWN)
def test_a_table_of_equal_rows_is_refused(
    table: str, blow: Callable[[pl.DataFrame], pl.DataFrame], said: str, run: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By what reads runs, and by the auditor, which has limits of its own."""
    monkeypatch.setattr("simkit.files.FREE_BYTES", 2**16)
    folder = changed(run, tmp_path / "x", table, blow(pl.read_parquet(run / f"{table}.parquet")))
    with pytest.raises(RunError, match=rf"{table}.parquet: .*{said}"):
        open_run(folder)
    with pytest.raises(RunError, match=rf"{table}.parquet: .*{said}"):
        verify_run(folder)


@pytest.mark.usefixtures("small")
def test_a_table_of_jobs_in_parquet_is_refused(tmp_path: Path) -> None:
    columns = {"job_id": 1, "submit_time_s": 0.0, "run_time_s": 1.0, "processors": 1}
    rows = pl.DataFrame([columns]).select(pl.all().repeat_by(50_000).explode(empty_as_null=True))
    rows.write_parquet(tmp_path / "t.parquet", compression="zstd")
    with pytest.raises(TraceError, match="stands for 50,000 rows"):
        read_jobs_table(tmp_path / "t.parquet")


@pytest.mark.usefixtures("small")
def test_a_dataset_of_equal_rows_is_refused(tmp_path: Path) -> None:
    scenario = load_scenario("rare", overrides={"workload.jobs": 5})
    record(scenario, tmp_path / "d.parquet", Recording(**{"actions": "ready-pool"}), [0])
    assert len(read_dataset(tmp_path / "d.parquet"))
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "d.parquet").slice(0, 1)
    with pq.ParquetWriter(tmp_path / "e.parquet", table.schema, compression="zstd") as file:
        file.write_table(pa.concat_tables([table] * 3_000).combine_chunks())
    with pytest.raises(RunError, match="stands for 3,000 rows"):
        read_dataset(tmp_path / "e.parquet")


def test_limits_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "FREE_BYTES", 100)
    (tmp_path / "x").write_bytes(b"x" * 1_000)
    foreign.check_decoded(tmp_path / "x", 50_000, 1)
    with pytest.raises(TooMuchError):
        foreign.check_decoded(tmp_path / "x", 50_001, 1)


@pytest.mark.parametrize(("kind", "names"), [
    ("jobs", "job_id,submit_time_s,run_time_s,processors"),
    ("tasks", "job_id,task_id,submit_time,duration,instances_num,cpu,memory,disk"),
    ("sacct", "JobID|Submit|Start|End|State|AllocCPUS"),
])  # fmt: skip
def test_a_header_of_many_columns_is_refused_at_once(tmp_path: Path, kind: str, names: str) -> None:
    mark = "|" if "|" in names else ","
    more = mark.join(f"x{number}" for number in range(300_000))
    path = tmp_path / "t.txt"
    path.write_text(f"{names}{mark}{more}\n")
    source = load_scenario({"workload": {"type": kind, "path": str(path)}}).workload
    begin = time.process_time()
    width = 300_001 + names.count(mark)
    with pytest.raises(TraceError, match=rf"1: {width:,} columns, but at most 10,000 are read"):
        source.trace(np.random.default_rng(0))
    assert time.process_time() - begin < 5
