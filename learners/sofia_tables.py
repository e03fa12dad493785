"""The tables of the Sofia page, from its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simkit.bootstrap import seed_interval

from .sofia_cost import Cost
from .sofia_curves import Curve, Saving, saving
from .sofia_judge import CUT
from .sofia_scores import REFERENCE, Score
from .sofia_study import METHODS, RATE, Setting


@dataclass(frozen=True)
class Results:
    """All that the page is made of."""

    setting: Setting
    curves: Mapping[str, Sequence[Curve]]
    """By method, a seed each; the natural gradient's and Adam's are there."""
    pilots: Mapping[str, Mapping[float, float]]
    """Method → learning rate → held-out slowdown at the pilot's end."""
    costs: Mapping[str, Cost]
    scores: Sequence[Score]

    @property
    def here(self) -> dict[str, Score]:
        """Label → score at the rate of the training."""
        return {score.label: score for score in self.scores if score.rate == RATE}


def claims(results: Results) -> str:
    """Return what the paper says, what its program does and what was measured, side by side."""
    natural, plain, here = results.curves["natural"], results.curves["adam"], results.here
    slowdown = {label: f"{score.everyone.value:.2f}" for label, score in here.items()}
    ratio = results.costs["natural"].seconds / results.costs["gradient"].seconds
    rows = (
        (
            "The natural gradient “could not converge”.",
            "It forms the Fisher matrix of each layer, 27,600 squared for the first, which does "
            "not fit into memory, and its pseudo-inverse, without damping.",
            f"Held-out slowdown {_mean(c.slowdown[0] for c in natural):.2f} untrained, "
            f"{_mean(c.end for c in natural):.2f} after {results.setting.iterations} iterations; "
            f"with Adam {_mean(c.end for c in plain):.2f}.",
        ),
        (
            "It was meant to converge faster.",
            "–",
            f"To the return that Adam ends with: {_share(saving(natural, plain))} of its samples.",
        ),
        (
            "It slows training down “by a factor of 4 per iteration”.",
            "It sums outer products of gradients.",
            f"A factor of {ratio:.2f}.",
        ),
        (
            "Figure 4: the agent is “slightly better” than SJF.",
            f"Jobs that are unfinished after {CUT} steps are left out.",
            f"All jobs: agent {slowdown[METHODS['natural'].label]}, SJF {slowdown['SJF']}; the "
            f"study's SJF, which reserves, {slowdown[REFERENCE]}.",
        ),
        (
            "SJF is better than Packer.",
            "Both may start jobs later than now.",
            f"Reserving: {slowdown[REFERENCE]} and {slowdown['Packer, reserving best']}; "
            f"not: {slowdown['SJF']} and {slowdown['Packer']}.",
        ),
        (
            "The load L = Q + M is “around 70–80 %”.",
            "0.7 is the rate of jobs; L goes up to 2, and is read at the last step.",
            f"L over all steps: {_mean(c.load[0] for c in natural):.2f} untrained, "
            f"{_mean(c.load[1] for c in natural):.2f} trained.",
        ),
        (
            "Figure 3: the “mean final reward” grows.",
            f"It is the reward of step {CUT} alone, 0 once all is done.",
            f"The return: {_mean(c.returns[0] for c in natural):,.0f} untrained, "
            f"{_mean(c.returns[-1] for c in natural):,.0f} trained.",
        ),
    )  # fmt: skip
    return markdown(("the paper", "its program", "measured here"), rows, left=3)


def pilots(results: Results) -> str:
    """Return which learning rates were tried, and taken."""
    lines = []
    for method, ends in results.pilots.items():
        if ends:
            chosen = results.curves[method][0].task.rate
            shown = ", ".join(f"{rate:g}: {end:.2f}" for rate, end in ends.items())
            lines.append(f"- {METHODS[method].label}: {shown}; taken: {chosen:g}.")
    return "\n".join(lines)


def ends(results: Results) -> str:
    """Return what each method ends with."""
    rows = []
    for method, curves in results.curves.items():
        last = np.array([curve.end for curve in curves])
        decisions = _mean(curve.decisions[-1] for curve in curves)
        rate = curves[0].task.rate
        rows.append((
            METHODS[method].label, "–" if rate is None else f"{rate:g}",
            f"{_mean(c.slowdown[0] for c in curves):.2f}", over_seeds(last),
            ", ".join(f"{end:.2f}" for end in last), f"{decisions / 1e6:.2f}",
        ))  # fmt: skip
    head = ("method", "rate", "slowdown untrained", "trained", "by seed", "million decisions")
    return markdown(head, rows)


def levels(results: Results) -> str:
    """Return the samples that each method takes to some slowdowns."""
    every = [curve for curves in results.curves.values() for curve in curves]
    highest, lowest = max(c.slowdown[0] for c in every), min(c.end for c in every)
    marks = np.arange(np.floor(2 * highest) / 2, lowest - 1e-9, -0.5).tolist()
    rows = []
    for method, curves in results.curves.items():
        cells = []
        for level in marks:
            taken = [curve.samples_to(level) for curve in curves]
            known = [samples for samples in taken if samples is not None]
            some = "" if len(known) == len(taken) else f" ({len(known)} of {len(taken)})"
            cells.append(f"{np.mean(known) / 1000:,.0f}{some}" if known else "–")
        rows.append((METHODS[method].label, *cells))
    return markdown(("method", *(f"{level:.1f}" for level in marks)), rows)


def savings(results: Results) -> str:
    """Return the samples of the natural gradient as a share of each other method's."""
    rows = []
    for method, curves in results.curves.items():
        if method != "natural":
            found = saving(results.curves["natural"], curves)
            by_seed = ", ".join("never" if x is None else f"{x:.2f}" for x in found.shares)
            rows.append((METHODS[method].label, _share(found), by_seed))
    return markdown(("other method", "geometric mean", "by seed"), rows)


def _share(found: Saving) -> str:
    if found.interval is None:
        return "not in all seeds"
    mean, interval = found.interval
    if interval.low is None or interval.high is None:
        return f"{mean:.2f}"
    return f"{mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def cost(results: Results) -> str:
    """Return the processor time of an iteration."""
    plain = results.costs["gradient"]
    rows = [
        (name, f"{cost.seconds:.3f}", f"{cost.decisions:,.0f}", f"{cost.us_a_decision:.1f}",
         f"{cost.seconds / plain.seconds:.2f}", f"{cost.us_a_decision / plain.us_a_decision:.2f}")
        for name, cost in results.costs.items()
    ]  # fmt: skip
    head = ("update", "s an iteration", "decisions", "µs a decision", "ratio", "ratio a decision")
    return markdown(head, rows)


def figure_4(results: Results) -> str:
    """Return both counts at the rate of the training, the best by all jobs first."""
    ordered = sorted(results.here.values(), key=lambda score: score.everyone.value)
    rows = [
        (score.label, str(score.everyone), str(score.apart or "–"), str(score.at_cut),
         f"{100 * score.done_at_cut:.1f} %", ", ".join(f"{one:.2f}" for one in score.seeds) or "–",
         str(score.unfinished))
        for score in ordered
    ]  # fmt: skip
    head = (
        "", "all jobs", "less SJF, reserving", f"finished in {CUT} steps", "their share",
        "all jobs, by seed", "never finished",
    )  # fmt: skip
    return markdown(head, rows)


def rates(results: Results) -> str:
    """Return the slowdown of all jobs by rate."""
    some = sorted(results.setting.batches)
    known = {(score.rate, score.label): score for score in results.scores}
    labels = [score.label for score in results.scores if score.rate == some[0]]
    rows = [(label, *(str(known[rate, label].everyone) for rate in some)) for label in labels]
    return markdown(("", *(f"{rate:g}" for rate in some)), rows)


def loads(results: Results) -> str:
    """Return L at the beginning of training and at its end."""
    rows = []
    for method, curves in results.curves.items():
        numbers = [[*c.load, *c.load_at_cut] for c in curves]
        rows.append((METHODS[method].label, *(f"{x:.2f}" for x in np.mean(numbers, axis=0))))
    head = (
        "method", "all steps, first iteration", "last iteration", f"step {CUT}, first iteration",
        "last iteration",
    )  # fmt: skip
    return markdown(head, rows)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def over_seeds(values: npt.NDArray[np.float64]) -> str:
    """Return a mean over seeds with its interval."""
    found, mean = seed_interval(values), float(values.mean())
    if found.low is None or found.high is None:
        return f"{mean:.2f}"
    return f"{mean:.2f} ({found.low:.2f} to {found.high:.2f})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table, its first columns to the left."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * left + "---:|" * (len(head) - left)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
