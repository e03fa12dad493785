"""The study of Launchpad: its data, agreement, bars and claims."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from long_tables import made_up
from trainings import workplace

from simkit.arrays import stream
from simkit.gym.dataset import read_dataset
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.ready_pool.rules import ORDERS
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.judge import (
    JUDGED,
    JUDGED_AFRESH,
    RULES,
    TUNING,
    Candidate,
    rule,
)
from simkit.learners.studies.launchpad import page
from simkit.learners.studies.launchpad.agreement import agreement
from simkit.learners.studies.launchpad.data import MIXES, Data, make, seeds_of
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED
from simkit.learners.studies.results import Results

WHERE = Circumstances(load=1.0, ready=5, hours=60)


def test_data_are_whole_streams_of_each_rule_in_equal_shares(tmp_path):
    here = workplace(tmp_path)
    combo, alone = Data(here, "combo", WHERE), Data(here, "qos", WHERE)
    make([combo, alone], 3)
    one, mixed = read_dataset(alone.path), read_dataset(combo.path)
    hours = [one.passed_s[one.episode == each].sum() / 3600 for each in np.unique(one.episode)]
    assert hours == pytest.approx([60.0] * 3)
    assert (one.names, sorted(mixed.names)) == (("qos",), sorted(MIXES["combo"]))
    acted = mixed.action >= 0
    shares = np.bincount(mixed.behaviour[acted]) / acted.sum()
    assert shares == pytest.approx(0.25, abs=0.15)  # whole episodes of some 25 decisions
    assert combo.decisions == acted.sum()


def test_nobody_is_judged_on_recorded_streams():
    recorded = {seed for name in MIXES["combo"] for seed in seeds_of(name, 20)}
    assert len(recorded) == 80
    for name in (JUDGED, JUDGED_AFRESH, TUNING, "ready_pool.held_out"):
        assert not recorded & set(stream(0, name).integers(2**31, size=100).tolist())


def test_agreement(tmp_path, monkeypatch):
    """A rule agrees with itself; beside another it is as counted one stream after another."""
    idle = {"idle": lambda games: np.full(len(games.active), 5)}
    monkeypatch.setattr("simkit.learners.studies.green.judge.RULES", {**RULES, **idle})
    asked = [rule("qos"), rule("sjf"), Candidate("idle", "idle")]
    found = Results(agreement(workplace(tmp_path), WHERE, asked, "qos", 2))
    both = ("agreement", "agreement with a choice")
    shares = {one.arm: [found.mean(name, one.arm, "pool 5, qos") for name in both] for one in asked}
    assert shares["qos"] == [1.0, 1.0]
    assert shares["idle"] == [0.0, 0.0]  # a rule never waits where a job can start
    source = ReadySource(WHERE.scenario("judged"), hours=60)
    same, choices, decisions = [], 0, 0
    for seed in stream(0, JUDGED_AFRESH).integers(2**31, size=2).tolist():
        games = source.games(source.streams([seed]))
        while len(games.active):
            done = int(ORDERS["qos"](games)[0])
            able = int(games.mask()[0, :-1].sum())
            alike = int(ORDERS["sjf"](games)[0]) == done
            assert alike or able > 1
            same += [alike] if able > 1 else []
            choices, decisions = choices + (able > 1), decisions + 1
            games.step(np.array([done]))
    assert found.mean("choices", "sjf", "pool 5, qos") == choices
    assert 0.2 < np.mean(same) < 0.9
    assert shares["sjf"] == pytest.approx([1 - (choices - sum(same)) / decisions, np.mean(same)])


KINDS = ("clone", "offline", "launch", "online")


def results(*over_qos: float) -> Results:
    """Return agents of two seeds with points over QoS by their kind, on the same streams."""
    rng = np.random.default_rng(0)
    qos = rng.uniform(0.4, 0.6, 40)
    points = dict(zip(KINDS, over_qos, strict=True))
    arms = {
        arm + act: qos + points[arm.split("-")[0]] / 100 + rng.normal(0, 0.001, (2, 40))
        for arm in page.OF_FOUR_RULES
        for act in ("", ", drawn")
    }
    return Results(made_up({"qos": qos, **arms}, "pool 15", "value"))


GOOD, BAD = results(-2.0, -0.2, 0.5, -0.5), results(0.0, -3.0, -3.5, -9.0)


@pytest.mark.parametrize(
    "bar",
    ["clone-combo, drawn | pool 15 | less=qos | percent <= -1",
     "launch-combo | pool 15 | less=offline-combo | percent > 0"],
)  # fmt: skip
def test_a_bar_is_met_seed_by_seed(bar):
    met = [page.seeds_met(found, *f"value | {bar}".split(" | ")) for found in (GOOD, BAD)]
    assert met == ["2 of 2", "0 of 2"]


@pytest.mark.parametrize(
    "claim",
    [("below", "clone-combo", "qos"), ("above", "offline-combo", "clone-combo"),
     ("no worse", "online", "qos", "offline-combo")],
)  # fmt: skip
def test_a_claim_may_hold_with_one_way_to_act(claim):
    likeliest = (pl.col("arm") != "qos") & ~pl.col("arm").str.ends_with("drawn")
    mixed = Results(pl.concat([GOOD.rows.filter(~likeliest), BAD.rows.filter(likeliest)]))
    assert [page.stands(found, *claim) for found in (GOOD, BAD, mixed)] == [
        CONFIRMED, NOT_CONFIRMED, "confirmed with drawn actions only",
    ]  # fmt: skip
