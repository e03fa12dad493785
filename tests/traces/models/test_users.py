"""Synthetic users: few submit most jobs, and they ask for round times that suffice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.traces.models.synthetic import ROUND_VALUES_S, draw_users, requested_times


def test_shares_fall_as_one_over_rank():
    users = draw_users(100_000, 4, np.random.default_rng(0))
    expected = np.array([12, 6, 4, 3]) / 25
    assert np.bincount(users)[1:] / 100_000 == pytest.approx(expected, abs=0.006)


def test_a_single_user_submits_everything():
    assert set(draw_users(100, 1, np.random.default_rng(0))) == {1}


@given(runs=st.lists(st.floats(0, 1e7), min_size=1, max_size=50), seed=st.integers(0, 99))
def test_requested_times_suffice_and_are_round(runs, seed):
    runs = np.array(runs)
    asked = requested_times(runs, "modal", np.random.default_rng(seed))
    assert (asked >= runs).all()
    assert (np.isin(asked, ROUND_VALUES_S) | (asked % 86_400 == 0)).all()
    assert (asked[runs <= ROUND_VALUES_S[-1]] <= ROUND_VALUES_S[-1]).all()


def test_accuracy_is_spread_widely():
    runs = np.random.default_rng(1).uniform(600, 7200, 20_000)
    accuracy = runs / requested_times(runs, "modal", np.random.default_rng(0))
    assert 0.3 < accuracy.mean() < 0.5
    assert (accuracy < 0.2).mean() > 0.15
    assert (accuracy > 0.8).mean() > 0.03


def test_exact_and_none():
    runs = np.array([1.0, 2.0])
    assert requested_times(runs, "exact", np.random.default_rng()).tolist() == [1.0, 2.0]
    assert np.isnan(requested_times(runs, "none", np.random.default_rng())).all()
