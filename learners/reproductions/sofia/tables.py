"""The tables of the Sofia page, from its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simkit.analysis.intervals import seed_interval
from simkit.arrays import Floats
from simkit.learners.reproductions.common import markdown, with_bounds
from simkit.learners.reproductions.sofia.curves import Cost, Saving, TrainingCurve, saving
from simkit.learners.reproductions.sofia.judge import CUT, GREEDY, PACKER, REFERENCE, Score
from simkit.learners.reproductions.sofia.study import METHODS, RATE, SofiaSetting


@dataclass(frozen=True)
class Results:
    """The content of the page."""

    setting: SofiaSetting
    curves: Mapping[str, Sequence[TrainingCurve]]
    """Method → a curve for each seed; at least the natural gradient's and Adam's."""
    pilots: Mapping[str, Mapping[float, float]]
    """Method → learning rate → held-out slowdown at the pilot's end."""
    costs: Mapping[str, Cost]
    scores: Sequence[Score]

    @property
    def here(self) -> dict[str, Score]:
        """Label → score at the rate of the training."""
        return {score.label: score for score in self.scores if score.rate == RATE}


def claims(results: Results) -> str:
    """Return the paper's claims, its program's behaviour and our measurements, side by side."""
    natural, plain, here = results.curves["natural"], results.curves["adam"], results.here
    agent = METHODS["natural"].label
    slowdown = {label: f"{score.everyone.value:.2f}" for label, score in here.items()}
    ratio = results.costs["natural"].seconds / results.costs["gradient"].seconds
    rows = (
        (
            "The natural gradient “could not converge”.",
            "It forms the Fisher matrix of each layer, 27,600 squared for the first, which does "
            "not fit into memory, and its pseudo-inverse, without damping.",
            f"Held-out slowdown {_mean(c.slowdown[0] for c in natural):.2f} untrained, "
            f"{_mean(c.end for c in natural):.2f} after {results.setting.iterations} iterations; "
            f"with tuned Adam {_mean(c.end for c in plain):.2f}.",
        ),
        (
            "It was meant to converge faster.",
            "–",
            f"To the same return: {_share(saving(natural, plain))} of tuned Adam's samples.",
        ),
        (
            "It slows training down “by a factor of 4 per iteration”.",
            "It sums outer products of gradients.",
            f"A factor of {ratio:.2f}.",
        ),
        (
            "Figure 4: the agent is “slightly better” than SJF.",
            f"Jobs that are unfinished after {CUT} steps are left out.",
            f"All jobs: agent {slowdown[agent]}, SJF {slowdown[REFERENCE]}, and "
            f"{slowdown['SJF']} if it starts jobs only now.",
        ),
        (
            "The agent wins by keeping resources free for small jobs that will arrive.",
            "No job arrives later: slots and backlog take in all of them at step 0.",
            "All jobs are there at step 0, likewise.",
        ),
        (
            "SJF is better than Packer.",
            "Both may start jobs later than now.",
            f"Reserving: {slowdown[REFERENCE]} and {slowdown[PACKER]}; "
            f"not: {slowdown['SJF']} and {slowdown['Packer']}.",
        ),
        (
            "The load L = Q + M is “around 70–80 %”.",
            "0.7 is the rate of jobs; L goes up to 2, and is read at the last step.",
            f"L over all steps: {_mean(c.load[0] for c in natural if c.load):.2f} untrained, "
            f"{_mean(c.load[1] for c in natural if c.load):.2f} trained.",
        ),
        (
            "Figure 3: the “mean final reward” grows.",
            f"It is the reward of step {CUT} alone, 0 once all is done.",
            f"The return: {_mean(c.returns[0] for c in natural):,.0f} untrained, "
            f"{_mean(c.returns[-1] for c in natural):,.0f} trained.",
        ),
    )  # fmt: skip
    return _table(("the paper", "its program", "measured here"), rows, left=3)


def pilots(results: Results) -> str:
    """Return the values that pilots tried, and the one chosen."""
    lines = []
    for method, ends in results.pilots.items():
        if ends:
            chosen, tuned = results.curves[method][0].task.value, METHODS[method].tuned
            shown = ", ".join(f"{value:g}: {end:.2f}" for value, end in ends.items())
            lines.append(f"- {METHODS[method].label}, `{tuned}`: {shown}; taken: {chosen:g}.")
    return "\n".join(lines)


def ends(results: Results) -> str:
    """Return the final numbers of each method."""
    rows = []
    for method, curves in results.curves.items():
        last = np.array([curve.end for curve in curves])
        decisions = _mean(curve.decisions[-1] for curve in curves)
        rows.append((
            METHODS[method].label, f"{METHODS[method].tuned} {curves[0].task.value:g}",
            f"{_mean(c.slowdown[0] for c in curves):.2f}", _over_seeds(last),
            ", ".join(f"{end:.2f}" for end in last), f"{_mean(c.end_return for c in curves):,.0f}",
            f"{decisions / 1e6:.2f}",
        ))  # fmt: skip
    head = (
        "method", "tuned", "slowdown untrained", "trained", "by seed", "return trained",
        "million decisions",
    )  # fmt: skip
    return _table(head, rows)


def levels(results: Results) -> str:
    """Return the samples that each method needs to reach some slowdowns."""
    every = [curve for curves in results.curves.values() for curve in curves]
    highest, lowest = min(c.slowdown[0] for c in every), min(c.end for c in every)
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
    return _table(("method", *(f"{level:.1f}" for level in marks)), rows)


def savings(results: Results) -> str:
    """Return the natural gradient's samples as a share of each other method's."""
    rows = []
    for method, curves in results.curves.items():
        if method != "natural":
            found = saving(results.curves["natural"], curves)
            by_seed = ", ".join(f"{share:.2f}" for share in found.shares)
            ahead = f"{found.ends_better} of {len(found.shares)}"
            rows.append((METHODS[method].label, _share(found), by_seed, ahead))
    return _table(("other method", "geometric mean", "by seed", "ends at least as well"), rows)


def _share(found: Saving) -> str:
    return with_bounds(found.mean, *(found.bounds or (None, None)))


def cost(results: Results) -> str:
    """Return the processor time of an iteration."""
    plain = results.costs["gradient"]
    rows = [
        (name, f"{cost.seconds:.3f}", f"{cost.decisions:,.0f}", f"{cost.us_a_decision:.1f}",
         f"{cost.seconds / plain.seconds:.2f}", f"{cost.us_a_decision / plain.us_a_decision:.2f}")
        for name, cost in results.costs.items()
    ]  # fmt: skip
    head = ("update", "s an iteration", "decisions", "µs a decision", "ratio", "ratio a decision")
    return _table(head, rows)


def figure_4(results: Results, rate: float = RATE) -> str:
    """Return both counts at a rate, the best by all jobs first."""
    here = [score for score in results.scores if score.rate == rate]
    ordered = sorted(here, key=lambda score: score.everyone.value)
    rows = [
        (score.label, str(score.everyone), str(score.apart or "–"), str(score.at_cut),
         f"{100 * score.done_at_cut:.0f} %", ", ".join(f"{one:.2f}" for one in score.seeds) or "–")
        for score in ordered
    ]  # fmt: skip
    head = (
        "", "all jobs", "less SJF, reserving", f"finished in {CUT} steps", "their share",
        "all jobs, by seed",
    )  # fmt: skip
    return _table(head, rows)


def orders(results: Results) -> str:
    """Return the order of the study's agent, SJF and Packer by both counts at each rate."""
    known = {(score.rate, score.label): score for score in results.scores}
    agent = METHODS["natural"].label
    rows = []
    for rate in sorted(results.setting.batches):
        for label, name in ((agent + GREEDY, "agent, greedy"), (agent, "agent, drawn")):
            trio = {name: label, "SJF": REFERENCE, "Packer": PACKER}
            scored = {short: known[rate, one] for short, one in trio.items()}
            all_jobs = {short: score.everyone.value for short, score in scored.items()}
            at_cut = {short: score.at_cut.value for short, score in scored.items()}
            rows.append((f"{rate:g}", f"{100 * scored[name].done_at_cut:.0f} %",
                         _in_order(all_jobs), _in_order(at_cut)))  # fmt: skip
    head = ("rate", f"agent's share in {CUT} steps", "all jobs", f"finished in {CUT} steps")
    return _table(head, rows, left=4)


def _in_order(values: Mapping[str, float]) -> str:
    return " < ".join(
        f"{name} {values[name]:.2f}" for name in sorted(values, key=values.__getitem__)
    )


def rates(results: Results) -> str:
    """Return the slowdown of all jobs by rate."""
    columns = sorted(results.setting.batches)
    known = {(score.rate, score.label): score.everyone.value for score in results.scores}
    labels = [score.label for score in results.scores if score.rate == columns[0]]
    rows = [(label, *(f"{known[rate, label]:.2f}" for rate in columns)) for label in labels]
    return _table(("", *(f"{rate:g}" for rate in columns)), rows)


def loads(results: Results) -> str:
    """Return L at the beginning of training and at its end."""
    rows = []
    for method, curves in results.curves.items():
        numbers = [[*c.load, *c.load_at_cut] for c in curves if c.load and c.load_at_cut]
        if not numbers:
            continue
        rows.append((METHODS[method].label, *(f"{x:.2f}" for x in np.mean(numbers, axis=0))))
    head = (
        "method", "all steps, first iteration", "last iteration", f"step {CUT}, first iteration",
        "last iteration",
    )  # fmt: skip
    return _table(head, rows)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _over_seeds(values: Floats) -> str:
    """Return a mean over seeds with its interval."""
    found = seed_interval(values)
    return with_bounds(float(values.mean()), found.low, found.high)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table with its first columns aligned to the left."""
    rule = "|" + "---|" * left + "---:|" * (len(head) - left)
    return "\n".join((markdown([head]), rule, markdown(rows)))
