"""What the page of the comparison with SchedQRM calls: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.learners.studies.page import Rows, told
from simkit.learners.studies.pictures import Figure, Mark, curve, line, panel, picture
from simkit.learners.studies.results import Results
from simkit.learners.studies.schedqrm import classifiers as bursts
from simkit.learners.studies.schedqrm import judge, trainings
from simkit.learners.studies.schedqrm.classifiers import NETWORK, PAPER
from simkit.learners.studies.schedqrm.judge import BEST_RULE, REFERENCE, case_of
from simkit.learners.studies.schedqrm.logs import MEANS
from simkit.learners.studies.schedqrm.trainings import ALL_PARTS, PPO, WHOLE
from simkit.traces.elf_bursts.measurements import CLASSES, LONGEST_S

TABLE_II: Final = np.array([
    (1.00, 0.99, 1.00), (0.95, 0.99, 0.97), (0.99, 0.96, 0.97), (0.94, 0.93, 0.93),
    (0.89, 0.86, 0.88), (0.88, 0.95, 0.91), (0.94, 0.90, 0.92), (0.92, 0.98, 0.95),
    (0.98, 0.81, 0.89), (0.83, 1.00, 0.90),
])  # fmt: skip
"""Precision, recall and F1 of classes 1 to 10, as published."""
PUBLISHED_F1: Final = 0.932
"""Published macro F1."""
QUIET, SLOPE, SLACK = 0.005, 3.6, 0.04
"""The largest σ for which the published score is the bar; beyond it, what a perfect model loses per
unit of σ, and the most by which a model may be below that."""
MOST_BELOW: Final = 0.01
"""The most by which an agent may be worse than the reference at loads below 100 %."""
LABELS: Final = {WHOLE: "deep Q-network", ALL_PARTS: "deep Q-network"}
AT_ONCE: Final = case_of(judge.SHOWN[0])
_MODELS: Final = (bursts.LAW, bursts.NETWORK, bursts.PAPER)
"""Models that say how sure they are."""
_AGENTS: Final = ("paper", WHOLE, PPO)
Row = Sequence[str]


# --- burst times ----------------------------------------------------------------------------------


def bar(results: Results) -> float:
    """Return the macro F1 that the best model must reach, given the deviation of run times."""
    sigma: float = results.facts["sigma"]
    return PUBLISHED_F1 if sigma <= QUIET else 1 - SLOPE * sigma - SLACK


def _ends(results: Results, question: str, values: Floats) -> tuple[float, float]:
    """Return the least and the most of some values, or those that were published for a question."""
    least, most = results.facts.get("intervals", {}).get(question, (values.min(), values.max()))
    return least, most


def macro_f1(results: Results, model: str, case: str) -> str:
    """Return the mean macro F1, with the least and the most of several draws."""
    values = results.values("f1", model, case)[0].mean(axis=1)
    least, most = _ends(results, f"f1 | {model} | {case}", values)
    return f"{values.mean():.3f}" + (f" ({least:.3f} to {most:.3f})" if least < most else "")


def learned_from(results: Results, case: str) -> int:
    """Return the number of training programs in a case of a learning curve."""
    known: dict[str, int] = results.facts["learning curve"]
    if case not in known:
        raise RunError(f"no results of {case!r}")
    return known[case]


def burst_classes(results: Results) -> Rows:
    """Return precision, recall and F1 of each class, next to table II."""
    found = {"paper": TABLE_II}
    for model in (results.facts["best model"], bursts.NETWORK, bursts.PAPER):
        scores = [results.values(score, model, bursts.RANDOM)[0] for score in bursts.SCORES]
        found[model] = np.mean(scores, axis=1).T
    rows: list[Row] = [("class", "run time, s", *found)]
    for k, low in enumerate(np.arange(CLASSES) * (LONGEST_S / CLASSES)):
        span = f"{low:.2f} to {low + LONGEST_S / CLASSES:.2f}"
        rows.append((str(k + 1), span, *(_three(each[k]) for each in found.values())))
    return [*rows, ("mean", "", *(_three(each.mean(axis=0)) for each in found.values()))]


def _three(values: Floats) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def calibration(results: Results) -> Rows:
    """Return how often predictions are right, by how sure the model is."""
    case, rows = f"{bursts.RANDOM}, by confidence", list[Row]()
    pairs = [
        zip(*(results.values(name, model, case)[0][0] for name in ("answers", "hits")), strict=True)
        for model in _MODELS
    ]
    for k, found in enumerate(zip(*pairs, strict=True)):
        cells = (f"{hits / count:.2f} of {count:,.0f}" if count else "–" for count, hits in found)
        rows.append((f"{k / bursts.BINS:.1f} to {(k + 1) / bursts.BINS:.1f}", *cells))
    errors = {"mean difference": bursts.RANDOM, "the same, kinds held out": bursts.KIND}
    for label, split in errors.items():
        asked = (f"calibration_error | {one} | {split}, by confidence : .3f" for one in _MODELS)
        rows.append((label, *(told(results, one) for one in asked)))
    return [("probability of the predicted class", *_MODELS), *rows]


def hardest_first(results: Results) -> list[str]:
    """Return the kinds of programs, those first in which the best model is least often right."""
    return results.ranked("right", "kinds")


# --- schedules ------------------------------------------------------------------------------------


def differences(results: Results, jobs: str) -> list[dict[str, str]]:
    """Return agents beside rules, each training and all: ``at once`` or ``arriving``."""
    case, pairs = AT_ONCE, [(arm, REFERENCE) for arm in (BEST_RULE, *_AGENTS)]
    if jobs == "arriving":
        case = case_of(round(100 * trainings.ONLINE_LOADS[0]), "arriving")
        pairs = list(product((ALL_PARTS, PPO), ("slotted-headroom", judge.MIXED)))
    rows = []
    for arm, other in pairs:
        count = _seeds(results, arm, case)
        options = {str(seed): f" | seed={seed}" for seed in range(count)} if count > 1 else {}
        for label, by in (options | {"all" if options else "": ""}).items():
            rows.append({**_row(arm, other), "seed": label, "by": by})
    return rows


def _row(arm: str, other: str) -> dict[str, str]:
    return {"arm": arm, "other": other, "label": LABELS.get(arm, arm)}


def _seeds(results: Results, arm: str, case: str) -> int:
    return len(results.values("slowdown", arm, case)[0])


def below(results: Results, arm: str, case: str, other: str) -> str:
    """Return for how many trainings the interval of the difference to a rule lies below 0."""
    question, seeds = f"slowdown | {arm} | {case} | less={other}", _seeds(results, arm, case)
    found = results.facts.get("trainings below", {}).get(question)
    if found is None:
        found = sum(_surely_below(results, f"{question} | seed={seed}") for seed in range(seeds))
    return f"{found} of {seeds}"


def _surely_below(results: Results, question: str) -> bool:
    high = results.ask(question).high
    return high is not None and high < 0


def meet_bar(results: Results, arm: str) -> str:
    """Return how many trainings are at most 0.01 worse below 100 %, and surely better otherwise."""
    seeds = range(_seeds(results, arm, AT_ONCE))
    found = results.facts.get("trainings that meet the bar", {}).get(arm)
    if found is None:
        found = sum(_meets_bar(results, arm, seed) for seed in seeds)
    return f"{found} of {len(seeds)}"


def _meets_bar(results: Results, arm: str, seed: int) -> bool:
    for load in trainings.LOADS:
        asked = f"slowdown | {arm} | {case_of(load)} | less={REFERENCE} | seed={seed}"
        level = load < 100 and results.ask(asked).value <= MOST_BELOW
        if not (level or (load >= 100 and _surely_below(results, asked))):
            return False
    return True


def other_rules(_: Results) -> list[dict[str, str]]:
    """Return the agents beside other rules."""
    others = ("Packer", "Tetris", "SJF", "slotted-headroom", judge.MIXED, REFERENCE, BEST_RULE)
    return [_row(arm, other) for arm, other in product((WHOLE, PPO), others)]


def by_class(results: Results, arm: str, metric: str) -> Floats:
    """Return (C,) the mean or largest slowdown of each class, the mean over seeds."""
    values: Floats = results.values(metric, arm, "by class")[0].mean(axis=0)
    return values


def of_class(results: Results, arm: str, metric: str, number: str) -> float:
    """Return it for one class, from 1."""
    return float(by_class(results, arm, metric)[int(number) - 1])


def rank_of_classes(results: Results) -> float:
    """Return the rank correlation of the class and its mean slowdown under the deep Q-network."""
    order = np.argsort(np.argsort(by_class(results, WHOLE, "mean")))
    return float(np.corrcoef(np.arange(CLASSES), order)[0, 1])


def mistaken(results: Results) -> list[dict[str, str]]:
    """Return who is judged where jobs are taken for wrong classes, at each load."""
    arms = results.arms("slowdown", case_of(judge.PRICED[0], bursts.PAPER))
    best = results.facts["best model"]
    return [
        {**_row(arm, ""), "load": case_of(load), "best": best}
        for arm, load in product(arms, judge.PRICED)
    ]


def dearer(results: Results, arm: str, load: str, model: str) -> float:
    """Return by which share slowdown is higher with a model's classes than with the true ones."""
    mean = partial(results.mean, "slowdown", arm)
    return mean(f"{load}, {model}") / mean(load) - 1


# --- logs -----------------------------------------------------------------------------------------


def in_single_replays(results: Results, arm: str, log: str) -> str:
    """Return the least and the most of the differences to `MEANS` in single replays."""
    if arm == MEANS:
        return ""
    name, case = "slowdown of a replay", f"{log}, replays"
    mine, other = (results.values(name, each, case)[0] for each in (arm, MEANS))
    least, most = _ends(results, f"{name} | {arm} | {case} | less={MEANS}", mine - other)
    return f"{least:.1f} to {most:.1f}"


def geometric_mean(results: Results, arm: str, log: str) -> float:
    """Return the geometric mean of the bounded slowdowns in a log."""
    return float(np.exp(results.mean("mean log_slowdown", arm, log)))


# --- pictures -------------------------------------------------------------------------------------

draw_losses: Final = picture(
    *(panel(curve("loss", model, "training", color=colour, linewidth=1.2), title=model,
            xlabel="passes over the examples", ylabel="mean cross-entropy", ylim=(0, None))
      for model, colour in zip((PAPER, NETWORK), COLOURS, strict=False)),
    width=10.4, height=3.6,
)  # fmt: skip
"""The paper's figure 3: the mean loss of each pass, a line for each draw."""


def draw_times(results: Results) -> Figure:
    """Draw measured against predicted burst times of the models that predict one."""
    models, ticks = results.arms("run_time_s", "times"), np.linspace(0, LONGEST_S, 6)

    def times(model: str) -> Mark:
        def draw(axes: Any, results: Results) -> None:
            x, y = (
                results.values(name, model, "times")[0][0] for name in ("measured_s", "run_time_s")
            )
            axes.scatter(x, y, s=5, alpha=0.35, color=COLOURS[0], linewidths=0, rasterized=True)
            axes.plot((0, LONGEST_S), (0, LONGEST_S), color=SOFT, linewidth=0.9)

        return draw

    panels = [
        panel(times(model), title=model, xlabel="measured, s", ylabel="predicted, s", xticks=ticks,
              yticks=ticks, xlim=(0, LONGEST_S), ylim=(0, LONGEST_S * 1.1))
        for model in models
    ]  # fmt: skip
    return picture(*panels, width=4.4 * len(models), height=4.4)(results)


def _classes(arm: str) -> Mark:
    def draw(axes: Any, results: Results) -> None:
        mean, largest = (by_class(results, arm, metric) for metric in ("mean", "largest"))
        number = np.arange(1, CLASSES + 1)
        axes.bar(number, mean, color=COLOURS[0])
        axes.errorbar(number, mean, [0.0 * mean, largest - mean], fmt="none",
                      ecolor=COLOURS[1], elinewidth=1.0, capsize=2)  # fmt: skip

    return draw


_CLASSES: Final[dict[str, Any]] = {"xlabel": "class of burst time", "xticks": range(1, CLASSES + 1)}
draw_classes: Final = picture(
    panel(
        _classes(REFERENCE), title=REFERENCE, ylabel="slowdown: mean, and the largest", **_CLASSES
    ),
    panel(_classes(WHOLE), title=LABELS[WHOLE], **_CLASSES),
    sharey=True,
)  # fmt: skip
"""The paper's figure 4: mean and largest slowdown by class."""
_LOADS: Final = ("Packer", "Tetris", "SJF", REFERENCE, BEST_RULE, WHOLE)
draw_loads: Final = picture(
    panel(
        *(line(f"slowdown | {arm} | [x] %", color=colour, label=LABELS.get(arm, arm), linewidth=1.3)
          for colour, arm in zip(COLOURS, _LOADS, strict=True)),
        xlabel="load, %", ylabel="mean slowdown", log=[1, 2, 3, 5, 10], legend={"fontsize": 8},
    ),
    panel(
        *(line(f"slowdown | {arm} | [x] % | less={REFERENCE}", band=0.12, color=colour,
               label=LABELS.get(arm, arm), linewidth=1.2)
          for arm, colour in ((BEST_RULE, COLOURS[4]), (WHOLE, COLOURS[5]), (PPO, COLOURS[3]))),
        level=0.0, xlabel="load, %", ylabel="slowdown less that of SJF in order",
        legend={"fontsize": 8},
    ),
)  # fmt: skip
"""The paper's figure 5, the slowdown over the load, and its difference to SJF in order."""
