"""A trained scorer of pairs as a policy: the pair that it scores highest is placed next.

policy: {agent: trainings/mine}
policy: {agent: trainings/mine, compat: cloudsimpy, args: {choose: sample}}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from simkit import plugins
from simkit.arrays import Floats, Ints
from simkit.errors import PluginError, PolicyError, RunError
from simkit.learners.common.bundle import Bundle, Description
from simkit.learners.common.compiled import kernel
from simkit.learners.common.shapes import Width
from simkit.learners.pairs.scorer import FeatureSet, PairScorer, feature_names
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.declared import NO_SIGNALS, PolicyMetric, declared_metrics
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.greedy import FitSearch, GreedyPolicy
from simkit.policy.pairs import MachineTaskPairs, PairTable, TaskColumns
from simkit.policy.queue import QueueColumns
from simkit.policy.remaining_work import WorkFitness
from simkit.policy.task import Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.sections import Section

if TYPE_CHECKING:
    from simkit.learners.pairs.decision_kernel import CompiledScores

__all__ = ["PairAgent", "PairDescription", "ScorerFitness", "describe"]

_Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Shift = Annotated[float, Field(allow_inf_nan=False)]


class PairScorerShape(Section):
    """A weighted sum of features plus layers of tanh units; the same for every pair."""

    type: Literal["pair-scorer"]
    layers: tuple[Width, ...]
    """Inputs of each layer, then the one output; the number of features alone: no layers."""
    activation: Literal["tanh"]


class PairObservation(Section):
    """What is seen of a pair: (feature - shift) / scale."""

    name: Literal["machine-task-pairs"]
    set: FeatureSet
    features: tuple[str, ...]
    """In order; see `simkit.learners.pairs.scorer`."""
    shift: tuple[_Shift, ...]
    scale: tuple[_Scale, ...]


class PairActions(Section):
    """What may be chosen: pairs that fit, one instance at a time."""

    type: Literal["pairs"]


class PairDescription(Description):
    """How an agent of machine–task pairs acts."""

    architecture: PairScorerShape
    observation: PairObservation
    actions: PairActions
    resources: tuple[str, ...]
    """Resources of the cluster it was trained on, in order."""


def describe(scorer: PairScorer, resources: Sequence[str]) -> dict[str, Any]:
    """Return how a scorer acts, as `PairDescription.read` reads it."""
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


Choose = Literal["sample", "greedy"]


_MANY = 2**21  # pairs after which a scorer is compiled, which takes twice as long as they did


def compiled_scores(scorer: PairScorer) -> CompiledScores | None:
    """Return a scorer of terms as compiled code; None without numba."""
    try:
        made: CompiledScores = kernel("pairs.decision_kernel").CompiledScores(scorer)
    except PluginError:
        return None
    return made


class ScorerFitness(WorkFitness):
    """A scorer as a pair fitness.

    In a long run a scorer of terms is compiled, if numba is there; its scores stay the same, but
    for their last bits.
    """

    def __init__(self, scorer: PairScorer) -> None:
        self.scorer = scorer
        self._compiled: CompiledScores | None = None
        self._scored: float = -inf

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._compiled, self._scored = None, 0 if self.scorer.features == "terms" else -inf

    def begin(self, state: State) -> None:
        if self.scorer.features == "terms":  # the others do not look at remaining work
            super().begin(state)

    def weigh(self, work_s: Floats, longest_s: float, total: Floats) -> None:
        super().weigh(work_s, longest_s, total)
        if self._scored > _MANY:  # between two decisions
            self._compiled, self._scored = compiled_scores(self.scorer), -inf

    def features(self, pairs: MachineTaskPairs) -> Floats:
        """Return (P, F) features, as they are before shift and scale."""
        if self.scorer.features == "paper":
            columns = (pairs.estimate_s, pairs.remaining)
            return np.column_stack((pairs.free, pairs.request, *columns))
        return np.column_stack((*self.urgency(pairs), *self.fit(pairs)))

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        if self._compiled is not None:
            return self._compiled.scores(pairs, self._work_s, self._longest_s, self._total)
        self._scored += len(pairs)
        return self.scorer.scores(self.features(pairs))

    def place_all(self, columns: QueueColumns, free: Floats, capacity: Floats) -> Ints | None:
        """Plan a whole decision, as a `PairFitness` may; only a compiled sum without layers can."""
        if self._compiled is None or self.scorer.layers:
            return None
        return self._compiled.place(
            columns, free, capacity, self._work_s, self._longest_s, self._total
        )


class _DrawnPairs(GreedyPolicy):
    """Draws pairs with probabilities in proportion to exp(score), one instance at a time."""

    signals = NO_SIGNALS

    def __init__(self, fitness: ScorerFitness, name: str) -> None:
        super().__init__()
        self._fitness, self._name = fitness, name

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._fitness.reset(info, rng)
        self._rng = rng

    def choose(self, state: State, search: FitSearch) -> Iterator[Place]:
        tasks = [task for task, _ in search.snapshot()]
        if state.constrained or any(task.gang and task.instances > 1 for task in tasks):
            raise PolicyError(
                f"agent {self._name}: it draws pairs for bags alone, where nothing is known ahead; "
                "use choose: greedy"
            )
        if not tasks:
            return
        self._fitness.begin(state)
        free, capacity = state.room.free().copy(), state.room.capacity
        table = PairTable(self._fitness.scores, TaskColumns(tasks, free.shape[1]), free, capacity)
        placed: dict[int, dict[int, int]] = {}
        while (pair := table.draw(self._rng)) is not None:
            machine, task = pair
            table.place(machine, task)
            on = placed.setdefault(task, {})
            on[machine] = on.get(machine, 0) + 1
        for task, counts in placed.items():
            yield Place(tasks[task], tuple(counts.items()))


class PairAgent:
    """A scorer of machine–task pairs; a `Policy` for any number of machines.

    Under simkit's own rules instances left are those at the beginning of a decision; under
    CloudSimPy's, which decide an instance at a time, those of the moment.

    Attributes:
        name: of the bundle.
        scorer: its weights.
    """

    def __init__(
        self, scorer: PairScorer, resources: tuple[str, ...], *, choose: Choose = "greedy",
        compat: str | None = None, name: str = "scorer",
    ) -> None:  # fmt: skip
        """Build it.

        Args:
            scorer: the weights.
            resources: of the cluster it was trained on.
            choose: take the pair with the highest score, or draw one.
            compat: another simulator whose rules decide when and how pairs are placed.
            name: for messages.
        """
        self.name, self.scorer, self._resources = name, scorer, resources
        fitness = ScorerFitness(scorer)
        if compat is not None:
            make: Any = plugins.find("simkit.policies", compat, kind="compat")
            self._policy: Any = make(fitness, draws=choose == "sample")
        elif choose == "sample":
            self._policy = _DrawnPairs(fitness, name)
        else:
            self._policy = FitnessPolicy(fitness)

    accepts: ClassVar[tuple[str, ...]] = ("choose", "compat")
    """Arguments that a run may set."""
    signals = NO_SIGNALS

    @property
    def metrics(self) -> tuple[PolicyMetric, ...]:
        """The metrics of the rules by which it decides."""
        return declared_metrics(self._policy)

    @property
    def begins_with_run(self) -> bool:
        """Whether it must see a run from its beginning on: under another simulator's rules."""
        return getattr(self._policy, "begins_with_run", False)

    @classmethod
    def of(
        cls, bundle: Bundle, described: PairDescription, *, choose: Choose, compat: str | None
    ) -> PairAgent:
        """Return the agent of a bundle; raises RunError if its parts do not fit together."""
        where, seen = bundle.folder / DESCRIPTION, described.observation
        known = feature_names(seen.set, described.resources)
        if seen.features != known or not len(seen.shift) == len(seen.scale) == len(known):
            raise RunError(
                f"{where}: observation.features are not those of this simkit, {', '.join(known)}; "
                "train it again"
            )
        blank = PairScorer.blank(
            seen.set, np.array(seen.shift), np.array(seen.scale), described.architecture.layers
        )
        return cls(
            blank.of_bundle(bundle.weights, str(where)), described.resources,
            choose=choose, compat=compat, name=agent_label(bundle.folder),
        )  # fmt: skip

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from what the agent can do, a line each."""
        if scenario.scheduling.step is None:
            return []
        return [
            "scheduling.step is set, but this agent does not support slotted time; leave it out"
        ]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the agent cannot schedule a cluster, a line each."""
        apart = any(partition.machines is not None for partition in info.partitions)
        if apart and isinstance(self._policy, _DrawnPairs):
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

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._policy.reset(info, rng)

    def schedule(self, state: State) -> Iterable[Action]:
        """Place pairs until none fits."""
        actions: Iterable[Action] = self._policy.schedule(state)
        return actions

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        why = getattr(self._policy, "why", None)
        return "nothing that scores higher lets it start" if why is None else str(why(state, task))
