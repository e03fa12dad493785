"""The study of CoCoRL: its limited trainings, equal cost by hand, the bar and the claims."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from long_tables import made_up
from trainings import workplace

from simkit.learners.studies.cocorl.page import (
    TRAINED,
    at_par,
    bar_met,
    equal_cost_rows,
    equal_to,
    theta_of,
)
from simkit.learners.studies.cocorl.trainings import SHARES, free_trainings, limited_trainings
from simkit.learners.studies.green.judge import THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import FULL, drawn
from simkit.learners.studies.results import Results


def test_limited_trainings_read_the_cost_of_the_free_one_of_their_seed(tmp_path):
    place = workplace(tmp_path)
    first, second = free_trainings(place, FULL), limited_trainings(place, FULL)
    told = [one.scenario.learn.all_arguments for one in second]
    assert [one["cost_of"] for one in told] == [
        str(first[one.scenario.seed].folder) for one in second
    ]
    assert len({one.folder for one in [*first, *second]}) == 3 + 1 + 3 + 3 + 3 + 1
    shares = [(one["cost_share"], one["integral"]) for one in told]
    limits = [(0.5, 1.0)] * 3 + [(0.5, 0.01)] * 3 + [(share, 1.0) for share in SHARES]
    assert shares == [*limits, (0.5, 1.0)]


def test_a_rule_of_equal_cost_by_hand():
    values = {0.0: [0.1, 0.2], 0.1: [0.4, 0.4], 0.15: [0.6, 1.0], 0.5: [0.7, 0.9]}
    rules = {threshold_of(theta): values.get(theta, [0.0, 0.0]) for theta in THRESHOLDS}
    spent = {threshold_of(theta): [10 * theta - 0.2, 10 * theta + 0.2] for theta in THRESHOLDS}
    costs = (1.2, -0.5, 5.5)  # θ of 0.1 and 0.15 cost 1 and 1.5
    judged = Results(pl.concat([
        made_up({**rules, "a": [[0.5, 0.6]] * 3}, TRAINED, "value"),
        made_up({**spent, "a": [[cost] * 2 for cost in costs]}, TRAINED, "cost"),
    ]))  # fmt: skip
    found = [theta_of(judged, "a", f"seed={seed}") for seed in range(3)]
    assert found == ["0.10 to 0.15", "0.00, the cheapest", "0.50, the dearest"]
    equal = equal_cost_rows(judged)
    by_seed = equal.sort("seed", "item")["value"].to_numpy().reshape(3, 2)
    assert by_seed == pytest.approx(
        np.array([[0.6 * 0.4 + 0.4 * 0.6, 0.6 * 0.4 + 0.4 * 1.0], [0.1, 0.2], [0.7, 0.9]])
    )
    gap = Results(pl.concat([judged.rows, equal])).ask(f"value | a | 120 | less={equal_to('a')}")
    assert gap.by_seed == pytest.approx((0.55 - 0.56, 0.55 - 0.15, 0.55 - 0.8))


@pytest.mark.parametrize(("cost", "value", "met"), [(1.9, 0.75, True), (2.2, 0.39, False)])
def test_a_good_outcome_meets_the_bar_and_a_bad_one_does_not(cost, value, met):
    """Free agents cost 4, threshold rules are worth 0.5 + θ / 10 and cost 10 θ."""
    noise = 0.001 * (np.arange(12) - 5.5)
    values = {threshold_of(theta): 0.5 + theta / 10 + noise for theta in THRESHOLDS}
    costs = {threshold_of(theta): 10 * theta + noise for theta in THRESHOLDS}
    for act in (str, drawn):
        values |= {act("ppo"): [0.56 + noise] * 2, act("half-of-ppo"): [0.53 + 2 * noise] * 2}
        costs |= {act("ppo"): [4.0 + noise] * 2, act("half-of-ppo"): [cost + noise] * 2}
    at_100 = {"qos": 0.5 + noise, "half-of-ppo": [value + 2 * noise]}
    judged = pl.concat([
        made_up(values, TRAINED, "value"), made_up(costs, TRAINED, "cost"),
        made_up(at_100, "100", "value", "utilisation", "completed"),
    ])  # fmt: skip
    found = Results(pl.concat([judged, equal_cost_rows(Results(judged))]))
    for actions in ("likeliest", "drawn"):
        assert bar_met(found, actions) == ("2 of 2" if met else "0 of 2")
    assert at_par(found, "half-of-ppo") is met
