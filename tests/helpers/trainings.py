"""Every learner at its smallest: its scenario, arguments, further forms; and checks of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ready_pools import ready_scenario
from small_scenarios import CLASSES, DEEPRM, POOL, SOFIA, TABLE, table_of_jobs

from simkit import plugins
from simkit.learners.common.torch_training import weights_of
from simkit.scenario import Scenario
from simkit.training import Workplace


def _with(sections: Mapping[str, Any], **changes: Any) -> Scenario:
    return Scenario.model_validate({**sections, **changes})


schedqrm_scenario, pool_scenario = partial(_with, CLASSES), partial(_with, POOL)
"""A small scenario, with some sections changed."""


def deeprm_scenario(**changes: Any) -> Scenario:
    """Return short episodes of DeepRM's workload, with some sections changed."""
    return _with(DEEPRM | {"workload": DEEPRM["workload"] | {"offered_load": 0.7}}, **changes)


def sofia_scenario(**workload: Any) -> Scenario:
    """Return some eight short jobs for a small pool with three slots."""
    return _with(SOFIA, workload=SOFIA["workload"] | workload, policy={"order": "sjf"})


def bags_scenario(table: Path | None = None, **changes: Any) -> Scenario:
    """Return bags of tasks that keep three machines busy, with some sections changed."""
    path = str(table or _bags())
    return _with(TABLE, **{"workload": TABLE["workload"] | {"path": path}, **changes})


_FOLDER = TemporaryDirectory(prefix="simkit-tests-")


@cache
def _bags() -> Path:
    path = Path(_FOLDER.name) / "jobs.csv"
    table_of_jobs(path)
    return path


class Smallest(NamedTuple):
    """A learner's scenario, its arguments at their smallest, and other forms of it."""

    where: Callable[..., Scenario]
    arguments: Mapping[str, Any]
    forms: list[dict[str, Any]]


READY = {
    "iterations": 4, "games": 6, "decisions": 8, "hours": 150, "held_out_sets": 4, "hidden": 8,
    "batch": 32,
}  # fmt: skip
REPLAYED = {**READY, "updates": 3, "replay": 300}

SMALLEST: dict[str, Smallest] = {
    "actor-critic": Smallest(deeprm_scenario, {
        "iterations": 4, "job_sets": 4, "rollouts": 3, "held_out_sets": 3, "hidden": 8, "batch": 32,
        "updates": 5, "replay": 300, "steps": 4,
    }, [
        {"loads": [0.3, 1.3], "critics": 1, "objective": "completion"},
        {"starts": "ahead", "job_sets": 100},
    ]),
    "cocorl": Smallest(ready_scenario, READY, [
        {"cost_limit": 1.0, "reject": True, "derivative": 2.0},
        {"max_start": 12, "hours": 40},  # games end within an iteration
        {"units": [4, 10, 30], "games": 7},
    ]),
    "deepjs": Smallest(bags_scenario, {
        "iterations": 4, "jobs": 5, "repeats": 2, "rollouts": 3, "batch": 20,
        "held_out": 0.2,
    }, [
        {"features": "terms", "hidden": [4]},
        {"features": "terms", "hidden": [4], "start": "balance"},
        {"update": "ppo", "epochs": 3},
        {"features": "terms", "start": "longest", "update": "ppo"},
        {"baseline": "tick", "machines": [1, 3]},
    ]),
    "deeprm": Smallest(deeprm_scenario, {
        "iterations": 4, "job_sets": 4, "rollouts": 3, "held_out_sets": 3, "hidden": 8,
    }, [
        {"optimiser": "adam", "observation": "deeprm-compact", "mask": "possible", "entropy": 0.01},
        {"fresh": False, "discount": 0.99, "objective": "completion"},
        {"warm_start": 1},
    ]),
    "dqn": Smallest(schedqrm_scenario, {
        "iterations": 4, "job_sets": 12, "held_out_sets": 8, "hidden": 8, "batch": 16,
        "decisions_per_update": 16, "replay": 300, "target_every": 3,
    }, [
        {"loads": [0.2, 1.5], "steps": 1, "double": False, "duelling": False, "shaping": False},
        {"network": "perceptron", "mask": "none", "reading": "clock", "max_decisions": 60},
        {"prioritised": True, "falls": False, "optimiser": "rmsprop", "reading": "decisions"},
        {"starts": "now"},
    ]),
    "evolution": Smallest(deeprm_scenario, {
        "iterations": 4, "job_sets": 4, "candidates": 4, "held_out_sets": 3, "hidden": 2,
    }, [
        {"loads": [0.3, 1.3], "averaged": 1},
        {"search": "antithetic", "starts": "ahead"},
    ]),
    "fitness": Smallest(bags_scenario, {
        "iterations": 4, "candidates": 4, "jobs": 5, "job_sets": 3, "hidden": 2,
    }, [{"hidden": 0}]),
    "offline": Smallest(ready_scenario, REPLAYED, [{"reject": True, "popart": False}]),
    "ppo": Smallest(deeprm_scenario, {
        "iterations": 4, "job_sets": 4, "rollouts": 3, "held_out_sets": 3, "hidden": 8, "batch": 64,
    }, [
        {"loads": [0.3, 1.3], "weights": [3, 1]},
        {"objective": "completion"},
        {"starts": "ahead", "job_sets": 100},
    ]),
    "rare": Smallest(ready_scenario, REPLAYED, [
        {"warm_up": 2, "reject": True, "critics": 2, "popart": False},
        {"max_start": 12, "hours": 40, "replay": 60},
    ]),
    "reinforce": Smallest(deeprm_scenario, {
        "iterations": 4, "job_sets": 4, "rollouts": 3, "held_out_sets": 3, "hidden": 8,
    }, [
        {"update": "gradient", "entropy": 0.01, "loads": [0.3, 1.3]},
        {"starts": "ahead", "job_sets": 100},
        {"baseline": "decision", "objective": "completion"},
    ]),
    "rlscheduler": Smallest(pool_scenario, {
        "iterations": 4, "candidates": 6, "job_sets": 3, "fewest_jobs": 30, "most_jobs": 60,
        "held_out_sets": 2, "least_slowdown": 1.5, "start": "fcfs", "held_out": 0.2,
    }, [
        {"hidden": 2},
        {"objective": "relative", "end": "behind-head"},
        {"objective": "mean"},
        {"backfill": "rlscheduler"},
        {"backfill": "rlscheduler-none"},
    ]),
    "sofia": Smallest(sofia_scenario, {
        "job_sets": 2, "rollouts": 4, "horizon": 12, "backlog_shown": 12, "held_out_sets": 4,
        "fisher_share": 0.5, "last_step": 10, "max_decisions": 300,
    }, [
        {"update": "gradient", "optimiser": "rmsprop", "fresh": False},
        {"update": "proximal", "batch": 64, "mask": "possible", "entropy": 0.01},
        {"update": "natural", "baseline": "step", "credit": "first", "entropy": 0.01},
        {"update": "gradient", "observation": "sofia-compact", "objective": "completion"},
    ]),
}  # fmt: skip
"""Learner → how it is tried. `tests/learners/test_every_learner.py` asks for each entry point."""


CRITERIA = {
    "cocorl": "lost_value", "offline": "lost_value", "rare": "lost_value",
    "deepjs": "cost", "fitness": "cost_ratio",
}  # fmt: skip
"""Learner → what its best iteration is chosen by, where that is not the slowdown."""


def small_scenario(learner: str, iterations: int) -> Scenario:
    """Return a scenario with the section `learn` of a learner at its smallest."""
    small = SMALLEST[learner]
    arguments = {key: value for key, value in small.arguments.items() if key != "iterations"}
    learn = {"learner": learner, "iterations": iterations, "arguments": arguments}
    learn |= {"criterion": CRITERIA[learner]} if learner in CRITERIA else {}
    return Scenario.model_validate({**small.where().model_dump(mode="json"), "learn": learn})


def small_training(
    learner: str, seed: int = 0, where: Scenario | None = None, **arguments: Any
) -> Any:
    """Return a training of a learner at its smallest, with some arguments changed."""
    small = SMALLEST[learner]
    begin = plugins.find("simkit.learners", learner)
    return begin(where or small.where(), {**small.arguments, **arguments}, seed=seed)


def weights(training: Any) -> dict[str, bytes]:
    """Return the bytes of a training's weights by name."""
    if hasattr(training, "search"):
        return {"mean": training.search.mean.tobytes()}
    if hasattr(training, "scorer"):
        return {"scorer": training.scorer.flat.tobytes()}
    return {name: array.tobytes() for name, array in weights_of(training.network).items()}


def check_resume(make: Callable[[], Any], folder: Path, iterations: int = 4) -> None:
    """Assert that a training that stops halfway and goes on equals one that does not stop."""
    whole, first, second = make(), make(), make()
    expected = [_shown(whole.step()) for _ in range(iterations)]
    found = [_shown(first.step()) for _ in range(iterations // 2)]
    first.save(folder)
    first.step()  # does not reach what was saved
    second.load(folder)
    assert second.iteration == iterations // 2
    found += [_shown(second.step()) for _ in range(iterations // 2)]
    assert found == expected
    assert weights(second) == weights(whole)
    assert second.held_out() == whole.held_out()


def _shown(row: Mapping[str, float]) -> dict[str, str]:
    """Return the numbers of a row as text, exactly; what is not a number equals itself."""
    return {name: repr(float(number)) for name, number in row.items()}


def workplace(folder: Path, said: list[str] | None = None) -> Workplace:
    """Return a quick workplace for one worker, which works in a folder below that of the pages."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    say = [] if said is None else said
    return Workplace(folder, folder / "work", quick=True, workers=1, say=say.append)


def check_held_out_changes_nothing(make: Callable[[], Any]) -> None:
    """Assert that an evaluation gives the same twice, and that the training goes on as without."""
    one, other = make(), make()
    assert one.held_out() == one.held_out()
    one.step()
    other.step()
    assert weights(one) == weights(other)
