"""The environment `simkit.env` for many replicas of DeepRM at once, on the lock-step model.

    envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=256)
    observations, infos = envs.reset(seed=0)
    observations, rewards, terminations, truncations, infos = envs.step(actions)

Spaces, observations, masks, rewards, costs, job sets and metrics are those of
`gymnasium.vector.SyncVectorEnv` over as many `SchedulingEnv` under the same seeds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from simkit.agent.encoder import Numbers
from simkit.agent.observe_slots import SLOT_ENCODERS, SlotEncoder
from simkit.agent.rewards import make_reward
from simkit.agent.slotted import Slotted, SlottedView
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError, did_you_mean
from simkit.gym.agent_view import (
    AgentView,
    EnvSettings,
    ReplicaNumbers,
    check_replicas,
    loaded_scenario,
    observation_space,
)
from simkit.gym.agent_view import autoreset_mode as checked_mode
from simkit.gym.episodes import Episode, Episodes, Loss
from simkit.learners.lockstep import Lockstep, Objective
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import SlotJobs
from simkit.learners.lockstep.outcome import summary
from simkit.learners.lockstep.seeded_jobs import SeededJobs
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import Source as ScenarioSource
from simkit.traces.models.deeprm import DeepRMModel
from simkit.traces.models.synthetic import DrawnSets

REWARDS: Mapping[str, Objective] = {"slowdown": "slowdown", "completion-time": "completion"}
"""Rewards by name, and what they are called in the lock-step model."""
SHAPES = set(AgentView.model_fields) - {"observation", "observation_arguments"}
"""Arguments that shape what is seen, which may have any value."""
SINGLE: Mapping[str, Any] = {
    "observation_arguments": None, "reward_arguments": None, "episode": None, "records": False,
    "metrics": "summary", "render_mode": None,
}  # fmt: skip
"""Arguments that `SchedulingEnv` alone knows, with its defaults; here they have no other value."""
Step = tuple[Numbers, Floats, Bools, Bools, dict[str, Any]]


class LockstepVectorEnv(VectorEnv[Numbers, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """N replicas of a DeepRM scenario; each goes on to its next episode by itself.

    What follows the end of an episode depends on ``metadata["autoreset_mode"]``. In ``NextStep``,
    Gymnasium's default, the last observation is returned; the next `step` ignores the replica's
    action, and returns the first observation of its next episode, with reward 0. In ``SameStep``
    the first observation of the next episode is returned at once, and the last one is in
    ``infos["final_obs"]``, with its own infos in ``infos["final_info"]``.

    ``infos`` has the keys of `SchedulingEnv`, each an array over the replicas, and with an
    underscore in front whose numbers they are: ``action_mask`` (N, M + 1), ``cost``, ``time_s``,
    after resets ``seed``, at ends ``metrics``.
    """

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioSource = "deeprm",
        observation: str | None = None,
        reward: str = "slowdown",
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_decisions: int | None = None,
        cost: Collection[Loss] = (),
        **shape: Any,
    ) -> None:
        """Make N = `num_envs` replicas; their first episodes begin with `reset`.

        Args:
            num_envs: N.
            scenario: of DeepRM's workload on one pool; for this and the others see `SchedulingEnv`.
            observation: one of `SLOT_ENCODERS`, by default ``deeprm-compact``.
            reward: one of `REWARDS`.
            autoreset_mode: ``NextStep`` or ``SameStep``, see above.
            max_decisions: truncate an episode after this many steps; None: never.
            cost: ends of jobs that ``infos["cost"]`` counts; none is ever killed here.
            **shape: what else shapes the observation: ``horizon``, ``max_length``, …; further
                arguments of `SchedulingEnv` may be given with their defaults.

        Raises ScenarioError, all problems at once, for arguments that the lock-step model does not
        know; `SchedulingEnv` may know them.
        """
        check_replicas(num_envs)
        mode = checked_mode(autoreset_mode)
        view = _settings(shape, observation=observation, max_decisions=max_decisions, cost=cost)
        chosen = loaded_scenario(scenario)
        episode = Episode(Episodes(chosen).prepare(chosen.seed), make_reward("slowdown"))
        actions, encoder = view.build(chosen, episode.state.info)
        problems = [*_beyond(shape), *_problems(chosen, mode, encoder.schema.name, reward)]
        if problems:
            raise ScenarioError([f"lock-step environment: {text}" for text in problems])
        if not isinstance(chosen.workload, DeepRMModel):
            raise ScenarioError(
                f"workload.type: the lock-step environment takes deeprm, not {chosen.workload.type}"
            )
        source = SlotJobs(chosen, "the lock-step environment", horizon=view.steps_ahead)
        assert isinstance(encoder, SlotEncoder)  # as `SLOT_ENCODERS` are
        model = encoder.tracker.model
        _check_same_pool(model, source.model)
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.num_envs, self._next_step = num_envs, mode is AutoresetMode.NEXT_STEP
        self.schema = encoder.schema
        """The meaning, range and unit of each number of an observation."""
        self.single_observation_space = observation_space(encoder.schema)
        self.single_action_space = Discrete(actions.count)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._counts_lost = "rejected" in cost
        self._jobs, self._seed = SeededJobs(chosen.workload), chosen.seed
        empty = JobSets.empty(num_envs, self._jobs.most, model.resources)
        self._games = Lockstep(model, empty, 1, REWARDS[reward], max_decisions, endless=True)
        self._lost = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, np.bool_)  # ended; to begin again with the next step
        self._begun = False

    @property
    def jobs(self) -> JobSets:
        """N job sets: those that are being played."""
        return self._games.sets

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Numbers, dict[str, Any]]:
        """Begin an episode in every replica.

        Args:
            seed: s: replica n plays what `SchedulingEnv` plays after ``reset(seed=s + n)``, now
                and in its later episodes; or a seed for each replica. None: each replica goes on
                to its next episode; at first, seeds are those of `SchedulingEnv` without one.
            options: None; the job sets are those of the seeds.

        Returns:
            (N, …) observations, and ``infos``.

        Raises ScenarioError for options or wrong seeds, NoJobsError if a given seed draws no job.
        """
        if options:
            raise ScenarioError(
                f"options of reset: {', '.join(map(repr, options))} cannot be given to the "
                'lock-step environment; take vectorization_mode="sync"'
            )
        everyone = np.arange(self.num_envs)
        if seed is None:
            if not self._begun:
                self._numbers = ReplicaNumbers(self.num_envs)
                self._jobs.reset_unseeded([self._seed + n for n in self._numbers.numbers])
            seeds, sets = self._jobs.next_sets(everyone.tolist())
        else:
            given = self._seeds(seed)
            seeds, sets = np.array(given, np.int64), self._jobs.reset(given)
        self._begun = True
        self._over[:] = False
        self._lost[:] = 0
        self._games.begin(everyone, sets)
        return self._observed(), self._infos() | {
            "seed": seeds,
            "_seed": np.ones(self.num_envs, np.bool_),
        }

    def _seeds(self, seed: object) -> list[int]:
        """Return a seed for each replica; raises ScenarioError for what is none."""
        given: list[Any] = [seed]
        if _is_seed(seed):
            given = [int(seed) + n for n in range(self.num_envs)]
        elif isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str | bytes):
            given = list(seed)
        if wrong := [one for one in given if not _is_seed(one)]:
            raise ScenarioError(
                f"reset: seed is {wrong[0]!r}; it must be a whole number from 0 to 2**63 - 1, or a "
                "list of one such number for each replica"
            )
        if len(given) != self.num_envs:
            raise ScenarioError(
                f"reset: there are {len(given)} seeds for {self.num_envs} replicas; give one for "
                "each, or one number"
            )
        return [int(one) for one in given]

    def step(self, actions: npt.ArrayLike) -> Step:
        """Take (N,) actions; those that are refused change nothing.

        Returns:
            (N, …) observations, (N,) rewards, (N,) terminations, (N,) truncations, and ``infos``.

        Raises PolicyError for numbers that are not actions, ResetNeeded before the first reset.
        """
        if not self._begun:
            raise ResetNeeded("no episode has begun; call reset first")
        games, waits = self._games, self._over
        fresh = waits.nonzero()[0]
        infos: dict[str, Any] = {}
        if len(fresh):
            actions = games.checked(actions, ignored=waits)  # before anything changes
            infos, sets = self._next_sets(fresh)
            games.begin_with_next_step(fresh, sets)
        rewards = games.step(actions)
        rewards[fresh] = 0.0
        over, some = games.over, bool(games.over.any())
        terminations = over & games.done() if some else over.copy()
        truncations = over & ~terminations
        observations, infos = self._observed(), infos | self._infos()
        if some and self._next_step:
            infos |= self._metrics(over)
        elif some:
            infos |= self._renewed(over, observations, infos)
        if self._next_step:
            self._over = over
        return observations, rewards, terminations, truncations, infos

    def _next_sets(self, replicas: Ints) -> tuple[dict[str, Any], DrawnSets]:
        """Return the seeds of the next episodes of some replicas, as infos, and their job sets."""
        seeds, sets = self._jobs.next_sets(replicas.tolist())
        self._lost[replicas] = 0
        return self._at(replicas, "seed", seeds), sets

    def _renewed(self, over: Bools, observations: Numbers, infos: dict[str, Any]) -> dict[str, Any]:
        """Begin other episodes at once, and write what is seen there over the ends of these.

        Returns:
            Infos on the ends, and the new seeds.
        """
        rows = np.flatnonzero(over)
        last = np.full(self.num_envs, None, object)
        for row in rows.tolist():
            last[row] = observations[row].copy()
        final = {name: _only(rows, values) for name, values in infos.items()} | self._metrics(over)
        seeds, sets = self._next_sets(rows)
        self._games.begin(rows, sets)
        observations[rows] = self._observed(rows)
        for name, values in self._infos(rows).items():
            infos[name][rows] = values
        return seeds | {
            "final_obs": last, "_final_obs": over.copy(),
            "final_info": final, "_final_info": over.copy(),
        }  # fmt: skip

    def _observed(self, rows: Ints | None = None) -> Numbers:
        """Return (N, …) observations, or those of some replicas."""
        view, chosen = self._games.view(), slice(None) if rows is None else rows
        if rows is not None:
            view = SlottedView(
                view.occupied[rows], view.length[rows], view.size[rows], view.backlog[rows],
                view.since_arrival[rows],
            )  # fmt: skip
        games = self._games
        return SLOT_ENCODERS[self.schema.name].numbers_of(
            view, games.model, lambda: games.slot_facts().take(chosen)
        )

    def _infos(self, rows: Ints | None = None) -> dict[str, Any]:
        """Return the infos of every step, for all replicas or for some."""
        games, chosen = self._games, slice(None) if rows is None else rows
        mask, now = games.mask()[chosen], games.now[chosen]
        cost = np.zeros(len(now))
        if self._counts_lost:
            lost = games.rejected[chosen]
            cost += lost - self._lost[chosen]
            self._lost[chosen] = lost
        facts = {"action_mask": mask.view(np.int8), "cost": cost, "time_s": now.astype(np.float64)}
        return facts | {f"_{name}": np.ones(len(now), np.bool_) for name in facts}

    def _at(self, rows: Ints, name: str, values: Any) -> dict[str, Any]:
        """Return an info of some replicas, 0 for the others, and the mask of those replicas."""
        shown = np.zeros(self.num_envs, np.asarray(values).dtype)
        shown[rows] = values
        whose = np.zeros(self.num_envs, np.bool_)
        whose[rows] = True
        return {name: shown, f"_{name}": whose}

    def _metrics(self, over: Bools) -> dict[str, Any]:
        """Return the metrics of episodes that are over; see `EpisodeRecorder.summary`."""
        rows = over.nonzero()[0]
        metrics: dict[str, Any] = {}
        for name, values in summary(self._games, rows).items():
            metrics[name] = np.zeros(self.num_envs, values.dtype)
            metrics[name][rows] = values  # a step is a second
            metrics[f"_{name}"] = over.copy()
        return {"metrics": metrics, "_metrics": over.copy()}

    def close_extras(self, **kwargs: Any) -> None:
        """Do nothing: there is nothing to close."""


def _is_seed(value: object) -> TypeGuard[int | np.integer]:
    """Return whether a value is a whole number that a seed may be."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return 0 <= int(value) < 2**63


def _only(rows: Ints, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values with zeros everywhere but in some rows."""
    only = np.zeros_like(values)
    only[rows] = values[rows]
    return only


def _settings(shape: Mapping[str, Any], **own: Any) -> EnvSettings:
    """Return the settings of some arguments; raises ScenarioError for those none takes."""
    known = {*SHAPES, *SINGLE, *signature(LockstepVectorEnv).parameters} - {"shape"}
    unknown = [
        f"lock-step environment: argument {name!r} is unknown{did_you_mean(name, known)}"
        for name in shape
        if name not in known
    ]
    if unknown:
        raise ScenarioError(unknown)
    return EnvSettings(
        **own, **{name: value for name, value in shape.items() if name in EnvSettings.model_fields}
    )


def _beyond(shape: Mapping[str, Any]) -> Iterator[str]:
    """Yield which arguments only single environments support."""
    for name, default in SINGLE.items():
        value = shape.get(name, default)
        none_given = name.endswith("_arguments") and value == {}
        if not none_given and (type(value) is not type(default) or value != default):
            yield f"{name}: {value!r} is not supported here; leave it out"


def _problems(
    scenario: Scenario, mode: AutoresetMode, observation: str, reward: object
) -> Iterator[str]:
    """Yield what the lock-step model does not support."""
    if mode is AutoresetMode.DISABLED:
        yield "autoreset_mode: must be NextStep or SameStep"
    for name, value, known in (
        ("observation", observation, SLOT_ENCODERS), ("reward", reward, REWARDS)
    ):  # fmt: skip
        if not isinstance(value, str) or value not in known:
            yield f"{name}: is {value!r}; it must be one of {', '.join(known)}"
    if scenario.scheduling.step != 1.0:
        yield "scheduling.step: must be 1s, in which rewards are counted"
    yield from _more_than_jobs(scenario)


def _check_same_pool(shown: Slotted, played: Slotted) -> None:
    """Raise ScenarioError if what is shown is not what the jobs are drawn for."""
    wrong = [
        f"lock-step environment: {name} is {mine}; the scenario's is {theirs}, take that"
        for name in ("slots", "capacity", "unit", "step_s", "backlog")
        if (mine := getattr(shown, name)) != (theirs := getattr(played, name))
    ]
    if wrong:
        raise ScenarioError(wrong)


def _more_than_jobs(scenario: Scenario) -> Iterator[str]:
    """Yield which sections of a scenario the lock-step model does not support."""
    for name in ("value", "power", "processes", "walltime"):
        if getattr(scenario, name) != Scenario.model_fields[name].get_default(
            call_default_factory=True
        ):
            yield f"{name}: the lock-step model has none; leave it out"
    for name, field in type(scenario.cluster).model_fields.items():
        default = field.get_default(call_default_factory=True)
        if name != "machines" and getattr(scenario.cluster, name) != default:
            yield f"cluster.{name}: the lock-step model has none; leave it out"
