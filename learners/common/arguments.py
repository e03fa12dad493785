"""The arguments of learners: kinds of numbers, and how they are read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from simkit.errors import ScenarioError
from simkit.learners.common.bundle import safetensors
from simkit.sections import Section, problems_of

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Extent = Annotated[int, Field(ge=1, le=10_000)]
"""A dimension of an observation."""

T = TypeVar("T")
Chosen = TypeVar("Chosen", bound=Section)


def read_arguments(kind: type[Chosen], given: Mapping[str, Any]) -> Chosen:
    """Return `learn.arguments` as a learner's model; raises ScenarioError, all problems at once."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise ScenarioError(
            [
                f"learn.arguments.{'.'.join(map(str, problem.path))}: {problem.text}"
                for problem in problems_of(error, kind)
            ]
        ) from None


def attempt(make: Callable[[], T], problems: list[str]) -> T | None:
    """Return what a call makes; if it raises ScenarioError, add to the problems and return None."""
    try:
        return make()
    except ScenarioError as error:
        problems += error.problems
        return None


def prepared(
    kind: type[Chosen], given: Mapping[str, Any], source: Callable[[Chosen], T], device: str
) -> tuple[Chosen, T]:
    """Return what a training begins with: its arguments, and the source of its job sets.

    Args:
        kind: the learner's arguments; all of them have defaults.
        given: `learn.arguments`.
        source: makes the source.
        device: to train on.

    Raises ScenarioError, all problems at once; PluginError without safetensors, which the first
    checkpoint needs.
    """
    safetensors()
    problems = check_device(device)
    chosen = attempt(lambda: read_arguments(kind, given), problems) or kind()
    found = attempt(lambda: source(chosen), problems)
    if problems or found is None:
        raise ScenarioError(problems)
    return chosen, found


def check_device(device: str) -> list[str]:
    """Return why a device cannot be used; empty if it can."""
    if device == "cpu":
        return []
    if find_spec("torch") is None:
        return [f"device: {device!r} needs torch: pip install 'simkit-cluster[learn]'"]
    import torch

    if device == "cuda" and torch.cuda.is_available():
        return []
    return [
        f"device: torch {torch.__version__} finds no {device!r} here; leave --device out, or "
        "install a build of torch for this machine's GPU"
    ]
