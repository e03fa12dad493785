"""Pairs of a machine and a task that fits on it: what a fitness sees when it scores them.

`PairTable` keeps the scores of all of them up to date while instances are placed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError
from simkit.policy.queue import TaskQueue
from simkit.policy.room import instances_that_fit, split_by_score
from simkit.policy.task import Placement, Task
from simkit.units import ENDLESS_S


class TaskColumns:
    """What a decision knows of its tasks, as columns; (T,) unless said otherwise."""

    __slots__ = ("estimate_s", "gang", "hold_s", "index", "instances", "remaining", "request",
                 "requested_time_s", "submit_time_s", "tasks", "user")  # fmt: skip

    def __init__(self, tasks: Sequence[Task], resources: int) -> None:
        self.tasks: Sequence[Task] = tasks
        """The tasks, in order."""
        rows = [
            (t.index, t.remaining, t.instances, t.estimate_s, t.requested_time_s, t.submit_time_s,
             t.user, t.gang, *t.request)
            for t in tasks
        ]  # fmt: skip
        table = np.array(rows, dtype=np.float64).reshape(len(tasks), 8 + resources)
        self.index, self.remaining, self.instances = table.T[:3]
        self.estimate_s: Floats = np.minimum(table.T[3], ENDLESS_S)
        """A number also where the estimate has no end: scores are finite."""
        self.requested_time_s, self.submit_time_s, self.user, gang = table.T[4:8]
        self.hold_s = self.estimate_s
        """Time for which an instance holds its machine; longer than it runs where a simulator
        counts ticks."""
        self.gang: Bools = gang > 0
        self.request: Floats = table[:, 8:].copy()  # rows next to each other are read faster
        """(T, R)"""

    @classmethod
    def of_queue(cls, queue: TaskQueue) -> TaskColumns:
        """Return all tasks that wait, by submission; read-only, valid until the queue changes."""
        made, columns = cls.__new__(cls), queue.columns()
        made.tasks, made.request = queue.tasks, columns.request.T
        for name in _SHARED:
            setattr(made, name, getattr(columns, name))
        made.hold_s = made.estimate_s = np.minimum(columns.estimate_s, ENDLESS_S)
        return made

    def take(self, rows: Ints) -> TaskColumns:
        """Return some of the tasks."""
        made = TaskColumns.__new__(TaskColumns)
        made.tasks = [self.tasks[row] for row in rows.tolist()]
        made.request = self.request.take(rows, axis=0)
        for name in (*_SHARED, "hold_s"):
            setattr(made, name, getattr(self, name)[rows])
        return made


_SHARED = ("estimate_s", "gang", "index", "instances", "remaining", "requested_time_s",
           "submit_time_s", "user")  # fmt: skip


class MachineTaskPairs:
    """Feasible pairs, one a row: P pairs, R resources; columns are made when they are asked for.

    The instance of a row's task has room on its machine.
    """

    __slots__ = ("capacity", "facts", "free", "machine", "task")

    def __init__(
        self, facts: TaskColumns, task: Ints, machine: Ints, free: Floats, capacity: Floats
    ) -> None:
        self.facts = facts
        """The tasks of the decision, as columns; read-only."""
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
        column: Floats = self.facts.request.take(self.task, axis=0)
        return column

    @property
    def estimate_s(self) -> Floats:
        """(P,) estimated run time of an instance; 2⁴⁰ s where it has no end."""
        column: Floats = self.facts.estimate_s[self.task]
        return column

    @property
    def hold_s(self) -> Floats:
        """(P,) time for which an instance holds its machine."""
        column: Floats = self.facts.hold_s[self.task]
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


def checked_scores(score: Score, pairs: MachineTaskPairs) -> Floats:
    """Return (P,) scores; raises PolicyError unless each is a finite number."""
    scores = np.asarray(score(pairs), dtype=np.float64)
    if scores.shape != pairs.task.shape or not np.isfinite(scores).all():
        raise PolicyError(
            f"fitness: {_name(score)} gives {_fault(scores, pairs)}; a score is one finite number "
            "for each pair"
        )
    return scores


def fill(
    score: Score, facts: TaskColumns, machine: int, free: Floats, capacity: Floats,
    first: Callable[[Ints], int],
) -> dict[int, int]:  # fmt: skip
    """Return row of a task → instances that go to the only machine with room, in order.

    The best one goes first, again and again, until nothing fits.

    Args:
        score: says what goes first.
        facts: the tasks; none is a gang of several instances.
        machine: row of the machine.
        free: (R,) what is free there.
        capacity: (R,) its total.
        first: says which of several tasks, given by row, comes first if they score alike.
    """
    placed: dict[int, int] = {}
    rows: Ints = np.arange(len(facts.tasks))
    free = free.copy()
    while True:
        fits = facts.request.T[0][rows] <= max(free[0], 0.0)
        for r in range(1, len(free)):
            fits &= facts.request.T[r][rows] <= max(free[r], 0.0)
        rows = rows[fits]
        if not len(rows):
            return placed
        size = len(rows)
        pairs = MachineTaskPairs(
            facts, rows, np.full(size, machine),
            np.repeat(free[None], size, axis=0), np.repeat(capacity[None], size, axis=0),
        )  # fmt: skip
        scores = checked_scores(score, pairs)
        ties = rows[scores == scores.max()]
        best = int(ties[0]) if len(ties) == 1 else first(ties)
        free -= facts.request[best]
        placed[best] = placed.get(best, 0) + 1
        if placed[best] == facts.remaining[best]:
            rows = rows[rows != best]


_BLOCK = 2048  # pairs prepared ahead, so that many are scored at a time
_MOST_PAIRS = 2**18  # in one table, so that its columns stay small


class PairPlacer:
    """Places the best pair, again and again, in a copy of what is free.

    Machines that are alike share a column: their scores are computed once, and as many of them as
    come next get an instance in one step, from the lowest row on. They leave for a column of their
    own unless all of them go. The scores of a column are kept until then. They are computed for
    several placements ahead, because the next best pair is often the same one.
    """

    def __init__(
        self, score: Score, facts: TaskColumns, free: Floats, capacity: Floats,
        states: Ints | None = None,
    ) -> None:  # fmt: skip
        """Begin with tasks that may go anywhere.

        Args:
            score: says what goes first.
            facts: the tasks; the first win ties.
            free: (M, R) free amounts.
            capacity: (M, R) machine totals.
            states: (M,) machines of the same number have the same free amounts and capacity, and
                the score treats them alike; None: each machine has a score of its own.
        """
        self._score = score
        self._facts = facts
        self._all_free = free
        self._capacity = capacity
        self._states = states
        self._only: list[tuple[Ints, Ints]] = []  # rows of tasks, and those of their machines
        self._spare: dict[int, Floats] = {}

    def restrict(self, tasks: Ints, machines: Ints) -> None:
        """Let some tasks, which are not restricted yet, go to some machines alone, given by row."""
        self._only.append((tasks, machines))

    def set_spare(self, task: int, spare: Floats) -> None:
        """Let a task take less than what is free: (M, R)."""
        self._spare[task] = spare

    def placements(self) -> Iterator[tuple[Task, Placement]]:
        """Yield what each task gets, in order of its first placement.

        Raises PolicyError if a score is not finite.
        """
        if not self._facts.tasks:
            return
        self._begin()
        while (top := self._top()) is not None:
            column, task, rival = top
            if self._facts.gang[task] and self._left[task] > 1:
                self._place_gang(task)
            else:
                self._place(column, task, rival)
        for task, placed in self._placed.items():
            yield self._facts.tasks[task], tuple(placed.items())

    def _begin(self) -> None:
        tasks = len(self._facts.tasks)
        self._left: list[int] = [task.remaining for task in self._facts.tasks]
        self._alive = np.ones(tasks, np.bool_)
        self._placed: dict[int, dict[int, int]] = {}
        self._make_columns()
        self._allowed = self._allowed_table()
        self._kept = self._kept_table()
        width = len(self._lowest)
        self._scores = np.empty((width, tasks))
        self._columns = width
        self._best_task = np.zeros(width, np.int64)
        self._best = np.full(width, -np.inf)
        self._ahead: dict[int, tuple[int, int, Floats]] = {}  # column → (task, step, block)
        step = max(1, _MOST_PAIRS // tasks)
        for first in range(0, width, step):
            columns = np.arange(first, min(first + step, width))
            self._scores[columns] = self._score_states(columns, self._free[columns])
        self._find_best(np.arange(width))

    def _make_columns(self) -> None:
        """Sort machines into columns: each into its own if they must be told apart."""
        machines: Ints = np.arange(len(self._all_free))
        if sum(len(tasks) for tasks, _ in self._only) == len(self._facts.tasks):
            machines = np.unique(np.concatenate([allowed for _, allowed in self._only]))
        gangs = (self._facts.gang & (self._facts.instances > 1)).any()
        first = of = np.arange(len(machines))
        if self._states is not None and not gangs and not self._spare:
            of = self._states[machines]
            for _, allowed in self._only:
                if len(allowed) < len(machines):
                    of = 2 * np.unique(of, return_inverse=True)[1] + np.isin(machines, allowed)
            _, first, of = np.unique(of, return_index=True, return_inverse=True)
        self._machines, self._column = machines, of
        self._apart = len(first) == len(machines)  # each machine has its own column
        self._lowest = machines[first]  # (C,) lowest row of each column
        self._members: dict[int, Ints] = {}  # column → its machines, if they have been looked up
        self._free = self._all_free[self._lowest]  # (C, R) of each machine of a column

    def _allowed_table(self) -> Bools | None:
        """Return (C, T): which task may go to which column; None: each to all."""
        if not self._only:
            return None
        table = np.ones((len(self._lowest), len(self._facts.tasks)), np.bool_)
        for tasks, machines in self._only:
            table[:, tasks] = np.isin(self._lowest, machines)[:, None]
        return table

    def _kept_table(self) -> Floats | None:
        """Return (C, T, R): what each task must leave free on each machine; None: nothing."""
        if not self._spare:
            return None
        kept = np.zeros((len(self._lowest), len(self._facts.tasks), self._free.shape[1]))
        for task, spare in self._spare.items():
            kept[:, task] = self._free - spare[self._lowest]
        return kept

    def _score_states(self, columns: Ints, free: Floats) -> Floats:
        """Return (S, T): every task's score on machines in given states; -inf where none fits.

        Args:
            columns: (S,) columns of machines.
            free: (S, R) what is free there.
        """
        request = self._facts.request
        fits = np.repeat(self._alive[None], len(columns), axis=0)
        if self._allowed is not None:
            fits &= self._allowed[columns]
        room = free[:, None] if self._kept is None else free[:, None] - self._kept[columns]
        room = np.maximum(room, 0.0)  # (S, 1, R), or (S, T, R) if tasks leave different amounts
        for r in range(request.shape[1]):
            fits &= request[:, r] <= room[:, :, r]
        state, task = fits.nonzero()
        scores = np.full(fits.shape, -np.inf)
        if len(task):
            machine = self._lowest[columns[state]]
            scores[fits] = self._ask(task, machine, free.take(state, axis=0))
        return scores

    def _ask(self, task: Ints, machine: Ints, free: Floats) -> Floats:
        capacity = self._capacity.take(machine, axis=0)
        return checked_scores(
            self._score, MachineTaskPairs(self._facts, task, machine, free, capacity)
        )

    def _find_best(self, columns: Ints) -> None:
        table = self._scores[columns]
        best = table.argmax(axis=1)
        self._best_task[columns] = best
        self._best[columns] = table[np.arange(len(columns)), best]

    def _top(self) -> tuple[int, int, int] | None:
        """Return column, task and lowest row elsewhere of the best pair.

        Ties go to the first task, then to the lowest machine: other columns have the same pair
        from that row on.
        """
        best = self._best
        column = int(best.argmax())
        top = best[column]
        if top == -np.inf:
            return None
        task, rival = int(self._best_task[column]), len(self._all_free)
        ties = (best == top).nonzero()[0]
        if len(ties) > 1:
            tasks = self._best_task[ties]
            task = int(tasks.min())
            ties = ties[tasks == task]
            column = int(ties[self._lowest[ties].argmin()])
            if len(ties) > 1:
                rival = int(self._lowest[ties[ties != column]].min())
        return column, task, rival

    def _place(self, column: int, task: int, rival: int) -> None:
        """Place an instance, or a gang of one, on the machines of a column that come next.

        These are those below the row `rival`, unless the first is still the best after its turn.
        """
        members = self._members_of(column)
        step, block = self._look_ahead(column, task, len(members))
        scores = np.where(self._alive, block[step], -np.inf)
        best = int(scores.argmax())
        count = 1
        if len(members) > 1 and (scores[best], -best) < (self._best[column], -task):
            count = min(int(members.searchsorted(rival)), self._left[task])
        if count < len(members):
            self._ahead[column] = task, step - 1, block
            column = self._split(column, count)
        self._ahead[column] = task, step, block
        self._free[column] -= self._facts.request[task]
        self._scores[column] = scores
        self._best_task[column], self._best[column] = best, scores[best]
        placed = self._placed.setdefault(task, {})
        for machine in members[:count].tolist():
            placed[machine] = placed.get(machine, 0) + 1
        self._left[task] -= count
        if not self._left[task]:
            self._drop(task)

    def _members_of(self, column: int) -> Ints:
        """Return the rows of a column's machines, ascending."""
        members = self._members.get(column)
        if members is None and self._apart:
            return self._lowest[column : column + 1]
        if members is None:
            members = self._members[column] = self._machines[self._column == column]
        return members

    def _look_ahead(self, column: int, task: int, machines: int) -> tuple[int, Floats]:
        """Return (step, block): ``block[step]`` has the scores after another instance there."""
        if column not in self._ahead or self._ahead[column][0] != task:
            self._look_around(column, task)
        _, step, block = self._ahead[column]
        if step + 1 < len(block):
            return step + 1, block
        most = max(1, _BLOCK // len(self._alive))
        steps = 1 + np.arange(min(most, -(-self._left[task] // machines)))
        states = self._free[column] - steps[:, None] * self._facts.request[task]
        return 0, self._score_states(np.full(len(steps), column), states)

    def _look_around(self, column: int, task: int) -> None:
        """Look a step ahead in the best columns for a task; `column` is the first."""
        most = min(max(1, _BLOCK // len(self._alive)), self._left[task])
        columns = np.flatnonzero((self._best_task == task) & (self._best > -np.inf))
        if len(columns) > most:  # ties by row, as they come next
            columns = columns[np.argsort(-self._best[columns], kind="stable")[:most]]
            columns[0] = column
        if len(columns) == 1:  # then several steps there are looked at together
            self._ahead[column] = task, -1, _NOTHING
            return
        scores = self._score_states(columns, self._free[columns] - self._facts.request[task])
        for row, each in enumerate(columns.tolist()):
            self._ahead[each] = task, -1, scores[row : row + 1]

    def _split(self, column: int, count: int) -> int:
        """Move the first `count` machines of a column into a new one, and return that."""
        new = self._columns
        if new == len(self._best):
            self._widen()
        self._columns += 1
        members = self._members[column]
        self._members[new], self._members[column] = members[:count], members[count:]
        self._lowest[new], self._lowest[column] = members[0], members[count]
        self._free[new] = self._free[column]
        if self._allowed is not None:
            self._allowed[new] = self._allowed[column]
        return new

    def _widen(self) -> None:
        """Make space for more columns; nothing fits there until they are used."""
        width, wider = len(self._best), 2 * len(self._best) + 16
        for name in ("_lowest", "_free", "_scores", "_best", "_best_task", "_allowed"):
            if (table := getattr(self, name)) is not None:
                setattr(self, name, np.resize(table, (wider, *table.shape[1:])))
        self._scores[width:] = self._best[width:] = -np.inf

    def _drop(self, task: int) -> None:
        """Leave a task out from now on: nothing of it is left, or its gang does not fit."""
        self._alive[task] = False
        self._scores[:, task] = -np.inf
        columns = np.flatnonzero((self._best_task == task) & (self._best > -np.inf))
        self._find_best(columns)

    def _place_gang(self, task: int) -> None:
        """Place all instances of a gang, or leave it out; every machine has a column then."""
        request, needed = self._facts.tasks[task].request, self._left[task]
        room = self._free if self._kept is None else self._free - self._kept[:, task]
        counts = instances_that_fit(room, request, needed)
        if self._allowed is not None:
            counts[~self._allowed[:, task]] = 0
        columns = np.flatnonzero(counts)
        if int(counts.sum()) >= needed:
            positions, placed = split_by_score(
                lambda left, at: self._ask(
                    np.full(len(at), task), self._lowest[columns[at]], left
                ),
                self._free[columns], request, counts[columns], needed,
            )  # fmt: skip
            used = columns[positions]
            machines = self._lowest[used]
            self._placed[task] = dict(zip(machines.tolist(), placed.tolist(), strict=True))
            self._free[used] -= placed[:, None] * np.array(request)
            self._scores[used] = self._score_states(used, self._free[used])
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


class PairTable:
    """M machines × T tasks of a decision.

    After a placement only the pairs of that machine and of that task are scored again; so a score
    may depend on the machine, on the task, and on the instances left of it.
    """

    def __init__(self, score: Score, facts: TaskColumns, free: Floats, capacity: Floats) -> None:
        """Score all pairs; raises PolicyError, as `place` does, for a score that is not finite.

        Args:
            score: from pairs to scores.
            facts: the tasks, oldest first; `place` counts down their instances that remain.
            free: (M, R) free amounts; `place` takes from them.
            capacity: (M, R) machine totals.
        """
        self._score, self.facts, self.free, self._capacity = score, facts, free, capacity
        machines, tasks = len(free), len(facts.tasks)
        self._scores: Floats = np.full((machines, tasks), -np.inf)
        self._machines, self._tasks = np.arange(machines), np.arange(tasks)
        self._update(np.repeat(self._machines, tasks), np.tile(self._tasks, machines))

    def best(self) -> tuple[int, int] | None:
        """Return machine and task of the highest score; None if nothing fits.

        Ties go to the first machine, then to the oldest task.
        """
        place = int(self._scores.argmax())
        return None if self._scores.flat[place] == -np.inf else divmod(place, len(self._tasks))

    def draw(self, rng: np.random.Generator) -> tuple[int, int] | None:
        """Return a pair, drawn with probabilities in proportion to exp(score); None: nothing fits.

        It takes one random number, and goes through the pairs machine by machine.
        """
        most = self._scores.max()
        if most == -np.inf:
            return None
        below = np.exp(self._scores - most).ravel().cumsum()
        place = int(np.searchsorted(below, rng.random() * below[-1], side="right"))
        return divmod(min(place, int(np.flatnonzero(np.diff(below, prepend=0.0))[-1])),
                      len(self._tasks))  # fmt: skip

    def place(self, machine: int, task: int) -> None:
        """Place an instance of a task on a machine."""
        self.free[machine] -= self.facts.request[task]
        self.facts.remaining[task] -= 1
        column = self._machines[self._machines != machine]
        self._update(
            np.concatenate((np.full(len(self._tasks), machine), column)),
            np.concatenate((self._tasks, np.full(len(column), task))),
        )

    def _update(self, machine: Ints, task: Ints) -> None:
        """Score (P,) pairs again."""
        facts = self.facts
        fits: Bools = np.all(facts.request[task] <= self.free[machine], axis=1)
        fits &= facts.remaining[task] > 0
        self._scores[machine[~fits], task[~fits]] = -np.inf
        machine, task = machine[fits], task[fits]
        if len(task):
            pairs = MachineTaskPairs(
                facts, task, machine, self.free[machine], self._capacity[machine]
            )
            self._scores[machine, task] = checked_scores(self._score, pairs)
