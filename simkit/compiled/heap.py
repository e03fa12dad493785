"""A binary heap of (time, number), the smallest first, in the first records of an array."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.machine_code import inner

__all__ = ["ENTRY", "pop", "push"]

ENTRY: Final = np.dtype([("time", np.float64), ("number", np.int64)])


@inner
def push(heap: Any, size: int, time: float, number: int) -> None:
    """Put in an entry, where there are `size`."""
    row = size
    while row > 0:
        above = (row - 1) >> 1
        if heap[above].time < time or (heap[above].time == time and heap[above].number <= number):
            break
        heap[row].time, heap[row].number = heap[above].time, heap[above].number
        row = above
    heap[row].time, heap[row].number = time, number


@inner
def pop(heap: Any, size: int) -> int:
    """Take out the first of `size` entries; return its number."""
    first, last = heap[0].number, size - 1
    time, number, row = heap[last].time, heap[last].number, 0
    while True:
        below = 2 * row + 1
        if below >= last:
            break
        if below + 1 < last and (
            heap[below + 1].time < heap[below].time
            or (
                heap[below + 1].time == heap[below].time
                and heap[below + 1].number < heap[below].number
            )
        ):
            below += 1
        if heap[below].time > time or (heap[below].time == time and heap[below].number > number):
            break
        heap[row].time, heap[row].number = heap[below].time, heap[below].number
        row = below
    heap[row].time, heap[row].number = time, number
    return first  # type: ignore[no-any-return]
