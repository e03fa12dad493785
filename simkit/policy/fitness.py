"""The base of policies by fitness: what scores highest among all that fits is placed next.

Two sorts of fitness make a policy. A *machine fitness* says which machine gets the next instance
of a given task; tasks are taken in an order. A *pair fitness* scores every pair of a machine and a
task that fits on it; a function is one:

    def tightest(pairs):
        return -(pairs.free - pairs.request).sum(axis=1)

    policy = FitnessPolicy(tightest)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Protocol

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.declared import (
    FitRule,
    PolicyMetric,
    Signals,
    declared_metrics,
    declared_signals,
    fit_rule_of,
    reads_estimates,
)
from simkit.policy.greedy import FitSearch, GreedyPolicy
from simkit.policy.lane import ChangingOrder, Order
from simkit.policy.pairs import (
    MachineTaskPairs,
    PairPlacer,
    Score,
    TaskColumns,
    fill,
)
from simkit.policy.room import Split, instances_that_fit, split_by_score, split_in_order
from simkit.policy.task import Placement, Task

_PART = 128  # machines tried first, as these often suffice; then twice as many, and so on

_MOST_AT_ONCE = 64  # machines; above this, scoring equal machines once is faster

_MANY = 4096  # from this many machines on, those in the same state are scored once for each task

__all__ = [
    "FitnessPolicy",
    "MachineFitness",
    "MachineTaskPairs",
    "PairFitness",
    "Score",
    "place_by",
]


class MachineFitness(ABC):
    """Says which machine gets the next instance of a task: the highest score, ties by row."""

    fills = False
    """Whether a machine's score never falls as it fills, so that it is filled before the next."""
    by_row = False
    """Whether all machines always score alike, so that the lowest row is filled first."""
    by_state = False
    """Whether machines with the same free amounts and the same capacity always score alike,
    whatever their rows: where machines are many, they are then scored once."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:  # noqa: B027 - most have
        """Begin a run."""  # nothing to forget

    @abstractmethod
    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        """Return (n,): the score of an instance of the task on each of some machines, finite.

        A machine's score depends on that machine alone.

        Args:
            task: the task to place.
            free: (n, R) free amounts; the instance has room there.
            capacity: (n, R) machine totals.
        """

    def split(self, task: Task, free: Floats, capacity: Floats, counts: Ints, needed: int) -> Split:
        """Split instances among machines that have room; by default one after another by score.

        Args:
            task: the task to place.
            free: (F, R) free amounts of some machines, ascending by row.
            capacity: (F, R) their totals.
            counts: (F,) how many instances each has room for; some for one at least.
            needed: instances to place; if fewer fit, as many as fit.
        """
        fitting = counts.nonzero()[0]
        free, capacity, counts = free[fitting], capacity[fitting], counts[fitting]
        if self.fills:
            scores = self.scores(task, free, capacity)
            positions, placed = split_in_order(np.argsort(-scores, kind="stable"), counts, needed)
        else:
            positions, placed = split_by_score(
                lambda left, at: self.scores(task, left, capacity[at]),
                free, task.request, counts, needed,
            )  # fmt: skip
        return fitting[positions], placed


class PairFitness(Protocol):
    """Scores pairs of a machine and a task; a function of `MachineTaskPairs` can replace it.

    It may also have ``reset(info, rng)``, called when a run begins, ``begin(state)``, called before
    every decision, and ``by_state = True`` if machines with the same free amounts and the same
    capacity always score alike, whatever their rows: they are then scored once. And it may have
    ``place_all(columns, free, capacity)``, which plans a whole decision: it takes the queue's
    columns and the (M, R) free amounts and totals of some machines, and returns (n, 2) rows of task
    and machine, one per instance, in the order of their scores; or None to be asked for scores.
    """

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        """Return (P,): a finite score for each pair; the highest is placed first.

        A pair's score depends on that pair alone, and the same pair always gets the same score in
        a decision.
        """


class FitnessPolicy(GreedyPolicy):
    """Places what scores highest, again and again, until nothing fits.

    With a machine fitness, tasks are taken in order, each with as many instances as fit. With a
    pair fitness, the pair of machine and task with the highest score gets one instance, then
    scores are computed again; ties go to the first task in order, then to the lowest machine row.
    Either way equal instances are placed many at once, and the outcome is the same as one by one:
    how many instances of each task go to each machine. What a pair fitness sees of tasks (such as
    the instances left) is as it was when the decision began.

    A gang is placed as a whole, its instances on machines in order of fitness, or not at all.

    Args:
        fitness: a `MachineFitness`, a `PairFitness`, or a function of `MachineTaskPairs`.
        order: see `GreedyPolicy`.
    """

    def __init__(
        self,
        fitness: MachineFitness | PairFitness | Callable[[MachineTaskPairs], Floats],
        order: Order | ChangingOrder | None = None,
    ) -> None:
        super().__init__(order)
        self.fitness = fitness

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._states = MachineStates() if getattr(self.fitness, "by_state", False) else None
        if (reset := getattr(self.fitness, "reset", None)) is not None:
            reset(info, rng)

    @property
    def signals(self) -> Signals | None:
        """Signals that order and pair fitness read; None if one, or a subclass, declares none.

        A machine fitness sees no power.
        """
        if type(self) is not FitnessPolicy:
            return None
        pairs = None if isinstance(self.fitness, MachineFitness) else self.fitness
        return declared_signals(self.order, pairs)

    @property
    def reads_estimates(self) -> bool:
        """Whether order or fitness reads estimates; a subclass may, unless it declares it."""
        return type(self) is not FitnessPolicy or reads_estimates(self.order, self.fitness)

    @property
    def metrics(self) -> tuple[PolicyMetric, ...]:
        """Metrics that its parts bring."""
        return declared_metrics(self.order, self.fitness)

    def decision_rule(self) -> FitRule | str:
        """Return how it decides on machines, or why no compiled replay knows it."""
        return fit_rule_of(self, FitnessPolicy)

    def schedule(self, state: State) -> Iterable[Action]:
        if state.queue:
            machine = self._only_freed(state)
            if machine is not None and isinstance(self.fitness, MachineFitness):
                return self._split_in_order(state, machine)
            if machine is not None and type(self).choose is FitnessPolicy.choose:
                return self._fill(state, machine)
        return super().schedule(state)

    def _split_in_order(self, state: State, machine: int) -> list[Place]:
        """Return what goes to the only machine that has to be tried: the most frequent case."""
        waiting, free = self._waiting, state.room.free()[machine].tolist()
        places, slot = [], -1
        while (slot := waiting.first(free, slot + 1)) >= 0:
            task = waiting[slot]
            if task.waiting:
                count = _room_for(task, free, task.remaining)
                free = [f - a * count for f, a in zip(free, task.request, strict=True)]
                places.append(Place(task, ((machine, count),)))
            if not task.waiting or count == task.remaining:
                waiting.remove(slot)
        self._settle(state)
        return places

    def _fill(self, state: State, machine: int) -> list[Place]:
        """Return the same for a pair fitness."""
        score, slot_of = self._begin(state), self._waiting.slot_of
        places = self._planned_at_once(state, np.array([machine]))
        if places is None:
            facts, room = TaskColumns.of_queue(state.queue), state.room

            def first(rows: Ints) -> int:
                slots = [slot_of(facts.tasks[row]) for row in rows.tolist()]
                return int(rows[np.argmin(slots)])

            free, capacity = room.free()[machine], room.capacity[machine]
            counts = fill(score, facts, machine, free, capacity, first)
            places = [Place(facts.tasks[row], ((machine, n),)) for row, n in counts.items()]
        for task, on, _ in places:
            if on[0][1] == task.remaining:
                self._waiting.remove(slot_of(task))
        self._settle(state)
        return places

    def _planned_at_once(self, state: State, machines: Ints | None) -> list[Place] | None:
        """Return what goes to some machines, or any, as planned by the fitness; None: it cannot."""
        place_all = getattr(self.fitness, "place_all", None)
        if place_all is None or self.order is not None:
            return None
        room = state.room
        if machines is None:
            machines = np.arange(len(room.capacity))
        if len(machines) > _MOST_AT_ONCE:
            return None
        rows = machines.tolist()
        pairs = place_all(state.queue.columns(), room.free()[machines], room.capacity[machines])
        if pairs is None:
            return None
        placed: dict[int, dict[int, int]] = {}
        for row, at in pairs.tolist():
            on = placed.setdefault(row, {})
            on[rows[at]] = on.get(rows[at], 0) + 1
        tasks = state.queue.tasks
        if not all(tasks[row] in self._waiting for row in placed):
            return None  # it was not asked when they arrived
        return [Place(tasks[row], tuple(on.items())) for row, on in placed.items()]

    def _begin(self, state: State) -> Score:
        """Let a pair fitness look at the state; return its score."""
        if (begin := getattr(self.fitness, "begin", None)) is not None:
            begin(state)
        score: Score = getattr(self.fitness, "scores", None) or self.fitness  # type: ignore[assignment]
        return score

    def choose(self, state: State, search: FitSearch) -> Iterator[Place]:
        if isinstance(self.fitness, MachineFitness):
            return self._choose_machines(state, search, self.fitness)
        score, places = self._begin(state), None
        if search.unrestricted and not self._waiting.gangs:
            places = self._planned_at_once(state, search.machines())
        if places is not None:
            return self._carry_out(places)
        return self._choose_pairs(state, search, score)

    def _carry_out(self, places: list[Place]) -> Iterator[Place]:
        for place in places:
            yield place
            if not place.task.waiting:
                self._waiting.remove(self._waiting.slot_of(place.task))

    def _choose_machines(
        self, state: State, search: FitSearch, fitness: MachineFitness
    ) -> Iterator[Place]:
        for task, machines in search:
            free = search.free_for(task)
            if free is None:
                continue
            capacity = state.room.capacity
            many = len(free) if machines is None else len(machines)
            if self._states is not None and many >= _MANY and not search.ahead:
                numbers = self._states.numbers(free, capacity)
                machines = _first_choices(fitness, task, free, capacity, numbers, machines)
            if on := place_by(fitness, task, free, capacity, machines):
                yield Place(task, on)

    def _choose_pairs(self, state: State, search: FitSearch, score: Score) -> Iterator[Place]:
        """Plan the whole decision, then yield what each task got.

        What is known ahead makes the plan err on the safe side; so it is made again until nothing
        more fits.
        """
        while True:
            free, capacity = state.room.free(), state.room.capacity
            states = None if self._states is None else self._states.numbers(free, capacity)
            spare: list[Floats] = []
            if search.ahead:
                slots, spare = _spare(search)
            else:
                slots = search.slots()
            facts = TaskColumns.of_queue(state.queue)
            facts = facts.take(facts.index.searchsorted(self._waiting.indices(slots)))
            plan = PairPlacer(score, facts, free, capacity, states)
            for rows, machines in search.restricted(slots):
                plan.restrict(rows, machines)
            for row, amounts in enumerate(spare):
                plan.set_spare(row, amounts)
            placed = False
            for task, on in plan.placements():
                placed = True
                yield Place(task, on)
            if not placed or not search.ahead:
                return


def _spare(search: FitSearch) -> tuple[Ints, list[Floats]]:
    """Return the slots of tasks that fit somewhere, and the (M, R) that each may take there."""
    fitting: list[int] = []
    spare: list[Floats] = []
    for slot in search.slots().tolist():
        free = search.free_for(search.task(slot))
        if free is not None:
            fitting.append(slot)
            spare.append(free)
    return np.array(fitting, np.int64), spare


def _first_choices(
    fitness: MachineFitness,
    task: Task,
    free: Floats,
    capacity: Floats,
    states: Ints,
    machines: Ints | None,
) -> Ints:
    """Return the rows, ascending, among which all that get an instance of a task are.

    A machine gets its first instance after those that score higher, and after those of lower rows
    in the same state. So of N instances none goes beyond the first N of these machines.

    Args:
        fitness: says which machine gets the next instance, by the state of the machine.
        task: the task to place.
        free: (M, R) free amounts.
        capacity: (M, R) machine totals.
        states: (M,) machines of the same number are in the same state.
        machines: rows of the machines to try, ascending; None: all.
    """
    needed = task.remaining
    tried: Ints = np.arange(len(free)) if machines is None else machines
    states = states[tried]
    sizes = np.bincount(states)
    example = np.zeros(len(sizes), np.int64)
    example[states] = tried
    there: Ints = np.flatnonzero(sizes)
    there = there[instances_that_fit(free[example[there]], task.request, 1) > 0]
    if not len(there):
        return there
    scores = fitness.scores(task, free[example[there]], capacity[example[there]])
    order = np.argsort(-scores)
    reached = int(np.searchsorted(np.cumsum(sizes[there[order]]), needed))
    chosen = there[scores >= scores[order[min(reached, len(order) - 1)]]]
    whole = np.zeros(len(sizes), np.bool_)
    whole[chosen] = sizes[chosen] <= needed
    parts = [np.flatnonzero(states == state)[:needed] for state in chosen[~whole[chosen]]]
    first: Ints = tried[np.sort(np.concatenate([np.flatnonzero(whole[states]), *parts]))]
    return first


def place_by(
    fitness: MachineFitness,
    task: Task,
    free: Floats,
    capacity: Floats,
    machines: Ints | None = None,
    most: int | None = None,
) -> Placement:
    """Return where instances of a task go by a machine fitness; empty: nowhere.

    Args:
        fitness: says which machine gets the next instance.
        task: the task to place: all instances of a gang, as many as fit of a bag.
        free: (M, R) free amounts.
        capacity: (M, R) machine totals.
        machines: rows of the machines to try, ascending; None: all.
        most: the most instances of a bag.
    """
    needed = task.remaining if most is None else most
    if machines is not None:
        if len(machines) == 1:
            return _place_on(int(machines[0]), task, free, needed)
        free, capacity = free[machines], capacity[machines]
    if fitness.by_row:
        return _place_by_row(task, free, machines, needed)
    counts = instances_that_fit(free, task.request, needed)
    room = int(counts.sum())
    if not room or (task.gang and room < needed):
        return ()
    positions, placed = fitness.split(task, free, capacity, counts, needed)
    rows = positions if machines is None else machines[positions]
    return tuple(zip(rows.tolist(), placed.tolist(), strict=True))


def _place_on(machine: int, task: Task, free: Floats, needed: int) -> Placement:
    """Return the same if there is only one machine to try."""
    count = _room_for(task, free[machine].tolist(), needed)
    return ((machine, count),) if count == needed or (count > 0 and not task.gang) else ()


def _room_for(task: Task, free: Sequence[float], most: int) -> int:
    """Return how many instances fit into (R,) free amounts, at most `most`; below 1: none."""
    count = most
    for amount, left in zip(task.request, free, strict=True):
        if amount > 0:
            count = min(count, int(left // amount))
    return count


def _place_by_row(task: Task, free: Floats, machines: Ints | None, needed: int) -> Placement:
    """Return the same for machines in order of their rows: looks no further than it must."""
    on: list[tuple[int, int]] = []
    first, size = 0, _PART
    while first < len(free):
        counts = instances_that_fit(free[first : first + size], task.request, needed)
        positions, placed = split_in_order(counts.nonzero()[0], counts, needed)
        rows = positions + first
        rows = rows if machines is None else machines[rows]
        on += zip(rows.tolist(), placed.tolist(), strict=True)
        needed -= int(placed.sum())
        if not needed:
            return tuple(on)
        first, size = first + size, 2 * size
    return () if task.gang else tuple(on)


_MOST = 4  # states remembered for each machine, before those that are gone are forgotten


class MachineStates:
    """Numbers the states of M machines; only machines that have changed are looked up again."""

    def __init__(self) -> None:
        self._free: Floats = np.empty((0, 0))
        self._capacity: Floats = np.empty((0, 0))
        self._number: Ints = np.empty(0, np.int64)
        self._known: defaultdict[bytes, int] = defaultdict(count().__next__)

    def numbers(self, free: Floats, capacity: Floats) -> Ints:
        """Return (M,): the number of each machine's state; the array is read-only.

        Args:
            free: (M, R) free amounts.
            capacity: (M, R) machine totals; when they change, this is another array.
        """
        machines = len(free)
        if self._free.shape != free.shape or len(self._known) > _MOST * machines + 1024:
            self._known = defaultdict(count().__next__)
            self._number = np.empty(machines, np.int64)
            changed = np.arange(machines)
        else:
            changed = _rows_that_differ(free, self._free)
            if capacity is not self._capacity:
                changed = np.union1d(changed, _rows_that_differ(capacity, self._capacity))
        if len(changed) == machines:
            self._free = free.copy()
        else:
            self._free[changed] = free[changed]
        self._capacity = capacity
        rows = np.hstack((free[changed], capacity[changed]))
        keys = rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()
        self._number[changed] = [self._known[key] for key in keys]
        return self._number


def _rows_that_differ(now: Floats, before: Floats) -> Ints:
    places = np.flatnonzero(now.ravel() != before.ravel())
    return np.unique(places // now.shape[1])
