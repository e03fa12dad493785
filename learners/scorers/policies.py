"""The policies of scorers: an order of jobs, with EASY backfilling, and a fitness of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import PluginError, PolicyError
from simkit.learners.scorers.job_scorer import End, JobScorer, job_features, job_score
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.machine_code import kernels
from simkit.policy import Place, State, SystemInfo
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.estimates import RecentRunTimes
from simkit.policy.greedy import FitSearch, GreedyPolicy
from simkit.policy.pairs import MachineTaskPairs, PairTable, TaskColumns
from simkit.policy.queue import QueueColumns
from simkit.policy.remaining_work import WorkFitness
from simkit.policy.task import Task
from simkit.units import EVER_S

if TYPE_CHECKING:
    from simkit.learners.scorers.decision_kernel import CompiledScores

__all__ = ["DrawnPairs", "EasyByScorer", "ScorerFitness", "ScorerOrder", "compiled_scores"]

_MANY: Final = 2**21  # pairs after which a scorer is compiled, which takes twice as long


class ScorerOrder:
    """A scorer as an order: the highest score first, worked out again at every decision.

    Args:
        scorer: the weights.
        visible: number of waiting tasks, the first ones submitted, that are scored; the others
            come after them.
    """

    signals = NO_SIGNALS

    def __init__(self, scorer: JobScorer, visible: int) -> None:
        self.scorer, self.visible = scorer, visible

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
        keys, scores = np.full(len(state.queue), np.inf), self.scores(state)
        keys[: len(scores)] = -scores
        return keys

    def scores(self, state: State) -> Floats:
        """Return the scores of the visible tasks, in order of submission."""
        columns, weights = state.queue.columns(), self.scorer
        seen = min(len(columns), self.visible)
        estimate, submit = columns.estimate_s[:seen], columns.submit_time_s[:seen]
        features = job_features(
            estimate,
            self._recent.predict(columns.user[:seen], estimate),
            columns.demand[0, :seen],
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


class EasyByScorer:
    """EASY backfilling by the scores of jobs, on one pool of processors.

    At a decision it picks one of the visible tasks after another. One that fits starts. The first
    that does not is the head, and the others must then meet EASY's conditions; see
    `simkit.policies.easy`. What is free and how many wait are features, so that every start changes
    the scores of the others.

    Args:
        order: scores the tasks.
        end: when it may let time go on although a task could start.
    """

    signals = NO_SIGNALS

    def __init__(self, order: ScorerOrder, end: End) -> None:
        self._order, self._end = order, end

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._order.reset(info, rng)

    def schedule(self, state: State) -> Iterator[Place]:
        self._order.note(state)
        head: Task | None = None
        slack_s = spare = inf
        while True:
            columns, free = state.queue.columns(), float(state.room.total_free()[0])
            seen = min(len(columns), self._order.visible)
            demand, estimate = columns.demand[0, :seen], columns.estimate_s[:seen]
            allowed = fits = demand <= free
            if head is not None:
                fits[state.queue.tasks.index(head)] = False
                allowed = fits & ((estimate <= slack_s) | (demand <= spare))
            if not allowed.any():
                return
            score = self._order.scores(state)
            if head is not None:
                score = np.where(allowed, score, -inf)
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
        return may and bool(state.running) and score <= self._order.scorer.end[0]

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        return "others have higher scores, or EASY's conditions keep it from starting"


def compiled_scores(scorer: PairScorer) -> CompiledScores | None:
    """Return a scorer of terms as compiled code; None without numba."""
    try:
        made: CompiledScores = kernels("simkit.learners.scorers.decision_kernel").CompiledScores(
            scorer
        )
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


class DrawnPairs(GreedyPolicy):
    """Draws pairs with probabilities in proportion to exp(score), one instance at a time."""

    signals = NO_SIGNALS

    def __init__(self, fitness: ScorerFitness, name: str) -> None:
        """Draw by the scores of a fitness; `name`, the agent's, is for messages."""
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
