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
_FULL = 2 * _BLOCK
_LAST = itemgetter(-1)


class ExpectedEnds(Sequence[Release]):
    """The releases (expected end, rank, allocation), soonest first.

    A short list is just that. A long one stands in blocks, each with the sum of the first resource
    that it frees, so that a search for the time at which much is free passes over whole blocks.
    """

    __slots__ = ("_blocks", "_freed", "_short")

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        ordered = sorted([(a.expected_end_s, a.rank, a) for a in allocations])
        self._short: list[Release] | None = ordered
        self._blocks, self._freed = [ordered], [0.0]
        if len(ordered) > _FULL:
            self._divide()

    def _divide(self) -> None:
        """Put a list that is no longer short into blocks."""
        ordered = self._blocks[0]
        starts = range(0, len(ordered), _BLOCK)
        self._blocks = [ordered[start : start + _BLOCK] for start in starts]
        self._freed = [_sum(block) for block in self._blocks]
        self._short = None

    def add(self, allocation: Allocation) -> None:
        """Add an allocation by its expected end."""
        release = allocation.expected_end_s, allocation.rank, allocation
        if (short := self._short) is not None:
            insort(short, release)
            if len(short) > _FULL:
                self._divide()
            return
        blocks = self._blocks
        row = min(bisect_left(blocks, release, key=_LAST), len(blocks) - 1)
        block = blocks[row]
        insort(block, release)
        self._freed[row] += allocation.held[0]
        if len(block) > _FULL:
            blocks[row : row + 1] = block[:_BLOCK], block[_BLOCK:]
            self._freed[row : row + 1] = [_sum(half) for half in blocks[row : row + 2]]

    def remove(self, allocation: Allocation) -> None:
        """Remove an allocation; its expected end must be what it was when it was added."""
        place = allocation.expected_end_s, allocation.rank
        if (short := self._short) is not None:
            del short[bisect_left(short, place)]
            return
        blocks = self._blocks
        row = bisect_left(blocks, place, key=_LAST)
        block = blocks[row]
        del block[bisect_left(block, place)]
        self._freed[row] -= allocation.held[0]
        if not block:
            del blocks[row], self._freed[row]
            if len(blocks) == 1:
                self._short = blocks[0]

    def when_freed(self, amount: float, now: float) -> tuple[float, float]:
        """Return when so much more of the first resource is free, and how much more it is then.

        Not before now; infinity, and all that is held, if it is never that much. All that ends by
        that time counts.
        """
        freed, releases = self._passed_over(amount)
        time = inf
        for end, _, allocation in releases:
            freed += allocation.held[0]
            if freed >= amount:
                time = end if end > now else now
                break
        for end, _, allocation in releases:
            if end > time:
                break
            freed += allocation.held[0]
        return time, freed

    def _passed_over(self, amount: float) -> tuple[float, Iterator[Release]]:
        """Return what the first blocks free that free less than an amount, and what is behind."""
        if self._short is not None:
            return 0.0, iter(self._short)
        freed, passed = 0.0, 0
        for more in self._freed:
            if freed + more >= amount:
                break
            freed += more
            passed += 1
        return freed, chain.from_iterable(self._blocks[passed:])

    def has(self, time: float) -> bool:
        """Return whether anything is expected to end at exactly that time."""
        blocks = self._blocks
        row = 0 if self._short is not None else bisect_left(blocks, (time, 0), key=_LAST)
        block = blocks[row] if row < len(blocks) else []
        position = bisect_left(block, (time, 0))
        return position < len(block) and block[position][0] == time

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[Release]:
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, position: int) -> Release: ...

    @overload
    def __getitem__(self, position: slice) -> list[Release]: ...

    def __getitem__(self, position: int | slice) -> Release | list[Release]:
        if position == 0:
            return self._blocks[0][0]
        return list(self)[position]


def _sum(block: Sequence[Release]) -> float:
    return sum([allocation.held[0] for _, _, allocation in block])
