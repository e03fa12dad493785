"""The auditor's check of a scenario's limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_records import Records, simulated

FAILING = {"machines": [{"count": 16, "processors": 1}],
           "failures": {"mtbf": "1d", "mttr": "1h"}}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Records:
    workload = {"type": "lublin", "jobs": 60, "processors": 16}
    folder = tmp_path_factory.mktemp("run") / "run"
    return simulated({"workload": workload, "cluster": FAILING}, folder)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({}, None),
        ({"retries": 0}, "attempt after more than 0 retries"),
        ({"simulated_time": 1000.0}, "after the end of the simulated time"),
        ({"retries": None, "simulated_time": None}, None),
    ],
)
def test_a_run_beyond_its_limits_is_found(
    limits: dict[str, Any], told: str | None, run: Records, tmp_path: Path
) -> None:
    run = run.copy()
    run.info["scenario"]["limits"] |= limits
    audit = run.audit(tmp_path / "run")
    found = {violation.message for violation in audit.violations if violation.check == "limits"}
    assert found == ({told} if told else set())
    assert ("limits" in audit.not_applicable) == (None in limits.values())
