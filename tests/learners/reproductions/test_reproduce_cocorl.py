"""The reproduction of CoCoRL: its limited trainings, equal cost by hand, bars and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from trainings import workplace

pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")

from simkit.learners.ppo import PPOArguments
from simkit.learners.recipes import cocorl
from simkit.learners.reproductions.green.cocorl.claims import (
    CONFIRMED,
    NOT_CONFIRMED,
    NOT_TESTED,
    SMALLER,
    claims,
    verdict,
)
from simkit.learners.reproductions.green.cocorl.equal_cost import (
    at_equal_cost,
    gap_at_equal_cost,
    ratio,
)
from simkit.learners.reproductions.green.cocorl.page import meets_bar
from simkit.learners.reproductions.green.cocorl.runs import LOADS, RULES, Constraint, Plan, Results
from simkit.learners.reproductions.green.judge import THRESHOLDS, threshold_of
from simkit.learners.reproductions.green.studies import FULL, Size
from simkit.learners.reproductions.green.trainings import drawn

TINY = Size(
    seeds=2, share=0.01, games=4, held_out=2, streams=6, tuning=2, hours=60, episodes=1
)  # fmt: skip


def test_limited_trainings_have_the_costs_and_gains_of_the_study(tmp_path):
    plan = Plan.of(workplace(tmp_path), FULL)
    first, second = plan.rounds
    assert not any("cost_of" in task.arguments for task in first)
    folders = {str(tmp_path / "work" / "trainings" / task.name) for task in first}
    assert {task.arguments["cost_of"] for task in second} <= folders
    names = [task.name for task in plan.tasks]
    assert len(set(names)) == len(names) == 3 + 3 + 3 + 3 + 2
    default = PPOArguments.model_validate(cocorl.defaults).integral
    gains = {task.arguments.get("integral", default) for task in plan.half}
    assert gains == {1.0}
    assert {task.arguments["integral"] for task in plan.slow} == {0.01}
    for task in plan.half:
        assert task.arguments["cost_of"].endswith(plan.unlimited(task).name)


# --- equal cost -----------------------------------------------------------------------------------


def table(**columns: tuple[Sequence[float], Sequence[float]]) -> pl.DataFrame:
    """Return candidates with (values, costs) of each stream."""
    parts = [
        pl.DataFrame({
            "candidate": name, "stream": range(len(values)), "value": values, "cost": costs,
            "completed": values, "utilisation": values,
        })
        for name, (values, costs) in columns.items()
    ]  # fmt: skip
    return pl.concat(parts)


def thresholds(values: Mapping[float, Sequence[float]]) -> pl.DataFrame:
    """Return threshold rules, those that are not given dear and bad; mean costs are 10 θ."""
    found = {}
    for theta in THRESHOLDS:
        mine = list(values.get(theta, [0.0, 0.0]))
        found[threshold_of(theta)] = (mine, [10 * theta - 0.2, 10 * theta + 0.2])
    return table(**found)


def test_a_rule_of_equal_cost_by_hand():
    judged = thresholds({0.0: [0.1, 0.2], 0.1: [0.4, 0.4], 0.15: [0.6, 1.0], 0.5: [0.7, 0.9]})
    found = at_equal_cost(judged, 1.2)  # θ of 0.1 and 0.15 cost 1 and 1.5
    assert found.values == pytest.approx([0.6 * 0.4 + 0.4 * 0.6, 0.6 * 0.4 + 0.4 * 1.0])
    assert (found.words, found.exists) == ("0.10 to 0.15", True)
    exact = at_equal_cost(judged, 1.0)
    assert exact.values == pytest.approx([0.4, 0.4])
    low = at_equal_cost(judged, -0.5)
    assert (low.words, low.exists) == ("0.00, the cheapest", False)
    assert low.values == pytest.approx([0.1, 0.2])
    high = at_equal_cost(judged, 5.5)
    assert (high.words, high.exists) == ("0.50, the dearest", False)
    assert high.values == pytest.approx([0.7, 0.9])


def test_a_gap_is_that_to_the_rule_of_the_agents_own_cost():
    judged = pl.concat([
        thresholds({0.1: [0.4, 0.4], 0.15: [0.6, 1.0]}),
        table(agent=([0.5, 0.6], [1.0, 1.4])),  # 1.2 in the mean
    ])  # fmt: skip
    # beside 0.48 and 0.64
    assert gap_at_equal_cost(judged, "agent").value == pytest.approx(100 * (0.02 - 0.04) / 2)


def test_a_ratio_is_that_of_means_and_needs_streams_for_an_interval():
    some = table(mine=([1.0] * 8, [1.0, 3.0] * 4), other=([2.0] * 8, [4.0] * 8),
                 rare=([1.0] * 8, [4.0] + [0.0] * 7), none=([1.0] * 8, [0.0] * 8))  # fmt: skip
    found = ratio(some, "mine", "other", "cost")
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high
    assert found.gain.value == pytest.approx(-50.0)
    assert str(ratio(some, "mine", "rare", "cost")) == "4.00"
    assert str(ratio(some, "mine", "none", "cost")) == "–"


# --- words ----------------------------------------------------------------------------------------


def test_a_verdict_needs_the_number_and_the_interval():
    assert verdict(5.0, 2.0, 4.0) == CONFIRMED
    assert verdict(3.0, 2.0, 4.0) == SMALLER
    assert verdict(5.0, -0.1, 4.0) == NOT_CONFIRMED
    assert verdict(5.0, -np.inf, 4.0) == NOT_CONFIRMED
    assert verdict(12.0, 1.0, 10.0, nothing=1.0) == NOT_CONFIRMED
    assert verdict(np.nan, -np.inf, 10.0) == NOT_CONFIRMED


def made_up(folder: Path, *, cost: float, value: float, slow: float, good: float) -> Results:
    """Return results in which limited agents have a cost and a value, and agents are good.

    Free agents have a cost of 4, threshold rules a value of 0.5 + θ / 10 and a cost
    of 10 θ.
    """
    rng = np.random.default_rng(0)
    plan = Plan.of(workplace(folder), TINY)

    def stream(mean: float) -> list[float]:
        noise = rng.normal(0.0, 0.001, 12)
        return (mean + noise - noise.mean()).tolist()

    everyone = {threshold_of(theta): (0.5 + theta / 10, 10 * theta) for theta in THRESHOLDS}
    rules = {name: (0.5 if name == "qos" else 0.4, 2.0) for name in RULES}
    everyone |= rules
    for task in plan.tasks:
        has = (0.56, 4.0) if task in plan.rounds[0] else (value, cost)
        if task in plan.slow:
            has = (value, slow)
        everyone |= {task.name: has, drawn(task.name): has}
    judged = table(**{one: (stream(v), stream(c)) for one, (v, c) in everyone.items()})
    agents = dict.fromkeys((plan.free[0].name, plan.half[0].name), (good, 0.05))
    few = {
        **rules,
        **agents,
        **{drawn(one): agents[one] for one in agents},
    }
    loads = [
        table(**{one: (stream(v), stream(c)) for one, (v, c) in few.items()})
        .with_columns(load=pl.lit(load))
        for load in LOADS
    ]  # fmt: skip
    constraints = {task.name: Constraint(2.0, 0.5, 0.25) for task in plan.rounds[1]}
    return Results(TINY, plan, judged, pl.concat(loads), constraints, 3.0, "abc")


def test_a_good_outcome(tmp_path):
    found = made_up(tmp_path, cost=1.9, value=0.53, slow=2.4, good=0.75)
    assert meets_bar(found, found.plan.half[0], "likeliest")
    verdicts = [one.verdict for one in claims(found) if one.verdict != NOT_TESTED]
    assert set(verdicts) == {CONFIRMED, NOT_CONFIRMED}
    assert verdicts.count(NOT_CONFIRMED) == 1  # limits of one value bring no more


def test_a_bad_outcome(tmp_path):
    found = made_up(tmp_path, cost=2.2, value=0.53, slow=2.2, good=0.39)
    assert not meets_bar(found, found.plan.half[0], "drawn")
    verdicts = [one.verdict for one in claims(found) if one.figure in ("6.4", "6.5", "6.6")]
    assert set(verdicts) == {NOT_CONFIRMED}
