"""A trained model of another library as a policy: what it predicts in an environment, it does.

A model is what Stable-Baselines3 calls one: ``Algorithm.load(path)`` reads it, and
``predict(observation, …)`` returns an action and a memory, which the next call gets as ``state``.

policy: {model: trained.zip, algorithm: "sb3_contrib:MaskablePPO", args: {slots: 20}}

What wrappers made of observations in training is in `simkit.learning.model_policy.wrappers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simkit import plugins
from simkit.errors import PluginError, PolicyError, ScenarioError
from simkit.learning.actions import Actions
from simkit.learning.agent_view import AgentView
from simkit.learning.encoder import Encoder
from simkit.learning.env_arguments import action_number, check_settings, observation_space
from simkit.learning.model_policy.wrappers import Shown
from simkit.policy import Action, State, SystemInfo
from simkit.scenario import Scenario

_REMEDY = "give the arguments of the environment that it was trained in"


def load_model(
    path: Path,
    algorithm: str,
    arguments: Mapping[str, Any],
    scenario: Scenario,
    statistics: Path | None = None,
) -> ModelPolicy:
    """Return the policy of a saved model; this runs code, and so may the file.

    Args:
        path: the file that the algorithm's ``save`` wrote.
        algorithm: the class that saved it, ``package.module:Class`` or ``file.py:Class``.
        arguments: those of the environment, see `AgentView`.
        scenario: the scenario to run on.
        statistics: the file of the `VecNormalize` that it was trained behind, if any.

    Raises ScenarioError for wrong arguments, PluginError if class or file cannot be loaded,
    PolicyError if they are no algorithm and model.
    """
    what = f"policy: model {path.name!r}"
    view: AgentView = plugins.instantiate(what, AgentView, arguments)
    check_settings(view.slots, None, (), None)
    load = getattr(plugins.find("", algorithm), "load", None)
    if not callable(load):
        raise PolicyError(f"{what}: {algorithm} has no load(path); name the class that saved it")
    on_cpu = {"device": "cpu"} if "device" in _parameters(load) else {}  # as everywhere, bit by bit
    try:
        model = load(str(path), **on_cpu)
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(
            f"{what} cannot be loaded by {algorithm} ({reason}); name the class that saved it, or "
            "another file"
        ) from error
    return ModelPolicy(model, scenario, view, statistics, name=path.name)


class ModelPolicy:
    """A model as a policy: it sees and acts as in `SchedulingEnv`, and takes its likeliest action.

    ``predict`` is called with those of ``state``, ``episode_start``, ``action_masks`` and
    ``deterministic=True`` that it takes.
    """

    def __init__(
        self,
        model: Any,
        scenario: Scenario,
        view: AgentView,
        statistics: Any = None,
        *,
        name: str = "",
    ) -> None:
        """Take a model, the scenario and arguments of its environment, and `Shown`'s statistics.

        Raises PolicyError if the model has no ``predict``, or if what it was shown in training
        cannot be shown here.
        """
        self.name = name or type(model).__name__
        predict = getattr(model, "predict", None)
        if not callable(predict):
            raise PolicyError(
                f"policy: model {self.name!r} has no predict(observation) that returns an action "
                "and a memory or None; give a trained model or an object with this method"
            )
        self._shown = Shown(f"policy: model {self.name!r}", model, statistics)
        self._predict: Callable[..., Any] = predict
        self._takes = _parameters(predict)
        self._model, self._scenario, self._view = model, scenario, view

    def check_scenario(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from the environment's in slotted time, a line each."""
        mine = self._scenario
        stated = {"scheduling.step": (scenario.scheduling.step, mine.scheduling.step)}
        if mine.scheduling.step is not None:
            stated["admission.slots"] = (scenario.admission.slots, mine.admission.slots)
        return [
            f"policy: model {self.name!r}: {key} is {here or 'not set'} in the scenario, "
            f"{there or 'not set'} in the model's environment; use that, or make an environment of "
            "this scenario"
            for key, (here, there) in stated.items()
            if here != there
        ]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the model cannot run on a cluster, a line for each problem."""
        try:
            self._build(info)
        except ScenarioError as error:
            return [f"policy: model {self.name!r}: {text}" for text in error.problems]
        except PluginError as error:
            return [f"policy: model {self.name!r}: {error}"]
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return [f"policy: model {self.name!r}: {error} (in policy.args); {_REMEDY}"]
        return []

    def _build(self, info: SystemInfo) -> tuple[Actions, Encoder]:
        """Return actions and encoder; raises ScenarioError if they are not those of the model."""
        actions, encoder = self._view.build(self._scenario, info)
        shape = encoder.schema.shape
        example = self._shown(np.zeros(shape, np.float32), np.ones(actions.count, np.int8))
        space = getattr(self._model, "observation_space", None)
        if isinstance(example, Mapping):
            example, space = example["observation"], getattr(space, "spaces", {}).get("observation")
        found = {"observation_space.shape": example.shape, "action_space.n": actions.count}
        trained = {
            "observation_space.shape": getattr(space, "shape", None),
            "action_space.n": _inside(self._model, "action_space", "n"),
        }
        problems = [
            f"its {key} is {trained[key]}, here it is {here}; {_REMEDY}"
            for key, here in found.items()
            if trained[key] not in (None, here)
        ]
        if not problems and self._shown.as_it_is:
            problems = _other_range(space, observation_space(encoder.schema))
        if problems:
            raise ScenarioError(problems)
        return actions, encoder

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run; raises ScenarioError if the cluster does not suit the model."""
        self._actions, self._encoder = self._build(info)
        self._actions.reset(info)
        self._encoder.reset(info)
        self._memory: Any = None
        self._begins = True

    def schedule(self, state: State) -> Iterator[Action]:
        """Act as the model chooses, until nothing is asked or time goes on."""
        actions = self._actions
        actions.update(state)
        yield from actions.begin(state)
        while actions.asks(state):
            meant = actions.action_of(state, self._choose(state))
            if meant is not None:
                yield meant
                actions.update(state)
            elif actions.goes_on(state):
                break
        yield from actions.end(state)

    def _choose(self, state: State) -> int:
        """Return the next action."""
        offered: dict[str, Any] = {
            "state": self._memory, "episode_start": np.array([self._begins]), "deterministic": True,
        }  # fmt: skip
        mask = None
        if self._shown.needs_mask or "action_masks" in self._takes:
            mask = self._actions.mask(state)
            offered["action_masks"] = mask.view(np.bool_)
        given = {key: value for key, value in offered.items() if key in self._takes}
        seen = self._shown(self._encoder.encode(state), mask)
        action, self._memory = self._predict(seen, **given)
        self._begins = False
        return action_number(action)


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the parameters of a function; empty if nothing tells them."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _other_range(space: Any, here: Any) -> list[str]:
    """Return a problem if a model's space has another range than that of observations here.

    Where the highest number depends on the cluster, it may differ.
    """
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or np.shape(low) != here.low.shape:
        return []
    if np.array_equal(low, here.low) and not (np.isinf(high) & ~np.isinf(here.high)).any():
        return []
    return [
        f"its observations range from {np.min(low):g} to {np.max(high):g}, here from "
        f"{np.min(here.low):g} to {np.max(here.high):g}: it was trained behind a wrapper that "
        "changes observations, such as NormalizeObservation; take VecNormalize and give its file "
        "as `statistics`, or write a class with predict(observation) that does the same"
    ]


def _inside(model: Any, space: str, attribute: str) -> Any:
    return getattr(getattr(model, space, None), attribute, None)
