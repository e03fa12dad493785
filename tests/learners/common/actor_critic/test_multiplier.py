"""The multiplier: each term by hand, and a cost that it brings down to its limit."""

from __future__ import annotations

import pytest

from simkit.learners.common.actor_critic.multiplier import Gains, Multiplier

PLAIN = {"smooth_proportional": 0.0, "smooth_derivative": 0.0, "delay": 1}


def told(limit: float, costs: list[float], **gains: float) -> list[float]:
    multiplier = Multiplier(limit, Gains(**{"proportional": 0.0, "integral": 0.0} | PLAIN | gains))
    return [multiplier.update(cost) for cost in costs]


def test_the_first_term_follows_the_excess():
    assert told(3.0, [5.0, 4.0, 1.0], proportional=2.0) == [4.0, 2.0, 0.0]


def test_the_second_term_adds_it_up_but_never_below_0():
    assert told(3.0, [5.0, 4.0, 1.0, 1.0, 4.0], integral=0.5) == [1.0, 1.5, 0.5, 0.0, 0.5]


def test_the_third_term_answers_a_rise_alone():
    assert told(3.0, [1.0, 4.0, 2.0, 2.5], derivative=2.0) == [0.0, 6.0, 0.0, 1.0]


def test_the_third_term_looks_back_as_far_as_its_delay():
    assert told(0.0, [1.0, 2.0, 4.0, 8.0], derivative=1.0, delay=2) == [0.0, 1.0, 3.0, 6.0]


def test_moving_means_smooth_the_terms():
    smooth = told(0.0, [4.0, 0.0, 0.0], proportional=1.0, smooth_proportional=0.5)
    assert smooth == [4.0, 2.0, 1.0]


def test_the_dissertation_applies_two_gains_twice():
    once = told(0.0, [1.0, 3.0], proportional=2.0, derivative=3.0)
    twice = told(0.0, [1.0, 3.0], proportional=2.0, derivative=3.0, twice=True)
    assert (once, twice) == ([2.0, 6.0 + 6.0], [4.0, 12.0 + 18.0])


def test_both_together_are_of_the_size_of_one():
    multiplier = Multiplier(0.0, Gains(**{"proportional": 1.0, "integral": 0.0} | PLAIN))
    multiplier.update(3.0)
    assert multiplier.of_both(2.0, 1.0) == pytest.approx((2.0 - 3.0) / 4.0)


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


def test_it_goes_on_where_it_was():
    one, costs = Multiplier(2.0, Gains(1.0, 0.5, 2.0)), [1.0, 4.0, 3.0, 6.0, 2.0, 5.0]
    whole = [one.update(cost) for cost in costs]
    first = Multiplier(2.0, Gains(1.0, 0.5, 2.0))
    for cost in costs[:3]:
        first.update(cost)
    second = Multiplier(2.0, Gains(1.0, 0.5, 2.0))
    second.restore(first.state())
    assert [second.update(cost) for cost in costs[3:]] == whole[3:]
