"""The tables, numbers and verdicts of both pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    ALONE,
    COMPLETION,
    FIXED,
    RATES,
    trained_at,
)
from simkit.learners.studies.deeprm.withheld import BEST_TETRIS, PLAYED, of_length
from simkit.learners.studies.page import Contents, Rows, fill, grid, told
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


# --- tables with a row for each load --------------------------------------------------------------


def _asked(question: str, spec: str = ".2f") -> str:
    return f"{{{{number: {question} : {spec}}}}}"


def _at(arm: str, spec: str = ".2f") -> str:
    return _asked(f"slowdown | {arm} | [case]", spec)


def _over(arm: str, rule: str, case: str, spec: str, metric: str = "slowdown") -> str:
    return _asked(f"{metric} | {arm} | [{case}] | over={rule} | percent", spec)


def _among(arm: str, spec: str = ".3f") -> str:
    return _asked(f"slowdown | {arm} | [sets]", spec)


_FIGURE_4: Final = {
    "load": "[load] %", "SJF": _at("SJF"), "Packer": _at("Packer"),
    "best Tetris (knob)": f"{_at('[tetris]')} ([knob])", "Random": _at("Random"),
    "DeepRM": _at("[agent]", ".2f ±"), "each seed": _at("[agent]", "seeds .2f"),
    "trained at": "[trained]", "over the best, %": _over("[agent]", "[best]", "case", "+.0f ±"),
    "its completion time over that, %": _over("[agent]", "[best]", "case", "+.0f", "turnaround"),
    "unfinished": "[unfinished]",
}  # fmt: skip
_OTHER_RULES: Final = {
    "load": "[load] %", "DeepRM": _at("[agent]", ".2f ±"),
    "best reserving rule": f"{_at('[reserving]')} ([reserving])",
    "DeepRM over that, %": _over("[agent]", "[reserving]", "case", "+.0f ±"),
    "best withholding rule": f"{_at('[withholding]')} ([withholding])",
    "DeepRM over this, %": _over("[agent]", "[withholding]", "case", "+.0f ±"),
}  # fmt: skip
_BARS: Final = {
    "load": "[load] %", "best rule": "[rule], " + _among("[family]"),
    "one agent over it, %": _over(ALL, "[family]", "sets", "+.1f ±"),
    "its completion time over that, %": _over(ALL, "[family]", "sets", "+.1f", "turnaround"),
    "bar": "[bar]", "met": "[met]",
}  # fmt: skip
_OURS: Final = {
    "load": "[load] %",
    "SJF": _among("SJF"),
    "Packer": _among("Packer"),
    "Tetris (knob)": _among("Tetris") + " ([chosen knob])",
    "headroom (units, steps)": _among("headroom") + " ([headroom])",
    ALL: _among(ALL, ".3f ±"),
    "its seeds": _among(ALL, "seeds .3f"),
    ALONE: _among(ALONE, ".3f ±"),
    "their seeds": _among(ALONE, "seeds .3f"),
    "over the best rule, %": _over(ALONE, "[family]", "sets", "+.1f ±"),
}


BY_LOAD: Final[Mapping[str, Mapping[str, str]]] = {
    "figure 4": _FIGURE_4, "other rules": _OTHER_RULES, "bars": _BARS, "our agents": _OURS,
}  # fmt: skip
"""Table → head → cell, with holes for numbers and ``[…]`` for what `_names` gives."""


def _names(results: Results, load: int) -> dict[str, str]:
    """Return what the rows of a load may name: who is best, and words."""
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


def by_load(results: Results, table: str) -> Rows:
    """Return one of the tables with a row for each load; a dash: not measured."""
    return _by_load(results, BY_LOAD[table])


def _by_load(results: Results, columns: Mapping[str, str]) -> Rows:
    rows, contents = [list(columns)], Contents(results, small=True)
    for load in loads(results):
        names = _names(results, load)
        cells = [
            re.sub(r"\[([a-z ]+)\]", lambda name: names[name[1]], cell)  # noqa: B023
            for cell in columns.values()
        ]
        rows.append([fill(cell, contents) for cell in cells])
    return rows


def by_training(results: Results) -> Rows:
    """Return all agents of the paper's recipe at all loads."""
    arms = trainings(results, loads(results)[0])
    return _by_load(results, {"load": "[load] %", **{arm: _at(arm, ".2f ±") for arm in arms}})


# --- further tables -------------------------------------------------------------------------------


def objectives(results: Results) -> Rows:
    """Return figure 5: two objectives at 130 %."""
    case, arm = original(130), deeprm(results, 130)
    return grid(
        results,
        ["SJF", "Packer", best(results, case, TETRIS), "Random", arm, COMPLETION],
        {"mean slowdown": f"slowdown | {{}} | {case}",
         "mean completion time, steps": f"turnaround | {{}} | {case} : .1f"},
        labels={arm: "DeepRM for slowdown", COMPLETION: "DeepRM for completion time"},
    )  # fmt: skip


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


def lengths(results: Results) -> list[int]:
    """Return the lengths of the jobs that were watched."""
    cases = set(results.rows["case"])
    return [steps for steps in range(1, 100) if of_length(steps) in cases]


def watched(results: Results) -> str:
    """Return the arm whose agents were watched."""
    return results.arms("steps", PLAYED)[0]


def count(results: Results, metric: str, steps: int) -> int:
    """Return how many jobs of a length there are, or were withheld, all seeds together."""
    return int(results.values(metric, watched(results), of_length(steps))[0].sum().round())


def withheld(results: Results) -> Rows:
    """Return figure 7."""
    rows = [["length", "jobs", "withheld in some step", "slowdown, DeepRM", "slowdown, Tetris"]]
    for steps in lengths(results):
        counts = [f"{count(results, one, steps):,}" for one in ("jobs", "withheld_jobs")]
        means = [
            told(results, f"slowdown | {arm} | {of_length(steps)}")
            for arm in (watched(results), BEST_TETRIS)
        ]
        rows.append([str(steps), *counts, *means])
    return rows


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
    return sum(numbers[steps] for steps in numbers if steps > SHORT) / max(sum(numbers.values()), 1)


def soon_better(results: Results) -> bool:
    """Return whether DeepRM is better than Tetris within 200 iterations."""
    first = first_below_tetris(results)
    return isinstance(first, int) and first <= 200


def nearly_always_long(results: Results) -> bool:
    """Return whether more than 90 % of the jobs that are withheld are long."""
    return long_jobs(results, "withheld_jobs") > 0.9


FUNCTIONS: Final = (
    by_load, by_training, objectives, learning, withheld, over_the_best, over_withholding,
    first_below_tetris, long_jobs, soon_better, nearly_always_long,
)  # fmt: skip
