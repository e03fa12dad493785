"""The auditor's check of a scenario's limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simkit.experiment.api import simulate
from simkit.verify import verify_run


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({}, None),
        ({"retries": 0}, "attempt after more than 0 retries"),
        ({"simulated_time": 1000.0}, "after the end of the simulated time"),
        (None, None),
    ],
)
def test_a_run_beyond_its_limits_is_found(
    tmp_path: Path, limits: dict[str, Any] | None, told: str | None
) -> None:
    simulate(
        {
            "workload": {"type": "lublin", "jobs": 60, "processors": 16},
            "cluster": {
                "machines": [{"count": 16, "processors": 1}],
                "failures": {"mtbf": "1d", "mttr": "1h"},
            },
        },
        output=tmp_path / "run",
    )
    path = tmp_path / "run" / "run.json"
    info = json.loads(path.read_text())
    nothing = dict.fromkeys(info["scenario"]["limits"])
    info["scenario"]["limits"] = (
        nothing | (limits or {}) if limits != {} else info["scenario"]["limits"]
    )
    path.write_text(json.dumps(info))
    audit = verify_run(tmp_path / "run")
    found = {violation.message for violation in audit.violations if violation.check == "limits"}
    assert found == ({told} if told else set())
    assert ("limits" in audit.not_applicable) == (limits is None)
