"""The simple models and arrivals: their means, laws, steps and loads."""

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
    UniformModel,
    bernoulli_arrivals,
    poisson_arrivals,
)

MODELS = (PoissonModel, BernoulliModel, UniformModel, BimodalModel)


def made(model, seed=0, **choices):
    choices = {"jobs": 20_000, "processors": 10} | choices
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
    @pytest.mark.parametrize("model", MODELS)
    def test_load_is_met_on_average(self, model):
        workload = made(model, offered_load=0.7, sizes=(1, 4))
        area = (workload.instances * workload.run_time_s).sum()
        assert area / 10 / workload.submit_time_s[-1] == pytest.approx(0.7, rel=0.05)

    @pytest.mark.parametrize("model", MODELS)
    def test_load_changes_arrivals_alone(self, model):
        low, high = (made(model, offered_load=load) for load in (0.2, 0.4))
        assert (low.run_time_s == high.run_time_s).all()
        assert (low.instances == high.instances).all()
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
    @pytest.mark.parametrize("model", MODELS)
    def test_users_and_estimates_change_nothing_else(self, model):
        plain, full = made(model, offered_load=0.5), made(
            model, offered_load=0.5, users=5, estimates="modal"
        )  # fmt: skip
        for name in ("submit_time_s", "run_time_s", "instances"):
            assert (getattr(plain, name) == getattr(full, name)).all()
        assert (plain.requested_time_s == plain.run_time_s).all()
        assert set(full.user) == {1, 2, 3, 4, 5}

    @pytest.mark.parametrize("model", MODELS)
    @given(jobs=st.integers(1, 20_000))
    def test_a_longer_log_begins_with_the_shorter(self, model, jobs):
        long, short = made(model, offered_load=0.5), made(model, offered_load=0.5, jobs=jobs)
        for name in ("submit_time_s", "run_time_s", "instances"):
            assert (getattr(long, name)[:jobs] == getattr(short, name)).all()


@pytest.mark.parametrize(
    ("model", "wrong", "message"),
    [
        (PoissonModel, {}, "needs offered_load or rate_per_s, and neither is there"),
        (PoissonModel, {"offered_load": 1, "rate_per_s": 1}, "needs offered_load or rate_per_s, and both are there"),
        (BernoulliModel, {}, "needs offered_load or probability, and neither is there"),
        (PoissonModel, {"offered_load": -1}, "offered_load: must be more than 0, not -1"),
        (PoissonModel, {"offered_load": 1, "sizes": (1, 11)}, "sizes.1: must be at most the machine's 10, not 11"),
        (PoissonModel, {"offered_load": 1, "run_times": "const"}, "did you mean 'constant'"),
        (PoissonModel, {"offered_load": 1, "mean_run_time_s": 0}, "mean_run_time_s: must be more than 0, not 0"),
        (UniformModel, {"offered_load": 1, "run_time_s": (5, 2)}, "run_time_s: the least (5) is above the most (2)"),
        (UniformModel, {"offered_load": 1, "run_time_s": (0, 0)}, "run_time_s.0: must be more than 0, not 0"),
        (UniformModel, {"offered_load": 1, "arrivals": "poison"}, "did you mean 'poisson'"),
        (BimodalModel, {"offered_load": 1, "short_share": 1.5}, "short_share: must be at most 1, not 1.5"),
        # ten processors of jobs of a minute need more than one job a minute
        (BernoulliModel, {"offered_load": 1, "mean_run_time_s": 60}, "lower the load or shorten"),
        (BernoulliModel, {"offered_load": 0.1, "mean_run_time_s": 5}, "below the time step"),
        (UniformModel, {"offered_load": 0.1, "arrivals": "bernoulli", "run_time_s": (61, 119)},
         "hold no whole multiple"),
    ],
)  # fmt: skip
def test_wrong_arguments_name_value_and_rule(model, wrong, message):
    with pytest.raises(TraceError) as error:
        made(model, **wrong)
    assert message in str(error.value)
