"""Tables on terminals of any width: no number is cut, no line is too long."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.cli import text

NAME = st.text("abcdefgh_./:+=, ", max_size=40).map(str.strip)
NUMBER = st.one_of(
    st.integers(-(10**9), 10**9).map("{:,}".format),
    st.sampled_from(["-", "0 s", "1d 02:03:04", "-12d 23:59:59", "99.1%"]),
)


@st.composite
def contents(draw):
    """Draw heads and rows of names, numbers and text, and how many are names and text."""
    names, numbers, text = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(0, 1))
    row = st.tuples(*[NAME] * names, *[NUMBER] * numbers, *[NAME] * text)
    heads = draw(st.tuples(*[NAME] * (names + numbers + text)))
    return heads, draw(st.lists(row, min_size=1, max_size=4)), names, text


@pytest.fixture(scope="module")
def printed_table():
    """Return a function that prints a table for a width and returns its lines."""

    def lines(width, heads, rows, **options):
        with io.StringIO() as out:
            with contextlib.redirect_stdout(out):
                text.print_blocks([text.Table(heads, rows, piped_width=width, **options)])
            return [line.rstrip() for line in out.getvalue().splitlines()]

    return lines


@given(content=contents(), width=st.integers(30, 140))
def test_every_number_is_whole_and_every_line_fits(printed_table, content, width):
    heads, rows, names, text = content
    lines = printed_table(width, heads, rows, names=names, text=text)
    assert max(map(len, lines)) <= width
    numbers = [cell for row in rows for cell in row[names : len(heads) - text]]
    found = "\n".join(lines)
    for number in set(numbers):
        assert found.count(number) >= numbers.count(number)


@given(content=contents(), width=st.integers(30, 140))
def test_no_character_of_a_name_or_a_head_is_lost(printed_table, content, width):
    heads, rows, names, text = content
    found = "".join(printed_table(width, heads, rows, names=names, text=text)).replace(" ", "")
    for character in "abcdefgh":
        told = sum(cell.count(character) for cell in (*heads, *(c for row in rows for c in row)))
        assert found.count(character) >= told


def test_a_name_in_colons_is_no_emoji(printed_table):
    assert ":a:" in "".join(printed_table(80, ["name", "jobs"], [[":a:", "1"]]))


def test_names_break_before_columns_move_below(printed_table):
    heads = ["Metric", "mean", "p99"]
    rows = [["per_processor_bounded_slowdown", "1,000.25", "2,000.25"], ["wait_time_s", "1", "2"]]
    assert printed_table(50, heads, rows)[1].split() == [*rows[0]]
    narrow = printed_table(40, heads, rows)
    assert narrow[1].split() == ["per_processor_", "1,000.25", "2,000.25"]
    assert narrow[2] == "bounded_slowdown"
    below = printed_table(30, heads, rows)
    assert [line.split() for line in below] == [
        ["Metric", "mean"], ["per_processor_", "1,000.25"], ["bounded_slowdown"],
        ["wait_time_s", "1"], [], ["Metric", "p99"], ["per_processor_", "2,000.25"],
        ["bounded_slowdown"], ["wait_time_s", "2"],
    ]  # fmt: skip


def test_a_decimal_point_is_no_place_to_break(printed_table):
    lines = printed_table(30, ["workload.load", "number"], [["1.25", "1,234,567,890,123"]])
    assert lines[-1].split() == ["1.25", "1,234,567,890,123"]
