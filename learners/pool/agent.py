"""A trained scorer as a policy: it picks jobs of a pool as in `simkit.learners.pool.simulation`.

policy: {agent: trainings/mine}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from simkit import plugins
from simkit.arrays import Floats
from simkit.errors import PolicyError, RunError
from simkit.learners.common.bundle import Bundle, Description
from simkit.learners.common.shapes import Width
from simkit.learners.pool.scorer import FEATURES, Scorer, job_features, job_score
from simkit.learners.pool.simulation import Backfill, End
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.estimates import RecentRunTimes
from simkit.policy.task import Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.sections import Count, Section
from simkit.units import EVER_S

__all__ = ["PoolAgent", "PoolDescription", "ScorerOrder", "describe", "unknown_rules"]


class JobScorerShape(Section):
    """A weighted sum of features plus units max(0, ·); the same for every job."""

    type: Literal["job-scorer"]
    features: Width
    units: Annotated[int, Field(ge=0, le=10_000)]
    activation: Literal["relu"]


class PoolObservation(Section):
    """What is seen of a job."""

    name: Literal["pool-jobs"]
    features: tuple[str, ...]
    """In order; see `simkit.learners.pool.scorer`."""


class JobActions(Section):
    """What may be chosen."""

    type: Literal["jobs"]
    visible: Count
    """At most this many waiting jobs, the first submitted, can be picked."""
    backfill: Backfill
    """What may start while the first job does not fit."""
    end: End
    """With EASY, when the agent may let time go on although a job could start."""

    @model_validator(mode="after")
    def _time_goes_on_with_easy(self) -> Self:
        if self.backfill != "easy" and self.end != "never":
            raise ValueError(f"end is {self.end}, but backfill {self.backfill} supports only never")
        return self


class PoolDescription(Description):
    """How an agent of a pool of processors acts."""

    architecture: JobScorerShape
    observation: PoolObservation
    actions: JobActions


def describe(scorer: Scorer, *, visible: int, backfill: Backfill, end: End) -> dict[str, Any]:
    """Return how a scorer acts, as `PoolDescription.read` reads it."""
    return {
        "architecture": {
            "type": "job-scorer", "features": len(scorer.linear), "units": len(scorer.out),
            "activation": "relu",
        },
        "observation": {"name": "pool-jobs", "features": list(FEATURES)},
        "actions": {"type": "jobs", "visible": visible, "backfill": backfill, "end": end},
    }  # fmt: skip


def unknown_rules(scenario: Scenario) -> list[str]:
    """Return the rules of a scenario under which no scorer is trained, a line each."""
    admission, estimates = scenario.admission, scenario.estimates
    stands = {
        "estimates: must be requested, without arguments or correction": (
            (estimates.type, estimates.correction) == ("requested", "none") and not estimates.args
        ),
        "walltime: must be ignore": scenario.walltime == "ignore",
        "admission: slots and backlog must be left out": (
            admission.slots is None and admission.backlog is None
        ),
        "scheduling.every and scheduling.step: must be left out": (
            not scenario.scheduling.model_dump(exclude_none=True)
        ),
        "processes: must be left out": not scenario.processes,
    }
    return [text for text, holds in stands.items() if not holds]


class ScorerOrder:
    """The order of a scorer: the highest score first, worked out again at every decision.

    Args:
        scorer: the weights.
        visible: number of waiting tasks, the first ones submitted, that are scored; the others
            come after them; None: all.
    """

    signals = NO_SIGNALS

    def __init__(self, scorer: Scorer, visible: int | None = None) -> None:
        self._scorer, self._visible = scorer, visible

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run, in which nothing has ended."""
        self._recent = RecentRunTimes()
        self._first_submit_s = info.first_submit_s
        self._size = float(info.capacity[0, 0])

    def note(self, state: State) -> None:
        """Take in what has ended; a repeat changes nothing."""
        self._recent.update(state)

    def keys(self, state: State) -> Floats:
        self.note(state)
        keys = np.full(len(state.queue), np.inf)
        seen = len(keys) if self._visible is None else min(len(keys), self._visible)
        keys[:seen] = -self.scores(state, seen)
        return keys

    def scores(self, state: State, first: int) -> Floats:
        """Return (first,) the scores of the tasks that were submitted first."""
        columns, weights = state.queue.columns(), self._scorer
        estimate, submit = columns.estimate_s[:first], columns.submit_time_s[:first]
        features = job_features(
            estimate,
            self._recent.predict(columns.user[:first], estimate),
            columns.demand[0, :first],
            state.now - submit,
            submit - self._first_submit_s,
            state.room.total_free()[0],
            len(columns),
            self._size,
        )
        found: Floats = job_score(
            features, weights.linear, weights.hidden, weights.bias, weights.out
        )
        return found


class PoolAgent:
    """A scorer of waiting jobs with EASY backfilling, or by RLScheduler's rules; a `Policy`.

    At a decision it picks one of the `visible` first tasks after another. One that fits starts.
    The first that does not is the head, and the others must then meet EASY's conditions; see
    `simkit.policies.easy`. By the other rules what it picks stays picked; see
    `simkit.policies.rlscheduler`. There it is an order; with EASY it has a loop of its own, as what
    is free and how many wait are features, so that every start changes the scores of the others.

    Attributes:
        name: of the bundle.
        scorer: its weights.
    """

    accepts: ClassVar[tuple[str, ...]] = ()
    """Arguments that a run may set."""
    signals = NO_SIGNALS

    def __init__(
        self, scorer: Scorer, *, visible: int = 128, backfill: Backfill = "easy",
        end: End = "never", name: str = "scorer",
    ) -> None:  # fmt: skip
        self.name, self.scorer = name, scorer
        self._order, self._visible, self._end = ScorerOrder(scorer, visible), visible, end
        self._theirs: Any = None  # the policy that decides by RLScheduler's rules
        if backfill != "easy":
            rule: Any = plugins.find("simkit.policies", "rlscheduler", kind="backfill")
            self._theirs = rule(backfilling=backfill == "rlscheduler").compose(self._order)

    @classmethod
    def of(cls, bundle: Bundle, described: PoolDescription) -> PoolAgent:
        """Return the agent of a bundle; raises RunError if its parts do not fit together."""
        where, shape, actions = (
            bundle.folder / DESCRIPTION,
            described.architecture,
            described.actions,
        )
        if described.observation.features != FEATURES or shape.features != len(FEATURES):
            raise RunError(
                f"{where}: observation.features are not those of this simkit, "
                f"{', '.join(FEATURES)}; train it again"
            )
        return cls(
            Scorer.zero(shape.units).of_bundle(bundle.weights, str(where)),
            visible=actions.visible, backfill=actions.backfill, end=actions.end,
            name=agent_label(bundle.folder),
        )  # fmt: skip

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from what the agent can do, a line each."""
        problems = unknown_rules(scenario)
        if scenario.cluster.maintenance:
            problems.append(
                "cluster.maintenance is set, but this agent does not support it; leave it out"
            )
        supply = None if scenario.power is None else scenario.power.supply.limit
        if supply not in (None, "none"):
            problems.append(f"power.supply.limit is {supply}, but this agent supports none")
        return problems

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the agent cannot schedule a cluster, a line each."""
        if info.capacity.size == 1 and len(info.partitions) <= 1:
            return []
        return [
            f"agent {self.name}: it knows one pool of one resource without partitions; use "
            "cluster: {processors: …}"
        ]

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        (self._order if self._theirs is None else self._theirs).reset(info, rng)

    def schedule(self, state: State) -> Iterable[Action]:
        """Pick tasks until none may start, or until the scorer lets time go on."""
        if state.constrained or state.suspended:
            raise PolicyError(
                f"agent {self.name}: it knows no reservations, no maintenance and no limits of "
                "power; leave them out, or take a rule such as saf-p with easy"
            )
        if self._theirs is not None:
            schedule: Iterable[Action] = self._theirs.schedule(state)
            return schedule
        return self._with_easy(state)

    def _with_easy(self, state: State) -> Iterator[Place]:
        self._order.note(state)
        head: Task | None = None
        slack_s = spare = np.inf
        while True:
            columns, free = state.queue.columns(), float(state.room.total_free()[0])
            seen = min(len(columns), self._visible)
            demand, estimate = columns.demand[0, :seen], columns.estimate_s[:seen]
            fits = demand <= free
            if head is not None:
                fits[state.queue.tasks.index(head)] = False
            if not fits.any():
                return
            score = self._order.scores(state, seen)
            if head is not None:
                allowed = fits & ((estimate <= slack_s) | (demand <= spare))
                if not allowed.any():
                    return
                score = np.where(allowed, score, -np.inf)
            row = int(score.argmax())  # the first of equals
            if self._lets_time_go_on(state, float(score[row]), head):
                return
            task, asked = state.queue.tasks[row], float(demand[row])
            if asked > free:
                head = task
                shadow, freed = state.expected_ends.when_freed(asked - free, state.now)
                slack_s = min(shadow - state.now, EVER_S)
                spare = freed - (asked - free)
                continue
            if estimate[row] > slack_s:
                spare -= asked
            yield Place(task, ((0, task.remaining),))

    def _lets_time_go_on(self, state: State, score: float, head: Task | None) -> bool:
        may = self._end == "always" or (self._end == "behind-head" and head is not None)
        return may and bool(state.running) and score <= self.scorer.end[0]

    def scores(self, state: State) -> dict[Task, float]:
        """Return the scores of the waiting tasks that it sees; it picks the highest."""
        seen = state.queue.tasks[: self._visible]
        if not seen:
            return {}
        return dict(zip(seen, self._order.scores(state, len(seen)).tolist(), strict=True))

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if task not in state.queue.tasks[: self._visible]:
            return f"it is not among the {self._visible} that the agent sees"
        if self._theirs is not None:
            words: str = self._theirs.why(state, task)
            return words
        return "others have higher scores, or EASY's conditions keep it from starting"
