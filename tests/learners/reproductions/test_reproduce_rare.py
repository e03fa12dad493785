"""The reproduction of RARE: who is judged on what, its rules, gaps and claims."""

from __future__ import annotations

import polars as pl
import pytest

from simkit.learners.reproductions.green.judge import Gap, gap
from simkit.learners.reproductions.green.rare.claims import claims, within_12_h
from simkit.learners.reproductions.green.rare.page import meets


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
