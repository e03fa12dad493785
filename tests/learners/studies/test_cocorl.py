"""The study of CoCoRL: its limited trainings, equal cost by hand, the bar and the claims."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from long_tables import made_up
from trainings import workplace

from simkit.learners.studies.cocorl.page import (
    TRAINED,
    at_equal_cost,
    at_par,
    bar_met,
    equal_cost_rows,
    equal_to,
    theta_words,
)
from simkit.learners.studies.cocorl.trainings import SHARES, free_trainings, limited_trainings
from simkit.learners.studies.green.judge import THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import FULL, drawn
from simkit.learners.studies.results import Results


def test_limited_trainings_read_the_cost_of_the_free_one_of_their_seed(tmp_path):
    place = workplace(tmp_path)
    first, second = free_trainings(place, FULL), limited_trainings(place, FULL)
    told = [one.scenario.learn.all_arguments for one in second]
    assert not any("cost_of" in one.scenario.learn.all_arguments for one in first)
    assert {one["cost_of"] for one in told} <= {str(one.folder) for one in first}
    assert all(
        arguments["cost_of"].endswith(f"/ppo-seed{one.scenario.seed}")
        for one, arguments in zip(second, told, strict=True)
    )
    assert len({one.scenario.name for one in [*first, *second]}) == 3 + 1 + 3 + 3 + 3 + 1
    shares = [(arguments["cost_share"], arguments["integral"]) for arguments in told]
    assert shares == [(0.5, 1.0)] * 3 + [(0.5, 0.01)] * 3 + [(s, 1.0) for s in SHARES] + [
        (0.5, 1.0)
    ]


def test_a_rule_of_equal_cost_by_hand():
    values = {0.0: [0.1, 0.2], 0.1: [0.4, 0.4], 0.15: [0.6, 1.0], 0.5: [0.7, 0.9]}
    rules = {threshold_of(theta): values.get(theta, [0.0, 0.0]) for theta in THRESHOLDS}
    spent = {threshold_of(theta): [10 * theta - 0.2, 10 * theta + 0.2] for theta in THRESHOLDS}
    costs = (1.2, -0.5, 5.5)  # θ of 0.1 and 0.15 cost 1 and 1.5
    judged = Results(pl.concat([
        made_up({**rules, "a": [[0.5, 0.6]] * 3}, TRAINED, "value"),
        made_up({**spent, "a": [[cost] * 2 for cost in costs]}, TRAINED, "cost"),
    ]))  # fmt: skip
    found = [theta_words(*at_equal_cost(judged, cost)) for cost in costs]
    assert found == ["0.10 to 0.15", "0.00, the cheapest", "0.50, the dearest"]
    equal = equal_cost_rows(judged)
    by_seed = equal.sort("seed", "item")["value"].to_numpy().reshape(3, 2)
    assert by_seed == pytest.approx(
        np.array([[0.6 * 0.4 + 0.4 * 0.6, 0.6 * 0.4 + 0.4 * 1.0], [0.1, 0.2], [0.7, 0.9]])
    )
    gap = Results(pl.concat([judged.rows, equal])).ask(f"value | a | 120 | less={equal_to('a')}")
    assert gap.by_seed == pytest.approx((0.55 - 0.56, 0.55 - 0.15, 0.55 - 0.8))


def outcome(*, cost: float, good: float) -> Results:
    """Return results in which limited agents have a cost, and at a load of 100 % a value.

    Free agents cost 4, threshold rules are worth 0.5 + θ / 10 and cost 10 θ.
    """
    rng = np.random.default_rng(0)

    def noisy(mean: float, *shape: int) -> np.ndarray:
        noise = rng.normal(0.0, 0.001, (*shape, 12))
        return mean + noise - noise.mean(axis=-1, keepdims=True)

    values = {threshold_of(theta): noisy(0.5 + theta / 10) for theta in THRESHOLDS}
    costs = {threshold_of(theta): noisy(10 * theta) for theta in THRESHOLDS}
    for arm, value, spent in (("ppo", 0.56, 4.0), ("half-of-ppo", 0.53, cost)):
        values |= {name: noisy(value, 2) for name in (arm, drawn(arm))}
        costs |= {name: noisy(spent, 2) for name in (arm, drawn(arm))}
    at_100 = {"qos": noisy(0.5), "half-of-ppo": noisy(good, 1)}
    judged = pl.concat([
        made_up(values, TRAINED, "value"), made_up(costs, TRAINED, "cost"),
        made_up(at_100, "100", "value", "utilisation", "completed"),
    ])  # fmt: skip
    return Results(pl.concat([judged, equal_cost_rows(Results(judged))]))


def test_a_good_outcome_meets_the_bar_and_a_bad_one_does_not():
    good, bad = outcome(cost=1.9, good=0.75), outcome(cost=2.2, good=0.39)
    for actions in ("likeliest", "drawn"):
        assert (bar_met(good, actions), bar_met(bad, actions)) == ("2 of 2", "0 of 2")
    assert at_par(good, "half-of-ppo")
    assert not at_par(bad, "half-of-ppo")
