"""Games of any scenario: simulations, side by side, of its slices; see `Slices`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Self

import numpy as np

from simkit.agent.actions import Actions, QueueActions
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.agent.reward import Reward
from simkit.agent.rewards import make_reward
from simkit.arrays import Bools, Floats, Ints
from simkit.gym.agent_view import AgentView, Play
from simkit.gym.episodes import Episode
from simkit.gym.model_policy import entries
from simkit.learners.common.bundle import Choose, describe_view, of_view
from simkit.learners.common.games import Rule
from simkit.learners.games.pools import pool_rules, pool_slice
from simkit.learners.networks.shapes import (
    PerceptronShape,
    SetPlaces,
    SetScorerShape,
    network_shape,
)
from simkit.learners.pools.games import PoolGames, PoolRules, PoolSlice
from simkit.plugins import find
from simkit.results.job_metrics import JOB_METRICS
from simkit.scenario import Scenario
from simkit.training.held_out import Slice, Slices
from simkit.training.judge import judge

__all__ = ["SimulatedGames", "SimulatedSource", "Slice"]

ORDERS: Final = ("fcfs", "sjf", "saf", "wfp3")
"""Simple rules that are good on most logs."""
SUMS: Final = {
    "slowdown": "slowdown", "bounded-slowdown": "bounded_slowdown", "wait": "wait_time_s",
}  # fmt: skip
"""Reward → the metric of jobs that it sums up."""
OF_RUNS: Final = {
    "completion-time": "turnaround_time_s", "makespan": "makespan_s",
    "value": "job_value.in_time", "value-on-completion": "job_value",
    "value-at-decision": "job_value", "qos-violations": "qos_violations",
    "energy-cost": "energy_cost", "carbon": "carbon_kg",
}  # fmt: skip
"""Other reward → the metric of runs that stands for it."""
CLOCK: Final = 256
"""Time steps in which the jobs of a slice are submitted."""


class SimulatedGames:
    """N simulations, each with an agent's view of its own; they are stepped in turn.

    Attributes:
        plays: one for each episode.
        cut: (N,) whether each was cut off before its end.
    """

    def __init__(
        self, plays: Sequence[Play], episodes: Sequence[Episode], order: Ints | None, most: int,
        *, keeps_records: bool = False, tau: float = 10.0,
    ) -> None:  # fmt: skip
        """Begin all episodes.

        Args:
            plays: N.
            episodes: N, which have just been made.
            order: (K,) the places of an observation in the order in which a network reads them;
                None: as they are.
            most: decisions after which an episode is cut off.
            keeps_records: whether the episodes do, so that all metrics of jobs can be told.
            tau: floor of the run time in bounded slowdowns, in s.
        """
        self._tau = tau
        self._keeps_records = keeps_records
        self.plays, self._order, self._most = plays, order, most
        self._decisions = np.zeros(len(plays), np.int64)
        self._steps = np.zeros(len(plays), np.int64)
        self.cut = np.zeros(len(plays), np.bool_)
        self._begin_s = np.array([episode.begin_s for episode in episodes])
        self._step_s = np.array([max(episode.span_s / CLOCK, 1.0) for episode in episodes])
        for play, episode in zip(plays, episodes, strict=True):
            play.begin(episode)
        self.active = np.flatnonzero([play.asked for play in plays])
        self._tick(self.active)

    @property
    def steps(self) -> Ints:
        """(N,) time steps that have passed; the jobs of a slice are submitted in `CLOCK` steps."""
        return self._steps

    def waiting(self) -> Ints:
        """Return (A,) how many tasks wait."""
        counts = [len(self.plays[n].episode.state.queue.tasks) for n in self.active.tolist()]
        return np.array(counts, np.int64)

    def observe(self) -> Numbers:
        """Return (A, K) float32."""
        seen = np.array(
            [self.plays[n].observe().reshape(-1) for n in self.active.tolist()], np.float32
        )
        if not len(self.active):
            seen = np.zeros((0, self.plays[0].encoder.schema.size), np.float32)
        return seen if self._order is None else seen[:, self._order]

    def mask(self) -> Bools:
        """Return (A, M + 1) which actions do something."""
        if not len(self.active):
            return np.zeros((0, self.plays[0].actions.count), np.bool_)
        return np.array([self.plays[n].mask() for n in self.active.tolist()]).view(np.bool_)

    def step(self, actions: Ints) -> Floats:
        """Take (A,) actions; return (A,) rewards."""
        active = self.active
        rewards = np.array(
            [self.plays[n].step(a) for n, a in zip(active.tolist(), actions.tolist(), strict=True)]
        )
        self._decisions[active] += 1
        self._tick(active)
        asked = np.array([self.plays[n].asked for n in active.tolist()], np.bool_)
        cut = asked & (self._decisions[active] >= self._most)
        for n in active[cut].tolist():
            self.plays[n].episode.close()
            self.cut[n] = True
        self.active = active[asked & ~cut]
        return rewards

    def _tick(self, active: Ints) -> None:
        now = np.array([self.plays[n].episode.now for n in active.tolist()])
        passed = (now - self._begin_s[active]) / self._step_s[active]
        self._steps[active] = np.clip(passed, 0, 64 * CLOCK).astype(np.int64)

    def first_by(self, order: Any) -> Ints:
        """Return (A,) the first by an order of what may be chosen; if nothing, the void action."""
        actions = np.empty(len(self.active), np.int64)
        for row, allowed in enumerate(self.mask()[:, :-1]):
            state = self.plays[self.active[row]].episode.state
            shown = state.queue.tasks[: len(allowed)]
            keys = np.full(len(allowed), np.inf)
            if hasattr(order, "keys"):  # it changes as tasks wait
                keys[: len(shown)] = order.keys(state)[: len(shown)]
            else:
                keys[: len(shown)] = [order.key(task) for task in shown]
            keys[~allowed] = np.inf
            actions[row] = keys.argmin() if allowed.any() else len(allowed)
        return actions

    def outcome(self) -> Mapping[str, float]:
        """Return figures over all jobs; what has not ended counts with its value so far.

        Returns:
            ``jobs``, ``unfinished``, and ``decisions``: mean of an episode; where the records were
            kept, ``slowdown``, ``bounded_slowdown`` and ``wait_time_s`` as well: means over all
            jobs.
        """
        counts = [play.episode.summary() for play in self.plays]
        found = {
            "jobs": float(sum(one["jobs"] for one in counts)),
            "unfinished": float(sum(one["unfinished"] for one in counts)),
            "decisions": float(self._decisions.mean()),
        }
        return {**self._judged(), **found} if self._keeps_records else found

    def _judged(self) -> dict[str, float]:
        metrics = {metric.name: metric for metric in JOB_METRICS}
        runs = [play.episode.records() for play in self.plays]
        found = {}
        for name in ("slowdown", "bounded_slowdown", "wait_time_s"):
            rows = [judge(run, metrics[name], self._tau) for run in runs]
            jobs = sum(row["jobs"] for row in rows)
            found[name] = sum(row["sum"] for row in rows) / jobs if jobs else float("nan")
        return found


@dataclass(frozen=True)
class SimulatedSource:
    """Slices of any scenario, played as simulations."""

    scenario: Scenario
    """Of an episode: without a policy of its own, and of a model with no more than `jobs`."""
    view: AgentView
    """What an agent sees, and what its actions mean."""
    reward: str
    """What it is paid; see `make_reward`."""
    most_decisions: int
    """Decisions after which an episode is cut off."""
    slices: Slices
    """What is replayed."""

    in_steps: ClassVar = False
    relative: ClassVar = True

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        view: AgentView,
        reward: str,
        *,
        jobs: int | None = None,
        held_out: float | str = 0.2,
        most_decisions: int = 5_000,
    ) -> Self:
        """Read a scenario and its trace.

        Args:
            scenario: any.
            view: what an agent sees and does.
            reward: what it is paid.
            jobs: of a slice; None: see `Slices.of`.
            held_out: the part of a recorded workload that is held out; see `EpisodeWindows`.
            most_decisions: of an episode.

        Raises ScenarioError or TraceError if it cannot be played.
        """
        slices = Slices.of(scenario, jobs=jobs, held_out=held_out)
        _ = slices.trained, slices.unseen  # there must be windows of both
        return cls(slices.scenario, view, reward, most_decisions, slices)

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        """Names of what its agents are judged by."""
        cost = ("cost",) if self.criterion == "cost" else ()
        return (
            "slowdown", "bounded_slowdown", "wait_time_s", "jobs", "unfinished", "decisions",
            "return", *cost,
        )  # fmt: skip

    @property
    def criterion(self) -> str:
        """The metric of jobs that the reward sums up, or `cost`."""
        return SUMS.get(self.reward, "cost")

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        """`cost` → the metric of runs that stands for it."""
        return {"cost": OF_RUNS[self.reward]} if self.reward in OF_RUNS else {}

    def begin_one(self) -> None:
        """Begin a game; raises ScenarioError or PluginError for a wrong view or reward."""
        _ = self._example

    @cached_property
    def _example(self) -> tuple[Actions, Encoder]:
        episode = self._episode(self.held_out(1)[0])
        return self.view.build(self.scenario, episode.state.info)

    @property
    def schema(self) -> ObservationSchema:
        """What an agent sees."""
        return self._example[1].schema

    @property
    def actions(self) -> int:
        """How many actions it has, the void one included."""
        return self._example[0].count

    @cached_property
    def places(self) -> SetPlaces | None:
        """Where a scorer of a set finds its items; None: there is none in the observation."""
        return SetPlaces.of(self.schema, self.actions - 1)

    def scorer(self, hidden: int) -> PerceptronShape | SetScorerShape:
        """Return the shape of a scorer of the waiting tasks, or of a perceptron without a set."""
        return network_shape(self.schema, self.actions, hidden)

    @cached_property
    def greedy(self) -> bool:
        """Whether its agents take their likeliest action, or draw one.

        The likeliest one alone may be to wait for ever, where an agent may wait although a task
        could start.
        """
        return isinstance(self._example[0], QueueActions)

    @cached_property
    def teachers(self) -> Mapping[str, Rule]:
        """Orders of the queue, if the actions choose from it."""
        if not isinstance(self._example[0], QueueActions):
            return {}
        return {
            name: partial(_first_by, find("simkit.policies", f"order.{name}")()) for name in ORDERS
        }

    def draw(self, rng: np.random.Generator, count: int) -> list[Slice]:
        return self.slices.draw(rng, count)

    def held_out(self, count: int) -> list[Slice]:
        """Return windows spread over the held-out part, or the sets of the first seeds."""
        return self.slices.held_out(count)

    def group_of(self, count: int) -> Ints:
        return np.zeros(count, np.int64)

    def games(self, slices: Sequence[Slice], replicas: int = 1) -> SimulatedGames | PoolGames:
        """Return new games; with one replica, they can tell all metrics of jobs."""
        if self.as_pools is not None and (own := self._pool_slices(slices)) is not None:
            return PoolGames(own, self.as_pools, replicas)
        return self.simulations(slices, replicas)

    @cached_property
    def as_pools(self) -> PoolRules | None:
        """The rules of the same games as arrays, which are faster; None: there are none."""
        actions, encoder = self._example
        return pool_rules(
            self.scenario, actions, encoder.schema, self._reward(),
            self.slices.prepare(self.held_out(1)[0]), steps=CLOCK, most=self.most_decisions,
        )  # fmt: skip

    def _pool_slices(self, slices: Sequence[Slice]) -> list[PoolSlice] | None:
        """Return slices as jobs of a pool; None if one of them has others."""
        reward = self._reward()
        own = [pool_slice(self.slices.prepare(one), reward) for one in slices]
        known = [one for one in own if one is not None]
        return known if len(known) == len(slices) else None

    def simulations(self, slices: Sequence[Slice], replicas: int = 1) -> SimulatedGames:
        """Return new games as simulations; with one replica, they keep their records."""
        order = None if self.places is None else self.places.order
        episodes = [
            self._episode(one, keeps_records=replicas == 1)
            for one in slices
            for _ in range(replicas)
        ]
        plays = [Play(*self.view.build(self.scenario, e.state.info)) for e in episodes]
        return SimulatedGames(
            plays, episodes, order, self.most_decisions, keeps_records=replicas == 1,
            tau=self.scenario.metrics.tau,
        )  # fmt: skip

    def _episode(self, one: Slice, *, keeps_records: bool = False) -> Episode:
        return Episode(self.slices.prepare(one), self._reward(), records=keeps_records)

    def _reward(self) -> Reward:
        bound = {"tau_s": self.scenario.metrics.tau} if self.reward == "bounded-slowdown" else None
        return make_reward(self.reward, bound)

    def describe(self, shape: PerceptronShape | SetScorerShape) -> dict[str, Any]:
        slotted = self.scenario.scheduling.step is not None
        keys = ("scheduling.step", *(("admission.slots", "admission.late") if slotted else ()))
        choose: Choose = "greedy" if self.greedy else "sample"
        kind = of_view(self.view, entries(self.scenario, keys), choose=choose)
        return describe_view(shape, self.schema, kind)


def _first_by(order: Any, games: SimulatedGames | PoolGames) -> Ints:
    """Return (A,) the first by an order of what may be chosen; if nothing, the void action."""
    return games.first_by(order)
