"""The command `simkit calibrate`: its table, its files, and what it refuses."""

from __future__ import annotations

import json

import pytest

import simkit as kit
from simkit.analysis.export import export_swf
from simkit.scenario.yaml_document import load_scenario

pytestmark = pytest.mark.filterwarnings("ignore::simkit.errors.SimkitWarning")


def test_the_command_writes_a_scenario_that_runs(simkit, tmp_path):
    made = kit.simulate(
        {
            "workload": {"type": "lublin", "jobs": 500, "processors": 64, "offered_load": 0.9},
            "cluster": {"processors": 64},
            "policy": "fcfs+easy",
        },
        output=tmp_path / "made",
    )
    log = "site.swf"
    export_swf(made, log)
    options = ("--week", "1d", "--warmup", "1d", "--weeks", "2", "-j", "1")
    answer = simkit("calibrate", log, *options, "-o", "best.yaml", "--csv", "table.csv")
    assert "Best        fcfs+easy: explains 100.0% of the waits" in answer.out
    assert "Impossible  nothing" in answer.out
    assert (tmp_path / "table.csv").read_text().count("\n") == answer.out.count("%  ") // 2 + 1
    assert load_scenario("best.yaml").policy.backfill.type == "easy"  # type: ignore[union-attr]
    as_json = json.loads(simkit("calibrate", "best.yaml", *options, "--json").out)
    assert as_json["best"] == "fcfs+easy"
    for wrong, text in (
        (("nowhere.swf",), "no such"),
        ((log, "--week", "x"), "--week"),
        ((log, "--week", "1s"), "too short"),
        ((log, "-o", "best.yaml"), "is there already"),
        ((log, "-o", log), "is the log itself"),
        ((log, "--set", "cluster.procesors=3"), "did you mean 'processors'"),
        ((log, "--week", "500d"), "give a shorter --week"),
        ((log, "--format", "nope"), "is not a format"),
    ):
        answer = simkit("calibrate", *wrong)
        assert answer.code in (2, 3), wrong
        assert text in answer.err, (wrong, answer.err)
