"""Jobs without a time limit in environments: observations are finite, episodes come to their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.agent.encoder import squashed, squashed_column

gymnasium = pytest.importorskip("gymnasium")

JOBS = "job_id,submit_time_s,run_time_s,processors,requested_time_s\n"
ROWS = "1,0,500,4,unlimited\n2,1,400,4,300\n3,2,300,6,inf\n4,3,200,2,600\n5,4,100,8,\n6,5,50,1,INFINITE\n"

SETTINGS: dict[str, dict[str, Any]] = {
    "queue-table": {"observation": "queue-table"},
    "queue-set": {"observation": "queue-set"},
    "next-head": {"observation": "queue-set", "actions": "next-head"},
    "machine-set": {"observation": "machine-set"},
    "resource-time": {"observation": "resource-time"},
}


def test_an_endless_time_is_shown_as_one() -> None:
    assert squashed(np.inf, 60.0) == 1.0
    assert squashed_column(np.array([-1.0, 60.0, np.inf]), 60.0).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("name", SETTINGS)
def test_observations_are_finite(name: str, tmp_path: Path) -> None:
    from simkit.env import SchedulingEnv

    (tmp_path / "jobs.csv").write_text(JOBS + ROWS)
    scenario = {
        "workload": {"type": "jobs", "path": str(tmp_path / "jobs.csv")},
        "cluster": {"processors": 8},
    }
    env = SchedulingEnv(scenario, **SETTINGS[name])
    observation, info = env.reset(seed=0)
    for _ in range(1000):
        assert env.observation_space.contains(observation)
        assert np.isfinite(observation).all()
        chosen = int(np.flatnonzero(info["action_mask"])[0]) if "action_mask" in info else 0
        observation, reward, ended, truncated, info = env.step(chosen)
        assert np.isfinite(reward)
        if ended or truncated:
            break
    assert ended
