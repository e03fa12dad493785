"""The base of policies that place until nothing more fits; it knows where a look is worth while.

After a decision no waiting task fits anywhere. So at the next one, newcomers are looked at on all
machines, and the others only on machines where something has come free. A task that does not fit
blocks nobody.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from simkit.look import Look
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy_bases import ChangingOrder, Order, resumptions
from simkit.task import Task
from simkit.waiting_tasks import WaitingTasks

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class GreedyPolicy(ABC):
    """Places until nothing fits; a subclass says in `choose` what goes first, and where.

    Suspended allocations are resumed first, oldest first.

    Args:
        order: the order in which tasks are taken; None: by submission. Partitions with a higher
            priority always go first.
    """

    def __init__(self, order: Order | ChangingOrder | None = None) -> None:
        self.order = order

    @abstractmethod
    def choose(self, state: State, look: Look) -> Iterable[Place]:
        """Yield placements until nothing of `look` fits."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """See `Policy.reset`."""
        if (reset := getattr(self.order, "reset", None)) is not None:
            reset(info, rng)
        self._waiting = WaitingTasks(len(info.resources))
        self._machines = [_rows(partition.machines) for partition in info.partitions]
        self._settled = False  # whether, when the last decision was over, nothing fitted
        self._releases = 0

    def schedule(self, state: State) -> Iterable[Action]:
        """See `Policy.schedule`."""
        if not state.queue and not state._suspended:
            if len(self._waiting):
                self._waiting.clear()
            self._settle(state)
            return ()
        return self._decide(state)

    def _decide(self, state: State) -> Iterator[Action]:
        if state.suspended:
            yield from resumptions(state)
        freed = self._freed(state)
        self._settled = False  # until this decision has come to its end
        first, known = 0, len(state.arrived)
        while True:
            yield from self.choose(state, self._look(state, freed, state.arrived[first:known]))
            if known == len(state.arrived):
                break
            # Admission let others in for those that started: they have their turn now.
            freed, first, known = np.empty(0, np.int64), known, len(state.arrived)
        self._settle(state)

    def _settle(self, state: State) -> None:
        self._settled = not state.constrained
        self._releases = state.releases

    def _only_freed(self, state: State) -> int | None:
        """Return the one machine that need be looked at, where it is so plain a case; else None.

        Something came free there and nowhere else, nobody has arrived, and whoever fits there
        may go there.
        """
        ended = state.ended
        if (
            len(ended) != 1
            or len(ended[0].on) != 1
            or state.arrived
            or not self._settled
            or state.constrained
            or state.suspended
            or state.refills
            or state.releases != self._releases + 1
            or self._waiting.gangs
            or self._machines != [None]
            or hasattr(self.order, "keys")
        ):
            return None
        return ended[0].on[0][0]

    def _freed(self, state: State) -> Ints | None:
        """Return the machines where something came free since the last decision; None: any."""
        if (
            not self._settled
            or state.constrained
            or state.releases - self._releases != len(state.ended)
        ):
            return None
        machines = {machine for allocation in state.ended for machine, _ in allocation.on}
        return np.array(sorted(machines), np.int64)

    def _look(self, state: State, freed: Ints | None, arrived: Sequence[Task]) -> Look:
        waiting, order = self._waiting, self.order
        newcomers = [task for task in arrived if task.waiting]
        key: Callable[[Task], float] | None = getattr(order, "key", None)
        keys = [0.0 if key is None else key(task) for task in newcomers]
        waiting.add(newcomers, keys)
        if (of_all := getattr(order, "keys", None)) is not None:
            waiting.order_by(state.queue.columns().index, of_all(state))
        waiting.sort()
        fresh = waiting.slots_of(newcomers)
        return Look(state, waiting, self._machines, freed, fresh)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if not task.waiting:
            return "it does not wait for the policy"
        machines = self._machines[task.partition]
        free = state.free if machines is None else state.free[machines]
        fits = (np.array(task.least) <= free).all(axis=1) | (np.array(task.least) <= 0).all()
        if fits.any():
            return "it fits, but not through its estimate, given what is known ahead"
        what = "all its instances together" if task.gang and task.instances > 1 else "an instance"
        asked = zip(state.info.resources, task.request, free.max(axis=0).tolist(), strict=True)
        most = ", ".join(
            f"{amount:g} {name} (most free: {left:g})" for name, amount, left in asked if amount
        )
        return f"no machine has room for {what}; an instance asks for {most}"


def _rows(machines: tuple[int, ...] | None) -> Ints | None:
    return None if machines is None else np.unique(np.array(machines, np.int64))
