"""Users' limits in partitions: honest runs pass, and a user who exceeds a limit is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.engine import admission
from simkit.verify import verify_run

LOAD = {"type": "lublin", "jobs": 600, "processors": 128, "estimates": "modal", "users": 12}
EASY = {"order": "fcfs", "backfill": "easy"}
SLOTS = {"admission": {"slots": 3, "backlog": 10}, "scheduling": {"step": "60s"}}


def limited(running: int | None = None, waiting: int | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "all", "max_running_per_user": running, "max_waiting_per_user": waiting} | more


RUNS = [
    # partitions, further keys
    ([limited(2)], {"policy": EASY}),
    ([limited(1, max_time="1h"), limited(2, name="long")], {"policy": EASY | {"order": "sjf"}}),
    ([limited(waiting=2), limited(name="rest")], {"policy": EASY}),
    ([limited(3, 2)], {"policy": {"order": "wfp3", "backfill": "conservative"}}),
    ([limited(3, 4)], {"policy": EASY} | SLOTS),
]


@pytest.mark.parametrize(("partitions", "keys"), RUNS)
def test_the_schedule_of_limited_users_is_that_of_the_second_implementation(
    partitions: list[dict[str, Any]], keys: dict[str, Any], tmp_path: Path
) -> None:
    cluster = {"processors": 128, "partitions": partitions}
    simkit.simulate({"workload": LOAD, "cluster": cluster} | keys, output=tmp_path / "run")
    audit = verify_run(tmp_path / "run")
    assert audit.found == {}
    left_out = {check.name: check.skipped for check in audit.checks}
    assert left_out["schedule"] == left_out["partitions"] == left_out["rejections"] == ""


def claim(folder: Path, key: str, limit: int | None) -> set[str]:
    """Say that the run had another limit; return the violated rules."""
    info = json.loads((folder / "run.json").read_text())
    for form in (info, info["scenario"], info["portable_scenario"]):
        form["cluster"]["partitions"][0][key] = limit
    (folder / "run.json").write_text(json.dumps(info))
    return set(verify_run(folder).found)


def test_a_user_who_exceeds_the_limit_is_found(tmp_path: Path) -> None:
    cluster = {"processors": 128, "partitions": [limited(3)]}
    run = {"workload": LOAD, "cluster": cluster, "policy": EASY}
    simkit.simulate(run, output=tmp_path / "run")
    found = claim(tmp_path / "run", "max_running_per_user", 2)
    assert {"user-limits", "schedule"} <= found


MACHINES = {"machines": [{"name": "m", "count": 4, "processors": 32}]}
STRICT = [
    # the limit, cluster, policy, violated rules
    (limited(3), {"processors": 128}, EASY, {"schedule", "user-limits"}),
    (limited(3), {"processors": 128}, {"order": "sjf"}, {"schedule", "user-limits"}),
    (limited(3), MACHINES, EASY, {"user-limits"}),
    (limited(waiting=3), {"processors": 128}, EASY, {"partitions", "rejections"}),
]


@pytest.mark.parametrize(("partition", "cluster", "policy", "rules"), STRICT)
def test_a_limit_that_is_enforced_too_strictly_is_found(
    partition: dict[str, Any], cluster: dict[str, Any], policy: dict[str, Any], rules: set[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The engine takes each limit for one less than it is."""
    honest = admission.UserLimits.of

    def stricter(partitions: Any, admit: Any) -> Any:
        less = [
            replace(
                each,
                max_running_per_user=each.max_running_per_user - 1,
                max_waiting_per_user=each.max_waiting_per_user - 1,
            )
            for each in partitions
        ]
        return honest(less, admit)

    cluster = cluster | {"partitions": [partition, limited(name="rest")]}
    if partition["max_waiting_per_user"]:
        del cluster["partitions"][1]
    scenario = {"workload": LOAD, "cluster": cluster, "policy": policy}
    simkit.simulate(scenario, output=tmp_path / "honest")
    assert verify_run(tmp_path / "honest").found == {}
    monkeypatch.setattr(admission.UserLimits, "of", stricter)
    simkit.simulate(scenario, output=tmp_path / "run")
    assert rules <= set(verify_run(tmp_path / "run").found)


def test_run_json_must_have_the_scenarios_limits(tmp_path: Path) -> None:
    cluster = {"processors": 128, "partitions": [limited(3)]}
    simkit.simulate({"workload": LOAD, "cluster": cluster}, output=tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    info = json.loads(file.read_text())
    info["cluster"]["partitions"][0]["max_running_per_user"] = 4
    file.write_text(json.dumps(info))
    assert "run-info" in verify_run(tmp_path / "run").found


def test_a_job_that_was_admitted_although_too_many_wait_is_found(tmp_path: Path) -> None:
    cluster = {"processors": 128, "partitions": [limited(waiting=4)]}
    run = {"workload": LOAD, "cluster": cluster, "policy": EASY}
    simkit.simulate(run, output=tmp_path / "run")
    assert "partitions" in claim(tmp_path / "run", "max_waiting_per_user", 2)
    assert "rejections" in claim(tmp_path / "run", "max_waiting_per_user", None)
