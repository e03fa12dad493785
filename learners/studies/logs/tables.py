"""The tables, numbers and verdicts of the study of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from simkit.analysis.intervals import Estimate
from simkit.learners.studies.logs.judge import ESTIMATES, RULES, TURNAROUND
from simkit.learners.studies.logs.trainings import ALL, JOBS, LOGS
from simkit.learners.studies.page import Rows, grid, judged, told
from simkit.learners.studies.results import BOUND, Results

SLOWDOWN: Final = "bounded_slowdown"
ORDERS: Final = (*RULES, "hold")
RATIO: Final = f"{SLOWDOWN} | {{}} | CASE | geometric over=RULE : .2f ±"
GAP: Final = f"{TURNAROUND} | {{}} | CASE | gap=FAST | percent : .0f ±"
EVERYONE: Final[Mapping[str, str]] = {
    "bounded slowdown": f"{SLOWDOWN} | {{}} | CASE : .1f",
    "of each seed": f"{SLOWDOWN} | {{}} | CASE : seeds .1f",
    "geometric / RULE": RATIO,
    "turnaround, h": f"{TURNAROUND} | {{}} | CASE | hours : .2f",
    "gap from FAST, %": GAP,
    "99 % wait, h": "wait_time_s.p99 | {} | CASE | hours : .1f",
    "longest wait, h": "wait_time_s.max | {} | CASE | hours : .1f",
    "makespan, h": "makespan_s | {} | CASE | hours : .1f",
}
"""Columns; RULE and FAST are the rules that are best on a log in slowdown and in turnaround."""
GAINS: Final[Mapping[str, str]] = {
    "slowdown / best rule": RATIO,
    "/ SAF": RATIO.replace("RULE", "SAF"),
    "turnaround": f"{TURNAROUND} | {{}} | CASE | over=FAST : .3f",
    "of the gap, %": GAP,
    "99 % wait": "wait_time_s.p99 | {} | CASE | over=RULE : .2f",
    "longest wait": "wait_time_s.max | {} | CASE | over=RULE : .2f",
    "makespan": "makespan_s | {} | CASE | over=RULE : .3f",
}


def best(results: Results, case: str, metric: str = SLOWDOWN) -> str:
    """Return the rule with the lowest mean on the windows of a log, with its requests."""
    return results.ranked(metric, case, ORDERS)[0]


def _agents(results: Results, case: str) -> list[str]:
    """Return the agents that are judged on a log, with its requests."""
    arms = [arm for arm in results.arms(SLOWDOWN, case) if arm.startswith(("ppo", "evolution"))]
    return [arm for arm in arms if not arm.endswith(tuple(f", {one}" for one in ESTIMATES if one))]


def _filled(results: Results, case: str, text: str) -> str:
    """Return a question, or a head, with the names of a log and of its best rules."""
    fast, rule = best(results, case, TURNAROUND), best(results, case)
    return text.replace("CASE", case).replace("RULE", rule).replace("FAST", fast)


def _grid(results: Results, arms: Sequence[str], case: str, columns: Mapping[str, str]) -> Rows:
    filled = partial(_filled, results, case)
    return grid(results, arms, {filled(head): filled(asked) for head, asked in columns.items()})


def everyone(results: Results, case: str) -> Rows:
    """Return everyone on the windows of a log, with its requests; the best in slowdown first."""
    if case not in results.rows["case"]:
        return [("not in this version",)]
    order = results.ranked(SLOWDOWN, case, [*ORDERS, *_agents(results, case)])
    return _grid(results, order, case, EVERYONE)


def by_log(results: Results, table: str) -> Rows:
    """Return the tables of all logs as one: ``gains``, ``windows`` or ``knowledge``."""
    rows = {"gains": gains, "windows": windows, "knowledge": knowledge}[table]
    tables = {one.name: rows(results, one.name) for one in LOGS if one.name in results.rows["case"]}
    (head, *_), *_ = tables.values()
    return [("log", *head), *((case, *row) for case, found in tables.items() for row in found[1:])]


def gains(results: Results, case: str) -> Rows:
    """Return what agents gain over the best rules, and what it costs."""
    return _grid(results, _agents(results, case), case, GAINS)


def windows(results: Results, case: str) -> Rows:
    """Return what stands behind the intervals, and how far the best rule is from the bound."""
    fast = best(results, case, TURNAROUND)
    (found, items), (least, _) = (results.values(TURNAROUND, arm, case) for arm in (fast, BOUND))
    of = f"{TURNAROUND} | {{}} | {case}"
    return grid(results, [fast], {
        "in slowdown": lambda _: best(results, case),
        "windows": lambda _: str(len(items)),
        "blocks": lambda _: str(len(set(items // JOBS))),
        "with a gap": lambda _: str((found - least > 1.0).sum()),
        "turnaround, h": f"{of} | hours : .2f",
        "bound, h": of.replace("{}", BOUND) + " | hours : .2f",
        "over the bound": f"{of} | over={BOUND} : .2f",
    }, corner="best in turnaround")  # fmt: skip


def knowledge(results: Results, case: str) -> Rows:
    """Return which share of the gap that requests leave is closed, for each kind of estimates."""
    there, fast = results.arms(TURNAROUND, case), best(results, case, TURNAROUND)

    def share(arm: str, known: str) -> str:
        name = f"{arm}, {known}" if known else arm
        asked = _filled(results, case, GAP).replace("{}", name)
        return told(results, asked) if name in there and name != fast else ""

    arms = ("SAF", "f2", "hold", "shortest first", "ppo", f"evolution, {ALL}")
    known = [each for each in ESTIMATES if not each or f"SAF, {each}" in there]
    columns = {arm: partial(share, arm) for arm in arms}
    return grid(results, known, columns, labels={"": f"requested, from {fast}"}, corner="estimates")


# --- numbers and verdicts -------------------------------------------------------------------------


def _asked(results: Results, question: str, arm: str, case: str) -> Estimate:
    text = _filled(results, case, question).partition(" : ")[0]
    found: Estimate = results.ask(text.replace("{}", arm))
    return found


def over_best_rule(results: Results, arm: str, case: str) -> Estimate:
    """Return the slowdown of an arm over that of the best rule on a log."""
    return _asked(results, RATIO, arm, case)


def of_the_gap(results: Results, arm: str, case: str) -> Estimate:
    """Return which share of the gap from the best rule to the bound it closes, in percent."""
    return _asked(results, GAP, arm, case)


def is_better(results: Results, arm: str, case: str) -> str:
    """Return the verdict on whether an arm is better than the best rule in slowdown."""
    return judged(over_best_rule(results, arm, case), "<", 1.0, 1.0)


def is_no_worse(results: Results, arm: str, case: str) -> bool:
    """Return whether it is not surely worse."""
    return not over_best_rule(results, arm, case).surely(1.0)


def closes_some(results: Results, arm: str, case: str) -> str:
    """Return the verdict on whether it closes some of the gap."""
    return judged(of_the_gap(results, arm, case), ">", 0.0)


FUNCTIONS: Final = (
    by_log, everyone, over_best_rule, of_the_gap, is_better, is_no_worse, closes_some
)  # fmt: skip
