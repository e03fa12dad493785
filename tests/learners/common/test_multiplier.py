"""The multiplier: each term by hand, and a cost that it brings down to its limit."""

from __future__ import annotations

import pytest

from simkit.learners.common.multiplier import Gains, Multiplier

PLAIN = {"smooth_proportional": 0.0, "smooth_derivative": 0.0, "delay": 1}


TERMS = [
    # gains, limit, costs, multipliers
    ({"proportional": 2.0}, 3.0, [5.0, 4.0, 1.0], [4.0, 2.0, 0.0]),
    # Added up, but never below 0.
    ({"integral": 0.5}, 3.0, [5.0, 4.0, 1.0, 1.0, 4.0], [1.0, 1.5, 0.5, 0.0, 0.5]),
    # A rise alone counts, over as many iterations as the delay.
    ({"derivative": 2.0}, 3.0, [1.0, 4.0, 2.0, 2.5], [0.0, 6.0, 0.0, 1.0]),
    ({"derivative": 1.0, "delay": 2}, 0.0, [1.0, 2.0, 4.0, 8.0], [0.0, 1.0, 3.0, 6.0]),
    ({"proportional": 1.0, "smooth_proportional": 0.5}, 0.0, [4.0, 0.0, 0.0], [4.0, 2.0, 1.0]),
    ({"proportional": 2.0, "derivative": 3.0}, 0.0, [1.0, 3.0], [2.0, 6.0 + 6.0]),
]


@pytest.mark.parametrize(("gains", "limit", "costs", "expected"), TERMS)
def test_each_term_by_hand(gains, limit, costs, expected):
    multiplier = Multiplier(limit, Gains(**{"proportional": 0.0, "integral": 0.0} | PLAIN | gains))
    assert [multiplier.update(cost) for cost in costs] == expected


def test_both_together_are_of_the_size_of_one():
    multiplier = Multiplier(0.0, Gains(**{"proportional": 1.0, "integral": 0.0} | PLAIN))
    multiplier.update(3.0)
    assert multiplier.combine(2.0, 1.0) == pytest.approx((2.0 - 3.0) / 4.0)


@pytest.mark.parametrize("integral", [1.0, 0.1])
def test_a_cost_that_falls_with_the_multiplier_settles_at_its_limit(integral):
    """A policy that weighs gain x against cost x² spends x = 1 / 2λ: the limit is 4 = (1 / 2λ)²."""
    multiplier = Multiplier(4.0, Gains(0.05, 0.01 * integral, 0.0))
    cost = 100.0
    for _ in range(5000):
        pressed = multiplier.update(cost)
        wanted = min((1 / (2 * pressed)) ** 2, 100.0) if pressed else 100.0
        cost += 0.1 * (wanted - cost)  # policies change slowly
    assert cost == pytest.approx(4.0, rel=0.05)
    assert multiplier.value == pytest.approx(0.25, rel=0.05)
