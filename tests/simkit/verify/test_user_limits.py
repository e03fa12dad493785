"""Users' limits in partitions: honest runs pass, and a user who exceeds a limit is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_records import Records, simulated

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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Records]:
    """A run in which three jobs of a user may run, and one in which four may wait."""
    folder = tmp_path_factory.mktemp("runs")
    parts = {"max_running_per_user": limited(3), "max_waiting_per_user": limited(waiting=4)}
    return {
        key: simulated(
            {"workload": LOAD, "cluster": {"processors": 128, "partitions": [part]},
             "policy": EASY}, folder / key)
        for key, part in parts.items()
    }  # fmt: skip


FORMS = ("run", "scenario", "portable")
CLAIMS = [
    # the limit, what is claimed instead, in which parts of run.json, rules that are violated
    ("max_running_per_user", 2, FORMS, {"user-limits", "schedule"}),
    ("max_running_per_user", 4, FORMS[:1], {"run-info"}),
    ("max_waiting_per_user", 2, FORMS, {"partitions"}),
    ("max_waiting_per_user", None, FORMS, {"rejections"}),
]


@pytest.mark.parametrize(("key", "limit", "forms", "rules"), CLAIMS)
def test_another_limit_than_that_of_the_run_is_found(
    key: str, limit: int | None, forms: tuple[str, ...], rules: set[str],
    runs: dict[str, Records], tmp_path: Path,
) -> None:  # fmt: skip
    run = runs[key].copy()
    info = {"run": run.info, "scenario": run.info["scenario"],
            "portable": run.info["portable_scenario"]}  # fmt: skip
    for form in forms:
        info[form]["cluster"]["partitions"][0][key] = limit
    assert rules <= set(run.audit(tmp_path / "run").found)


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
