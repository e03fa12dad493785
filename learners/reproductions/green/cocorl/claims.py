"""The dissertation's claims about CoCoRL, each compared with our result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.learners.reproductions.green.cocorl.equal_cost import ratio
from simkit.learners.reproductions.green.cocorl.runs import LOADS, RULES, SHARES, Results
from simkit.learners.reproductions.green.judge import Gap, gap, mean

__all__ = [
    "CONFIRMED",
    "NOT_CONFIRMED",
    "NOT_TESTED",
    "SMALLER",
    "Claim",
    "claims",
    "percent",
    "points",
    "verdict",
]

CONFIRMED: Final = "confirmed"
SMALLER: Final = "not confirmed: smaller"
NOT_CONFIRMED: Final = "not confirmed"
NOT_TESTED: Final = "not tested"
PAR: Final = -0.5
"""Points: a candidate whose lower bound is above this is at par or better."""

_VALUE: Final = {20: (7, 24), 40: (8, 30), 60: (4, 26), 80: (4, 21), 100: (4, 20), 120: (4, 20)}
"""Figure 6.4: percent above the best and the worst rule, by load."""
_UTILISATION: Final = {20: "4", 40: "4", 60: "4", 80: "4–6", 100: "4–6", 120: "4–6"}
"""Figure 6.6, in percent; the lower number is required."""
_COST: Final = {20: 1, 40: 10, 60: 20, 80: 2, 100: 2, 120: 2}
"""Figure 6.7: the cost of SJF over that of CoCoRL."""
_COMPLETED: Final = {"qos": 8, "sjf": 8, "fcfs": 40, "value": 40}
"""Figure 6.5: percent above a rule, at 120 %."""

_GOALS: Final = ("value", "utilisation", "completed")
"""Columns of figure 6.8."""


@dataclass(frozen=True)
class Claim:
    """A claim and our result."""

    figure: str
    words: str
    published: str
    ours: str
    """Result of the agent with half of the cost, which stands for CoCoRL."""
    verdict: str
    free: str = ""
    """Result of the agent without a limit."""

    @property
    def row(self) -> Sequence[str]:
        """The cells of a table."""
        return (self.figure, self.words, self.published, self.ours, self.verdict, self.free)


def verdict(value: float, low: float, published: float, nothing: float = 0.0) -> str:
    """Return whether a number confirms a published one.

    Args:
        value: our number; more is better.
        low: the lower bound of its interval, infinite without one.
        published: the lowest number claimed.
        nothing: the number if there is no effect.
    """
    if not np.isfinite(low) or low <= nothing:
        return NOT_CONFIRMED
    return CONFIRMED if value >= published else SMALLER


def claims(results: Results) -> list[Claim]:
    """Return the checklist, in the order of the figures."""
    return [
        *_over_rules(results, "6.4", "value", {at: low for at, (low, _) in _VALUE.items()},
                     {at: f"{low}–{high} %" for at, (low, high) in _VALUE.items()}),
        *_completed(results),
        *_over_rules(results, "6.6", "utilisation", dict.fromkeys(LOADS, 4),
                     {at: f"{published} %" for at, published in _UTILISATION.items()}),
        *_cost(results),
        *_at_par(results),
        *_on_logs(),
        *_gains(results),
        _limits(results),
    ]  # fmt: skip


def _pair(results: Results) -> tuple[str, str]:
    """Return the agent with half of the cost, which stands for CoCoRL, and the unlimited one."""
    return results.plan.half[0].name, results.plan.free[0].name


def _over_rules(
    results: Results, figure: str, column: str, required: Mapping[int, int],
    published: Mapping[int, str],
) -> Iterator[Claim]:  # fmt: skip
    """Yield by how much the agents exceed the best rule in a column, load by load."""
    for load in LOADS:
        table = results.at(load)
        best = _ranked_rules(table, column)[-1]
        found = ratio(table, results.plan.half[0].name, best, column).gain
        ours, free = (_above_rules(table, agent, column) for agent in _pair(results))
        yield Claim(
            figure, f"{column} above the rules, {load} %", published[load], ours,
            verdict(found.value, found.low, required[load]), free,
        )  # fmt: skip


def _ranked_rules(table: pl.DataFrame, column: str) -> list[str]:
    """Return the rules by their means in a column, the highest last."""
    return sorted(RULES, key=lambda name: mean(table, name, column))


def _above_rules(table: pl.DataFrame, agent: str, column: str) -> str:
    lowest, *_, highest = _ranked_rules(table, column)
    worst, best = (ratio(table, agent, name, column).gain for name in (lowest, highest))
    return f"{percent(best)} over {RULES[highest]}, {worst.value:+.1f} % over {RULES[lowest]}"


def _completed(results: Results) -> Iterator[Claim]:
    """Yield how many more jobs are completed, in points and in percent."""
    mine, free = _pair(results)
    for load in (80, 100):
        table = results.at(load)
        above = gap(table, mine, "qos", "completed")
        yield Claim(
            "6.5", f"more jobs completed than QoS, {load} %", "77 % against 73 %",
            _against_qos(table, mine), verdict(above.value, above.low, 4.0),
            _against_qos(table, free),
        )  # fmt: skip
    table = results.at(120)
    for rule, published in _COMPLETED.items():
        ours, other = (ratio(table, agent, rule, "completed").gain for agent in (mine, free))
        yield Claim(
            "6.5", f"more jobs completed than {RULES[rule]}, 120 %", f"{published} %",
            percent(ours), verdict(ours.value, ours.low, published), percent(other),
        )  # fmt: skip


def _against_qos(table: pl.DataFrame, agent: str) -> str:
    share, qos = mean(table, agent, "completed"), mean(table, "qos", "completed")
    above = gap(table, agent, "qos", "completed")
    return f"{100 * share:.1f} % against {100 * qos:.1f} %: {points(above)} points"


def _cost(results: Results) -> Iterator[Claim]:
    """Yield the cost of SJF over that of CoCoRL; at one load they are claimed to be equal."""
    for load, published in _COST.items():
        ours, free = (ratio(results.at(load), "sjf", one, "cost") for one in _pair(results))
        met = verdict(ours.value, ours.low, published, 1.0)
        if published == 1:
            met = CONFIRMED if ours.value >= 1.0 else NOT_CONFIRMED
        yield Claim("6.7", f"cost of SJF over that of CoCoRL, {load} %", f"{published}×",
                    str(ours), met, str(free))  # fmt: skip


def _at_par(results: Results) -> Iterator[Claim]:
    """Yield figure 6.8 at 100 %: at par with QoS or better in three columns at once."""
    table = results.at(100)
    gaps = {
        name: {column: gap(table, name, "qos", column) for column in _GOALS}
        for name in (*RULES, *_pair(results))
    }
    met = {name for name in gaps if all(above.low > PAR for above in gaps[name].values())}
    mine, free = _pair(results)
    ours, unlimited = (
        ", ".join(f"{column} {above.value:+.1f}" for column, above in gaps[name].items())
        for name in (mine, free)
    )
    yield Claim(
        "6.8", "at par with QoS or better in value, utilisation and jobs completed, 100 %", "yes",
        f"{ours} points", CONFIRMED if mine in met else NOT_CONFIRMED, f"{unlimited} points",
    )  # fmt: skip
    others = [RULES[name] for name in RULES if name != "qos" and name in met]
    yield Claim(
        "6.8", "rules other than QoS that are, 100 %", "none", ", ".join(others) or "none",
        NOT_CONFIRMED if others else CONFIRMED,
    )  # fmt: skip


def _on_logs() -> Iterator[Claim]:
    """Yield the claims about logs, which are not tested."""
    for figure, words, published in (
        ("6.9", "value above the rules, ANL, 20–120 %", "15–23, 6–22, 7–22, 4–17, 3–10 %"),
        ("6.9", "more jobs completed, ANL, 20 and 40 %", "13–21 %, 8–10 %"),
        ("6.9", "utilisation, ANL", "2–20 %"),
        ("6.9", "cost of the rules over that of CoCoRL, ANL", "5–10×"),
        ("6.10", "value above the rules, other logs", "better"),
        ("6.11", "cost, other logs", "lower"),
    ):
        yield Claim(figure, words, published, "", NOT_TESTED)


def _gains(results: Results) -> Iterator[Claim]:
    """Yield figure 6.12a: with an integral gain of 1 the cost is lower than with 0.01."""
    plan, table = results.plan, results.judged
    found = [
        ratio(table, slow.name, half.name, "cost")
        for slow, half in zip(plan.slow, plan.half, strict=True)
    ]
    above = all(one.low > 1.0 for one in found)
    yield Claim("6.12", "integral gain 0.01: cost over that with 1, ANL", "above 1", "", NOT_TESTED)
    yield Claim(
        "6.12", "the same, on these jobs, 120 %", "above 1",
        "; ".join(map(str, found)), CONFIRMED if above else NOT_CONFIRMED,
    )  # fmt: skip


def _limits(results: Results) -> Claim:
    tight, *_, wide = (task.name for task in results.plan.others)
    above = gap(results.judged, wide, tight)
    low, high = (f"{100 * share:.0f} %" for share in (SHARES[0], SHARES[-1]))
    return Claim(
        "6.12", f"value with a limit of {high} less that with {low}, on these jobs, 120 %",
        "may be higher",
        f"{points(above)} points", CONFIRMED if above.low > 0.0 else NOT_CONFIRMED,
    )  # fmt: skip


def percent(found: Gap) -> str:
    """Return a difference in percent, and its interval if there is one."""
    if not np.isfinite(found.low):
        return f"{found.value:+.1f} %"
    return f"{found.value:+.1f} % ({found.low:+.1f} to {found.high:+.1f})"


def points(found: Gap) -> str:
    """Return a difference in points, and its interval if there is one."""
    if not np.isfinite(found.low):
        return f"{found.value:+.2f}"
    return str(found)
