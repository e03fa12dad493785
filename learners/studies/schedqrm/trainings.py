"""The job sets, the trainings and the ablation of the comparison with SchedQRM.

"SchedQRM" (CCIT 2019) trains a deep Q-network on job sets of 1 to 20 jobs, and compares it at loads
of 10 to 200 % with SJF, Packer, Tetris and DeepRM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import or_
from typing import Any, Final

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.arrays import stream
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.studies.trainings import KeptTraining
from simkit.scenario import Scenario
from simkit.traces.models.deeprm import SchedQRMModel
from simkit.training import Workplace

CLASSES: Final = 10
LOADS: Final = tuple(range(10, 201, 10))
"""Jobs in a set over the number of classes, in percent: 1 to 20 jobs."""
TRAINED_LOADS: Final = tuple(load / 100 for load in LOADS[1::2])
"""Loads of the job sets in a training, mixed: 20, 40, … 200 %."""
HIGH_LOADS_TWICE: Final = (*TRAINED_LOADS, *TRAINED_LOADS[6:])
"""From 140 % on every load twice: states with many jobs are rare, and values are least known there.
"""
MODEL: Final = Slotted(
    capacity=(10, 10), slots=CLASSES, horizon=201, max_length=CLASSES, backlog=None,
    backlog_shown=10,
)  # fmt: skip
"""The pool; its horizon has room for all jobs one after another."""


@dataclass(frozen=True)
class SchedQRMSetting:
    """How much to train and to test in scheduling."""

    seeds: int
    """Trainings of each kind."""
    iterations: int
    """Iterations of a training."""
    job_sets: int
    """Job sets in an iteration of the deep Q-network, with about seven decisions each."""
    judged: int
    """Test job sets at each load."""
    kinds: tuple[str, ...]
    """Kinds of training, from `KINDS`."""
    online_sets: int
    """How many of DeepRM's unseen job sets to play, for jobs that arrive."""


PAPER: Final[dict[str, Any]] = {
    "network": "perceptron", "hidden": 20, "mask": "none", "shaping": False, "duelling": False,
    "double": False, "steps": 1, "replay": 2000, "batch": 32, "decisions_per_update": 5,
    "target_every": 200, "learning_rate": 0.01, "falls": False, "optimiser": "rmsprop",
    "explore": 0.1, "explore_end": 0.1, "per_job": False, "max_decisions": 40,
}  # fmt: skip
"""The paper's numbers, and usual ones where it gives none: batches of 32, an update every five
decisions, and the target network copied after 200 updates: the paper's 1,000 steps. An episode ends
after twice as many decisions as the largest job set needs."""
SUITED: Final[dict[str, Any]] = {
    "replay": 50_000, "batch": 256, "decisions_per_update": 16, "target_every": 400,
    "learning_rate": 0.002, "falls": True, "optimiser": "adam", "explore": 0.1,
    "explore_end": 0.02, "hidden": 64, "max_decisions": 1000,
}  # fmt: skip
"""Numbers that suit the algorithm better."""
_STEPS: Final[Mapping[str, dict[str, Any]]] = {
    "paper": PAPER,
    "+ mask": {"mask": "possible"},
    "+ numbers": SUITED,
    "+ shaping": {"shaping": True},
    "+ scorer": {"network": "scorer"},
    "+ errors per job": {"per_job": True},
    "+ n-step": {"steps": 6},
    "+ double, duelling": {"double": True, "duelling": True},
    "+ high loads twice": {"loads": HIGH_LOADS_TWICE},
}
"""Name → change: the steps from the paper's formulation to simkit's."""


LADDER: Final = dict(zip(_STEPS, accumulate(_STEPS.values(), or_), strict=True))
"""Kind of training → arguments of the learner `dqn`, each step with all before it."""
*_, ALL_PARTS, WHOLE = _STEPS
"""The step in which the ablation changes one thing, also the one for jobs that arrive; and the last
one."""
WITHOUT: Final[Mapping[str, Mapping[str, Any]]] = {
    "whole, no shaping": {"shaping": False},
    "whole, perceptron": {"network": "perceptron"},
    "whole, errors as they are": {"per_job": False},
    "whole, one step": {"steps": 1},
    "whole, prioritised": {"prioritised": True},
    "whole, reading B of c": {"shaping": False, "reading": "clock"},
    "whole, reading C of c": {"shaping": False, "reading": "decisions"},
}
"""Kind → what differs from `ALL_PARTS`."""
PPO: Final = "PPO"
PPO_ROLLOUTS: Final = 8
"""Episodes that PPO plays of each job set."""
KINDS: Final = (*LADDER, *WITHOUT, PPO)
FULL: Final = SchedQRMSetting(3, 120, 360, 300, KINDS, 100)
QUICK: Final = SchedQRMSetting(1, 10, 120, 30, ("paper", "+ mask", WHOLE, PPO), 5)


ONLINE_DQN: Final[Mapping[str, Any]] = {
    "per_job": False, "decisions_per_update": 32, "target_every": 200
}  # fmt: skip
"""Numbers that suit jobs that arrive: waiting jobs do not tell which ones will come. There are more
decisions, so half as many updates for each keep the training as long."""
ONLINE_PPO: Final[Mapping[str, Any]] = {"decay": 1.0, "entropy": 0.02}
"""As for the agent of numbered slots: the gain from waiting comes late."""


def learner_of(
    kind: str, setting: SchedQRMSetting, *, arriving: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the learner of a kind of training, and its arguments."""
    loads, starts = (ONLINE_LOADS, "now") if arriving else (TRAINED_LOADS, "ahead")
    sets = setting.job_sets // (4 if arriving else 1)  # there are more jobs in each
    sets = max(sets, 2 * len(loads))
    if kind == PPO:  # which plays as many episodes in all
        return "ppo", {
            "layout": "classes", "loads": list(loads), "starts": starts,
            "job_sets": max(sets // PPO_ROLLOUTS, 3 * len(loads)), "rollouts": PPO_ROLLOUTS,
            "batch": 1024, **(ONLINE_PPO if arriving else {}),
        }  # fmt: skip
    arguments = {**LADDER[ALL_PARTS], **WITHOUT.get(kind, {}), **LADDER.get(kind, {})}
    arguments |= ONLINE_DQN if arriving else {}
    mixed = arguments.pop("loads", loads)
    sets = round(sets * _jobs_a_set(loads) / _jobs_a_set(mixed))  # as many decisions
    return "dqn", {**arguments, "loads": list(mixed), "starts": starts, "job_sets": sets}


def _jobs_a_set(loads: Sequence[float]) -> float:
    """Return the mean jobs in a set if all loads have equally many jobs: a harmonic mean."""
    return CLASSES * len(loads) / sum(1 / load for load in loads)


POOL: Final[Mapping[str, Any]] = {
    "cluster": {"machines": [{"count": 1, "cpu": 10, "mem": 10}]},
    "estimates": "actual",
    "scheduling": {"step": "1s"},
}
ONLINE_LOADS: Final = (0.3, 0.7, 1.1, 1.5)
"""Offered loads of DeepRM's workload."""


Trainings = Mapping[tuple[str, int], KeptTraining]
"""Kind and seed → the training."""


def trainings(place: Workplace, setting: SchedQRMSetting, *, arriving: bool = False) -> Trainings:
    """Return the trainings on job sets that are all there at once, or on jobs that arrive."""
    kinds = (ALL_PARTS, PPO) if arriving else setting.kinds
    return {
        (kind, seed): KeptTraining(place, _scenario(kind, seed, setting, arriving=arriving))
        for seed in range(setting.seeds)
        for kind in kinds
    }


def _scenario(kind: str, seed: int, setting: SchedQRMSetting, *, arriving: bool) -> Scenario:
    learner, arguments = learner_of(kind, setting, arriving=arriving)
    words = "".join(c if c.isalnum() else "-" for c in kind.lower()).split("-")
    where = "-online" if arriving else ""
    return Scenario.model_validate({
        "name": f"{'-'.join(filter(None, words))}{where}-seed{seed}", "seed": seed,
        "workload": {"type": "deeprm", "offered_load": 0.7} if arriving else {"type": "schedqrm"},
        **POOL,
        "learn": {"learner": learner, "iterations": setting.iterations, "arguments": arguments},
    })  # fmt: skip


JUDGED: Final = "reproduce.schedqrm.final"
"""Name of the test job sets; the settings were chosen on others."""
FIRST_UNSEEN: Final = 100
"""The first of DeepRM's unseen job sets for tests; settings were chosen on those before it."""


def judged_sets(load: int, count: int) -> JobSets:
    """Return the test job sets of a load in percent."""
    workload = SchedQRMModel(type="schedqrm", jobs=round(load * CLASSES / 100))
    rng: np.random.Generator = stream(load, JUDGED)
    return JobSets(*workload.draw_sets(rng, count))
