"""A small campaign of every family: sums, no policy's own choice, and what happens without blockers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from combined_scenarios import combined_scenario
from explain_campaign import FAMILIES, STRICT, family_tally
from random_scenarios import random_scenario

import simkit
from simkit.why.jobs import explain_jobs


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_intervals_add_up_and_blockers_block(family):
    tally = family_tally(family, 8, seed=7, per_run=4)
    assert tally.jobs == 8
    assert tally.wrong_sums == []
    assert tally.choices == [] or family.__name__ not in STRICT
    assert tally.started >= 7, tally.exceptions
    assert tally.others_started <= 3


RANDOM = [
    # clocks, users' limits, late jobs, suspensions, failures, processes, releases
    *((combined_scenario, seed) for seed in (0, 2, 26, 41)),
    *((random_scenario, seed) for seed in (3, 55, 56)),
]


@pytest.mark.filterwarnings("ignore::simkit.errors.SimkitWarning")
@pytest.mark.parametrize(("make", "seed"), RANDOM)
def test_waits_of_random_scenarios_add_up(make, seed, tmp_path):
    run = simkit.simulate(make(np.random.default_rng(seed), tmp_path), output=tmp_path / "run")
    for found in explain_jobs(run, run.jobs["job_id"].to_list()):
        row = run.jobs.row(by_predicate=pl.col("job_id") == found.job_id, named=True)
        if row["wait_time_s"] is not None:
            starts = [w.end_s for w in found.waits if w.kind == "first" and w.started]
            assert min(starts) == row["start_time_s"]
        for wait in found.waits:
            edges = [wait.start_s, *(each.end_s for each in wait.intervals)]
            assert [each.start_s for each in wait.intervals] == edges[:-1]
            assert all(begin < end for begin, end in pairwise(edges))
            assert edges[-1] == wait.end_s
        assert found.text()
        assert found._repr_html_()
        assert found.as_json()
