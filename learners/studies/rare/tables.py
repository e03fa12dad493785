"""The tables, claims and picture of the comparison with RARE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green.judge import FIT, HEURISTICS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.page import Rows, grid
from simkit.learners.studies.pictures import Figure, draw_line, empty_figure, log_ticks
from simkit.learners.studies.rare.judge import SIZES, within_12_h
from simkit.learners.studies.results import Results

LEAVE: Final = "leave, 10 units"
LEAST_GAIN: Final = 3.0
"""Points over the order by quality of service that agents must reach where late jobs leave."""
SURE_GAIN: Final = 2.0
"""The least lower bound of that gain."""
AGENT: Final = "printed-full"
AGENTS: Final = {
    AGENT: "RARE", "printed-wind-sun": "RARE", "ppo": "PPO", "rare": "RARE", "ppo-pool5": "PPO",
}  # fmt: skip
"""Kind of training → its agents' label."""
NEAR: Final = tuple(map(within_12_h, HEURISTICS))
LABELS: Final[Mapping[str, str]] = {
    **HEURISTICS,
    **{within_12_h(name): within_12_h(label) for name, label in HEURISTICS.items()},
    **AGENTS,
    **{drawn(kind): drawn(label) for kind, label in AGENTS.items()},
}


def _threshold(results: Results, theta: str = "threshold") -> str:
    return threshold_of(results.facts[theta])


def _above(arm: str, case: str, other: str) -> str:
    return f"value | {arm} | {case} | less={other} | percent : +.2f ±"


def _columns(case: str, *others: str) -> dict[str, Any]:
    """Return the columns of everyone in a case, with differences to some of them."""
    value = f"value | {{}} | {case} | percent"
    return {
        "value": value,
        "of each seed": f"{value} : seeds .2f",
        **{f"to {LABELS.get(other, other)}": _above("{}", case, other) for other in others},
        "jobs that wait": f"cost | {{}} | {case} : .1f",
        "completed, %": f"completed | {{}} | {case} | percent : .1f",
    }


def printed(results: Results, place: str, kind: str) -> Rows:
    """Return everyone where nobody leaves."""
    arms = [*HEURISTICS, *NEAR, "value-density", *FIT, kind, drawn(kind)]
    return grid(results, arms, _columns(f"as printed, {place}", "fcfs", "fit12"), labels=LABELS)


def leaving(results: Results, place: str, theta: str, *kinds: str) -> Rows:
    """Return everyone where late jobs leave, and whether agents meet the bars."""
    rule, rules = _threshold(results, theta), ("fcfs", "sjf", "value", "value-density", *FIT)
    agents = [each for kind in kinds for each in (kind, drawn(kind))]
    case = f"leave, {place}"
    columns = _columns(case, "qos", rule)
    if case == LEAVE:
        columns["of the gap, %"] = f"value | {{}} | {case} | gap=qos | percent : .0f"
        columns["bars"] = lambda arm: (
            ("met" if meets(results, arm) else "missed") if arm in agents else ""
        )
    return grid(results, ["qos", *rules, rule, *agents], columns, labels=LABELS)


def meets(results: Results, arm: str) -> bool:
    """Return whether agents meet both bars: a gain over QoS, and surely above the threshold."""
    to_qos = results.ask(f"value | {arm} | {LEAVE} | less=qos | percent")
    to_threshold = results.ask(f"value | {arm} | {LEAVE} | less={_threshold(results)}")
    return bool(
        to_qos.value >= LEAST_GAIN and to_qos.surely(SURE_GAIN) and to_threshold.surely(0.0)
    )


def elsewhere(results: Results) -> Rows:
    """Return differences to QoS where the agents were not trained."""
    arms = [_threshold(results), "ppo", drawn("ppo"), "rare", drawn("rare")]
    places = ("90 % of the power", "80 % of the power", "20 units")
    columns = {place: _above("{}", f"leave, {place}", "qos") for place in places}
    return grid(results, arms, columns, labels=LABELS)


def sizes(results: Results) -> Rows:
    """Return the agent of several sizes on pools of each size."""
    case, rules = "leave, {} units", {"QoS": "qos", "fit12": "fit12"}
    columns = {
        label: f"value | {arm} | {case} | percent"
        for label, arm in {**rules, "agent": "sizes"}.items()
    }
    rules["the threshold"] = _threshold(results)
    columns |= {f"to {label}": _above("sizes", case, arm) for label, arm in rules.items()}
    return grid(results, list(map(str, SIZES)), columns, corner="units")


def forecasts(results: Results) -> Rows:
    """Return everyone with each forecast."""
    endings = {"": "perfect", ", noisy forecast": "noisy"}
    arms = {"QoS": "qos", "fit0": "fit0", "agent": "ppo"}
    columns = {label: f"value | {arm}{{}} | forecasts | percent" for label, arm in arms.items()}
    columns["agent to QoS"] = _above("ppo{}", "forecasts", "qos{}")
    return grid(results, list(endings), columns, labels=endings, corner="forecast")


# --- claims ---------------------------------------------------------------------------------------


def _named(rules: str) -> Sequence[str]:
    """Return the rules that a claim names: the heuristics or two of them, perhaps within 12 h."""
    named = ("qos", "sjf") if rules.startswith("QoS and SJF") else tuple(HEURISTICS)
    return tuple(map(within_12_h, named)) if rules.endswith(within_12_h("")) else named


def over_best_of(results: Results, rules: str, place: str) -> float:
    """Return by how many percent the agent as printed is above the best of some rules."""
    case = f"as printed, {place}"
    best = results.ranked("value", case, _named(rules))[-1]
    return 100 * (results.mean("value", AGENT, case) / results.mean("value", best, case) - 1)


def surely_better(results: Results, least: str, rules: str, *places: str) -> bool:
    """Return whether the agent is everywhere surely above each rule, by `least` percent.

    Results that were published as means alone bring the verdict, as they lack the intervals.
    """
    if "verdicts" in results.facts:
        return bool(results.facts["verdicts"][" | ".join((least, rules, *places))])
    gaps = [
        results.ask(f"value | {AGENT} | as printed, {place} | less={rule}")
        for place in places
        for rule in _named(rules)
    ]
    enough = all(over_best_of(results, rules, place) >= float(least) for place in places)
    return enough and all(gap.surely(0.0) for gap in gaps)


FUNCTIONS: Final = (
    printed, leaving, elsewhere, sizes, forecasts, over_best_of, surely_better
)  # fmt: skip


# --- picture --------------------------------------------------------------------------------------


def draw(results: Results) -> Figure:
    """Draw the value over the size of the pool: as printed, and where late jobs leave."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    lines = {name: LABELS.get(name, name) for name in ("fcfs", "sjf", "qos", "fit12")}
    _panel(left, results, "as printed", lines, AGENT)
    left.set_title("as printed, 100 %", fontsize=9.5)
    left.set_ylabel("value ratio, points")
    _panel(right, results, "leave", {**lines, _threshold(results): "threshold"}, "sizes")
    right.set_title("late jobs leave, 120 %", fontsize=9.5)
    right.legend(fontsize=8, ncols=2, loc="center", bbox_to_anchor=(0.6, 0.32))
    return figure


def _panel(axes: Any, results: Results, late: str, lines: Mapping[str, str], agent: str) -> None:
    def line(arm: str, **style: Any) -> None:
        asked = (f"value | {arm} | {late}, {units} units | percent" for units in SIZES)
        draw_line(axes, results, SIZES, asked, **style)

    colours = [*COLOURS[:4], COLOURS[5]]
    for colour, (arm, label) in zip(colours, lines.items(), strict=False):
        line(arm, color=colour, label=label, linewidth=1.2, marker="o", ms=3)
    line(agent, color=COLOURS[4], label="agent", linewidth=1.6, marker="s", ms=3.5)
    axes.set(xlabel="units of each resource")
    log_ticks(axes, SIZES, "x")
