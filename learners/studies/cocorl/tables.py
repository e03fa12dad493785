"""The tables of the study of CoCoRL: cost and value of agents and rules, and over the load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from simkit.learners.studies.cocorl.equal_cost import at_equal_cost, equal_to
from simkit.learners.studies.cocorl.trainings import HALF, SHARES
from simkit.learners.studies.green.judge import THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.page import Rows, grid, told
from simkit.learners.studies.results import Results

LOADS: Final = ("20", "40", "60", "80", "100", "120")
"""Loads of figures 6.4 to 6.8, in percent: the cases."""
TRAINED: Final = LOADS[-1]
"""The load at which agents are trained."""
AT_LOAD: Final = "seed=0"
"""The agents that are judged at all loads."""
RULES: Final[Mapping[str, str]] = {"fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF"}
"""The dissertation's rules: arm → its label there."""
LIMITS: Final[Mapping[str, str]] = {
    "ppo": "no limit", "half-of-ppo": "50 %",
    **{f"limit-{100 * share:.0f}": f"{100 * share:.0f} %" for share in SHARES},
}  # fmt: skip
"""Arm of agents that may not reject jobs → its limit."""
MARGIN: Final = -0.005
"""Least lower bound of a limited agent's value less that of the rule of equal cost."""
PANELS: Final[Mapping[str, str]] = {
    "value": "value ratio, %", "completed": "jobs completed, %", "utilisation": "utilisation, %",
    "cost": "waiting jobs",
}  # fmt: skip
"""Metric → label, in the order of figures 6.4 to 6.7."""
_ACTIONS: Final[Mapping[str, Callable[[str], str]]] = {"likeliest": str, "drawn": drawn}


def trainings_of(results: Results, arms: Iterable[str]) -> dict[str, str]:
    """Return ``ARM | CASE | seed=N`` of each training of some arms → the name of its folder."""
    return {
        f"{arm} | {TRAINED} | seed={seed}": f"{arm}-seed{seed}"
        for arm in arms
        for seed in range(len(results.values("cost", arm, TRAINED)[0]))
    }


def acting(key: str, actions: str) -> str:
    """Return ``ARM | CASE | …`` with the arm that takes ``likeliest`` or ``drawn`` actions."""
    arm, bar, rest = key.partition(" | ")
    return _ACTIONS[actions](arm) + bar + rest


def over_free(key: str) -> str:
    """Return the question for a cost beside that of the free agents that act in the same way."""
    free = drawn("ppo") if drawn("") in key else "ppo"
    return f"cost | {key} | over={free}"


def over_equal(key: str) -> str:
    """Return the question for a value less that of the threshold rule of equal cost."""
    return f"value | {key} | less={equal_to(key.partition(' | ')[0])}"


def bar_met(results: Results, actions: str) -> str:
    """Return how many trainings with half of the cost meet the bar: ``2 of 3``.

    They cost at most half of the free agent, and keep their value within `MARGIN`.
    """
    met = [
        results.ask(over_free(key)).value <= HALF and results.ask(over_equal(key)).surely(MARGIN)
        for key in (acting(each, actions) for each in trainings_of(results, ["half-of-ppo"]))
    ]
    return f"{sum(met)} of {len(met)}"


def _columns(results: Results) -> dict[str, str | Callable[[str], str]]:
    """Return the columns of agents, whose rows are ``ARM | CASE | …``; a rule has few of them."""

    def if_limited(key: str) -> str:
        free = key.startswith(("ppo |", drawn("ppo"), "qos", "threshold"))
        return "" if free else told(results, f"{over_free(key)} : .2f ±")

    def beside(key: str) -> str:
        rule = key.startswith(("qos", "threshold"))
        return "" if rule else told(results, f"{over_equal(key)} | percent : +.2f ±")

    return {
        "waiting jobs": "cost | {} : .2f", "of the free agent's": if_limited,
        "value ratio, %": "value | {} | percent : .2f",
        "beside the threshold rule of equal cost": beside,
    }  # fmt: skip


def outcome(results: Results) -> Rows:
    """Return limited and free agents, all trainings together, beside two rules."""
    labels = {
        f"{act(arm)} | {TRAINED}": f"{label}, {actions}"
        for arm, label in (("half-of-ppo", "half of the cost"), ("ppo", "without a limit"))
        for actions, act in _ACTIONS.items()
    }
    best = best_threshold_rule(results)
    labels |= {f"qos | {TRAINED}": "QoS", f"{best} | {TRAINED}": best.replace("threshold", "θ")}
    more = {PANELS[name]: f"{name} | {{}} | percent : .2f" for name in ("completed", "utilisation")}
    return grid(results, list(labels), {**_columns(results), **more}, labels=labels)


def best_threshold_rule(results: Results) -> str:
    """Return the threshold rule of the highest value on the test streams."""
    return max(map(threshold_of, THRESHOLDS), key=lambda arm: results.mean("value", arm, TRAINED))


def _agents(
    results: Results, arms: Mapping[str, str], more: Mapping[str, str | Callable[[str], str]]
) -> Rows:
    """Return each training of some arms with likeliest and with drawn actions, by its limit."""

    def theta(key: str) -> str:
        return str(at_equal_cost(results, TRAINED, results.ask(f"cost | {key}").value))

    labels = {
        acting(key, actions): f"{arms[key.partition(' | ')[0]]}, seed {key[-1]}, {actions}"
        for key in trainings_of(results, arms)
        for actions in _ACTIONS
    }
    columns = {**_columns(results), "its θ": theta, **more}
    return grid(results, list(labels), columns, labels=labels, corner="limit")


def every_agent(results: Results) -> Rows:
    """Return each training that may not reject jobs."""

    def limit(key: str) -> str:
        known = trainings_of(results, LIMITS).get(key.replace(drawn(""), ""), "")
        found = results.facts["limits"].get(known)
        return "" if found is None else f"{found['limit']:.2f}"

    return _agents(results, LIMITS, {"limit, jobs": limit})


def with_reject(results: Results) -> Rows:
    """Return the agents that may reject jobs, and their value less that of those that may not."""
    arms = {f"{arm}-reject": LIMITS[arm] for arm in ("ppo", "half-of-ppo")}

    def less(key: str) -> str:
        plain = key.partition(" | ")[0].replace("-reject", "")
        return told(results, f"value | {key} | less={plain} | percent : +.2f ±")

    return _agents(results, arms, {"less the same without rejecting": less})


def frontier(results: Results) -> Rows:
    """Return cost, value, jobs completed and utilisation of the rules."""
    labels = {**RULES, **{threshold_of(theta): f"θ {theta:.2f}" for theta in THRESHOLDS}}
    asked = {head: f"{metric} | {{}} | {TRAINED}{' | percent' * (metric != 'cost')} : .2f"
             for metric, head in PANELS.items()}  # fmt: skip
    return grid(results, list(labels), asked, labels=labels)


def integral_gains(results: Results) -> Rows:
    """Return how agents keep to their limit with a large integral gain and with a small one."""
    known = trainings_of(results, ["half-of-ppo", "half-of-ppo-slow"])

    def kept(key: str, what: str) -> str:
        return f"{100 * results.facts['limits'][known[key]][what]:.0f} %"

    def cost(key: str, actions: str) -> str:
        return told(results, f"cost | {acting(key, actions)} : .2f")

    def share(key: str, actions: str) -> str:
        return told(results, f"{over_free(acting(key, actions))} : .2f ±")

    labels = {key: f"{'0.01' if 'slow' in key else '1'}, seed {key[-1]}" for key in known}
    columns: dict[str, Any] = {
        "iterations above the limit": partial(kept, what="above"),
        "in the second half": partial(kept, what="late"),
        "waiting jobs, likeliest": partial(cost, actions="likeliest"),
        "of the free agent's": partial(share, actions="likeliest"),
        "waiting jobs, drawn": partial(cost, actions="drawn"),
        "of the free agent's, drawn": partial(share, actions="drawn"),
        "value ratio, %, likeliest": "value | {} | percent : .2f",
    }
    return grid(results, list(known), columns, labels=labels, corner="integral gain")


COMPARED: Final[Mapping[str, str]] = {
    **RULES, "ppo": "without a limit", "half-of-ppo": "half of its cost",
    drawn("ppo"): "without a limit, drawn", drawn("half-of-ppo"): "half of its cost, drawn",
}  # fmt: skip
"""Arm → label, of those that are compared at all loads."""


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


TABLES: Final[Mapping[str, Callable[[Results], Rows]]] = {
    "outcome": outcome, "every agent": every_agent, "frontier": frontier, "reject": with_reject,
    "integral gains": integral_gains,
    **{metric: partial(over_loads, metric=metric) for metric in PANELS},
}  # fmt: skip
