"""Good runs have no violations, and the audit reports what it did."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.cli.results import audit_blocks
from simkit.cli.text import print_blocks
from simkit.errors import RunError
from simkit.verify import CHECKS, verify_run


def test_a_good_run_has_no_violations(good: Any, tmp_path: Path) -> None:
    audit = good.audit(tmp_path / "run")
    assert audit.violations == ()
    assert audit.ok
    assert audit.found == {}


def test_every_check_is_made_or_says_why_not(good: Any, tmp_path: Path) -> None:
    audit = good.audit(tmp_path / "run")
    assert len(audit.checks) == len(CHECKS)
    assert set(audit.not_applicable) == {
        "partitions", "maintenance", "admission", "fcfs-order", "recorded-starts", "tasks", "instance-times",
        "late-jobs", "parents", "machine-capacity", "failures", "value", "user-limits", "preemption",
        "outages", "decision-times", "releases", "supply", "stops", "clocks", "ledger", "generation", "grid", "site-load", "dispatch",
        "sources", "battery", "reserve", "machine-power", "bills",
    }  # fmt: skip
    assert all(audit.not_applicable.values())
    assert audit.not_audited == {}
    done, left = len(audit.done), len(audit.not_applicable)
    assert audit.summary() == f"every rule holds ({done} rules hold, {left} do not apply)"
    empty = ("rejections", "events")
    assert all(check.examined > 0 for check in audit.done if check.name not in empty)


def test_the_audit_as_json_holds_plain_values(good: Any, tmp_path: Path) -> None:
    good.set("jobs", 0, wait_time_s=77.0)
    answer = json.loads(json.dumps(good.audit(tmp_path / "run").to_dict()))
    (times,) = [check for check in answer["checks"] if check["name"] == "times"]
    assert answer["ok"] is False
    assert times["violations"] == 1
    assert times["first"][0]["row"]["wait_time_s"] == 77.0


def test_only_the_first_violations_are_kept_and_all_are_counted(kit: Any, tmp_path: Path) -> None:
    world = kit.replayed([kit.rigid(i, i, 10, 1, 10) for i in range(40)], [8])
    for row in range(40):
        world.set("jobs", row, wait_time_s=-1.0)
    (times,) = [c for c in world.audit(tmp_path / "run").checks if c.name == "times"]
    assert (times.found, len(times.violations)) == (40, 10)


jobs_of_a_log = st.lists(
    st.tuples(
        st.integers(0, 60),  # submit
        st.integers(1, 40),  # run
        st.integers(1, 8),  # processors
        st.integers(0, 30),  # requested beyond run
    ),
    min_size=1,
    max_size=25,
)


@given(
    rows=jobs_of_a_log, short=st.integers(0, 25), kill=st.booleans(), easy=st.booleans(),
    machines=st.sampled_from([[8], [3, 5], [4, 2, 2]]),
)  # fmt: skip
def test_runs_of_the_reference_scheduler_are_right(
    rows: list[Any], short: int, kill: bool, easy: bool, machines: list[int], kit: Any,
    tmp_path_factory: Any,
) -> None:  # fmt: skip
    """Requested times may be too short."""
    jobs = [
        kit.rigid(number, submit, run, size, max(run + more - short, 1))
        for number, (submit, run, size, more) in enumerate(rows, 1)
    ]
    world = kit.replayed(jobs, machines, easy=easy, kill=kill)
    world.manifest["scenario"]["workload"]["requested_time"] = "raw"
    assert world.audit(tmp_path_factory.mktemp("run")).violations == ()


@given(
    rows=jobs_of_a_log,
    which=st.integers(0, 24),
    table=st.sampled_from(["jobs", "tasks", "allocations"]),
    shift=st.sampled_from([-1.0, 1.0]),
)
def test_a_start_moved_by_a_second_is_always_found(
    rows: list[Any], which: int, table: str, shift: float, kit: Any, tmp_path_factory: Any
) -> None:
    jobs = [
        kit.rigid(number, submit, run, size, run + more)
        for number, (submit, run, size, more) in enumerate(rows, 1)
    ]
    world = kit.replayed(jobs, [8])
    world.set(table, which % len(rows), start_time_s=lambda start: start + shift)
    assert not world.audit(tmp_path_factory.mktemp("run")).ok


def test_a_head_may_start_after_its_shadow_time_if_a_job_overran(kit: Any, tmp_path: Path) -> None:
    # Job 1 says 10 s and runs for 50: job 2 cannot start at its shadow time 10.
    world = kit.replayed([kit.rigid(1, 0, 50, 8, 10), kit.rigid(2, 1, 5, 8, 5)], [8])
    world.manifest["scenario"]["workload"]["requested_time"] = "raw"
    audit = world.audit(tmp_path / "run")
    assert audit.violations == ()
    assert "schedule" in {check.name for check in audit.done}


def test_jobs_of_length_zero_come_and_go_in_rounds_of_one_instant(kit: Any, tmp_path: Path) -> None:
    jobs = [kit.rigid(1, 0, 10, 6, 10), *(kit.rigid(i, 0, 0, 2, 0) for i in range(2, 6))]
    world = kit.replayed(jobs, [8])
    world.manifest["scenario"]["workload"]["keep_zero_run"] = True
    assert world.audit(tmp_path / "run").violations == ()


def test_ids_may_be_text(kit: Any, tmp_path: Path) -> None:
    world = kit.replayed([kit.rigid(n, 0, 5 * n, 3, 5 * n) for n in range(1, 9)], [8])
    world.manifest["scenario"]["workload"] = {"type": "jobs", "path": "gone.csv"}
    for name in ("jobs", "tasks", "allocations", "events"):
        text = pl.format("job-{}", "job_id").alias("job_id")
        world.tables[name] = world.tables[name].with_columns(text)
    assert world.audit(tmp_path / "good").violations == ()
    world.tables["jobs"] = world.tables["jobs"].with_columns(job_id=pl.lit(7, pl.Int64))
    with pytest.raises(RunError, match="job_id has different types in different tables"):
        world.audit(tmp_path / "bad")


def test_a_missing_input_is_reported_as_not_checked(good: Any, tmp_path: Path) -> None:
    folder = good.save(tmp_path / "run")
    (folder / "log.swf").unlink()
    audit = verify_run(folder)
    assert audit.ok
    assert audit.not_audited["inputs"] == "log.swf is missing"
    assert audit.summary().startswith("every rule that was audited holds (")
    assert audit.not_audited.keys() == {"inputs", "releases", "run-info", "trace"}
    assert audit.summary().endswith("apply, 4 were not audited)")


REFUSED = [
    # changes of run.json, or a file and its new content (None: no file); what the message names
    ({"status": "interrupted"}, "only a complete run"),
    ({"format": 2}, "format is 2"),
    ({"cluster": {"resources": ["processors"]}}, "cluster.machines"),
    ({"cluster": 7}, "cluster"),
    ({"seed": True}, "seed"),
    ({"scenario": None}, "scenario"),
    ({"jobs": 9.5}, "jobs"),
    ({"trace": {"read": 1}}, "trace.accepted"),
    ({"tables": {"x": {}}}, "tables.x.read"),
    ({"epoch_s": float("nan")}, "NaN"),
    (("run.json", None), "run.json"),
    (("run.json", b"{"), "run.json"),
    (("run.json", b"[]"), "holds a list"),
    (("metrics.json", None), "metrics.json"),
    (("jobs.parquet", None), "jobs.parquet"),
    (("jobs.parquet", b"PAR1"), "jobs.parquet"),
]


@pytest.mark.parametrize(("change", "names"), REFUSED)
def test_a_folder_that_is_not_a_complete_run_is_refused(
    change: dict[str, Any] | tuple[str, bytes | None], names: str, good: Any, tmp_path: Path
) -> None:
    if isinstance(change, dict):
        good.manifest |= change
    folder = good.save(tmp_path / "run")
    if isinstance(change, tuple):
        name, content = change
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
    with pytest.raises(RunError, match=names):
        verify_run(folder)


def test_a_table_without_a_column_is_refused(good: Any, tmp_path: Path) -> None:
    good.tables["jobs"] = good.tables["jobs"].drop("wait_time_s")
    with pytest.raises(RunError, match="column wait_time_s"):
        good.audit(tmp_path / "run")


def log_that_repeats_an_id(folder: Path) -> dict[str, Any]:
    """Return the scenario of a log whose seventh job has the id of the sixth."""
    rows = [(6 if i == 7 else i, 10 * i, -1, 30, 2, -1, -1, 2, 40) for i in range(1, 31)]
    lines = [" ".join(map(str, (*row, *[-1] * 9))) for row in rows]
    (folder / "log.swf").write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    log = {"type": "swf", "path": str(folder / "log.swf")}
    return {"workload": log, "cluster": {"processors": 8}, "policy": {"backfill": "easy"}}


LEFT_OUT = (
    f"the input repeats the id of job 6, so {len(CHECKS) - 6} of {len(CHECKS)} rules could not "
    "tell the rows apart and were "
    "not audited; "
)


def test_a_repeated_id_leads_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simkit.simulate(log_that_repeats_an_id(tmp_path), output=tmp_path / "run")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    done = ["digest", "columns", "scenario", "inputs", "run-info", "trace"]
    assert [check.name for check in audit.done] == done
    assert "rows cannot be told apart" in audit.not_audited["capacity"]
    assert audit.summary() == LEFT_OUT + "every rule that was audited holds (6 rules hold)"
    print_blocks(audit_blocks(audit))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:] if re.match(r"[\w-]+ +[\d,]+ +0 ", line)] == done
    assert " ".join(lines[7:]).endswith(audit.summary())  # one sentence, not forty rows
    changed = pl.read_parquet(tmp_path / "run" / "jobs.parquet").with_columns(wait_time_s=1.0)
    changed.write_parquet(tmp_path / "run" / "jobs.parquet")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.summary() == LEFT_OUT + "violated: digest 1 (5 rules hold)"


def test_an_id_that_repeats_outside_the_run_hinders_nothing(tmp_path: Path) -> None:
    scenario = log_that_repeats_an_id(tmp_path)
    scenario["workload"]["window"] = {"jobs": "10..30"}
    simkit.simulate(scenario, output=tmp_path / "run")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.found == {}
    assert "schedule" not in audit.not_audited


def test_an_interrupted_run_is_checked_for_what_it_has(kit: Any, tmp_path: Path) -> None:
    jobs = [
        kit.rigid(1, 0, 10, 4, 10),
        kit.rigid(2, 0, 50, 4, 50)._replace(status="running"),
        kit.rigid(3, 5, 9, 8, 9)._replace(status="waiting"),
    ]
    segments = [
        kit.Segment(1, 0, 0, 0, 4, 0.0, 10.0),
        kit.Segment(2, 0, 0, 0, 4, 0.0, None, "running"),
    ]
    world = kit.build(jobs, segments, [{"processors": 8.0}])
    world.manifest |= {"status": "interrupted", "digest": None}
    audit = verify_run(world.save(tmp_path / "run", digest=False), allow_partial=True)
    assert audit.violations == ()
    assert audit.not_applicable["digest"] == "the run is not complete and has no digest"
    world.set("allocations", 0, machine_id=3)
    assert not verify_run(world.save(tmp_path / "bad", digest=False), allow_partial=True).ok
