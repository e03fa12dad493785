"""Sofia's batches: what jobs there are, and the same ones however many sets are drawn."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.traces.models.deeprm import SofiaModel


def test_jobs_are_as_the_study_draws_them() -> None:
    enter, length, size = SofiaModel.of().draw_sets(np.random.default_rng(0), 400)
    there = length > 0
    jobs, most, least = length[there], size.max(axis=2)[there], size.min(axis=2)[there]
    assert there.sum(axis=1).mean() == pytest.approx(70, abs=1)
    assert not enter.any()  # nothing arrives later
    assert set(np.unique(jobs)) == {*range(3, 10), *range(30, 46)}
    assert (jobs < 10).mean() == pytest.approx(0.8, abs=0.01)
    assert set(np.unique(most)) == set(range(12, 26))
    assert set(np.unique(least)) == set(range(2, 6))
    assert (size[..., 0] > size[..., 1])[there].mean() == pytest.approx(0.5, abs=0.02)


def test_ranges_are_spread_evenly() -> None:
    _, length, _ = SofiaModel.of(short_share=1.0).draw_sets(np.random.default_rng(1), 400)
    _, counts = np.unique(length[length > 0], return_counts=True)
    assert counts == pytest.approx(np.full(7, counts.mean()), rel=0.06)


def test_padding_is_at_the_end_and_empty() -> None:
    _, length, size = SofiaModel.of(positions=8, rate=0.4).draw_sets(np.random.default_rng(2), 50)
    there = length > 0
    assert not (there[:, 1:] & ~there[:, :-1]).any()
    assert not size[~there].any()


def test_more_sets_begin_with_the_same_ones() -> None:
    few = SofiaModel.of().draw_sets(np.random.default_rng(3), 2)
    many = SofiaModel.of().draw_sets(np.random.default_rng(3), 9)
    for a, b in zip(few, many, strict=True):
        width = a.shape[1]
        assert (a == b[:2, :width]).all()
        assert not b[:2, width:].any()


def test_a_workload_is_the_first_of_the_sets() -> None:
    workload = SofiaModel.of(step_s=60.0).generate(np.random.default_rng(4)).workload
    _, length, size = (
        column[0] for column in SofiaModel.of().draw_sets(np.random.default_rng(4), 1)
    )
    assert (workload.run_time_s == 60.0 * length[length > 0]).all()
    assert (workload.request == size[length > 0]).all()
    assert (workload.requested_time_s == workload.run_time_s).all()
    assert not workload.submit_time_s.any()
    assert workload.resources == ("cpu", "mem")
    assert workload.capacity == {"cpu": 50.0, "mem": 50.0}


WRONG = [
    ({"rate": 1.5}, "rate: must be at most 1, not 1.5"),
    ({"positions": 0}, "positions: must be at least 1, not 0"),
    ({"dominant": (12, 60)}, "dominant.1: must be at most 50, the capacity, not 60"),
    ({"short_steps": (0, 3)}, "short_steps.0: must be at least 1, not 0"),
    ({"step_s": 0.0}, "step_s: must be more than 0, not 0.0"),
    ({"rate": 1e-9}, "no job at any of 100 positions at a rate of 1e-09"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG)
def test_what_is_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(TraceError, match=re.escape(text)):
        SofiaModel.of(**arguments).generate(np.random.default_rng(0))  # type: ignore[arg-type]
