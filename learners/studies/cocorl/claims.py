"""The dissertation's claims about CoCoRL: figures 6.4 to 6.12."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from simkit.learners.studies.cocorl.tables import AT_LOAD, LOADS
from simkit.learners.studies.green.judge import HEURISTICS
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, Claim, holes
from simkit.learners.studies.results import Results

PAR: Final = -0.005
"""A candidate whose lower bound is above this is at par or better."""
_GOALS: Final = ("value", "utilisation", "completed")
"""Metrics of figure 6.8."""
_OVER_RULES: Final[Mapping[str, tuple[str, str]]] = {
    "value": ("6.4", "7–24 8–30 4–26 4–21 4–20 4–20"), "utilisation": ("6.6", "4 4 4 4–6 4–6 4–6"),
}  # fmt: skip
"""Metric → figure, and percent above the best and the worst rule, load by load."""
_WORST: Final = {"20": "fcfs", "value 120": "fcfs"}
"""Load, or metric and load → the worst of the four rules, if it is not SJF; the best is QoS."""
_COSTS: Final = (1, 10, 20, 2, 2, 2)
"""Figure 6.7: the cost of SJF over that of CoCoRL, load by load."""
_COMPLETED: Final = {"qos": 8, "sjf": 8, "fcfs": 40, "value": 40}
"""Figure 6.5: percent above a rule, at 120 %."""
_ON_LOGS: Final = (
    ("6.9", "value above the rules, ANL, 20–120 %: 15–23, 6–22, 7–22, 4–17, 3–10 %"),
    ("6.9", "more jobs completed, ANL, 20 and 40 %: 13–21 %, 8–10 %"),
    ("6.9", "utilisation, ANL: 2–20 %"),
    ("6.9", "cost of the rules over that of CoCoRL, ANL: 5–10×"),
    ("6.10", "value above the rules, other logs: better"),
    ("6.11", "cost, other logs: lower"),
    ("6.12", "integral gain 0.01: cost over that with 1, ANL: above 1"),
)


def _claim(figure: str, words: str, cell: str, rule: str | Callable[[Results], str]) -> Claim:
    """Return a claim whose ``[QUESTION : FORMAT]`` are holes.

    AGENT in them stands for the agents that stand for CoCoRL, and for those without a limit.
    """
    ours, free = (holes(cell.replace("AGENT", arm)) for arm in ("half-of-ppo", "ppo"))
    rule = rule.replace("AGENT", "half-of-ppo") if isinstance(rule, str) else rule
    return Claim(figure, words, ours, rule, (free if "AGENT" in cell else "",))


def _above_rules(metric: str) -> Iterator[Claim]:
    figure, published = _OVER_RULES[metric]
    for load, percent in zip(LOADS, published.split(), strict=True):
        worst = _WORST.get(load, _WORST.get(f"{metric} {load}", "sjf"))
        asked = f"{metric} | AGENT | {load} | {AT_LOAD} | percent | over="
        yield _claim(
            figure, f"{metric} above the rules, {load} %: {percent} %",
            f"[{asked}qos : +.1f ±] % over QoS, [{asked}{worst} : +.1f] % over {HEURISTICS[worst]}",
            f"{asked}qos >= {percent.partition('–')[0]}",
        )  # fmt: skip


def _more_completed() -> Iterator[Claim]:
    for load in ("80", "100"):
        asked = f"completed | AGENT | {load} | {AT_LOAD} | percent"
        yield _claim(
            "6.5", f"more jobs completed than QoS, {load} %: 77 % against 73 %",
            f"[{asked} : .1f] % against [completed | qos | {load} | percent : .1f] %: "
            f"[{asked} | less=qos : +.2f ±] points", f"{asked} | less=qos >= 4",
        )  # fmt: skip
    for rule, least in _COMPLETED.items():
        asked = f"completed | AGENT | 120 | over={rule} | {AT_LOAD} | percent"
        yield _claim("6.5", f"more jobs completed than {HEURISTICS[rule]}, 120 %: {least} %",
                     f"[{asked} : +.1f ±] %", f"{asked} >= {least}")  # fmt: skip


def _costs() -> Iterator[Claim]:
    for load, times in zip(LOADS, _COSTS, strict=True):
        asked = f"cost | sjf | {load} | over=AGENT | {AT_LOAD}"
        yield _claim("6.7", f"cost of SJF over that of CoCoRL, {load} %: {times}×",
                     f"[{asked} : .2f ±]", f"{asked} >= {times}")  # fmt: skip


def at_par(results: Results, arm: str) -> bool:
    """Return whether an arm is at par with QoS or better in three metrics at once, at 100 %."""
    return all(results.ask(f"{m} | {arm} | 100 | less=qos | {AT_LOAD}").surely(PAR) for m in _GOALS)


def rules_at_par(results: Results) -> str:
    """Return the rules other than QoS that are at par with it."""
    return (
        ", ".join(HEURISTICS[r] for r in HEURISTICS if r != "qos" and at_par(results, r)) or "none"
    )


_GAIN: Final = "cost | half-of-ppo-slow | 120 | over=half-of-ppo"
_WIDE: Final = "value | limit-80 | 120 | less=limit-35 | percent"
CLAIMS: Final = (
    *_above_rules("value"), *_more_completed(), *_above_rules("utilisation"), *_costs(),
    _claim(
        "6.8", "at par with QoS or better in value, utilisation and jobs completed, 100 %: yes",
        ", ".join(f"{metric} [{metric} | AGENT | 100 | less=qos | {AT_LOAD} | percent : +.1f]"
                  for metric in _GOALS) + " points",
        lambda results: CONFIRMED if at_par(results, "half-of-ppo") else NOT_CONFIRMED,
    ),
    _claim("6.8", "rules other than QoS that are, 100 %: none", "[rules at par]",
           lambda results: CONFIRMED if rules_at_par(results) == "none" else NOT_CONFIRMED),
    *(Claim(*told) for told in _ON_LOGS),
    _claim("6.12", "integral gain 0.01: cost over that with 1, on these jobs: above 1",
           f"[{_GAIN} : .2f ±]", f"{_GAIN} > 1"),
    _claim("6.12", "value with a limit of 80 % less that with 35 %, on these jobs: may be higher",
           f"[{_WIDE} : +.2f ±] points", f"{_WIDE} > 0"),
)  # fmt: skip
