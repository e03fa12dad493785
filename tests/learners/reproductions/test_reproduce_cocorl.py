"""The reproduction of CoCoRL: its limited trainings, equal cost by hand, bars and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")

from simkit.learners.cocorl import CoCoRLArguments
from simkit.learners.reproductions.green.cocorl.claims import (
    CONFIRMED,
    NOT_CONFIRMED,
    SMALLER,
    verdict,
)
from simkit.learners.reproductions.green.cocorl.equal_cost import (
    at_equal_cost,
    gap_at_equal_cost,
    ratio,
)
from simkit.learners.reproductions.green.cocorl.runs import (
    Plan,
)
from simkit.learners.reproductions.green.judge import THRESHOLDS, threshold_of
from simkit.learners.reproductions.green.studies import FULL
from simkit.training import Workplace


def place(folder: Path, said: list[str]) -> Workplace:
    (folder / "work").mkdir(exist_ok=True)
    return Workplace(folder, folder / "work", True, 1, said.append)


def test_limited_trainings_have_the_costs_and_gains_of_the_study(tmp_path: Path) -> None:
    plan = Plan.of(place(tmp_path, []), FULL)
    first, second = plan.rounds
    assert not any("cost_of" in task.arguments for task in first)
    folders = {str(tmp_path / "work" / "trainings" / task.name) for task in first}
    assert {task.arguments["cost_of"] for task in second} <= folders
    names = [task.name for task in plan.tasks]
    assert len(set(names)) == len(names) == 3 + 3 + 3 + 3 + 2
    default = CoCoRLArguments().integral
    gains = {task.arguments.get("integral", default) for task in plan.half}
    assert gains == {1.0}
    assert {task.arguments["integral"] for task in plan.slow} == {0.01}
    for task in plan.half:
        assert task.arguments["cost_of"].endswith(plan.beside(task).name)


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


def test_a_rule_of_equal_cost_by_hand() -> None:
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


def test_a_gap_is_that_to_the_rule_of_the_agents_own_cost() -> None:
    judged = pl.concat([
        thresholds({0.1: [0.4, 0.4], 0.15: [0.6, 1.0]}),
        table(agent=([0.5, 0.6], [1.0, 1.4])),  # 1.2 in the mean
    ])  # fmt: skip
    # beside 0.48 and 0.64
    assert gap_at_equal_cost(judged, "agent").value == pytest.approx(100 * (0.02 - 0.04) / 2)


def test_a_ratio_is_that_of_means_and_needs_streams_for_an_interval() -> None:
    some = table(mine=([1.0] * 8, [1.0, 3.0] * 4), other=([2.0] * 8, [4.0] * 8),
                 rare=([1.0] * 8, [4.0] + [0.0] * 7), none=([1.0] * 8, [0.0] * 8))  # fmt: skip
    found = ratio(some, "mine", "other", "cost")
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high
    assert found.gain.value == pytest.approx(-50.0)
    assert str(ratio(some, "mine", "rare", "cost")) == "4.00"
    assert str(ratio(some, "mine", "none", "cost")) == "–"


# --- words ----------------------------------------------------------------------------------------


def test_a_verdict_needs_the_number_and_the_interval() -> None:
    assert verdict(5.0, 2.0, 4.0) == CONFIRMED
    assert verdict(3.0, 2.0, 4.0) == SMALLER
    assert verdict(5.0, -0.1, 4.0) == NOT_CONFIRMED
    assert verdict(5.0, -np.inf, 4.0) == NOT_CONFIRMED
    assert verdict(12.0, 1.0, 10.0, nothing=1.0) == NOT_CONFIRMED
    assert verdict(np.nan, -np.inf, 10.0) == NOT_CONFIRMED
