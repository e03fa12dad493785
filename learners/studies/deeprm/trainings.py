"""The trainings of the study: the paper's recipe at five loads, and ours at all loads or at 70 %.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (HotNets 2016).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from simkit.learners.studies.trainings import KeptTraining
from simkit.scenario import Scenario
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace

RATES: Final = {
    10: 0.0542, 30: 0.1626, 50: 0.2710, 70: 0.379, 90: 0.4878, 110: 0.596, 130: 0.705,
    150: 0.8130, 170: 0.9214, 184: 1.0,
}  # fmt: skip
"""Offered load in percent → probability of a job in a step; the load is 1.845 times that."""
HIGHEST: Final = 184
"""The load if a job arrives in every step."""
COMPLETION: Final = "trained for completion time"
FIXED: Final = "trained on fixed job sets"
ALL: Final = "one agent for all loads"
ALONE: Final = "agents of 70 %"
"""These two are by our own recipe."""


def trained_at(load: int) -> str:
    """Return the arm of the paper's recipe, with slowdown as the objective, at a load."""
    return f"trained at {load} %"


@dataclass(frozen=True)
class Ours:
    """How much our own recipe trains."""

    iterations: int
    job_sets: int
    """In an iteration."""
    entropy: float
    """Its initial weight."""


@dataclass(frozen=True)
class DeepRMSetting:
    """How much to train and to test."""

    trained: tuple[int, ...]
    """Loads in percent at which agents are trained by the paper's recipe."""
    judged: tuple[int, ...]
    """Loads at which everyone is compared."""
    seeds: int
    """Trainings of an arm; at 184 %, for completion time and on fixed sets one."""
    iterations: int
    long_iterations: int
    """Iterations of the single training on fixed job sets, as in the paper."""
    job_sets: int
    rollouts: int
    held_out: int
    """The original's job sets on which everyone is compared."""
    all_loads: Ours
    alone: Ours
    choosing: int
    """Job sets on which the rules are chosen that our agents are compared with."""
    judging: int
    """Job sets of that comparison."""


FULL: Final = DeepRMSetting(
    (10, 70, 110, 130, HIGHEST), tuple(RATES), 3, 400, 1000, 100, 20, 100,
    Ours(150, 250, 0.02), Ours(40, 100, 0.01), 100, 1000,
)  # fmt: skip
QUICK: Final = DeepRMSetting(
    (70, 130), (70, 130), 1, 60, 60, 30, 20, 20, Ours(6, 60, 0.04), Ours(6, 10, 0.01), 5, 20
)


@dataclass(frozen=True)
class Agents:
    """An arm: its trainings, seed by seed."""

    arm: str
    load: int
    """Load in percent at which they are trained; of `ALL` the one that its scenario states."""
    kept: tuple[KeptTraining, ...]
    choose: str
    """How they are judged: `sample` draws actions as in training, `greedy` takes the likeliest."""


def paper_agents(place: Workplace, setting: DeepRMSetting) -> list[Agents]:
    """Return the arms of the paper's recipe."""
    paper: dict[str, Any] = {
        "iterations": setting.iterations, "job_sets": setting.job_sets, "fresh": True,
        "rollouts": setting.rollouts, "objective": "slowdown", "held_out_sets": setting.held_out,
    }  # fmt: skip
    fixed = {**paper, "fresh": False, "iterations": setting.long_iterations}
    return [
        *(
            _agents(place, "deeprm", trained_at(load), f"{load}", load,
                    1 if load == HIGHEST else setting.seeds, **paper)
            for load in setting.trained
        ),
        _agents(place, "deeprm", COMPLETION, "130-completion", 130,
                **{**paper, "objective": "completion"}),
        _agents(place, "deeprm", FIXED, "70-fixed-sets", 70, **fixed),
    ]  # fmt: skip


WEIGHTS: Final = {10: 6.0}
"""Loads with a weight above 1 in the mix: at first a low load looks like any other."""
DECAY: Final = 1.0
"""λ of the mix. The cost of holding a job back shows when it ends, a dozen steps later. A λ below 1
leaves that cost to the critic, which knows low loads least, so that agents held jobs back there."""


def our_agents(place: Workplace, setting: DeepRMSetting) -> list[Agents]:
    """Return the arms of our own recipe, the learner `ppo`."""
    loads, weights = [load / 100 for load in RATES], [WEIGHTS.get(load, 1.0) for load in RATES]
    mix: dict[str, Any] = {
        "loads": loads,
        "weights": weights,
        "decay": DECAY,
        **asdict(setting.all_loads),
    }
    return [
        _agents(place, "ppo", ALL, "mixed", 70, setting.seeds, **mix),
        _agents(place, "ppo", ALONE, "70", 70, setting.seeds, **asdict(setting.alone)),
    ]


def _agents(
    place: Workplace, learner: str, arm: str, name: str, load: int, seeds: int = 1,
    *, iterations: int, **arguments: Any,
) -> Agents:  # fmt: skip
    learn = {
        "learner": learner, "iterations": iterations, "held_out_every": 10, "arguments": arguments,
    }  # fmt: skip
    kept = (
        scenario_at(load, name=f"{learner}-{name}-seed{seed}", seed=seed, learn=learn)
        for seed in range(seeds)
    )
    choose = "sample" if learner == "deeprm" else "greedy"
    return Agents(arm, load, tuple(KeptTraining(place, one) for one in kept), choose)


def scenario_at(load: int, **told: Any) -> Scenario:
    """Return DeepRM's scenario at a load in percent, with further overrides."""
    overrides = {"workload": {"type": "deeprm", "rate": RATES[load]}, **told}
    return load_scenario(scenario_path("deeprm"), overrides=overrides)
