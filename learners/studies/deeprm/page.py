"""What the page of the comparison with DeepRM calls by name: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from simkit.analysis.intervals import Estimate
from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.deeprm import judge
from simkit.learners.studies.deeprm.judge import TETRIS, WITHHOLDING, original
from simkit.learners.studies.deeprm.trainings import ALL, COMPLETION, FIXED, RATES, trained_at
from simkit.learners.studies.deeprm.withheld import BEST_TETRIS, PLAYED, of_length
from simkit.learners.studies.page import Rows
from simkit.learners.studies.pictures import Figure, draw_line, empty_figure, log_ticks
from simkit.learners.studies.results import Results

OPPONENTS: Final = ("SJF", "Packer", *judge.TETRIS)
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
    return [load for load in RATES if judge.original(load) in cases]


def best(results: Results, case: str, arms: Iterable[str]) -> str:
    """Return the arm with the lowest mean slowdown; of equal ones the first."""
    return results.ranked("slowdown", case, arms)[0]


def trainings(results: Results, load: int) -> list[str]:
    """Return the arms of the paper's recipe for slowdown that were judged at a load."""
    arms = set(results.arms("slowdown", judge.original(load)))
    return [trained_at(at) for at in RATES if trained_at(at) in arms]


def deeprm(results: Results, load: int) -> str:
    """Return the best of these."""
    return best(results, judge.original(load), trainings(results, load))


def _against(results: Results, load: int, rules: Iterable[str]) -> Estimate:
    """Return by how many per cent DeepRM's slowdown is above that of the best of some rules."""
    rule = best(results, judge.original(load), rules)
    asked = f"slowdown | {deeprm(results, load)} | {judge.original(load)} | over={rule} | percent"
    found: Estimate = results.ask(asked)
    return found


# --- rows and tables ------------------------------------------------------------------------------


def every_load(results: Results) -> list[dict[str, str]]:
    """Return for each load who is best there, and words: rows of tables."""
    return [_names(results, load) for load in loads(results)]


def _names(results: Results, load: int) -> dict[str, str]:
    case, sets = judge.original(load), judge.seeded(load)
    agent, tetris = deeprm(results, load), best(results, case, judge.TETRIS)
    family, chosen = best(results, sets, judge.FAMILIES), results.facts["chosen rules"][sets]
    over = results.ask(f"slowdown | {ALL} | {sets} | over={family} | percent")
    strict = load in BELOW
    below = over.high is not None and over.high < 0
    return {
        "load": str(load), "case": case, "sets": sets, "agent": agent, "tetris": tetris,
        "knob": tetris.removeprefix("Tetris "), "trained": agent.removeprefix("trained at "),
        "best": best(results, case, OPPONENTS), "reserving": best(results, case, judge.RESERVING),
        "withholding": best(results, case, judge.WITHHOLDING),
        "unfinished": f"{results.values('unfinished', agent, case)[0].sum():.0f}",
        "family": family, "rule": chosen[family],
        "chosen knob": chosen["Tetris"].removeprefix("Tetris "),
        "headroom": ", ".join(chosen["headroom"].split()[1::2]),
        "bar": "below it, the interval too" if strict else f"at most {MOST_ABOVE:.0f} % above it",
        "met": "yes" if (below if strict else over.value <= MOST_ABOVE) else "**no**",
    }  # fmt: skip


def objectives(results: Results) -> dict[str, str]:
    """Return the arms of figure 5, two objectives at 130 %, with their labels."""
    rules = ("SJF", "Packer", best(results, judge.original(130), judge.TETRIS), "Random")
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
    case = judge.original(70)
    tetris = results.mean("slowdown", best(results, case, judge.TETRIS), case)
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
    return _against(results, int(load), judge.WITHHOLDING)


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


# --- pictures -------------------------------------------------------------------------------------


def draw_loads(results: Results) -> Figure:
    """Draw figure 4: mean slowdown over the load, of the best of each kind."""
    figure, x = empty_figure(), loads(results)
    axes = figure.subplots()
    lines = {
        "Packer": ["Packer"] * len(x),
        "SJF": ["SJF"] * len(x),
        "best Tetris": [best(results, original(load), TETRIS) for load in x],
        "best withholding rule": [best(results, original(load), WITHHOLDING) for load in x],
        "DeepRM": [deeprm(results, load) for load in x],
    }
    for colour, (label, arms) in zip(COLOURS, lines.items(), strict=False):
        asked = [f"slowdown | {arm} | {original(load)}" for arm, load in zip(arms, x, strict=True)]
        draw_line(axes, results, x, asked, band=0.2 if label == "DeepRM" else 0.0, color=colour,
                  label=label, marker="o", markersize=3.5)  # fmt: skip
    axes.set(xlabel="offered load, %", ylabel="mean slowdown")
    log_ticks(axes, [1, 2, 3, 5, 10, 20])
    axes.legend()
    return figure


def draw_learning(results: Results) -> Figure:
    """Draw figure 6: slowdown on unseen job sets, and returns, over the iterations."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    arms = [trained_at(load) for load in RATES]
    known = results.arms(CURVE, LEARNING)
    for number, arm in enumerate(arm for arm in arms if arm in known):
        values, items = results.values(CURVE, arm, LEARNING)
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.1}
        left.plot(items, values[0], label=arm.removeprefix("trained at "), **style)
        left.plot(items, values[1:].T, **style)
        if arm == trained_at(70):
            values, items = results.values(CURVE, FIXED, LEARNING)
            left.plot(items, values[0], linestyle="--", **style)
    left.set(xlabel="iteration", ylabel="slowdown on unseen job sets")
    log_ticks(left, [1.5, 2, 3, 5, 9])
    left.legend(title="dashed: fixed job sets")
    for colour, (metric, label) in zip(
        COLOURS, (("return_best", "best rollout"), ("return", "mean")), strict=False
    ):
        values, items = results.values(metric, trained_at(70), LEARNING)
        right.plot(items, values[0], color=colour, label=label)
    right.set(xlabel="iteration", ylabel="return of a job set at 70 %")
    right.legend()
    return figure


def draw_withheld(results: Results) -> Figure:
    """Draw figure 7: which lengths are withheld, and slowdown by length."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    steps = lengths(results)
    x, held = list(map(int, steps)), [count(results, "withheld_jobs", one) for one in steps]
    left.bar(x, [one / max(sum(held), 1) for one in held], color=COLOURS[0])
    left.set(xlabel="length of the job, steps", ylabel="share of what was withheld")
    for arm, style, colour, label in (
        (watched(results), "o", COLOURS[4], "DeepRM"),
        (BEST_TETRIS, "s", COLOURS[1], "Tetris"),
    ):  # fmt: skip
        means = [results.mean("slowdown", arm, of_length(one)) for one in steps]
        right.plot(x, means, style, color=colour, label=label)
    right.set(xlabel="length of the job, steps", ylabel="mean slowdown")
    right.legend()
    return figure
