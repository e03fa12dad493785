"""The comparison with DeepRM: who is judged where, which rules are chosen, and when a bar is met."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from long_tables import made_up
from trainings import workplace

from simkit.learners.studies.deeprm import STUDY
from simkit.learners.studies.deeprm.judge import (
    FAMILIES,
    FIRST_JUDGED,
    HEURISTICS,
    RESERVING,
    WITHHOLDING,
    judge_all,
    original,
    seeded,
)
from simkit.learners.studies.deeprm.page import our_bars
from simkit.learners.studies.deeprm.trainings import (
    ALL,
    ALONE,
    COMPLETION,
    FIXED,
    FULL,
    our_agents,
    paper_agents,
    trained_at,
)
from simkit.learners.studies.results import COLUMNS


def test_agents_for_slowdown_are_judged_everywhere_and_others_where_they_were_trained(
    tmp_path, monkeypatch
):
    asked = {}

    def played(_place, case, _load, rules, agents, **sets):
        asked[case] = {*rules, *(one.arm for one in agents)}, sets
        sums = [(label, None, case, 0, "slowdown_sum", float(n)) for n, label in enumerate(rules)]
        return pl.DataFrame(sums, COLUMNS, orient="row")

    monkeypatch.setattr("simkit.learners.studies.deeprm.judge.judged", played)
    place = workplace(tmp_path)
    _, chosen = judge_all(place, FULL, paper_agents(place, FULL), our_agents(place, FULL))
    rules = {*HEURISTICS, *RESERVING, *WITHHOLDING}
    everywhere = rules | {trained_at(load) for load in FULL.trained}
    assert asked[original(30)][0] == everywhere
    assert asked[original(130)][0] == everywhere | {COMPLETION}
    assert asked[original(70)][0] == everywhere | {FIXED, ALL, ALONE, "headroom"}
    assert asked[seeded(30)][0] == {*FAMILIES, ALL, ALONE}
    assert chosen[seeded(30)] == {family: next(iter(FAMILIES[family])) for family in FAMILIES}
    choosing, judging = asked["30 %, choosing"][1]["seeds"], asked[seeded(30)][1]["seeds"]
    assert not {*choosing} & {*judging}
    assert len(judging) == FULL.judging
    assert judging[0] == FIRST_JUDGED


@pytest.mark.parametrize(
    ("load", "agents", "met"),
    [
        (70, (1.80, 1.81, 1.79), "yes"),
        (70, (1.20, 1.80, 2.40), "**no**"),  # not whatever the seed
        (70, (2.00, 2.01, 2.02), "**no**"),
        (10, (2.00, 2.01, 2.02), "yes"),  # at most a per cent above it
        (10, (2.04, 2.05, 2.06), "**no**"),
    ],
)
def test_a_bar_is_met_by_the_interval_over_seeds_too_or_by_the_mean(load, agents, met):
    case, jobs = seeded(load), 3 * (1.0 + np.arange(8) / 10)
    sums = {**dict.fromkeys(FAMILIES, 2.0 * jobs), ALL: np.outer(agents, jobs)}
    rows = [made_up(sums, case, "slowdown_sum")]
    rows += [made_up({arm: 0 * each + 3 for arm, each in sums.items()}, case, "jobs")]
    labels = {family: next(iter(members)) for family, members in FAMILIES.items()}
    (names,) = our_bars(STUDY.results(pl.concat(rows), {"chosen rules": {case: labels}}))
    assert (names["met"], names["rule"]) == (met, "SJF")
