"""The grid of a sweep: one scenario for each combination of the values under `sweep`.

    sweep: {policy.backfill: [none, easy], seed: [0, 1, 2]}

stands for six runs. The keys keep the file's order, and the last one changes fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.scenario.overrides import dotted, split_key, starts_with
from simkit.scenario.yaml_document import Document, Source
from simkit.scenario.yaml_lines import from_python
from simkit.sections import KeyPath, Problem, shown


class GridPoint(NamedTuple):
    """One run of a sweep."""

    assignment: dict[str, Any]
    """Dotted key → the value it has here, in the file's order."""
    scenario: Scenario
    """The scenario with these values, without `sweep`."""


class _Axis(NamedTuple):
    key: str
    path: KeyPath
    values: tuple[Any, ...]


def expand_sweep(
    source: Source,
    *,
    sweep: Mapping[str, Iterable[Any]] | None = None,
    overrides: Mapping[str, object] | None = None,
    allow_code: bool = True,
) -> list[GridPoint]:
    """Return the runs of a scenario, in order; a scenario without `sweep` is one run.

    Args:
        source: path of a YAML file, or a mapping of the same form.
        sweep: dotted key → values, after those of the source; keys of the source's sweep at or
            below such a key are left out.
        overrides: dotted path → value; they win over the file and over the sweep: keys of the
            sweep at or below such a path are left out.
        allow_code: False refuses code in the scenario and in the sweep's values.

    Raises ScenarioError with all problems of the scenario or, if it has none, of every
    combination, each problem once.
    """
    document = Document.read(source, overrides, allow_code=allow_code)
    _add_sweep(document, sweep or {})
    whole = document.scenario()
    axes = _axes(whole, document.overrides)
    size, most = prod(len(axis.values) for axis in axes), whole.limits.runs
    if most is not None and size > most:
        text = (
            f"stands for {size:,} runs, and at most {most:,} are allowed; split it, or raise "
            "limits.runs"
        )
        raise ScenarioError(document.error_lines([Problem(("sweep",), text)]))
    document.forget_sweep()
    points: list[GridPoint] = []
    problems: list[Problem] = []
    alike: dict[tuple[int, ...], Scenario] = {}
    for rows in product(*(range(len(axis.values)) for axis in axes)):
        chosen = list(zip(axes, rows, strict=True))
        others = tuple(row for axis, row in chosen if axis.path != _SEED)
        scenario = _reseeded(alike.get(others), chosen)
        if scenario is None:
            scenario, found = _point(document, chosen)
            problems += found
        if scenario is not None:
            alike[others] = scenario
            assignment = {axis.key: axis.values[row] for axis, row in chosen}
            points.append(GridPoint(assignment, scenario))
    if problems:
        raise ScenarioError(document.error_lines(_each_once(problems)))
    return points


def _add_sweep(document: Document, sweep: Mapping[str, Iterable[Any]]) -> None:
    """Add swept values to the document's own.

    Raises ScenarioError for a key that an override sets, too.
    """
    problems = [
        f"{key} is swept, but {dotted(above)} is also set; leave one of them out"
        for key in sweep
        for above in document.overrides
        if starts_with(split_key(key), above)
    ]
    if problems:
        raise ScenarioError(problems)
    added = from_python({key: _listed(values) for key, values in sweep.items()})
    document.overrides |= {("sweep", key): values for key, values in added.data.items()}
    document.values.problems += [
        problem._replace(path=("sweep", *problem.path)) for problem in added.problems
    ]


def _listed(values: Any) -> Any:
    """Return any collection as a list; the validation refuses the rest."""
    is_one = isinstance(values, str | Mapping) or not isinstance(values, Iterable)
    return values if is_one else list(values)


def _axes(scenario: Scenario, overrides: Mapping[KeyPath, Any]) -> list[_Axis]:
    """Return what is swept: no key that an override sets, or a key above it that is added."""
    axes = [_Axis(key, split_key(key), values) for key, values in scenario.sweep.items()]
    laid = [tuple(path) for path in overrides if path[0] != "sweep"]
    added = [split_key(str(path[1])) for path in overrides if path[0] == "sweep" and path[1:]]
    return [
        axis
        for axis in axes
        if not any(starts_with(axis.path, above) for above in laid)
        and not any(starts_with(axis.path, above) for above in added if axis.path != above)
    ]


_SEED: Final[KeyPath] = ("seed",)


def _reseeded(alike: Scenario | None, chosen: list[tuple[_Axis, int]]) -> Scenario | None:
    """Return a scenario that differs in its seed alone with the one chosen; None if it cannot be.

    Seeds are what most sweeps have most of, and a copy costs a hundredth of a validation.
    """
    seed = next((axis.values[row] for axis, row in chosen if axis.path == _SEED), None)
    if alike is None or type(seed) is not int or seed < 0:
        return None
    return alike.model_copy(update={"seed": seed})


def _point(
    document: Document, chosen: list[tuple[_Axis, int]]
) -> tuple[Scenario | None, list[Problem]]:
    """Return the scenario of one combination, or its problems at the sweep's lines."""
    unset: list[Problem] = []
    data = document.laid_over({axis.path: axis.values[row] for axis, row in chosen}, unset)
    scenario, found = document.validate(data)
    if unset or found:
        return None, [_in_sweep(problem, chosen) for problem in (*unset, *found)]
    return scenario, []


def _in_sweep(problem: Problem, chosen: list[tuple[_Axis, int]]) -> Problem:
    """Return the problem at the path of the swept value that caused it."""
    for axis, row in chosen:
        if starts_with(problem.path, axis.path):
            below = problem.path[len(axis.path) :]
            return Problem(("sweep", axis.key, row, *below), problem.text)
    for axis, _ in chosen:
        if starts_with(axis.path, problem.path):
            return Problem(("sweep", axis.key), f"{dotted(problem.path)}: {problem.text}")
    values = ", ".join(f"{axis.key}: {shown(axis.values[row])}" for axis, row in chosen)
    return Problem(problem.path, f"{problem.text} (with {values})")


def _each_once(problems: list[Problem]) -> Iterator[Problem]:
    """Yield each problem once: not again with another combination."""
    seen = set()
    for problem in problems:
        complaint = (problem.path, problem.text.partition(" (with ")[0])
        if complaint not in seen:
            seen.add(complaint)
            yield problem
