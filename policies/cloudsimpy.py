"""CloudSimPy's rules: its clock, its order and its ties; what `compat: cloudsimpy` means.

CloudSimPy is the simulator behind F. Li and B. Hu, "DeepJS: Job scheduling based on deep
reinforcement learning in cloud data center" (ICBDC 2019). It decides once a second, one instance
at a time. This file holds its peculiar rules, so that its schedules can be compared; the engine
does not know them. Give it a decision every second and true estimates:

    scheduling: {every: 1s}
    estimates: actual

The clock counts whole seconds since the first job was submitted; a tick is one of them.

1. A job that is submitted at T is seen at the first tick from T on; a tick later if the scheduler
   came first: if the job before was submitted at the same time, or less than a second before the
   tick, or just a second before it and was itself seen late. The first job counts as following
   one that was seen late.
2. What an instance holds comes free at the first tick from its end on; if it ran for exactly one
   second, a tick later.
3. Jobs are taken in order of submission, tasks in the order of the trace; both settle ties.
4. The makespan is the tick at which the last instance's resources come free: the metric
   `cloudsimpy_makespan`.

CloudSimPy adds up free amounts as doubles, instance by instance, with rounding errors. Where
requests add up to exactly what a machine has (such as 0.7 and 1 core to 64), these errors decide
whether the last one fits; where two scores are nearly equal, which is placed. So this policy forms
the sums in the same way, next to the engine's exact ones, from the amounts that the reader read
(`Task.request_as_read`), not from those that simkit rounds down to multiples of 2⁻³⁰. Times are
multiples of 2⁻²⁰ s, so ends differ by less than 1e-6 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import PolicyError, ScenarioError, did_you_mean
from simkit.policies.fitness import Balance
from simkit.policy import Action, Place, State, SystemInfo, WakeAt
from simkit.policy.declared import PolicyMetric, reads_estimates
from simkit.policy.fitness import PairFitness, Score
from simkit.policy.pairs import PairTable, TaskColumns
from simkit.policy.task import Allocation, Task
from simkit.units import ENDLESS_S

Placed = list[tuple[int, dict[int, int]]]
"""(row of a task, machine → instances), in order; a task comes again after others had a turn."""

_THRESHOLD = 0.8  # CloudSimPy's random fitness takes a pair if it draws more than this


class ArrivalTicks:
    """The tick at which each job is first seen (rule 1); asked for job by job, as submitted.

    Args:
        begin_s: the tick of the first submission, a whole second.
    """

    def __init__(self, begin_s: float) -> None:
        self._last = (begin_s, False)  # previous job: submission, whether it was seen in time

    def next(self, submit_s: float) -> float:
        """Return the tick, in s, at which the next job is seen."""
        before, was_in_time = self._last
        tick = float(ceil(submit_s))
        in_time = tick > submit_s or (
            submit_s > before
            and (before < submit_s - 1.0 or (before == submit_s - 1.0 and was_in_time))
        )
        self._last = (submit_s, in_time)
        return tick if in_time else tick + 1.0


def hold_ticks(run_s: Floats) -> Floats:
    """Return how many ticks an instance that starts at a tick holds its resources (rule 2)."""
    return np.where(run_s == 1.0, 2.0, np.ceil(run_s))


def makespan(start_s: Floats, end_s: Floats, first_submit_s: float = 0.0) -> float | None:
    """Return the makespan in s by CloudSimPy's clock (rule 4); None if nothing has ended.

    Args:
        start_s: (A,) start of each allocation.
        end_s: (A,) its end; NaN if it has not ended.
        first_submit_s: when the first job was submitted.
    """
    ended = np.isfinite(end_s)
    start_s, end_s = start_s[ended], end_s[ended]
    if not len(end_s):
        return None
    free_s = np.where(end_s - start_s == 1.0, start_s + 2.0, np.ceil(end_s))
    return float(free_s.max()) - floor(first_submit_s)


class CloudSimPy:
    """CloudSimPy, with one of its heuristics.

    - ``first-fit``: picks the *last* machine on which anything fits, and the first task that fits
      there.
    - ``tetris``: the pair with the largest product of free and requested cpu and memory, in the
      trace's units; ties go to the first machine, then to the first task.
    - ``sjf``: the task with the shortest estimate that fits anywhere, on the first machine.
    - ``ljf``: the same with the longest estimate.
    - ``random``: goes through each machine's tasks in order until it takes one, each with
      probability 0.2. Of the machines on which it took a task the *last* one wins; if it took none,
      it draws one of all pairs.

    These are not CloudSimPy's, but decide by its rules, an instance at a time; ties go to the first
    machine, then to the first task:

    - ``balance``: the pair that `simkit.policies.fitness.Balance` scores highest.
    - any pair fitness, such as an agent's, or a function of `MachineTaskPairs`. It sees ticks in
      place of the time for which an instance holds its machine, and the instances left and the free
      amounts of the moment.

    A task that does not fit does not block others. There are no gangs, partitions or suspensions.

    Args:
        fitness: the heuristic, or a pair fitness.
        order: another name for the heuristic, besides the default fitness; fcfs says nothing.
        draws: a pair fitness draws pairs, with probabilities in proportion to exp(score); else it
            takes the best.

    Raises ScenarioError for another name. A run raises PolicyError for gangs of several instances,
    partitions that use only some machines, and decisions between ticks.
    """

    begins_with_run = True
    """Whether it must see a run from its beginning on, to know when jobs are seen."""
    period_s = 1.0
    """Its only time between decisions."""
    metrics = (
        PolicyMetric(
            "cloudsimpy_makespan",
            "s",
            "tick at which the last allocation's resources come free - floor(first submit); "
            "free at ceil(end), or at start + 2 s after a run of exactly 1 s",
            makespan,
            "low",
        ),
    )
    arrival_ticks, hold_ticks = ArrivalTicks, staticmethod(hold_ticks)
    """Its clock, for models that agents are trained in."""

    def __init__(
        self,
        fitness: str | PairFitness | Score = "first-fit",
        *,
        order: str = "fcfs",
        draws: bool = False,
    ) -> None:
        if order != "fcfs":
            if fitness != "first-fit":
                raise ScenarioError(
                    f"cloudsimpy: the order {order} goes with the fitness first-fit alone, not "
                    f"with {fitness}"
                )
            fitness = order
        self.fitness = fitness
        if fitness == "balance":
            fitness = Balance()
        if not isinstance(fitness, str):
            self._scorer: PairFitness | Score | None = fitness
            _refuse_unknown(fitness)
            score: Score = getattr(fitness, "scores", None) or fitness  # type: ignore[assignment]
            self._rule = _by_score(score, draws=draws)
            return
        if fitness not in _RULES:
            known = did_you_mean(fitness, [*_RULES, "balance"])
            raise ScenarioError(f"cloudsimpy: there is no fitness {fitness!r}{known}")
        self._scorer, self._rule = None, _RULES[fitness]

    @property
    def reads_estimates(self) -> bool:
        """Whether the heuristic sorts by estimates, or the pair fitness reads them."""
        return self.fitness in _BY_ESTIMATE or reads_estimates(self._scorer)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        if any(partition.machines is not None for partition in info.partitions):
            raise PolicyError("CloudSimPy has no partitions; let every partition use all machines")
        self._rng = rng
        self._capacity = info.capacity
        self._free = info.capacity.copy()
        self._ticks = ArrivalTicks(float(np.floor(info.first_submit_s)))
        self._seen_at: dict[int, float] = {}  # job → tick
        self._hidden: list[Task] = []
        self._tasks: list[Task] = []  # waiting tasks that have been seen, in order
        self._late: list[Allocation] = []  # these come free at the next tick
        if (reset := getattr(self._scorer, "reset", None)) is not None:
            reset(info, rng)

    def schedule(self, state: State) -> Iterator[Action]:
        now = state.now
        if now % 1.0:
            raise PolicyError(
                f"CloudSimPy at {now:g} s: it decides at whole seconds; set "
                "scheduling: {every: 1s}"
            )
        yield from self._see(state)
        yield from self._release(state)
        if not self._tasks:
            return
        room = _Tick(self._tasks, self._free, self._capacity, self._rng)
        if room.anything():
            self._show_work(state, room)
            self._rule(room)
            for task, on in room.placed:
                yield Place(self._tasks[task], tuple(on.items()))
            self._tasks = [task for task in self._tasks if task.waiting]

    def _see(self, state: State) -> Iterator[WakeAt]:
        """Add the tasks that can be seen at this tick; ask to be woken for the others."""
        for task in sorted(state.arrived, key=lambda task: task.index):
            if task.gang and task.instances > 1:
                raise PolicyError(
                    f"CloudSimPy: {task!r} is a gang, but CloudSimPy has none; read the trace as "
                    "bags"
                )
            seen_at = self._seen_at.get(task.job_index)
            if seen_at is None:
                seen_at = self._seen_at[task.job_index] = self._ticks.next(task.submit_time_s)
                if seen_at > state.now:
                    yield WakeAt(seen_at)
            self._hidden.append(task)
        if self._hidden:
            seen = [t for t in self._hidden if self._seen_at[t.job_index] <= state.now]
            self._hidden = [t for t in self._hidden if self._seen_at[t.job_index] > state.now]
            waiting = {t.index: t for t in (*self._tasks, *seen) if t.waiting}
            self._tasks = [waiting[index] for index in sorted(waiting)]

    def _show_work(self, state: State, room: _Tick) -> None:
        """Tell a fitness that looks at remaining work what remains, in ticks."""
        if (weigh := getattr(self._scorer, "weigh", None)) is not None:
            total = self._capacity.sum(axis=0)
            total[total <= 0] = 1.0  # nobody asks for what there is none of
            left = np.array(room.left) * room.hold_ticks @ room.request
            for allocation in (*state.running, *self._late):
                task = allocation.task
                estimate_s = np.array(min(task.estimate_s, ENDLESS_S))
                end = allocation.start_time_s + float(hold_ticks(estimate_s))
                left += allocation.count * (end - state.now) * np.array(_requests(task))
            weigh(left / total, float(room.hold_ticks.max()), total)

    def _release(self, state: State) -> Iterator[WakeAt]:
        """Take back what comes free at this tick (rule 2), in order of ends.

        Decisions are a second apart and a run time is at least a second in CloudSimPy, so what
        started at the last tick and has ended ran for exactly one.
        """
        if state.room.capacity is not self._capacity:
            self._free += state.room.capacity - self._capacity
            self._capacity = state.room.capacity
        for allocation in self._late:
            self._give_back(allocation)
        self._late = []
        for allocation in state.ended:
            if allocation.start_time_s == state.now - 1.0:
                self._late.append(allocation)
            else:
                self._give_back(allocation)
        if self._late:
            yield WakeAt(state.now + 1.0)

    def _give_back(self, allocation: Allocation) -> None:
        request = _requests(allocation.task)
        for machine, count in allocation.on:
            row = self._free[machine].tolist()
            for _ in range(count):
                row = [left + amount for left, amount in zip(row, request, strict=True)]
            self._free[machine] = row


class _Tick:
    """What CloudSimPy sees free at a tick, and what its tasks ask for.

    `free`, (M, R), changes with every placement.
    """

    def __init__(
        self, tasks: Sequence[Task], free: Floats, capacity: Floats, rng: np.random.Generator
    ) -> None:
        self.tasks = tasks
        self.free = free
        self.capacity = capacity
        self.rng = rng
        self.request = np.array([_requests(task) for task in tasks])  # (T, R)
        self.estimate_s = np.array([min(task.estimate_s, ENDLESS_S) for task in tasks])
        self.hold_ticks = hold_ticks(self.estimate_s)
        self.left = [task.remaining for task in tasks]
        self.waiting = np.ones(len(tasks), np.bool_)
        self.placed: Placed = []

    def anything(self) -> bool:
        """Return whether anything could fit; False at most ticks with a long queue."""
        return bool((self.request.min(axis=0) <= self.free.max(axis=0)).all())

    def fitting(self, machine: int) -> Ints:
        """Return the tasks with an instance that fits on a machine, in order."""
        fits = (self.request <= self.free[machine]).all(axis=1)
        return np.flatnonzero(fits & self.waiting)

    def place(self, machine: int, task: int, most: int | None = None) -> None:
        """Place as many instances as fit, at most `most`."""
        request, row = self.request[task].tolist(), self.free[machine].tolist()
        left = self.left[task] if most is None else min(most, self.left[task])
        count = 0
        while count < left and all(a <= f for a, f in zip(request, row, strict=True)):
            row = [f - a for a, f in zip(request, row, strict=True)]
            count += 1
        self.free[machine] = row
        self.left[task] -= count
        self.waiting[task] = self.left[task] > 0
        if not self.placed or self.placed[-1][0] != task:
            self.placed.append((task, {}))  # apart, as what started first also comes free first
        on = self.placed[-1][1]
        on[machine] = on.get(machine, 0) + count


def _first_fit(room: _Tick) -> None:
    """Fill machines from last to first, each task by task."""
    for machine in reversed(range(len(room.free))):
        while len(tasks := room.fitting(machine)):
            room.place(machine, int(tasks[0]))


def _by_estimate(sign: float) -> Callable[[_Tick], None]:
    def rule(room: _Tick) -> None:
        for task in np.argsort(sign * room.estimate_s, kind="stable").tolist():
            fits = (room.request[task] <= room.free).all(axis=1)
            for machine in np.flatnonzero(fits).tolist():
                if room.waiting[task]:
                    room.place(machine, task)

    return rule


def _tetris(room: _Tick) -> None:
    """Place the best pair until none fits; the best of each machine is kept until it changes."""
    best = [_best_task(room, machine) for machine in range(len(room.free))]
    while True:
        machine = max(range(len(best)), key=lambda m: best[m][0])  # the first of the largest
        task = best[machine][1]
        if task < 0:
            return
        room.place(machine, task, most=1)
        for other, (_, its_best) in enumerate(best):
            if other == machine or (its_best == task and not room.waiting[task]):
                best[other] = _best_task(room, other)


def _best_task(room: _Tick, machine: int) -> tuple[float, int]:
    """Return the score and row of the best task on a machine; (-inf, -1) if none fits."""
    tasks = room.fitting(machine)
    if not len(tasks):
        return -np.inf, -1
    # cpu and memory: its first two resources. Summed one after the other, as CloudSimPy does.
    scores = room.free[machine, 0] * room.request[tasks, 0]
    for r in range(1, min(2, room.free.shape[1])):
        scores = scores + room.free[machine, r] * room.request[tasks, r]
    first = int(scores.argmax())
    return float(scores[first]), int(tasks[first])


def _random(room: _Tick) -> None:
    """Draw pairs until none fits; drawn number by number as in the original, so streams agree."""
    by_machine = [room.fitting(machine) for machine in range(len(room.free))]
    while pairs := sum(map(len, by_machine)):
        machine, task = _accepted(by_machine, room.rng) or _nth(
            by_machine, int(room.rng.integers(pairs))
        )
        room.place(machine, task, most=1)
        for other in range(len(by_machine)):
            if other == machine or not room.waiting[task]:
                by_machine[other] = room.fitting(other)


def _accepted(by_machine: Sequence[Ints], rng: np.random.Generator) -> tuple[int, int] | None:
    """Return the pair that is taken: its `break` leaves a machine's tasks, not the machines."""
    taken = None
    for machine, tasks in enumerate(by_machine):
        for task in tasks.tolist():
            if rng.random() > _THRESHOLD:
                taken = (machine, task)
                break
    return taken


def _nth(by_machine: Sequence[Ints], number: int) -> tuple[int, int]:
    """Return a pair by its number, machine by machine."""
    machine = 0
    while number >= len(by_machine[machine]):
        number -= len(by_machine[machine])
        machine += 1
    return machine, int(by_machine[machine][number])


def _refuse_unknown(fitness: object) -> None:
    """Raise ScenarioError for what is no pair fitness, or looks at the state by simkit's rules."""
    name = type(fitness).__name__
    if not callable(getattr(fitness, "scores", fitness)):
        raise ScenarioError(f"cloudsimpy: {name} is no pair fitness; give one, or a function")
    if hasattr(fitness, "begin") and not hasattr(fitness, "weigh"):
        raise ScenarioError(
            f"cloudsimpy: {name} looks at the state before it scores, but CloudSimPy's differs "
            "from simkit's; give a fitness of pairs alone, or one that has weigh"
        )


def _by_score(score: Score, *, draws: bool) -> Callable[[_Tick], None]:
    def rule(room: _Tick) -> None:
        facts = TaskColumns(room.tasks, room.free.shape[1])
        facts.request, facts.hold_s = room.request, room.hold_ticks
        table = PairTable(score, facts, room.free.copy(), room.capacity)
        while (pair := table.draw(room.rng) if draws else table.best()) is not None:
            table.place(*pair)
            room.place(*pair, most=1)

    return rule


def _requests(task: Task) -> tuple[float, ...]:
    return task.request_as_read or task.request


_RULES: dict[str, Callable[[_Tick], None]] = {
    "first-fit": _first_fit,
    "tetris": _tetris,
    "sjf": _by_estimate(1.0),
    "ljf": _by_estimate(-1.0),
    "random": _random,
}
_BY_ESTIMATE = ("sjf", "ljf")
