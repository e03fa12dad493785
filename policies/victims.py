"""Victims: in which order running tasks are stopped when the supply of power falls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simkit.policy import State
from simkit.policy_bases import ChangingOrder, Order
from simkit.task import Allocation, Task

from .orderings import SJF


def victims_by(order: Order | ChangingOrder, state: State) -> Sequence[Allocation]:
    """Return what runs, in the order in which it is to be stopped.

    Whatever an order would start last is stopped first, of equal ones the youngest: by QoS the
    lowest QoS first, by highest value the lowest value first, by first come the latest come
    first. By shortest job the longest *remaining* first. An order that changes with time says
    nothing about what runs; then the lowest value density goes first. Partitions of low priority
    come before those of high priority.
    """
    rank = _rank(order, state.now)
    return sorted(state.running, key=lambda a: (-a.task.priority, rank(a), a.rank), reverse=True)


def _rank(order: Order | ChangingOrder, now: float) -> Callable[[Allocation], float]:
    if isinstance(order, SJF):
        return lambda allocation: allocation.expected_end_s - now
    key: Callable[[Task], float] | None = getattr(order, "key", None)
    if key is None:
        return lambda allocation: -allocation.task.value_density
    return lambda allocation: key(allocation.task)
