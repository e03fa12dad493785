"""The comparison with DeepJS: its trainings, and its counts by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

pytest.importorskip("cma")
pytest.importorskip("matplotlib")
pytest.importorskip("numba")
pytest.importorskip("torch")

from simkit.learners.reproductions.deepjs.judge import (
    BALANCE,
    FIRST_FIT,
    TETRIS,
    standing,
    standings,
)
from simkit.learners.reproductions.deepjs.study import FULL, QUICK, agents


def test_no_agent_is_trained_on_what_judges():
    for setting in (FULL, QUICK):
        assert all(agent.chunks[1] < setting.judged[0] for agent in agents(setting))


def judged(**makespans: list[list[float]]) -> pl.DataFrame:
    """Return a table of schedulers, a list of makespans for each draw."""
    rows = [
        {"label": label.replace("_", " "), "seed": 0 if len(draws) > 1 else None, "draw": draw,
         "chunk": chunk, "makespan": value}
        for label, draws in makespans.items()
        for draw, values in enumerate(draws)
        for chunk, value in enumerate(values)
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


TABLE = judged(
    lower_bound=[[4.0, 8.0, 10.0]],
    Tetris=[[9.0, 9.0, 9.0]],
    balance=[[4.0, 8.0, 20.0]],
    agent=[[8.0, 8.0, 20.0], [4.0, 16.0, 10.0]],
    **{"first-fit": [[8.0, 12.0, 15.0]]},
)


def test_a_standing_by_hand():
    found = standing(TABLE, "agent")
    assert found.runs == 2
    assert found.makespan == 11.0
    assert found.against[FIRST_FIT] == (1.0, 0.5, 1.5)
    assert found.against[TETRIS] == (1.5, 0.0, 1.5)
    # to the bound 2, 1, 2 and 1, 2, 1; to balance 2, 1, 1 and 1, 2, 1/2
    assert found.over_bound == pytest.approx(2**0.5)
    assert found.log_ratio == pytest.approx(np.log(2) / 6)


def test_the_best_is_last_and_the_bound_is_no_scheduler():
    labels = [one.label for one in standings(TABLE, (0, 2))]
    assert labels == [FIRST_FIT, "agent", BALANCE, TETRIS]
