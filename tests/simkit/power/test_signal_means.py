"""The means of a signal: the same energy, nothing within a step, and no more than is known."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.power.signal import Constant, Means, Steps


def test_a_step_has_the_mean_of_what_was_in_it() -> None:
    means = Means(Steps([0.0, 30.0, 90.0], [2.0, 6.0, 10.0], 120.0), 60.0)
    assert [means.value(at) for at in (0.0, 59.0, 60.0, 119.0)] == [4.0, 4.0, 8.0, 8.0]
    assert means.values([[0.0, 60.0], [119.0, 3.0]]).tolist() == [[4.0, 8.0], [8.0, 4.0]]
    assert (means.next_change(0.0), means.next_change(59.5)) == (60.0, 60.0)
    assert (means.start_s, means.end_s, means.unit) == (0.0, 120.0, "W")


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=30), st.sampled_from([7.0, 60.0, 3600.0]),
    st.sampled_from(["hold", "wrap"]),
)  # fmt: skip
def test_the_energy_of_whole_steps_is_that_of_the_signal(values, step, past_end) -> None:
    edges = 50.0 * np.arange(len(values))
    signal = Steps(edges, values, 50.0 * len(values), past_end=past_end)
    means = Means(signal, step)
    begin, end = -2 * step, 5 * step
    assert means.integral(begin, end) == pytest.approx(signal.integral(begin, end), abs=1e-3)
    starts, _ = means.pieces(begin, end)
    assert (np.mod(starts, step) == 0).all()


def test_only_whole_steps_are_known() -> None:
    means = Means(Steps([10.0], [5.0], 200.0), 60.0)
    assert (means.start_s, means.end_s) == (60.0, 180.0)
    assert means.next_change(0.0) == 60.0
    assert means.next_change(150.0) == 180.0
    assert means.next_change(180.0) == math.inf
    with pytest.raises(TraceError, match="no value"):
        means.value(0.0)
    with pytest.raises(TraceError, match="shorter than a step of 600 s"):
        Means(Steps([10.0], [5.0], 200.0), 600.0)


@pytest.mark.parametrize("step", [0.0, -1.0, math.inf, math.nan])
def test_a_step_has_a_length(step: float) -> None:
    with pytest.raises(TraceError, match="means: step is"):
        Means(Constant(1.0), step)


def test_it_can_be_given_to_another_process() -> None:
    means = Means(Steps([0.0, 30.0], [2.0, 6.0], 60.0), 60.0)
    assert means.value(0.0) == pickle.loads(pickle.dumps(means)).value(0.0) == 4.0
