"""A site with gpus from end to end: its sacct output is run, audited, and counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_site import Row, by_hand, made_up_site, write_sacct
from typer.testing import CliRunner

import simkit
from simkit.cli import app
from simkit.results.run_folder import Run
from simkit.verify import verify_run

SCENARIO = """
workload: {type: sacct, path: site.txt, time_zone: Europe/Berlin}
cluster:
  machines:
    - {name: gpu, count: 4, processors: 16, mem: 128, gpu: 4}
    - {name: cpu, count: 3, processors: 32, mem: 192}
  partitions:
    - {name: gpu, partitions: [gpu], machines: [gpu]}
    - {name: cpu, partitions: [cpu], machines: [cpu]}
policy: {order: fcfs, backfill: easy}
"""
GPUS, PROCESSORS, GIB = 16, 160, 4 * 128 + 3 * 192


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Row], Path]:
    """Return the rows of a site, and the folder with its log and its scenario."""
    folder, rows = tmp_path_factory.mktemp("site"), made_up_site(jobs=350, seed=5)
    write_sacct(rows, folder / "site.txt")
    (folder / "site.yaml").write_text(SCENARIO)
    return rows, folder


@pytest.fixture(scope="module")
def run(site: tuple[list[Row], Path]) -> Run:
    """Return the run of the site's log by the command line."""
    _, folder = site
    command = ["run", str(folder / "site.yaml"), "--output", str(folder / "run"), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["digest"]
    return simkit.open_run(folder / "run")


def test_no_job_is_lost_and_utilisation_is_that_of_the_rows(site: Any, run: Run) -> None:
    rows, _ = site
    used = by_hand(rows)
    assert run.jobs["status"].to_list() == ["finished"] * int(used["jobs"])
    span = run.jobs["end_time_s"].max() - run.jobs["submit_time_s"].min()
    for name, capacity in (("gpu", GPUS), ("processors", PROCESSORS), ("mem", GIB)):
        found = run.metrics[f"utilisation_{name}"]["value"]
        assert found == pytest.approx(used[name] / (capacity * span), rel=1e-9), name
    assert run.metrics["utilisation_gpu"]["value"] > 0.3  # the gpus are what jobs wait for


def test_every_machine_gives_at_most_its_gpus_and_jobs_run_as_they_did(run: Run) -> None:
    several = run.tasks.filter(run.tasks["gpu"] * run.tasks["instances"] == 8)
    assert several.height
    assert set(several["instances"]) == {2}
    assert set(several["gpu"]) == {4.0}
    whole = (run.tasks["gpu"] % 1 == 0) & (run.tasks["processors"] % 1 == 0)
    assert whole.all()


def test_the_audit_finds_nothing_and_says_what_it_does_not_reread(site: Any, run: Run) -> None:
    _, folder = site
    audit = verify_run(folder / "run", inputs=[folder])
    assert not audit.violations, audit.summary()
    assert "sacct" in audit.not_audited["trace"]


def test_half_of_the_gpus_of_a_machine_are_too_few_for_its_jobs(site: Any) -> None:
    _, folder = site
    small = simkit.simulate(folder / "site.yaml", overrides={"cluster.machines.0.gpu": 2})
    rejected = small.jobs.filter(small.jobs["status"] == "rejected")
    assert rejected.height
    assert set(rejected["gpu"]) == {3.0, 4.0, 8.0}
