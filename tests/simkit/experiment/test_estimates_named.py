"""Estimates that are not what they are called: warned of before the run, and named as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from simkit.analysis.plot_style import facts_of
from simkit.cli import app
from simkit.results.run_folder import open_run

POLICY = "policy: {order: fcfs, backfill: easy}\n"
PERFECT = "so the policy knows their true run times"
NOBODY = "walltime: kill kills no job"


def swf(folder: Path, *requests: int) -> Path:
    """Write a log of jobs that run for 100 s; a request of -1 is missing."""
    rows = [
        f"{n} {10 * n} -1 100 1 -1 -1 1 {request} -1 1 1 1 -1 1 -1 -1 -1"
        for n, request in enumerate(requests, 1)
    ]
    path = folder / "log.swf"
    path.write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    return path


def table(folder: Path, *requests: int) -> Path:
    """Write the same as a table of jobs."""
    rows = [
        f"{n},{10 * n},100,1,{request if request >= 0 else ''}"
        for n, request in enumerate(requests, 1)
    ]
    path = folder / "jobs.csv"
    header = "job_id,submit_time_s,run_time_s,processors,requested_time_s\n"
    path.write_text(header + "\n".join(rows) + "\n")
    return path


def run(path: Path, kind: str, settings: str = "", policy: str = POLICY) -> tuple[str, Any, str]:
    """Return the standard error of `simkit run`, the run, and the line of the policy."""
    scenario = path.parent / "scenario.yaml"
    size = "" if kind == "swf" else "cluster: {processors: 4}\n"
    raw = settings.startswith("raw")
    rule = ", requested_time: raw" if raw else ""
    text = f"workload: {{type: {kind}, path: {path.name}{rule}}}\n{size}{policy}"
    scenario.write_text(text + settings.removeprefix("raw"))
    out = path.parent / "run"
    result = CliRunner().invoke(app, ["run", str(scenario), "-o", str(out), "--force"])
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if line.startswith("Policy"))
    return result.stderr, open_run(out), line


WRITERS = {"swf": swf, "jobs": table}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_log_without_requests_is_planned_with_perfect_knowledge(
    kind: str, tmp_path: Path
) -> None:
    stderr, done, line = run(WRITERS[kind](tmp_path, -1, -1, -1), kind)
    assert stderr.count("warning:") == 1
    assert f"none of 3 jobs has a requested time other than the run time, {PERFECT}" in stderr
    assert "estimates run times (no requests)," in line
    facts = {"name": "run times (no requests)", "used": True, "tasks": 3, "told_run_time": 3}
    assert done.info["estimates"] == facts
    assert done.info["warnings"] == [stderr.strip()]
    assert done.method == "fcfs + easy, run times (no requests)"
    assert "estimates run times (no requests)" in facts_of(done)


@pytest.mark.parametrize("kind", WRITERS)
def test_requests_are_called_requests(kind: str, tmp_path: Path) -> None:
    stderr, done, line = run(WRITERS[kind](tmp_path, 600, 300, 120), kind)
    assert stderr == ""
    assert "estimates requested," in line
    assert (done.estimates, done.method) == ("requested", "fcfs + easy")
    assert not any("estimates" in fact for fact in facts_of(done))


def test_some_requests_are_missing(tmp_path: Path) -> None:
    stderr, done, _ = run(swf(tmp_path, -1, 60, 300, 400), "swf")  # one is raised to its run time
    assert "2 of 4 jobs (50%) lack a requested time" in stderr
    assert PERFECT in stderr
    assert "workload.requested_time: raw" in stderr
    assert done.estimates == "requested (50% run times)"
    stderr, done, _ = run(swf(tmp_path, -1, *[300] * 9), "swf")  # a tenth is as in most logs
    assert (stderr, done.estimates) == ("", "requested")
    assert done.info["estimates"]["told_run_time"] == 1


def test_a_policy_without_estimates_is_not_warned_of(tmp_path: Path) -> None:
    path = swf(tmp_path, -1, -1)
    for policy in ("policy: {order: fcfs}\n", "policy: {fitness: first-fit}\n"):
        stderr, done, _ = run(path, "swf", policy=policy)
        assert (stderr, done.estimates) == ("", "")
    assert PERFECT in run(path, "swf", policy="policy: {order: sjf}\n")[0]


def test_user_means_cut_at_the_run_time(tmp_path: Path) -> None:
    means = "estimates: {type: user-mean, correction: tsafrir}\n"
    stderr, done, _ = run(swf(tmp_path, -1, -1), "swf", means)
    assert "user-mean is never above the true run time" in stderr
    assert done.estimates == "user-mean + tsafrir (100% at most the run time)"
    assert run(swf(tmp_path, -1, -1), "swf", "raw" + means)[0] == ""


def test_walltime_kills_nobody(tmp_path: Path) -> None:
    path = swf(tmp_path, 60, *[300] * 5)
    stderr, done, _ = run(path, "swf", "walltime: kill\n")
    assert stderr.count("warning:") == 1
    assert f"{NOBODY}: none runs longer than its requested time, because the reader" in stderr
    assert "set workload.requested_time: raw" in stderr
    assert done.info["warnings"] == [stderr.strip()]
    stderr, done, _ = run(path, "swf", "rawwalltime: kill\n")
    assert NOBODY not in stderr
    assert done.metrics["jobs"]["killed"] == 1


def test_a_sweep_says_it_once_and_names_the_estimates(tmp_path: Path) -> None:
    path = swf(tmp_path, -1, -1, -1)
    scenario = tmp_path / "sweep.yaml"
    scenario.write_text(
        f"workload: {{type: swf, path: {path.name}}}\n{POLICY}"
        "sweep: {seed: [0, 1], estimates: [requested, actual]}\n"
    )
    command = ["sweep", str(scenario), "-o", str(tmp_path / "out"), "-j", "1"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.stderr.count(PERFECT) == 1
    runs = json.loads(result.stdout)["runs"]
    assert [one["estimates"] for one in runs] == ["run times (no requests)", "actual"] * 2
    result = CliRunner().invoke(app, command)
    assert "planned with" in result.stdout
    assert result.stdout.count("run times (no requests)") == 2


def test_a_comparison_names_what_differs(tmp_path: Path) -> None:
    path = swf(tmp_path, 600, 300, 120)
    for number, backfill in enumerate(("easy", "{type: easy, order: sjf}")):
        policy = f"policy: {{backfill: {backfill}}}\n"
        estimates = "estimates: {type: user-mean, correction: tsafrir}\n" if number else ""
        _, done, _ = run(path, "swf", estimates, policy)
        done.folder.rename(tmp_path / f"run{number}")
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "run0"), str(tmp_path / "run1")])
    assert "A           scenario, fcfs + easy\n" in result.stdout
    assert "B           scenario, fcfs + easy(order=sjf), user-mean + tsafrir\n" in result.stdout


def test_jobs_without_a_limit_tell_no_run_time(tmp_path: Path) -> None:
    """What is endless is known to be so: nobody plans with the true run time."""
    path = tmp_path / "jobs.csv"
    head = "job_id,submit_time_s,run_time_s,processors,requested_time_s"
    path.write_text(f"{head}\n1,0,100,2,unlimited\n2,1,100,4,inf\n3,2,100,2,UNLIMITED\n")
    stderr, done, _ = run(path, "jobs")
    assert "warning" not in stderr
    assert done.info["estimates"]["told_run_time"] == 0
