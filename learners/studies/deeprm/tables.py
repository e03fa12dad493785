"""The tables, numbers and claims of both pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
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
from simkit.learners.studies.page import (
    CONFIRMED,
    NOT_CONFIRMED,
    Claim,
    Contents,
    Rows,
    fill,
    grid,
    told,
)
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


def against(results: Results, load: int, rules: Iterable[str]) -> Estimate:
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


BY_LOAD: Final = {
    "load": "[load] %", "SJF": _at("SJF"), "Packer": _at("Packer"),
    "best Tetris (knob)": f"{_at('[tetris]')} ([knob])", "Random": _at("Random"),
    "DeepRM": _at("[agent]", ".2f ±"), "each seed": _at("[agent]", "seeds .2f"),
    "trained at": "[trained]", "over the best, %": _over("[agent]", "[best]", "case", "+.0f ±"),
    "its completion time over that, %": _over("[agent]", "[best]", "case", "+.0f", "turnaround"),
    "unfinished": "[unfinished]",
}  # fmt: skip
"""Figure 4: head → cell, with holes for numbers and ``[…]`` for what `_names` gives."""
OTHER_RULES: Final = {
    "load": "[load] %", "DeepRM": _at("[agent]", ".2f ±"),
    "best reserving rule": f"{_at('[reserving]')} ([reserving])",
    "DeepRM over that, %": _over("[agent]", "[reserving]", "case", "+.0f ±"),
    "best withholding rule": f"{_at('[withholding]')} ([withholding])",
    "DeepRM over this, %": _over("[agent]", "[withholding]", "case", "+.0f ±"),
}  # fmt: skip
BARS: Final = {
    "load": "[load] %", "best rule": "[rule], " + _among("[family]"),
    "one agent over it, %": _over(ALL, "[family]", "sets", "+.1f ±"),
    "its completion time over that, %": _over(ALL, "[family]", "sets", "+.1f", "turnaround"),
    "bar": "[bar]", "met": "[met]",
}  # fmt: skip
OURS: Final = {
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


def by_load(results: Results, columns: Mapping[str, str]) -> Rows:
    """Return a table with a row for each load; a dash stands for what was not measured."""
    rows, contents = [list(columns)], Contents(results, {}, {}, small=True)
    for load in loads(results):
        names = _names(results, load)
        cells = [
            re.sub(r"\[([a-z ]+)\]", lambda name: names[name[1]], cell)  # noqa: B023
            for cell in columns.values()
        ]
        rows.append([fill(cell, contents) for cell in cells])
    return rows


def _by_training(results: Results) -> Rows:
    """Return all agents of the paper's recipe at all loads."""
    arms = trainings(results, loads(results)[0])
    return by_load(results, {"load": "[load] %", **{arm: _at(arm, ".2f ±") for arm in arms}})


# --- further tables -------------------------------------------------------------------------------


def _objectives(results: Results) -> Rows:
    """Return figure 5: two objectives at 130 %."""
    case, arm = original(130), deeprm(results, 130)
    return grid(
        results,
        ["SJF", "Packer", best(results, case, TETRIS), "Random", arm, COMPLETION],
        {"mean slowdown": f"slowdown | {{}} | {case}",
         "mean completion time, steps": f"turnaround | {{}} | {case} : .1f"},
        labels={arm: "DeepRM for slowdown", COMPLETION: "DeepRM for completion time"},
    )  # fmt: skip


def _learning(results: Results) -> Rows:
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


def share_of_long(results: Results, metric: str) -> float:
    """Return the share of jobs longer than `SHORT` among all, or among those withheld."""
    numbers = {steps: count(results, metric, steps) for steps in lengths(results)}
    return sum(numbers[steps] for steps in numbers if steps > SHORT) / max(sum(numbers.values()), 1)


def _withheld(results: Results) -> Rows:
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


# --- numbers and claims ---------------------------------------------------------------------------


def _soon_better(results: Results) -> str:
    first = first_below_tetris(results)
    return CONFIRMED if isinstance(first, int) and first <= 200 else NOT_CONFIRMED


def _nearly_always_long(results: Results) -> str:
    return CONFIRMED if share_of_long(results, "withheld_jobs") > 0.9 else NOT_CONFIRMED


def _at_loads(rules: str) -> str:
    return "; ".join(
        f"{load} %: {{{{number: {rules} at {load} : +.0f ±}}}} %" for load in (10, 70, 110, 130)
    )


CLAIMS: Final = (
    Claim(
        "4", "Better than SJF, Packer and Tetris at high load, comparable elsewhere",
        "Slowdown over that of the best of SJF, Packer and Tetris with any knob: "
        f"{_at_loads('over the best')}. Over that of the best of "
        f"[a simple rule that withholds long jobs](#a-rule-that-withholds): "
        f"{_at_loads('over withholding')}.",
        "slowdown | trained at 130 % | 130 % | over=Tetris 0.0005 < 1",
        ("Tetris' knob is not published, and what its scripts plot as Tetris is Packer. Slowdowns "
         "are floored job by job (division of integers), and jobs without an end are left out.",),
    ),
    Claim(
        "5", "At 130 %, best at each objective when trained for it",
        "Trained for slowdown: slowdown {{number: slowdown | trained at 130 % | 130 % : .2f ±}}, "
        "completion time {{number: turnaround | trained at 130 % | 130 % : .1f}} steps; trained "
        "for completion time: {{number: slowdown | trained for completion time | 130 % : .2f}}, "
        "{{number: turnaround | trained for completion time | 130 % : .2f ±}}. Best rule by "
        "completion time: Tetris 0.0005, {{number: turnaround | Tetris 0.0005 | 130 % : .1f}}.",
        f"turnaround | {COMPLETION} | 130 % | over=Tetris 0.0005 < 1",
        ("The reward of the completion time is minus the number of jobs in the system.",),
    ),
    Claim(
        "6", "Better than Tetris after 200 iterations, converged near 1,000",
        "With fresh job sets better than Tetris after {{number: first below Tetris}} iterations, "
        "on unseen sets.",
        _soon_better,
        ("100 fixed job sets: they are learned by heart after some 300 iterations.",),
    ),
    Claim(
        "7", "At 110 %, in 23.4 % of the steps a job is withheld that would fit, nearly always a "
        "long one",
        "In {{number: withholding steps : .1%}} of the steps; {{number: long, withheld : .1%}} of "
        "the jobs that are ever withheld are longer than 3 steps, of all jobs "
        "{{number: long, all : .1%}}.",
        _nearly_always_long, ("–",),
    ),
)  # fmt: skip
NUMBERS: Final[Mapping[str, Callable[[Results], Any]]] = {
    **{f"over the best at {load}": partial(against, load=load, rules=OPPONENTS) for load in RATES},
    **{f"over withholding at {load}": partial(against, load=load, rules=tuple(WITHHOLDING))
       for load in RATES},
    "first below Tetris": first_below_tetris,
    "withholding steps": lambda found: found.mean("withholding steps", watched(found), PLAYED),
    "long, withheld": partial(share_of_long, metric="withheld_jobs"),
    "long, all": partial(share_of_long, metric="jobs"),
}  # fmt: skip
TABLES: Final[Mapping[str, Callable[[Results], Rows]]] = {
    "by load": partial(by_load, columns=BY_LOAD), "by training": _by_training,
    "objectives": _objectives, "learning": _learning, "withheld": _withheld,
    "other rules": partial(by_load, columns=OTHER_RULES),
    "bars": partial(by_load, columns=BARS), "our agents": partial(by_load, columns=OURS),
}  # fmt: skip
