"""What the tests of ready pools' learners share: a small scenario, and how an agent is followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import simulate
from simkit.learners.agent import load_agent
from simkit.learners.bundle import read_bundle
from simkit.learners.common.inference import plain_network
from simkit.learners.ready_pool.description import ReadyDescription
from simkit.scenario import Scenario

PLAIN: Final[dict[str, Any]] = {
    "workload": {"type": "rare", "jobs": 70, "offered_load": 1.2},
    "value": {}, "estimates": "actual", "scheduling": {"step": "1h"},
    "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
    "admission": {"slots": 8, "backlog": 144, "late": "leave"},
}  # fmt: skip
POWER: Final[dict[str, Any]] = {
    "machines": {"idle_w": 0, "full_w": 100},
    "sources": {"wind": {"signal": {
        "type": "levels", "high_w": 1000, "low_w": 600, "high_share": 0.8, "step": "1h",
    }}},
    "supply": {"limit": "power"},
    "forecast": {"type": "perfect", "horizon": "48h", "step": "1h"},
}  # fmt: skip


def ready_scenario(**changes: Any) -> Scenario:
    """Return a small pool in which late jobs leave, with some sections changed."""
    return Scenario.model_validate({**PLAIN, **changes})


def check_acts_as_in_lockstep(made: Any, where: Scenario, folder: Path) -> None:
    """Assert that a training's agent starts the same jobs in the simulation as in lock-step."""
    made.write_agent(folder, {})
    games = made.source.games([5])
    bundle = read_bundle(folder)
    network = plain_network(ReadyDescription.read(bundle.description).architecture, bundle.weights)
    while len(games.active):
        scores = network.logits(made.source.see(games))
        games.step(np.where(games.mask(), scores, -np.inf).argmax(axis=1))
    run = simulate(where.model_copy(update={"seed": 5}), policy=load_agent(folder, where))
    jobs = run.jobs.sort("job_id").with_columns(
        ((pl.col("start_time_s") - pl.col("submit_time_s").min()) / 3600).fill_null(-1).round()
    )
    until = int(games.hours[0])  # then the game was over
    early = [(hour if hour < until else -1) for hour in jobs["start_time_s"].cast(int).to_list()]
    mine = [(hour if hour < until else -1) for hour in games.start[0, : len(early)].tolist()]
    assert early == mine
