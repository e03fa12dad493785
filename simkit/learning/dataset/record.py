"""Records what a policy does on a scenario as the decisions of an agent with numbered actions.

    what = Recording.read({"actions": "ready-pool", "reward": "value"})
    done = record(load_scenario("rare.yaml"), Path("qos.parquet"), what, seeds=range(100))

The replay is that of `SchedulingEnv` with the same arguments: the recorded actions, given to its
`step` one by one, lead to the same observations, masks, rewards and schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import RunError, ScenarioError, did_you_mean
from simkit.experiment import Experiment, prepare
from simkit.experiment.policy import policy_label
from simkit.learning.agent_view import AgentView
from simkit.learning.dataset.format import DatasetFile, writing_dataset
from simkit.learning.dataset.played import Earnings, PlayedEpisode, Row
from simkit.learning.env_arguments import check_settings
from simkit.learning.episodes import Episode, Episodes
from simkit.learning.reward import make_reward
from simkit.learning.windows import EpisodeWindows
from simkit.scenario import Scenario

__all__ = ["Recorded", "Recording", "record"]

Weights = str | Mapping[str, float]
"""The name of a reward, or name → weight."""


@dataclass(frozen=True)
class Recording:
    """What is recorded: arguments of `SchedulingEnv`, and what counts as cost."""

    view: AgentView = field(default_factory=AgentView)
    """What is seen, and what the actions are."""
    reward: Weights | None = None
    """None: ``value`` where jobs have values, else ``bounded-slowdown``."""
    reward_arguments: Mapping[str, Any] | None = None
    """Arguments of the reward."""
    cost: Weights | None = None
    """A reward that is counted with the opposite sign; None: ``wait``, in steps of the scenario or
    else in s, which is the number of jobs that wait, added up over time."""
    cost_arguments: Mapping[str, Any] | None = None
    """Arguments of the cost."""
    episode: Mapping[str, Any] | None = None
    """Each episode replays a window of the log; None: all jobs. See `EpisodeWindows`."""
    max_decisions: int | None = None
    """An episode is truncated after so many; None: never."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Recording:
        """Return what a mapping of arguments says; raises ScenarioError, all problems at once."""
        shown = [f.name for f in fields(AgentView)]
        own = [f.name for f in fields(cls) if f.name != "view"]
        unknown = [name for name in given if name not in (*shown, *own)]
        wrong = [f"{name}: is no argument{did_you_mean(name, (*shown, *own))}" for name in unknown]
        if wrong := [*wrong, *_of_wrong_kind(given)]:
            raise ScenarioError(wrong)
        view = AgentView(**{name: given[name] for name in shown if name in given})
        what = cls(view, **{name: given[name] for name in own if name in given})
        check_settings(
            view.slots, what.max_decisions, (), None, actions=view.actions,
            action_arguments=view.action_arguments,
            observation_arguments=view.observation_arguments,
            reward_arguments=what.reward_arguments, cost_arguments=what.cost_arguments,
        )  # fmt: skip
        return what

    def for_jobs(self, experiment: Experiment) -> Recording:
        """Return the same with the default reward and cost of an experiment's jobs."""
        step, has_values = experiment.scenario.scheduling.step, experiment.trace.workload.value.size
        given: dict[str, Any] = {}
        if self.reward is None:
            given["reward"] = "value" if has_values else "bounded-slowdown"
        if self.cost is None:
            unit = {"time_unit_s": 1.0 if step is None else float(step)}
            given |= {"cost": "wait", "cost_arguments": unit | dict(self.cost_arguments or {})}
        return replace(self, **given)

    def earnings(self) -> Earnings:
        """Return what counts reward and cost; raises ScenarioError or PluginError as they do."""
        assert self.reward is not None  # as of `for_jobs`
        assert self.cost is not None
        return Earnings(
            make_reward(self.reward, self.reward_arguments),
            make_reward(self.cost, self.cost_arguments),
        )


def _of_wrong_kind(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield which arguments are not of their kind, of those that nobody else checks."""
    for name in ("horizon", "max_length", "backlog_shown", "memory"):
        if given.get(name) is not None and not _is_number(given[name], int):
            yield f"{name} is {given[name]!r}; it must be a whole number"
    unit = given.get("unit", 1.0)
    if not all(
        _is_number(one, (int, float)) for one in (unit if isinstance(unit, list) else [unit])
    ):
        yield f"unit is {unit!r}; it must be a number, or one for each resource"
    if not isinstance(given.get("observation", ""), str | None):
        yield f"observation is {given['observation']!r}; it must be a name"
    for name in ("reward", "cost"):
        if not isinstance(given.get(name), str | Mapping | None):
            yield f"{name} is {given[name]!r}; it must be a name, or a weight for each of several"


def _is_number(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


@dataclass(frozen=True)
class Recorded:
    """What was recorded."""

    path: Path
    episodes: int
    decisions: int
    without: int
    """Further episodes, in which the agent would not have been asked anything."""


def record(
    scenario: Scenario,
    path: Path,
    what: Recording,
    seeds: Sequence[int],
    *,
    name: str | None = None,
    on_end: Callable[[int], None] = lambda _seed: None,
) -> Recorded:
    """Play a scenario under its own policy, an episode for each seed, and write the decisions.

    Args:
        scenario: with the policy.
        path: of the file; one that is there is replaced once the new one is complete.
        what: what is recorded.
        seeds: of the episodes.
        name: of the policy; None: as in other results of simkit.
        on_end: is called with the seed after each episode.

    Raises RunError if the policy does what no number means, or nothing was decided, ScenarioError,
    PluginError, TraceError, PolicyError or LimitError as a run does; nothing is written then.
    """
    if not seeds:
        raise ScenarioError("seeds: there is none; name at least one")
    policy = prepare(scenario.model_copy(update={"seed": seeds[0]})).policy
    windows = None if what.episode is None else EpisodeWindows.read(what.episode)
    episodes = Episodes(scenario, windows)
    first = episodes.prepare(seeds[0])
    what = what.for_jobs(first)
    earnings, label = what.earnings(), name or policy_label(scenario)
    actions, encoder = what.view.build(scenario, Episode(first, earnings).state.info)
    facts = {
        "simkit": version("simkit-cluster"),
        "scenario": scenario.model_dump(mode="json"),
        "policies": [label],
        "seeds": list(seeds),
        "observation": encoder.schema.as_json(),
        "actions": _described(what.view, actions.count),
        "reward": {"reward": what.reward, "arguments": what.reward_arguments or {}},
        "cost": {"cost": what.cost, "arguments": what.cost_arguments or {}},
        "episode": what.episode,
        "max_decisions": what.max_decisions,
    }
    with writing_dataset(path, encoder.schema.size, actions.count, facts) as file:
        rows = _Buffer(file, label)
        for seed in seeds:
            experiment = replace(episodes.prepare(seed), policy=policy)
            rows.take(
                PlayedEpisode(experiment, actions, encoder, earnings, label, what.max_decisions),
                seed,
            )
            on_end(seed)
        if not rows.episodes:
            raise RunError(
                f"{path}: nothing was written: in no episode would an agent have been asked "
                "anything; take another scenario or other actions"
            )
        rows.write()
    return Recorded(path, rows.episodes, rows.decisions, len(seeds) - rows.episodes)


def _described(view: AgentView, count: int) -> dict[str, Any]:
    """Return the action space and all arguments that are not the defaults, as plain values."""
    usual = AgentView()
    names = [f.name for f in fields(AgentView)]
    own = {n: getattr(view, n) for n in names if getattr(view, n) != getattr(usual, n)}
    return {"count": count, "void": count - 1, "arguments": own}


class _Buffer:
    """Collects rows until they are worth writing."""

    def __init__(self, file: DatasetFile, name: str) -> None:
        self._file, self._name = file, name
        self._rows: list[Row] = []
        self._places: list[tuple[int, int]] = []  # episode and seed of each
        self.episodes = self.decisions = 0

    def take(self, played: PlayedEpisode, seed: int) -> None:
        """Add the rows of an episode."""
        before = self.decisions
        for row in played.rows():
            self._rows.append(row)
            self._places.append((self.episodes, seed))
            self.decisions += row.action >= 0
            if len(self._rows) == self._file.rows:
                self.write()
        self.episodes += self.decisions > before

    def write(self) -> None:
        """Write what has been collected."""
        if not self._rows:
            return
        columns: dict[str, Any] = dict(zip(Row._fields, zip(*self._rows, strict=True), strict=True))
        seen = np.array([numbers.reshape(-1) for numbers in columns["observation"]])
        episode, seed = zip(*self._places, strict=True)
        columns |= {"observation": seen, "mask": np.array(columns["mask"])}
        columns |= {"episode": episode, "seed": seed, "behaviour": np.zeros(len(seen), np.int32)}
        self._file.write(columns, (self._name,))
        self._rows.clear()
        self._places.clear()
