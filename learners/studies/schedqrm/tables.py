"""The tables of the comparison with SchedQRM, and numbers of its page that are no questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from math import isfinite
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.learners.studies.page import Rows, grid, told
from simkit.learners.studies.results import Results
from simkit.learners.studies.schedqrm import classifiers as bursts
from simkit.learners.studies.schedqrm import judge, trainings
from simkit.learners.studies.schedqrm.judge import BEST_RULE, REFERENCE, case_of
from simkit.learners.studies.schedqrm.logs import MEANS
from simkit.learners.studies.schedqrm.rules import RULES
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
AT_ONCE: Final = tuple(map(case_of, judge.SHOWN))
ARRIVING: Final = tuple(case_of(round(100 * load), "arriving") for load in trainings.ONLINE_LOADS)
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


def _spread(results: Results, model: str, case: str) -> str:
    """Return the mean macro F1, with the least and the most of several draws."""
    values = results.values("f1", model, case)[0].mean(axis=1)
    least, most = _ends(results, f"f1 | {model} | {case}", values)
    return f"{values.mean():.3f}" + (f" ({least:.3f} to {most:.3f})" if least < most else "")


def models(results: Results) -> Rows:
    """Return the macro F1 of each model under each split."""
    heads = ("at random", "by size", "by kind", "arrays on the heap")
    columns = {
        head: partial(_spread, results, case=case)
        for head, case in zip(heads, bursts.SPLITS, strict=True)
    }
    table = grid(results, bursts.MODELS, columns, corner="macro F1")
    return [*table, ("paper", f"{PUBLISHED_F1:.3f}", "", "", "")]


def learning(results: Results) -> Rows:
    """Return how the macro F1 grows with the number of training programs."""
    curve: Mapping[str, int] = results.facts["learning curve"]
    columns = {f"{n:,}": partial(_spread, results, case=case) for case, n in curve.items()}
    return grid(results, bursts.LEARNED, columns, corner="programs to learn from")


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


def by_kind(results: Results) -> Rows:
    """Return how well the best model does on each kind, the hardest first."""
    heads = {
        "held out": "held_out | {} | kinds : ,.0f", "right class": "right | {} | kinds : .1%",
        "median error of the time": "off | {} | kinds : .1%",
        "two single runs differ in class": "flips | {} | kinds : .1%",
    }  # fmt: skip
    return grid(results, results.ranked("right", "kinds"), heads, corner="kind")


# --- schedules ------------------------------------------------------------------------------------


def _shown(results: Results, asked: str) -> str:
    """Return an answer, or for how many trainings some jobs were never placed."""
    found = results.ask(asked.partition(" : ")[0])
    each = found.by_seed or (found.value,)
    endless = sum(not isfinite(value) for value in each)
    if endless:
        return "never done" if endless == len(each) else f"{endless} of {len(each)} never done"
    return told(results, asked)


def _heads(cases: Iterable[str], more: str) -> dict[str, str]:
    """Return head → a question on the slowdown of an arm in each case."""
    return {case.removesuffix(", arriving"): f"slowdown | {{}} | {case}{more}" for case in cases}


def _slowdowns(
    results: Results, arms: Iterable[str], cases: Sequence[str], option: str = " : .3f",
    labels: Mapping[str, str] = LABELS, **more: str | Callable[[str], str],
) -> Rows:  # fmt: skip
    """Return a question in each case for those arms that there are, and further columns."""
    known = results.arms("slowdown", cases[0])
    columns = {
        head: lambda arm, asked=asked: _shown(results, asked.replace("{}", arm))
        for head, asked in _heads(cases, option).items()
    }
    return grid(results, [arm for arm in arms if arm in known], {**columns, **more}, labels=labels)


def slowdowns(results: Results, jobs: str) -> Rows:
    """Return everyone on jobs that are all there ``at once``, or ``arriving``."""
    if jobs == "at once":
        return _slowdowns(results, (*judge.OF_SLOTS, *RULES, *_AGENTS), AT_ONCE)
    return _slowdowns(results, (*judge.OF_SLOTS, ALL_PARTS, PPO), ARRIVING)


def _seeds(results: Results, arm: str, case: str) -> int:
    return len(results.values("slowdown", arm, case)[0])


def differences(results: Results, jobs: str) -> Rows:
    """Return agents less rules, each training and all: ``at once`` or ``arriving``."""
    cases, pairs = AT_ONCE, [(arm, REFERENCE) for arm in (BEST_RULE, *_AGENTS)]
    if jobs == "arriving":
        cases = ARRIVING
        pairs = list(product((ALL_PARTS, PPO), ("slotted-headroom", judge.MIXED)))
    rows: list[Row] = [("", "relative to", "seed", *_heads(cases, ""))]
    for arm, other in pairs:
        count = _seeds(results, arm, cases[0])
        options = {str(seed): f" | seed={seed}" for seed in range(count)} if count > 1 else {}
        for label, option in (options | {"all" if options else "": ""}).items():
            asked = _heads(cases, f" | less={other}{option} : +.3f ±").values()
            cells = (_shown(results, one.replace("{}", arm)) for one in asked)
            rows.append((LABELS.get(arm, arm), other, label, *cells))
    return rows


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
    seeds = range(_seeds(results, arm, AT_ONCE[0]))
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


def other_rules(results: Results) -> Rows:
    """Return the agents beside other rules: the mean difference, and how many are surely below."""
    others = ("Packer", "Tetris", "SJF", "slotted-headroom", judge.MIXED, REFERENCE, BEST_RULE)
    rows: list[Row] = [("", "relative to", *AT_ONCE)]
    for arm, other in product((WHOLE, PPO), others):
        cells = (
            f"{_shown(results, f'slowdown | {arm} | {case} | less={other} : +.3f')}; "
            f"{below(results, arm, case, other)}"
            for case in AT_ONCE
        )
        rows.append((LABELS.get(arm, arm), other, *cells))
    return rows


def steps(results: Results) -> Rows:
    """Return the way from the paper's formulation to the whole, what is left out, and PPO."""
    more = {"trainings that meet the bar": partial(meet_bar, results)}
    option = f" | less={REFERENCE} : +.3f"
    return _slowdowns(
        results, trainings.KINDS, AT_ONCE, option, {}, **more,
        decisions="decisions | {} | training : ,.0f",
    )  # fmt: skip


def by_class(results: Results, arm: str, metric: str) -> Floats:
    """Return (C,) the mean or largest slowdown of each class, the mean over seeds."""
    values: Floats = results.values(metric, arm, "by class")[0].mean(axis=0)
    return values


def classes(results: Results) -> Rows:
    """Return mean and largest slowdown of each class."""
    told = [(arm, metric) for arm in (REFERENCE, WHOLE) for metric in ("mean", "largest")]
    columns = [by_class(results, *each) for each in told]
    head = ("class", *(f"{LABELS.get(arm, arm)}: {metric}" for arm, metric in told))
    rows = [(str(k + 1), *(f"{each[k]:.2f}" for each in columns)) for k in range(CLASSES)]
    return [head, *rows]


def rank_of_classes(results: Results) -> float:
    """Return the rank correlation of the class and its mean slowdown under the deep Q-network."""
    order = np.argsort(np.argsort(by_class(results, WHOLE, "mean")))
    return float(np.corrcoef(np.arange(CLASSES), order)[0, 1])


def mistaken(results: Results) -> Rows:
    """Return the slowdown where classes are predicted, and by how much it is above the true."""
    found = (results.facts["best model"], bursts.PAPER)
    rows: list[Row] = [("", "load", "true classes", *found)]
    arms = results.arms("slowdown", case_of(judge.PRICED[0], bursts.PAPER))
    for arm, load in product(arms, judge.PRICED):
        true = results.mean("slowdown", arm, case_of(load))
        values = (results.mean("slowdown", arm, case_of(load, model)) for model in found)
        cells = (f"{value:.3f} ({value / true - 1:+.1%})" for value in values)
        rows.append((LABELS.get(arm, arm), case_of(load), f"{true:.3f}", *cells))
    return rows


# --- logs -----------------------------------------------------------------------------------------


def schedules(results: Results, log: str) -> Rows:
    """Return the schedules of a log under each prediction."""
    mean, case = f"mean bounded_slowdown | {{}} | {log}", f"{log}, replays"

    def single(arm: str) -> str:
        if arm == MEANS:
            return ""
        name = "slowdown of a replay"
        mine, other = (results.values(name, each, case)[0] for each in (arm, MEANS))
        least, most = _ends(results, f"{name} | {arm} | {case} | less={MEANS}", mine - other)
        return f"{least:.1f} to {most:.1f}"

    def geometric(arm: str) -> str:
        return f"{np.exp(results.mean('mean log_slowdown', arm, log)):.2f}"

    columns: dict[str, str | Callable[[str], str]] = {
        "mean bounded slowdown": f"{mean} : .1f", f"to {MEANS}": f"{mean} | less={MEANS} : .1f ±",
        "in single replays": single, "to requested": f"{mean} | less=requested : .1f ±",
        "geometric mean": geometric,
        "mean wait, h": f"mean wait_time_s | {{}} | {log} | hours : .2f",
    }  # fmt: skip
    return grid(results, results.arms("bounded_slowdown", log), columns, corner=log)


def predictions(results: Results, log: str) -> Rows:
    """Return how good the predictions are, as made at submission."""
    columns = {
        "mean absolute error, h": f"mean error_s | {{}} | {log} | hours : .2f",
        "median of prediction / run time": f"median ratio | {{}} | {log}, all jobs : .2f",
        "jobs that outlive it": f"mean outlived | {{}} | {log} : .0%",
    }
    return grid(results, results.arms("bounded_slowdown", log), columns, corner=log)


FUNCTIONS: Final = (
    bar, models, learning, burst_classes, calibration, by_kind, slowdowns, differences, below,
    meet_bar, other_rules, steps, classes, rank_of_classes, mistaken, schedules, predictions,
)  # fmt: skip
