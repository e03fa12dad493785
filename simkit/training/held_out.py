"""Held-out job sets: overrides of a scenario that each give it other jobs: seeds, sets, windows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.arrays import stream
from simkit.errors import ScenarioError
from simkit.experiment.workload import TraceMemory
from simkit.scenario import Scenario
from simkit.scenario.workload import Window
from simkit.sections import JobRange
from simkit.text import counted
from simkit.workload.transform import window as jobs_within

TRACES: Final = TraceMemory()
"""The logs of this process's evaluations: each is read once, here and in every worker."""
_WINDOWS: Final = re.compile(r"(\d{1,18})\.\.(\d{1,18})", re.ASCII)


def parse_windows(text: str) -> range:
    """Return the windows of ``0..20``, both included; raises ScenarioError for anything else."""
    span = _WINDOWS.fullmatch(text.replace(" ", ""))
    if not span:
        raise ScenarioError(
            f"--windows {text}: is not a range; write the first and the last window, both "
            "included: 0..20"
        )
    first, last = int(span[1]), int(span[2])
    if first > last:
        raise ScenarioError(
            f"--windows {text}: the last window ({last}) comes before the first ({first}); write "
            f"{last}..{first}"
        )
    return range(first, last + 1)


def window_overrides(scenario: Scenario, windows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the overrides of each window, dotted key → value.

    In a scenario with ``workload.window: {jobs: 0..9}``, window k holds jobs 10 k to 10 k + 9 of
    those that the window's `start` and `end` leave; the last one of a trace may hold fewer. Each
    has a seed of its own, the scenario's + k, so that policies that draw do not draw alike in all.

    Raises ScenarioError if the scenario has no such windows, and TraceError if its trace cannot be
    read.
    """
    workload = scenario.workload
    if workload.window is None or workload.window.jobs is None:
        raise ScenarioError(
            "evaluate: windows are given, but workload.window.jobs, which says how many jobs each "
            "has, is not set; add --set workload.window.jobs=0..9 for ten"
        )
    if workload.is_drawn:
        raise ScenarioError(
            f"evaluate: windows are for a recorded trace, but a workload of type {workload.type} "
            "is drawn from its seed; give seeds instead"
        )
    size = workload.window.jobs.last - workload.window.jobs.first + 1
    _check_numbers(windows, _jobs(scenario, workload.window), size)
    return [
        {
            "workload.window.jobs": str(JobRange(number * size, (number + 1) * size - 1)),
            "seed": scenario.seed + number,
        }
        for number in windows
    ]


def _jobs(scenario: Scenario, window: Window) -> int:
    """Return how many jobs of the trace the window's `start` and `end` leave."""
    resources, rng = scenario.cluster.resources, stream(scenario.seed, "workload")
    trace = TRACES.trace(scenario.workload, resources, rng)
    return len(jobs_within(trace.workload, start=window.start, end=window.end))


def _check_numbers(windows: Sequence[int], jobs: int, size: int) -> None:
    """Raise ScenarioError if there are no windows, one is beyond the trace, or occurs twice."""
    count = -(-jobs // size)
    beyond = next((number for number in windows if not 0 <= number < count), None)
    if beyond is not None:
        raise ScenarioError(
            f"evaluate: there is no window {beyond}; {counted(jobs, 'job')} of the trace make "
            f"{counted(count, 'window')} of {size:,}; choose from 0..{count - 1}"
        )
    if not windows or len(set(windows)) < len(windows):
        raise ScenarioError("evaluate: windows must not be empty, and each must occur once")


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
