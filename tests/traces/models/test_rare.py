"""The synthetic workload of RARE: its means, its load, its steps."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.traces.models import RareModel


def made(seed=0, **choices):
    choices = {"jobs": 20_000, "offered_load": 1.0} | choices
    return RareModel.of(**choices).generate(np.random.default_rng(seed)).workload


def test_means_are_those_of_the_dissertation():
    """9.85 steps and 3 of 10 units on average, so 0.338 jobs a step at full load."""
    load = made()
    steps = load.run_time_s / 3600
    assert steps.mean() == pytest.approx(0.7 * 5.5 + 0.3 * 20, rel=0.02)
    assert load.request.mean(axis=0) == pytest.approx([3, 3], rel=0.02)
    rate = 20_000 / (load.submit_time_s[-1] / 3600)
    assert rate == pytest.approx(10 / (9.85 * 3), rel=0.02)


@pytest.mark.parametrize("load", [0.2, 1.2])
@pytest.mark.parametrize("units", [10, 300])
def test_the_offered_load_of_both_resources_is_what_was_asked(load, units):
    jobs = made(offered_load=load, units=units)
    area = (jobs.request * jobs.run_time_s[:, None]).sum(axis=0)
    assert area / units / jobs.submit_time_s[-1] == pytest.approx([load] * 2, rel=0.04)


def test_everything_happens_in_steps_and_no_job_takes_more_than_half():
    load = made(units=20, step_s=60.0)
    steps = load.run_time_s / 60
    assert (steps == np.floor(steps)).all()
    assert (load.submit_time_s % 60 == 0).all()
    assert (steps.min(), steps.max()) == (1, 30)
    assert load.request.min(axis=0).tolist() == [1, 1]
    assert load.request.max(axis=0).tolist() == [10, 10]
    assert dict(load.capacity) == {"processors": 20.0, "gpu": 20.0}


def test_arrivals_may_be_continuous_and_are_otherwise_the_same():
    steps, smooth = (made(arrivals=law).submit_time_s for law in ("steps", "continuous"))
    assert (np.floor(smooth / 3600) * 3600 == steps).all()
    assert (smooth != steps).any()


def test_demands_of_the_two_resources_are_independent():
    assert abs(np.corrcoef(made().request.T)[0, 1]) < 0.03


def test_load_changes_arrivals_alone():
    low, high = made(offered_load=0.2), made(offered_load=0.4)
    assert (low.run_time_s == high.run_time_s).all()
    assert (low.request == high.request).all()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"offered_load": None}, "neither is there"),
        ({"rate_per_step": 1.0}, "both are there"),
        ({"max_units": 11}, "max_units: must be at most the pool's 10, not 11"),
        ({"short_steps": (0, 10)}, "short_steps.0: must be at least 1, not 0"),
        ({"long_steps": (30, 10)}, "long_steps"),
        ({"short_share": 1.5}, "short_share"),
        ({"arrivals": "step"}, "did you mean 'steps'"),
        ({"offered_load": -1.0}, "offered_load: must be more than 0, not -1.0"),
    ],
)
def test_what_is_out_of_range_is_refused(choices, message):
    with pytest.raises(TraceError, match=message):
        made(jobs=5, **choices)
