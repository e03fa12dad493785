"""The tables of the comparison with DeepJS."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from simkit.learners.studies.deepjs.agreement import AGREEMENT, HALVES
from simkit.learners.studies.deepjs.judge import (
    BALANCE,
    BOUND,
    FIRST_FIT,
    LONGEST,
    OPTIONS,
    SIMPLE,
    TEST,
    TETRIS,
)
from simkit.learners.studies.deepjs.trainings import OBJECTIVES
from simkit.learners.studies.page import Rows, grid, told
from simkit.learners.studies.results import Results

HEADLINE: Final = ("lookahead of rules and fitness", "fitness", BALANCE, LONGEST, "deepjs-paper",
                   "random", FIRST_FIT, TETRIS)  # fmt: skip
PUBLISHED: Final = ("published, of 320 chunks", "", "", "", "", "45/36/239", "44/37/239")
"""Table 2 of the paper, as a row of the ranking."""
FIRST: Final = "seed=0 | "
"""Part of a question: of the first training alone."""
CORRELATIONS: Final = {"5 and 10 machines": "0.74", "chunk 5 and chunk 6": "0.55"}
"""Published correlations (figure 5)."""


def counts(results: Results, arm: str, case: str = TEST, rival: str = FIRST_FIT) -> str:
    """Return on how many chunks an arm's makespan is larger, equal and smaller than a rival's."""
    above, below = (results.mean(f"{side} {rival}", arm, case) for side in ("above", "below"))
    chunks = len(results.values("makespan", BALANCE, case)[1])
    shares = (above, 1 - above - below, below)
    return "/".join(f"{chunks * share:.1f}".removesuffix(".0") for share in shares)


def over(results: Results, arm: str, other: str = BOUND, case: str = TEST) -> float:
    """Return by how many percent an arm's makespan is above another's, as a geometric mean."""
    apart = results.mean("log makespan", arm, case) - results.mean("log makespan", other, case)
    return 100 * math.expm1(apart)


def against_balance(goal: str, arm: str = "{}", case: str = TEST, more: str = "") -> str:
    """Return a question: the mean logarithm of the ratio to `balance`, in hundredths."""
    return f"log {goal} | {arm} | {case} | {more}less=balance | percent : +.2f ±"


def minutes(results: Results, arm: str) -> str:
    """Return the mean wall time of an arm's trainings; empty for a rule."""
    found = results.facts["minutes"].get(arm.removeprefix("lookahead of rules and "))
    return "" if found is None else f"{found:.1f} min"


def headline(results: Results) -> Rows:
    """Return gains beside their costs."""
    return grid(
        results,
        HEADLINE,
        {
            "larger / equal / smaller than first-fit": partial(counts, results),
            "makespan": against_balance("makespan"),
            "turnaround": partial(_cost, results, "turnaround"),
            "slowdown": partial(_cost, results, "slowdown"),
            "training": partial(minutes, results),
        },
    )


def _cost(results: Results, goal: str, arm: str) -> str:
    """Return an arm's cost against balance, of the first training; a dash: not measured."""
    if arm == BALANCE or arm not in results.arms(goal, TEST):
        return "" if arm == BALANCE else "–"
    return told(results, against_balance(goal, arm, more=FIRST))


def ranking(results: Results, case: str) -> Rows:
    """Return everyone below the published row, the best one last."""
    arms = [arm for arm in results.arms("makespan", case) if arm not in (BOUND, *OPTIONS)]
    asked = against_balance("makespan", case=case)
    head, *rows = grid(
        results,
        results.ranked("makespan", case, arms)[::-1],
        {
            "mean makespan": f"makespan | {{}} | {case} : ,.2f",
            "over the bound": lambda arm: f"{over(results, arm, case=case):.2f} %",
            "against balance": asked,
            "of each seed": asked.replace("±", "seeds"),
            "larger / equal / smaller than first-fit": partial(counts, results, case=case),
            "than Tetris": partial(counts, results, case=case, rival=TETRIS),
        },
    )
    return [head, PUBLISHED, *rows]


def sizes(results: Results) -> Rows:
    """Return the first fitness beside the rule balance on other numbers of machines."""
    cases = results.rows["case"].unique(maintain_order=True)
    return grid(
        results,
        cases.filter(cases.str.contains(r"^\d+ machines$")).to_list(),
        {
            "balance": f"makespan | {BALANCE} | {{}} : ,.2f",
            "fitness": "makespan | fitness | {} : ,.2f",
            "against balance": against_balance("makespan", "fitness", "{}"),
        },
    )


def sliding(results: Results) -> Rows:
    """Return mean makespans on the halves of the chunks to train on."""
    arms = ("deepjs-paper", FIRST_FIT, LONGEST, "random")
    return grid(results, HALVES, {arm: f"makespan | {arm} | {{}} : ,.1f" for arm in arms})


def agreement(results: Results) -> Rows:
    """Return the correlations of figure 5."""
    return grid(
        results,
        results.arms("pearson", AGREEMENT),
        {
            "published": lambda pair: CORRELATIONS.get(pair, ""),
            "Pearson, by seed": f"pearson | {{}} | {AGREEMENT} : seeds .2f",
            "Spearman, by seed": f"spearman | {{}} | {AGREEMENT} : seeds .2f",
        },
        corner="agents",
    )


def options(results: Results) -> Rows:
    """Return the costs of the learners' options by every objective."""
    asked: dict[str, Any] = {goal: against_balance(goal, more=FIRST) for goal in OBJECTIVES}
    arms = (*SIMPLE, "fitness", *OPTIONS)
    return grid(results, arms, {**asked, "training": partial(minutes, results)})


FUNCTIONS: Final = (headline, ranking, sizes, sliding, agreement, options, counts, over)
