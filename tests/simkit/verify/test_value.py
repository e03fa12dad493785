"""The check of value: a run with values is good, and every change of a value is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from run_records import Records

from simkit.experiment import carry_out, prepare
from simkit.scenario import Scenario
from simkit.traces.models import UniformModel
from simkit.verify import verify_run

SCENARIO = {
    "seed": 3,
    "workload": {"type": "uniform", "jobs": 60, "processors": 8, "offered_load": 1.5},
    "cluster": {"machines": [{"processors": 8, "gpu": 5}]},
    "value": {"deadlines": "slack", "gpu": {"share": 0.5}, "prices": {"processors": 2, "gpu": 3},
              "time_unit": "10m", "knob": 0.1},
    "admission": {"slots": 3, "backlog": 10, "order": "qos"},
    "walltime": "kill",
}  # fmt: skip


def run_in(folder: Path, **changes) -> Path:
    scenario = Scenario.model_validate(SCENARIO | changes)
    trace = UniformModel.of(jobs=60, processors=8, offered_load=1.5, estimates="modal").generate(
        np.random.default_rng(0)
    )
    load = scenario.value.build(trace.workload, scenario.seed) if scenario.value else None
    carry_out(prepare(scenario, workload=load or trace.workload), folder)
    return folder


def messages(records: Records, folder: Path) -> set[str]:
    return {v.message for v in records.audit(folder).violations if v.check == "value"}


@pytest.fixture(scope="module")
def valued_run(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return Records.read(run_in(tmp_path_factory.mktemp("valued") / "run"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"value": {"qos": 0.5, "deadlines": {"type": "qos", "of": "actual"}},
         "cluster": {"processors": 8}},
        {"value": {"gpu": {"per": "processor", "amount": [1, 2]}},
         "cluster": {"machines": [{"processors": 8, "gpu": 16}]}},
        {"metrics": {"warmup": "1h", "cooldown": "1h"}},
    ],
)  # fmt: skip
def test_a_run_with_values_is_good(tmp_path, changes):
    audit = verify_run(run_in(tmp_path / "run", **changes))
    assert audit.ok, audit.violations
    assert "value" not in audit.not_applicable
    assert audit.not_audited.keys() <= {"trace", "admission", "schedule"}


def test_the_rule_is_not_about_plain_runs(tmp_path):
    folder = run_in(tmp_path / "run", value=None, cluster={"processors": 8})
    assert verify_run(folder).not_applicable["value"] == "jobs have no value"


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("qos", 0.0, "the QoS is not above 0 and at most 1"),
        ("qos", 0.512, "the QoS is not the one drawn from the seed"),
        ("value", -1.0, "the value is not finite and at least 0"),
        ("value", 9.5, "the value is not amounts * prices * run time * QoS"),
        ("deadline_s", 5.0, "the deadline is not that of the scenario"),
        ("deadline_s", None, "the deadline is not that of the scenario"),
        ("gpu", 4.5, "the GPUs are not those drawn from the seed"),
    ],
)
def test_a_changed_number_is_found(valued_run, tmp_path, column, value, expected):
    run, first = valued_run.copy(), pl.int_range(pl.len()) == 0
    new = pl.when(first).then(pl.lit(value)).otherwise(pl.col(column))
    run.tables["jobs"] = run.tables["jobs"].with_columns(**{column: new})
    assert expected in messages(run, tmp_path / "run")


def test_a_column_that_is_missing_is_found(valued_run, tmp_path):
    run = valued_run.copy()
    run.tables["jobs"] = run.tables["jobs"].drop("value")
    found = messages(run, tmp_path / "run")
    assert found == {"the scenario gives jobs a value, but the jobs have no column value"}


@pytest.mark.parametrize(
    ("metric", "number"),
    [
        ("job_value", "value"), ("job_value", "in_time"), ("value_ratio", "value"),
        ("completion_ratio", "value"), ("value_ratio", "by_last_submit"), ("qos_violations", "share"), ("qos_violations", "censored"),
        ("deadline_misses", "value"), ("delay_cost", "value"),
    ],
)  # fmt: skip
def test_a_changed_metric_is_found(valued_run, tmp_path, metric, number):
    run = valued_run.copy()
    run.metrics[metric][number] += 1
    found = [v.row for v in run.audit(tmp_path / "run").violations]
    assert [(row["metric"], row["number"]) for row in found] == [(metric, number)]
