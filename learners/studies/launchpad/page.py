"""What the page of the study of Launchpad calls by name: rows, numbers, verdicts, pictures."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from simkit.analysis.intervals import Estimate
from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green.judge import HEURISTICS, threshold_of
from simkit.learners.studies.green.trainings import LATE_LEAVE, SMALL_POOL, drawn
from simkit.learners.studies.launchpad.data import MIXES
from simkit.learners.studies.launchpad.trainings import KINDS
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, parsed
from simkit.learners.studies.pictures import Figure, distances, empty_figure
from simkit.learners.studies.results import Results

LARGE, SMALL = LATE_LEAVE.ready, SMALL_POOL.ready
"""Places in the two ready pools; their cases are ``pool N``, of agreement ``pool N, DATA``."""
RULES: Final = {name: HEURISTICS[name] for name in ("qos", "sjf", "fcfs", "value")}
"""Order → its label in the dissertation, in the order of its tables."""
LABELS: Final = dict(zip(KINDS, ("clone", "offline", "offline + online"), strict=True))
DATA: Final = dict(zip(MIXES, ("QoS", "QoS and SJF", "four rules"), strict=True))
ACTIONS: Final[Mapping[str, Callable[[str], str]]] = {"drawn": drawn, "likeliest": str}
OF_FOUR_RULES: Final = {
    **{f"{kind}-combo": label for kind, label in LABELS.items()}, "online": "online alone",
}  # fmt: skip
"""Arm at the pool of 15 → label."""
OF_THREE_SETS: Final = {
    f"{kind}-{data}-pool{SMALL}": f"{label}: {words}"
    for kind, label in LABELS.items()
    for data, words in DATA.items()
}
"""Arm at the pool of 5 → label."""
TABLE_7_1: Final[Mapping[str, tuple[float, ...]]] = {
    "clone": (0.95, 0.99, 0.98), "offline": (0.91, 0.91, 0.87), "launch": (0.21, 0.21, 0.17),
}  # fmt: skip
"""Kind → published action agreement for each of the three data."""
ALIKE: Final = 1.0
"""Points of value within which two candidates count as alike; published intervals: ±1.5 to 2.3."""
NEAR: Final = 5.0
"""The most points by which an agreement may differ from the published one to count as the same."""


_MEETS: Final = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def seeds_met(results: Results, *rule: str) -> str:
    """Return how many seeds meet ``QUESTION >= NUMBER`` by their means: ``2 of 3``."""
    question, sign, least = parsed(" | ".join(rule))
    found = results.ask(question)
    each = found.by_seed or (found.value,)
    met = [_MEETS[sign](gap, least) for gap in each]
    return f"{sum(met)} of {len(met)}"


def each_training(results: Results) -> list[dict[str, str]]:
    """Return what names the rows of the outcome: all trainings together, and each."""
    seeds = range(len(results.values("cost", "clone-combo", f"pool {LARGE}")[0]))
    each = [{"label": str(seed), "by": f" | seed={seed}"} for seed in seeds]
    return [{"label": "all", "by": ""}, *each]


def best_threshold_rule(results: Results, pool: int | str) -> str:
    """Return the threshold rule that was chosen on other streams."""
    return threshold_of(results.facts[f"θ, pool {pool}"])


def everyone(results: Results, pool: str) -> list[dict[str, str]]:
    """Return the rules and the agents with a ready pool: rows of a table."""
    agents = OF_FOUR_RULES if int(pool) == LARGE else OF_THREE_SETS
    best = best_threshold_rule(results, pool)
    labels = {**RULES, best: best.replace("threshold", "threshold rule, θ")}
    for arm, label in agents.items():
        labels |= {act(arm): f"{label}, {actions}" for actions, act in ACTIONS.items()}
    return [{"arm": arm, "label": label, "threshold": best} for arm, label in labels.items()]


def spread(results: Results, kind: str, actions: str) -> float:
    """Return the points of value from the best to the worst of three sets of data."""
    arms = [ACTIONS[actions](f"{kind}-{data}-pool{SMALL}") for data in MIXES]
    values = [100 * results.mean("value", arm, f"pool {SMALL}") for arm in arms]
    return max(values) - min(values)


def closest(results: Results, data: str) -> float:
    """Return how often the clone of a mix agrees with the rule that it follows most, in percent."""
    return 100 * float(results.values("agreement", "clone", f"pool {SMALL}, {data}")[0].max())


def _verdict(holds: Callable[[str], bool]) -> str:
    """Return the verdict on a claim that does not say how actions are taken.

    `holds` is asked with what follows the kind in the arm of agents that act in a way.
    """
    by_drawn, by_likeliest = holds(drawn("")), holds("")
    if by_drawn == by_likeliest:
        return CONFIRMED if by_drawn else NOT_CONFIRMED
    return f"{CONFIRMED} with {'drawn' if by_drawn else 'the likeliest'} actions only"


def _gaps(results: Results, act: str, mine: str, others: Iterable[str]) -> list[Estimate]:
    """Return by how many points of value agents exceed other agents that act alike, or rules."""
    asked = f"value | {mine}{act} | pool {SMALL if 'pool5' in mine else LARGE}"
    arms = (one if one in RULES else one + act for one in others)
    return [results.ask(f"{asked} | less={one} | percent") for one in arms]


_RELATIONS: Final[Mapping[str, Callable[[Estimate], bool]]] = {
    "above": lambda gap: gap.surely(0.0),
    "below": lambda gap: gap.high is not None and gap.high < 0.0,
    "alike": lambda gap: abs(gap.value) <= ALIKE,
    "no worse": lambda gap: gap.value >= -ALIKE,
}


def stands(results: Results, how: str, mine: str, *others: str) -> str:
    """Return whether agents stand in one of `_RELATIONS` to each of some others, in value."""
    holds = _RELATIONS[how]
    return _verdict(lambda act: all(map(holds, _gaps(results, act, mine, others))))


def near_the_published(results: Results, kind: str) -> str:
    """Return whether agents of a kind agree about as often as in table 7.1, for each data."""
    return _verdict(lambda act: all(
        abs(100 * (results.mean("agreement", kind + act, f"pool {SMALL}, {data}") - share)) <= NEAR
        for data, share in zip(MIXES, TABLE_7_1[kind], strict=True)
    ))  # fmt: skip


def agreement_falls(results: Results) -> str:
    """Return whether the clone agrees more than offline, and that more than offline + online."""

    def falls(act: str) -> bool:
        case = f"pool {SMALL}, all data"
        clone, offline, launch = (results.mean("agreement", kind + act, case) for kind in KINDS)
        return clone > offline > launch

    return _verdict(falls)


_COLOURS: Final = dict(zip(ACTIONS, (COLOURS[0], COLOURS[1]), strict=True))


def draw(results: Results) -> Figure:
    """Draw points of value above QoS of rules and agents, with both pools."""
    figure = empty_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    for axes, where, agents, title in (
        (left, LATE_LEAVE, OF_FOUR_RULES, "data of four rules"),
        (right, SMALL_POOL, OF_THREE_SETS, "three sets of data"),
    ):
        _panel(axes, results, where.ready, agents)
        axes.set_title(f"{title}; pool of {where.ready}, load {where.load:.0%}", fontsize=9.5)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _panel(axes: Any, results: Results, pool: int, agents: Mapping[str, str]) -> None:
    """Draw a row for each rule and kind of agent; each seed is a point with its interval."""
    best = best_threshold_rule(results, pool)
    rules = {"sjf": "SJF", "fcfs": "FCFS", "value": "HVF", best: "threshold rule"}
    seeds = {arm: len(results.values("value", arm, f"pool {pool}")[0]) for arm in agents}
    points = [("rules", arm, 0, float(row), COLOURS[5]) for row, arm in enumerate(rules)]
    points += [
        (f"{actions} actions", act(arm), seed,
         row + 0.22 * (2 * way - 1) + 0.1 * (seed - (seeds[arm] - 1) / 2), _COLOURS[actions])
        for row, arm in enumerate(agents, len(rules))
        for way, (actions, act) in enumerate(ACTIONS.items())
        for seed in range(seeds[arm])
    ]  # fmt: skip
    named = set[str]()
    for label, arm, seed, at, colour in points:
        asked = f"value | {arm} | pool {pool} | less=qos | seed={seed} | percent"
        value, reach = distances(results, [asked])
        axes.errorbar(value, [at], xerr=reach, fmt="o", markersize=3.5, color=colour,
                      elinewidth=1.0, label=None if label in named else label)  # fmt: skip
        named.add(label)
    axes.axvline(0.0, color=COLOURS[5], linewidth=0.7)
    labels = [*rules.values(), *(label.replace(" and SJF", ", SJF") for label in agents.values())]
    axes.set_yticks(range(len(labels)), labels=labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("points of value above QoS")
