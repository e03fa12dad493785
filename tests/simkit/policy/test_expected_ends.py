"""Expected ends in blocks are what a sorted list is."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.task import Allocation, ExpectedEnds, Task

ENDS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=400)


def allocation(rank: int, end: int, size: int) -> Allocation:
    return Allocation(rank, Task(rank, rank, 0.0, (float(size),)), ((0, 1),), 1, 0.0, float(end))


def plain_when_freed(releases, amount, now):
    """All releases up to the first end at which the amount is reached."""
    for time in sorted({max(end, now) for end, _, _ in releases}):
        freed = sum(a.held[0] for end, _, a in releases if end <= time)
        if freed >= amount:
            return time, freed
    return inf, sum(a.held[0] for _, _, a in releases)


@given(ends=ENDS, kept=st.integers(0, 400), removed=st.sets(st.integers(0, 399)), data=st.data())
def test_they_are_a_sorted_list(ends, kept, removed, data):
    allocations = [allocation(rank, *end) for rank, end in enumerate(ends)]
    found = ExpectedEnds(allocations[:kept])
    for each in allocations[kept:]:
        found.add(each)
    for row in sorted(removed):
        if row < len(allocations):
            found.remove(allocations[row])
    left = [a for row, a in enumerate(allocations) if row not in removed]
    releases = sorted((a.expected_end_s, a.rank, a) for a in left)
    assert list(found) == releases
    assert (len(found), bool(found)) == (len(releases), bool(releases))
    assert found[:3] == releases[:3]
    assert [found.has(time) for time in range(41)] == [
        any(end == time for end, _, _ in releases) for time in range(41)
    ]
    amount, now = data.draw(st.integers(1, 2000)), data.draw(st.integers(0, 45))
    assert found.when_freed(amount, now) == plain_when_freed(releases, amount, now)
