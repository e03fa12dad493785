"""Models of rigid jobs: their means, laws, steps, loads, users and streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from simkit.errors import TraceError
from simkit.traces.models import (
    BernoulliModel,
    BimodalModel,
    PoissonModel,
    RareModel,
    UniformModel,
    bernoulli_arrivals,
    poisson_arrivals,
)
from simkit.traces.models.lublin import LublinModel
from simkit.traces.models.synthetic import ROUND_VALUES_S, draw_users, requested_times
from simkit.workload.workload import JOB_COLUMNS

SIMPLE = (PoissonModel, BernoulliModel, UniformModel, BimodalModel)
MODELS = (*SIMPLE, RareModel, LublinModel)
COLUMNS = ("submit_time_s", "run_time_s", "instances", "request", *set(JOB_COLUMNS) - {"user"})


def made(model, seed=0, **choices):
    choices = {"jobs": 20_000} | ({} if model is RareModel else {"processors": 10}) | choices
    return model.of(**choices).generate(np.random.default_rng(seed)).workload


class TestArrivals:
    def test_poisson_gaps_are_exponential(self):
        times = poisson_arrivals(20_000, 0.25, np.random.default_rng(0))
        gaps = np.diff(times, prepend=0)
        assert kstest(gaps, "expon", args=(0, 4)).statistic < 0.014  # 1 of 1000 exceeds it

    def test_bernoulli_fills_steps_independently(self):
        times = bernoulli_arrivals(20_000, 0.3, 5, np.random.default_rng(0))
        steps = times / 5
        assert (steps == np.floor(steps)).all()
        assert (np.diff(steps) >= 1).all()
        assert 20_000 / (steps[-1] + 1) == pytest.approx(0.3, rel=0.02)
        assert (np.diff(steps) == 1).mean() == pytest.approx(0.3, abs=0.015)

    def test_a_sure_arrival_fills_every_step_from_the_first(self):
        times = bernoulli_arrivals(4, 1, 60, np.random.default_rng(0))
        assert times.tolist() == [0, 60, 120, 180]


class TestLoad:
    @pytest.mark.parametrize("model", SIMPLE)
    def test_load_is_met_on_average(self, model):
        workload = made(model, offered_load=0.7, sizes=(1, 4))
        area = (workload.instances * workload.run_time_s).sum()
        assert area / 10 / workload.submit_time_s[-1] == pytest.approx(0.7, rel=0.05)

    @pytest.mark.parametrize("model", MODELS)
    def test_load_changes_arrivals_alone(self, model):
        low, high = (made(model, offered_load=load) for load in (0.2, 0.4))
        for name in ("run_time_s", "instances", "request"):
            assert (getattr(low, name) == getattr(high, name)).all()
        assert high.submit_time_s[-1] < low.submit_time_s[-1]

    def test_rate_is_taken_as_given(self):
        workload = made(PoissonModel, rate_per_s=0.01)
        assert 20_000 / workload.submit_time_s[-1] == pytest.approx(0.01, rel=0.03)


class TestRunTimes:
    def test_exponential(self):
        runs = made(PoissonModel, offered_load=0.5, mean_run_time_s=100).run_time_s
        assert kstest(runs, "expon", args=(0, 100)).statistic < 0.014

    def test_constant(self):
        runs = made(
            PoissonModel, offered_load=0.5, run_times="constant", mean_run_time_s=7
        ).run_time_s
        assert (runs == 7).all()

    def test_uniform(self):
        workload = made(UniformModel, offered_load=0.5, run_time_s=(20, 50))
        assert kstest(workload.run_time_s, "uniform", args=(20, 30)).statistic < 0.014
        assert np.bincount(workload.instances, minlength=11)[1:] == pytest.approx(
            np.full(10, 2000), rel=0.1
        )

    def test_bimodal(self):
        runs = made(
            BimodalModel, offered_load=0.5, short_share=0.9, short_run_time_s=(1, 3),
            long_run_time_s=(10, 15),
        ).run_time_s  # fmt: skip
        short = runs <= 3
        assert short.mean() == pytest.approx(0.9, abs=0.01)
        assert runs[~short].min() >= 10
        assert runs.max() <= 15

    @pytest.mark.parametrize(
        ("model", "choices", "mean_s"),
        [
            (BernoulliModel, {"mean_run_time_s": 30.0}, 30),  # geometric
            (UniformModel, {"arrivals": "bernoulli", "run_time_s": (12, 48)}, 30),  # 20, …, 40
            (BimodalModel, {
                "arrivals": "bernoulli", "short_share": 0.5,
                "short_run_time_s": (10, 30), "long_run_time_s": (40, 40),
            }, 30),
        ],
    )  # fmt: skip
    def test_steps_make_all_times_whole(self, model, choices, mean_s):
        workload = made(model, offered_load=0.1, step_s=10, sizes=(1, 1), **choices)
        for times in (workload.submit_time_s, workload.run_time_s):
            assert (times % 10 == 0).all()
        assert workload.run_time_s.min() >= 10
        assert workload.run_time_s.mean() == pytest.approx(mean_s, rel=0.03)


class TestStreams:
    @pytest.mark.parametrize("model", [*SIMPLE, LublinModel])
    def test_users_and_estimates_change_nothing_else(self, model):
        plain = made(model, offered_load=0.5)
        assert (plain.requested_time_s == plain.run_time_s).all()
        assert (plain.user == -1).all()
        full = made(model, offered_load=0.5, users=5, estimates="modal")
        for name in COLUMNS:
            assert (getattr(plain, name) == getattr(full, name)).all()
        assert set(full.user) == {1, 2, 3, 4, 5}

    @pytest.mark.parametrize("model", MODELS)
    @given(jobs=st.integers(1, 20_000))
    def test_a_longer_log_begins_with_the_shorter(self, model, jobs):
        load = {} if model is LublinModel else {"offered_load": 0.5}  # its own load is scaled
        long, short = made(model, **load), made(model, jobs=jobs, **load)
        for name in COLUMNS:
            assert (getattr(long, name)[:jobs] == getattr(short, name)).all()


class TestRare:
    def test_means_are_those_of_the_dissertation(self):
        """9.85 steps and 3 of 10 units on average, so 0.338 jobs a step at full load."""
        load = made(RareModel, offered_load=1.0)
        steps = load.run_time_s / 3600
        assert steps.mean() == pytest.approx(0.7 * 5.5 + 0.3 * 20, rel=0.02)
        assert load.request.mean(axis=0) == pytest.approx([3, 3], rel=0.02)
        assert abs(np.corrcoef(load.request.T)[0, 1]) < 0.03  # the two are independent
        rate = 20_000 / (load.submit_time_s[-1] / 3600)
        assert rate == pytest.approx(10 / (9.85 * 3), rel=0.02)

    @pytest.mark.parametrize("load", [0.2, 1.2])
    @pytest.mark.parametrize("units", [10, 300])
    def test_the_offered_load_of_both_resources_is_what_was_asked(self, load, units):
        jobs = made(RareModel, offered_load=load, units=units)
        area = (jobs.request * jobs.run_time_s[:, None]).sum(axis=0)
        assert area / units / jobs.submit_time_s[-1] == pytest.approx([load] * 2, rel=0.04)

    def test_everything_happens_in_steps_and_no_job_takes_more_than_half(self):
        load = made(RareModel, offered_load=1.0, units=20, step_s=60.0)
        steps = load.run_time_s / 60
        assert (steps == np.floor(steps)).all()
        assert (load.submit_time_s % 60 == 0).all()
        assert (steps.min(), steps.max()) == (1, 30)
        assert load.request.min(axis=0).tolist() == [1, 1]
        assert load.request.max(axis=0).tolist() == [10, 10]
        assert dict(load.capacity) == {"processors": 20.0, "gpu": 20.0}

    def test_arrivals_may_be_continuous_and_are_otherwise_the_same(self):
        steps, smooth = (
            made(RareModel, offered_load=1.0, arrivals=law).submit_time_s
            for law in ("steps", "continuous")
        )
        assert (np.floor(smooth / 3600) * 3600 == steps).all()
        assert (smooth != steps).any()


class TestUsers:
    """Few users submit most jobs, and they ask for round times that suffice."""

    def test_shares_fall_as_one_over_rank(self):
        users = draw_users(100_000, 4, np.random.default_rng(0))
        expected = np.array([12, 6, 4, 3]) / 25
        assert np.bincount(users)[1:] / 100_000 == pytest.approx(expected, abs=0.006)

    @given(runs=st.lists(st.floats(0, 1e7), min_size=1, max_size=50), seed=st.integers(0, 99))
    def test_requested_times_suffice_and_are_round(self, runs, seed):
        runs = np.array(runs)
        asked = requested_times(runs, "modal", np.random.default_rng(seed))
        assert (asked >= runs).all()
        assert (np.isin(asked, ROUND_VALUES_S) | (asked % 86_400 == 0)).all()
        assert (asked[runs <= ROUND_VALUES_S[-1]] <= ROUND_VALUES_S[-1]).all()
        assert np.isnan(requested_times(runs, "none", np.random.default_rng())).all()

    def test_accuracy_is_spread_widely(self):
        runs = np.random.default_rng(1).uniform(600, 7200, 20_000)
        accuracy = runs / requested_times(runs, "modal", np.random.default_rng(0))
        assert 0.3 < accuracy.mean() < 0.5
        assert (accuracy < 0.2).mean() > 0.15
        assert (accuracy > 0.8).mean() > 0.03


# The bounds of single keys stand in the reference of scenarios, which is generated from them.
@pytest.mark.parametrize(
    ("model", "wrong", "place"),
    [
        (PoissonModel, {}, "needs offered_load or rate_per_s, and neither"),
        (PoissonModel, {"offered_load": 1, "rate_per_s": 1}, "offered_load or rate_per_s, and both"),
        (BernoulliModel, {}, "needs offered_load or probability"),
        (RareModel, {}, "needs offered_load or rate_per_step"),
        (PoissonModel, {"offered_load": 1, "sizes": (1, 11)}, "sizes.1"),
        (RareModel, {"offered_load": 1, "max_units": 11}, "max_units"),
        (UniformModel, {"offered_load": 1, "run_time_s": (5, 2)}, "run_time_s"),
        (RareModel, {"offered_load": 1, "long_steps": (30, 10)}, "long_steps"),
        (RareModel, {"offered_load": 1, "short_steps": (0, 10)}, "short_steps.0"),
        (LublinModel, {"offered_load": float("nan")}, "offered_load"),
        # ten processors of jobs of a minute need more than one job a minute
        (BernoulliModel, {"offered_load": 1, "mean_run_time_s": 60}, "lower the load or shorten"),
        (BernoulliModel, {"offered_load": 0.1, "mean_run_time_s": 5}, "below the time step"),
        (UniformModel, {"offered_load": 0.1, "arrivals": "bernoulli", "run_time_s": (61, 119)},
         "hold no whole multiple"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(model, wrong, place):
    with pytest.raises(TraceError, match=place):
        made(model, **wrong)
