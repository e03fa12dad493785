"""Forecasts: what they may know, how their errors grow, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.power.facts import Noise
from simkit.power.forecast import (
    GivenForecast,
    NoisyForecast,
    PerfectForecast,
    Persistence,
)
from simkit.power.signal import Constant, Steps

HOUR, DAY = 3600.0, 86_400.0
rng = np.random.default_rng(3)
VALUES = rng.uniform(10, 100, 24 * 10)
TRUTH = Steps(HOUR * np.arange(240), VALUES, 240 * HOUR, past_end="wrap", name="wind")

CAUSAL = {
    "persistence": lambda truth: Persistence(truth),
    "persistence of the day": lambda truth: Persistence(truth, DAY),
}
FORESEEING = {
    "perfect": PerfectForecast,
    "noisy": lambda truth: NoisyForecast(truth, 7),
    "noisy, absolute": lambda truth: NoisyForecast(truth, 7, Noise(kind="absolute", spread=20.0)),
}


def perturbed(after_s):
    """The truth up to an instant, and something else from there on."""
    starts, values = TRUTH.pieces(0.0, 240 * HOUR)
    at = np.append(starts[starts < after_s], after_s)
    other = np.append(values[: len(at) - 1], 1e6)
    return Steps(at, other, 240 * HOUR, past_end="wrap")


questions = st.tuples(
    st.integers(24 * 4, 150 * 4).map(lambda quarter: quarter * 900.0 + 450.0),  # now
    st.sampled_from([900.0, 5 * HOUR, 30 * HOUR]),  # horizon
    st.sampled_from([900.0, 2000.0, HOUR, DAY]),  # step
)


@pytest.mark.parametrize("name", CAUSAL)
@given(question=questions)
def test_what_comes_after_now_changes_no_causal_forecast(name, question):
    now, horizon, step = question
    same = CAUSAL[name](perturbed(np.nextafter(now, math.inf) + 1e-5))
    assert (
        same.predict(now, horizon, step) == CAUSAL[name](TRUTH).predict(now, horizon, step)
    ).all()


@pytest.mark.parametrize("name", FORESEEING)
@given(question=questions)
def test_what_comes_after_the_horizon_changes_no_forecast(name, question):
    now, horizon, step = question
    make = FORESEEING[name]
    expected = make(TRUTH).predict(now, horizon, step)
    assert (make(perturbed(now + horizon)).predict(now, horizon, step) == expected).all()
    # and the truth before it is what they look at
    assert (make(perturbed(now)).predict(now, horizon, step) != expected).all()


@given(question=questions)
def test_the_perfect_forecast_is_the_true_mean_of_each_step(question):
    now, horizon, step = question
    predicted = PerfectForecast(TRUTH).predict(now, horizon, step)
    edges = [*np.arange(now, now + horizon, step), now + horizon]
    assert len(predicted) == math.ceil(horizon / step)
    assert predicted @ np.diff(edges) == pytest.approx(TRUTH.integral(now, now + horizon))


def test_persistence_says_now_or_yesterday():
    now = 50.5 * HOUR
    assert (Persistence(TRUTH).predict(now, 6 * HOUR, HOUR) == VALUES[50]).all()
    whole = Persistence(TRUTH, DAY).predict(50 * HOUR, 48 * HOUR, HOUR)
    assert whole == pytest.approx(np.tile(VALUES[26:50], 2))
    young = Persistence(Steps([0.0, HOUR], [1.0, 2.0], 10 * DAY), DAY)
    assert young.predict(2 * HOUR, 24 * HOUR, 12 * HOUR).tolist() == [2, 2]  # no yesterday yet


def test_errors_grow_with_the_lead_time_as_they_should():
    forecast = NoisyForecast(Constant(1.0), 11, Noise(spread=0.3, correlation=6 * HOUR))
    leads = np.array([0.0, HOUR, 6 * HOUR, 48 * HOUR])
    drawn = np.array([forecast.error(issue, leads) for issue in range(4000)])
    expected = 0.3 * np.sqrt(1 - np.exp(-2 * leads / (6 * HOUR)))
    # the standard deviation of 4,000 draws is within 5 % but in one case of 100,000
    assert drawn.std(axis=0) == pytest.approx(expected, rel=0.05)
    assert abs(drawn.mean(axis=0)).max() < 0.3 * 4.5 / math.sqrt(4000)


def test_a_forecast_depends_on_seed_and_issue_not_on_who_asked_before():
    one, other = NoisyForecast(TRUTH, 7), NoisyForecast(TRUTH, 7)
    now = 30 * HOUR + 1000
    for earlier in (0.0, 29 * HOUR, 31 * HOUR):
        other.predict(earlier, 3 * HOUR, HOUR)
    assert (one.predict(now, 12 * HOUR, HOUR) == other.predict(now, 12 * HOUR, HOUR)).all()
    longer = other.predict(now, 20 * HOUR, HOUR)
    assert (one.predict(now, 12 * HOUR, HOUR) == longer[:12]).all()
    assert (NoisyForecast(TRUTH, 8).predict(now, 12 * HOUR, HOUR) != longer[:12]).all()
    assert NoisyForecast(TRUTH, 0).predict(-5 * HOUR, HOUR, HOUR) > 0  # seed 0, time before 0


def test_between_two_issues_one_forecast_holds():
    flat = NoisyForecast(Constant(100.0), 7, Noise(issue=6 * HOUR, kind="absolute", spread=20.0))
    early = flat.predict(6 * HOUR, 12 * HOUR, HOUR)
    later = flat.predict(8 * HOUR, 10 * HOUR, HOUR)
    assert later == pytest.approx(early[2:])
    assert abs(flat.predict(12 * HOUR, HOUR, HOUR)[0] - early[6]) > 1e-3  # a new one


def test_nights_stay_dark_and_nothing_falls_below_its_bound():
    night = Steps([0.0, DAY / 2], [0.0, 50.0], DAY, past_end="wrap")
    relative = NoisyForecast(night, 1, Noise(spread=3.0)).predict(0.0, 10 * DAY, DAY / 2)
    assert (relative[::2] == 0).all()
    absolute = NoisyForecast(night, 1, Noise(spread=80.0, kind="absolute"), bounds=(0.0, 60.0))
    predicted = absolute.predict(0.0, 10 * DAY, HOUR)
    assert (predicted.min(), predicted.max()) == (0, 60)


def test_a_given_forecast_is_believed_as_far_as_it_goes():
    given_ahead = Steps([0.0, HOUR], [5.0, 6.0], 10 * HOUR)
    forecast = GivenForecast(TRUTH, given_ahead)
    assert forecast.predict(0.0, 2 * HOUR, HOUR).tolist() == [5, 6]
    with pytest.raises(
        TraceError, match="ends at 36000 s of the run, but at 18000 s a horizon of 06:0"
    ):
        forecast.predict(5 * HOUR, 6 * HOUR, HOUR)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: GivenForecast(TRUTH, Constant(1.0, "m/s")), "in m/s of a signal in W"),
        (lambda: Persistence(TRUTH, -1.0), "period_s is -1.0; it must be 0 or more"),
        (lambda: NoisyForecast(TRUTH, 0, bounds=(1.0, 0.0)), "noisy forecast: bounds"),
    ],
)  # fmt: skip
def test_mistakes(make, what):
    with pytest.raises(TraceError, match=what):
        make()


def test_lengths_must_be_positive():
    for horizon, step in ((0.0, 1.0), (1.0, 0.0), (math.inf, 1.0)):
        with pytest.raises(ValueError, match="both must be above 0"):
            PerfectForecast(TRUTH).predict(0.0, horizon, step)
