"""What the page of the comparison with RARE calls by name: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green.judge import HEURISTICS, threshold_of
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.pictures import Mark, line, panel, picture
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
LABELS: Final[Mapping[str, str]] = {
    **HEURISTICS,
    **{within_12_h(name): within_12_h(label) for name, label in HEURISTICS.items()},
    **AGENTS,
    **{drawn(kind): drawn(label) for kind, label in AGENTS.items()},
}


def rule_of(results: Results, theta: str = "threshold") -> str:
    """Return the threshold rule whose θ is a fact."""
    return threshold_of(results.facts[theta])


def arms(results: Results, *names: str) -> list[dict[str, str]]:
    """Return the rows of a table: arms with their labels; a fact stands for its threshold rule.

    ``[threshold]`` in a row is that rule, or the one for a ready pool of 15.
    """
    thetas = [name for name in names if name in results.facts] or ["threshold"]
    rule = rule_of(results, thetas[0])
    chosen = [rule if name in results.facts else name for name in names]
    return [{"arm": arm, "label": LABELS.get(arm, arm), "threshold": rule} for arm in chosen]


def meets(results: Results, arm: str) -> bool:
    """Return whether agents meet both bars: a gain over QoS, and surely above the threshold."""
    to_qos = results.ask(f"value | {arm} | {LEAVE} | less=qos | percent")
    to_threshold = results.ask(f"value | {arm} | {LEAVE} | less={rule_of(results)}")
    return bool(
        to_qos.value >= LEAST_GAIN and to_qos.surely(SURE_GAIN) and to_threshold.surely(0.0)
    )


def bars(results: Results, arm: str) -> str:
    """Return whether an arm meets both bars, if it is one of agents."""
    if arm.partition(",")[0] not in AGENTS:
        return ""
    return "met" if meets(results, arm) else "missed"


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
