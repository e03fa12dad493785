"""Held-out job sets: overrides of a scenario, each of which gives it other jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.training.windows import window_overrides

ORIGINAL_SETS: Final = 100
"""Known job sets of the original DeepRM code."""
SEEDS: Final = 10
"""Default number of seeds that serve as job sets."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def held_out(
    scenario: Scenario,
    *,
    sets: int | None = None,
    seeds: Sequence[int] | None = None,
    windows: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """Return the overrides of each job set, dotted key → value.

    Args:
        scenario: with a workload of type `deeprm`, the sets are the unseen ones of the original
            code; with any other, those that its seeds draw.
        sets: how many: original sets 0, 1, …, or seeds 0, 1, ….
        seeds: the seeds, for any workload.
        windows: the windows of a recorded trace; see `window_overrides`.

    Raises ScenarioError for wrong numbers, and TraceError if windows are those of a trace that
    cannot be read.
    """
    choices = {"sets": sets, "seeds": seeds, "windows": windows}
    given = [name for name, value in choices.items() if value is not None]
    if len(given) > 1:
        raise ScenarioError(
            f"evaluate: {' and '.join(given[:2])} are both given; leave one of them out"
        )
    if sets is not None and sets < 1:
        raise ScenarioError(f"evaluate: {sets} job sets; it must be at least 1")
    if seeds is not None:
        if not seeds or len(set(seeds)) < len(seeds):
            raise ScenarioError("evaluate: seeds must not be empty, and each must occur once")
        return [{"seed": seed} for seed in seeds]
    if windows is not None:
        return window_overrides(scenario, windows)
    if "original_set" not in type(scenario.workload).model_fields:
        return [{"seed": seed} for seed in range(SEEDS if sets is None else sets)]
    count = ORIGINAL_SETS if sets is None else sets
    # another seed for each set: agents and policies that draw should not draw alike in all sets
    return [
        {"workload.original_set": number, "seed": scenario.seed + number} for number in range(count)
    ]


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of ``0..9`` or ``0,3,7..9``; raises ScenarioError for anything else."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        span = _RANGE.fullmatch(part)
        if span:
            found += range(int(span[1]), int(span[2]) + 1)
        elif part.isdecimal():
            found.append(int(part))
        else:
            raise ScenarioError(f"--seeds {text}: {part!r} is not a seed; write 0..9 or 0,3,7")
    return found


def applied(scenario: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a scenario's JSON with overrides, dotted key → value."""
    made = dict(scenario)
    for key, value in overrides.items():
        section, _, rest = key.partition(".")
        made[section] = applied(made[section], {rest: value}) if rest else value
    return made
