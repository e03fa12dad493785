"""What rests on the training of floats: weights after two iterations, tables of reproductions.

The last bits of floats depend on the processor, and a training turns them into another course, so
that none of this is pinned; `golden.py --base COMMIT` compares it between two commits.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from cases import Case
from small_scenarios import CLASSES, DEEPRM, POOL, READY, SOFIA, TABLE, table_of_jobs

import simkit
from simkit.plugins import names
from simkit.training.train import train

SETS = {"job_sets": 4, "rollouts": 3, "held_out_sets": 3}
GAMES = {
    "games": 6, "decisions": 8, "hours": 60, "held_out_sets": 4, "hidden": 8, "batch": 32,
}  # fmt: skip
RECALL = {"updates": 3, "replay": 300}
WINDOWS = {
    "candidates": 6, "job_sets": 3, "fewest_jobs": 30, "most_jobs": 60, "held_out_sets": 2,
    "least_slowdown": 1.5, "start": "fcfs", "held_out": 0.2,
}  # fmt: skip
DQN = {
    "job_sets": 12, "held_out_sets": 8, "hidden": 8, "batch": 16, "decisions_per_update": 16,
    "replay": 300,
}  # fmt: skip
HORIZON = {"horizon": 12, "backlog_shown": 12, "fisher_share": 0.5, "max_decisions": 300}

TRAININGS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "deeprm": (DEEPRM, SETS | {"hidden": 8}),
    "deeprm compact": (DEEPRM, SETS | {
        "hidden": 8, "observation": "deeprm-compact", "mask": "possible", "entropy": 0.01,
        "optimiser": "adam", "warm_start": 1,
    }),
    "ppo": (DEEPRM, SETS | {"hidden": 8, "batch": 64}),
    "ppo ahead": (SOFIA, SETS | {"hidden": 8, "batch": 64, "starts": "ahead"}),
    "actor-critic": (DEEPRM, SETS | {"hidden": 8, "batch": 32, "updates": 5, "replay": 300}),
    "evolution": (DEEPRM, {"job_sets": 4, "candidates": 4, "held_out_sets": 3, "hidden": 2}),
    "dqn": (CLASSES, DQN),
    "dqn now": (CLASSES, DQN | {"starts": "now", "prioritised": True, "duelling": False}),
    "dqn paper": (CLASSES, DQN | {
        "network": "perceptron", "mask": "none", "reading": "clock", "max_decisions": 60,
    }),
    "reinforce": (DEEPRM, SETS | {"hidden": 8}),
    "reinforce gradient": (SOFIA, SETS | {
        "hidden": 8, "update": "gradient", "starts": "ahead",
    }),
    "sofia natural": (SOFIA, SETS | HORIZON | {"update": "natural", "last_step": 10}),
    "sofia proximal": (SOFIA, SETS | HORIZON | {
        "update": "proximal", "batch": 64, "mask": "possible", "observation": "sofia-compact",
        "last_step": 10,
    }),
    "rare": (READY, GAMES | RECALL),
    "rare warm-up": (READY, GAMES | RECALL | {"warm_up": 1, "replay": 60}),
    "cocorl": (READY, GAMES | {"cost_limit": 1.0}),
    "cocorl rejects": (READY, GAMES | {"reject": True}),
    "offline": (READY, GAMES | RECALL),
    "rlscheduler": (POOL, WINDOWS | {"hidden": 2}),
    "rlscheduler backfill": (POOL, WINDOWS | {"backfill": "rlscheduler"}),
    "fitness": (TABLE, {"candidates": 4, "jobs": 5, "job_sets": 3, "hidden": 2}),
    "deepjs": (TABLE, {
        "jobs": 5, "repeats": 2, "rollouts": 3, "batch": 20, "held_out": 0.2,
    }),
}  # fmt: skip
"""Learner, and what tells a training apart → scenario and the learner's arguments."""
CRITERIA = {
    **dict.fromkeys(("rare", "cocorl", "offline"), "lost_value"),
    "fitness": "cost_ratio",
    "deepjs": "cost",
}
"""Learner → the held-out metric that it has instead of a slowdown."""


def scenario_of(name: str, folder: Path, iterations: int) -> simkit.Scenario:
    """Return the scenario of a training; its tables are written to the folder."""
    stated, arguments = TRAININGS[name]
    if stated is TABLE:
        table_of_jobs(folder / "jobs.csv")
        stated = TABLE | {"workload": TABLE["workload"] | {"path": str(folder / "jobs.csv")}}
    learn = {"learner": name.split()[0], "iterations": iterations, "arguments": arguments}
    learn["criterion"] = CRITERIA.get(learn["learner"], "slowdown")
    return simkit.Scenario.model_validate({**stated, "name": "golden", "seed": 1, "learn": learn})


def trained(name: str) -> dict[str, Any]:
    """Return a digest of the weights after two iterations, and of what was logged."""
    with tempfile.TemporaryDirectory() as place:
        done = train(scenario_of(name, Path(place), 2), Path(place) / "training")
        weights = (done.agent / "weights.safetensors").read_bytes()
        logged = [
            {key: value for key, value in row.items() if not key.endswith(("time_s", "per_s"))}
            for row in done.rows
        ]
    text = json.dumps(logged, sort_keys=True)
    return {
        "weights": sha256(weights).hexdigest()[:16],
        "logged": sha256(text.encode()).hexdigest()[:16],
    }


def reproduced(name: str) -> dict[str, str]:
    """Return a digest of each table that the small version of a reproduction writes."""
    with tempfile.TemporaryDirectory() as place:
        pages, work = Path(place) / "page", Path(place) / "work"
        call = ["simkit", "reproduce", name, "--quick", "--no-progress", "--workers", "2"]
        command = "from simkit.cli import main; main()"
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.argv[:] = sys.argv[1:]; {command}",
             *call, "--output", str(pages), "--work", str(work)],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return {
            str(path.relative_to(pages)): sha256(path.read_bytes()).hexdigest()[:16]
            for path in sorted(pages.rglob("*"))
            # facts, in .json, have wall times and the commit
            if path.suffix in (".csv", ".parquet") and not path.is_relative_to(work)
        }


LEARN = ("torch", "numba", "cma", "safetensors")
CASES: Mapping[str, Case] = {
    **{f"train {name}": Case(partial(trained, name), needs=LEARN) for name in TRAININGS},
    **{
        f"reproduce {name}": Case(partial(reproduced, name), needs_data=True, needs=LEARN)
        for name in names("simkit.reproductions")
    },
}
