"""The threshold rule of equal cost, beside which each agent is compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.learners.studies.green.judge import THRESHOLDS, threshold_of
from simkit.learners.studies.results import COLUMNS, Results

__all__ = ["EqualCost", "at_equal_cost", "equal_cost_rows", "equal_to"]


@dataclass(frozen=True)
class EqualCost:
    """The threshold rule of a cost: between two of them, or the cheapest or the dearest one."""

    below: float
    """θ of the cheaper one."""
    above: float
    """θ of the dearer one."""
    share: float
    """Weight of the dearer one."""

    def __str__(self) -> str:
        if self.below != self.above:
            return f"{self.below:.2f} to {self.above:.2f}"
        return f"{self.below:.2f}, the {'dearest' if self.share else 'cheapest'}"


def equal_to(arm: str) -> str:
    """Return the arm that is the threshold rule of the same cost as an agent, seed by seed."""
    return f"threshold rule that costs as {arm}"


def at_equal_cost(results: Results, case: str, cost: float) -> EqualCost:
    """Return the threshold rule of a cost: between the two whose mean costs enclose it.

    Args:
        results: hold all threshold rules.
        case: where.
        cost: waiting jobs, mean over the hours.
    """
    costs = {theta: results.mean("cost", threshold_of(theta), case) for theta in THRESHOLDS}
    order = sorted(costs, key=costs.__getitem__)
    cheapest, dearest = order[0], order[-1]
    if cost < costs[cheapest]:
        return EqualCost(cheapest, cheapest, 0.0)
    if cost > costs[dearest]:
        return EqualCost(dearest, dearest, 1.0)
    after = max(int(np.searchsorted([costs[theta] for theta in order], cost)), 1)
    below, above = order[after - 1], order[after]
    width = costs[above] - costs[below]
    return EqualCost(below, above, (cost - costs[below]) / width if width > 0 else 0.0)


def equal_cost_rows(results: Results, case: str) -> pl.DataFrame:
    """Return the value of the threshold rule of equal cost for each agent, as a long table.

    It is interpolated item by item, linearly in the mean cost. Beyond the cheapest or the dearest
    rule it is that rule itself.
    """
    tables = []
    for arm in results.arms("cost", case):
        seeds = results.rows.filter(arm=arm, case=case)["seed"].drop_nulls().unique().sort()
        for place, seed in enumerate(seeds):
            rule = at_equal_cost(results, case, results.mean("cost", arm, case, seed=place))
            below, items = results.values("value", threshold_of(rule.below), case)
            above, _ = results.values("value", threshold_of(rule.above), case)
            value = (1.0 - rule.share) * below[0] + rule.share * above[0]
            tables.append(
                pl.DataFrame({
                    "arm": equal_to(arm), "seed": seed, "case": case, "item": items,
                    "metric": "value", "value": value,
                }, schema=COLUMNS)
            )  # fmt: skip
    return pl.concat(tables)
