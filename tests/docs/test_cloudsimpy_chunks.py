"""Makespans of groups of jobs."""

from __future__ import annotations

import polars as pl
import pytest
from cloudsimpy_chunks import chunked, makespans

from simkit.errors import RunError

JOBS = pl.DataFrame(
    {
        # not in order of submission; 30 and 31 come at one instant, 50 has not ended
        "job_id": [50, 31, 10, 30, 20],
        "submit_time_s": [9.0, 5.0, 0.0, 5.0, 1.0],
        "end_time_s": [None, 8.0, 7.0, 25.0, 4.0],
        "policy": ["x", "x", "y", "y", "y"],
    }
)


def test_chunks_follow_the_order_of_submission():
    found = chunked(JOBS.lazy(), 2).collect()
    assert found.select("job_id", "chunk").rows() == [(10, 0), (20, 0), (30, 1), (31, 1), (50, 2)]


def test_each_chunk_has_its_makespan():
    table = makespans(chunked(JOBS.lazy(), 2))
    assert table.columns == ["chunk", "jobs", "ended", "first_submit_s", "last_end_s", "makespan_s"]
    assert table.rows() == [
        (0, 2, 2, 0.0, 7.0, 7.0),
        (1, 2, 2, 5.0, 25.0, 20.0),
        (2, 1, 0, 9.0, None, None),  # nothing has ended
    ]


def test_any_columns_make_groups():
    table = makespans(JOBS.lazy(), by=["policy"])
    assert table.select("policy", "jobs", "ended", "makespan_s").rows() == [
        ("x", 2, 1, 3.0),
        ("y", 3, 3, 25.0),
    ]


def test_one_chunk_of_all_is_the_makespan_of_the_run():
    table = makespans(chunked(JOBS.lazy(), 100))
    assert table["makespan_s"].to_list() == [25.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: chunked(JOBS.lazy(), 0), "chunks of 0 jobs"),
        (lambda: makespans(JOBS.lazy()), "no column 'chunk'"),
        (lambda: makespans(JOBS.lazy(), by="polcy"), "did you mean 'policy'"),
    ],
)
def test_what_makes_no_groups_is_refused(call, words):
    with pytest.raises(RunError, match=words):
        call()
