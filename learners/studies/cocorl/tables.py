"""The tables and verdicts of the study of CoCoRL: cost and value, beside rules of equal cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate
from simkit.learners.studies.cocorl.trainings import HALF, SHARES
from simkit.learners.studies.green.judge import HEURISTICS, THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.page import Rows, grid, told
from simkit.learners.studies.results import COLUMNS, Results

LOADS: Final = ("20", "40", "60", "80", "100", "120")
"""Loads of figures 6.4 to 6.8, in percent: the cases."""
TRAINED: Final = LOADS[-1]
"""The load at which agents are trained."""
AT_LOAD: Final = "seed=0"
"""The agents that are judged at all loads."""
THRESHOLD_RULES: Final = {threshold_of(theta): f"θ {theta:.2f}" for theta in THRESHOLDS}
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


def theta_words(below: float, above: float, share: float) -> str:
    """Return what `at_equal_cost` found as text: ``0.10 to 0.15``."""
    if below != above:
        return f"{below:.2f} to {above:.2f}"
    return f"{below:.2f}, the {'dearest' if share else 'cheapest'}"


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


def keys_of(results: Results, arms: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return the key of each training of some arms, ``ARM | CASE | seed=N`` → arm and seed."""
    return {
        f"{arm} | {TRAINED} | seed={seed}": (arm, seed)
        for arm in arms
        for seed in range(len(results.values("cost", arm, TRAINED)[0]))
    }


def _over_free(key: str) -> str:
    """Return the question for a cost beside that of the free agents that act in the same way."""
    return f"cost | {key} | over={drawn('ppo') if drawn('') in key else 'ppo'}"


def _over_equal(key: str) -> str:
    """Return the question for a value less that of the threshold rule of equal cost."""
    return f"value | {key} | less={equal_to(key.partition(' | ')[0])}"


def bar_met(results: Results, actions: str) -> str:
    """Return how many trainings with half of the cost meet the bar: ``2 of 3``.

    They cost at most half of the free agent, and are at par with the rule of equal cost.
    """
    mine = keys_of(results, [ACTIONS[actions]("half-of-ppo")])
    met = [
        results.ask(_over_free(key)).value <= HALF and results.ask(_over_equal(key)).surely(PAR)
        for key in mine
    ]
    return f"{sum(met)} of {len(met)}"


def _beside_equal(results: Results) -> list[Estimate]:
    return [results.ask(_over_equal(key)) for key in keys_of(results, FRONTIER)]


def surely_above(results: Results) -> int:
    """Return how many agents are surely above the line of threshold rules."""
    return sum(gap.surely(0.0) for gap in _beside_equal(results))


def surely_below(results: Results) -> int:
    """Return how many agents are surely below it."""
    return sum(gap.high is not None and gap.high < 0 for gap in _beside_equal(results))


def _best_rule(results: Results) -> str:
    return results.ranked("value", TRAINED, THRESHOLD_RULES)[-1]


def best_theta(results: Results) -> str:
    """Return the θ of the threshold rule of the highest value on the test streams."""
    return _best_rule(results).removeprefix("threshold ")


def best_theta_over_qos(results: Results) -> Any:
    """Return by how many points this rule is above QoS."""
    return results.ask(f"value | {_best_rule(results)} | {TRAINED} | less=qos | percent")


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


# --- tables ---------------------------------------------------------------------------------------


def _columns(results: Results) -> dict[str, str | Callable[[str], str]]:
    """Return the columns of agents, whose rows are keys; a rule has few of them."""

    def share(key: str) -> str:
        free = key.startswith(("ppo |", drawn("ppo"), "qos", "threshold"))
        return "" if free else told(results, f"{_over_free(key)} : .2f ±")

    def beside(key: str) -> str:
        rule = key.startswith(("qos", "threshold"))
        return "" if rule else told(results, f"{_over_equal(key)} | percent : +.2f ±")

    return {
        "waiting jobs": "cost | {} : .2f", "of the free agent's": share,
        "value ratio, %": "value | {} | percent : .2f",
        "beside the threshold rule of equal cost": beside,
    }  # fmt: skip


def outcome(results: Results) -> Rows:
    """Return limited and free agents, all trainings together, beside two rules."""
    labels = {
        f"{act(arm)} | {TRAINED}": f"{label}, {actions}"
        for arm, label in (("half-of-ppo", "half of the cost"), ("ppo", "without a limit"))
        for actions, act in ACTIONS.items()
    }
    best = _best_rule(results)
    labels |= {f"qos | {TRAINED}": "QoS", f"{best} | {TRAINED}": THRESHOLD_RULES[best]}
    more = {PANELS[name]: f"{name} | {{}} | percent : .2f" for name in ("completed", "utilisation")}
    return grid(results, list(labels), {**_columns(results), **more}, labels=labels)


def every_agent(results: Results) -> Rows:
    """Return each training, with likeliest and with drawn actions."""
    names = {
        act(arm) + key.removeprefix(arm): (arm, seed, actions)
        for key, (arm, seed) in keys_of(results, AGENTS).items()
        for actions, act in ACTIONS.items()
    }

    def theta(key: str) -> str:
        return theta_words(*at_equal_cost(results, results.ask(f"cost | {key}").value))

    def kept(key: str, what: str, form: str) -> str:
        arm, seed, _ = names[key]
        known = results.facts["limits"].get(f"{arm}-seed{seed}", {})
        return format(known[what], form).replace("%", " %") if what in known else ""

    columns = {
        **_columns(results), "its θ": theta,
        "limit, jobs": partial(kept, what="limit", form=".2f"),
        "iterations above it": partial(kept, what="above", form=".0%"),
        "in the second half": partial(kept, what="late", form=".0%"),
    }  # fmt: skip
    labels = {
        key: f"{AGENTS[arm]}; seed {seed}, {actions}" for key, (arm, seed, actions) in names.items()
    }
    return grid(results, list(names), columns, labels=labels, corner="limit")


def frontier(results: Results) -> Rows:
    """Return cost, value, jobs completed and utilisation of the rules."""
    labels = {**HEURISTICS, **THRESHOLD_RULES}
    asked = {head: f"{metric} | {{}} | {TRAINED}{' | percent' * (metric != 'cost')} : .2f"
             for metric, head in PANELS.items()}  # fmt: skip
    return grid(results, list(labels), asked, labels=labels)


def over_loads(results: Results, metric: str) -> Rows:
    """Return a metric at all loads, and agents less QoS."""
    form, less, scale = (".1f", "+.2f", " | percent") if metric != "cost" else (".3f", "+.3f", "")
    asked = {f"{load} %": f"{metric} | {{}} | {load} | {AT_LOAD}{scale}" for load in LOADS}
    rows = grid(
        results, list(COMPARED), {load: f"{one} : {form}" for load, one in asked.items()},
        labels=COMPARED, corner=PANELS[metric],
    )  # fmt: skip
    mine = {arm: f"{COMPARED[arm]}, less QoS" for arm in ("ppo", "half-of-ppo")}
    gaps = {load: f"{one} | less=qos : {less} ±" for load, one in asked.items()}
    return [*rows, *grid(results, list(mine), gaps, labels=mine)[1:]]


FUNCTIONS: Final = (
    bar_met, surely_above, surely_below, best_theta, best_theta_over_qos, at_par, rules_at_par,
    no_rule_at_par, outcome, every_agent, frontier, over_loads,
)  # fmt: skip
