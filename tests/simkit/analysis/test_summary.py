"""A summary of runs equals means and Student's intervals worked out beside it."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
from scipy.stats import t

import simkit
from simkit.analysis.runs import Settings, runs_below
from simkit.analysis.summary import summarise
from simkit.errors import RunError
from simkit.results.all_metrics import better_of

BASE = {
    "name": "small",
    "workload": {"type": "lublin", "jobs": 60, "processors": 16, "offered_load": 0.7},
    "cluster": {"processors": 16},
    "policy": {"order": "fcfs", "backfill": "easy"},
    "estimates": "actual",
}
GRID = {"policy.order": ["fcfs", "sjf"], "workload.offered_load": [0.6, 1.1], "seed": [0, 1, 2, 5]}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return simkit.run_sweep(BASE, tmp_path_factory.mktemp("sweep"), sweep=GRID, workers=1)


def waits(sweep, **wanted):
    """Return the mean waits of the runs with some swept values, by seed."""
    rows = [
        o for o in sweep if all(o.assignment[k.replace("__", ".")] == v for k, v in wanted.items())
    ]
    return np.array([o.metrics["wait_time_s"]["mean"] for o in rows])


def test_mean_and_interval_are_students(sweep):
    found = summarise(sweep, metrics=["wait_time_s"])
    assert found.by == ("workload.offered_load", "policy")
    assert [row.values for row in found.rows] == [
        ("0.6", "fcfs + easy"), ("0.6", "sjf + easy"), ("1.1", "fcfs + easy"), ("1.1", "sjf + easy"),
    ]  # fmt: skip
    for row, (load, order) in zip(
        found.rows, [(0.6, "fcfs"), (0.6, "sjf"), (1.1, "fcfs"), (1.1, "sjf")], strict=True
    ):
        values = waits(sweep, workload__offered_load=load, policy__order=order)
        half = t.ppf(0.975, 3) * values.std(ddof=1) / 2
        cell = row.cells[0]
        assert (row.runs, row.seeds) == (4, 4)
        assert cell.mean == pytest.approx(values.mean())
        assert (cell.low, cell.high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_the_best_is_that_of_the_same_workload_and_pairs_are_by_seed(sweep):
    rows = summarise(sweep, metrics=["wait_time_s"]).rows
    for first, second in (rows[:2], rows[2:]):
        load = float(first.values[0])
        a, b = (waits(sweep, workload__offered_load=load, policy__order=o) for o in ("fcfs", "sjf"))
        better, other = (first, second) if a.mean() <= b.mean() else (second, first)
        assert better.cells[0].best
        assert not other.cells[0].best
        apart = abs(a.mean() - b.mean())
        half = t.ppf(0.975, 3) * (a - b).std(ddof=1) / 2
        assert other.cells[0].as_good == (apart <= half)


def test_a_seed_counts_once_where_other_keys_are_averaged(sweep):
    found = summarise(sweep, ["policy"], ["wait_time_s"])
    assert found.mixed == ("workload.offered_load",)
    values = np.mean(
        [waits(sweep, workload__offered_load=load, policy__order="sjf") for load in (0.6, 1.1)],
        axis=0,
    )
    cell = found.rows[1].cells[0]
    assert cell.mean == pytest.approx(values.mean())
    assert cell.high - cell.mean == pytest.approx(t.ppf(0.975, 3) * values.std(ddof=1) / 2)
    assert "each seed's value is the mean over workload.offered_load" in found.notes()


def test_high_numbers_are_better_where_they_are():
    assert better_of("utilisation_processors") == better_of("value_ratio") == "high"
    assert better_of("wait_time_s.p99") == better_of("grid_kwh.import") == "low"
    assert better_of("offered_load_processors") == better_of("jobs.submitted") is None


def test_what_runs_do_not_finish_is_always_shown(tmp_path):
    late = BASE | {"admission": {"slots": 2, "backlog": 1}, "walltime": "kill"}
    sweep = simkit.run_sweep(late, tmp_path, sweep={"seed": [0, 1]}, workers=1)
    states = [outcome.metrics["jobs"] for outcome in sweep]
    shown = summarise(sweep, metrics=["wait_time_s"]).metrics
    for state in ("killed", "rejected", "running", "waiting"):
        assert (f"jobs.{state}" in shown) == any(found[state] for found in states)
    assert "jobs.rejected" in shown


def copied(sweep, folder, change):
    """Return a copy of a sweep's folder with the run.json of each run changed."""
    shutil.copytree(sweep.folder, folder)
    for file in sorted(folder.rglob("run.json")):
        info = json.loads(file.read_text())
        change(file, info)
        if file.exists():
            file.write_text(json.dumps(info))
    return folder


def test_runs_that_are_not_complete_are_named(sweep, tmp_path):
    def change(file, info):
        if info["seed"] == 5:
            info["status"] = "interrupted"

    found = summarise(copied(sweep, tmp_path / "copy", change))
    assert len(found.left_out) == 4
    assert {row.seeds for row in found.rows} == {3}
    assert "4 runs left out, not complete" in found.notes()[-1]


def test_seeds_with_different_runs_are_refused(sweep, tmp_path):
    def change(file, info):
        if info["seed"] == 5 and info["scenario"]["workload"]["offered_load"] == 0.6:
            shutil.rmtree(file.parent)

    folder = copied(sweep, tmp_path / "copy", change)
    with pytest.raises(RunError, match="seeds do not have the same runs") as caught:
        summarise(folder, ["policy"])
    assert "add workload.offered_load to --by" in str(caught.value)
    assert len(summarise(folder).rows) == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"by": ["poliy"]}, "did you mean 'policy'"),
        ({"metrics": ["wait_tim"]}, "did you mean 'wait_time_s'"),
        ({"level": 95}, "not between 0 and 1"),
    ],
)
def test_wrong_names_are_refused(sweep, arguments, text):
    with pytest.raises(RunError, match=text):
        summarise(sweep, **arguments)


def test_policies_with_one_label_are_told_apart_by_their_keys(tmp_path):
    orders = [{"type": "multifactor", "age": 1.0}, {"type": "multifactor", "age": 2.0}]
    grid = {"policy.order": orders, "seed": [0, 1]}
    sweep = simkit.run_sweep(BASE, tmp_path, sweep=grid, workers=1)
    assert {run.policy for run in runs_below([sweep.folder])} == {"multifactor + easy"}
    found = summarise(sweep, ["policy"])
    assert [row.values for row in found.rows] == [("order.age=1.0",), ("order.age=2.0",)]


def test_a_key_that_is_the_same_in_all_runs_makes_one_group(sweep):
    assert len(summarise(sweep, ["name"], ["wait_time_s"]).rows) == 1
    assert "seed" in Settings(runs_below([sweep.folder])).varying


def test_csv_has_numbers_in_full(sweep):
    found = summarise(sweep, metrics=["wait_time_s"])
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert [float(row["wait_time_s"]) for row in rows] == [row.cells[0].mean for row in found.rows]


def test_latex_is_escaped_and_regular(sweep):
    lines = summarise(sweep, metrics=["wait_time_s", "utilisation"]).latex().splitlines()
    body = [line for line in lines if line.endswith(r" \\")]
    assert len(body) == 5
    assert {line.count(" & ") for line in body} == {4}
    assert body[0] == (
        r"workload.offered\_load & policy & runs & wait\_time\_s & utilisation\_processors (\%) \\"
    )
    assert lines.count(r"\begin{tabular}{llrrr}") == 1
    assert sum(line.count(r"\textbf{") for line in body) == 4


def test_markdown_and_html_have_a_row_a_group(sweep):
    found = summarise(sweep, metrics=["wait_time_s"])
    table = [line for line in found.markdown().splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert {line.count("|") for line in table} == {5}
    assert found._repr_html_().count("<tr>") == 5
