"""Metrics of the user: what they are given, what is refused, and where their numbers are."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

import polars as pl
import pytest

import simkit
from simkit.errors import ScenarioError, SimkitError
from simkit.results.all_metrics import build_metrics
from simkit.scenario.yaml_document import load_scenario
from simkit.verify import verify_run

BASE: dict[str, Any] = {
    "workload": {"type": "lublin", "jobs": 60, "processors": 16},
    "policy": {"order": "fcfs", "backfill": "easy"},
}
FILE = '''
def longest(jobs):
    """Longest wait.

    More text.
    """
    return jobs["wait_time_s"].max()

longest.unit, longest.better = "s", "low"

def rows(run, timeline, allocations):
    run.info.clear()
    return len(timeline) + len(allocations)

def fails(jobs): return jobs["no such column"]
def text(jobs): return "1"
def switch(jobs): return True
def nan(jobs): return float("nan")
def huge(jobs): return 10**5000
def undefined(jobs): return None
def makespan_s(jobs): return 0
def finished(jobs): return 0
def utilisation_processors(jobs): return 0
def job(job): return 0
def bills(energy): return 0
def small(jobs): return 1 / max(len(jobs) - 59, 0)
def many(**tables): return 0
def twice(jobs): return 1
def sized(jobs): return 1
sized.unit = 1
def best(jobs): return 1
best.better = "lower"
number = 7
'''


@pytest.fixture
def scenario(tmp_path):
    """Return a function of names in the file that gives a scenario with these metrics."""
    (tmp_path / "mine.py").write_text(FILE)

    def named(*names, **changes):
        custom = [f"{tmp_path}/mine.py:{name}" for name in names]
        return BASE | {"metrics": changes | {"custom": custom} if changes else custom}

    return named


def own(run, name):
    return run.metrics["custom"][name]


def test_a_metric_is_in_the_results_beside_others_and_not_in_the_digest(scenario, tmp_path):
    run = simkit.simulate(scenario("longest", "rows"), output=tmp_path / "run")
    entry = own(run, "longest")
    assert entry["value"] == run.metrics["wait_time_s"]["max"]
    assert (entry["unit"], entry["better"], entry["formula"]) == ("s", "low", "Longest wait.")
    assert own(run, "rows")["value"] == len(run.timeline) + len(run.allocations)
    assert run.info["seed"] == 0, "a metric changed the run"
    plain = simkit.simulate(BASE)
    assert run.digest == plain.digest
    assert {k: v for k, v in run.metrics.items() if k != "custom"} == plain.metrics
    again = simkit.open_run(tmp_path / "run")
    assert again.metrics == json.loads((tmp_path / "run" / "metrics.json").read_text())
    content = sha256((tmp_path / "mine.py").read_bytes()).hexdigest()
    assert (again.info["inputs"], own(again, "longest")["sha256"]) == ([], content)


def test_a_metric_sees_the_window_and_each_group_of_jobs(scenario):
    run = simkit.simulate(scenario("longest", "rows", warmup=14400))
    first = run.jobs["submit_time_s"].min()
    kept = run.jobs.filter(pl.col("submit_time_s") >= first + 14400)
    assert own(run, "longest")["value"] == kept["wait_time_s"].max()
    assert own(run, "longest")["count"] == len(kept) < len(run.jobs)
    groups = run.metrics_by("size")
    assert groups["longest"].to_list() == groups["wait_time_s.max"].to_list()
    assert "rows" not in groups.columns


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fails", "mine.py:15: .*no such column"),
        ("text", "str"),
        ("switch", "bool"),
        ("nan", "the metric nan is not a finite number below 1e.100"),
        ("huge", "the metric huge is not a finite number below 1e.100"),
    ],
)
def test_a_metric_that_fails_is_null_and_warned_of_but_no_other_result_is_lost(
    name, problem, scenario
):
    with pytest.warns(simkit.SimkitWarning, match=problem):
        run = simkit.simulate(scenario(name, "longest"))
    assert own(run, name)["value"] is None
    assert own(run, name)["error"]
    assert own(run, "longest")["value"] is not None


def test_an_undefined_metric_is_null_without_a_warning(scenario):
    assert "error" not in own(simkit.simulate(scenario("undefined")), "undefined")


@pytest.mark.parametrize(
    "name",
    ["makespan_s", "finished", "utilisation_processors", "job", "bills", "sized", "best", "number",
     "many", "nope"],
)  # fmt: skip
def test_what_cannot_be_a_metric_is_refused_before_the_run(name, scenario):
    with pytest.raises(ScenarioError, match=rf"metrics\.custom.*{name}"):
        build_metrics(load_scenario(scenario("longest", name)))


@pytest.mark.parametrize("wrong", ["mine.py:nope", "mine.py:sized", 5, "unheard-of"])
@pytest.mark.parametrize("place", ["metrics.1", "metrics.custom.1"])
def test_errors_are_at_the_place_that_the_user_wrote(
    scenario, tmp_path, wrong, place, simkit
):  # fmt: skip
    names = [*scenario("longest")["metrics"], wrong]
    (tmp_path / "s.yaml").write_text(
        json.dumps(BASE | {"metrics": {"custom": names} if "custom" in place else names})
    )
    found = simkit("validate", tmp_path / "s.yaml")
    assert re.search(rf"s.yaml:1: {re.escape(place)}: ", found.err)


def test_all_that_is_wrong_with_metrics_is_said_at_once(scenario, tmp_path):
    with pytest.raises(ScenarioError) as caught:
        build_metrics(load_scenario(scenario("job", "twice", "twice", "sized")))
    assert len(caught.value.problems) == 3
    with pytest.raises(ScenarioError, match="metrics"):
        load_scenario(BASE | {"metrics": [f"{tmp_path}/none.py:x", "unheard-of"]})
    with pytest.raises(ScenarioError, match="no-code"):
        load_scenario(scenario("longest"), allow_code=False)
    for given in ([lambda jobs: 1], ["mine.py:longest"], len):
        with pytest.raises(ScenarioError, match="metrics"):
            simkit.simulate(BASE, metrics=given)
    with pytest.raises(ScenarioError, match="metrics: must be a list"):
        load_scenario(BASE | {"metrics": f"{tmp_path}/mine.py:longest"})


def test_functions_are_metrics_in_python_and_such_a_run_is_not_taken_for_another(tmp_path):
    def jobs_seen(jobs):
        return len(jobs)

    for force in (False, True):
        run = simkit.simulate(BASE, metrics=[jobs_seen], output=tmp_path / "run", force=force)
    assert own(run, "jobs_seen")["value"] == 60
    with pytest.raises(SimkitError, match="metrics"):
        simkit.simulate(BASE, metrics=[jobs_seen], output=tmp_path / "run")


def test_sweeps_comparisons_and_summaries_have_the_metric(scenario, tmp_path):
    sweep = simkit.run_sweep(
        scenario("longest"), tmp_path / "sweep", sweep={"seed": [0, 1]}, workers=2
    )
    numbers = sweep.frame()["longest"].to_list()
    assert numbers == [outcome.metrics["wait_time_s"]["max"] for outcome in sweep]
    summary = simkit.summarise(sweep)
    assert summary.better["longest"] == "low"
    mine, plain = simkit.open_run(sweep[0].folder), simkit.simulate(BASE)
    found = simkit.compare_runs(mine, plain)
    (row,) = (row for row in found.differences if row.metric == "longest")
    assert (row.mean_a, row.mean_b, row.difference) == (numbers[0], None, None)
    assert "longest is unknown in B" in found.notes()[0]


@pytest.mark.thorough
def test_a_finished_sweep_gets_metrics_without_being_run_again(scenario, tmp_path):
    def swept(*names):
        (run,) = simkit.run_sweep(scenario(*names), tmp_path / "sweep", sweep={"seed": [0]})
        stored = simkit.open_run(run.folder)
        assert stored.metrics == run.metrics
        assert verify_run(run.folder).ok
        return run.state, stored.digest, own(stored, "longest")["value"] if names else None

    _, digest, _ = swept()
    state, _, longest = swept("longest")
    file = tmp_path / "mine.py"
    file.write_text(file.read_text().replace(".max()", ".max() + 1"))
    with pytest.warns(simkit.SimkitWarning, match="the metric fails"):
        assert (state, *swept("longest", "fails")) == ("skipped", "skipped", digest, longest + 1)
    assert swept() == ("skipped", digest, None)


def test_groups_that_lack_a_metric_are_told(scenario):
    run = simkit.simulate(scenario("small"))
    assert own(run, "small")["value"] == 1
    with pytest.warns(simkit.SimkitWarning, match="mine.py.*small"):
        assert run.metrics_by("size")["small"].null_count()
    assert "small" in simkit.compare_runs(run, run, metrics=["small"], by="size").notes()[0]


def test_no_code_of_a_run_folder_runs_to_explain_or_audit_it(scenario, tmp_path):
    simkit.simulate(scenario("longest"), output=tmp_path / "run")
    (tmp_path / "mine.py").write_text(FILE + "\nraise SystemExit\n")
    assert "job 1" in str(simkit.open_run(tmp_path / "run").explain(1))
    assert verify_run(tmp_path / "run").ok
    assert "longest" not in simkit.open_run(tmp_path / "run").metrics_by("size").columns
