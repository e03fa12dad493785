"""The tables, numbers and verdicts of both pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from simkit.analysis.intervals import Estimate
from simkit.learners.studies.deeprm.judge import (
    FAMILIES,
    RESERVING,
    TETRIS,
    WITHHOLDING,
    original,
    seeded,
)
from simkit.learners.studies.deeprm.trainings import (
    ALL,
    COMPLETION,
    FIXED,
    RATES,
    trained_at,
)
from simkit.learners.studies.deeprm.withheld import PLAYED, of_length
from simkit.learners.studies.page import Rows
from simkit.learners.studies.results import Results

OPPONENTS: Final = ("SJF", "Packer", *TETRIS)
"""The paper's baselines, Tetris with every knob."""
LEARNING: Final = "learning curve"
"""The case of the curves; an item is an iteration."""
CURVE: Final = "held_out_slowdown"
SHORT: Final = 3
"""The most steps of a short job of this workload."""
MOST_ABOVE: Final = 1.0
"""The most, in per cent, by which our agent for all loads may be above the best rule."""
BELOW: Final = range(50, 131)
"""At these loads it must be below the best rule, the interval too."""


def loads(results: Results) -> list[int]:
    """Return the loads that were judged."""
    cases = set(results.rows["case"])
    return [load for load in RATES if original(load) in cases]


def best(results: Results, case: str, arms: Iterable[str]) -> str:
    """Return the arm with the lowest mean slowdown; of equal ones the first."""
    return results.ranked("slowdown", case, arms)[0]


def trainings(results: Results, load: int) -> list[str]:
    """Return the arms of the paper's recipe for slowdown that were judged at a load."""
    arms = set(results.arms("slowdown", original(load)))
    return [trained_at(at) for at in RATES if trained_at(at) in arms]


def deeprm(results: Results, load: int) -> str:
    """Return the best of these."""
    return best(results, original(load), trainings(results, load))


def _against(results: Results, load: int, rules: Iterable[str]) -> Estimate:
    """Return by how many per cent DeepRM's slowdown is above that of the best of some rules."""
    rule = best(results, original(load), rules)
    asked = f"slowdown | {deeprm(results, load)} | {original(load)} | over={rule} | percent"
    found: Estimate = results.ask(asked)
    return found


# --- rows and tables ------------------------------------------------------------------------------


def every_load(results: Results) -> list[dict[str, str]]:
    """Return for each load who is best there, and words: rows of tables."""
    return [_names(results, load) for load in loads(results)]


def _names(results: Results, load: int) -> dict[str, str]:
    case, sets = original(load), seeded(load)
    agent, tetris = deeprm(results, load), best(results, case, TETRIS)
    family, chosen = best(results, sets, FAMILIES), results.facts["chosen rules"][sets]
    over = results.ask(f"slowdown | {ALL} | {sets} | over={family} | percent")
    strict = load in BELOW
    below = over.high is not None and over.high < 0
    return {
        "load": str(load), "case": case, "sets": sets, "agent": agent, "tetris": tetris,
        "knob": tetris.removeprefix("Tetris "), "trained": agent.removeprefix("trained at "),
        "best": best(results, case, OPPONENTS), "reserving": best(results, case, RESERVING),
        "withholding": best(results, case, WITHHOLDING),
        "unfinished": f"{results.values('unfinished', agent, case)[0].sum():.0f}",
        "family": family, "rule": chosen[family],
        "chosen knob": chosen["Tetris"].removeprefix("Tetris "),
        "headroom": ", ".join(chosen["headroom"].split()[1::2]),
        "bar": "below it, the interval too" if strict else f"at most {MOST_ABOVE:.0f} % above it",
        "met": "yes" if (below if strict else over.value <= MOST_ABOVE) else "**no**",
    }  # fmt: skip


def objectives(results: Results) -> dict[str, str]:
    """Return the arms of figure 5, two objectives at 130 %, with their labels."""
    rules = ("SJF", "Packer", best(results, original(130), TETRIS), "Random")
    agents = {deeprm(results, 130): "DeepRM for slowdown", COMPLETION: "DeepRM for completion time"}
    return {**dict.fromkeys(rules, ""), **agents}


def learning(results: Results) -> Rows:
    """Return figure 6: the curves at 70 %, lowest and highest seed."""
    rows = [["iteration", "fresh job sets, each seed", "the paper's fixed ones, 1 seed"]]
    curves = [results.values(CURVE, arm, LEARNING) for arm in (trained_at(70), FIXED)]
    for iteration in (0, 50, 100, 200, 300, 400, 600, 800, 1000):
        cells = [values[:, items == iteration] for values, items in curves]
        if any(cell.size for cell in cells):
            rows.append([f"{iteration:,}", *map(_between, cells)])
    return rows


def _between(values: Any) -> str:
    ends = (values.min(), values.max()) if values.size else ()
    return "–".join(dict.fromkeys(f"{end:.2f}" for end in ends))


def first_below_tetris(results: Results) -> int | str:
    """Return the first iteration at 70 % whose mean over seeds is below the best Tetris."""
    case = original(70)
    tetris = results.mean("slowdown", best(results, case, TETRIS), case)
    values, items = results.values(CURVE, trained_at(70), LEARNING)
    below = items[values.mean(axis=0) < tetris]
    return int(below[0]) if len(below) else "–"


def lengths(results: Results) -> list[str]:
    """Return the lengths of the jobs that were watched."""
    cases = set(results.rows["case"])
    return [str(steps) for steps in range(1, 100) if of_length(steps) in cases]


def watched(results: Results) -> str:
    """Return the arm whose agents were watched."""
    return results.arms("steps", PLAYED)[0]


def jobs_by_length(results: Results) -> list[dict[str, str]]:
    """Return what names the rows of figure 7."""
    return [{"steps": steps, "agent": watched(results)} for steps in lengths(results)]


def count(results: Results, metric: str, steps: str) -> int:
    """Return how many jobs of a length there are, or were withheld, all seeds together."""
    return int(results.values(metric, watched(results), of_length(steps))[0].sum().round())


# --- numbers and verdicts -------------------------------------------------------------------------


def over_the_best(results: Results, load: str) -> Estimate:
    """Return by how many per cent DeepRM's slowdown is above that of the best of its baselines."""
    return _against(results, int(load), OPPONENTS)


def over_withholding(results: Results, load: str) -> Estimate:
    """Return the same for the best of the rules that withhold long jobs."""
    return _against(results, int(load), WITHHOLDING)


def long_jobs(results: Results, metric: str) -> float:
    """Return the share of jobs longer than `SHORT` among all, or among those withheld."""
    numbers = {steps: count(results, metric, steps) for steps in lengths(results)}
    return sum(numbers[steps] for steps in numbers if int(steps) > SHORT) / max(
        sum(numbers.values()), 1
    )


def soon_better(results: Results) -> bool:
    """Return whether DeepRM is better than Tetris within 200 iterations."""
    first = first_below_tetris(results)
    return isinstance(first, int) and first <= 200


def nearly_always_long(results: Results) -> bool:
    """Return whether more than 90 % of the jobs that are withheld are long."""
    return long_jobs(results, "withheld_jobs") > 0.9


FUNCTIONS: Final = (
    every_load, objectives, learning, jobs_by_length, count, over_the_best, over_withholding,
    first_below_tetris, long_jobs, soon_better, nearly_always_long,
)  # fmt: skip
