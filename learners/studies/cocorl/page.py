"""What the page of the study of CoCoRL calls by name: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate
from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.cocorl.trainings import HALF, SHARES
from simkit.learners.studies.green.judge import HEURISTICS, THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.pictures import Figure, empty_figure, line, panel, picture
from simkit.learners.studies.results import COLUMNS, Results

LOADS: Final = ("20", "40", "60", "80", "100", "120")
"""Loads of figures 6.4 to 6.8, in percent: the cases."""
TRAINED: Final = LOADS[-1]
"""The load at which agents are trained."""
AT_LOAD: Final = "seed=0"
"""The agents that are judged at all loads."""
THRESHOLD_RULES: Final = tuple(map(threshold_of, THRESHOLDS))
FRONTIER: Final[Mapping[str, str]] = {
    "ppo": "no limit", "half-of-ppo": "50 %",
    **{f"limit-{100 * share:.0f}": f"{100 * share:.0f} %" for share in SHARES},
}  # fmt: skip
"""Arm of agents that the frontier has → their limit."""
AGENTS: Final[Mapping[str, str]] = {
    **FRONTIER, "half-of-ppo-slow": "50 %, integral gain 0.01",
    "ppo-reject": "no limit, may reject", "half-of-ppo-reject": "50 %, may reject",
}  # fmt: skip
PAR: Final = -0.005
"""A lower bound above this is at par or better: of agents beside QoS or the rule of equal cost."""
PANELS: Final[Mapping[str, str]] = {
    "value": "value ratio, %", "completed": "jobs completed, %", "utilisation": "utilisation, %",
    "cost": "waiting jobs",
}  # fmt: skip
"""Metric → label, in the order of figures 6.4 to 6.7."""
ACTIONS: Final[Mapping[str, Callable[[str], str]]] = {"likeliest": str, "drawn": drawn}
COMPARED: Final[Mapping[str, str]] = {
    **HEURISTICS, "ppo": "without a limit", "half-of-ppo": "half of its cost",
    drawn("ppo"): "without a limit, drawn", drawn("half-of-ppo"): "half of its cost, drawn",
}  # fmt: skip
"""Arm → label, of those that are compared at all loads."""

# --- the threshold rule of equal cost -------------------------------------------------------------


def equal_to(arm: str) -> str:
    """Return the arm that is the threshold rule of the same cost as an agent, seed by seed."""
    return f"threshold rule that costs as {arm}"


def at_equal_cost(results: Results, cost: float) -> tuple[float, float, float]:
    """Return the two θ whose mean costs enclose a cost, and the weight of the dearer one.

    Beyond the cheapest or the dearest rule both are that rule, with a weight of 0 or 1.

    Args:
        results: hold all threshold rules.
        cost: waiting jobs, mean over the hours.
    """
    costs = {theta: results.mean("cost", threshold_of(theta), TRAINED) for theta in THRESHOLDS}
    order = sorted(costs, key=costs.__getitem__)
    if cost < costs[order[0]]:
        return order[0], order[0], 0.0
    if cost > costs[order[-1]]:
        return order[-1], order[-1], 1.0
    after = max(int(np.searchsorted([costs[theta] for theta in order], cost)), 1)
    below, above = order[after - 1], order[after]
    width = costs[above] - costs[below]
    return below, above, (cost - costs[below]) / width if width > 0 else 0.0


def equal_cost_rows(results: Results) -> pl.DataFrame:
    """Return the value of the threshold rule of equal cost for each agent, as a long table.

    It is interpolated item by item, linearly in the mean cost.
    """
    tables, case = [], TRAINED
    agents = results.rows.filter(case=case).drop_nulls("seed").select("arm", "seed")
    for arm, seed in agents.unique(maintain_order=True).iter_rows():
        cost = results.mean("cost", arm, case, seed=seed)
        below, above, share = at_equal_cost(results, cost)
        cheap, items = results.values("value", threshold_of(below), case)
        dear, _ = results.values("value", threshold_of(above), case)
        value = (1.0 - share) * cheap[0] + share * dear[0]
        row = {"arm": equal_to(arm), "seed": seed, "case": case, "item": items, "metric": "value"}
        tables.append(pl.DataFrame({**row, "value": value}, schema=COLUMNS))
    return pl.concat(tables)


# --- numbers and verdicts -------------------------------------------------------------------------


def _over_equal(results: Results, arms: Iterable[str]) -> list[Estimate]:
    """Return the value of each training less that of the threshold rule of equal cost."""
    return [
        results.ask(f"value | {arm} | {TRAINED} | less={equal_to(arm)} | seed={seed}")
        for arm in arms
        for seed in results.seeds("value", arm, TRAINED)
    ]


def bar_met(results: Results, actions: str) -> str:
    """Return how many trainings with half of the cost meet the bar: ``2 of 3``.

    They cost at most half of the free agent that acts alike, and are at par with the rule of equal
    cost.
    """
    arm, free = map(ACTIONS[actions], ("half-of-ppo", "ppo"))
    gaps = _over_equal(results, [arm])
    costs = [
        results.ask(f"cost | {arm} | {TRAINED} | over={free} | seed={seed}").value
        for seed in range(len(gaps))
    ]
    met = [cost <= HALF and gap.surely(PAR) for cost, gap in zip(costs, gaps, strict=True)]
    return f"{sum(met)} of {len(met)}"


def surely_above(results: Results) -> int:
    """Return how many agents are surely above the line of threshold rules."""
    return sum(gap.surely(0.0) for gap in _over_equal(results, FRONTIER))


def surely_below(results: Results) -> int:
    """Return how many agents are surely below it."""
    return sum(gap.surely_below(0.0) for gap in _over_equal(results, FRONTIER))


def at_par(results: Results, arm: str) -> bool:
    """Return whether an arm is at par with QoS or better in three metrics at once, at 100 %."""
    return all(
        results.ask(f"{metric} | {arm} | 100 | less=qos | {AT_LOAD}").surely(PAR)
        for metric in ("value", "utilisation", "completed")
    )


def rules_at_par(results: Results) -> str:
    """Return the rules other than QoS that are at par with it."""
    found = [HEURISTICS[rule] for rule in HEURISTICS if rule != "qos" and at_par(results, rule)]
    return ", ".join(found) or "none"


def no_rule_at_par(results: Results) -> bool:
    """Return whether there is none."""
    return rules_at_par(results) == "none"


# --- rows -----------------------------------------------------------------------------------------


def every_agent(results: Results) -> Iterator[dict[str, str]]:
    """Yield what the row of each training names, with likeliest and with drawn actions."""
    trainings = [(arm, seed) for arm in AGENTS for seed in results.seeds("value", arm, TRAINED)]
    for arm, seed in trainings:
        known = results.facts["limits"].get(f"{arm}-seed{seed}", {})
        for actions, act in ACTIONS.items():
            yield {
                "arm": act(arm), "seed": f"seed={seed}", "free": act("ppo"),
                "label": f"{AGENTS[arm]}; seed {seed}, {actions}",
                **{when: format(known[when], form).replace("%", " %") if when in known else ""
                   for when, form in (("limit", ".2f"), ("above", ".0%"), ("late", ".0%"))},
            }  # fmt: skip


def theta_of(results: Results, arm: str, seed: str) -> str:
    """Return the θ of the threshold rule that costs as much as a training's agent: ``seed=N``."""
    cost = results.ask(f"cost | {arm} | {TRAINED} | {seed}").value
    below, above, share = at_equal_cost(results, cost)
    if below != above:
        return f"{below:.2f} to {above:.2f}"
    return f"{below:.2f}, the {'dearest' if share else 'cheapest'}"


# --- pictures -------------------------------------------------------------------------------------

_OTHERS: Final = tuple(FRONTIER)[2:]
_KINDS: Final[Mapping[str, Sequence[str]]] = {
    "without a limit": ["ppo"], "limit 50 %": ["half-of-ppo"], "other limits, by share": _OTHERS,
    "with reject": ["ppo-reject", "half-of-ppo-reject"],
    "limit 50 %, small integral gain": ["half-of-ppo-slow"],
}  # fmt: skip


def draw_frontier(results: Results) -> Figure:
    """Draw value against cost of rules and agents; empty circles draw their actions."""
    figure = empty_figure(8.0, 4.4)
    axes, ink = figure.subplots(), COLOURS[5]

    def note(text: str, at: tuple[float, float], by: tuple[int, int], size: float = 7.5,
             **told: Any) -> None:  # fmt: skip
        axes.annotate(text, at, by, textcoords="offset points", fontsize=size, **told)

    costs, values = _points(results, THRESHOLD_RULES)
    axes.plot(costs, values, color=ink, marker=".", linewidth=1.0, label="threshold rules")
    for theta, *at in zip(THRESHOLDS, costs, values, strict=True):
        if theta > 0 and round(20 * theta) % 2 == 0:
            note(f"{theta:.1f}", (at[0], at[1]), (0, -11), color=ink, ha="center")
    for arm, right, side in (("fcfs", 6, "left"), ("sjf", -6, "right"), ("value", 6, "left")):
        at = [found[0] for found in _points(results, [arm])]
        axes.plot(*at, color=ink, marker="x", linestyle="")
        note(HEURISTICS[arm], (at[0], at[1]), (right, -3), 8, ha=side)
    for colour, (label, arms) in zip(COLOURS, _KINDS.items(), strict=False):
        axes.plot(*_points(results, arms), color=colour, marker="o", linestyle="", label=label)
        axes.plot(*_points(results, [drawn(arm) for arm in arms]), color=colour, marker="o",
                  markerfacecolor="none", linestyle="")  # fmt: skip
    for arm in _OTHERS:
        at = [found[0] for found in _points(results, [arm])]
        note(FRONTIER[arm], (at[0], at[1]), (5, 4), color=COLOURS[2])
    axes.set(xlabel="cost: waiting jobs, mean over the hours", ylabel="value ratio")
    axes.legend(fontsize=8)
    return figure


def _points(results: Results, arms: Iterable[str]) -> tuple[list[float], list[float]]:
    """Return costs and values of each training of some arms."""
    costs, values = (
        [float(one) for arm in arms for one in results.values(metric, arm, TRAINED)[0].mean(axis=1)]
        for metric in ("cost", "value")
    )
    return costs, values


draw_loads: Final = picture(
    *(panel(
        *(line(f"{metric} | {arm} | [x] | {AT_LOAD}", color=COLOURS[number], label=label,
               marker=".", linewidth=1.0 if arm in HEURISTICS else 1.8)
          for number, (arm, label) in zip((5, 4, 2, 3, 0, 1), COMPARED.items(), strict=False)),
        xlabel="load, %", ylabel=words.removesuffix(", %"), xticks=[int(load) for load in LOADS],
        log=[0.01, 0.03, 0.1, 0.3, 1, 3] if metric == "cost" else [],
        legend={"fontsize": 8} if metric == "value" else None,
    ) for metric, words in PANELS.items()),
    height=6.0, rows=2,
)  # fmt: skip
"""Each metric over the load."""
