"""The digest covers the scenario: its portable form is the same in every folder, and is audited."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.errors import RunError
from simkit.scenario import Scenario, portable_form
from simkit.scenario.bundled import sample_path
from simkit.verify import verify_run


def run_in(folder: Path, log: str = "log.swf.gz", **changes: Any) -> Any:
    """A run of a copy of a sample log, the scenario beside it."""
    folder.mkdir()
    shutil.copy(sample_path("lublin_1000"), folder / log)
    scenario = {
        "workload": {"type": "swf", "path": str(folder / log), "window": {"jobs": 60}},
        "policy": {"order": "fcfs", "backfill": "easy"},
    }
    return simkit.simulate(scenario | changes, output=folder / "run")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(run_in(tmp_path_factory.mktemp("honest") / "a").folder)


def test_the_digest_is_the_same_in_another_folder_and_under_another_name(
    honest: Path, tmp_path: Path
) -> None:
    here = simkit.open_run(honest)
    there = run_in(tmp_path / "b", "other.gz", name="other", metrics={"tau": "10s"})
    assert there.info["scenario_sha256"] != here.info["scenario_sha256"]
    assert there.digest == here.digest


@pytest.mark.parametrize(
    "changes", [{"metrics": {"tau": 11}}, {"seed": 1}, {"policy": {"order": "fcfs"}}]
)
def test_another_scenario_has_another_digest(
    honest: Path, changes: dict[str, Any], tmp_path: Path
) -> None:
    assert run_in(tmp_path / "b", **changes).digest != simkit.open_run(honest).digest


def test_inputs_stand_by_their_content(tmp_path: Path) -> None:
    inputs = {"/d/log.swf": "a1", "/d/mine.py": "b2", "/f/x/1.csv": "c3", "/g/2.csv": "d4"}
    scenario = Scenario.model_validate({
        "name": "here", "seed": 0, "workload": {"type": "swf", "path": "/d/log.swf"},
        "policy": {"path": "/d/mine.py:Mine", "args": {"weights": "/f", "seed": 0}},
        "admission": {"refill": "at_once"},
    })  # fmt: skip
    folder = hashlib.sha256(b"x/1.csv c3\n").hexdigest()
    assert portable_form(scenario, inputs) == {
        "workload": {"type": "swf", "path": "sha256:a1"},
        "policy": {"path": "sha256:b2:Mine", "args": {"weights": f"sha256:{folder}", "seed": 0}},
        "estimates": "requested",
        "inputs": ["d4"],
    }


EDITS: list[Callable[[dict[str, Any]], Any]] = [
    # an edit of one form of the scenario in run.json
    lambda info: info["scenario"]["workload"]["window"].update(jobs="0..58"),
    lambda info: info["scenario"]["workload"].update(path="/else.swf"),
    lambda info: info["portable_scenario"].update(seed=1),
    lambda info: info["portable_scenario"].update(hurry=True),
    lambda info: info["portable_scenario"].update(inputs=["00"]),
]


def edited(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> Path:
    """Edit run.json and nothing else."""
    info = json.loads((folder / "run.json").read_text())
    edit(info)
    (folder / "run.json").write_text(json.dumps(info))
    return folder


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_scenario_is_found(
    edit: Callable[[dict[str, Any]], Any], honest: Path, tmp_path: Path
) -> None:
    audit = verify_run(edited(shutil.copytree(honest, tmp_path / "run"), edit))
    messages = {v.message for v in audit.violations if v.check == "scenario"}
    assert "the portable form is not that of the scenario" in messages


INVALID: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda info: info["scenario"].update(admission=7), "scenario.admission"),
    (lambda info: info["scenario"].update(hurry=True), "scenario.hurry"),
    (lambda info: info["scenario"]["workload"].update(load=-1), "scenario.workload.load"),
    (lambda info: info["scenario"]["workload"].update(type="os:system"), "scenario.workload.type"),
    (lambda info: info["scenario"].update(workload={"type": "gone"}), "scenario.workload.type"),
    (lambda info: info["scenario"]["cluster"].update(processors="8"), "scenario.cluster.processors"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "place"), INVALID)
def test_a_scenario_that_simkit_does_not_accept_is_refused(
    edit: Callable[[dict[str, Any]], Any], place: str, honest: Path, tmp_path: Path
) -> None:
    folder = edited(shutil.copytree(honest, tmp_path / "run"), edit)
    with pytest.raises(RunError, match=rf"run.json: {place} "):
        verify_run(folder)


def test_code_that_a_scenario_names_does_not_run(honest: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(honest, tmp_path / "run")
    (tmp_path / "evil.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
    )
    code = f"{tmp_path}/evil.py:Evil"
    evil = {
        "policy": {"path": code, "args": {}}, "processes": [{"path": code, "args": {}}],
        "workload": {"type": "plugin", "reader": code}, "estimates": {"type": code},
    }  # fmt: skip
    assert verify_run(edited(folder, lambda info: info["scenario"].update(evil))).found
    assert not (tmp_path / "evil.ran").exists()


def test_a_cluster_from_python_takes_the_place_of_the_scenarios(tmp_path: Path) -> None:
    scenario = {"workload": {"type": "uniform", "jobs": 5, "processors": 2, "offered_load": 0.5},
                "cluster": {"processors": 8}}  # fmt: skip
    pool = simkit.Cluster.pool({"processors": 4})
    run = simkit.simulate(scenario, cluster=pool, output=tmp_path / "run")
    assert run.info["scenario"]["cluster"]["processors"] is None
    assert verify_run(tmp_path / "run").ok


NAMES: list[Callable[[dict[str, Any]], Any]] = [
    lambda info: info["estimates"].update(name="requested"),
    lambda info: info["estimates"].update(told_run_time=0),
    lambda info: info.update(warnings=[]),
]


@pytest.mark.parametrize("edit", NAMES)
def test_what_run_json_calls_the_estimates_is_judged(
    edit: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("job_id,submit_time_s,run_time_s,processors\n1,0,5,1\n2,1,5,2\n")
    scenario = {"workload": {"type": "jobs", "path": str(table)}, "cluster": {"processors": 2},
                "policy": {"backfill": "easy"}}  # fmt: skip
    folder = tmp_path / "run"
    run = simkit.simulate(scenario, output=folder)
    assert run.info["estimates"]["name"] == "run times (no requests)"
    assert verify_run(folder, inputs=[tmp_path]).ok
    assert verify_run(edited(folder, edit), inputs=[tmp_path]).found.keys() == {"run-info"}
