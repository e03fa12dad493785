"""A log or a run where a scenario belongs is recognised, and the remedy that is shown works."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simkit import run_sweep, simulate
from simkit.cli import app
from simkit.errors import ScenarioError
from simkit.experiment.api import log_type, scenario_file

SWF = "; MaxProcs: 4\n" + "1 0 -1 10 1 -1 -1 1 10 -1 1 1 -1 -1 -1 -1 -1 -1\n"
SACCT = "JobID|User|Submit\n1|ann|2024-05-01T00:00:00\n"
FILES = [
    # name, content, the type of log that it is
    ("x.swf", SWF, "swf"),
    ("x.txt", SWF, "swf"),  # told by its rows
    ("empty.swf", "", "swf"),  # told by its name
    ("jobs.csv", "job_id,submit_time_s\n1,0\n", "jobs"),
    ("x.txt", SACCT, "sacct"),
    ("x.csv", SACCT, "sacct"),
    ("s.yaml", "workload: {type: swf, path: x.swf}\n", ""),
    ("s.txt", "workload: {type: swf, path: x.swf}\n", ""),  # a scenario under another name
    ("odd.yaml", SWF, ""),  # says to be a scenario: the YAML reader judges it
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "content", "kind"), FILES)
def test_logs_are_told_from_scenarios(
    tmp_path: Path, name: str, content: str, kind: str, packed: bool
) -> None:
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert log_type(path) == kind


SLURM = "JobID|Submit|Start|End|Elapsed|AllocCPUS\n1|2024-05-01T00:00:00|" + (
    "2024-05-01T00:00:00|2024-05-01T01:00:00|01:00:00|4\n"
)
TABLE = "job_id,submit_time_s,run_time_s,processors\n1,0,10,4\n"
TASKS = ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n0,0,10,1,0.1,1,1,1,0\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("my log; 2.swf", SWF), ("it's.swf.gz", SWF), ("-x.txt", SLURM), ("jobs.csv", TABLE),
        ("folder/x.swf", SWF), ("my tasks.csv", TASKS),
    ],
)  # fmt: skip
def test_a_log_is_answered_by_what_would_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    packed = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    Path(name).write_bytes(packed)
    with pytest.raises(ScenarioError, match="this is a log, not a scenario") as error:
        scenario_file(name)
    for call in (simulate, run_sweep):
        with pytest.raises(ScenarioError) as told:
            call(name)
        assert str(told.value) == str(error.value)
    lines = [line.strip() for line in str(error.value).splitlines() if line.startswith("    ")]
    assert ("simkit init" in lines[0]) == (content != TASKS)
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "simkit"
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output


def test_a_run_is_answered_by_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"name": "mine"}))
    (tmp_path / "jobs.parquet").write_text("")
    with pytest.raises(ScenarioError, match=r"a run folder, not a scenario.*'mine'.*simkit verify"):
        scenario_file(str(tmp_path))
    with pytest.raises(ScenarioError, match="a table of a run, not a scenario"):
        scenario_file(str(tmp_path / "jobs.parquet"))
