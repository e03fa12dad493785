"""The tables of the comparison with SchedQRM, and numbers of its page that are no questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final

import numpy as np

from simkit.arrays import Floats
from simkit.learners.studies.page import Rows, answer, grid
from simkit.learners.studies.results import Results
from simkit.learners.studies.schedqrm.classifiers import (
    BINS,
    HEAP,
    KIND,
    LAW,
    LEARNED,
    MODELS,
    NETWORK,
    PAPER,
    RANDOM,
    SCORES,
    SIZE,
)
from simkit.learners.studies.schedqrm.judge import (
    BEST_RULE,
    MIXED,
    OF_SLOTS,
    PRICED,
    REFERENCE,
    SHOWN,
    case_of,
)
from simkit.learners.studies.schedqrm.logs import LOGS, MEANS
from simkit.learners.studies.schedqrm.rules import RULES
from simkit.learners.studies.schedqrm.trainings import (
    ALL_PARTS,
    KINDS,
    LOADS,
    ONLINE_LOADS,
    PPO,
    WHOLE,
)
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
AT_ONCE: Final = {case: case for case in map(case_of, SHOWN)}
ARRIVING: Final = {f"{100 * load:.0f} %": f"{100 * load:.0f} %, arriving" for load in ONLINE_LOADS}
"""Head of a column → case."""


# --- burst times ----------------------------------------------------------------------------------


def bar_of(sigma: float) -> float:
    """Return the macro F1 that the best model must reach, given the deviation of run times."""
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
    heads = {"at random": RANDOM, "by size": SIZE, "by kind": KIND, "arrays on the heap": HEAP}
    columns = {head: partial(_spread, results, case=case) for head, case in heads.items()}
    table = grid(results, MODELS, columns, corner="macro F1")
    return [*table, ("paper", f"{PUBLISHED_F1:.3f}", "", "", "")]


def learning(results: Results) -> Rows:
    """Return how the macro F1 grows with the number of training programs."""
    curve: Mapping[str, int] = results.facts["learning curve"]
    columns = {f"{n:,}": partial(_spread, results, case=case) for case, n in curve.items()}
    return grid(results, LEARNED, columns, corner="programs to learn from")


def burst_classes(results: Results) -> Rows:
    """Return precision, recall and F1 of each class, next to table II."""
    width, found = LONGEST_S / CLASSES, {"paper": TABLE_II}
    for model in (results.facts["best model"], NETWORK, PAPER):
        values = [results.values(score, model, RANDOM)[0].mean(axis=0) for score in SCORES]
        found[model] = np.column_stack(values)
    rows: list[Sequence[str]] = [("class", "run time, s", *found)]
    for k in range(CLASSES):
        span = f"{k * width:.2f} to {(k + 1) * width:.2f}"
        rows.append((str(k + 1), span, *(_three(each[k]) for each in found.values())))
    return [*rows, ("mean", "", *(_three(each.mean(axis=0)) for each in found.values()))]


def _three(values: Floats) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def calibration(results: Results) -> Rows:
    """Return how often predictions are right, by how sure the model is."""
    known = (LAW, NETWORK, PAPER)
    count, hits = (
        {m: results.values(metric, m, f"{RANDOM}, by confidence")[0][0] for m in known}
        for metric in ("answers", "hits")
    )
    rows: list[Sequence[str]] = [("probability of the predicted class", *known)]
    for k in range(BINS):
        cells = (
            f"{hits[m][k] / count[m][k]:.2f} of {count[m][k]:,.0f}" if count[m][k] else "–"
            for m in known
        )
        rows.append((f"{k / BINS:.1f} to {(k + 1) / BINS:.1f}", *cells))
    for label, split in (("mean difference", RANDOM), ("the same, kinds held out", KIND)):
        asked = (f"calibration_error | {m} | {split}, by confidence" for m in known)
        rows.append((label, *(answer(results.ask(one), ".3f") for one in asked)))
    return rows


def kinds(results: Results) -> Rows:
    """Return how well the best model does on each kind, the hardest first."""
    heads = {
        "held out": "held_out | {} | kinds : ,.0f", "right class": "right | {} | kinds : .1%",
        "median error of the time": "off | {} | kinds : .1%",
        "two single runs differ in class": "flips | {} | kinds : .1%",
    }  # fmt: skip
    return grid(results, results.ranked("right", "kinds"), heads, corner="kind")


# --- schedules ------------------------------------------------------------------------------------


def _shown(results: Results, question: str, spec: str) -> str:
    """Return an answer, or for how many trainings some jobs were never placed."""
    found = results.ask(question)
    each = found.by_seed or (found.value,)
    endless = sum(not isfinite(value) for value in each)
    if endless:
        return "never done" if endless == len(each) else f"{endless} of {len(each)} never done"
    return answer(found, spec)


def _seeds(results: Results, arm: str, case: str) -> int:
    return len(results.values("slowdown", arm, case)[0])


def means(results: Results, cases: Mapping[str, str], arms: Iterable[str]) -> Rows:
    """Return the mean slowdown of those arms that there are."""
    known = results.arms("slowdown", next(iter(cases.values())))
    columns: dict[str, Callable[[str], str]] = {
        head: lambda arm, case=case: _shown(results, f"slowdown | {arm} | {case}", ".3f")  # type: ignore[misc]
        for head, case in cases.items()
    }
    return grid(results, [arm for arm in arms if arm in known], columns, labels=LABELS)


def differences(
    results: Results, cases: Mapping[str, str], pairs: Iterable[tuple[str, str]]
) -> Rows:
    """Return the difference of each pair of arms, of each training and of all of them."""
    rows: list[Sequence[str]] = [("", "relative to", "seed", *cases)]
    for arm, other in pairs:
        asked = [f"slowdown | {arm} | {case} | less={other}" for case in cases.values()]
        seeds = _seeds(results, arm, next(iter(cases.values())))
        single = [(str(seed), f" | seed={seed}") for seed in range(seeds if seeds > 1 else 0)]
        for label, option in (*single, ("all" if single else "", "")):
            cells = (_shown(results, one + option, "+.3f ±") for one in asked)
            rows.append((LABELS.get(arm, arm), other, label, *cells))
    return rows


def below(results: Results, arm: str, case: str, other: str) -> str:
    """Return for how many trainings the interval of the difference to a rule lies below 0."""
    question, seeds = f"slowdown | {arm} | {case} | less={other}", _seeds(results, arm, case)
    found = results.facts.get("trainings below", {}).get(question)
    if found is None:
        highs = (results.ask(f"{question} | seed={seed}").high for seed in range(seeds))
        found = sum(high is not None and high < 0 for high in highs)
    return f"{found} of {seeds}"


def meet_bar(results: Results, arm: str) -> str:
    """Return how many trainings are at most 0.01 worse below 100 %, and surely better otherwise."""
    seeds = range(_seeds(results, arm, case_of(LOADS[0])))
    found = results.facts.get("trainings that meet the bar", {}).get(arm)
    if found is None:
        found = sum(_meets(results, arm, seed) for seed in seeds)
    return f"{found} of {len(seeds)}"


def _meets(results: Results, arm: str, seed: int) -> bool:
    for load in LOADS:
        asked = f"slowdown | {arm} | {case_of(load)} | less={REFERENCE} | seed={seed}"
        gap = results.ask(asked)
        reached = gap.value <= MOST_BELOW if load < 100 else (gap.high or 0.0) < 0
        if not reached:
            return False
    return True


def other_rules(results: Results) -> Rows:
    """Return the agents beside other rules: the mean difference, and how many are surely below."""
    rows: list[Sequence[str]] = [("", "relative to", *AT_ONCE)]
    for arm in (WHOLE, PPO):
        for other in ("Packer", "Tetris", "SJF", "slotted-headroom", MIXED, REFERENCE, BEST_RULE):
            cells = (
                _shown(results, f"slowdown | {arm} | {case} | less={other}", "+.3f")
                + f"; {below(results, arm, case, other)}"
                for case in AT_ONCE
            )
            rows.append((LABELS.get(arm, arm), other, *cells))
    return rows


def steps(results: Results) -> Rows:
    """Return the way from the paper's formulation to the whole, what is left out, and PPO."""
    known = results.arms("decisions", "training")
    columns: dict[str, str | Callable[[str], str]] = {
        case: lambda arm, case=case: _shown(  # type: ignore[misc]
            results, f"slowdown | {arm} | {case} | less={REFERENCE}", "+.3f"
        )
        for case in AT_ONCE
    }
    columns |= {"trainings that meet the bar": partial(meet_bar, results),
                "decisions": "decisions | {} | training : ,.0f"}  # fmt: skip
    return grid(results, [arm for arm in KINDS if arm in known], columns)


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
    found = (results.facts["best model"], PAPER)
    rows: list[Sequence[str]] = [("", "load", "true classes", *found)]
    for arm in results.arms("slowdown", case_of(PRICED[0], PAPER)):
        for load in PRICED:
            true = results.mean("slowdown", arm, case_of(load))
            values = [results.mean("slowdown", arm, case_of(load, model)) for model in found]
            cells = (f"{value:.3f} ({value / true - 1:+.1%})" for value in values)
            rows.append((LABELS.get(arm, arm), case_of(load), f"{true:.3f}", *cells))
    return rows


# --- logs -----------------------------------------------------------------------------------------


def schedules_of(results: Results, log: str) -> Rows:
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


def predictions_of(results: Results, log: str) -> Rows:
    """Return how good the predictions are, as made at submission."""
    columns = {
        "mean absolute error, h": f"mean error_s | {{}} | {log} | hours : .2f",
        "median of prediction / run time": f"median ratio | {{}} | {log}, all jobs : .2f",
        "jobs that outlive it": f"mean outlived | {{}} | {log} : .0%",
    }
    return grid(results, results.arms("bounded_slowdown", log), columns, corner=log)


_AGENTS: Final = ("paper", WHOLE, PPO)
TABLES: Final[Mapping[str, Callable[[Results], Rows]]] = {
    "models": models, "learning": learning, "burst classes": burst_classes,
    "calibration": calibration, "kinds": kinds,
    "at once": lambda results: means(results, AT_ONCE, (*OF_SLOTS, *RULES, *_AGENTS)),
    "at once, differences": lambda results: differences(
        results, AT_ONCE, [(arm, REFERENCE) for arm in (BEST_RULE, *_AGENTS)]
    ),
    "other rules": other_rules, "steps": steps, "classes": classes,
    "arriving": lambda results: means(results, ARRIVING, (*OF_SLOTS, ALL_PARTS, PPO)),
    "arriving, differences": lambda results: differences(
        results, ARRIVING,
        [(arm, other) for arm in (ALL_PARTS, PPO) for other in ("slotted-headroom", MIXED)],
    ),
    "mistaken": mistaken,
    **{log: partial(schedules_of, log=log) for log in LOGS},
    **{f"{log}, predictions": partial(predictions_of, log=log) for log in LOGS},
}  # fmt: skip
NUMBERS: Final[Mapping[str, Callable[[Results], Any]]] = {
    "bar": lambda results: bar_of(results.facts["sigma"]),
    "rank correlation": rank_of_classes,
    **{f"bar met by {LABELS.get(arm, arm)}": partial(meet_bar, arm=arm) for arm in _AGENTS},
    **{
        f"{LABELS.get(arm, arm)} below {BEST_RULE}": partial(
            below, arm=arm, case=case_of(SHOWN[-1]), other=BEST_RULE
        )
        for arm in _AGENTS[1:]
    },
}
