"""The dissertation's claims about RARE, and our results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from simkit.learners.reproductions.green.circumstances import Power
from simkit.learners.reproductions.green.judge import gap, mean

__all__ = ["ORDERS", "Claim", "claims", "names_of", "within_12_h"]

ORDERS: Final[Mapping[str, str]] = {
    "fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF",
}  # fmt: skip
"""The dissertation's heuristics → their labels there; HVF: the highest value first."""
_UNTESTED: Final = (
    ("5.1", "sizes between 20 and 50 units: 2 to 20 % over the heuristics"),
    ("5.3", "ANL Intrepid on GLEAMM's power, 10 units: like QoS, 5 to 10 % over the others"),
    ("5.3", "the same, 20 and 30 units: 7 to 14 % over the heuristics"),
    ("5.4", "less power, 50 units: 8 to 12 % over the heuristics"),
    ("5.4", "less power, 300 units: 1 % over QoS, 5 to 20 % over the others"),
    ("5.5", "planning horizons of 36 to 72 h: 4 to 14 % over SJF"),
    ("5.5", "the same, ANL: 6 to 10 % over SJF"),
)
_UNTESTED_POOLS: Final = (
    ("5.6", "a ready pool of 15: 18 % over SJF", 15),
    ("5.6", "a ready pool of 25 or more: 4 to 7 % over SJF", 25),
    ("5.6", "ANL, ready pools of 5, and of 15 or more: 10 %, and 7 %", None),
)


@dataclass(frozen=True)
class Claim:
    """A claim and our result, in percent of the best heuristic that it names."""

    figure: str
    words: str
    ours: str = ""
    within_12_h: str = ""
    """The same relative to heuristics that plan as far ahead as the agent."""
    verdict: str = "not tested"

    @property
    def row(self) -> Sequence[str]:
        """The cells of a table."""
        return (self.figure, self.words, self.ours, self.within_12_h, self.verdict)


def within_12_h(order: str) -> str:
    """Return the name of a heuristic whose jobs start within 12 hours of their decision."""
    return f"{order}, within 12 h"


def names_of(table: pl.DataFrame, kind: str, *, drawn: bool) -> list[str]:
    """Return the names of the agents of a kind, seed by seed."""
    found = table["candidate"].unique(maintain_order=True)
    return [
        name
        for name in found
        if name.startswith(f"{kind}-seed") and name.endswith(", drawn") == drawn
    ]


def claims(
    by_size: Mapping[int, pl.DataFrame],
    by_power: Mapping[Power, pl.DataFrame],
    by_pool: Mapping[int, pl.DataFrame],
) -> Iterator[Claim]:
    """Yield the checklist; the arguments are the results as printed, see `page.Results`."""
    everyone = tuple(ORDERS)
    small, large = ([by_size[units] for units in some] for some in ((10, 20), (100, 300, 1200)))
    yield _tested("5.1", "10 and 20 units: 18 to 25 % over the heuristics", small, everyone, 18.0)
    yield _tested("5.1", "50 units: 2 to 6 % over QoS and SJF", [by_size[50]], ("qos", "sjf"), 2.0)
    words = "100, 300 and 1,200 units: better than the heuristics"
    yield _tested("5.2", words, large, everyone, 0.0)
    words = "100, 90 and 80 % of the power, 10 units: 9 to 13 % over the heuristics"
    yield _tested("5.4", words, list(by_power.values()), everyone, 9.0)
    yield from (Claim(*one) for one in _UNTESTED)
    for figure, words, ready in _UNTESTED_POOLS:
        yield Claim(figure, words, *(() if ready is None else _packing_rules(by_pool[ready])))


def _tested(
    figure: str, words: str, tables: Sequence[pl.DataFrame], rules: Sequence[str], least: float
) -> Claim:
    """Return a claim, confirmed if the agent is everywhere surely better, by `least` percent."""
    near = [within_12_h(order) for order in rules]
    agents = [names_of(table, "printed-full", drawn=False)[0] for table in tables]
    pairs = list(zip(tables, agents, strict=True))
    good = all(
        _percent(table, agent, rules) >= least
        and all(gap(table, agent, order).low > 0 for order in rules)
        for table, agent in pairs
    )
    ours, ours_near = (
        ", ".join(f"{_percent(table, agent, some):+.1f} %" for table, agent in pairs)
        for some in (rules, near)
    )
    return Claim(figure, words, ours, ours_near, "confirmed" if good else "not confirmed")


def _packing_rules(table: pl.DataFrame) -> tuple[str, str]:
    """Return the gain of the least-left-over rules, as no agent was trained there."""
    ours, near = (
        ", ".join(f"{fit} {_percent(table, fit, [sjf]):+.1f} %" for fit in ("fit0", "fit12"))
        for sjf in ("sjf", within_12_h("sjf"))
    )
    return f"no agent; {ours}", near


def _percent(table: pl.DataFrame, name: str, others: Sequence[str]) -> float:
    """Return by how many percent a candidate is above the best of some others."""
    return 100 * (mean(table, name) / max(mean(table, each) for each in others) - 1)
