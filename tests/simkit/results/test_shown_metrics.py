"""A metric's row says on which screens it stands: no screen has a list of its own."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import simkit
from simkit.analysis.compare import compare_runs
from simkit.analysis.summary import summarise
from simkit.cli.run_text import sweep_blocks
from simkit.cli.text import as_text
from simkit.experiment.workers import SweepOutcome
from simkit.report.facts import distributions_of, run_facts, shown_unit
from simkit.results import all_metrics, job_metrics
from simkit.results.all_metrics import (
    full_name,
    full_names,
    metric_numbers,
    other_names,
    shown_on,
)
from simkit.results.metric import MAIN, Found, MetricRow, Screen

SMALL = {
    "workload": {"type": "lublin", "processors": 64, "jobs": 20},
    "policy": {"order": "fcfs"},
}
NEW = MetricRow[job_metrics.JobRecords](
    "new_h", "h", "a new metric", lambda _records: Found(1.5, 1), better="low",
    shown=dict.fromkeys(get_args(Screen), MAIN),
)  # fmt: skip


@pytest.fixture
def with_new_row(monkeypatch):
    """Give simkit a further row of metrics."""
    rows = (*job_metrics.WHOLE_JOBS, NEW)
    monkeypatch.setattr(job_metrics, "WHOLE_JOBS", rows)
    monkeypatch.setattr(all_metrics, "TABLES", {**all_metrics.TABLES, "jobs": rows})
    cached = (shown_on, all_metrics.facts_of, all_metrics._rows)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("with_new_row")
def test_a_new_row_is_on_every_screen_that_it_names():
    run = simkit.simulate(SMALL)
    facts = run_facts(run)
    outcome = SweepOutcome({"seed": 1}, Path("r"), "done", seconds=1.0, metrics=run.metrics)
    assert "new_h" in summarise([run]).metrics
    assert "new_h" in [row.metric for row in compare_runs(run, run).differences]
    assert "new_h" in facts["tiles"]
    assert "new_h" in facts["report"]
    assert "new_h" in as_text(sweep_blocks(Path("here"), [outcome])).splitlines()[0]


def test_tiles_show_a_few_resources_and_the_report_all(tmp_path):
    names, table = tuple("abcdef"), tmp_path / "jobs.csv"
    table.write_text(f"job_id,submit_time_s,run_time_s,{','.join(names)}\n1,0,9,1,1,1,1,1,1\n")
    workload = {"type": "jobs", "path": str(table), "resources": list(names)}
    cluster = {"machines": [{"count": 1, **dict.fromkeys(names, 2)}]}
    facts = run_facts(simkit.simulate({"workload": workload, "cluster": cluster}))
    every = [f"utilisation_{name}" for name in names]
    assert [name for name in facts["tiles"] if name in every] == every[:4]
    assert [name for name in facts["report"] if name in every] == every


def test_a_metric_in_a_unit_called_share_is_not_shown_in_per_cent():
    assert shown_unit("utilisation_cpu", "1") is None
    assert shown_unit("mine", "share") == "share"


def test_what_is_shown_of_jobs_and_their_groups_is_known_there():
    run = simkit.simulate(SMALL)
    assert set(shown_on("groups")) <= set(run.metrics_by("size").columns)
    assert set(shown_on("charts")) == set(distributions_of(run))
    numbers = metric_numbers(run.metrics)
    for screen in ("summary", "tiles"):
        power = [name for name in shown_on(screen) if not full_names(name, numbers)]
        assert all(row in all_metrics.ENERGY_METRICS for row in map(shown_on(screen).get, power))


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("utilisation", ["utilisation_cpu", "utilisation_gpu"]),
        ("utilisation_gpu", ["utilisation_gpu"]),
        ("offered_load", ["offered_load_cpu"]),
        ("wait_time_s", ["wait_time_s"]),
        ("stranded", []),
    ],
)
def test_without_a_resource_a_name_is_that_of_every_resource(name, full):
    known = ["wait_time_s", "utilisation_cpu", "utilisation_cpu.value", "utilisation_gpu",
             "offered_load_cpu"]  # fmt: skip
    assert full_names(name, known) == full
    assert full_name(name, known) == (full or [name])[0]


def test_an_unknown_metric_is_answered_by_the_nearest_or_the_usual_ones_in_order():
    known = {"makespan_s", "utilisation_b", "utilisation_a", "wait_time_s", "zoo"}
    usual = "wait_time_s, utilisation_a, utilisation_b, makespan_s"
    assert other_names("wait_tim_s", known) == "; did you mean 'wait_time_s'?"
    assert other_names("q", known) == f"; usual: {usual}; name a part like wait_time_s.p99"
    assert other_names("q", []) == ""
