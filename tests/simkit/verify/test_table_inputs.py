"""The auditor reads tables of jobs and tasks again: gangs, instance times, retries of tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from simkit.experiment.api import simulate
from simkit.verify import verify_run
from simkit.verify.audited_run import AuditedRun

pytestmark = pytest.mark.sampled

HEAD = "job_id,task_id,submit_time_s,run_time_s,instances,cpu,mem,gpu,retries,user"
MACHINES = {"count": 3, "cpu": 8, "mem": 32, "gpu": 2}
FAILING = {"machines": [MACHINES], "failures": {"mtbf": "20m", "mttr": "1m"}}
COLUMNS = {name: name for name in HEAD.split(",") if name not in ("instances", "user")}


def table(folder: Path) -> str:
    """Write a table that does for jobs, for tasks and, as ids repeat, for rows of instances."""
    lines = [HEAD]
    for n in range(60):
        cells = ("" if n % 3 == 0 else 1 + n % 2, 0.1 * (1 + n % 7), "" if n % 4 else 1)
        again = ("", 0, 1, 2)[n % 4]
        lines.append(f"{n},{n % 3},{n * 20},{100 + n * 37 % 700}.5,{1 + n % 3},{cells[0]},"
                     f"{cells[1]},{cells[2]},{again},u{n % 2}")  # fmt: skip
    lines += ["60,0,1300,10,2,,,,,", "61,0,1300,10,1.5,1,,,,", "62,0,1300,x,1,1,1,,,", "63,0"]
    (folder / "table.csv").write_text("\n".join((*lines, "")))
    return str(folder / "table.csv")


def instances(folder: Path) -> str:
    """Write a table of instances: ids repeat, and rows of a task do not stand together."""
    lines = [HEAD.replace(",instances", "")]
    for n in range(90):
        lines.append(f"j{n % 30},{n % 2},{n % 30 * 40 + n % 7},{60 + n * 31 % 400}.25,{1 + n % 4},"
                     f"0.{1 + n % 8},,{('', 0, 1)[n % 3]},u{n % 2}")  # fmt: skip
    (folder / "instances.csv").write_text("\n".join((*lines, "")))
    return str(folder / "instances.csv")


JOBS: dict[str, Any] = {"type": "jobs", "on_error": "skip"}
TASKS: dict[str, Any] = {"type": "tasks", "on_error": "skip", "columns": COLUMNS}
WORKLOADS: dict[str, dict[str, Any]] = {
    "jobs": JOBS,
    "jobs-scaled": JOBS | {
        "resources": ["mem", "cpu"], "factors": {"mem": 10, "run_time_s": 0.5},
        "window": {"jobs": "5..40"},
    },
    "bags": TASKS | {"columns": COLUMNS | {"instances": "instances"}},
    "gangs": TASKS | {"columns": COLUMNS | {"instances": "instances"}, "gang": True},
    "instances": TASKS | {"rows": "instance"},
    "gangs-of-instances": TASKS | {"rows": "instance", "gang": True, "submit": "last"},
}  # fmt: skip


def run_of(kind: str, folder: Path, **sections: Any) -> Path:
    workload = WORKLOADS[kind]
    path = instances(folder) if workload.get("rows") else table(folder)
    scenario = {"workload": workload | {"path": path}, "cluster": FAILING} | sections
    simulate(scenario, output=folder / "run")
    return folder / "run"


@pytest.mark.parametrize("kind", WORKLOADS)
def test_honest_runs_hold_and_their_tables_are_read_again(kind: str, tmp_path: Path) -> None:
    folder = run_of(kind, tmp_path)
    audit = verify_run(folder, inputs=[folder.parent])
    assert audit.found == {}
    assert {"tasks", "instance-times", "limits", "walltime"} <= {c.name for c in audit.done}
    run = AuditedRun.read(folder, inputs=[folder.parent])
    assert run.given_up.height  # some tasks have used up their retries
    unread = verify_run(folder)  # the folder of the table is not one that the auditor may open
    assert unread.found == {}
    assert "tasks" in unread.not_audited
    assert run.tasks["gang"].all() == ("bags" != kind != "instances")


def broken(folder: Path, rng: Random, rows: str) -> str:
    """Write jobs of a few tasks whose parents may not exist, be left out, or wait for them."""
    lines = ["job_id,task_id,submit_time_s,run_time_s,cpu,needs"]
    for job in range(40):
        for task in range(rng.randint(1, 5)):
            needs = ";".join(str(rng.randint(1, 5)) for _ in range(rng.choice((0, 0, 1, 2))))
            run = rng.choice((10, 10, 10, 10, 10, 10, "", "" if rows == "numbered" else "x"))
            name = 1 + (rng.choice((task, task, 1)) if rows == "instance" else task)
            lines.append(f"{job},{name},{job},{run},1,{needs}")
    lines += ["99,1,50,10,1,", "99,2,50,10,1,1"]
    (folder / "broken.csv").write_text("\n".join((*lines, "")))
    return str(folder / "broken.csv")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rows", ["task", "instance", "numbered"])
def test_jobs_left_out_for_their_parents_are_left_out_here_as_well(
    rows: str, seed: int, tmp_path: Path
) -> None:
    names = ["job_id", "submit_time_s", "run_time_s", "cpu"] + ["task_id"] * (rows != "numbered")
    columns = {name: name for name in names} | {"parents": "needs"}
    path = broken(tmp_path, Random(seed), rows)
    workload = {"type": "tasks", "on_error": "skip", "path": path, "columns": columns}
    workload["rows"] = "instance" if rows == "instance" else "task"
    cluster = {"machines": [{"count": 2, "cpu": 4}]}
    run = simulate({"workload": workload, "cluster": cluster}, output=tmp_path / "run")
    assert 2 < run.tasks.height < 100
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.found == {}
    assert {"tasks", "parents"} <= {check.name for check in audit.done}


def changed(folder: Path, name: str, **columns: pl.Expr) -> Mapping[str, Any]:
    """Return what the auditor finds once columns of a table are changed."""
    path = folder / f"{name}.parquet"
    honest = pl.read_parquet(path)
    honest.with_columns(**columns).write_parquet(path)
    found = verify_run(folder, inputs=[folder.parent]).found
    honest.write_parquet(path)
    return found


def test_corrupted_gangs_of_several_resources_are_found(tmp_path: Path) -> None:
    folder = run_of("jobs", tmp_path)
    first = pl.int_range(pl.len()) == 0
    for column in ("cpu", "mem", "gpu"):
        assert "tasks" in changed(folder, "tasks", **{column: pl.col(column) + first * 0.5})
    assert "tasks" in changed(folder, "tasks", gang=pl.col("gang") & ~first)
    assert "tasks" in changed(folder, "tasks", trace_run_time_s=pl.col("trace_run_time_s") + first)


@pytest.mark.parametrize("kind", ["jobs", "bags"])
def test_corrupted_retries_are_found(kind: str, tmp_path: Path) -> None:
    folder = run_of(kind, tmp_path)
    run = AuditedRun.read(folder, inputs=[folder.parent])
    assert run.own_retries is not None
    job = run.given_up["job_id"][0]
    mine, outcome, attempt = pl.col("job_id") == job, pl.col("outcome"), pl.col("attempt")
    killed = mine & (outcome == "killed")
    lost = pl.when(killed).then(pl.lit("lost")).otherwise(outcome)
    assert "limits" in changed(folder, "allocations", outcome=lost)
    later = pl.when(killed).then(attempt + 5).otherwise(attempt)
    assert "limits" in changed(folder, "allocations", attempt=later)
    may = run.own_retries.filter(pl.col("allowed") > 0)["job_id"].implode()
    early = (outcome == "finished") & pl.col("job_id").is_in(may) & (attempt == 1)
    stopped = pl.when(early).then(pl.lit("killed")).otherwise(outcome)
    assert {"statuses", "instances"} & set(changed(folder, "allocations", outcome=stopped))


def test_a_job_killed_without_a_reason_in_the_scenario_is_found(tmp_path: Path) -> None:
    folder = run_of("jobs", tmp_path)
    text = (folder.parent / "table.csv").read_text().splitlines()
    job = AuditedRun.read(folder, inputs=[folder.parent]).given_up["job_id"][0]
    row = next(n for n, line in enumerate(text) if line.startswith(f"{job},"))
    cells = text[row].split(",")
    text[row] = ",".join([*cells[:8], "9", *cells[9:]])  # it may start over nine times, really
    (folder.parent / "table.csv").write_text("\n".join((*text, "")))
    _forget_the_hash(folder)
    found = verify_run(folder, inputs=[folder.parent]).found
    assert "walltime" in found


def test_corrupted_times_of_single_instances_are_found(tmp_path: Path) -> None:
    folder = run_of("instances", tmp_path)
    last = pl.int_range(pl.len()) == pl.len() - 1
    found = changed(folder, "allocations", end_time_s=pl.col("end_time_s") + last * 1.0)
    assert "instance-times" in found


def _forget_the_hash(folder: Path) -> None:
    """Make run.json name the table as it is now."""
    info = json.loads((folder / "run.json").read_text())
    for entry in info["inputs"]:
        content = Path(entry["path"]).read_bytes()
        entry |= {"sha256": sha256(content).hexdigest(), "bytes": len(content)}
    (folder / "run.json").write_text(json.dumps(info))


def _audited(folder: Path, lines: list[str], **workload: Any) -> Any:
    (folder / "table.csv").write_text("\n".join((*lines, "")))
    section = {"path": str(folder / "table.csv")} | workload
    simulate({"workload": section, "cluster": {"machines": [{"count": 4, "cpu": 8}]}},
             output=folder / "run")  # fmt: skip
    return verify_run(folder / "run", inputs=[folder])


@pytest.mark.parametrize("ids", [("1.0", "2.0", "03"), ("a", "2.0", "3")])
def test_ids_and_preceding_jobs_written_as_floats_are_read_again(
    ids: tuple[str, str, str], tmp_path: Path
) -> None:
    lines = ["job_id,submit_time_s,run_time_s,cpu,preceding_job,think_time_s,user"]
    lines += [f"{ids[0]},0,50,1,,,1.0", f"{ids[1]},5,50,1,{ids[0]},3.0,",
              f"{ids[2]},6,50,1,{float(ids[2])};2.0,-1.0,"]  # fmt: skip
    lines[3] = lines[3].replace(",-1.0,", ",,").replace(f"{float(ids[2])};", "-1.0;")
    audit = _audited(tmp_path, lines, type="jobs")
    assert audit.found == {}
    assert {"tasks", "releases"} <= {check.name for check in audit.done}
    jobs = pl.read_parquet(tmp_path / "run" / "jobs.parquet")
    assert jobs["release_time_s"].to_list() == [0, 53, 103]


def test_tasks_and_parents_written_as_floats_are_read_again(tmp_path: Path) -> None:
    lines = ["job,task,at,secs,cpu,after", "1.0,1.0,0,50,1,", "1,2.0,0,50,1,1.0", "2,1,5,50,1,"]
    columns = {"job_id": "job", "task_id": "task", "submit_time_s": "at", "run_time_s": "secs",
               "cpu": "cpu", "parents": "after"}  # fmt: skip
    audit = _audited(tmp_path, lines, type="tasks", columns=columns)
    assert audit.found == {}
    assert "tasks" in {check.name for check in audit.done}


@pytest.mark.parametrize("rows", ["task", "instance"])
def test_dates_of_tasks_and_their_releases_are_read_again(rows: str, tmp_path: Path) -> None:
    lines = ["job,at,secs,cpu,rel", "1,2024-03-01 08:00,50,1,2024-03-01 08:10",
             "1,2024-03-01 08:00,40,1,", "2,2024-03-01 08:01,50,1,"]  # fmt: skip
    columns = {"job_id": "job", "submit_time_s": "at", "run_time_s": "secs", "cpu": "cpu",
               "release_time_s": "rel"}  # fmt: skip
    audit = _audited(tmp_path, lines, type="tasks", columns=columns, rows=rows, zone="UTC")
    assert audit.found == {}
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert manifest["epoch_s"] == 1709280000


def test_one_decimal_sign_of_a_whole_table_is_read_again(tmp_path: Path) -> None:
    lines = ["job_id,submit_time_s,run_time_s,cpu", "1,0,1.234,1", '2,5,"1.234,5",1']
    audit = _audited(tmp_path, lines, type="jobs")
    assert audit.found == {}
    jobs = pl.read_parquet(tmp_path / "run" / "jobs.parquet")
    assert jobs["run_time_s"].to_list() == [1234, 1234.5]
