"""Backlogs: the tasks that admission holds back, and which of them is let in next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Literal, Protocol

from simkit.task import Task

AdmissionOrder = Literal["fifo", "qos", "value"]
"""Who goes first: the oldest, the highest quality of service, or the highest value."""


class Backlog(Protocol):
    """Tasks held back; those of `deque`'s methods that admission needs."""

    def append(self, task: Task, /) -> None:
        """Hold a task back."""

    def popleft(self) -> Task:
        """Take out the task that goes first."""

    def remove(self, task: Task, /) -> None:
        """Take out any task; ValueError if it is not there."""

    def __contains__(self, task: object, /) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Task]: ...


class RankedBacklog:
    """Tasks held back; the one with the highest rank goes first, of equals the first submitted."""

    def __init__(self, rank: Callable[[Task], float]) -> None:
        self._rank = rank
        self._heap: list[tuple[float, int, Task]] = []
        self._held: dict[Task, None] = {}

    def append(self, task: Task, /) -> None:
        """Hold a task back, in O(log n)."""
        self._held[task] = None
        heappush(self._heap, self._entry(task))

    def popleft(self) -> Task:
        """Take out the task of the highest rank, in O(log n)."""
        task = heappop(self._heap)[2]
        del self._held[task]
        return task

    def remove(self, task: Task, /) -> None:
        """Take out any task, in O(n).

        Raises ValueError if it is not there.
        """
        if task not in self._held:
            raise ValueError(f"{task!r} is not held back")
        del self._held[task]
        self._heap = [self._entry(other) for other in self._held]
        heapify(self._heap)

    def _entry(self, task: Task) -> tuple[float, int, Task]:
        return (-self._rank(task), task.index, task)

    def __contains__(self, task: object, /) -> bool:
        """Tell whether a task is held back."""
        return task in self._held

    def __len__(self) -> int:
        """Return how many are held back."""
        return len(self._held)

    def __iter__(self) -> Iterator[Task]:
        """Go through them in the order in which they came."""
        return iter(self._held)


_RANKS: Final[dict[str, Callable[[Task], float]]] = {
    "qos": lambda task: task.qos,
    "value": lambda task: task.value,
}


def make_backlog(order: AdmissionOrder) -> Backlog:
    """Return an empty backlog of that order."""
    return deque() if order == "fifo" else RankedBacklog(_RANKS[order])
