"""When what runs is expected to end: sorted blocks, each with the sum of what it frees.

So a search for the time at which much is free passes over whole blocks.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.machine_code import inner, records

__all__ = ["Releases", "add", "are_due", "has", "no_releases", "remove", "when_freed"]

BLOCK: Final = 128
"""Most releases in a block."""
RELEASE: Final = np.dtype([("time", np.float64), ("amount", np.float64), ("job", np.int64)])
"""When a job is expected to end, and what it frees."""
SUM: Final = np.dtype([("freed", np.float64), ("count", np.int64)])
"""What a block frees in all, and how many releases it has, at least 1."""


SPAN: Final = np.dtype([("first", np.int64), ("used", np.int64)])
"""Where the blocks of a pool begin, and how many of them are used."""


class Releases(NamedTuple):
    """The releases of P pools, each in blocks of its own of `BLOCK` releases."""

    each: Any
    """(B, BLOCK) releases, by time."""
    block: Any
    """(B,) sums of the blocks."""
    span: Any
    """(P,)"""


def no_releases(most: Ints) -> Releases:
    """Return empty releases with room for `most` (P,) at a time in each pool."""
    blocks = most // (BLOCK // 2) + 2
    span = records(np.zeros(len(most), SPAN))
    span["first"] = np.cumsum(blocks) - blocks
    each = records(np.empty((int(blocks.sum()), BLOCK), RELEASE))
    return Releases(each, records(np.zeros(len(each), SUM)), span)


@inner
def _block_of(releases: Releases, at: int, time: float) -> int:
    """Return the first block whose last release is not before a time, or the last block."""
    low = releases.span[at].first
    high = low + releases.span[at].used - 1
    while low < high:
        middle = (low + high) >> 1
        if releases.each[middle, releases.block[middle].count - 1].time >= time:
            high = middle
        else:
            low = middle + 1
    return low  # type: ignore[no-any-return]


@inner
def add(releases: Releases, at: int, time: float, job: int, amount: float) -> None:
    """Add the expected end of a job of a pool that frees an amount."""
    each, sums, span = releases.each, releases.block, releases.span[at]
    if span.used == 0:
        span.used = 1
        sums[span.first].count, sums[span.first].freed = 0, 0.0
    block = _block_of(releases, at, time)
    if sums[block].count == BLOCK:
        _split(releases, at, block)
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
def _split(releases: Releases, at: int, block: int) -> None:
    """Put the second half of a full block into a block of its own, behind it."""
    each, sums, span = releases.each, releases.block, releases.span[at]
    for other in range(span.first + span.used, block + 1, -1):
        _move(releases, other - 1, other)
    span.used += 1
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
def remove(releases: Releases, at: int, time: float, job: int) -> None:
    """Remove the expected end of a job, which must be what it was when it was added."""
    each, sums, span = releases.each, releases.block, releases.span[at]
    block, row = _block_of(releases, at, time), 0
    count = sums[block].count
    while row < count and each[block, row].time < time:
        row += 1
    while row == count or each[block, row].job != job:  # of those that end together
        row += 1
        if row >= count:
            block, row = block + 1, 0
            count = sums[block].count
    sums[block].freed -= each[block, row].amount
    for other in range(row, count - 1):
        each[block, other] = each[block, other + 1]
    sums[block].count -= 1
    if count == 1:
        span.used -= 1
        for other in range(block, span.first + span.used):
            _move(releases, other + 1, other)


@inner
def when_freed(releases: Releases, at: int, missing: float, now: float) -> tuple[float, float]:
    """Return when so much more is free in a pool, not before now, and how much more it is by then.

    All that ends by that time counts. Infinity, and all that is held, if it is never that much.
    `missing` is above 0.
    """
    each, sums = releases.each, releases.block
    block, row, freed = releases.span[at].first, 0, 0.0
    last = block + releases.span[at].used
    while block < last and freed + sums[block].freed < missing:
        freed += sums[block].freed
        block += 1
    if block == last:
        return np.inf, freed
    while freed < missing:
        freed += each[block, row].amount
        row += 1
    time = max(each[block, row - 1].time, now)
    while block < last:
        count = sums[block].count
        if row == 0 and each[block, count - 1].time <= time:
            freed += sums[block].freed
        else:
            while row < count and each[block, row].time <= time:
                freed += each[block, row].amount
                row += 1
            if row < count:
                break
        block, row = block + 1, 0
    return time, freed


@inner
def are_due(releases: Releases, at: int, now: float) -> bool:
    """Return whether anything that runs in a pool was expected to end by now."""
    span = releases.span[at]
    return span.used > 0 and releases.each[span.first, 0].time <= now  # type: ignore[no-any-return]


@inner
def has(releases: Releases, at: int, time: float) -> bool:
    """Return whether anything in a pool is expected to end at exactly that time."""
    if releases.span[at].used == 0:
        return False
    block = _block_of(releases, at, time)
    for row in range(releases.block[block].count):
        if releases.each[block, row].time >= time:
            return releases.each[block, row].time == time  # type: ignore[no-any-return]
    return False
