"""Records what a policy does on a scenario as the decisions of an agent with numbered actions.

    what = Recording(actions="ready-pool", reward="value")
    done = record(load_scenario("rare.yaml"), Path("qos.parquet"), what, seeds=range(100))

Every decision of the simulation goes to the policy. What it then does is looked up among the
numbered actions, and is carried out as the number says; what the environment does by itself (it
resumes what was suspended) is left to it. The replay is that of `SchedulingEnv` with the same
arguments: the recorded actions, given to its `step` one by one, lead to the same observations,
masks, rewards and schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import PlainValidator

from simkit.agent.actions import Actions
from simkit.agent.encoder import Encoder, Numbers
from simkit.agent.reward import Reward, WeightedRewards, earned
from simkit.agent.rewards import make_reward
from simkit.arrays import Bools, stream
from simkit.errors import PolicyError, RunError, ScenarioError
from simkit.experiment import Experiment, blaming, prepare
from simkit.gym.agent_view import AgentView
from simkit.gym.dataset import DatasetFile, writing_dataset
from simkit.gym.episodes import Episode, Episodes
from simkit.gym.windows import EpisodeWindows
from simkit.policy import Action, Place, Reject, Resume, State, Suspend, WakeAt
from simkit.policy.task import Task
from simkit.scenario import Scenario
from simkit.sections import Count


def _weights(value: Any) -> Any:
    if not isinstance(value, str | Mapping):
        raise ValueError(f"must be a name, or a weight for each of several, not {value!r}")
    return value


Weights = Annotated[str | Mapping[str, float], PlainValidator(_weights)]
"""The name of a reward, or name → weight."""


class Recording(AgentView):
    """What is recorded: what is seen, what the actions are, and what counts as reward and cost."""

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
    max_decisions: Count | None = None
    """Truncate each episode after this many decisions; None: never."""

    def for_jobs(self, experiment: Experiment) -> Recording:
        """Return the same with the default reward and cost of an experiment's jobs."""
        step, has_values = experiment.scenario.scheduling.step, experiment.trace.workload.value.size
        given: dict[str, Any] = {}
        if self.reward is None:
            given["reward"] = "value" if has_values else "bounded-slowdown"
        if self.cost is None:
            unit = {"time_unit_s": 1.0 if step is None else float(step)}
            given |= {"cost": "wait", "cost_arguments": unit | dict(self.cost_arguments or {})}
        return self.model_copy(update=given)

    def earnings(self) -> Earnings:
        """Return what counts reward and cost; raises ScenarioError or PluginError as they do."""
        assert self.reward is not None  # as of `for_jobs`
        assert self.cost is not None
        return Earnings(
            make_reward(self.reward, self.reward_arguments),
            make_reward(self.cost, self.cost_arguments),
        )


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
        path: the file; an existing one is replaced once the new one is complete.
        what: what is recorded.
        seeds: seeds of the episodes.
        name: name of the policy; None: as in other results of simkit.
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
    earnings, label = what.earnings(), name or scenario.policy.label
    actions, encoder = what.build(scenario, Episode(first, earnings).state.info)
    facts = {
        "simkit": version("simkit-cluster"),
        "scenario": scenario.model_dump(mode="json"),
        "policies": [label],
        "seeds": list(seeds),
        "observation": encoder.schema.as_json(),
        "actions": _described(what, actions.count),
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
    fields = AgentView.model_fields
    own = {n: getattr(view, n) for n in fields if getattr(view, n) != fields[n].default}
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


class Earnings(WeightedRewards):
    """A reward and a cost, which is another reward with the opposite sign."""

    def __init__(self, reward: Reward, cost: Reward) -> None:
        """Observe both."""
        super().__init__([(1.0, reward), (-1.0, cost)])
        self._reward, self._cost = reward, cost
        self.cost = 0.0
        """What was to be paid up to the last `collect`."""

    def collect(self, time_s: float) -> float:
        self.cost = 0.0 - earned(self._cost, time_s)
        return earned(self._reward, time_s)


class Row(NamedTuple):
    """A decision, as in `Dataset`; of the last one, what was seen."""

    observation: Numbers
    mask: Bools
    action: int = -1
    reward: float = 0.0
    cost: float = 0.0
    passed_s: float = 0.0
    probability: float = 0.0
    terminated: bool = False
    truncated: bool = False

    def settled(
        self, came: tuple[float, float, float], *, terminated: bool = False, truncated: bool = False
    ) -> Row:
        """Return the decision with the reward, cost and seconds that came of it."""
        reward, cost, passed_s = came
        return self._replace(
            reward=reward, cost=cost, passed_s=passed_s, terminated=terminated, truncated=truncated
        )


class PlayedEpisode:
    """One episode.

    A policy that draws its actions has the probability of the last one as its attribute
    `probability`, which is read after each action; for other policies it is 1.
    """

    def __init__(
        self,
        experiment: Experiment,
        actions: Actions,
        encoder: Encoder,
        earnings: Earnings,
        name: str,
        max_decisions: int | None = None,
    ) -> None:
        """Build the system.

        Args:
            experiment: with the policy.
            actions: are reset, as are the next two.
            encoder: what is seen.
            earnings: what is earned and to be paid.
            name: name of the policy, for messages.
            max_decisions: truncate the episode after this many; None: never.
        """
        self._experiment, self._policy, self._name = experiment, experiment.policy, name
        self._actions, self._encoder, self._earnings = actions, encoder, earnings
        self._most = max_decisions
        self._episode = Episode(experiment, earnings)
        self._state: State = self._episode.state
        self._has_steps = experiment.scenario.scheduling.step is not None
        self._woken: set[float] = set()  # times at which the environment wakes by itself
        self._asked: set[float] = set()  # and those at which the policy wants to

    def rows(self) -> Iterator[Row]:
        """Yield the decisions, then what was seen last; nothing if nothing was asked.

        Raises RunError for an action that no number means, PolicyError or LimitError as a run does.
        """
        actions, state = self._actions, self._state
        self._begin()
        taken: Row | None = None
        made = 0
        while self._goes_on():
            stream_of = self._pulled()
            while actions.asks(state):
                seen, cut = self._look(), made == self._most
                came = self._what_came()  # before the first decision it is nobody's
                if taken is not None:
                    yield taken.settled(came, truncated=cut)
                if cut:
                    self._episode.close()
                    yield seen
                    return
                taken, made = self._answer(seen, next(stream_of, None)), made + 1
                meant = actions.action_of(state, taken.action)
                if meant is not None:
                    self._carry_out((meant,))
                elif actions.goes_on(state):
                    break
            if (more := next(stream_of, None)) is not None:
                raise self._foreign(more, "when no agent is asked")
        if taken is not None:
            out = self._episode.out_of_time
            yield taken.settled(self._what_came(), terminated=not out, truncated=out)
            yield self._look()

    def _begin(self) -> None:
        info = self._state.info
        self._encoder.reset(info)
        self._actions.reset(info)
        self._since_s, self._moved = self._state.now, True
        with blaming(self._experiment, lambda: "before the first job"):
            self._policy.reset(info, stream(self._experiment.scenario.seed, "policy"))

    def _goes_on(self) -> bool:
        """Let time go on to the next decision of the simulation; False: the episode is over."""
        self._carry_out(self._actions.end(self._state))
        if not self._has_steps and self._asked - self._woken:
            raise RunError(
                f"policy {self._name} at {self._state.now:g} s: asks for a decision at "
                f"{min(self._asked - self._woken):g} s, when an agent would not be asked; add "
                "`scheduling: {step: …}` to the scenario, or record another policy"
            )
        self._woken, self._asked, self._moved = set(), set(), True
        on = self._episode.advance()
        self._actions.update(self._state)
        if on:
            self._carry_out(self._actions.begin(self._state))
        return on

    def _carry_out(self, actions: Iterable[Action]) -> None:
        """Do what an agent does, or what the environment does by itself."""
        for action in actions:
            if isinstance(action, WakeAt):
                self._woken.add(action.time_s)
            self._episode.apply(action)
            self._actions.update(self._state)

    def _pulled(self) -> Iterator[Action]:
        """Yield what the policy does at this decision, without the times at which it wakes."""
        with self._blaming():
            done = self._policy.schedule(self._state)
            if not hasattr(done, "__iter__"):
                raise PolicyError(
                    f"policy {self._name}: schedule returned {done!r}; it must yield actions, or "
                    "return an iterable of them"
                )
            rest = iter(done)
        while True:
            with self._blaming():
                action = next(rest, None)
            if action is None:
                return
            if isinstance(action, WakeAt):
                self._asked.add(action.time_s)
            else:
                yield action

    def _blaming(self) -> AbstractContextManager[None]:
        return blaming(self._experiment, lambda: f"at {self._state.now:g} s")

    def _look(self) -> Row:
        """Return what is seen now."""
        mask = self._actions.mask(self._state).view(np.bool_)
        return Row(self._encoder.encode(self._state), mask)

    def _answer(self, seen: Row, action: Action | None) -> Row:
        """Return the number of what the policy does; of nothing, the void action's."""
        probability = float(getattr(self._policy, "probability", 1.0))
        if action is not None:
            number = self._actions.number_of(self._state, action)
            if number is None:
                raise self._foreign(action, "which none of the numbered actions means")
            return seen._replace(action=number, probability=probability)
        void = self._actions.count - 1
        if not seen.mask[void]:
            raise RunError(
                f"policy {self._name} at {self._state.now:g} s: does nothing more, but an agent "
                "would have to act; take actions by which time may go on, such as start, or "
                "next-head and pick with hold: true, or classes with starts: now"
            )
        return seen._replace(action=void, probability=probability)

    def _what_came(self) -> tuple[float, float, float]:
        """Return reward, cost and time since the last call; 0 while time stands still."""
        if not self._moved:
            return 0.0, 0.0, 0.0
        reward, now = self._episode.collect(), self._episode.now
        passed, self._since_s, self._moved = now - self._since_s, now, False
        return reward, self._earnings.cost, passed

    def _foreign(self, action: Action, why: str) -> RunError:
        """Return the error of an action that cannot be recorded."""
        return RunError(
            f"policy {self._name} at {self._state.now:g} s: {self._words(action)}, {why}; "
            f"{_remedy(action)}, or record another policy"
        )

    def _words(self, action: Action) -> str:
        """Return what the policy does, in words."""
        if isinstance(action, Place):
            where = "nowhere" if not action.on else f"on {_machines(action, self._state)}"
            when = "now" if action.start is None else f"at {action.start:g} s"
            return f"places {self._job(action.task)} {where}, to start {when}"
        if isinstance(action, Suspend | Resume):
            verb = "suspends" if isinstance(action, Suspend) else "resumes"
            return f"{verb} {self._job(action.allocation.task)}"
        if isinstance(action, Reject):
            return f"rejects {self._job(action.task)}"
        return f"does {type(action).__name__}"

    def _job(self, task: Task) -> str:
        return f"job {self._experiment.trace.workload.job_id[task.job_index]}"


def _machines(place: Place, state: State) -> str:
    names = state.info.machine_names
    return ", ".join([names[machine] for machine, _ in place.on])


def _remedy(action: Action) -> str:
    """Return what may make an action one of those that are numbered."""
    if isinstance(action, Place):
        return (
            "an agent places the tasks that it is shown, each where it first fits and as early as "
            "its actions allow: raise slots or the actions' horizon and max_start, lower the "
            "policy's horizon, leave out its placement"
        )
    if isinstance(action, Suspend):
        return "take the actions ready-pool with suspend: 4, …"
    if isinstance(action, Resume):
        return "the environment resumes what was suspended by itself"
    if isinstance(action, Reject):
        return "take the actions ready-pool with reject: true"
    return "no actions can be recorded with it"
