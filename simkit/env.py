"""A Gymnasium environment: `Simulation.decisions()` turned inside out.

    env = SchedulingEnv("deeprm")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(action)

How an agent plays an episode is said in `simkit.gym.agent_view.Play`.

Importing this module registers the ids of `simkit.gym.agent_view`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, SupportsFloat

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise ModuleNotFoundError(
        "simkit.env needs gymnasium, which is not installed; pip install 'simkit-cluster[gym]'",
        name="gymnasium",
    ) from error

from simkit.agent.encoder import ObservationSchema
from simkit.agent.rewards import make_reward
from simkit.errors import PluginError, ScenarioError, TraceError
from simkit.experiment import Experiment
from simkit.gym.agent_view import (
    EnvSettings,
    Play,
    ReplicaNumbers,
    action_number,
    autoreset_mode,
    check_replicas,
    checked_options,
    loaded_scenario,
    observation_space,
    register_envs,
    tighter,
)
from simkit.gym.episodes import Episode, Episodes, Loss
from simkit.gym.model_policy import ModelPolicy
from simkit.gym.windows import EpisodeWindows
from simkit.plugins import find
from simkit.policy import State
from simkit.results.run_folder import Run
from simkit.scenario.yaml_document import Source as ScenarioSource

Numbers = npt.NDArray[np.float32]

TRIES = 1000
"""Seeds that a reset tries, one after another, if they draw no job."""
_LIVE = frozenset({"_episode", "_reward", "_play", "_took", "_numbers"})
"""Attributes of an environment that are not copied, but made again."""


@dataclass(frozen=True)
class _Played:
    """An episode so far: what it began with, and what was done in it."""

    seed: int
    chosen: Mapping[str, Any]
    """Options of the reset."""
    actions: list[int] = field(default_factory=list)
    """One for each step."""


class SchedulingEnv(gymnasium.Env[Numbers, np.int64]):
    """A scenario that an agent schedules.

    Observations are those of an encoder; `schema` gives the meaning of each number. Actions are
    ``0 … M``; M is the void one. In a slotted scenario (`scheduling.step`) action m places
    the task in slot m at its earliest start within the horizon, now or later; otherwise it starts
    the m-th waiting task now, or makes it the head around which others backfill (`actions`).

    ``info`` has ``action_mask`` ((M + 1,) int8: 1 for actions that the
    agent may take), ``cost`` (jobs that ended in one of `cost` since the last step), and ``time_s``
    (on the trace's clock); after a reset also ``seed``, and with `episode` ``first_job``, the rank
    of the window's first job in the log; at the end also ``metrics`` (see
    `EpisodeRecorder.summary` and `Episode.run_metrics`, and ``decisions``: steps taken).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as declared by Gymnasium
        "render_modes": ["ansi"],
        "render_fps": 4,
    }

    def __init__(
        self,
        scenario: ScenarioSource = "deeprm",
        observation: str | None = None,
        reward: str | Mapping[str, float] = "slowdown",
        *,
        observation_arguments: Mapping[str, Any] | None = None,
        reward_arguments: Mapping[str, Any] | None = None,
        slots: int | None = None,
        horizon: int | None = None,
        max_length: int = 15,
        backlog_shown: int = 60,
        memory: int = 10,
        unit: float | Sequence[float] = 1.0,
        actions: str | None = None,
        action_arguments: Mapping[str, Any] | None = None,
        episode: Mapping[str, Any] | None = None,
        max_decisions: int | None = None,
        cost: Collection[Loss] = (),
        records: bool = False,
        metrics: Literal["summary", "run"] = "summary",
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        """Read the scenario and its trace; the first episode begins with `reset`.

        Args:
            scenario: a file, the name of a bundled scenario, a mapping as in a file, or a
                `Scenario`; its policy is ignored.
            observation: an encoder's name, or several joined by ``+``, see `make_encoder`; None:
                ``deeprm-compact`` in slotted time, else ``queue-table``, which shows any cluster.
            reward: a name, or name → weight; see `make_reward`.
            observation_arguments: arguments of the encoder.
            reward_arguments: arguments of the reward.
            slots: M; None: `admission.slots` of the scenario, or 10 outside of slotted time.
            horizon: steps ahead that are planned; None: 48 for a ready pool, else 20. The next four
                are for slotted scenarios.
            max_length: steps of the longest task.
            backlog_shown: tasks behind the slots that an observation can count.
            memory: the steps since the last arrival are counted up to this number.
            unit: amount of a resource in a unit, one number for all resources or one for each.
            actions: what an action does: ``slots`` in slotted time, else ``start``, ``next-head``
                or ``pick``, see `simkit.agent.actions`; ``classes`` or ``ready-pool``; None:
                ``slots`` or ``start``.
            action_arguments: arguments of the actions.
            episode: each episode replays a window of the log: ``jobs`` in a row, ``from``
                ``"train"``, ``"held_out"`` or ``"all"``, and what is ``held_out``; None: all jobs.
                See `EpisodeWindows`.
            max_decisions: truncate an episode after this many steps; None: never.
            cost: ends of jobs that ``info["cost"]`` counts: ``"killed"``, ``"rejected"``.
            records: keep the tables of each episode, for `records`.
            metrics: what ``info["metrics"]`` has at the end of an episode: a ``summary``, or all
                metrics that `simkit run` computes, which takes some 50 ms.
            render_mode: with ``"ansi"``, `render` returns a line of text.

        Raises ScenarioError, PluginError or TraceError, all of them `SimkitError`.
        """
        self.render_mode = render_mode
        self.scenario = loaded_scenario(scenario)
        self._view = EnvSettings(
            observation=observation, observation_arguments=observation_arguments, slots=slots,
            horizon=horizon, max_length=max_length, backlog_shown=backlog_shown, memory=memory,
            unit=unit, actions=actions, action_arguments=action_arguments,
            max_decisions=max_decisions, cost=cost,  # type: ignore[arg-type] # any collection becomes a tuple
            metrics=metrics, render_mode=render_mode,
        )  # fmt: skip
        windows = None if episode is None else EpisodeWindows.read(episode)
        self._episodes = Episodes(self.scenario, windows)
        self._rewarding = reward, reward_arguments
        self._reward = make_reward(reward, reward_arguments)
        self._max_decisions, self._cost, self._metrics = max_decisions, tuple(cost), metrics
        self._keeps_records = records or metrics == "run"
        first = Episode(self._episodes.prepare(self.scenario.seed), self._reward)
        self._system = first.state.info
        self._play = Play(*self._view.build(self.scenario, self._system))
        self.observation_space: spaces.Space[Numbers] = observation_space(self.schema)
        self.action_space = spaces.Discrete(self._play.actions.count)
        self._episode: Episode | None = None
        self._played: _Played | None = None
        self._numbers: ReplicaNumbers | None = None
        self._number: int | None = None

    def _unseeded(self) -> int:
        """Return the number that distinguishes unseeded environments; copies share it."""
        if self._number is None:
            self._numbers = ReplicaNumbers()
            self._number = self._numbers.numbers[0]
        return self._number

    def __getstate__(self) -> dict[str, Any]:
        """Return what the environment can be rebuilt from: arguments, and actions so far."""
        if self._np_random is None:
            self._unseeded()  # so that a copy begins with the episode that this one begins with
        return {name: value for name, value in self.__dict__.items() if name not in _LIVE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the environment again, and bring it to where it was by taking the same actions."""
        self.__dict__.update(state)
        self._reward = make_reward(*self._rewarding)
        self._play = Play(*self._view.build(self.scenario, self._system))
        self._episode = self._numbers = None
        if (played := self._played) is not None:
            experiment = self._episodes.prepare(played.seed, **played.chosen)
            SchedulingEnv._begin(self, experiment, played.chosen)
            for action in played.actions:
                SchedulingEnv.step(self, action)

    def __deepcopy__(self, memo: dict[int, Any]) -> SchedulingEnv:
        """Return a copy that goes on as this one would, and has its own generator of seeds.

        The actions of the running episode are taken again, so a copy takes as long as the steps
        so far; the trace and what else never changes is shared. `pickle` does the same, and reads
        the trace again.
        """
        options = {} if self._played is None else self._played.chosen
        frozen = [self.scenario, self._view, self._system, *options.values()]
        memo.update((id(one), one) for one in frozen)
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(deepcopy(self.__getstate__(), memo))
        return twin

    def __copy__(self) -> SchedulingEnv:
        """Return a deep copy: two environments cannot share a simulation."""
        return deepcopy(self)

    @property
    def schema(self) -> ObservationSchema:
        """The meaning, range and unit of each number of an observation."""
        return self._play.encoder.schema

    @property
    def void(self) -> int:
        """The action that lets time go on."""
        return self._play.actions.count - 1

    @property
    def state(self) -> State:
        """The system as a policy sees it, for heuristics that act through `step`.

        Raises ResetNeeded before the first reset.
        """
        return self._running().state

    def _running(self) -> Episode:
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset first")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Numbers, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: replaces the scenario's, as ``simkit run --seed`` does. None: one that is drawn
                after the last seed given. If none was given yet, the scenario's, plus 0, 1, … for
                environments that live at the same time, so that replicas differ.
            options: ``{"workload": Workload}`` to replay other jobs, ``{"original_set": k}`` for
                one of DeepRM's original job sets, or ``{"first_job": k}`` for the window that
                begins with the job of this rank.

        Returns:
            The observation of the first decision, and ``info``.

        Raises ScenarioError for an unknown option, TraceError if the given seed draws no job.
        """
        chosen = checked_options(options, has_windows=self._episodes.windows is not None)
        self.close()
        unseeded = seed is None
        if seed is None and self._np_random is None:
            seed = self.scenario.seed + self._unseeded()
        super().reset(seed=seed)
        return self._begin(self._drawn(chosen, seed, skip=unseeded), chosen)

    def _begin(
        self, experiment: Experiment, chosen: Mapping[str, Any]
    ) -> tuple[Numbers, dict[str, Any]]:
        """Begin an episode; return its first observation and info."""
        windows = self._episodes.windows
        episode = Episode(experiment, self._reward, records=self._keeps_records, losses=self._cost)
        self._episode, self._over, self._lost = episode, False, 0
        self._played = _Played(experiment.scenario.seed, chosen)
        self._took = self._played.actions
        self._play.begin(episode)
        info = self._info(episode)
        info["seed"] = drawn = experiment.scenario.seed
        if windows is not None and "workload" not in chosen:
            info["first_job"] = chosen.get("first_job", windows.drawn(drawn))
        return self._play.observe(), info

    def _drawn(self, chosen: Mapping[str, Any], seed: int | None, *, skip: bool) -> Experiment:
        """Return the experiment of a seed, None: of a random one.

        With `skip`, random ones follow a seed that draws no job.
        """
        for left in reversed(range(TRIES)):
            if seed is None:
                seed = int(self.np_random.integers(2**31))
            try:
                return self._episodes.prepare(seed, **chosen)
            except TraceError:
                if not (skip and left):
                    raise
            seed = None
        raise AssertionError("the last try returns or raises")

    def step(self, action: np.int64 | int) -> tuple[Numbers, float, bool, bool, dict[str, Any]]:
        """Act once.

        Returns:
            observation, reward, ``terminated`` (every job has ended, or nothing more will happen;
            jobs that wait then count as unfinished), ``truncated`` (after `max_decisions` steps, or
            as `limits.simulated_time` of the scenario is over), and ``info``.

        Raises PolicyError for a number that is not an action, ResetNeeded if no episode is running.
        """
        episode = self._episode or self._running()
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset")
        play, number = self._play, action_number(action)
        reward = play.step(number)
        self._took.append(number)
        terminated = not play.asked and not episode.out_of_time
        truncated = episode.out_of_time or (play.asked and len(self._took) == self._max_decisions)
        if truncated:
            episode.close()
        info = self._info(episode)
        if terminated or truncated:
            self._over = True
            info["metrics"] = {**episode.summary(), "decisions": len(self._took)}
            if self._metrics == "run":
                info["metrics"] |= episode.run_metrics()
        return play.observe(), reward, terminated, truncated, info

    def _info(self, episode: Episode) -> dict[str, Any]:
        cost = 0.0
        if self._cost:
            lost = episode.lost()
            cost, self._lost = float(lost - self._lost), lost
        return {"action_mask": self._play.mask(), "cost": cost, "time_s": episode.state.now}

    def action_masks(self) -> Bools:
        """Return (M + 1,) ``info["action_mask"]`` as truth values, under sb3-contrib's name."""
        self._running()
        return self._play.mask().view(np.bool_)

    def policy(self, model: Any, statistics: Any = None) -> ModelPolicy:
        """Return a model that was trained here as a policy, for `simkit.simulate`.

        What wrappers of the model's own environment do to observations is done here as well, or
        refused: those of `VecNormalize` and `NormalizeObservation`, with their statistics, masks,
        and observation wrappers that look at the present observation alone. See `ModelPolicy`.

        Args:
            model: has ``predict``, as those of Stable-Baselines3; it sees this environment's
                observations.
            statistics: for a model that was loaded without its environment: the file that
                ``VecNormalize.save`` wrote, or an object with ``normalize_obs``.

        A scenario with another `scheduling.step` is refused, and in slotted time one with other
        `admission.slots`. Raises PolicyError if the model has no ``predict``, or was shown what
        cannot be shown here, PluginError for a file that holds no statistics.
        """
        return ModelPolicy(model, self.scenario, self._view, statistics)

    def records(self) -> Run:
        """Return the tables of the ended episode: ``jobs``, ``allocations``, ….

        Raises RunError unless it is over and `records` was set.
        """
        return self._running().records()

    def render(self) -> str | None:
        """Return a line of text on the present state; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        state = self.state
        free = ", ".join(
            f"{amount:g} {name}"
            for name, amount in zip(state.info.resources, state.room.total_free(), strict=True)
        )
        return (
            f"{state.now:g} s: {len(state.queue)} waiting, {state.backlog} behind them, "
            f"{len(state.reservations)} reserved, {len(state.running)} running; free: {free}"
        )

    def close(self) -> None:
        """Drop the episode."""
        self._episode = self._played = None


class MaskedObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observation has the mask as well, for libraries that look for it there.

    An observation is a mapping: ``observation``, and ``action_mask`` as in `info`.
    """

    def __init__(self, env: gymnasium.Env[Numbers, np.int64]) -> None:
        """Wrap one of simkit's environments."""
        super().__init__(env)
        assert isinstance(env.action_space, spaces.Discrete)  # as all of simkit's are
        mask = spaces.MultiBinary(int(env.action_space.n))
        self.observation_space = spaces.Dict(
            {"observation": env.observation_space, "action_mask": mask}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return {"observation": observation, "action_mask": info["action_mask"]}, info

    def step(
        self, action: np.int64
    ) -> tuple[dict[str, Any], SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        seen = {"observation": observation, "action_mask": info["action_mask"]}
        return seen, reward, terminated, truncated, info


def vector_env(
    num_envs: int = 1, *, max_episode_steps: int | None = None, **arguments: Any
) -> VectorEnv[Any, Any, Any]:
    """Return an environment of many replicas, for `gymnasium.make_vec`.

    It is the one that an installed package declares as the tool ``env.vector``, which plays
    DeepRM's model; or, with a warning, `SyncVectorEnv` over single environments if that does not
    know the arguments.

    Args:
        num_envs: replicas.
        max_episode_steps: Gymnasium's name for `max_decisions`; the smaller one counts. None or -1:
            no limit.
        arguments: of `SchedulingEnv`, and ``autoreset_mode``.

    Raises ScenarioError as `SchedulingEnv` does.
    """
    check_replicas(num_envs)
    mode = autoreset_mode(arguments.pop("autoreset_mode", AutoresetMode.NEXT_STEP))
    if max_episode_steps is not None:
        arguments["max_decisions"] = tighter(arguments.get("max_decisions"), max_episode_steps)
    try:
        make = find("simkit.tools", "env.vector")
        fast: VectorEnv[Any, Any, Any] = make(num_envs, autoreset_mode=mode, **arguments)
    except (PluginError, ScenarioError) as error:
        make_one = partial(SchedulingEnv, **arguments)
        singles = SyncVectorEnv([make_one] * num_envs, autoreset_mode=mode)
        warnings.warn(
            f"{num_envs} environments are stepped one after another, since the fast one cannot "
            f"be had: {error}",
            stacklevel=2,
        )
        return singles
    return fast


register_envs()
