"""Policies of a sweep that are given as classes: a name in the scenario, and the class itself.

    run_sweep("grid.yaml", policy=Mine)
    run_sweep("grid.yaml", sweep={"policy": [Mine, {"order": "sjf"}]})
    run_sweep("grid.yaml", policy={"name": Mine, "args": {"depth": 2}})

The scenario of each run has the class's name, ``module:Mine``. The class travels to worker
processes beside it: by value if it is defined in a notebook or script, which needs cloudpickle.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from simkit.errors import ScenarioError
from simkit.experiment.policy import checked_policy
from simkit.policy import Policy
from simkit.scenario import Scenario
from simkit.scenario.policy import NamedPolicy


def recorded_as(kind: type) -> NamedPolicy:
    """Return what `run.json` says of a policy that took the place of the scenario's."""
    return NamedPolicy.model_construct(name=f"{kind.__module__}:{kind.__qualname__}", args={})


class _Given(NamedTuple):
    kind: type
    section: NamedPolicy
    """Made where the class was defined: a copy in another process has lost a part of its name."""


class PolicyClasses:
    """The classes among the policies of a sweep, by their names in its scenarios."""

    def __init__(self, packed: bytes = b"") -> None:
        self._classes: dict[str, _Given] = {}
        self._packed = packed
        """Those of another process, until they are needed: then a failure is that of a run."""

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scenario, overrides or a sweep with the name of each class in its place.

        Raises ScenarioError for a policy object, and for two classes of one name.
        """
        return {key: self._named(key, value) for key, value in values.items()}

    def _named(self, key: str, value: Any) -> Any:
        if key == "sweep" and isinstance(value, Mapping):
            return self.named(value)
        if key != "policy":
            return value
        if isinstance(value, list | tuple):
            return [self._named(key, one) for one in value]
        if isinstance(value, type):
            return self._add(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), type):
            return {**value, **self._add(value["name"])}
        if hasattr(value, "schedule"):
            kind = type(value).__name__
            raise ScenarioError(
                f"policy: an object of {kind}; every run of a sweep makes its own: give the class "
                f'{kind}, or {{"name": {kind}, "args": {{…}}}}'
            )
        return value

    def _add(self, kind: type) -> dict[str, Any]:
        section = recorded_as(kind)
        name = section.name.replace("<locals>", "locals")  # as a scenario may name an object
        if self._classes.setdefault(name, _Given(kind, section)).kind is not kind:
            raise ScenarioError(f"policy: two classes are called {name}; rename one of them")
        return {"name": name}

    def recorded(self, scenario: Scenario) -> Scenario:
        """Return the scenario as `run.json` records it."""
        given = self._given(scenario)
        if given is None:
            return scenario
        section = given.section.model_copy(update={"args": _arguments(scenario)})
        return scenario.model_copy(update={"policy": section})

    def policy_of(self, scenario: Scenario) -> tuple[Scenario, Policy | None]:
        """Return the scenario as recorded and a new policy, if its policy is one of the classes.

        Raises ScenarioError or PolicyError if that cannot be made, or is no policy.
        """
        given = self._given(scenario)
        policy = None
        if given is not None:
            policy = checked_policy(given.kind, arguments=deepcopy(_arguments(scenario)))
        return self.recorded(scenario), policy

    def _given(self, scenario: Scenario) -> _Given | None:
        if self._packed:
            self._classes, self._packed = pickle.loads(self._packed), b""
        section = scenario.policy
        return self._classes.get(section.name) if isinstance(section, NamedPolicy) else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process makes them of."""
        return PolicyClasses, (self._packed or _packed(self._classes),)


def _arguments(scenario: Scenario) -> dict[str, Any]:
    """Return the arguments of the class that the scenario names."""
    assert isinstance(scenario.policy, NamedPolicy)
    return dict(scenario.policy.args)


def _packed(classes: Mapping[str, _Given]) -> bytes:
    if not classes:
        return b""
    try:
        import cloudpickle
    except ImportError:
        for name, given in classes.items():
            if not _can_be_imported(given.kind):
                raise ScenarioError(
                    f"policy: {name} cannot be sent to other processes without cloudpickle; "
                    "install it (pip install cloudpickle), move the class to a file and write "
                    "{path: my_policy.py:Mine}, or use one worker"
                ) from None
        return pickle.dumps(classes)
    packed: bytes = cloudpickle.dumps(classes)
    return packed


def _can_be_imported(kind: type) -> bool:
    """Return whether a new process finds the class: not in a function, and not in a notebook."""
    module = sys.modules.get(kind.__module__)
    return hasattr(module, "__file__") and "<locals>" not in kind.__qualname__
