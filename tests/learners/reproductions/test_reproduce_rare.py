"""The reproduction of RARE: who is judged on what, its rules, gaps and claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from trainings import workplace

from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.judge import (
    TUNING,
    Gap,
    best_threshold,
    games_of,
    gap,
    judged,
    mean,
    rule,
    threshold_of,
)
from simkit.learners.reproductions.green.rare.claims import claims, within_12_h
from simkit.learners.reproductions.green.rare.page import meets


def test_all_are_judged_on_the_same_streams(tmp_path):
    """And all of their jobs count; another size of the pool plays the same shares of it."""
    where = Circumstances(hours=80)
    table = judged(workplace(tmp_path), where, map(rule, ("qos", "fcfs")), 5)
    assert table.group_by("candidate").len()["len"].to_list() == [5, 5]
    first, second = (games_of(where, 5).sets for _ in range(2))
    np.testing.assert_array_equal(first.enter, second.enter)
    large = games_of(replace(where, units=300), 5).sets
    shares = [
        streams.size[streams.there].max(axis=0) / streams.capacity for streams in (first, large)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=0.1)


def test_streams_do_not_run_out_of_jobs():
    for units in (10, 1200):
        streams = games_of(Circumstances(hours=500, units=units), 3).sets
        last = np.where(streams.there, streams.enter, -1).max(axis=1)
        assert (last >= 500).all()


def test_the_threshold_is_the_best_on_tuning_streams(tmp_path):
    where, place = Circumstances(hours=150), workplace(tmp_path)
    theta = best_threshold(place, where, 4)
    values = {}
    for each in (theta, 0.0, 0.5):
        table = judged(place, where, [rule(threshold_of(each))], 4, named=TUNING)
        values[each] = mean(table, threshold_of(each))
    assert values[theta] == max(values.values())


def test_gaps_and_bars():
    table = pl.DataFrame({
        "candidate": ["a"] * 8 + ["b"] * 8, "stream": [*range(8)] * 2,
        "value": [0.5 + 0.01 * n for n in range(8)] + [0.46 + 0.011 * n for n in range(8)],
    })  # fmt: skip
    found = gap(table, "a", "b")
    assert found.value == pytest.approx(3.65)
    assert found.low < found.value < found.high
    assert meets(Gap(3.1, 2.1, 4), Gap(0.2, 0.1, 0.4))
    assert not meets(Gap(2.9, 2.1, 4), Gap(0.2, 0.1, 0.4))
    assert not meets(Gap(3.1, 1.9, 4), Gap(0.2, 0.1, 0.4))
    assert not meets(Gap(3.1, 2.1, 4), Gap(0.2, -0.1, 0.4))


def table_of(values: dict[str, float]) -> pl.DataFrame:
    rows = [
        {"candidate": name, "stream": stream, "value": value + 0.001 * (stream - 2.5)}
        for name, value in values.items()
        for stream in range(6)
    ]
    return pl.DataFrame(rows)


@pytest.mark.parametrize(("agent", "confirmed"), [(0.62, 4), (0.53, 2), (0.49, 0)])
def test_each_claim_is_held_to_the_heuristics_that_it_names(agent, confirmed):
    """18 % over all, 2 % over QoS and SJF, better than all, and 9 % over all."""
    values = {"fcfs": 0.5, "sjf": 0.5, "qos": 0.51, "value": 0.5, "fit0": 0.5, "fit12": 0.5}
    near = {within_12_h(name): value for name, value in values.items()}
    table = table_of({**values, **near, "printed-full-seed0": agent})
    found = list(claims(dict.fromkeys((10, 20, 50, 100, 300, 1200), table),
                        dict.fromkeys(("full", "90", "80"), table),
                        dict.fromkeys((5, 15, 25), table)))  # fmt: skip
    verdicts = [claim.verdict for claim in found]
    assert verdicts.count("confirmed") == confirmed
    assert verdicts.count("not tested") == 10
    percent = 100 * (agent / 0.51 - 1)
    assert found[1].ours == found[1].within_12_h == f"{percent:+.1f} %"
