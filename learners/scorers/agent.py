"""A trained scorer as a policy: an order of the jobs of a pool, or a fitness of machine–task pairs.

policy: {agent: trainings/mine}
policy: {agent: trainings/mine, compat: cloudsimpy, args: {choose: sample}}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from simkit import plugins
from simkit.errors import PolicyError, RunError
from simkit.learners.common.bundle import Bundle, Description
from simkit.learners.networks.inference import WeightedScorer
from simkit.learners.networks.shapes import Width
from simkit.learners.scorers.job_scorer import FEATURES, Backfill, End, JobRules, JobScorer
from simkit.learners.scorers.pair_scorer import FeatureSet, PairScorer, feature_names
from simkit.learners.scorers.policies import DrawnPairs, EasyByScorer, ScorerFitness, ScorerOrder
from simkit.policy import Action, State, SystemInfo
from simkit.policy.declared import NO_SIGNALS, PolicyMetric, declared_metrics
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.task import Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.sections import Count, Section

__all__ = ["JobAgent", "JobDescription", "PairAgent", "PairDescription", "ScorerAgent",
           "describe_jobs", "describe_pairs", "foreign_rules", "unknown_to_jobs"]  # fmt: skip

_Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Shift = Annotated[float, Field(allow_inf_nan=False)]
Scorer = TypeVar("Scorer", bound=WeightedScorer)


class JobScorerShape(Section):
    """A weighted sum of features plus units max(0, ·); the same for every job."""

    type: Literal["job-scorer"]
    features: Width
    units: Annotated[int, Field(ge=0, le=10_000)]
    activation: Literal["relu"]


class PairScorerShape(Section):
    """A weighted sum of features plus layers of tanh units; the same for every pair."""

    type: Literal["pair-scorer"]
    layers: tuple[Width, ...]
    """Inputs of each layer, then the one output; the number of features alone: no layers."""
    activation: Literal["tanh"]


class JobObservation(Section):
    """What is seen of a job."""

    name: Literal["pool-jobs"]
    features: tuple[str, ...]
    """In order; see `simkit.learners.scorers.job_scorer`."""


class PairObservation(Section):
    """What is seen of a pair: (feature - shift) / scale."""

    name: Literal["machine-task-pairs"]
    set: FeatureSet
    features: tuple[str, ...]
    """In order; see `simkit.learners.scorers.pair_scorer`."""
    shift: tuple[_Shift, ...]
    scale: tuple[_Scale, ...]


class JobActions(JobRules):
    """What may be chosen: a waiting job; a bundle leaves no rule to a default."""

    type: Literal["jobs"]
    visible: Count
    backfill: Backfill
    end: End


class PairActions(Section):
    """What may be chosen: pairs that fit, one instance at a time."""

    type: Literal["pairs"]


class JobDescription(Description):
    """How an agent of a pool of processors acts."""

    architecture: JobScorerShape
    observation: JobObservation
    actions: JobActions


class PairDescription(Description):
    """How an agent of machine–task pairs acts."""

    architecture: PairScorerShape
    observation: PairObservation
    actions: PairActions
    resources: tuple[str, ...]
    """Resources of the cluster it was trained on, in order."""


def describe_jobs(scorer: JobScorer, rules: JobRules) -> dict[str, Any]:
    """Return how a scorer of jobs acts, as `JobDescription.read` reads it."""
    return {
        "architecture": {
            "type": "job-scorer", "features": len(scorer.linear), "units": len(scorer.out),
            "activation": "relu",
        },
        "observation": {"name": "pool-jobs", "features": list(FEATURES)},
        "actions": {"type": "jobs", **rules.keywords},
    }  # fmt: skip


def describe_pairs(scorer: PairScorer, resources: Sequence[str]) -> dict[str, Any]:
    """Return how a scorer of pairs acts, as `PairDescription.read` reads it."""
    return {
        "architecture": {
            "type": "pair-scorer", "layers": list(scorer.widths), "activation": "tanh",
        },
        "observation": {
            "name": "machine-task-pairs",
            "set": scorer.features,
            "features": list(feature_names(scorer.features, resources)),
            "shift": scorer.shift.tolist(),
            "scale": scorer.scale.tolist(),
        },
        "actions": {"type": "pairs"},
        "resources": list(resources),
    }  # fmt: skip


def foreign_rules(scenario: Scenario) -> list[str]:
    """Return the rules of a scenario that no fast model of scorers has, a line each."""
    admission = scenario.admission
    stands = {
        "walltime: must be ignore": scenario.walltime == "ignore",
        "admission: slots and backlog must be left out": (
            admission.slots is None and admission.backlog is None
        ),
        "processes: must be left out": not scenario.processes,
    }
    return [text for text, holds in stands.items() if not holds]


class ScorerAgent(ABC):
    """A scorer with the policy that it makes; a `Policy`.

    Attributes:
        name: of the bundle.
        scorer: its weights.
    """

    accepts: ClassVar[tuple[str, ...]] = ()
    """Arguments that a run may set."""
    signals = NO_SIGNALS

    def __init__(self, scorer: WeightedScorer, policy: Any, name: str) -> None:
        self.name, self.scorer, self._policy = name, scorer, policy

    @abstractmethod
    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from what the agent can do, a line each."""

    @abstractmethod
    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the agent cannot schedule a cluster, a line each."""

    @property
    def metrics(self) -> tuple[PolicyMetric, ...]:
        """The metrics of the rules by which it decides."""
        return declared_metrics(self._policy)

    @property
    def begins_with_run(self) -> bool:
        """Whether it must see a run from its beginning on: under another simulator's rules."""
        return getattr(self._policy, "begins_with_run", False)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._policy.reset(info, rng)

    def schedule(self, state: State) -> Iterable[Action]:
        """Start what scores highest until nothing may start."""
        actions: Iterable[Action] = self._policy.schedule(state)
        return actions

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        why = getattr(self._policy, "why", None)
        return "nothing that scores higher lets it start" if why is None else str(why(state, task))


class JobAgent(ScorerAgent):
    """A scorer of the waiting jobs of one pool, with EASY backfilling or by RLScheduler's rules.

    By the latter what it picks stays picked; see `simkit.policies.rlscheduler`.
    """

    scorer: JobScorer

    def __init__(
        self, scorer: JobScorer, rules: JobRules | None = None, name: str = "scorer"
    ) -> None:
        """Build it; `rules` are by default those of `JobRules`, `name` is for messages."""
        rules = rules or JobRules()
        self._order = order = ScorerOrder(scorer, rules.visible)
        if rules.backfill == "easy":
            policy: Any = EasyByScorer(order, rules.end)
        else:
            rule: Any = plugins.find("simkit.policies", "rlscheduler", kind="backfill")
            policy = rule(backfilling=rules.backfill == "rlscheduler").compose(order)
        super().__init__(scorer, policy, name)

    @classmethod
    def of(cls, bundle: Bundle, described: JobDescription) -> JobAgent:
        """Return the agent of a bundle; raises RunError if its parts do not fit together."""
        seen, shape = described.observation.features, described.architecture
        fits = seen == FEATURES and shape.features == len(FEATURES)
        scorer = _read(bundle, JobScorer.zero(shape.units), FEATURES, fits=fits)
        return cls(scorer, described.actions, agent_label(bundle.folder))

    def differences(self, scenario: Scenario) -> list[str]:
        problems = unknown_to_jobs(scenario)
        if scenario.cluster.maintenance:
            problems.append(
                "cluster.maintenance is set, but this agent does not support it; leave it out"
            )
        supply = None if scenario.power is None else scenario.power.supply.limit
        if supply not in (None, "none"):
            problems.append(f"power.supply.limit is {supply}, but this agent supports none")
        return problems

    def check_cluster(self, info: SystemInfo) -> list[str]:
        if info.capacity.size == 1 and len(info.partitions) <= 1:
            return []
        return [
            f"agent {self.name}: it knows one pool of one resource without partitions; use "
            "cluster: {processors: …}"
        ]

    def schedule(self, state: State) -> Iterable[Action]:
        """Pick tasks until none may start, or until the scorer lets time go on."""
        if state.constrained or state.suspended:
            raise PolicyError(
                f"agent {self.name}: it knows no reservations, no maintenance and no limits of "
                "power; leave them out, or take a rule such as saf-p with easy"
            )
        return super().schedule(state)

    def scores(self, state: State) -> dict[Task, float]:
        """Return the scores of the waiting tasks that it sees; it picks the highest."""
        if not len(state.queue):
            return {}
        return dict(zip(state.queue.tasks, self._order.scores(state).tolist(), strict=False))

    def why(self, state: State, task: Task) -> str:
        visible = self._order.visible
        if task not in state.queue.tasks[:visible]:
            return f"it is not among the {visible} that the agent sees"
        return super().why(state, task)


def unknown_to_jobs(scenario: Scenario) -> list[str]:
    """Return the rules of a scenario by which no scorer of jobs decides, a line each."""
    problems = foreign_rules(scenario)
    if scenario.scheduling.model_dump(exclude_none=True):
        problems.insert(0, "scheduling.every and scheduling.step: must be left out")
    return problems


class PairAgent(ScorerAgent):
    """A scorer of machine–task pairs, for any number of machines.

    Under simkit's own rules instances left are those at the beginning of a decision; under
    CloudSimPy's, which decide an instance at a time, those of the moment.
    """

    accepts = ("choose", "compat")
    scorer: PairScorer

    def __init__(
        self, scorer: PairScorer, resources: tuple[str, ...], *,
        choose: Literal["sample", "greedy"] = "greedy", compat: str | None = None,
        name: str = "scorer",
    ) -> None:  # fmt: skip
        """Build it.

        Args:
            scorer: the weights.
            resources: of the cluster it was trained on.
            choose: take the pair with the highest score, or draw one.
            compat: another simulator whose rules decide when and how pairs are placed.
            name: for messages.
        """
        self._resources, fitness = resources, ScorerFitness(scorer)
        if compat is not None:
            make: Any = plugins.find("simkit.policies", compat, kind="compat")
            policy: Any = make(fitness, draws=choose == "sample")
        elif choose == "sample":
            policy = DrawnPairs(fitness, name)
        else:
            policy = FitnessPolicy(fitness)
        super().__init__(scorer, policy, name)

    @classmethod
    def of(cls, bundle: Bundle, described: PairDescription, **arguments: Any) -> PairAgent:
        """Return the agent of a bundle, with `arguments` of a run, see `accepts`.

        Raises RunError if its parts do not fit together.
        """
        seen, layers = described.observation, described.architecture.layers
        known = feature_names(seen.set, described.resources)
        fits = seen.features == known and len(seen.shift) == len(seen.scale) == len(known)
        blank = PairScorer.blank(seen.set, np.array(seen.shift), np.array(seen.scale), layers)
        scorer = _read(bundle, blank, known, fits=fits)
        return cls(scorer, described.resources, **arguments, name=agent_label(bundle.folder))

    def differences(self, scenario: Scenario) -> list[str]:
        if scenario.scheduling.step is None:
            return []
        return [
            "scheduling.step is set, but this agent does not support slotted time; leave it out"
        ]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        apart = any(partition.machines is not None for partition in info.partitions)
        if apart and isinstance(self._policy, DrawnPairs):
            return [
                f"agent {self.name}: it draws pairs of all machines, and a partition has only "
                "some; use choose: greedy"
            ]
        if self.scorer.features == "terms" or self._resources == info.resources:
            return []
        return [
            f"agent {self.name}: the cluster's resources are {', '.join(info.resources)}, in its "
            f"training they were {', '.join(self._resources)}; name them so, in this order"
        ]


def _read(bundle: Bundle, blank: Scorer, known: Sequence[str], *, fits: bool) -> Scorer:
    """Return the scorer of a bundle, given a blank one and its features' names."""
    where = bundle.folder / DESCRIPTION
    if not fits:
        raise RunError(
            f"{where}: observation.features are not those of this simkit, {', '.join(known)}; "
            "train it again"
        )
    return blank.of_bundle(bundle.weights, str(where))
