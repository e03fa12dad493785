"""A trained model of another library as a policy: what it predicts in an environment, it does.

A model is what Stable-Baselines3 calls one: ``Algorithm.load(path)`` reads it, and
``predict(observation, …)`` returns an action and a memory, which the next call gets as ``state``.

policy: {model: trained.zip, algorithm: "sb3_contrib:MaskablePPO", args: {slots: 20}}

A model of Stable-Baselines3 knows the vector environment that it was trained in, and so its
wrappers. What they do to an observation is done here as well, or refused in words; a model that was
read from a file knows no environment, but what it was shown last.
"""

from __future__ import annotations

import inspect
import pickle
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit import plugins
from simkit.agent.actions import Actions
from simkit.agent.encoder import Encoder
from simkit.errors import PluginError, PolicyError, ScenarioError
from simkit.gym.agent_view import (
    AgentView,
    action_number,
    changing_wrappers,
    observation_space,
)
from simkit.policy import Action, State, SystemInfo
from simkit.scenario import Scenario

Step = Callable[[Any, Any], Any]
"""Returns what a wrapper makes of an observation, given that and the mask of actions."""

_HARMLESS: Final = frozenset({
    "gymnasium.wrappers.common.TimeLimit",
    "gymnasium.wrappers.common.OrderEnforcing",
    "gymnasium.wrappers.common.PassiveEnvChecker",
    "gymnasium.wrappers.common.Autoreset",
    "gymnasium.wrappers.common.RecordEpisodeStatistics",
    "gymnasium.wrappers.rendering.RecordVideo",
    "gymnasium.wrappers.rendering.HumanRendering",
    "gymnasium.wrappers.rendering.RenderCollection",
    "gymnasium.wrappers.stateful_reward.NormalizeReward",
    "gymnasium.wrappers.vector.common.RecordEpisodeStatistics",
    "gymnasium.wrappers.vector.dict_info_to_list.DictInfoToList",
    "gymnasium.wrappers.vector.rendering.RecordVideo",
    "gymnasium.wrappers.vector.rendering.HumanRendering",
    "gymnasium.wrappers.vector.stateful_reward.NormalizeReward",
    "gymnasium.core.RewardWrapper",
    "gymnasium.vector.vector_env.VectorRewardWrapper",
    "sb3_contrib.common.wrappers.action_masker.ActionMasker",
    "stable_baselines3.common.monitor.Monitor",
    "stable_baselines3.common.vec_env.vec_check_nan.VecCheckNan",
    "stable_baselines3.common.vec_env.vec_monitor.VecMonitor",
    "stable_baselines3.common.vec_env.vec_video_recorder.VecVideoRecorder",
})  # fmt: skip
"""Wrappers, and bases of wrappers, that change neither observations nor actions."""
_VIEWS: Final = "gymnasium.core.ObservationWrapper"
_ACTIONS: Final = (
    "gymnasium.core.ActionWrapper",
    "gymnasium.vector.vector_env.VectorActionWrapper",
)
_SHIFTS: Final = (
    "gymnasium.wrappers.stateful_observation.NormalizeObservation",
    "gymnasium.wrappers.vector.stateful_observation.NormalizeObservation",
)
_REPEATS: Final = "gymnasium.wrappers.stateful_action."
_REMEMBERS: Final = "gymnasium.wrappers.stateful_observation."
_REMEDY: Final = (
    "train without it, or write a class with predict(observation) that does the same before it "
    "asks the model"
)


class Shown:
    """What a model is shown of the environment's observations.

    Attributes:
        needs_mask: whether the mask of actions is a part of it.
    """

    def __init__(self, what: str, model: Any, statistics: Any = None) -> None:
        """Find the wrappers of a model's environment, from the inside out.

        Args:
            what: the model, for messages.
            model: has ``env``, its vector environment, if it is one of Stable-Baselines3.
            statistics: has ``normalize_obs``, as `VecNormalize`, and takes the place of the model's
                own; or the file that ``VecNormalize.save`` wrote; None: the model's own, if any.

        Raises PolicyError for wrappers that cannot be applied, and a model that was shown other
        numbers than the environment's, without a record of which; PluginError for a wrong file.
        """
        self._what, self._model = what, model
        self.needs_mask = False
        given = None if statistics is None else _statistics(what, statistics)
        *layers, base = _layers(model)
        steps = [self._step_of(one, given) for one in reversed(layers)]
        self._refuse_hidden(base)
        key = None if self.needs_mask else _mask_key(model, base)
        self._steps = [one for one in (self._masked(key), *steps) if one is not None]
        if given is not None:
            self._steps.append(_normalised(given))
        elif not any(steps):
            self._refuse_unexplained()

    @property
    def as_it_is(self) -> bool:
        """Whether the model is shown the environment's observation itself."""
        return not self._steps

    def __call__(self, observation: Any, mask: Any) -> Any:
        """Return what the model is shown, given an observation and the (M + 1,) mask."""
        for step in self._steps:
            observation = step(observation, mask)
        return observation

    def _step_of(self, wrapper: Any, statistics: Any) -> Step | None:
        """Return what a wrapper does to observations; None if nothing."""
        names = [f"{base.__module__}.{base.__qualname__}" for base in type(wrapper).__mro__]
        last = type(wrapper).__name__
        if _HARMLESS.intersection(names):
            return None
        if any(name in names for name in _ACTIONS):
            raise self._error(f"behind {last}, which changes actions")
        if "simkit.env.MaskedObservation" in names:
            return self._masked("action_mask")
        if hasattr(wrapper, "mask_key"):  # simkit's own vector environment for this library
            return self._masked(wrapper.mask_key)
        if callable(getattr(wrapper, "normalize_obs", None)):
            return None if statistics is not None else _normalised(wrapper)
        if any(name in names for name in _SHIFTS):
            return self._shifted(wrapper)
        if last == "VecExtractDictObs":
            return lambda seen, _: seen[wrapper.key]
        if names[0].startswith(_REMEMBERS) or last == "VecFrameStack":
            raise self._error(f"behind {last}, which shows more than the present observation")
        if _VIEWS in names:
            return lambda seen, _: wrapper.observation(seen)
        inner = getattr(wrapper, "env", None) or getattr(wrapper, "venv", None)
        if getattr(inner, "observation_space", None) != wrapper.observation_space:
            raise self._error(f"behind {last}, which changes observations")
        if names[0].startswith(_REPEATS):
            raise self._error(f"behind {last}, which changes actions")
        warnings.warn(
            f"{self._what} was trained behind {last}; if it changes observations or actions, the "
            f"model decides otherwise here, where they are the environment's: {_REMEDY}",
            stacklevel=2,
        )
        return None

    def _refuse_hidden(self, base: Any) -> None:
        """Raise PolicyError for wrappers of environments in processes, which cannot be applied."""
        ask = getattr(base, "env_is_wrapped", None)
        if not callable(ask) or getattr(base, "envs", None) is not None:
            return
        if any(hidden for kind in changing_wrappers() for hidden in ask(kind)):
            raise self._error(
                "in processes, behind a wrapper that changes observations or actions there",
                "take VecNormalize around all processes, or train in one process",
            )

    def _masked(self, key: str | None) -> Step | None:
        if key is None:
            return None
        self.needs_mask = True
        return lambda seen, mask: {"observation": seen, key: mask}

    def _shifted(self, wrapper: Any) -> Step:
        """Return the shift and scale of Gymnasium's wrapper; its statistics stay as they are."""
        if wrapper_count(self._model) > 1 and not hasattr(wrapper, "num_envs"):
            raise self._error(
                "in several replicas, each with statistics of its own in NormalizeObservation",
                "take VecNormalize around all of them, which has one for all",
            )
        seen_so_far, least = wrapper.obs_rms, wrapper.epsilon

        def shifted(seen: Any, _: Any) -> Any:
            return np.float32((seen - seen_so_far.mean) / np.sqrt(seen_so_far.var + least))

        return shifted

    def _refuse_unexplained(self) -> None:
        """Raise PolicyError if what the model was shown last is not in its observation space."""
        space, last = (getattr(self._model, n, None) for n in ("observation_space", "_last_obs"))
        for part, seen in _parts(space, last):
            low, high = getattr(part, "low", None), getattr(part, "high", None)
            if low is None or high is None:
                continue
            numbers = np.asarray(seen, dtype=np.float64)
            if numbers.shape[1:] == part.shape and ((numbers < low) | (numbers > high)).any():
                raise self._error(
                    f"on numbers from {numbers.min():.3g} to {numbers.max():.3g}, where the "
                    f"environment's lie between {low.min():g} and {high.max():g}: behind "
                    "VecNormalize, or another wrapper that changes observations",
                    "give the file that VecNormalize.save wrote as `statistics`, or write a class "
                    "with predict(observation) that does the same",
                )

    def _error(self, how: str, remedy: str = _REMEDY) -> PolicyError:
        return PolicyError(f"{self._what} was trained {how}; {remedy}")


def wrapper_count(model: Any) -> int:
    """Return in how many replicas a model was trained; 1 if unknown."""
    return int(getattr(getattr(model, "env", None), "num_envs", 1))


def _layers(model: Any) -> Iterator[Any]:
    """Yield the wrappers of a model's environment, the outermost first, and then what is inside.

    The first of several replicas stands for all.
    """
    layer: Any = getattr(model, "env", None)
    while True:
        if getattr(layer, "venv", None) is not None:
            inner = layer.venv
        elif hasattr(layer, "mask_key"):
            inner = layer.envs
        elif _is_gymnasium(layer, "Wrapper") or _is_gymnasium(layer, "VectorWrapper"):
            inner = layer.env
        elif isinstance(replicas := getattr(layer, "envs", None), list | tuple) and replicas:
            layer = replicas[0]
            continue
        else:
            break
        yield layer
        layer = inner
    yield layer


def _mask_key(model: Any, base: Any) -> str | None:
    """Return the mask's name where observations are a mapping of observation and mask."""
    count = getattr(getattr(model, "action_space", None), "n", None)
    for owner in (base, model):
        spaces = getattr(getattr(owner, "observation_space", None), "spaces", None)
        if isinstance(spaces, Mapping) and len(spaces) == 2 and "observation" in spaces:
            name = next(name for name in spaces if name != "observation")
            if getattr(spaces[name], "shape", None) == (count,):
                return str(name)
    return None


def _is_gymnasium(layer: Any, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.startswith("gymnasium.")
        for base in type(layer).__mro__
    )


def _normalised(statistics: Any) -> Step:
    return lambda seen, _: statistics.normalize_obs(seen)


def _statistics(what: str, given: Any) -> Any:
    """Return what has ``normalize_obs``: the object that is given, or what a file holds."""
    found = given
    if isinstance(given, str | Path):
        try:
            found = pickle.loads(Path(given).read_bytes())
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise PluginError(
                f"{what}: statistics {str(given)!r} cannot be read ({reason}); give the file that "
                "VecNormalize.save wrote"
            ) from error
    if not callable(getattr(found, "normalize_obs", None)):
        raise PolicyError(
            f"{what}: statistics is a {type(found).__name__} without normalize_obs(observation); "
            "give a VecNormalize, or the file that VecNormalize.save wrote"
        )
    return found


def _parts(space: Any, seen: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a space with what was seen of each."""
    if isinstance(seen, Mapping):
        spaces = getattr(space, "spaces", {})
        yield from ((spaces[name], seen[name]) for name in seen if name in spaces)
    elif seen is not None:
        yield space, seen


_SAME_ARGUMENTS = "give the arguments of the environment that it was trained in"


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
    try:
        view = AgentView(**arguments)
    except ScenarioError as error:
        own = [text.replace("environment", "policy.args", 1) for text in error.problems]
        raise ScenarioError(own) from None
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


def entries(scenario: Scenario, keys: Iterable[str]) -> dict[str, Any]:
    """Return the values that dotted keys have in a scenario, lists as lists."""
    found = {key: reduce(getattr, key.split("."), scenario) for key in keys}
    return {key: [*value] if isinstance(value, tuple) else value for key, value in found.items()}


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value or "not set")


class ViewPolicy(ABC):
    """A policy that sees and acts as an agent does in `SchedulingEnv`.

    Attributes:
        called: what messages call it.
        remedy: what helps where it cannot run.
        requires: dotted key of a scenario → the value that it must have, as where it was trained.
    """

    called: str
    remedy: str
    requires: Mapping[str, Any]

    @abstractmethod
    def build(self, info: SystemInfo) -> tuple[Actions, Encoder]:
        """Return actions and encoder; raises ScenarioError if the cluster does not suit them."""

    @abstractmethod
    def choose(self, state: State) -> int:
        """Return the number of the next action."""

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from that of the training, a line each."""
        return [
            f"{key} is {_shown(here)} in the scenario, {_shown(self.requires[key])} where it was "
            "trained; use that, or train one on this scenario"
            for key, here in entries(scenario, self.requires).items()
            if here != self.requires[key]
        ]

    def check_scenario(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from that of the training, a line each with its name."""
        return [f"{self.called}: {text}" for text in self.differences(scenario)]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why it cannot run on a cluster, a line for each problem."""
        try:
            self._begin(info)
        except ScenarioError as error:
            return [f"{self.called}: {text}" for text in error.problems]
        except PluginError as error:
            return [f"{self.called}: {error}"]
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return [f"{self.called}: {error}; {self.remedy}"]
        return []

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run; raises ScenarioError if the cluster does not suit the agent."""
        if problems := self.check_cluster(info):
            raise ScenarioError(problems)

    def _begin(self, info: SystemInfo) -> None:
        self.actions, self.encoder = self.build(info)
        self.actions.reset(info)
        self.encoder.reset(info)

    def schedule(self, state: State) -> Iterator[Action]:
        """Act as the agent chooses, until nothing is asked or time goes on."""
        actions = self.actions
        actions.update(state)
        yield from self._followed(actions.begin(state), state)
        while actions.asks(state):
            meant = actions.action_of(state, self.choose(state))
            if meant is not None:
                yield from self._followed((meant,), state)
            elif actions.goes_on(state):
                break
        yield from self._followed(actions.end(state), state)

    def _followed(self, several: Iterable[Action], state: State) -> Iterator[Action]:
        for action in several:
            yield action
            self.actions.update(state)


class ModelPolicy(ViewPolicy):
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
        self.called, self.remedy = (
            f"policy: model {self.name!r}",
            f"in policy.args: {_SAME_ARGUMENTS}",
        )
        predict = getattr(model, "predict", None)
        if not callable(predict):
            raise PolicyError(
                f"{self.called} has no predict(observation) that returns an action "
                "and a memory or None; give a trained model or an object with this method"
            )
        self._shown = Shown(self.called, model, statistics)
        self._predict: Callable[..., Any] = predict
        self._takes = _parameters(predict)
        self._model, self._scenario, self._view = model, scenario, view
        slotted = scenario.scheduling.step is not None
        keys = ("scheduling.step", "admission.slots") if slotted else ("scheduling.step",)
        self.requires = entries(scenario, keys)

    def build(self, info: SystemInfo) -> tuple[Actions, Encoder]:
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
            "action_space.n": getattr(getattr(self._model, "action_space", None), "n", None),
        }
        problems = [
            f"its {key} is {trained[key]}, here it is {here}; {_SAME_ARGUMENTS}"
            for key, here in found.items()
            if trained[key] not in (None, here)
        ]
        if not problems and self._shown.as_it_is:
            problems = _other_range(space, observation_space(encoder.schema))
        if problems:
            raise ScenarioError(problems)
        return actions, encoder

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._memory: Any = None
        self._begins = True

    def choose(self, state: State) -> int:
        offered: dict[str, Any] = {
            "state": self._memory, "episode_start": np.array([self._begins]), "deterministic": True,
        }  # fmt: skip
        mask = None
        if self._shown.needs_mask or "action_masks" in self._takes:
            mask = self.actions.mask(state)
            offered["action_masks"] = mask.view(np.bool_)
        given = {key: value for key, value in offered.items() if key in self._takes}
        seen = self._shown(self.encoder.encode(state), mask)
        action, self._memory = self._predict(seen, **given)
        self._begins = False
        return action_number(action)


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the parameters of a function; empty if they are unknown."""
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
