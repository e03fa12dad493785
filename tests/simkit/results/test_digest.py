"""The digest: the same values give the same digest, however they are cut into chunks."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.results.run_writer import TABLES, RunDigest, canonical_bytes

VALUES = [
    # a null number is a quiet NaN, a null count the smallest integer, as the definition says
    (pl.Series([1.5, None], dtype=pl.Float64), "000000000000f83f000000000000f87f"),
    (pl.Series([1, None], dtype=pl.Int64), "01000000000000000000000000000080"),
    (pl.Series([True, False, None], dtype=pl.Boolean), "010002"),
    (pl.Series(["a", "é", ""], dtype=pl.String), "6100c3a90000"),
    # a null text differs from an empty one and from the text that names it
    (pl.Series(["a", None], dtype=pl.String), "6100ff00"),
    (pl.Series([], dtype=pl.String), ""),
]


@pytest.mark.parametrize(("column", "expected"), VALUES)
def test_canonical_bytes(column, expected):
    assert canonical_bytes(column).hex() == expected


def test_other_types_are_refused_by_name():
    with pytest.raises(TypeError, match="column when is Date"):
        canonical_bytes(pl.Series("when", [None], dtype=pl.Date))


def test_the_definition_by_hand():
    digest = RunDigest()
    digest.update("jobs", pl.DataFrame({"job_id": [7]}))
    column = sha256((7).to_bytes(8, "little")).hexdigest()
    metrics = sha256(b'{"a":1}').hexdigest()
    scenario = sha256(b'{"seed":7}').hexdigest()
    lines = f"jobs.job_id:{column}\nmetrics:{metrics}\nscenario:{scenario}\n"
    assert digest.finish({"a": 1}, {"seed": 7}) == sha256(lines.encode()).hexdigest()


def test_the_auditor_finds_the_same_digest():
    from simkit.verify.folder import digest_of

    frame = pl.DataFrame(
        {"x": [1.0, None], "n": [1, None], "b": [True, None], "t": ["a\0", None]},
        schema={"x": pl.Float64, "n": pl.Int64, "b": pl.Boolean, "t": pl.String},
    )
    digest = RunDigest()
    for table in TABLES:
        digest.update(table, frame)
    found = digest_of(dict.fromkeys(TABLES, frame), {"m": 0.5}, {"seed": 1})
    assert digest.finish({"m": 0.5}, {"seed": 1}) == found


@given(
    values=st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=4),
)
def test_chunks_do_not_matter(values, cuts):
    frame = pl.DataFrame({"t": values}, schema={"t": pl.String})
    whole, pieces = RunDigest(), RunDigest()
    whole.update("jobs", frame)
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    for first, last in pairwise(bounds):
        pieces.update("jobs", frame[first:last])
    assert whole.finish({}, {}) == pieces.finish({}, {})
