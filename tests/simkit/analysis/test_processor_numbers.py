"""Numbering processors: as many as held, never two jobs on one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simkit.analysis.export import interval_text, join_spans, number_processors

allocations = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6), st.integers(1, 5), st.booleans()), max_size=40
)


@given(allocations)
def test_no_processor_has_two_jobs_and_each_job_gets_its_count(rows):
    start = [float(s) for s, *_ in rows]
    end = [None if forever else float(s + length) for s, length, _, forever in rows]
    count = [c for *_, c, _ in rows]
    spans, used = number_processors(start, end, count)
    numbers = [{n for a, b in row for n in range(a, b + 1)} for row in spans]
    assert [len(n) for n in numbers] == count
    inf = float("inf")
    for i in range(len(rows)):
        for j in range(i):
            overlap = min(end[i] or inf, end[j] or inf) > max(start[i], start[j])
            if overlap and all(end[k] != start[k] for k in (i, j)):
                assert not numbers[i] & numbers[j]
    rows = list(zip(start, end, count, strict=True))

    def held_at(t):
        return sum(c for s, e, c in rows if s <= t and (e is None or e > t or e == s == t))

    peak = max((held_at(t) for t in start), default=0)
    assert used <= peak


def test_the_lowest_free_numbers_are_given():
    # 0-1 end at 5, when 2-3 are still held: the next takes 0-1 and 4
    spans, used = number_processors([0.0, 0.0, 5.0], [5.0, 9.0, 6.0], [2, 2, 3])
    assert [interval_text(s) for s in spans] == ["0-1", "2-3", "0-1 4"]
    assert used == 5


def test_text_of_intervals():
    assert interval_text(join_spans([(8, 9), (0, 2), (3, 3), (5, 5), (1, 2)])) == "0-3 5 8-9"
    assert interval_text([]) == ""
