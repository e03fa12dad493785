"""The arguments of learners: types of numbers, reading and checking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from simkit.errors import ScenarioError
from simkit.learners.common.bundle import safetensors
from simkit.learners.common.gpu import without_gpu
from simkit.sections import Section, problems_of

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Extent = Annotated[int, Field(ge=1, le=10_000)]
"""A dimension of an observation."""

By = Literal["torch", "numba"] | None
"""What computes on a GPU; None: nothing does."""
T = TypeVar("T")
Chosen = TypeVar("Chosen", bound=Section)


def read_arguments(kind: type[Chosen], given: Mapping[str, Any]) -> Chosen:
    """Return `learn.arguments` as the learner's model; ScenarioError lists all problems at once."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise ScenarioError(
            [
                f"learn.arguments.{'.'.join(map(str, problem.path))}: {problem.text}"
                for problem in problems_of(error, kind)
            ]
        ) from None


NOT_SO: Final = "which this scenario is not"
"""What every message of `unsuited` says."""


def unsuited(
    who: str, known: str, problems: Iterable[str],
    remedy: str = "take --learner evolution --set learn.arguments.scorer=network, which plays any",
) -> ScenarioError:  # fmt: skip
    """Return the error of a scenario that is not what a learner or an argument is for.

    Args:
        who: ``learn.learner: NAME``, or ``learn.arguments.KEY:``.
        known: what it is for, such as ``one pool of processors``.
        problems: what of the scenario is not like that: ``KEY: RULE; REMEDY``. A scenario that is
            nearly so gets the rules, one that is far from it the keys alone.
        remedy: what to do instead.
    """
    heads = [problem.partition("; ")[0] for problem in problems]
    keys = list(dict.fromkeys(head.partition(":")[0] for head in heads))
    reasons = f" ({'; '.join(heads)})"
    if len(keys) > 2:
        reasons = f": {', '.join(keys[:-1])} and {keys[-1]} differ"
    return ScenarioError(f"{who} is for {known}, {NOT_SO}{reasons}; {remedy}")


def attempt(make: Callable[[], T], problems: list[str]) -> T | None:
    """Return what `make` returns; if it raises ScenarioError, add its problems and return None."""
    try:
        return make()
    except ScenarioError as error:
        problems += error.problems
        return None


def prepared(
    kind: type[Chosen], given: Mapping[str, Any], source: Callable[[Chosen], T], device: str,
    by: By = "torch",
) -> tuple[Chosen, T]:  # fmt: skip
    """Return a training's checked arguments and the source of its job sets.

    Args:
        kind: model of the learner's arguments; all of them have defaults.
        given: `learn.arguments`.
        source: makes the source from the arguments.
        device: device to train on.
        by: what uses a GPU for the learner; None: it cannot use one.

    Raises ScenarioError, all problems at once; PluginError without safetensors, which the first
    checkpoint needs.
    """
    safetensors()
    problems = check_device(device, by)
    chosen = attempt(lambda: read_arguments(kind, given), problems) or kind()
    made = attempt(lambda: source(chosen), problems)
    if problems or made is None:
        raise ScenarioError(problems)
    return chosen, made


def check_device(device: str, by: By = "torch") -> list[str]:
    """Return why a device cannot be used by one that computes on GPUs; empty if it can."""
    if device == "cpu":
        return []
    if by is None:
        return [f"device: is {device}; this learner runs on the cpu"]
    if by == "numba":
        if device != "cuda":
            return [f"device: is {device!r}; this learner computes on cpu or cuda"]
        problem = without_gpu()
        return [problem] if problem else []
    if find_spec("torch") is None:
        return [f"device: {device!r} needs torch: pip install 'simkit-cluster[learn]'"]
    import torch

    if device == "cuda" and torch.cuda.is_available():
        return []
    return [
        f"device: torch {torch.__version__} finds no {device!r} here; leave --device out, or "
        "install a build of torch for this machine's GPU"
    ]
