"""Scenarios as small as learners take them, as plain sections; the golden results rest on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

POOL_OF_TEN = {"machines": [{"count": 1, "cpu": 10, "mem": 10}]}
DEEPRM: dict[str, Any] = {
    "workload": {"type": "deeprm", "offered_load": 0.9, "steps": 15}, "cluster": POOL_OF_TEN,
    "admission": {"slots": 10, "backlog": 60}, "estimates": "actual", "scheduling": {"step": "1s"},
}  # fmt: skip
CLASSES: dict[str, Any] = {
    "workload": {"type": "schedqrm", "jobs": 8}, "cluster": POOL_OF_TEN, "estimates": "actual",
    "scheduling": {"step": "1s"},
}  # fmt: skip
SOFIA: dict[str, Any] = DEEPRM | {
    "workload": {
        "type": "sofia", "positions": 12, "capacity": 10, "short_steps": [1, 2],
        "long_steps": [5, 8], "dominant": [4, 6], "other": [1, 2],
    },
    "admission": {"slots": 3},
}  # fmt: skip
READY: dict[str, Any] = {
    "workload": {"type": "rare", "jobs": 70, "offered_load": 1.2}, "value": {},
    "estimates": "actual", "scheduling": {"step": "1h"},
    "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
    "admission": {"slots": 8, "backlog": 144, "late": "leave"},
}  # fmt: skip
POOL: dict[str, Any] = {
    "workload": {"type": "lublin", "jobs": 600, "processors": 32}, "cluster": {"processors": 32},
}  # fmt: skip
TABLE: dict[str, Any] = {
    "workload": {"type": "tasks", "path": "jobs.csv", "submit": "last"},
    "cluster": {"machines": [{"count": 3, "cpu": 8, "mem": 1}]},
    "estimates": "actual",
}  # fmt: skip
WIND: dict[str, Any] = {
    "machines": {"idle_w": 0, "full_w": 100},
    "sources": {"wind": {"signal": {
        "type": "levels", "high_w": 1000, "low_w": 600, "high_share": 0.8, "step": "1h",
    }}},
    "supply": {"limit": "power"},
    "forecast": {"type": "perfect", "horizon": "48h", "step": "1h"},
}  # fmt: skip
"""Power for `READY` that does not always suffice."""


def table_of_jobs(path: Path) -> None:
    """Write a table of 60 jobs, each of three tasks, that keep three machines busy."""
    rng = np.random.default_rng(0)
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory"]
    for task in range(180):
        run, count = rng.choice([3.0, 8.5, 40.0]), rng.integers(1, 20)
        cpu, mem = rng.choice([0.5, 1.0, 2.0]), rng.choice([0.0625, 0.25])
        lines.append(f"{task // 3},{task},{7 * (task // 3)},{run},{count},{cpu},{mem}")
    path.write_text("\n".join([*lines, ""]))
