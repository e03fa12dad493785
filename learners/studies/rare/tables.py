"""The tables, claims and picture of the comparison with RARE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green.judge import FIT, HEURISTICS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, Claim, Rows, grid
from simkit.learners.studies.rare.judge import SIZES, within_12_h
from simkit.learners.studies.results import Results
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def printed(results: Results, case: str, kind: str) -> Rows:
    """Return everyone where nobody leaves."""
    arms = [*HEURISTICS, *NEAR, "value-density", *FIT, kind, drawn(kind)]
    return grid(results, arms, _columns(case, "fcfs", "fit12"), labels=LABELS)


def leaving(results: Results, case: str, theta: str, *kinds: str) -> Rows:
    """Return everyone where late jobs leave, and whether agents meet the bars."""
    rule, rules = _threshold(results, theta), ("fcfs", "sjf", "value", "value-density", *FIT)
    agents = [each for kind in kinds for each in (kind, drawn(kind))]
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


TABLES: Final[Mapping[str, Callable[[Results], Rows]]] = {
    "as printed": partial(printed, case="as printed, 10 units", kind=AGENT),
    "wind and sun": partial(printed, case="as printed, wind and sun", kind="printed-wind-sun"),
    "leave": lambda results: leaving(results, LEAVE, "threshold", "ppo", "rare"),
    "ready pool 5": lambda results: leaving(
        results, "leave, ready pool 5", "threshold, ready pool 5", "ppo-pool5"
    ),
    "elsewhere": elsewhere,
    "sizes": sizes,
    "forecasts": forecasts,
}


# --- claims ---------------------------------------------------------------------------------------


def over_best(results: Results, place: str, rules: Sequence[str]) -> float:
    """Return by how many percent the agent as printed is above the best of some rules."""
    case = f"as printed, {place}"
    best = results.ranked("value", case, rules)[-1]
    return 100 * (results.mean("value", AGENT, case) / results.mean("value", best, case) - 1)


def verdict(
    results: Results, words: str, places: Sequence[str], rules: Sequence[str], least: float
) -> str:
    """Return whether the agent is everywhere surely above each rule, by `least` percent.

    Results that were published as means alone bring the verdict, as they lack the intervals.
    """
    if "verdicts" in results.facts:
        return str(results.facts["verdicts"][words])
    gaps = [
        results.ask(f"value | {AGENT} | as printed, {place} | less={rule}")
        for place in places
        for rule in rules
    ]
    enough = all(over_best(results, place, rules) >= least for place in places)
    return CONFIRMED if enough and all(gap.surely(0.0) for gap in gaps) else NOT_CONFIRMED


_NAMED: Final[Mapping[str, Sequence[str]]] = {
    "heuristics": tuple(HEURISTICS), "QoS and SJF": ("qos", "sjf"),
}  # fmt: skip
"""The rules that claims name."""
_TESTED: Final = (
    ("5.1", "10 and 20 units: 18 to 25 % over the heuristics", ("10 units", "20 units"),
     "heuristics", 18.0),
    ("5.1", "50 units: 2 to 6 % over QoS and SJF", ("50 units",), "QoS and SJF", 2.0),
    ("5.2", "100, 300 and 1,200 units: better than the heuristics",
     ("100 units", "300 units", "1200 units"), "heuristics", 0.0),
    ("5.4", "100, 90 and 80 % of the power, 10 units: 9 to 13 % over the heuristics",
     ("10 units", "90 % of the power", "80 % of the power"), "heuristics", 9.0),
)  # fmt: skip
"""Figure, claim, where it is tested, the rules that it names, the least percentage."""


def _holes(places: Sequence[str], rules: str) -> str:
    return ", ".join(f"{{{{number: {place} over {rules} : +.1f}}}} %" for place in places)


CLAIMS: Final = [
    Claim(
        figure, words, _holes(places, rules),
        partial(verdict, words=words, places=places, rules=_NAMED[rules], least=least),
        (_holes(places, within_12_h(rules)),),
    )
    for figure, words, places, rules, least in _TESTED
]  # fmt: skip
NUMBERS: Final[Mapping[str, Callable[[Results], float]]] = {
    f"{place} over {name}": partial(over_best, place=place, rules=some)
    for _, _, places, rules, _ in _TESTED
    for place in places
    for name, some in (
        (rules, _NAMED[rules]), (within_12_h(rules), tuple(map(within_12_h, _NAMED[rules]))),
    )
}  # fmt: skip
"""By how many percent the agent is above the best of the rules of a claim."""


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


def _panel(axes: Axes, results: Results, late: str, lines: Mapping[str, str], agent: str) -> None:
    def points(arm: str) -> list[float]:
        return [100 * results.mean("value", arm, f"{late}, {units} units") for units in SIZES]

    colours = [*COLOURS[:4], COLOURS[5]]
    for colour, (arm, label) in zip(colours, lines.items(), strict=False):
        axes.plot(SIZES, points(arm), color=colour, label=label, linewidth=1.2, marker="o", ms=3)
    axes.plot(
        SIZES, points(agent), color=COLOURS[4], label="agent", linewidth=1.6, marker="s", ms=3.5
    )
    axes.set(xlabel="units of each resource", xscale="log")
    axes.set_xticks(SIZES, labels=[f"{each:,}" for each in SIZES])
    axes.minorticks_off()
