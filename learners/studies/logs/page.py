"""What the page of the study of logs calls by name: rows, numbers, verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simkit.learners.studies.logs.judge import ESTIMATES, RULES, TURNAROUND
from simkit.learners.studies.logs.trainings import JOBS, LOGS
from simkit.learners.studies.page import told
from simkit.learners.studies.results import BOUND, Best, Results

SLOWDOWN: Final = "bounded_slowdown"
ORDERS: Final = (*RULES, "hold")
BEST: Final = {"best rule": Best(SLOWDOWN, ORDERS), "fastest rule": Best(TURNAROUND, ORDERS)}
"""Those on the windows of a log, with its requests."""


def _here(results: Results) -> list[str]:
    """Return the logs that are in this version."""
    return [log.name for log in LOGS if log.name in results.rows["case"]]


def _agents(results: Results, log: str) -> list[str]:
    """Return the agents that are judged on a log, with its requests."""
    arms = [arm for arm in results.arms(SLOWDOWN, log) if arm.startswith(("ppo", "evolution"))]
    return [arm for arm in arms if not arm.endswith(tuple(f", {one}" for one in ESTIMATES if one))]


def everyone(results: Results, log: str) -> list[str]:
    """Return everyone on the windows of a log, with its requests; the best in slowdown first."""
    return results.ranked(SLOWDOWN, log, [*ORDERS, *_agents(results, log)])


def agents(results: Results) -> list[dict[str, str]]:
    """Return the agents on each log."""
    return [{"arm": arm, "log": log} for log in _here(results) for arm in _agents(results, log)]


def windows(results: Results) -> Iterator[dict[str, str]]:
    """Yield what stands behind the intervals of each log, and how many windows have a gap."""
    for log in _here(results):
        names = {name: results.named(name, log) for name in BEST}
        (found, items), (least, _) = (
            results.values(TURNAROUND, arm, log) for arm in (names["fastest rule"], BOUND)
        )
        counts = {"windows": len(items), "blocks": len(set(items // JOBS)),
                  "gaps": (found - least > 1.0).sum()}  # fmt: skip
        yield {"log": log, **names, **{name: str(count) for name, count in counts.items()}}


def knowledge(results: Results) -> Iterator[dict[str, str]]:
    """Yield the kinds of estimates that are judged on each log."""
    for log in _here(results):
        there = results.arms(TURNAROUND, log)
        for known in ESTIMATES:
            if not known or f"SAF, {known}" in there:
                label = known or f"requested, from {results.named('fastest rule', log)}"
                yield {"log": log, "known": known, "label": label}


def share(results: Results, log: str, arm: str, known: str) -> str:
    """Return which share of the gap that requests leave a policy closes; empty: not judged."""
    name = f"{arm}, {known}" if known else arm
    if name not in results.arms(TURNAROUND, log):
        return ""
    return told(results, f"{TURNAROUND} | {name} | {log} | gap=fastest rule | percent : .0f ±")


def is_no_worse(results: Results, arm: str, log: str) -> bool:
    """Return whether an arm is not surely worse than the best rule in slowdown."""
    found = results.ask(f"{SLOWDOWN} | {arm} | {log} | geometric over=best rule")
    return not found.surely(1.0)
