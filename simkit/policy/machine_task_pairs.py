"""Pairs of a machine and a task that fits on it: what a fitness sees when it scores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError
from simkit.policy.instance_split import instances_that_fit, split_by_score
from simkit.policy.task import Placement, Task


class TaskColumns:
    """What a decision knows of its tasks, as columns; (T,) unless said otherwise."""

    __slots__ = ("estimate_s", "gang", "index", "instances", "remaining", "request",
                 "requested_time_s", "submit_time_s", "tasks", "user")  # fmt: skip

    def __init__(self, tasks: Sequence[Task], resources: int) -> None:
        self.tasks = tasks
        """The tasks, in order."""
        rows = [
            (t.index, t.remaining, t.instances, t.estimate_s, t.requested_time_s, t.submit_time_s,
             t.user, t.gang, *t.request)
            for t in tasks
        ]  # fmt: skip
        table = np.array(rows, dtype=np.float64).reshape(len(tasks), 8 + resources)
        self.index, self.remaining, self.instances, self.estimate_s = table.T[:4]
        self.requested_time_s, self.submit_time_s, self.user, gang = table.T[4:8]
        self.gang: Bools = gang > 0
        self.request: Floats = table[:, 8:]
        """(T, R)"""


class MachineTaskPairs:
    """Feasible pairs, one a row: P pairs, R resources; columns are made when they are asked for.

    The instance of a row's task has room on its machine.
    """

    __slots__ = ("capacity", "facts", "free", "machine", "task")

    def __init__(
        self, facts: TaskColumns, task: Ints, machine: Ints, free: Floats, capacity: Floats
    ) -> None:
        self.facts = facts
        """The tasks of the decision, as columns."""
        self.task = task
        """(P,) rows of `facts`."""
        self.machine = machine
        """(P,) rows of machines."""
        self.free = free
        """(P, R) what is free on the machine now."""
        self.capacity = capacity
        """(P, R) the machine's total."""

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.task)

    @property
    def request(self) -> Floats:
        """(P, R) what an instance asks for."""
        column: Floats = self.facts.request[self.task]
        return column

    @property
    def estimate_s(self) -> Floats:
        """(P,) estimated run time of an instance."""
        column: Floats = self.facts.estimate_s[self.task]
        return column

    @property
    def remaining(self) -> Floats:
        """(P,) instances that had not been placed when the decision began."""
        column: Floats = self.facts.remaining[self.task]
        return column

    @property
    def submit_time_s(self) -> Floats:
        """(P,) when the job was submitted."""
        column: Floats = self.facts.submit_time_s[self.task]
        return column

    @property
    def index(self) -> Floats:
        """(P,) the tasks' rank in order of submission."""
        column: Floats = self.facts.index[self.task]
        return column


Score = Callable[[MachineTaskPairs], Floats]
"""From P pairs to (P,) scores."""


_BLOCK = 2048  # pairs prepared ahead, so that many are scored at a time
_MOST_PAIRS = 2**18  # in one table, so that its columns stay small


class PairPlacer:
    """Places the best pair, again and again, in a copy of what is free.

    The scores of all tasks on a machine are kept, and computed again when something is placed
    there. They are computed for several placements ahead, because the next best pair is often the
    same one.
    """

    def __init__(self, score: Score, free: Floats, capacity: Floats) -> None:
        self._score = score
        self._free = free.copy()
        self._capacity = capacity
        self._tasks: list[Task] = []
        self._rows: list[Ints | None] = []
        self._spare: list[Floats | None] = []

    def add(self, task: Task, machines: Ints | None = None, spare: Floats | None = None) -> None:
        """Take in a task.

        Args:
            task: the task; those added first win ties.
            machines: rows of the machines it may go to; None: all.
            spare: (M, R) what it may take there; None: what is free.
        """
        self._tasks.append(task)
        self._rows.append(machines)
        self._spare.append(spare)

    def placements(self) -> Iterator[tuple[Task, Placement]]:
        """Yield what each task gets, in order of its first placement.

        Raises PolicyError if a score is not finite.
        """
        if not self._tasks:
            return
        self._begin()
        while (top := self._top()) is not None:
            column, task = top
            if self._facts.gang[task] and self._left[task] > 1:
                self._place_gang(task)
            else:
                self._place(column, task)
        for task, placed in self._placed.items():
            yield self._tasks[task], tuple(placed.items())

    def _begin(self) -> None:
        rows = self._rows
        self._machines = (
            np.arange(len(self._free))
            if any(each is None for each in rows)
            else np.unique(np.concatenate([each for each in rows if each is not None]))
        )
        self._facts = TaskColumns(self._tasks, self._free.shape[1])
        self._left: list[int] = [task.remaining for task in self._tasks]
        self._alive = np.ones(len(self._tasks), np.bool_)
        self._allowed = self._allowed_table()
        self._kept = self._kept_table()
        self._placed: dict[int, dict[int, int]] = {}
        width = len(self._machines)
        self._scores = np.empty((width, len(self._tasks)))
        self._best_task = np.zeros(width, np.int64)
        self._best = np.full(width, -np.inf)
        self._ahead: dict[int, tuple[int, int, Floats]] = {}  # column → (task, step, block)
        step = max(1, _MOST_PAIRS // len(self._tasks))
        for first in range(0, width, step):
            columns = np.arange(first, min(first + step, width))
            self._scores[columns] = self._score_states(columns, self._free[self._machines[columns]])
        self._find_best(np.arange(width))

    def _allowed_table(self) -> Bools | None:
        """Return (W, T): which task may go to which machine; None: each to all."""
        if all(each is None for each in self._rows):
            return None
        known: dict[int, Bools] = {}
        table = np.ones((len(self._machines), len(self._tasks)), np.bool_)
        for task, rows in enumerate(self._rows):
            if rows is not None:
                if id(rows) not in known:
                    known[id(rows)] = np.isin(self._machines, rows)
                table[:, task] = known[id(rows)]
        return table

    def _kept_table(self) -> Floats | None:
        """Return (W, T, R): what each task must leave free on each machine; None: nothing."""
        if all(spare is None for spare in self._spare):
            return None
        rows = self._machines
        none = self._free[rows]
        kept = [none - (none if spare is None else spare[rows]) for spare in self._spare]
        return np.stack(kept, axis=1)

    def _score_states(self, columns: Ints, free: Floats) -> Floats:
        """Return (S, T): every task's score on machines in given states; -inf where none fits.

        Args:
            columns: (S,) columns of machines.
            free: (S, R) what is free there.
        """
        request = self._facts.request
        fits = np.broadcast_to(self._alive, (len(columns), len(request))).copy()
        if self._allowed is not None:
            fits &= self._allowed[columns]
        for r in range(request.shape[1]):
            room = free[:, r, None]
            if self._kept is not None:
                room = room - self._kept[columns, :, r]
            fits &= request[:, r] <= np.maximum(room, 0.0)
        state, task = np.nonzero(fits)
        scores = np.full(fits.shape, -np.inf)
        if len(task):
            scores[state, task] = self._ask(task, self._machines[columns[state]], free[state])
        return scores

    def _ask(self, task: Ints, machine: Ints, free: Floats) -> Floats:
        pairs = MachineTaskPairs(self._facts, task, machine, free, self._capacity[machine])
        scores = np.asarray(self._score(pairs), dtype=np.float64)
        if scores.shape != task.shape or not np.isfinite(scores).all():
            raise PolicyError(
                f"fitness: {_name(self._score)} gives {_fault(scores, pairs)}; a score is one "
                "finite number for each pair"
            )
        return scores

    def _find_best(self, columns: Ints) -> None:
        table = self._scores[columns]
        best = table.argmax(axis=1)
        self._best_task[columns] = best
        self._best[columns] = table[np.arange(len(columns)), best]

    def _top(self) -> tuple[int, int] | None:
        """Return the best pair; ties to the first task, then to the lowest machine."""
        best = self._best
        column = int(best.argmax())
        top = best[column]
        if top == -np.inf:
            return None
        task = int(self._best_task[column])
        ties = (best == top).nonzero()[0]
        if len(ties) > 1:
            column = int(ties[self._best_task[ties].argmin()])
            task = int(self._best_task[column])
        return column, task

    def _place(self, column: int, task: int) -> None:
        """Place an instance, or a gang of one."""
        machine = int(self._machines[column])
        self._free[machine] -= self._facts.request[task]
        placed = self._placed.setdefault(task, {})
        placed[machine] = placed.get(machine, 0) + 1
        self._left[task] -= 1
        self._move_on(column, task)
        if not self._left[task]:
            self._drop(task)

    def _move_on(self, column: int, task: int) -> None:
        """Bring a machine's scores up to date after an instance of a task was placed there."""
        known, step, block = self._ahead.get(column, (-1, 0, _NOTHING))
        step += 1
        if known != task or step >= len(block):
            steps = max(1, min(_BLOCK // len(self._tasks), self._left[task]))
            free = self._free[self._machines[column]]
            states = free - np.arange(steps)[:, None] * self._facts.request[task]
            block, step = self._score_states(np.full(steps, column), states), 0
        self._ahead[column] = (task, step, block)
        scores = np.where(self._alive, block[step], -np.inf)
        best = int(scores.argmax())
        self._scores[column] = scores
        self._best_task[column], self._best[column] = best, scores[best]

    def _drop(self, task: int) -> None:
        """Leave a task out from now on: nothing of it is left, or its gang does not fit."""
        self._alive[task] = False
        self._scores[:, task] = -np.inf
        columns = np.flatnonzero((self._best_task == task) & (self._best > -np.inf))
        self._find_best(columns)

    def _place_gang(self, task: int) -> None:
        """Place all instances of a gang, or leave it out."""
        request, needed = self._tasks[task].request, self._left[task]
        free = self._free[self._machines]
        room = free if self._kept is None else free - self._kept[:, task]
        counts = instances_that_fit(room, request, needed)
        if self._allowed is not None:
            counts[~self._allowed[:, task]] = 0
        columns = np.flatnonzero(counts)
        if int(counts.sum()) >= needed:
            positions, placed = split_by_score(
                lambda left, at: self._ask(
                    np.full(len(at), task), self._machines[columns[at]], left
                ),
                free[columns], request, counts[columns], needed,
            )  # fmt: skip
            used = columns[positions]
            machines = self._machines[used]
            self._placed[task] = dict(zip(machines.tolist(), placed.tolist(), strict=True))
            self._free[machines] -= placed[:, None] * np.array(request)
            self._scores[used] = self._score_states(used, self._free[machines])
            for column in used.tolist():
                self._ahead.pop(column, None)
            self._find_best(used)
        self._drop(task)


_NOTHING = np.empty((0, 0))


def _name(score: Score) -> str:
    owner = getattr(score, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(score, "__name__", repr(score))


def _fault(scores: Floats, pairs: MachineTaskPairs) -> str:
    if scores.shape != pairs.task.shape:
        return f"scores of shape {scores.shape} for {len(pairs)} pairs"
    worst = int(np.flatnonzero(~np.isfinite(scores))[0])
    task = pairs.facts.tasks[int(pairs.task[worst])]
    return f"{scores[worst]} for {task!r} on machine {pairs.machine[worst]}"
