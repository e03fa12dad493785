"""The comparison with DeepJS: what its trainings see, and its comparisons by hand."""

from __future__ import annotations

import math
from itertools import chain

import polars as pl
import pytest

pytest.importorskip("cma")
pytest.importorskip("numba")
pytest.importorskip("torch")

from simkit.learners.studies.deepjs import STUDY
from simkit.learners.studies.deepjs.judge import (
    BALANCE,
    BOUND,
    FIRST_FIT,
    LATER,
    TEST,
    TETRIS,
    rows_of,
)
from simkit.learners.studies.deepjs.page import counts, worst_first
from simkit.learners.studies.deepjs.trainings import FULL, JOBS, OBJECTIVES, QUICK, scenarios


@pytest.mark.parametrize("setting", [FULL, QUICK])
def test_no_agent_is_trained_on_what_judges(setting, monkeypatch, tmp_path):
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    table = tmp_path / "alibaba" / "cloudsimpy_jobs.csv.gz"
    table.parent.mkdir()
    table.touch()
    for one in chain(*scenarios(setting).values()):
        assert one.workload.window.jobs.last < JOBS * setting.judged[0]


def results(**makespans: list[list[float]]):
    """Return what was found on chunks 0 to 4: a list of makespans for each draw of an arm."""
    rows = [
        {"arm": arm, "seed": None, "machines": 5, "draw": draw, "chunk": chunk, "makespan": value,
         **dict.fromkeys(OBJECTIVES[1:])}
        for arm, draws in makespans.items()
        for draw, values in enumerate(draws)
        for chunk, value in enumerate([*values, 50.0, 50.0])
    ]  # fmt: skip
    schema = {"seed": pl.Int64, **dict.fromkeys(OBJECTIVES, pl.Float64)}
    return STUDY.results(rows_of(pl.DataFrame(rows, schema_overrides=schema), 0, 4), {})


FOUND = results(
    agent=[[8.0, 8.0, 20.0], [4.0, 16.0, 10.0]],
    balance=[[4.0, 8.0, 20.0]],
    **{BOUND: [[4.0, 8.0, 10.0]], TETRIS: [[9.0, 9.0, 9.0]], FIRST_FIT: [[8.0, 12.0, 15.0]]},
)


def test_an_arm_by_hand():
    assert FOUND.mean("makespan", "agent", TEST) == 11.0
    assert counts(FOUND, "agent") == "1/0.5/1.5"
    assert counts(FOUND, "agent", rival=TETRIS) == "1.5/0/1.5"
    # to the bound 2, 1, 2 and 1, 2, 1; to balance 2, 1, 1 and 1, 2, 1/2
    for case, other, logarithm in (
        (TEST, BOUND, 1 / 2),
        (LATER, BOUND, 1 / 6),
        (TEST, BALANCE, 1 / 6),
    ):
        found = FOUND.ask(f"log makespan | agent | {case} | less={other}")
        assert found.value == pytest.approx(logarithm * math.log(2))


def test_the_best_is_last_and_the_bound_is_no_scheduler():
    assert worst_first(FOUND, TEST) == [FIRST_FIT, "agent", BALANCE, TETRIS]
