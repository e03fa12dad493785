"""A scenario from a stranger may name code; without leave to do so it is refused, and none runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.cli import main
from simkit.errors import ScenarioError
from simkit.experiment.api import simulate
from simkit.experiment.sweep import run_sweep
from simkit.scenario.yaml_document import load_scenario

WORKLOAD = "workload: {type: lublin, jobs: 5, processors: 8}\n"
LEARN = "learn: {learner: deeprm}\n"
TRAINED = LEARN.replace("deeprm", "'mine.py:Mine'")

NAMED = [
    # scenario, the line and key that name code
    (WORKLOAD + "policy: {path: 'mine.py:Mine'}\n", "2: policy.path"),
    (WORKLOAD + "policy: {name: 'os:system', args: {command: 'touch ran'}}\n", "2: policy.name"),
    (WORKLOAD + "policy: {model: mine.py, algorithm: 'os:system'}\n", "2: policy.algorithm"),
    (WORKLOAD + "policy: {order: 'mine.py:Mine'}\n", "2: policy.order"),
    (WORKLOAD + "policy:\n  backfill: {type: 'mine.py:Mine', depth: 1}\n", "3: policy.backfill.type"),
    (WORKLOAD + "policy: {placement: 'mine.py:Mine'}\n", "2: policy.placement"),
    (WORKLOAD + "policy: {fitness: 'mine.py:Mine'}\n", "2: policy.fitness"),
    (WORKLOAD + "estimates: 'mine.py:Mine'\n", "2: estimates"),
    (WORKLOAD + "processes: [{path: 'mine.py:Mine'}]\n", "2: processes.0.path"),
    ("workload: {type: plugin, reader: 'mine.py:Mine'}\n", "1: workload.reader"),
    (
        WORKLOAD + "power:\n  machines: {idle_w: 1, full_w: 2}\n"
        "  sources: {sun: {signal: {type: plugin, reader: 'mine.py:Mine'}}}\n",
        "4: power.sources.sun.signal.reader",
    ),
    (
        WORKLOAD + "power:\n  machines: {idle_w: 1, full_w: 2}\n  grid: {}\n"
        "  controller: {type: 'mine.py:Mine'}\n",
        "5: power.controller.type",
    ),
    (WORKLOAD + TRAINED, "2: learn.learner"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of code in the working folder, which leaves a file when it runs."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("open('ran', 'w').close()\nclass Mine: pass\n")
    return tmp_path / "ran"


def write(text: str) -> str:
    Path("s.yaml").write_text(text)
    return "s.yaml"


@pytest.mark.parametrize(("text", "where"), NAMED)
def test_a_scenario_that_names_code_is_refused_at_its_key(
    text: str, where: str, code: Path
) -> None:
    with pytest.raises(ScenarioError) as refused:
        load_scenario(write(text), allow_code=False)
    (problem,) = refused.value.problems
    assert problem.startswith(f"s.yaml:{where}: '")
    assert "is code, which would run; read it, and leave --no-code out" in problem
    assert not code.exists()


def test_names_of_installed_plugins_are_no_code() -> None:
    text = WORKLOAD + LEARN + "policy: {order: sjf, backfill: easy}\nestimates: user-mean\n"
    assert load_scenario(write(text), allow_code=False) == load_scenario("s.yaml")


def test_code_in_a_sweep_and_in_overrides_is_refused(code: Path) -> None:
    swept = write(WORKLOAD + "sweep: {policy.order: [fcfs, 'mine.py:Mine']}\n")
    with pytest.raises(ScenarioError, match=r"s.yaml:2: sweep.policy.order.1: 'mine.py:Mine' is c"):
        run_sweep(swept, "out", allow_code=False)
    with pytest.raises(ScenarioError, match=r"override: policy.path: '.*mine.py:Mine' is code"):
        simulate(write(WORKLOAD), overrides={"policy": {"path": "mine.py:Mine"}}, allow_code=False)
    assert not code.exists()


@pytest.mark.parametrize("command", ["run", "validate", "show", "sweep", "train", "evaluate"])
def test_every_command_that_reads_a_scenario_can_refuse_code(
    command: str, code: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(WORKLOAD + LEARN + "policy: {path: 'mine.py:Mine'}\n")
    monkeypatch.setattr("sys.argv", ["simkit", command, path, "--no-code"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "s.yaml:3: policy.path: 'mine.py:Mine' is code" in capsys.readouterr().err
    assert not code.exists()


def test_without_the_option_validate_runs_the_code(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why the option is there: a look at a scenario is enough."""
    path = write(WORKLOAD + "policy: {path: 'mine.py:Mine'}\n")
    monkeypatch.setattr("sys.argv", ["simkit", "validate", path])
    with pytest.raises(SystemExit):
        main()
    assert code.exists()


def test_the_python_api_takes_the_argument_for_mappings(code: Path) -> None:
    scenario: dict[str, Any] = {
        "workload": {"type": "lublin", "jobs": 5, "processors": 8},
        "policy": {"path": "mine.py:Mine"},
    }
    with pytest.raises(ScenarioError, match=r"policy.path: 'mine.py:Mine' is code"):
        simulate(scenario, allow_code=False)
    assert not code.exists()
