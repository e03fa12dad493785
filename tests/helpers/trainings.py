"""What the tests of trainings share: a small scenario, weights to compare, and the resume test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simkit.learners.common.torch_training import weights_of
from simkit.scenario import Scenario


def deeprm_scenario(**changes: Any) -> Scenario:
    """Return short episodes of DeepRM's workload, with some sections changed."""
    plain: dict[str, Any] = {
        "workload": {"type": "deeprm", "offered_load": 0.7, "steps": 15},
        "cluster": {"machines": [{"count": 1, "cpu": 10, "mem": 10}]},
        "admission": {"slots": 10, "backlog": 60},
        "estimates": "actual",
        "scheduling": {"step": "1s"},
    }
    return Scenario.model_validate({**plain, **changes})


def weights(training: Any) -> dict[str, bytes]:
    """Return the bytes of a training's weights by name."""
    return {name: array.tobytes() for name, array in weights_of(training.network).items()}


def check_resume(make: Callable[[], Any], folder: Path, iterations: int = 4) -> None:
    """Assert that a training that stops halfway and goes on equals one that does not stop."""
    whole, first, second = make(), make(), make()
    expected = [dict(whole.step()) for _ in range(iterations)]
    found = [dict(first.step()) for _ in range(iterations // 2)]
    first.save(folder)
    first.step()  # does not reach what was saved
    second.load(folder)
    assert second.iteration == iterations // 2
    found += [dict(second.step()) for _ in range(iterations // 2)]
    assert found == expected
    assert weights(second) == weights(whole)
    assert second.held_out() == whole.held_out()


def check_held_out_changes_nothing(make: Callable[[], Any]) -> None:
    """Assert that an evaluation gives the same twice, and that the training goes on as without."""
    one, other = make(), make()
    assert one.held_out() == one.held_out()
    one.step()
    other.step()
    assert weights(one) == weights(other)
