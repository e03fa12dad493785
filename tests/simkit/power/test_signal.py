"""Signals: the value at an instant, the next change, the exact integral; past the end by rule."""

from __future__ import annotations

import copy
import math
import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.power.signal import BLOCK, Checked, Constant, Scaled, Signal, Steps, Sum
from simkit.units import TIME_GRID

INF = math.inf

grid_times = st.integers(0, 400).map(lambda quarter: quarter / 4)
edges = st.lists(st.integers(0, 200), min_size=2, max_size=12, unique=True).map(sorted)
rules = st.sampled_from(["hold", "wrap"])


@st.composite
def step_functions(draw):
    at = draw(edges)
    values = draw(st.lists(st.integers(-3, 3), min_size=len(at) - 1, max_size=len(at) - 1))
    return at, values, Steps(at[:-1], values, at[-1], past_end=draw(rules))


def plain_value(at, values, past_end, t):
    """The value by walking along the edges, as one would by hand."""
    if past_end == "wrap":
        while t < at[0]:
            t += at[-1] - at[0]
        while t >= at[-1]:
            t -= at[-1] - at[0]
    held = values[0]
    for edge, value in zip(at[:-1], values, strict=True):
        if edge <= t:
            held = value
    return held


@given(step_functions(), st.lists(grid_times, min_size=1, max_size=20))
def test_values_are_those_of_the_pieces_in_whatever_order_one_asks(function, times):
    at, values, signal = function
    expected = [plain_value(at, values, signal.past_end, t) for t in times]
    assert [signal.value(t) for t in times] == expected
    assert signal.values(times).tolist() == expected


@given(step_functions(), grid_times)
def test_the_value_changes_at_the_next_change_and_never_before(function, t):
    _, _, signal = function
    change = signal.next_change(t)
    assert change > t
    until = min(change, t + 500)
    between = np.arange(t, until, 0.25)
    assert set(signal.values(between).tolist()) == {signal.value(t)}
    if change < INF:
        assert signal.value(change) != signal.value(t)


@given(step_functions(), grid_times, grid_times)
def test_the_integral_is_the_sum_of_the_rectangles(function, a, b):
    _, _, signal = function
    a, b = min(a, b), max(a, b)
    quarters = np.arange(a, b, 0.25)
    # whole values on quarters of a second: the sum is exact, so equality is
    assert signal.integral(a, b) == signal.values(quarters).sum() * 0.25
    starts, values = signal.pieces(a, b)
    assert (values * np.diff(starts, append=b)).sum() == signal.integral(a, b)
    if a < b:
        assert starts[0] == a
        assert (np.diff(starts) > 0).all()


@given(step_functions(), step_functions(), grid_times, grid_times)
def test_sums_and_multiples_are_those_of_the_values(first, second, a, b):
    a, b = min(a, b), max(a, b)
    together = Sum([first[2], Scaled(second[2], -2.0), Constant(1.0)])
    at = np.arange(a, b, 0.25)
    expected = first[2].values(at) - 2 * second[2].values(at) + 1
    assert together.values(at).tolist() == expected.tolist()
    assert [together.value(t) for t in at.tolist()] == expected.tolist()
    assert together.integral(a, b) == expected.sum() * 0.25
    assert Signal.integral(together, a, b) == together.integral(a, b)  # by its pieces
    assert together.next_change(a) == min(first[2].next_change(a), second[2].next_change(a))


def test_a_year_of_five_minutes_is_exact_and_as_quick_as_a_day():
    rng = np.random.default_rng(5)
    values = rng.uniform(0, 1e6, 105_120)
    year = Steps(300.0 * np.arange(105_120), values, 300.0 * 105_120, past_end="wrap")
    whole = year.integral(0.0, 105_120 * 300.0)
    assert whole == pytest.approx(math.fsum((values * 300).tolist()), rel=1e-15)
    assert year.integral(10.0, 10.0 + 3 * 105_120 * 300.0) == pytest.approx(3 * whole, rel=1e-15)
    inner = year.integral(300.0 * BLOCK - 7, 300.0 * 5 * BLOCK + 7)
    by_hand = [*(values[BLOCK : 5 * BLOCK] * 300), values[BLOCK - 1] * 7, values[5 * BLOCK] * 7]
    assert inner == pytest.approx(math.fsum(by_hand), rel=1e-15)

    day = Steps(300.0 * np.arange(288), values[:288], 300.0 * 288, past_end="wrap")
    assert spent_s(year) < 10 * spent_s(
        day
    )  # it would be 365 times if steps were searched in order


def spent_s(signal: Steps) -> float:
    """Return the processor time of 20,000 pairs of questions, spread over two years."""
    times = np.linspace(0.0, 2 * 105_120 * 300.0, 20_000).tolist()
    start = time.process_time()
    for t in times:
        signal.value(t)
        signal.next_change(t)
    return time.process_time() - start


def test_past_the_end():
    at, values = [10.0, 20.0], [1.0, 2.0]
    held, again = (Steps(at, values, 30.0, past_end=rule) for rule in ("hold", "wrap"))
    assert [held.value(t) for t in (0.0, 10.0, 29.0, 30.0, 1e9)] == [1, 1, 2, 2, 2]
    assert [held.next_change(t) for t in (0.0, 10.0, 20.0)] == [20, 20, INF]
    assert [again.value(t) for t in (0.0, 9.0, 29.0, 30.0, 40.0)] == [2, 2, 2, 1, 2]
    assert [again.next_change(t) for t in (0.0, 9.0, 10.0, 29.0, 30.0)] == [10, 10, 20, 30, 40]
    assert (held.start_s, held.end_s, again.start_s, again.end_s) == (-INF, INF, -INF, INF)


def test_an_end_that_is_an_error_is_one_change_ahead_and_says_what_to_do():
    signal = Steps([10.0, 20.0], [1.0, 2.0], 30.0, name="wind.csv")
    assert (signal.start_s, signal.end_s) == (10, 30)
    assert [signal.next_change(t) for t in (0.0, 10.0, 20.0, 30.0)] == [10, 20, 30, INF]
    assert signal.integral(10.0, 30.0) == 30
    for ask in (
        lambda: signal.value(30.0),
        lambda: signal.values([12.0, 31.0]),
        lambda: signal.integral(10.0, 31.0),
        lambda: signal.value(9.0),
    ):
        with pytest.raises(TraceError, match=r"^wind\.csv: no value at .*past_end hold or wrap"):
            ask()


def test_equal_neighbours_are_one_piece():
    nights = Steps([0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 5.0, 0.0], 4.0, past_end="wrap")
    assert [nights.next_change(t) for t in (0.0, 2.0, 3.0)] == [2, 3, 6]
    assert Steps([0.0, 1.0], [5.0, 5.0], 2.0, past_end="wrap").next_change(0.0) == INF


def test_between_points_of_the_grid_the_next_change_still_lies_ahead():
    again = Steps([0.0, 1.0], [1.0, 2.0], 2.0, past_end="wrap")
    for t in np.nextafter(np.arange(1, 2000.0), 0).tolist():
        assert again.next_change(t) > t


@pytest.mark.parametrize(
    ("times", "values", "end", "what"),
    [
        ([], [], 1.0, "at least one"),
        ([0.0, 1.0], [1.0], 2.0, "2 times and 1 values"),
        ([0.0], [math.nan], 1.0, "not finite"),
        ([0.0, 0.0], [1.0, 2.0], 1.0, "must ascend"),
        ([0.0, TIME_GRID / 4], [1.0, 2.0], 1.0, "must ascend"),
        ([0.0], [1.0], 0.0, "must ascend"),
    ],
)
def test_what_is_no_step_function(times, values, end, what):
    with pytest.raises(TraceError, match=f"^solar: .*{what}"):
        Steps(times, values, end, name="solar")


def test_other_mistakes():
    with pytest.raises(TraceError, match="past_end 'warp' is unknown; did you mean 'wrap'"):
        Steps([0.0], [1.0], 1.0, past_end="warp")
    with pytest.raises(TraceError, match="signals in W, gCO2/kWh cannot be added"):
        Sum([Constant(1.0), Constant(300.0, "gCO2/kWh")])
    with pytest.raises(TraceError, match="at least one"):
        Sum([])
    with pytest.raises(TraceError, match="constant signal: nan; it must be a finite"):
        Constant(math.nan)
    with pytest.raises(TraceError, match="factor of a scaled signal: inf"):
        Scaled(Constant(1.0), INF)
    with pytest.raises(ValueError, match="from 5.0 to 3.0 s"):
        Constant(1.0).integral(5.0, 3.0)


def test_a_mean_over_nothing_is_the_value_there():
    signal = Steps([0.0, 10.0], [1.0, 3.0], 20.0)
    assert signal.mean(5.0, 15.0) == 2.0
    assert signal.mean(10.0, 10.0) == 3.0


def test_signals_can_be_copied_and_sent_to_another_process():
    signal = Scaled(Steps([0.0, 10.0], [1.0, 3.0], 20.0, past_end="wrap"), 2.0)
    for other in (copy.deepcopy(signal), pickle.loads(pickle.dumps(signal))):
        assert [other.value(t) for t in (0.0, 10.0, 25.0)] == [2, 6, 2]


class Walked(Steps):
    """Defines `value` anew, so what `Steps` knows of whole spans does not hold for it."""

    def value(self, time_s):
        return 2 * super().value(time_s)


class Whole(Steps):
    """Counts how it is asked, and answers about spans with what it was told to."""

    answer, asked = None, 0

    def value(self, time_s):
        self.asked += 1
        return super().value(time_s)

    def values(self, times_s):
        return super().values(times_s) if self.answer is None else self.answer

    def pieces(self, start_s, end_s):
        return super().pieces(start_s, end_s) if self.answer is None else self.answer

    def integral(self, start_s, end_s):
        return super().integral(start_s, end_s) if self.answer is None else self.answer


def of_class(kind):
    signal = kind([0, 10, 20], [1.0, 3.0, 2.0], 30)
    return signal, Checked(signal, 0.0, "power.sources.sun")


@pytest.mark.parametrize(("kind", "factor"), [(Steps, 1), (Walked, 2), (Whole, 1)])
def test_a_checked_signal_says_what_the_signal_says(kind, factor):
    signal, checked = of_class(kind)
    assert checked.values([[5, 15], [25, 0]]).tolist() == [
        [factor, 3 * factor], [2 * factor, factor],
    ]  # fmt: skip
    starts, values = checked.pieces(5, 25)
    assert (starts.tolist(), (values / factor).tolist()) == ([5, 10, 20], [1, 3, 2])
    assert checked.integral(5, 25) == 45 * factor
    assert checked.integral(5, 5) == 0
    assert getattr(signal, "asked", 0) == 0  # whole spans are asked for at once


@pytest.mark.parametrize(
    ("method", "answer", "named"),
    [
        ("values", [1.0, math.nan], r"Whole\.value\(9\) is nan"),
        ("values", [1.0, -2.0], r"Whole\.value\(9\) is -2 W; it must be at least 0"),
        ("values", [1.0], "1 values for 2 times"),
        ("values", "high", "high"),
        ("pieces", 7, r"Whole\.pieces\(5, 9\) is 7"),
        ("pieces", ([5.0], ["high"]), "high"),
        ("pieces", ([5.0, 6.0], [1.0, -2.0]), r"Whole\.value\(6\) is -2 W"),
        ("pieces", ([4.0], [1.0]), r"Whole\.pieces\(5, 9\)"),
        ("pieces", ([5.0, 3.0], [1.0, 2.0]), r"Whole\.pieces\(5, 9\)"),
        ("integral", math.nan, r"Whole\.integral\(5, 9\) is nan"),
        ("integral", -1.0, r"Whole\.integral\(5, 9\) is -1 W s; it must be at least 0"),
        ("integral", "7", r"Whole\.integral\(5, 9\) is '7'"),
    ],
)
def test_a_wrong_answer_about_a_span_is_refused_with_its_place(method, answer, named):
    signal, checked = of_class(Whole)
    signal.answer = answer
    arguments = ([5.0, 9.0],) if method == "values" else (5.0, 9.0)
    with pytest.raises(TraceError, match=rf"^power\.sources\.sun: .*{named}"):
        getattr(checked, method)(*arguments)
