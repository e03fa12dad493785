"""A table that is kept as columns holds what a list of rows would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.queue import ColumnTable

CHANGES = st.lists(
    st.tuples(st.sampled_from(["extend", "insert", "remove", "set"]), st.integers(0, 10**6)),
    max_size=300,
)


@given(changes=CHANGES)
def test_it_holds_what_a_list_of_rows_would(changes: list[tuple[str, int]]) -> None:
    table, rows = ColumnTable(2), []
    for what, number in changes:
        position = number % (len(rows) + 1)
        if what == "extend":
            more = [[number, k] for k in range(number % 90)]
            table.extend(more)
            rows += more
        elif what == "insert":
            table.insert(position, (number, -1))
            rows.insert(position, [number, -1])
        elif position < len(rows) and what == "remove":
            table.remove(position)
            del rows[position]
        elif position < len(rows):
            table.set(1, position, number)
            rows[position] = [rows[position][0], number]
        assert table.size == len(rows)
        assert table.view().T.tolist() == rows
