"""What the page of the study of logs calls by name: rows, numbers, verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simkit.analysis.intervals import Estimate
from simkit.errors import RunError
from simkit.learners.studies.logs.judge import ESTIMATES, RULES, TURNAROUND
from simkit.learners.studies.logs.trainings import JOBS, LOGS
from simkit.learners.studies.page import judged, told
from simkit.learners.studies.results import BOUND, Results

SLOWDOWN: Final = "bounded_slowdown"
ORDERS: Final = (*RULES, "hold")


def best_rule(results: Results, log: str, metric: str = SLOWDOWN) -> str:
    """Return the rule with the lowest mean on the windows of a log, with its requests."""
    if log not in results.rows["case"]:
        raise RunError(f"no results of {log!r}")
    return results.ranked(metric, log, ORDERS)[0]


def fastest_rule(results: Results, log: str) -> str:
    """Return the rule with the lowest mean turnaround."""
    return best_rule(results, log, TURNAROUND)


def _here(results: Results) -> Iterator[dict[str, str]]:
    """Yield each log that is in this version, with its best rules."""
    for log in (one.name for one in LOGS if one.name in results.rows["case"]):
        yield {"log": log, "rule": best_rule(results, log), "fast": fastest_rule(results, log)}


def _agents(results: Results, log: str) -> list[str]:
    """Return the agents that are judged on a log, with its requests."""
    arms = [arm for arm in results.arms(SLOWDOWN, log) if arm.startswith(("ppo", "evolution"))]
    return [arm for arm in arms if not arm.endswith(tuple(f", {one}" for one in ESTIMATES if one))]


def everyone(results: Results, log: str) -> list[dict[str, str]]:
    """Return everyone on the windows of a log, with its requests; the best in slowdown first."""
    words = {"log": log, "rule": best_rule(results, log), "fast": fastest_rule(results, log)}
    arms = results.ranked(SLOWDOWN, log, [*ORDERS, *_agents(results, log)])
    return [{"arm": arm, **words} for arm in arms]


def agents(results: Results) -> list[dict[str, str]]:
    """Return the agents on each log."""
    return [
        {"arm": arm, **words} for words in _here(results) for arm in _agents(results, words["log"])
    ]


def windows(results: Results) -> Iterator[dict[str, str]]:
    """Yield what stands behind the intervals of each log, and how many windows have a gap."""
    for words in _here(results):
        (found, items), (least, _) = (
            results.values(TURNAROUND, arm, words["log"]) for arm in (words["fast"], BOUND)
        )
        counts = {"windows": len(items), "blocks": len(set(items // JOBS)),
                  "gaps": (found - least > 1.0).sum()}  # fmt: skip
        yield words | {name: str(count) for name, count in counts.items()}


def knowledge(results: Results) -> Iterator[dict[str, str]]:
    """Yield the kinds of estimates that are judged on each log."""
    for words in _here(results):
        there = results.arms(TURNAROUND, words["log"])
        for known in ESTIMATES:
            if not known or f"SAF, {known}" in there:
                label = known or f"requested, from {words['fast']}"
                yield words | {"known": known, "label": label}


def share(results: Results, log: str, arm: str, known: str) -> str:
    """Return which share of the gap that requests leave a policy closes; empty: not judged."""
    name, fast = f"{arm}, {known}" if known else arm, fastest_rule(results, log)
    if name not in results.arms(TURNAROUND, log):
        return ""
    return told(results, f"{TURNAROUND} | {name} | {log} | gap={fast} | percent : .0f ±")


def over_best_rule(results: Results, arm: str, log: str) -> Estimate:
    """Return the slowdown of an arm over that of the best rule on a log."""
    against = best_rule(results, log)
    return results.estimate(SLOWDOWN, arm, log, against=against, relation="geometric ratio")


def of_the_gap(results: Results, arm: str, log: str) -> Estimate:
    """Return which share of the gap from the best rule to the bound it closes, in percent."""
    against = fastest_rule(results, log)
    found = results.estimate(TURNAROUND, arm, log, against=against, relation="share of the gap")
    return found.scaled(100.0)


def is_better(results: Results, arm: str, log: str) -> str:
    """Return the verdict on whether an arm is better than the best rule in slowdown."""
    return judged(over_best_rule(results, arm, log), "<", 1.0, 1.0)


def is_no_worse(results: Results, arm: str, log: str) -> bool:
    """Return whether it is not surely worse."""
    return not over_best_rule(results, arm, log).surely(1.0)


def closes_some(results: Results, arm: str, log: str) -> str:
    """Return the verdict on whether it closes some of the gap."""
    return judged(of_the_gap(results, arm, log), ">", 0.0)
