"""What the numbers of the Sofia page say, in sentences; each is true of the numbers it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from simkit.bootstrap import seed_interval

from .sofia_cost import Cost
from .sofia_curves import Curve, saving
from .sofia_judge import CUT, GREEDY, HEURISTICS
from .sofia_scores import REFERENCE, Score
from .sofia_study import METHODS
from .sofia_tables import Results

NATURAL: Final = METHODS["natural"].label
MOST: Final = 2.0
"""Times the cost of a plain iteration that a natural one may take."""


def conclusions(results: Results) -> str:
    """Return the page's result, a point each."""
    here, curves = results.here, results.curves
    agent, best = here[NATURAL], _best_heuristic(here)
    points = [
        converges(curves["natural"]),
        fewer_samples(curves),
        cost(results.costs),
        against(agent, here[REFERENCE], "the study's SJF, reserving best"),
        against(agent, here["SJF"], "SJF that starts jobs only now"),
        counting(here),
        likeliest(agent, here[NATURAL + GREEDY]),
    ]
    if best != REFERENCE:
        points.insert(4, against(agent, here[best], f"the best heuristic, {best}"))
    return "\n".join(f"- {point}" for point in points)


def converges(curves: Sequence[Curve]) -> str:
    """Tell whether the natural gradient's slowdown fell in all seeds."""
    gains = np.array([1 - curve.end / curve.slowdown[0] for curve in curves])
    fell = int((gains > 0).sum())
    bound = seed_interval(gains).low
    verdict = "converges" if bound is not None and bound > 0 else "is not shown to converge"
    shown = ", ".join(f"{100 * gain:.0f} %" for gain in gains)
    return (
        f"**The natural gradient {verdict}.** The held-out slowdown fell in {fell} of {len(gains)} "
        f"trainings, by {shown}."
    )


def fewer_samples(curves: Mapping[str, Sequence[Curve]]) -> str:
    """Tell whether it takes fewer samples to where each plain method ends."""
    parts = []
    for method, some in curves.items():
        if method == "natural":
            continue
        found, name = saving(curves["natural"], some), METHODS[method].label
        less = sum(share is not None and share < 1 for share in found.shares)
        seeds = f"fewer in {less} of {len(some)} seeds"
        if found.interval is None:
            parts.append(f"of {name}: not reached in some seeds, {seeds}")
            continue
        mean, bounds = found.interval
        sure = bounds.high is not None and bounds.high < 1
        doubt = "" if sure else ", which so few seeds do not make sure"
        parts.append(f"of {name}: {100 * mean:.0f} %, {seeds}{doubt}")
    text = "; ".join(parts)
    return f"**Samples to the return that plain REINFORCE ends with,** as a share {text}."


def cost(costs: Mapping[str, Cost]) -> str:
    """Tell what an iteration costs."""
    plain = costs["gradient"].seconds
    ratio, whole = costs["natural"].seconds / plain, costs["natural, all decisions"].seconds / plain
    verdict = "at most twice" if ratio <= MOST else "more than twice"
    return (
        f"**An iteration costs {verdict} a plain one:** {ratio:.2f} times, with Fisher products "
        f"over a tenth of the decisions; {whole:.2f} times over all of them."
    )


def against(agent: Score, other: Score, who: str) -> str:
    """Tell how the natural gradient's agents fare against a heuristic, all jobs counted."""
    mine, theirs = agent.everyone.value, other.everyone.value
    better = sum(seed < theirs for seed in agent.seeds)
    word = "better than" if mine < theirs else "worse than"
    text = (
        f"**All jobs counted, the agents are {word} {who}:** a slowdown of {mine:.2f}, "
        f"{100 * abs(mine / theirs - 1):.0f} % {'below' if mine < theirs else 'above'} its "
        f"{theirs:.2f}; {better} of {len(agent.seeds)} trainings are below."
    )
    if other.label != REFERENCE or agent.apart is None:
        return text
    low, high = agent.apart.interval.low, agent.apart.interval.high
    if low is None or high is None:
        return text
    doubt = ", which leaves it undecided" if low <= 0 <= high else ""
    return f"{text} The difference is {low:+.2f} to {high:+.2f} over batches{doubt}."


def counting(here: Mapping[str, Score]) -> str:
    """Tell what the study's count does to the order."""
    by_all = sorted(here, key=lambda label: here[label].everyone.value)
    by_cut = sorted(here, key=lambda label: here[label].at_cut.value)
    moved = sum(one != other for one, other in zip(by_all, by_cut, strict=True))
    place = by_all.index(by_cut[0]) + 1
    share = 100 * here[by_cut[0]].done_at_cut
    sjf = here["SJF"]
    return (
        f"**Counting only what is finished in {CUT} steps** gives {moved} of {len(by_all)} places "
        f"to somebody else. First is then {by_cut[0]}, with {share:.0f} % of its jobs finished; "
        f"with all jobs it is number {place}. And all look better: SJF {sjf.at_cut.value:.2f} "
        f"instead of {sjf.everyone.value:.2f}."
    )


def likeliest(drawn: Score, always: Score) -> str:
    """Tell what always taking the likeliest action does."""
    return (
        f"**Always the likeliest action,** as the study's evaluation takes it, is "
        f"{always.everyone.value:.2f} instead of {drawn.everyone.value:.2f} with all jobs counted, "
        f"and {always.at_cut.value:.2f} instead of {drawn.at_cut.value:.2f} by the study's count: "
        f"{100 * always.done_at_cut:.0f} % of the jobs are finished in {CUT} steps, with drawn "
        f"actions {100 * drawn.done_at_cut:.0f} %."
    )


def _best_heuristic(here: Mapping[str, Score]) -> str:
    return min((name for name in here if name in HEURISTICS), key=lambda n: here[n].everyone.value)
