"""The tables of the study of CoCoRL: cost and value of agents and rules, and over the load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from simkit.learners.studies.cocorl.equal_cost import at_equal_cost, equal_to, theta_words
from simkit.learners.studies.cocorl.trainings import HALF, SHARES
from simkit.learners.studies.green.judge import HEURISTICS, THRESHOLDS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.page import Rows, grid, told
from simkit.learners.studies.results import Results

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
MARGIN: Final = -0.005
"""Least lower bound of a limited agent's value less that of the rule of equal cost."""
PANELS: Final[Mapping[str, str]] = {
    "value": "value ratio, %", "completed": "jobs completed, %", "utilisation": "utilisation, %",
    "cost": "waiting jobs",
}  # fmt: skip
"""Metric → label, in the order of figures 6.4 to 6.7."""
ACTIONS: Final[Mapping[str, Callable[[str], str]]] = {"likeliest": str, "drawn": drawn}
Columns = dict[str, str | Callable[[str], str]]


def keys_of(results: Results, arms: Iterable[str]) -> list[tuple[str, int]]:
    """Return arm and seed of each training of some arms."""
    return [
        (arm, seed) for arm in arms for seed in range(len(results.values("cost", arm, TRAINED)[0]))
    ]


def over_free(key: str) -> str:
    """Return the question for a cost beside that of the free agents that act in the same way.

    A key is ``ARM | CASE | …``, so that it is the end of a question.
    """
    return f"cost | {key} | over={drawn('ppo') if drawn('') in key else 'ppo'}"


def over_equal(key: str) -> str:
    """Return the question for a value less that of the threshold rule of equal cost."""
    return f"value | {key} | less={equal_to(key.partition(' | ')[0])}"


def bar_met(results: Results, actions: str) -> str:
    """Return how many trainings with half of the cost meet the bar: ``2 of 3``.

    They cost at most half of the free agent, and keep their value within `MARGIN`.
    """
    mine = [
        f"{ACTIONS[actions](arm)} | {TRAINED} | seed={seed}"
        for arm, seed in keys_of(results, ["half-of-ppo"])
    ]
    met = [
        results.ask(over_free(key)).value <= HALF and results.ask(over_equal(key)).surely(MARGIN)
        for key in mine
    ]
    return f"{sum(met)} of {len(met)}"


def best_threshold_rule(results: Results) -> str:
    """Return the threshold rule of the highest value on the test streams."""
    return max(THRESHOLD_RULES, key=lambda arm: results.mean("value", arm, TRAINED))


def _columns(results: Results) -> Columns:
    """Return the columns of agents, whose rows are keys; a rule has few of them."""

    def share(key: str) -> str:
        free = key.startswith(("ppo |", drawn("ppo"), "qos", "threshold"))
        return "" if free else told(results, f"{over_free(key)} : .2f ±")

    def beside(key: str) -> str:
        rule = key.startswith(("qos", "threshold"))
        return "" if rule else told(results, f"{over_equal(key)} | percent : +.2f ±")

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
    best = best_threshold_rule(results)
    labels |= {f"qos | {TRAINED}": "QoS", f"{best} | {TRAINED}": THRESHOLD_RULES[best]}
    more = {PANELS[name]: f"{name} | {{}} | percent : .2f" for name in ("completed", "utilisation")}
    return grid(results, list(labels), {**_columns(results), **more}, labels=labels)


def every_agent(results: Results) -> Rows:
    """Return each training, with likeliest and with drawn actions."""
    names = {
        f"{act(arm)} | {TRAINED} | seed={seed}": (arm, seed, actions)
        for arm, seed in keys_of(results, AGENTS)
        for actions, act in ACTIONS.items()
    }

    def theta(key: str) -> str:
        cost = results.ask(f"cost | {key}").value
        return theta_words(*at_equal_cost(results, TRAINED, cost))

    def kept(key: str, what: str, form: str) -> str:
        arm, seed, _ = names[key]
        known = results.facts["limits"].get(f"{arm}-seed{seed}", {})
        return format(known[what], form).replace("%", " %") if what in known else ""

    columns: Columns = {
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


COMPARED: Final[Mapping[str, str]] = {
    **HEURISTICS, "ppo": "without a limit", "half-of-ppo": "half of its cost",
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
    "outcome": outcome, "every agent": every_agent, "frontier": frontier,
    **{metric: partial(over_loads, metric=metric) for metric in PANELS},
}  # fmt: skip
