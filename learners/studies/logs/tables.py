"""The tables of the study of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from simkit.analysis.intervals import Estimate
from simkit.learners.studies.logs.judge import ESTIMATES, RULES, TURNAROUND
from simkit.learners.studies.logs.trainings import ALL, JOBS, LOGS
from simkit.learners.studies.page import (
    CONFIRMED,
    NOT_CONFIRMED,
    Claim,
    Rows,
    grid,
    judged,
    told,
)
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


def by_log(results: Results, rows: Callable[[Results, str], Rows]) -> Rows:
    """Return the tables of all logs as one."""
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


def asked(results: Results, question: str, arm: str, case: str) -> Estimate:
    """Return the answer to `RATIO` or `GAP` for an arm on a log."""
    text = _filled(results, case, question).partition(" : ")[0]
    found: Estimate = results.ask(text.replace("{}", arm))
    return found


def _verdict(results: Results, sign: str, question: str, arm: str, case: str) -> str:
    """Return whether an answer is surely on a side of no effect; ``no worse``: not on the other."""
    found, no_effect = asked(results, question, arm, case), 1.0 if question == RATIO else 0.0
    if sign == "no worse":
        return NOT_CONFIRMED if found.surely(no_effect) else CONFIRMED
    return judged(found, sign, no_effect, no_effect)


ONE: Final = f"evolution, {ALL}"
ASKED: Final = {"slowdown": (RATIO, ".2f"), "gap": (GAP, ".0f")}
EXPECTED: Final = (
    ("a scorer trained on it is better than the best rule", "evolution", "slowdown", "<"),
    ("one scorer for all is not surely worse than the best rule", ONE, "slowdown", "no worse"),
    ("one scorer for all closes some of the gap, %", ONE, "gap", ">"),
    ("true run times close some of it under SAF, %", "SAF, actual", "gap", ">"),
)
CLAIMS: Final = tuple(
    Claim(log.name, words, f"{{{{number: {what} of {arm} on {log.name} : {ASKED[what][1]} ±}}}}",
          partial(_verdict, sign=sign, question=ASKED[what][0], arm=arm, case=log.name))
    for words, arm, what, sign in EXPECTED
    for log in LOGS
    if log.trained or arm == ONE
)  # fmt: skip
NUMBERS: Final[Mapping[str, Callable[[Results], Estimate]]] = {
    f"{what} of {arm} on {log.name}": partial(asked, question=question, arm=arm, case=log.name)
    for what, (question, _) in ASKED.items()
    for arm in ("SAF, actual", "evolution", ONE)
    for log in LOGS
}
TABLES: Final[Mapping[str, Callable[[Results], Rows]]] = {
    **{table.__name__: partial(by_log, rows=table) for table in (gains, windows, knowledge)},
    **{log.name: partial(everyone, case=log.name) for log in LOGS},
}
