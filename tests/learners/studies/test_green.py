"""The shared part of the three studies of a ready pool: who is judged on what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from trainings import workplace

from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.judge import (
    METRICS,
    TUNING,
    agents,
    best_threshold,
    games_of,
    judged,
    rule,
    threshold_of,
)
from simkit.learners.studies.green.trainings import LATE_LEAVE, QUICK, free
from simkit.learners.studies.results import COLUMNS
from simkit.learners.studies.trainings import train


def test_all_are_judged_on_the_same_streams(tmp_path):
    """And all of their jobs count; another size of the pool plays the same shares of it."""
    where = Circumstances(hours=80)
    table = judged(workplace(tmp_path), where, map(rule, ("qos", "fcfs")), 5, case="here")
    assert dict(table.schema) == COLUMNS
    assert table.group_by("arm", "metric").len()["len"].to_list() == [5] * 2 * len(METRICS)
    first, large = (games_of(replace(where, units=units), 5).sets for units in (10, 300))
    shares = [one.size[one.there].max(axis=0) / one.capacity for one in (first, large)]
    assert shares[0] == pytest.approx(shares[1], abs=0.1)


@pytest.mark.parametrize("units", [10, 1200])
def test_streams_do_not_run_out_of_jobs(units):
    streams = games_of(Circumstances(hours=500, units=units), 3).sets
    assert (np.where(streams.there, streams.enter, -1).max(axis=1) >= 500).all()


def test_the_threshold_is_the_best_on_tuning_streams(tmp_path):
    where, place = Circumstances(hours=150), workplace(tmp_path)
    best = threshold_of(best_threshold(place, where, 4))
    rules = map(rule, {best, threshold_of(0.0), threshold_of(0.5)})
    table = judged(place, where, rules, 4, named=TUNING).filter(metric="value")
    means = dict(table.group_by("arm").agg(pl.mean("value")).iter_rows())
    assert means[best] == max(means.values())


def test_agents_are_an_arm_by_their_likeliest_and_one_by_drawn_actions(tmp_path):
    size, place = replace(QUICK, share=0.01, games=2, held_out=2, hours=40), workplace(tmp_path)
    trainings = [free(place, size, seed) for seed in (0, 1)]
    train(place, trainings)
    table = judged(place, size.at(LATE_LEAVE), agents(trainings), 3)
    played = table.select("arm", "seed").unique(maintain_order=True).rows()
    assert played == [("ppo", 0), ("ppo", 1), ("ppo, drawn", 0), ("ppo, drawn", 1)]
    values = table.filter(metric="value").pivot("arm", index=["seed", "item"], values="value")
    assert not values["ppo"].equals(values["ppo, drawn"].alias("ppo"))
    assert judged(place, size.at(LATE_LEAVE), agents(trainings), 3).equals(table)
