"""`simkit run --switch-policy` and `--fork`: what they say, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SCENARIO = """
workload: {type: swf, path: "sample:lublin_1000", window: {jobs: 200}}
policy: fcfs+easy
"""


@pytest.fixture
def run(simkit):
    """Return what runs commands where the run ``base`` of ``s.yaml`` is."""
    Path("s.yaml").write_text(SCENARIO)
    assert simkit("run", "s.yaml", "-o", "base").code == 0
    return simkit


def digest(folder):
    found: str = json.loads(Path(folder, "run.json").read_text())["digest"]
    return found


def test_a_fork_is_a_switch_of_a_run_that_is_there(run):
    forked = run("run", "--fork", "base", "--at", "1d", "--set", "policy.order=sjf", "-o", "fork")
    assert forked.code == 0
    assert "Policy      fcfs+easy,1d:sjf+easy," in forked.out
    assert run("run", "s.yaml", "--switch-policy", "1d:sjf+easy", "-o", "switched").code == 0
    assert digest("fork") == digest("switched") != digest("base")
    shown = run("show", "s.yaml", "--switch-policy", "1d:sjf+easy", "--json")
    assert json.loads(shown.out)["policy"]["switch"][0]["at"] == 86_400
    assert "fcfs + easy, sjf + easy from 1d" in run("compare", "base", "fork").out
    assert run("verify", "fork").code == 0


def test_a_fork_to_the_same_policy_is_the_same_run_and_says_so(run):
    again = run("run", "--fork", "base", "--at", "1d", "-o", "fork")
    assert again.code == 0
    assert "has the policy of base, so that the run will be the same" in again.err
    assert digest("fork") == digest("base")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "SCENARIO is missing"),
        (("--fork", "base"), "add --at TIME"),
        (("s.yaml", "--at", "1d"), "add --fork RUN"),
        (("s.yaml", "--fork", "base", "--at", "1d"), "leave SCENARIO out"),
        (("--fork", "nowhere", "--at", "1d"), "no such run folder"),
        (("--fork", "base", "--at", "soon"), "--at: 'soon' is neither a duration"),
        (("s.yaml", "--switch-policy", "sjf"), "begins with no time"),
    ],
)
def test_what_no_future_can_be_made_of_is_refused(run, words, text):
    answer = run("run", *words)
    assert answer.code == 2
    assert text in answer.err


def test_the_screen_counts_what_could_not_start_as_recorded(run):
    Path("jobs.csv").write_text(
        "job_id,submit_time_s,run_time_s,processors,start_time_s\n"
        "1,0,100,4,0\n2,10,50,4,60\n3,20,50,2,\n"
    )
    Path("t.yaml").write_text(
        "workload: {type: jobs, path: jobs.csv}\ncluster: {processors: 4}\npolicy: recorded\n"
    )
    lines = run("run", "t.yaml", "-o", "t").out.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("Recorded"))
    assert lines[begin : begin + 4] == [
        "Recorded    1 of 2 starts as the log has them",
        "            1 later, as soon as they fitted: by 40 s on average, 40 s at most",
        "              1: no room at its recorded start",
        "            1 job whose start the log does not tell",
    ]
