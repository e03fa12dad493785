"""A grid connection: numbers, signals, and what is refused."""

from __future__ import annotations

import math
from bisect import bisect_right

import pytest

from simkit.errors import ScenarioError
from simkit.power.controller import GridOffer
from simkit.power.signal import Signal
from simkit.power.site import Grid


class Staircase(Signal):
    """A signal of steps."""

    def __init__(self, steps: dict[float, float]) -> None:
        super().__init__("any")
        self.times, self.steps = sorted(steps), steps

    def value(self, time_s: float) -> float:
        return self.steps[self.times[bisect_right(self.times, time_s) - 1]]

    def next_change(self, time_s: float) -> float:
        return next((time for time in self.times if time > time_s), math.inf)


def test_an_offer_mixes_numbers_and_signals() -> None:
    grid = Grid(1000.0, 500.0, Staircase({0: 0.1, 60: 0.3}), 0.05, Staircase({0: 400, 90: 90}))
    assert grid.offer(59.0) == GridOffer(1000.0, 500.0, 0.1, 0.05, 400.0)
    assert grid.offer(90.0) == GridOffer(1000.0, 500.0, 0.3, 0.05, 90.0)
    assert [grid.next_change(t) for t in (0.0, 60.0, 90.0)] == [60.0, 90.0, math.inf]


def test_a_grid_of_numbers_never_changes() -> None:
    assert Grid().next_change(0.0) == math.inf
    assert Grid().offer(0.0) == GridOffer(import_limit_w=math.inf)


def test_all_wrong_numbers_are_told_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        Grid(-1.0, math.nan, math.inf, 0.0, -5.0)
    assert [line.split(" is ")[0] for line in caught.value.problems] == [
        "grid: import_limit_w", "grid: export_limit_w", "grid: price_per_kwh",
        "grid: carbon_gco2_per_kwh",
    ]  # fmt: skip


def test_a_signal_of_limits_below_zero_is_refused_when_it_gets_there() -> None:
    grid = Grid(Staircase({0: 10.0, 60: -1.0}))
    assert grid.offer(0.0).import_limit_w == 10.0
    with pytest.raises(ScenarioError, match="import_limit_w is -1 at 60 s"):
        grid.offer(60.0)
