"""Calls a plug-in with the arguments that a scenario gives it, with errors for people."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from simkit.errors import ScenarioError, SimkitError, did_you_mean


def construct(what: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return ``factory(**arguments)``.

    Args:
        what: how the scenario names it, e.g. ``policy.order: 'multifactor'``; begins messages.
        factory: a class or function.
        arguments: keyword arguments.

    Raises ScenarioError if the factory does not take the arguments, or refuses a value with
    ValueError or TypeError; simkit's own errors pass.
    """
    if not callable(factory):
        raise ScenarioError(f"{what} is a {type(factory).__name__}; it must be a class or function")
    _check_arguments(what, factory, arguments)
    try:
        return factory(**arguments)
    except SimkitError:
        raise
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{what}: {error}") from error


def _check_arguments(what: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # built in: it checks for itself
    parameters = signature.parameters.values()
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in arguments:
            if name not in known:
                takes = did_you_mean(name, known) if known else "; it takes none"
                raise ScenarioError(f"{what} takes no argument {name!r}{takes}")
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ScenarioError(f"{what}: {error}; give it beside the name") from error
