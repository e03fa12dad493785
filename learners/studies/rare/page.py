"""What the page of the comparison with RARE calls by name: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green import judge as green
from simkit.learners.studies.green.judge import HEURISTICS
from simkit.learners.studies.pictures import Mark, line, panel, picture
from simkit.learners.studies.rare.judge import SIZES, within_12_h
from simkit.learners.studies.results import Best, Results

_NAMED: Final = {"heuristics": tuple(HEURISTICS), "QoS and SJF": ("qos", "sjf")}
RULES: Final = {
    **_NAMED,
    **{within_12_h(name): tuple(map(within_12_h, rules)) for name, rules in _NAMED.items()},
}
"""Name → the rules that a claim names."""
BEST: Final = {
    **green.BEST, **{name: Best("value", rules, highest=True) for name, rules in RULES.items()},
}  # fmt: skip
LEAVE: Final = "leave, 10 units"
LEAST_GAIN: Final = 3.0
"""Points over the order by quality of service that agents must reach where late jobs leave."""
SURE_GAIN: Final = 2.0
"""The least lower bound of that gain."""
AGENT: Final = "printed-full"
AGENTS: Final = ("ppo", "rare")
"""Kinds of training that are held to both bars."""


def meets(results: Results, arm: str) -> bool:
    """Return whether agents meet both bars: a gain over QoS, and surely above the threshold."""
    to_qos = results.ask(f"value | {arm} | {LEAVE} | less=qos | percent")
    to_threshold = results.ask(f"value | {arm} | {LEAVE} | less=threshold rule")
    return bool(
        to_qos.value >= LEAST_GAIN and to_qos.surely(SURE_GAIN) and to_threshold.surely(0.0)
    )


def bars(results: Results, arm: str) -> str:
    """Return whether an arm meets both bars, if it is one of agents."""
    if arm.partition(",")[0] not in AGENTS:
        return ""
    return "met" if meets(results, arm) else "missed"


def surely_better(results: Results, least: str, rules: str, *places: str) -> bool:
    """Return whether the agent is everywhere surely above each rule, by `least` percent.

    Results that were published as means alone bring the verdict, as they lack the intervals.
    """
    if "verdicts" in results.facts:
        return bool(results.facts["verdicts"][" | ".join((least, rules, *places))])
    asked = [f"value | {AGENT} | as printed, {place}" for place in places]
    enough = all(
        results.ask(f"{one} | over={rules} | percent").value >= float(least) for one in asked
    )
    return enough and all(
        results.ask(f"{one} | less={rule}").surely(0.0) for one in asked for rule in RULES[rules]
    )


_LINES: Final = {"fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "fit12": "fit12"}


def _panel(late: str, arms: Mapping[str, str], agent: str, title: str, **look: Any) -> Mark:
    asked, colours = f"{late}, [x] units | percent", [*COLOURS[:4], COLOURS[5]]
    return panel(
        *(line(f"value | {arm} | {asked}", color=colour, label=label, linewidth=1.2, marker="o",
               ms=3)
          for colour, (arm, label) in zip(colours, arms.items(), strict=False)),
        line(f"value | {agent} | {asked}", color=COLOURS[4], label="agent", linewidth=1.6,
             marker="s", ms=3.5),
        xlabel="units of each resource", log_x=SIZES, title=title, **look,
    )  # fmt: skip


draw: Final = picture(
    _panel("as printed", _LINES, AGENT, "as printed, 100 %", ylabel="value ratio, points"),
    _panel("leave", {**_LINES, "threshold rule": "threshold"}, "sizes", "late jobs leave, 120 %",
           legend={"fontsize": 8, "ncols": 2, "loc": "center", "bbox_to_anchor": (0.6, 0.32)}),
)  # fmt: skip
"""The value over the size of the pool: as printed, and where late jobs leave."""
