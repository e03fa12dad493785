"""Numbered slots: which waiting task is in which of them.

A task keeps its slot for as long as it waits, whatever comes and goes beside it; newcomers, in
order of submission, take the lowest slots that are free. What finds none waits behind the slots.
"""

from __future__ import annotations

from collections.abc import Sequence

from simkit.task import Task


class Slots:
    """A fixed number of slots, each empty or with a waiting task."""

    __slots__ = ("_inside", "_known", "tasks")

    def __init__(self, count: int) -> None:
        self.tasks: list[Task | None] = [None] * count
        """The task in each slot; None: it is empty."""
        self._inside: set[Task] = set()
        self._known: Sequence[Task] | None = None  # the first that wait, if they are those inside

    @property
    def taken(self) -> int:
        """How many slots hold a task."""
        return len(self._inside)

    def are_up_to_date(self, waiting: Sequence[Task]) -> bool:
        """Tell, quickly, that nobody has left and nobody comes; False may mean: look closer."""
        return waiting[: len(self.tasks)] == self._known

    def vacate(self) -> list[int]:
        """Return the slots, ascending, whose task waits no longer; they still show it."""
        return [
            slot
            for slot, task in enumerate(self.tasks)
            if task is not None and not task._waiting  # its property costs twice as much
        ]

    def empty(self, slot: int) -> None:
        """Empty a slot that holds a task."""
        task = self.tasks[slot]
        assert task is not None
        self.tasks[slot] = None
        self._inside.remove(task)

    def fill(self, waiting: Sequence[Task]) -> list[int]:
        """Let waiting tasks into the free slots; return the slots filled, ascending.

        Args:
            waiting: all waiting tasks in order of submission, those in the slots among them.
        """
        inside, tasks = self._inside, self.tasks
        filled: list[int] = []
        # At most `taken` of the first tasks have a slot, so the newcomers are among them.
        first = waiting[: len(tasks)]
        for task in first:
            if len(inside) == len(first):
                break
            if task not in inside:
                slot = tasks.index(None)
                tasks[slot] = task
                inside.add(task)
                filled.append(slot)
        self._known = first if inside.issuperset(first) else None
        return filled

    def clear(self) -> None:
        """Empty all slots."""
        self.tasks[:] = [None] * len(self.tasks)
        self._inside.clear()
        self._known = None
