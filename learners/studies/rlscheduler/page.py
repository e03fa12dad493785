"""What the page of the comparison with RLScheduler calls by name: rows, numbers, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.learners.studies.page import Rows
from simkit.learners.studies.results import Results
from simkit.learners.studies.rlscheduler import judge, logs

SLOWDOWN: Final = "bounded_slowdown"
BARS: Final[Mapping[str, tuple[Sequence[str], float, str]]] = {
    "Lublin-1": (("saf", "log-r-n"), 1.0, "the better of saf and log-r-n"),
    "SDSC-SP2": (tuple(logs.RULES), 0.97, "the best rule"),
    "HPC2N": (("f2",), 0.9, "this rule"),
    "Lublin-2": (("saf", "log-r-n"), 1.0, "the better of saf and log-r-n"),
}
"""Log → rules, the largest allowed ratio to the best one's mean, and that rule in words."""


def _by_window(results: Results, arm: str, case: str) -> Floats:
    """Return (W,) slowdowns of the windows; of scorers the mean over their seeds."""
    values: Floats = results.values(SLOWDOWN, arm, case)[0].mean(axis=0)
    return values


def windows_won(results: Results, arm: str, case: str, rule: str) -> str:
    """Return the share of windows in which an arm's slowdown is below a rule's."""
    won = _by_window(results, arm, case) < _by_window(results, rule, case)
    return "" if arm == rule else f"{won.mean():.0%}"


def median(results: Results, arm: str, case: str) -> float:
    """Return the median slowdown of the windows."""
    return float(np.median(_by_window(results, arm, case)))


def geometric_mean(results: Results, arm: str, case: str) -> float:
    """Return the geometric mean slowdown of the windows."""
    return float(np.exp(np.log(_by_window(results, arm, case)).mean()))


def bars(results: Results) -> Iterator[dict[str, str]]:
    """Yield whether each kind of scorer meets the bar of its log."""
    for log, (rules, most, words) in BARS.items():
        case = judge.case_of(log, "others")
        rule = results.ranked(SLOWDOWN, case, rules)[0]
        limit = f"at most {most:g} of {words}: {rule}, {results.mean(SLOWDOWN, rule, case):.1f}"
        for arm in results.arms(SLOWDOWN, case):
            if arm.startswith("scorer"):
                ratio = results.ask(f"{SLOWDOWN} | {arm} | {case} | over={rule}").value / most
                met = "yes" if ratio <= 1 else f"no, missed by {ratio - 1:.1%}"
                yield {"log": log, "limit": limit, "arm": arm, "rule": rule, "met": met}


def best_rule(results: Results, case: str) -> str:
    """Return the rule with the lowest mean on a set of windows."""
    return next(arm for arm in results.ranked(SLOWDOWN, case) if arm in logs.RULES)


def standings(results: Results, case: str) -> list[dict[str, str]]:
    """Return everyone on a set of windows, the best first."""
    best = best_rule(results, case)
    return [{"arm": arm, "best": best} for arm in results.ranked(SLOWDOWN, case)]


def published(results: Results) -> Rows:
    """Return the published table: orders and scorers by its rules; bold: below the agent's."""
    rows: list[Sequence[str]] = [
        ("log", "backfilling", *(name.removeprefix("rlscheduler-") for name in judge.THEIRS),
         "published agent", *judge.OURS, "scorer, mean of seeds", "its seeds"),
    ]  # fmt: skip
    for log in logs.LOGS:
        for backfilling in (False, True):
            case, limit = (
                judge.their_case(log.name, backfilling=backfilling),
                log.published[backfilling],
            )
            mean = partial(results.mean, SLOWDOWN, case=case)
            orders = {name: _shown(mean(name), limit) for name in (*judge.THEIRS, *judge.OURS)}
            rules = _still_the_rule(results, log, backfilling=backfilling)
            seeds = [
                _shown(mean(judge.SCORER, seed=seed), -np.inf if is_rule else limit) + "†" * is_rule
                for seed, is_rule in enumerate(rules)
            ]
            rows.append((
                log.name, "yes" if backfilling else "no", *(orders[name] for name in judge.THEIRS),
                f"{limit:.2f}", *(orders[name] for name in judge.OURS),
                _shown(mean(judge.SCORER), -np.inf if any(rules) else limit), ", ".join(seeds),
            ))  # fmt: skip
    return rows


def _shown(value: float, limit: float) -> str:
    return f"**{value:.2f}**" if value < limit else f"{value:.2f}"


def _still_the_rule(results: Results, log: logs.Log, *, backfilling: bool) -> list[bool]:
    """Return for each seed whether its training found nothing better than its initial rule."""
    case = judge.their_case(log.name, backfilling=backfilling)
    seeds = range(len(results.values(SLOWDOWN, judge.SCORER, case)[0]))
    agents = [
        [
            logs.Agent(log.name, part, 0, seed, logs.THEIR_RULES[backfilling]).name
            for part in log.parts
        ]
        for seed in seeds
    ]
    return [any(name in results.facts["never better"] for name in names) for names in agents]


def as_published(results: Results) -> str:
    """Return how many numbers of the paper's own orders equal the published table's."""
    cells = [
        (results.mean(SLOWDOWN, name, judge.their_case(log.name, backfilling=backfilling)), number)
        for log in logs.LOGS
        for backfilling in (False, True)
        for name, number in zip(judge.THEIRS, logs.PUBLISHED[log.name][backfilling], strict=True)
    ]
    same = sum(f"{found:.2f}" == f"{number:.2f}" for found, number in cells)
    return f"{same} of their {len(cells)}"


def never_improved(results: Results) -> str:
    """Return the trainings whose scorer still is the initial rule."""
    return ", ".join(f"`{name}`" for name in results.facts["never better"])
