"""The tables of the comparison with RLScheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.learners.studies.page import Rows, grid
from simkit.learners.studies.results import Results
from simkit.learners.studies.rlscheduler.judge import (
    OURS,
    SCORER,
    THEIRS,
    case_of,
    their_case,
)
from simkit.learners.studies.rlscheduler.logs import (
    LOGS,
    PUBLISHED,
    RULES,
    THEIR_RULES,
    Agent,
    Log,
)

SLOWDOWN: Final = "bounded_slowdown"
BARS: Final[Mapping[str, tuple[Sequence[str], float, str]]] = {
    "Lublin-1": (("saf", "log-r-n"), 1.0, "the better of saf and log-r-n"),
    "SDSC-SP2": (tuple(RULES), 0.97, "the best rule"),
    "HPC2N": (("f2",), 0.9, "this rule"),
    "Lublin-2": (("saf", "log-r-n"), 1.0, "the better of saf and log-r-n"),
}
"""Log → rules, the largest allowed ratio to the best one's mean, and that rule in words."""


def by_window(results: Results, arm: str, case: str, metric: str = SLOWDOWN) -> Floats:
    """Return (W,) values of the windows; of scorers the mean over their seeds."""
    values: Floats = results.values(metric, arm, case)[0].mean(axis=0)
    return values


def won(results: Results, arm: str, case: str, rule: str) -> float:
    """Return the share of windows in which an arm's slowdown is below a rule's."""
    return float((by_window(results, arm, case) < by_window(results, rule, case)).mean())


def bars(results: Results) -> Rows:
    """Return whether each kind of scorer meets the bar of its log."""
    rows: list[Sequence[str]] = [
        ("log", "bar", "scorer", "mean", "mean / rule", "geometric / rule", "windows won",
         "bar met"),
    ]  # fmt: skip
    for name, (rules, share, words) in BARS.items():
        case = case_of(name, "others")
        rule = results.ranked(SLOWDOWN, case, rules)[0]
        limit = f"at most {share:g} of {words}: {rule}, {results.mean(SLOWDOWN, rule, case):.1f}"
        for arm in _scorers(results, case):
            ratio = results.ask(f"{SLOWDOWN} | {arm} | {case} | over={rule}")
            geometric = results.ask(f"{SLOWDOWN} | {arm} | {case} | geometric over={rule}")
            over = ratio.value / share - 1
            rows.append((
                name, limit, arm, f"{results.mean(SLOWDOWN, arm, case):.1f}", f"{ratio:.2f}",
                f"{geometric:.2f}", f"{won(results, arm, case, rule):.0%}",
                "yes" if over <= 0 else f"no, missed by {over:.1%}",
            ))  # fmt: skip
    return rows


def _scorers(results: Results, case: str) -> list[str]:
    return [arm for arm in results.arms(SLOWDOWN, case) if arm.startswith("scorer")]


def standings(results: Results, case: str) -> Rows:
    """Return everyone on a set of windows, beside the rule with the lowest mean there."""
    order = results.ranked(SLOWDOWN, case)
    best = next(arm for arm in order if arm in RULES)
    asked = f"{SLOWDOWN} | {{}} | {case}"
    return grid(
        results,
        order,
        {
            "mean": f"{asked} : .1f",
            "of each seed": f"{asked} : seeds .1f",
            "median": lambda arm: f"{np.median(by_window(results, arm, case)):.1f}",
            "geometric mean": lambda arm: f"{_geometric_mean(results, arm, case):.1f}",
            f"mean / {best}": f"{asked} | over={best} : .2f ±",
            f"geometric / {best}": f"{asked} | geometric over={best} : .2f ±",
            "windows won": lambda arm: (
                "" if arm == best else f"{won(results, arm, case, best):.0%}"
            ),
            "makespan": f"makespan_s | {{}} | {case} | geometric over={best} : .2f",
            "area-weighted wait, h": f"area_weighted_wait_s | {{}} | {case} | hours : .1f",
            "longest wait, h": f"longest_wait_s | {{}} | {case} | hours : .0f",
        },
    )


def _geometric_mean(results: Results, arm: str, case: str) -> float:
    return float(np.exp(np.log(by_window(results, arm, case)).mean()))


def published(results: Results) -> Rows:
    """Return the published table: orders and scorers by its rules; bold: below the agent's."""
    rows: list[Sequence[str]] = [
        ("log", "backfilling", *(name.removeprefix("rlscheduler-") for name in THEIRS),
         "published agent", *OURS, "scorer, mean of seeds", "its seeds"),
    ]  # fmt: skip
    for log in LOGS:
        for backfilling in (False, True):
            case, limit = their_case(log.name, backfilling=backfilling), log.published[backfilling]
            mean = partial(results.mean, SLOWDOWN, case=case)
            orders = {name: _shown(mean(name), limit) for name in (*THEIRS, *OURS)}
            rules = _still_the_rule(results, log, backfilling=backfilling)
            seeds = [
                _shown(mean(SCORER, seed=seed), -np.inf if is_rule else limit) + "†" * is_rule
                for seed, is_rule in enumerate(rules)
            ]
            rows.append((
                log.name, "yes" if backfilling else "no", *(orders[name] for name in THEIRS),
                f"{limit:.2f}", *(orders[name] for name in OURS),
                _shown(mean(SCORER), -np.inf if any(rules) else limit), ", ".join(seeds),
            ))  # fmt: skip
    return rows


def _shown(value: float, limit: float) -> str:
    return f"**{value:.2f}**" if value < limit else f"{value:.2f}"


def _still_the_rule(results: Results, log: Log, *, backfilling: bool) -> list[bool]:
    """Return for each seed whether its training found nothing better than its initial rule."""
    case = their_case(log.name, backfilling=backfilling)
    seeds = range(len(results.values(SLOWDOWN, SCORER, case)[0]))
    agents = [
        [Agent(log.name, part, 0, seed, THEIR_RULES[backfilling]).name for part in log.parts]
        for seed in seeds
    ]
    return [any(name in results.facts["never better"] for name in names) for names in agents]


def as_published(results: Results) -> str:
    """Return how many numbers of the paper's own orders equal the published table's."""
    cells = [
        (results.mean(SLOWDOWN, name, their_case(log.name, backfilling=backfilling)), number)
        for log in LOGS
        for backfilling in (False, True)
        for name, number in zip(THEIRS, PUBLISHED[log.name][backfilling], strict=True)
    ]
    same = sum(f"{found:.2f}" == f"{number:.2f}" for found, number in cells)
    return f"{same} of their {len(cells)}"


def never_improved(results: Results) -> str:
    """Return the trainings whose scorer still is the initial rule."""
    return ", ".join(f"`{name}`" for name in results.facts["never better"])


FUNCTIONS: Final = (bars, published, standings, as_published, never_improved)
