"""What the page of the comparison with SchedQRM calls: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.arrays import Floats
from simkit.learners.studies.pictures import Figure, Mark, curve, line, panel, picture
from simkit.learners.studies.results import Results
from simkit.learners.studies.schedqrm.classifiers import NETWORK, PAPER, RANDOM
from simkit.learners.studies.schedqrm.judge import BEST_RULE, REFERENCE, case_of
from simkit.learners.studies.schedqrm.logs import MEANS
from simkit.learners.studies.schedqrm.trainings import LOADS, PPO, WHOLE
from simkit.traces.elf_bursts.measurements import CLASSES, LONGEST_S

PUBLISHED_F1: Final = 0.932
"""Published macro F1."""
QUIET, SLOPE, SLACK = 0.005, 3.6, 0.04
"""The largest σ for which the published score is the bar; beyond it, what a perfect model loses per
unit of σ, and the most by which a model may be below that."""
MOST_BELOW: Final = 0.01
"""The most by which an agent may be worse than the reference at loads below 100 %."""
LABELS: Final = {WHOLE: "deep Q-network"}


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


def calibration(results: Results, model: str, number: str) -> str:
    """Return how often predictions are right in one of the bins of confidence."""
    case = f"{RANDOM}, by confidence | item={number}"
    hits, count = (results.ask(f"{name} | {model} | {case}").value for name in ("hits", "answers"))
    return f"{hits / count:.2f} of {count:,.0f}" if count else "–"


def hardest_first(results: Results) -> list[str]:
    """Return the kinds of programs, those first in which the best model is least often right."""
    return results.ranked("right", "kinds")


# --- schedules ------------------------------------------------------------------------------------


def trainings_of(results: Results, arm: str, case: str) -> list[dict[str, str]]:
    """Return what names the rows of an arm: each of several trainings, and all of them."""
    seeds = results.seeds("slowdown", arm, case)
    each = [{"label": str(seed), "by": f" | seed={seed}"} for seed in seeds]
    return [*each, {"label": "all", "by": ""}] if len(seeds) > 1 else [{"label": "", "by": ""}]


def below(results: Results, arm: str, case: str, other: str) -> str:
    """Return for how many trainings the interval of the difference to a rule lies below 0."""
    question = f"slowdown | {arm} | {case} | less={other}"
    seeds = results.seeds("slowdown", arm, case)
    found = results.facts.get("trainings below", {}).get(question)
    if found is None:
        found = sum(results.ask(f"{question} | seed={seed}").surely_below(0.0) for seed in seeds)
    return f"{found} of {len(seeds)}"


def meet_bar(results: Results, arm: str) -> str:
    """Return how many trainings are at most 0.01 worse below 100 %, and surely better otherwise."""
    seeds = results.seeds("slowdown", arm, case_of(LOADS[0]))
    found = results.facts.get("trainings that meet the bar", {}).get(arm)
    if found is None:
        found = sum(_meets_bar(results, arm, seed) for seed in seeds)
    return f"{found} of {len(seeds)}"


def _meets_bar(results: Results, arm: str, seed: int) -> bool:
    for load in LOADS:
        asked = f"slowdown | {arm} | {case_of(load)} | less={REFERENCE} | seed={seed}"
        found = results.ask(asked)
        if not (found.value <= MOST_BELOW if load < 100 else found.surely_below(0.0)):
            return False
    return True


def rank_of_classes(results: Results) -> float:
    """Return the rank correlation of the class and its mean slowdown under the deep Q-network."""
    order = np.argsort(np.argsort(_by_class(results, WHOLE, "mean")))
    return float(np.corrcoef(np.arange(CLASSES), order)[0, 1])


def _by_class(results: Results, arm: str, metric: str) -> Floats:
    values: Floats = results.values(metric, arm, "by class")[0].mean(axis=0)
    return values


def dearer(results: Results, arm: str, load: str, model: str) -> float:
    """Return by which share slowdown is higher with a model's classes than with the true ones."""
    mean = partial(results.mean, "slowdown", arm)
    return mean(f"{load}, {model}") / mean(load) - 1


def in_single_replays(results: Results, arm: str, log: str) -> str:
    """Return the least and the most of the differences to `MEANS` in single replays of a log."""
    if arm == MEANS:
        return ""
    name, case = "slowdown of a replay", f"{log}, replays"
    mine, other = (results.values(name, each, case)[0] for each in (arm, MEANS))
    least, most = _ends(results, f"{name} | {arm} | {case} | less={MEANS}", mine - other)
    return f"{least:.1f} to {most:.1f}"


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
        mean, largest = (_by_class(results, arm, metric) for metric in ("mean", "largest"))
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
