"""Intervals cover as often as they say, on data that is correlated as waits are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from simkit.analysis.intervals import (
    WEEK_S,
    Estimate,
    estimate,
    seed_interval,
    weekly_interval,
    weeks_of,
)

WEEKS, JOBS_A_WEEK, TRIALS = 60, 60, 200


def correlated(rng):
    """Return submit times, and values of mean 0 whose neighbours correlate by 0.9."""
    jobs = WEEKS * JOBS_A_WEEK
    submit = np.sort(rng.uniform(0, WEEKS * WEEK_S, jobs))
    noise = rng.normal(size=jobs + 200) * np.sqrt(1 - 0.9**2)
    return submit, lfilter([1.0], [1.0, -0.9], noise)[200:]


def test_weekly_interval_covers_where_one_over_jobs_is_far_too_narrow():
    rng = np.random.default_rng(2)
    weekly = single = 0
    for trial in range(TRIALS):
        submit, values = correlated(rng)
        interval = weekly_interval(values, submit, resamples=400, seed=trial)
        weekly += interval.low <= 0 <= interval.high
        drawn = rng.choice(values, (400, len(values))).mean(axis=1) if trial < 60 else None
        if drawn is not None:
            low, high = np.quantile(drawn, (0.025, 0.975))
            single += low <= 0 <= high
    assert 0.89 <= weekly / TRIALS <= 0.99  # nominal: 0.95
    assert single / 60 < 0.6


def test_weeks_count_from_the_first_submit():
    submit = 12345.0 + np.array([0.0, WEEK_S - 1, WEEK_S, 5 * WEEK_S])
    assert weeks_of(submit).tolist() == [0, 0, 1, 5]
    assert weeks_of(np.empty(0)).tolist() == []


def test_an_interval_depends_on_the_seed_alone():
    submit, values = correlated(np.random.default_rng(3))
    assert weekly_interval(values, submit, seed=0) == weekly_interval(values, submit, seed=0)
    assert weekly_interval(values, submit, seed=0) != weekly_interval(values, submit, seed=1)


def test_wider_confidence_is_a_wider_interval():
    submit, values = correlated(np.random.default_rng(4))
    narrow, wide = (weekly_interval(values, submit, level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < values.mean() < narrow.high < wide.high


def test_neighbouring_weeks_that_are_alike_are_drawn_together():
    rng = np.random.default_rng(5)
    submit = np.arange(100 * 20) * WEEK_S / 20
    month = np.repeat(rng.normal(size=25), 80)
    interval = weekly_interval(month + 0.1 * rng.normal(size=2000), submit)
    assert interval.blocks <= 50
    assert "weeks of submission" in interval.method
    assert "blocks of" in interval.method


@pytest.mark.parametrize(
    ("weeks", "words"),
    [(0, "none"), (2, "none"), (4, "none"), (5, "rough")],  # too few weeks, or few for a good one
)
def test_few_weeks_are_said(weeks, words):
    submit = np.arange(weeks * 10) * WEEK_S / 10
    values = np.random.default_rng(6).normal(size=len(submit))
    interval = weekly_interval(values, submit)
    assert words in interval.method
    assert (interval.low is None) == (weeks < 5)


def test_runs_that_differ_by_the_same_everywhere_have_a_point_as_interval():
    submit = np.arange(200) * WEEK_S / 10
    interval = weekly_interval(np.full(200, 3.0), submit)
    assert (interval.low, interval.high) == (3.0, 3.0)


def test_seed_interval_is_students():
    # by hand: mean 2, s = 1, t(0.975, 2) = 4.302653, half = 4.302653 / sqrt(3)
    interval = seed_interval(np.array([1.0, 2.0, 3.0]))
    assert interval.high == pytest.approx(2 + 4.302653 / np.sqrt(3), rel=1e-6)
    assert interval.low == pytest.approx(2 - 4.302653 / np.sqrt(3), rel=1e-6)
    assert "3 seeds" in interval.method
    assert seed_interval(np.array([1.0])).low is None


def test_with_one_item_the_interval_is_that_over_seeds():
    shares = np.array([[0.1], [0.2], [0.12]])
    found = estimate(shares, np.ones(1))
    over_seeds = seed_interval(shares[:, 0])
    assert (found.low, found.high) == (
        pytest.approx(over_seeds.low),
        pytest.approx(over_seeds.high),
    )
    assert estimate(shares[:1], np.ones(1)) == Estimate(0.1)


def test_a_ratio_to_nothing_is_no_number_and_one_to_little_has_no_interval():
    ones, rare = np.ones((2, 8)), np.array([[4.0] + [0.0] * 7])
    assert np.isnan(estimate(ones, np.ones(8), 0.0 * rare, relation="ratio").value)
    assert estimate(ones, np.ones(8), rare, relation="ratio") == Estimate(2.0)


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(seeds):
    rng, held, cases = np.random.default_rng(seeds), 0, 300
    for _ in range(cases):
        quality = rng.normal(10.0, 1.0, (seeds, 1)) if seeds > 1 else np.full((1, 1), 10.0)
        difficulty, noise = rng.normal(0.0, 3.0, 30), rng.normal(0.0, 1.0, (seeds, 30))
        found = estimate(quality + difficulty + noise, np.ones(30))
        held += found.low <= 10.0 <= found.high
    assert 0.91 <= held / cases <= 0.99


def test_blocks_of_items_that_overlap_are_drawn_together():
    rng = np.random.default_rng(3)
    levels = np.repeat(rng.normal(0.0, 1.0, 12), 10)[None]
    alone = estimate(levels, np.ones(120))
    together = estimate(levels, np.ones(120), blocks=np.arange(120) // 10)
    assert together.value == pytest.approx(alone.value)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_what_never_ended_is_infinite_and_has_no_interval():
    slowdown = np.array([[1.0, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, np.inf]])
    found = estimate(slowdown, np.ones(6), np.ones((1, 6)), relation="difference")
    assert found == Estimate(np.inf, None, None, (2.5, np.inf))
