"""The reproduction of Launchpad: its data, agreement, bars and claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from trainings import workplace

pytest.importorskip("torch")

from simkit.arrays import stream
from simkit.gym.dataset import read_dataset
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.ready_pool.rules import ORDERS
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.judge import JUDGED, JUDGED_AFRESH, TUNING, Candidate, rule
from simkit.learners.reproductions.green.launchpad.agreement import agreement
from simkit.learners.reproductions.green.launchpad.claims import BARS, bars, verdict
from simkit.learners.reproductions.green.launchpad.data import Data, make, seeds_of
from simkit.learners.reproductions.green.launchpad.runs import Plan, Results
from simkit.learners.reproductions.green.studies import MIXES, Size
from simkit.learners.reproductions.green.trainings import named

TINY = Size(
    seeds=1, share=0.01, games=4, held_out=2, streams=10, tuning=2, hours=60, episodes=2
)  # fmt: skip
WHERE = Circumstances(load=1.0, ready=5, hours=60)


# --- data -----------------------------------------------------------------------------------------


def test_data_are_whole_streams_of_each_rule_in_equal_shares(tmp_path):
    here = workplace(tmp_path)
    combo, alone = Data("combo", WHERE), Data("qos", WHERE)
    make(here, [combo, alone], 3)
    one = read_dataset(alone.path(here))
    assert one.names == ("qos",)
    hours = [
        one.passed_s[one.episode == episode].sum() / 3600 for episode in np.unique(one.episode)
    ]
    assert hours == pytest.approx([60.0] * 3)
    mixed = read_dataset(combo.path(here))
    assert sorted(mixed.names) == sorted(MIXES["combo"])
    acted = mixed.action >= 0
    shares = np.bincount(mixed.behaviour[acted]) / acted.sum()
    assert shares == pytest.approx(0.25, abs=0.15)  # whole episodes of some 25 decisions
    assert combo.decisions(here) == acted.sum()


def test_nobody_is_judged_on_recorded_streams():
    recorded = [seed for name in MIXES["combo"] for seed in seeds_of(name, 20)]
    others = {
        seed
        for name, size in (
            (JUDGED, 100),
            (JUDGED_AFRESH, 100),
            (TUNING, 50),
            ("ready_pool.held_out", 32),
        )
        for seed in stream(0, name).integers(2**31, size=size).tolist()
    }
    assert len(set(recorded)) == 80
    assert not others & set(recorded)


# --- agreement ------------------------------------------------------------------------------------


def test_agreement(tmp_path):
    """A rule agrees with itself; beside another it is as counted one stream after another."""
    idle = Candidate("idle", lambda: lambda games: np.full(len(games.active), 5), "idle")
    asked, played = [rule("qos"), rule("sjf"), idle], [rule("qos")]
    found = agreement(workplace(tmp_path), WHERE, asked, played, 2)
    itself, other, nothing = found.iter_rows(named=True)
    assert itself["choice"] == itself["all"] == 1.0
    assert nothing["choice"] == nothing["all"] == 0.0  # a rule never waits where a job can start
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
    assert other["decisions"] == choices
    assert other["choice"] == pytest.approx(np.mean(same))
    assert 0.2 < other["choice"] < 0.9
    assert other["all"] == pytest.approx(1 - (choices - sum(same)) / decisions)


# --- what is said ---------------------------------------------------------------------------------


def results(folder: Path, over: dict[str, float], agrees: dict[str, float]) -> Results:
    """Return made-up results: points over QoS and agreement by kind; QoS has 50 points."""
    plan, rng = Plan.of(workplace(folder), TINY), np.random.default_rng(0)
    stream_value = rng.uniform(0.4, 0.6, 40)

    def rows(name: str, points: float) -> pl.DataFrame:
        value = stream_value + points / 100 + rng.normal(0, 0.001, 40)
        return pl.DataFrame({"candidate": name, "stream": range(40), "value": value,
                             "cost": 1.0, "completed": 0.5, "utilisation": 0.5})  # fmt: skip

    tables, agreed = {}, {}
    for pool, tasks in ((15, plan.at_15), (5, plan.at_5)):
        parts = [
            rows(name, 0.0 if name == "qos" else -3.0) for name in ("qos", "sjf", "fcfs", "value")
        ]
        told: list[dict[str, Any]] = []
        for task in tasks:
            kind = task.kind.split("-")[0]
            for actions in ("drawn", "likeliest"):
                points = over[kind] if task.kind != "clone-qos-pool5" else 0.0
                parts.append(rows(named(task, actions), points))
                told += [{"candidate": named(task, actions), "rule": name, "all": agrees[kind]}
                         for name in MIXES["combo"] if kind in agrees]  # fmt: skip
        tables[pool], agreed[pool] = pl.concat(parts), pl.DataFrame(told)
    return Results(TINY, plan, tables, {15: 0.25, 5: 0.2}, agreed, {}, 1.0, "abc")


GOOD = {"clone": -2.0, "offline": -0.2, "launch": 0.5, "online": -0.5}
BAD = {"clone": 0.0, "offline": -3.0, "launch": -3.5, "online": -9.0}
FALLING = {"clone": 0.96, "offline": 0.9, "launch": 0.2}


def test_the_bars(tmp_path):
    good = bars(results(tmp_path, GOOD, FALLING), 0, "drawn")
    assert [bar.words for bar in good] == list(BARS)
    assert [bar.gap.value for bar in good] == pytest.approx([-2.0, 1.8, -0.2, 2.5, 0.7], abs=0.1)
    assert all(bar.met for bar in good)
    assert not any(bar.met for bar in bars(results(tmp_path, BAD, FALLING), 0, "drawn"))


def test_a_claim_may_hold_with_one_way_to_act():
    assert verdict(True, True) == "confirmed"
    assert verdict(False, False) == "not confirmed"
    assert verdict(True, False) == "confirmed with drawn actions only"
    assert verdict(False, True) == "confirmed with the likeliest actions only"
