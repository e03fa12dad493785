"""The study of CoCoRL: its limited trainings, equal cost by hand, the bar and the claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pytest
from trainings import workplace

from simkit.learners.studies.cocorl.page import (
    LOADS,
    TRAINED,
    at_equal_cost,
    at_par,
    bar_met,
    equal_cost_rows,
    equal_to,
    theta_words,
)
from simkit.learners.studies.cocorl.trainings import SHARES, free_trainings, limited_trainings
from simkit.learners.studies.green.judge import HEURISTICS, METRICS, THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import FULL, drawn
from simkit.learners.studies.results import COLUMNS, Results


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


def rows(
    arm: str, values: Sequence[float], costs: Sequence[float], *, seed: int | None = None,
    case: str = TRAINED,
) -> pl.DataFrame:  # fmt: skip
    """Return values and costs of an arm, item by item; its other metrics are its values."""
    told = dict.fromkeys(METRICS, values) | {"cost": costs}
    return pl.concat(
        pl.DataFrame({"arm": arm, "seed": seed, "case": case, "item": range(len(numbers)),
                      "metric": metric, "value": numbers}, schema=COLUMNS)
        for metric, numbers in told.items()
    )  # fmt: skip


def thresholds(values: Mapping[float, Sequence[float]]) -> list[pl.DataFrame]:
    """Return threshold rules, those that are not given dear and bad; mean costs are 10 θ."""
    return [
        rows(threshold_of(theta), values.get(theta, [0.0, 0.0]), [10 * theta - 0.2, 10 * theta + 0.2])
        for theta in THRESHOLDS
    ]  # fmt: skip


def test_a_rule_of_equal_cost_by_hand():
    some = thresholds({0.0: [0.1, 0.2], 0.1: [0.4, 0.4], 0.15: [0.6, 1.0], 0.5: [0.7, 0.9]})
    costs = {0: 1.2, 1: -0.5, 2: 5.5}  # θ of 0.1 and 0.15 cost 1 and 1.5
    agents = [rows("a", [0.5, 0.6], [cost, cost], seed=seed) for seed, cost in costs.items()]
    judged = Results(pl.concat([*some, *agents]))
    found = [theta_words(*at_equal_cost(judged, cost)) for cost in (1.2, -0.5, 5.5)]
    assert found == ["0.10 to 0.15", "0.00, the cheapest", "0.50, the dearest"]
    equal = equal_cost_rows(judged)
    by_seed = equal.sort("seed", "item")["value"].to_numpy().reshape(3, 2)
    assert by_seed == pytest.approx(
        np.array([[0.6 * 0.4 + 0.4 * 0.6, 0.6 * 0.4 + 0.4 * 1.0], [0.1, 0.2], [0.7, 0.9]])
    )
    gap = Results(pl.concat([judged.rows, equal])).ask(f"value | a | 120 | less={equal_to('a')}")
    assert gap.by_seed == pytest.approx((0.55 - 0.56, 0.55 - 0.15, 0.55 - 0.8))


def made_up(*, cost: float, good: float) -> Results:
    """Return results in which limited agents have a cost, and at all loads a value.

    Free agents cost 4, threshold rules are worth 0.5 + θ / 10 and cost 10 θ.
    """
    rng = np.random.default_rng(0)

    def stream(mean: float) -> list[float]:
        noise = rng.normal(0.0, 0.001, 12)
        return (mean + noise - noise.mean()).tolist()

    def tables() -> Iterator[pl.DataFrame]:
        for theta in THRESHOLDS:
            yield rows(threshold_of(theta), stream(0.5 + theta / 10), stream(10 * theta))
        for arm, value, costs in (("ppo", 0.56, 4.0), ("half-of-ppo", 0.53, cost)):
            for seed in range(2):
                for name in (arm, drawn(arm)):
                    yield rows(name, stream(value), stream(costs), seed=seed)
        for load in LOADS:
            for rule in HEURISTICS:
                yield rows(rule, stream(0.5 if rule == "qos" else 0.4), stream(2.0), case=load)
            for arm in ("ppo", "half-of-ppo"):
                if load != TRAINED:
                    yield rows(arm, stream(good), stream(0.05), seed=0, case=load)

    judged = pl.concat(tables())
    return Results(pl.concat([judged, equal_cost_rows(Results(judged))]))


def test_a_good_outcome_meets_the_bar_and_a_bad_one_does_not():
    good, bad = made_up(cost=1.9, good=0.75), made_up(cost=2.2, good=0.39)
    for actions in ("likeliest", "drawn"):
        assert (bar_met(good, actions), bar_met(bad, actions)) == ("2 of 2", "0 of 2")
    assert at_par(good, "half-of-ppo")
    assert not at_par(bad, "half-of-ppo")
