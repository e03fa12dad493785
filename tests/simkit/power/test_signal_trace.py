"""From rows to steps: labels, means and instants, irregular steps, missing rows; then scaling."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.errors import ScenarioError, TraceError
from simkit.power.signal_align import scale_factor
from simkit.power.signal_trace import Gaps, PowerTrace, step_function


def trace(times, values, **meaning):
    meaning = {"unit": "W", "time_zone": "UTC", "name": "wind.csv: kw"} | meaning
    return PowerTrace(np.array(times, float), np.array(values, float), **meaning)


def rows(recorded, gaps=None):
    pieces = step_function(recorded, gaps or Gaps())
    return [*zip(pieces.starts_s.tolist(), pieces.values.tolist(), strict=True), pieces.end_s]


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [
        # the time is the start of an hour whose mean it is
        ({"label": "start"}, [(0, 10), (60, 20), (120, 40), 180]),
        # the time is the end of the hour
        ({"label": "end"}, [(-60, 10), (0, 20), (60, 40), 120]),
        # between two readings their mean, after the last one the last
        ({"sampling": "instant"}, [(0, 15), (60, 30), (120, 40), 180]),
    ],
)
def test_what_a_value_means(meaning, expected):
    assert rows(trace([0, 60, 120], [10, 20, 40], **meaning)) == expected


def test_between_instants_the_integral_is_that_of_straight_lines():
    times, values = np.array([0.0, 60, 90, 150]), np.array([1.0, 7, 3, 4])
    pieces = step_function(trace(times, values, sampling="instant", step_s=60), Gaps())
    lengths = np.diff(pieces.starts_s)
    assert pieces.values[:-1] @ lengths == np.trapezoid(values, times)


def test_irregular_steps_are_no_gaps_up_to_a_step_and_a_half():
    assert rows(trace([0, 60, 150, 180], [1, 2, 3, 4], step_s=60)) == [
        (0, 1), (60, 2), (150, 3), (180, 4), 240,
    ]  # fmt: skip
    ends = trace([60, 150, 180], [2, 3, 4], step_s=60, label="end")
    assert rows(ends) == [(0, 2), (60, 3), (150, 4), 180]


@pytest.mark.parametrize(
    ("rule", "bridge"),
    [
        ("hold", [(60, 20)]),
        ("zero", [(60, 0)]),
        ("interpolate", [(60, 30), (120, 40)]),  # a straight line from 20 to 50
    ],
)
def test_missing_rows_are_bridged_by_rule(rule, bridge):
    holey = trace([-60, 0, 180], [20, 20, 50])
    # rows of 60 and 120 s are missing
    assert rows(holey, Gaps(rule=rule)) == [(-60, 20), (0, 20), *bridge, (180, 50), 240]
    ends = trace([0, 60, 240], [20, 20, 50], label="end")
    assert rows(ends, Gaps(rule=rule)) == rows(holey, Gaps(rule=rule))


def test_gaps_that_are_not_allowed_are_all_named_in_the_clock_of_the_place():
    holey = trace([0, 3600, 18_000, 36_000], [1, 2, 3, 4], step_s=3600, time_zone="UTC-06:00")
    with pytest.raises(TraceError) as caught:
        step_function(holey, Gaps())
    assert str(caught.value) == (
        "wind.csv: kw: gaps from 1969-12-31 20:00 UTC-06:00 for 03:00:00, from 1970-01-01 00:00 "
        "UTC-06:00 for 04:00:00; the rule allows none; fill them with the rule hold, interpolate "
        "or zero and longest: 4h, or fix the file"
    )
    with pytest.raises(TraceError, match=r"kw: gaps from 1970-01-01 00:00 .* up to 03:00:00 are"):
        step_function(holey, Gaps(rule="hold", longest=10_800))
    step_function(holey, Gaps(rule="hold", longest=14_400))


def test_the_step_is_the_most_frequent_distance():
    assert trace([0, 60, 120, 600], [1, 1, 1, 1]).step_s == 60
    with pytest.raises(TraceError, match="the step cannot be found from a single row"):
        trace([0], [1])
    assert rows(trace([0], [1], step_s=60)) == [(0, 1), 60]


@pytest.mark.parametrize(
    ("times", "values", "meaning", "what"),
    [
        ([], [], {}, "at least one"),
        ([0, 60], [1], {}, "as many values"),
        ([0, np.nan], [1, 2], {}, "not finite"),
        ([0, 60], [1, np.inf], {}, "not finite"),
        ([0, 60, 60], [1, 2, 3], {}, "row 3 has Unix time 60, not after 60"),
        ([0, 60], [1, 2], {"label": "ends"}, "label 'ends' is unknown; did you mean 'end'"),
        ([0, 60], [1, 2], {"sampling": "sum"}, "sampling 'sum' is unknown"),
        ([0, 60], [1, 2], {"step_s": -5.0}, "step_s -5.0"),
        ([0, 60], [1, 2], {"time_zone": "Texas"}, "'Texas' is not a valid time zone"),
    ],
)
def test_what_is_no_trace(times, values, meaning, what):
    with pytest.raises(TraceError, match=what):
        trace(times, values, **meaning)


def test_rules_for_gaps_are_checked():
    with pytest.raises(ScenarioError, match=r"gaps\.rule: .*did you mean 'hold'"):
        Gaps(rule="holds")
    with pytest.raises(ScenarioError, match=r"gaps\.longest"):
        Gaps(rule="hold", longest=float("nan"))


def test_the_unit_is_checked_where_a_trace_is_used():
    with pytest.raises(TraceError, match="values in W, but the carbon intensity is in gCO2/kWh"):
        trace([0, 60], [1, 2]).require("gCO2/kWh", "the carbon intensity")


def test_scaling_gives_the_factor():
    uneven = trace([0, 60, 90], [1e3, 4e3, 0], step_s=60)  # means over 60, 30 and 60 s
    assert scale_factor(uneven, Gaps()) == 1
    assert scale_factor(uneven, Gaps(), peak_w=2e3) == 0.5
    mean = (1e3 * 60 + 4e3 * 30) / 150
    assert scale_factor(uneven, Gaps(), mean_w=2.4e3) == pytest.approx(2.4e3 / mean)


@pytest.mark.parametrize(
    ("unit", "factor", "what"),
    [
        ("W", 0.0, "its peak is 0 W, which cannot be scaled"),
        ("m/s", 1.0, "values in m/s, but a scaled source is in W"),
    ],
)
def test_scaling_refuses(unit, factor, what):
    with pytest.raises(TraceError, match=what):
        scale_factor(trace([0, 60], [1, 2], unit=unit).scaled(factor), Gaps(), peak_w=1.0)
