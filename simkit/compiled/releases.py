"""When what runs is expected to end: sorted blocks, each with the sum of what it frees.

So a search for the time at which much is free passes over whole blocks.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.machine_code import inner, records

__all__ = ["Releases", "add", "are_due", "has", "no_releases", "remove", "when_freed"]

BLOCK: Final = 128
"""Most releases in a block."""
RELEASE: Final = np.dtype([("time", np.float64), ("amount", np.float64), ("job", np.int64)])
"""When a job is expected to end, and what it frees."""
SUM: Final = np.dtype([("freed", np.float64), ("count", np.int64)])
"""What a block frees in all, and how many releases it has, at least 1."""


class Releases(NamedTuple):
    """B blocks of `BLOCK` releases, of which the first are used."""

    each: Any
    """(B, BLOCK) releases, by time."""
    block: Any
    """(1 + B,) sums of the blocks; the last record's count is how many blocks are used."""


def no_releases(most: int) -> Releases:
    """Return empty releases with room for `most` at a time."""
    blocks = most // (BLOCK // 2) + 2
    return Releases(records(np.empty((blocks, BLOCK), RELEASE)), records(np.zeros(1 + blocks, SUM)))


@inner
def _block_of(releases: Releases, time: float) -> int:
    """Return the first block whose last release is not before a time, or the last block."""
    low, high = 0, releases.block[-1].count - 1
    while low < high:
        middle = (low + high) >> 1
        if releases.each[middle, releases.block[middle].count - 1].time >= time:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def add(releases: Releases, time: float, job: int, amount: float) -> None:
    """Add the expected end of a job that frees an amount."""
    each, sums = releases.each, releases.block
    if sums[-1].count == 0:
        sums[-1].count = 1
        sums[0].count, sums[0].freed = 0, 0.0
    block = _block_of(releases, time)
    if sums[block].count == BLOCK:
        _split(releases, block)
        if time > each[block, sums[block].count - 1].time:
            block += 1
    row = sums[block].count
    while row > 0 and each[block, row - 1].time > time:
        each[block, row] = each[block, row - 1]
        row -= 1
    each[block, row].time, each[block, row].amount, each[block, row].job = time, amount, job
    sums[block].count += 1
    sums[block].freed += amount


@inner
def _split(releases: Releases, block: int) -> None:
    """Put the second half of a full block into a block of its own, behind it."""
    each, sums = releases.each, releases.block
    for other in range(sums[-1].count, block + 1, -1):
        _move(releases, other - 1, other)
    sums[-1].count += 1
    half, freed = BLOCK // 2, 0.0
    for row in range(half, BLOCK):
        each[block + 1, row - half] = each[block, row]
        freed += each[block, row].amount
    sums[block].count, sums[block + 1].count = half, BLOCK - half
    sums[block].freed -= freed
    sums[block + 1].freed = freed


@inner
def _move(releases: Releases, block: int, to: int) -> None:
    """Copy a whole block."""
    releases.block[to] = releases.block[block]
    for row in range(releases.block[block].count):
        releases.each[to, row] = releases.each[block, row]


@inner
def remove(releases: Releases, time: float, job: int) -> None:
    """Remove the expected end of a job, which must be what it was when it was added."""
    each, sums = releases.each, releases.block
    block, row = _block_of(releases, time), 0
    size = sums[block].count
    while row < size and each[block, row].time < time:
        row += 1
    while row == size or each[block, row].job != job:  # of those that end together
        row += 1
        if row >= size:
            block, row = block + 1, 0
            size = sums[block].count
    sums[block].freed -= each[block, row].amount
    for other in range(row, size - 1):
        each[block, other] = each[block, other + 1]
    sums[block].count -= 1
    if size == 1:
        sums[-1].count -= 1
        for other in range(block, sums[-1].count):
            _move(releases, other + 1, other)


@inner
def when_freed(releases: Releases, missing: float, now: float) -> tuple[float, float]:
    """Return when so much more is free, not before now, and how much more it is by then.

    All that ends by that time counts. Infinity, and all that is held, if it is never that much.
    `missing` is above 0.
    """
    each, sums = releases.each, releases.block
    blocks, block, row, freed = sums[-1].count, 0, 0, 0.0
    while block < blocks and freed + sums[block].freed < missing:
        freed += sums[block].freed
        block += 1
    if block == blocks:
        return np.inf, freed
    while freed < missing:
        freed += each[block, row].amount
        row += 1
    time = max(each[block, row - 1].time, now)
    while block < blocks:
        size = sums[block].count
        if row == 0 and each[block, size - 1].time <= time:
            freed += sums[block].freed
        else:
            while row < size and each[block, row].time <= time:
                freed += each[block, row].amount
                row += 1
            if row < size:
                break
        block, row = block + 1, 0
    return time, freed


@inner
def are_due(releases: Releases, now: float) -> bool:
    """Return whether anything that runs was expected to end by now."""
    return releases.block[-1].count > 0 and releases.each[0, 0].time <= now  # type: ignore[no-any-return]


@inner
def has(releases: Releases, time: float) -> bool:
    """Return whether anything is expected to end at exactly that time."""
    if releases.block[-1].count == 0:
        return False
    block = _block_of(releases, time)
    for row in range(releases.block[block].count):
        if releases.each[block, row].time >= time:
            return releases.each[block, row].time == time  # type: ignore[no-any-return]
    return False
