"""A metric of the user: a function of a run's tables that returns a number.

A scenario names it, ``metrics: [my_metrics.py:tail_wait]``, and metrics.json has it in the part
``custom``, which the run's digest leaves out. Its parameters say what it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from simkit import plugins
from simkit.errors import ScenarioError, did_you_mean
from simkit.results.metric import Better, RunWindow

GIVEN: Final = ("jobs", "tasks", "allocations", "timeline", "events", "power", "energy", "run")
"""Parameters that a metric may have: tables as polars frames, and the run itself."""
_WITH_POWER: Final = ("power", "energy")
_LARGEST: Final = 1e100
_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Run(Protocol):
    """What a metric reads of a `run_folder.Run`."""

    info: dict[str, Any]

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame."""


@dataclass(frozen=True)
class CustomMetric:
    """A metric of the user that has been checked; nothing is computed yet."""

    name: str
    source: str
    """How the scenario names it: ``my_metrics.py:tail_wait``."""
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    """Those of its parameters that are in `GIVEN`."""
    unit: str
    better: Better | None
    formula: str
    sha256: str
    """Of the file that the source names, in hexadecimal; empty if it names none."""

    @property
    def by_group(self) -> bool:
        """Whether groups of jobs have it too: it needs nothing but the jobs."""
        return self.parameters == ("jobs",)

    def entry(self, run: Run, jobs: pl.LazyFrame, window: RunWindow | None) -> dict[str, Any]:
        """Return what metrics.json has of it; one that cannot be computed is null, and why.

        Args:
            run: its tables must be closed.
            jobs: the jobs of the window.
            window: that of the run's metrics; None: no job was submitted, nothing is computed.
        """
        value, error = None, ""
        if window is not None:
            given = {name: _given(name, run, jobs) for name in self.parameters}
            value, error = self.value(given)
        return {
            "value": value,
            "unit": self.unit,
            "formula": self.formula,
            "window": "all jobs submitted" if window is None else window.jobs_text,
            "count": int(jobs.select(pl.len()).collect().item()),
            "censored": 0,
            **({"better": self.better} if self.better else {}),
            "source": self.source,
            **({"sha256": self.sha256} if self.sha256 else {}),
            **({"error": error} if error else {}),
        }

    def value(self, given: Mapping[str, Any]) -> tuple[float | int | None, str]:
        """Return the function's number, and why there is none; empty if it is undefined."""
        try:
            found = self.function(**given)
        except (Exception, SystemExit) as error:
            what = f"the metric {self.name} cannot be computed"
            text = plugins.author_traceback(error, self.function, what)
            return None, text or f"{self.source}: {what}: {type(error).__name__}: {error}"
        if found is None:
            return None, ""
        is_number = isinstance(found, (int, float, np.integer, np.floating))
        if not is_number or isinstance(found, bool):
            problem = f"returned a {type(found).__name__}, which is not a number"
        elif not abs(found) < _LARGEST:
            problem = f"is not a finite number below {_LARGEST:g} in size"
        else:
            return (int if isinstance(found, (int, np.integer)) else float)(found), ""
        return None, (
            f"{self.source}: the metric {self.name} {problem}; return a number, or None where it "
            "is undefined"
        )


def _given(name: str, run: Run, jobs: pl.LazyFrame) -> Any:
    """Return what stands for a parameter; the function cannot change the run with it."""
    if name == "jobs":
        return jobs.collect()
    if name != "run":
        return run.scan(name).collect()
    own = copy(run)
    own.info = deepcopy(run.info)
    return own


def custom_metric(what: str, source: str, function: Any, *, has_power: bool) -> CustomMetric:
    """Return a user's function as a metric.

    Args:
        what: begins messages: ``metrics.custom.0``.
        source: how the scenario names it, or its name.
        function: of parameters in `GIVEN`; its docstring is the metric's formula, and it may have
            the attributes ``unit`` and ``better``.
        has_power: whether the run has the tables of power.

    Raises ScenarioError if it is no such function.
    """
    name = source.rpartition(":")[2].rpartition(".")[2]
    problems = [f"{what}: {source!r} {text}" for text in _problems(name, function, has_power)]
    if problems:
        raise ScenarioError(problems)
    file = Path(source.rpartition(":")[0])
    text = inspect.getdoc(function) or f"{name}{inspect.signature(function)}"
    return CustomMetric(
        name=name,
        source=source,
        function=function,
        parameters=tuple(p for p in inspect.signature(function).parameters if p in GIVEN),
        unit=getattr(function, "unit", "1"),
        better=getattr(function, "better", None),
        formula=" ".join(text.partition("\n\n")[0].split()),
        sha256=sha256(file.read_bytes()).hexdigest() if file.suffix == ".py" else "",
    )


def _problems(name: str, function: Any, has_power: bool) -> list[str]:
    """Return why a function cannot be a metric."""
    if isinstance(function, str):
        return ["is text; name it in the scenario's metrics, or give the function itself"]
    if not name.isidentifier():
        return ["has no name; write it with def"]
    if not callable(function) or isinstance(function, type):
        return [f"is {_kind(function)}, not a function that returns a number"]
    found = []
    parameters = inspect.signature(function).parameters
    if any(p.kind in _VARIABLE for p in parameters.values()) and not parameters.keys() & {*GIVEN}:
        found.append(f"is given nothing; name what it needs as a parameter: {', '.join(GIVEN)}")
    for parameter in parameters.values():
        optional = parameter.default is not parameter.empty
        if parameter.kind in _VARIABLE or (parameter.name not in GIVEN and optional):
            continue
        if parameter.name not in GIVEN or parameter.kind is parameter.POSITIONAL_ONLY:
            near = did_you_mean(parameter.name, GIVEN)
            found.append(f"asks for {parameter.name!r}, which no metric is given{near}")
        elif parameter.name in _WITH_POWER and not has_power:
            found.append(f"asks for {parameter.name}, but the scenario has no section power")
    unit, better = getattr(function, "unit", "1"), getattr(function, "better", None)
    if not isinstance(unit, str) or not unit:
        found.append(f"has the unit {unit!r}; it must be text, such as 's'")
    if better not in ("high", "low", None):
        found.append(f"has better = {better!r}; it must be 'high', 'low' or None")
    return found


def _kind(value: object) -> str:
    return "a class" if isinstance(value, type) else f"a {type(value).__name__}"
