"""`-` as SCENARIO: the scenario comes from standard input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from simkit.results.run_folder import open_run

LUBLIN = "workload: {type: lublin, jobs: 40, processors: 8, offered_load: 0.8}\n"


@pytest.fixture
def piped(simkit, monkeypatch):
    """Return a function of (text on standard input, arguments)."""

    def call(text, *arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return simkit(*arguments)

    return call


def test_run_takes_a_scenario_from_standard_input_and_keeps_it(piped):
    result = piped(f"{LUBLIN}policy: {{order: sjf}}\nseed: 5\n", "run", "-", "--seed", 7)
    assert (result.code, result.err) == (0, "")
    folder = Path(result.out.split("Run folder")[1].strip())
    assert folder.name.startswith("stdin-")
    kept = open_run(folder).info["scenario"]
    assert (kept["name"], kept["policy"]["order"], kept["seed"]) == ("stdin", "sjf", 7)
    assert kept["workload"]["jobs"] == 40
    assert piped("", "verify", folder).code == 0


def test_every_command_that_takes_a_scenario_takes_standard_input(piped):
    assert "<stdin> is a valid scenario" in piped(LUBLIN, "validate", "-").out
    assert json.loads(piped(LUBLIN, "show", "-", "--json").out)["workload"]["jobs"] == 40
    swept = f"{LUBLIN}sweep: {{seed: [0, 1]}}\n"
    assert len(json.loads(piped(swept, "sweep", "-", "-j", 1, "--json").out)["runs"]) == 2
    shown = piped("", "show", "deeprm").out
    judged = piped(shown, "evaluate", "-", "-p", "sjf", "--sets", 2, "-j", 1)
    assert (judged.code, judged.err) == (0, "")


def test_train_reads_standard_input(piped):
    result = piped(f"{LUBLIN}learn: {{learner: deprm}}\n", "train", "-")
    assert (result.code, "learn.learner: 'deprm' is not known" in result.err) == (2, True)


@pytest.mark.parametrize("command", ["run", "sweep", "validate", "show", "train", "evaluate"])
def test_errors_name_standard_input_and_the_line(command, piped):
    result = piped(f"{LUBLIN}policy: {{order: fcsf}}\n", command, "-")
    assert result.code == 2
    assert "<stdin>:2: policy.order: 'fcsf' is not known as an order" in result.err


def test_problems_found_after_reading_have_their_line(piped):
    text = f"{LUBLIN}\npolicy: {{order: {{type: multifactor, aeg: 1}}}}\n"
    for command in ("run", "validate"):
        assert "<stdin>:3: policy.order: " in piped(text, command, "-").err


def test_relative_paths_start_from_the_working_folder(piped, tmp_path):
    (tmp_path / "logs").mkdir()
    text = "workload: {type: jobs, path: logs/jobs.csv}\ncluster: {processors: 4}\n"
    missing = piped(text, "validate", "-")
    assert missing.code == 2
    assert f"<stdin>:1: workload.path: there is no file {tmp_path / 'logs' / 'jobs.csv'}" in (
        missing.err
    )
    (tmp_path / "logs" / "jobs.csv").write_text(
        "job_id,submit_time_s,run_time_s,processors\n1,0,5,2\n"
    )
    assert piped(text, "run", "-").code == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "<stdin>: is empty; write at least `workload:`"),
        ("a: [", "<stdin>:1: "),
        ("\0", "<stdin>: is not text"),
    ],
)
def test_what_is_no_scenario_is_told(text, problem, piped):
    result = piped(text, "run", "-")
    assert result.code == 2
    assert problem in result.err


def test_closed_standard_input_is_told(simkit, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    result = simkit("validate", "-")
    assert result.code == 2
    assert result.err == ("<stdin>: standard input is closed; pipe a scenario in, or name a file\n")
