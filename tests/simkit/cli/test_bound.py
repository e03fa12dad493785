"""The command `simkit bound`: its table, its JSON, and what it refuses."""

from __future__ import annotations

import json

import pytest

from simkit.analysis.time_bound import METRICS

SMALL = ("--set", "workload.window.jobs=0..59")


def test_all_metrics_that_have_a_bound_are_shown(simkit):
    answer = simkit("bound", "quickstart", *SMALL)
    assert answer.code == 0
    assert "60 jobs" in answer.out
    rows = [line.split()[0] for line in answer.out.splitlines()[3:]]
    assert rows == list(METRICS)
    told = json.loads(simkit("bound", "quickstart", *SMALL, "--json").out)
    assert (told["scenario"], told["jobs"]) == ("quickstart", 60)
    assert [bound["metric"] for bound in told["bounds"]] == list(METRICS)


def test_a_metric_may_be_chosen(simkit):
    answer = simkit("bound", "quickstart", *SMALL, "-m", "wait_time_s", "--json")
    (bound,) = json.loads(answer.out)["bounds"]
    assert bound["metric"] == "wait_time_s"
    assert bound["value"] >= 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("quickstart", "-m", "waits"), "did you mean 'wait_time_s'"),
        (("quikstart",), "no such file"),
        (("quickstart", "--set", "workload.windw=3"), "did you mean 'window'"),
        (("quickstart", "--set", "seed=1,2"), "seed"),
    ],
)
def test_what_cannot_be_bounded_is_refused_in_a_sentence(simkit, arguments, text):
    answer = simkit("bound", *arguments)
    assert answer.code == 2
    assert text in answer.out + answer.err
    assert "Traceback" not in answer.err
