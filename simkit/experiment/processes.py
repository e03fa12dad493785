"""The processes of a scenario: classes and generator functions of the user, built and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from simkit import plugins
from simkit.engine.processes import ProcessLike
from simkit.errors import ScenarioError
from simkit.plugins import instantiate
from simkit.scenario import ProcessSection, Scenario


def process_builder(scenario: Scenario) -> Callable[[], list[ProcessLike]]:
    """Return a function that builds fresh processes of the scenario, one set for each simulation.

    The function has been called once, as a check: PluginError is raised for a file or class that is
    not there, ScenarioError for arguments that it does not take and for what is not a process.
    """
    factories = [_factory(number, section) for number, section in enumerate(scenario.processes)]
    build = partial(_built, factories)
    build()
    return build


def _built(factories: Sequence[Callable[[], ProcessLike]]) -> list[ProcessLike]:
    return [factory() for factory in factories]


def _factory(number: int, section: ProcessSection) -> Callable[[], ProcessLike]:
    what = f"processes.{number}: {section.path!r}"
    made_by = plugins.find("simkit.processes", section.path)
    if inspect.isgeneratorfunction(made_by):
        made_by = _of_function(made_by)
    return partial(_process, what, made_by, section.args)


def _process(what: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> ProcessLike:
    # A process may change its arguments, such as a list of machines, so it gets copies.
    return checked_process(instantiate(what, factory, deepcopy(arguments)), what)


def _of_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a process of a generator function, whose first argument is the view."""

    def make(**arguments: Any) -> partial[Any]:
        return partial(function, **arguments)

    signature = inspect.signature(function)
    rest = list(signature.parameters.values())[1:]
    make.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    return make


def checked_process(process: Any, what: str = "processes") -> ProcessLike:
    """Return what was given if it is a process; a class is instantiated without arguments.

    Raises ScenarioError otherwise.
    """
    if isinstance(process, type):
        process = instantiate(f"{what}: {process.__name__!r}", process, {})
    function = process.func if isinstance(process, partial) else process
    if not inspect.isgeneratorfunction(function) and not callable(getattr(process, "run", None)):
        raise ScenarioError(
            f"{what}: {type(process).__name__} is not a process; it needs a method run(view) that "
            "yields events, such as view.timeout(60)"
        )
    checked: ProcessLike = process
    return checked


def recorded_processes(processes: Sequence[ProcessLike]) -> tuple[ProcessSection, ...]:
    """Return how run.json names processes that are Python objects."""
    names = []
    for process in processes:
        made = process.func if isinstance(process, partial) else process
        kind = made if inspect.isfunction(made) else type(made)
        names.append(f"{kind.__module__}:{kind.__qualname__}")
    return tuple(ProcessSection.model_construct(path=name, args={}) for name in names)
