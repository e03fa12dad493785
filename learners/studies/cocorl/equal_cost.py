"""The threshold rule of equal cost, beside which each agent is compared."""

from __future__ import annotations

import numpy as np
import polars as pl

from simkit.learners.studies.green.judge import THRESHOLDS, threshold_of
from simkit.learners.studies.results import COLUMNS, Results


def equal_to(arm: str) -> str:
    """Return the arm that is the threshold rule of the same cost as an agent, seed by seed."""
    return f"threshold rule that costs as {arm}"


def at_equal_cost(results: Results, case: str, cost: float) -> tuple[float, float, float]:
    """Return the two θ whose mean costs enclose a cost, and the weight of the dearer one.

    Beyond the cheapest or the dearest rule both are that rule, with a weight of 0 or 1.

    Args:
        results: hold all threshold rules.
        case: where.
        cost: waiting jobs, mean over the hours.
    """
    costs = {theta: results.mean("cost", threshold_of(theta), case) for theta in THRESHOLDS}
    order = sorted(costs, key=costs.__getitem__)
    if cost < costs[order[0]]:
        return order[0], order[0], 0.0
    if cost > costs[order[-1]]:
        return order[-1], order[-1], 1.0
    after = max(int(np.searchsorted([costs[theta] for theta in order], cost)), 1)
    below, above = order[after - 1], order[after]
    width = costs[above] - costs[below]
    return below, above, (cost - costs[below]) / width if width > 0 else 0.0


def theta_words(below: float, above: float, share: float) -> str:
    """Return what `at_equal_cost` found as text: ``0.10 to 0.15``."""
    if below != above:
        return f"{below:.2f} to {above:.2f}"
    return f"{below:.2f}, the {'dearest' if share else 'cheapest'}"


def equal_cost_rows(results: Results, case: str) -> pl.DataFrame:
    """Return the value of the threshold rule of equal cost for each agent, as a long table.

    It is interpolated item by item, linearly in the mean cost.
    """
    tables = []
    agents = results.rows.filter(case=case).drop_nulls("seed").select("arm", "seed")
    for arm, seed in agents.unique(maintain_order=True).iter_rows():
        cost = results.mean("cost", arm, case, seed=seed)
        below, above, share = at_equal_cost(results, case, cost)
        cheap, items = results.values("value", threshold_of(below), case)
        dear, _ = results.values("value", threshold_of(above), case)
        value = (1.0 - share) * cheap[0] + share * dear[0]
        row = {"arm": equal_to(arm), "seed": seed, "case": case, "item": items, "metric": "value"}
        tables.append(pl.DataFrame({**row, "value": value}, schema=COLUMNS))
    return pl.concat(tables)
