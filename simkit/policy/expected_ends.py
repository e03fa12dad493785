"""When what runs is expected to end, in order, with sums of what comes free."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from operator import itemgetter
from typing import overload

from simkit.policy.room import Release
from simkit.policy.task import Allocation

_BLOCK = 64  # releases in a block, at most twice as many
_LAST = itemgetter(-1)


class ExpectedEnds(Sequence[Release]):
    """The releases (expected end, rank, allocation), soonest first.

    They stand in blocks, each with the sum of the first resource that it frees, so that a search
    for the time at which much is free passes over whole blocks.
    """

    __slots__ = ("_blocks", "_freed", "_size")

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        ordered = sorted([(a.expected_end_s, a.rank, a) for a in allocations])
        starts = range(0, len(ordered), _BLOCK)
        self._blocks = [ordered[start : start + _BLOCK] for start in starts]
        self._freed = [_sum(block) for block in self._blocks]
        self._size = len(ordered)

    def add(self, allocation: Allocation) -> None:
        """Add an allocation by its expected end."""
        blocks = self._blocks
        release = allocation.expected_end_s, allocation.rank, allocation
        self._size += 1
        if not blocks:
            blocks.append([release])
            self._freed.append(allocation.held[0])
            return
        row = 0
        if len(blocks) > 1:
            row = min(bisect_left(blocks, release, key=_LAST), len(blocks) - 1)
        block = blocks[row]
        insort(block, release)
        self._freed[row] += allocation.held[0]
        if len(block) > 2 * _BLOCK:
            blocks[row : row + 1] = block[:_BLOCK], block[_BLOCK:]
            self._freed[row : row + 1] = [_sum(half) for half in blocks[row : row + 2]]

    def remove(self, allocation: Allocation) -> None:
        """Remove an allocation; its expected end must be what it was when it was added."""
        blocks, place = self._blocks, (allocation.expected_end_s, allocation.rank)
        row = bisect_left(blocks, place, key=_LAST) if len(blocks) > 1 else 0
        block = blocks[row]
        del block[bisect_left(block, place)]
        self._freed[row] -= allocation.held[0]
        self._size -= 1
        if not block:
            del blocks[row], self._freed[row]

    def when_freed(self, amount: float, now: float) -> tuple[float, float]:
        """Return when so much more of the first resource is free, and how much more it is then.

        Not before now; infinity, and all that is held, if it is never that much. All that ends by
        that time counts.
        """
        freed, passed, time = 0.0, 0, inf
        for more in self._freed:
            if freed + more >= amount:
                break
            freed += more
            passed += 1
        for end, _, allocation in chain.from_iterable(self._blocks[passed:]):
            if end > time:
                break
            freed += allocation.held[0]
            if time == inf and freed >= amount:
                time = max(end, now)
        return time, freed

    def has(self, time: float) -> bool:
        """Return whether anything is expected to end at exactly that time."""
        row = bisect_left(self._blocks, (time, 0), key=_LAST)
        if row == len(self._blocks):
            return False
        block = self._blocks[row]
        return block[bisect_left(block, (time, 0))][0] == time

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Release]:
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, position: int) -> Release: ...

    @overload
    def __getitem__(self, position: slice) -> list[Release]: ...

    def __getitem__(self, position: int | slice) -> Release | list[Release]:
        if position == 0 and self._blocks:
            return self._blocks[0][0]
        return list(self)[position]


def _sum(block: Sequence[Release]) -> float:
    return sum([allocation.held[0] for _, _, allocation in block])
