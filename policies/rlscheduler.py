"""RLScheduler's rules: how it waits, how it backfills, and its versions of three orders.

D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job scheduler
using reinforcement learning" (SC 2020), and its code. Most later papers on learned schedulers
compare themselves with its table of bounded slowdowns. This file holds its peculiar rules, so that
the table can be reproduced; the engine does not know them.

1. The first job of the order is picked, and it stays picked: until it fits, no job is picked in its
   place, not even one that arrives later and comes before it in the order.
2. Things happen one after the other, also at one instant: arrivals in order of submission, then
   ends. So a job that arrives at an idle moment is picked before the next of the same instant is
   seen, and what ends at that instant is not free yet.
3. With backfilling, the *shadow time* is found once, when the job is picked: the earliest expected
   end at which enough is free for it, expected ends that have passed included. Until the picked job
   fits, others are tried in order of submission. One starts if it fits and now + r < shadow time.
   There are no extra nodes: no job starts beside the picked one that runs past the shadow time.
4. Jobs with equal numbers are taken in the order that the previous sort left: by submission, or,
   after backfilling, those of one submit time in the order in which they stood before it.

RLScheduler knows no suspended jobs. Here they go on first, and their processors are kept for them
from the moment at which they are suspended.

Jobs are gangs on one pool of processors. The log is read by `simkit.traces.swf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, isnan, log2, log10

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.lane import ChangingOrder, Order
from simkit.policy.ordered import resumptions
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Task
from simkit.units import ENDLESS_S, TIME_GRID


class RLScheduler:
    """The rule behind ``backfill: rlscheduler``, which decides about the head as well.

    Args:
        backfilling: whether others may start while the picked job waits.

    Raises ScenarioError if that is neither true nor false.
    """

    def __init__(self, backfilling: bool = True) -> None:
        if not isinstance(backfilling, bool):
            raise ScenarioError(
                f"rlscheduler: backfilling is {backfilling!r}; it must be true or false"
            )
        self.backfilling = backfilling

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> RLSchedulerPolicy:
        """Return the policy of an order; on a pool there is no choice of machines."""
        return RLSchedulerPolicy(order, backfilling=self.backfilling)


class RLSchedulerPolicy:
    """RLScheduler with one of its heuristics, or with any other order.

    Args:
        order: which job is picked.
        backfilling: whether others may start while it waits.
    """

    signals = NO_SIGNALS

    def __init__(self, order: Order | ChangingOrder, *, backfilling: bool = True) -> None:
        self.order = order
        self.backfilling = backfilling
        self._key: Callable[[Task], float] | None = getattr(order, "key", None)
        self._changing: Callable[[State], Floats] | None = getattr(order, "keys", None)

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Say why the policy cannot schedule a cluster; empty: it can."""
        if info.capacity.size == 1 and len(info.partitions) <= 1:
            return []
        return [
            "policy.backfill: rlscheduler knows one pool of one resource without partitions; use "
            "cluster: {processors: …}"
        ]

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        if (reset := getattr(self.order, "reset", None)) is not None:
            reset(info, rng)
        self._queue: list[Task] = []  # those that have been seen, in the order of the last sort
        self._keys: dict[Task, float] = {}  # of an order whose keys stay
        self._picked: Task | None = None
        self._shadow_s = inf

    def schedule(self, state: State) -> Iterator[Action]:
        if self._changing is not None:
            self._changing(state)  # sees every decision, also those at which no job is picked
        if state.suspended:
            yield from resumptions(state)
        self._kept = _claimed(state) if state.suspended else 0.0
        ending = list(state.ended)  # has not ended yet as far as RLScheduler knows (rule 2)
        seen = 0
        while True:
            if seen < len(state.arrived):
                self._see(state.arrived[seen])
                seen += 1
            elif ending:
                del ending[0]
            else:
                return
            yield from self._start(state, ending)

    def _see(self, task: Task) -> None:
        """Put a job that arrives at the end of the queue."""
        self._queue.append(task)
        if self._key is not None:
            self._keys[task] = self._key(task)

    def _start(self, state: State, ending: list[Allocation]) -> Iterator[Place]:
        """Pick jobs and start them until one does not fit; then backfill."""
        while self._queue:
            free = _free(state, ending) - self._kept
            if self._picked is None:
                self._sort(state)
                self._picked = self._queue[0]
                self._shadow_s = _shadow_time(state, ending, self._picked.demand[0], free)
            picked = self._picked
            if picked.demand[0] > free:
                if self.backfilling:
                    yield from self._backfill(state, free)
                return
            yield self._placed(picked)
            self._picked = None

    def _sort(self, state: State) -> None:
        """Sort the queue by the order; ties stay as they stood."""
        keys = self._keys
        if self._changing is not None:
            keys = dict(zip(state.queue.tasks, self._changing(state).tolist(), strict=True))
        self._queue.sort(key=keys.__getitem__)

    def _backfill(self, state: State, free: float) -> Iterator[Place]:
        """Start jobs in order of submission that fit and end before the shadow time."""
        self._queue.sort(key=lambda task: task.submit_time_s)
        for task in self._queue.copy():
            if task.demand[0] <= free and state.now + task.estimate_s < self._shadow_s:
                free -= task.demand[0]
                yield self._placed(task)

    def _placed(self, task: Task) -> Place:
        self._queue.remove(task)
        self._keys.pop(task, None)
        return Place(task, ((0, task.instances),))

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if task is self._picked:
            return "it is picked and does not fit into what is free"
        return "another job is picked, and starts first"


def _free(state: State, ending: list[Allocation]) -> float:
    """Return how many processors are free while some allocations have not ended yet."""
    return float(state.room.total_free()[0]) - sum([each.held[0] for each in ending])


def _claimed(state: State) -> float:
    """Return how many processors are kept for what is suspended."""
    profile = state.profile()
    Claims(state, from_now=True).hold(profile)
    return float(state.room.total_free()[0] - profile.total_free(state.now)[0])


def _shadow_time(state: State, ending: list[Allocation], demand: float, free: float) -> float:
    """Return the earliest expected end at which `demand` processors are free, in s."""
    ends = [(each.expected_end_s, each.rank, each.held[0]) for each in ending]
    ends += [(end, rank, each.held[0]) for end, rank, each in state.expected_ends]
    for end, _, held in sorted(ends):
        free += held
        if free >= demand:
            return end
    return inf


def _requested_s(task: Task) -> float:
    """Return r as the orders below have it: -1 where the log has no run time and no request.

    Otherwise at least 2⁻²⁰ s, so that a request of 0 divides nothing by 0, and at most 2⁴⁰ s.
    """
    requested = task.requested_time_s
    return -1.0 if isnan(requested) else min(max(requested, TIME_GRID), ENDLESS_S)


class RLSchedulerWFP3:
    """Its WFP3: ((1 + s) / r)³·n, ascending, s the submit time on the trace's clock.

    The code computes the wait with a start time of -1, so that it is -(1 + s): who was submitted
    first comes first, not who has waited longest. r is the requested time, here and below.
    """

    def key(self, task: Task) -> float:
        return ((1.0 + task.submit_time_s) / _requested_s(task)) ** 3 * task.demand[0]


class RLSchedulerUNICEP:
    """Its UNICEP, elsewhere UNICEF: (1 + s) / (log2(n)·r), ascending; s as in `RLSchedulerWFP3`.

    10⁻¹⁵ is added to n, so that jobs of one processor divide nothing by 0; they come last.
    """

    def key(self, task: Task) -> float:
        size = log2(task.demand[0] + 1e-15)
        return (1.0 + task.submit_time_s) / (size * _requested_s(task))


class RLSchedulerF1:
    """Its F1: log10(r)·n + 870·log10(s), ascending, s as in `RLSchedulerWFP3`; 0 is read as 0.1.

    Carastan-Santos and de Camargo (SC 2017), who count s from the first job of the workload.
    """

    def key(self, task: Task) -> float:
        estimate = min(task.estimate_s, ENDLESS_S)
        return _log(estimate) * task.demand[0] + 870.0 * _log(task.submit_time_s)


def _log(x: float) -> float:
    return log10(x if x > 0 else 0.1)
