"""What the numbers of the Sofia page say, in sentences; each is true of the numbers it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from simkit.analysis.intervals import seed_interval
from simkit.learners.reproductions.sofia.curves import Cost, Curve, saving
from simkit.learners.reproductions.sofia.judge import (
    CUT,
    GREEDY,
    HEURISTICS,
    PACKER,
    REFERENCE,
    Score,
)
from simkit.learners.reproductions.sofia.study import METHODS
from simkit.learners.reproductions.sofia.tables import Results
from simkit.text import counted

NATURAL: Final = METHODS["natural"].label
ALWAYS: Final = NATURAL + GREEDY
MOST: Final = 2.0
"""Times the cost of a plain iteration that a natural one may take."""


def conclusions(results: Results) -> str:
    """Return the page's result, a point each."""
    here, curves = results.here, results.curves
    agent, best = here[NATURAL], _best_heuristic(here)
    points = [
        converges(curves["natural"]),
        *fewer_samples(curves),
        cost(results.costs),
        against(agent, here[REFERENCE], "the study's SJF, reserving best"),
        against(agent, here["SJF"], "SJF that starts jobs only now"),
        counting(here),
        likeliest(agent, here[ALWAYS], here[REFERENCE]),
        overtaking(results.scores),
    ]
    if best not in (REFERENCE, "SJF"):
        points.insert(-4, against(agent, here[best], f"the best heuristic, {best}"))
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


def fewer_samples(curves: Mapping[str, Sequence[Curve]]) -> list[str]:
    """Tell, for each plain method, whether the natural gradient takes fewer samples."""
    points = []
    for method, some in curves.items():
        if method == "natural":
            continue
        found, name = saving(curves["natural"], some), METHODS[method].label
        verdict, between = "fewer" if found.mean < 1 else "no fewer", ""
        doubt = " One seed tells little."
        if found.bounds is not None:
            low, high = found.bounds
            between = f" ({100 * low:.0f} to {100 * high:.0f} % over seeds)"
            doubt = " So few seeds do not make that sure." if low <= 1 <= high else ""
        seeds, ahead = counted(len(found.shares), "seed"), sum(share < 1 for share in found.shares)
        points.append(
            f"**To the same return it takes {verdict} samples than {name}:** "
            f"{100 * found.mean:.0f} % of them{between}, fewer in {ahead} of {seeds}; in the end, "
            f"its return is at least as good in {found.ends_better}.{doubt}"
        )
    return points


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
    word = "better than" if mine < theirs else "not better than"
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
    """Tell what the study's count does to the slowdowns, and to their order."""
    by_all = sorted(here, key=lambda label: here[label].everyone.value)
    by_cut = sorted(here, key=lambda label: here[label].at_cut.value)
    moved = sum(one != other for one, other in zip(by_all, by_cut, strict=True))
    gain = {label: _flattery(score) for label, score in here.items()}
    most = max(gain, key=lambda label: gain[label])
    first = (
        f"{by_cut[0]} is first by both"
        if by_all[0] == by_cut[0]
        else f"first by it is {by_cut[0]}, and of all jobs {by_all[0]}"
    )
    better = sum(value > 0 for value in gain.values())
    return (
        f"**Counting only what is finished in {CUT} steps** makes {better} "
        f"of {len(here)} look better, most of all {most}: {here[most].at_cut.value:.2f} instead of "
        f"{here[most].everyone.value:.2f}, with {100 * here[most].done_at_cut:.0f} % of the jobs "
        f"finished. It gives {moved} of {len(here)} places to somebody else; {first}."
    )


def likeliest(drawn: Score, always: Score, reference: Score) -> str:
    """Tell what always taking the likeliest action does, by both counts."""
    ahead = [
        "ahead of" if one < other else "behind"
        for one, other in (
            (always.everyone.value, reference.everyone.value),
            (always.at_cut.value, reference.at_cut.value),
        )
    ]
    counts = (
        f"{ahead[0]} that SJF by both counts"
        if ahead[0] == ahead[1]
        else f"{ahead[0]} that SJF with all jobs counted, and {ahead[1]} it by the study's count"
    )
    return (
        f"**Always the likeliest action,** as the study's evaluation takes it, is "
        f"{always.everyone.value:.2f} instead of {drawn.everyone.value:.2f} with all jobs counted, "
        f"and {always.at_cut.value:.2f} instead of {drawn.at_cut.value:.2f} by the study's count, "
        f"with {100 * always.done_at_cut:.0f} % of the jobs finished: {counts}."
    )


def overtaking(scores: Sequence[Score]) -> str:
    """Tell whom the greedy agents pass by the study's count alone: the figure's order or not."""
    known = {(score.rate, score.label): score for score in scores}
    rates = sorted({score.rate for score in scores})
    passed = {
        name: [rate for rate in rates if _passes(known[rate, ALWAYS], known[rate, label])]
        for label, name in ((PACKER, "Packer"), (REFERENCE, "SJF"))
    }
    if not any(passed.values()):
        changed = [rate for rate in rates if _order_changes(known, rate)]
        if changed:
            return (
                "**The agent of likeliest actions passes neither SJF nor Packer** by the study's "
                "count alone, all reserving; the order of the three is another by it at rates of "
                f"{', '.join(f'{rate:g}' for rate in changed)}."
            )
        return (
            "**The order of agent, SJF and Packer, all reserving,** is the same by both counts at "
            f"{'all rates' if len(rates) > 1 else f'{rates[0]:g}'}, the agent taking the likeliest "
            "action."
        )
    who = "; ".join(
        f"{name} at rates of {', '.join(f'{rate:g}' for rate in some)}"
        for name, some in passed.items()
        if some
    )
    mine = max((known[rate, ALWAYS] for some in passed.values() for rate in some), key=_flattery)
    return (
        f"**By the study's count alone the agent of likeliest actions passes** {who}. At "
        f"{mine.rate:g} it is {mine.at_cut.value:.2f} instead of {mine.everyone.value:.2f}, with "
        f"{100 * mine.done_at_cut:.0f} % of the jobs finished: a published order can rest on the "
        f"count.{_never_ahead(known, rates)}"
    )


def _never_ahead(known: Mapping[tuple[float, str], Score], rates: Sequence[float]) -> str:
    """Say so, if the greedy agents are behind the study's SJF by both counts at all rates."""
    pairs = [(known[rate, ALWAYS], known[rate, REFERENCE]) for rate in rates]
    behind = all(
        mine.everyone.value >= theirs.everyone.value and mine.at_cut.value >= theirs.at_cut.value
        for mine, theirs in pairs
    )
    return " It is ahead of SJF at no rate by either count." if behind else ""


def _passes(mine: Score, theirs: Score) -> bool:
    """Tell whether one is ahead by the study's count, and not with all jobs counted."""
    behind = mine.everyone.value >= theirs.everyone.value
    return behind and mine.at_cut.value < theirs.at_cut.value


def _order_changes(known: Mapping[tuple[float, str], Score], rate: float) -> bool:
    """Tell whether agent, SJF and Packer stand in another order by the study's count."""
    labels = (ALWAYS, REFERENCE, PACKER)
    everyone = sorted(labels, key=lambda label: known[rate, label].everyone.value)
    return everyone != sorted(labels, key=lambda label: known[rate, label].at_cut.value)


def _flattery(score: Score) -> float:
    """Return by how much the study's count is below that of all jobs."""
    return score.everyone.value - score.at_cut.value


def _best_heuristic(here: Mapping[str, Score]) -> str:
    return min((name for name in here if name in HEURISTICS), key=lambda n: here[n].everyone.value)
