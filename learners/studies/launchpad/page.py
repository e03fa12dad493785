"""What the page of the study of Launchpad calls by name, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simkit.analysis.intervals import Estimate
from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green.judge import HEURISTICS
from simkit.learners.studies.green.trainings import LATE_LEAVE, SMALL_POOL, drawn
from simkit.learners.studies.launchpad.data import MIXES
from simkit.learners.studies.launchpad.trainings import KINDS
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, SIGNS, parsed
from simkit.learners.studies.pictures import Mark, distances, panel, picture
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


def seeds_met(results: Results, *rule: str) -> str:
    """Return how many seeds meet ``QUESTION >= NUMBER`` by their means: ``2 of 3``."""
    question, sign, least = parsed(" | ".join(rule))
    found = results.ask(question)
    each = found.by_seed or (found.value,)
    met = [SIGNS[sign](gap, least) for gap in each]
    return f"{sum(met)} of {len(met)}"


def everyone(results: Results, pool: str) -> dict[str, str]:
    """Return the rules and the agents with a ready pool → their labels."""
    agents = OF_FOUR_RULES if int(pool) == LARGE else OF_THREE_SETS
    best = results.named("threshold rule", f"pool {pool}")
    labels = {**RULES, best: best.replace("threshold", "threshold rule, θ")}
    for arm, label in agents.items():
        labels |= {act(arm): f"{label}, {actions}" for actions, act in ACTIONS.items()}
    return labels


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


_RELATIONS: Final[Mapping[str, Callable[[Estimate], bool]]] = {
    "above": lambda gap: gap.surely(0.0),
    "below": lambda gap: gap.surely_below(0.0),
    "alike": lambda gap: abs(gap.value) <= ALIKE,
    "no worse": lambda gap: gap.value >= -ALIKE,
}


def stands(results: Results, how: str, mine: str, *others: str) -> str:
    """Return whether agents stand in one of `_RELATIONS` to each of some others, in value."""
    case = f"pool {SMALL if 'pool5' in mine else LARGE}"

    def holds(act: str) -> bool:
        arms = [one if one in RULES else one + act for one in others]
        asked = [f"value | {mine}{act} | {case} | less={one} | percent" for one in arms]
        return all(map(_RELATIONS[how], map(results.ask, asked)))

    return _verdict(holds)


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


_WAYS: Final = (("drawn", -0.22, COLOURS[0]), ("likeliest", 0.22, COLOURS[1]))


def _panel(pool: int, agents: Mapping[str, str], title: str) -> Mark:
    """Return a panel with a row for each rule and kind of agent; each seed is a point."""
    rules = {"sjf": "SJF", "fcfs": "FCFS", "value": "HVF", "threshold rule": "threshold rule"}
    labels = [*rules.values(), *(label.replace(" and SJF", ", SJF") for label in agents.values())]

    def points(axes: Any, results: Results, arm: str, label: str, row: float, colour: str) -> None:
        seeds = results.seeds("value", arm, f"pool {pool}")
        for seed in seeds:
            asked = f"value | {arm} | pool {pool} | less=qos | seed={seed} | percent"
            value, reach = distances([results.ask(asked)])
            named = label in axes.get_legend_handles_labels()[1]
            axes.errorbar(value, [row + 0.1 * (seed - seeds[-1] / 2)], xerr=reach, fmt="o",
                          markersize=3.5, color=colour, elinewidth=1.0,
                          label=None if named else label)  # fmt: skip

    def draw(axes: Any, results: Results) -> None:
        for row, arm in enumerate(rules):
            points(axes, results, arm, "rules", row, COLOURS[5])
        for row, arm in enumerate(agents, len(rules)):
            for actions, shift, colour in _WAYS:
                points(
                    axes, results, ACTIONS[actions](arm), f"{actions} actions", row + shift, colour
                )
        axes.axvline(0.0, color=COLOURS[5], linewidth=0.7)
        axes.set_yticks(range(len(labels)), labels=labels, fontsize=8)
        axes.invert_yaxis()

    return panel(draw, xlabel="points of value above QoS", title=title)


draw: Final = picture(
    *(_panel(where.ready, agents, f"{words}; pool of {where.ready}, load {where.load:.0%}")
      for where, agents, words in (
          (LATE_LEAVE, OF_FOUR_RULES, "data of four rules"),
          (SMALL_POOL, OF_THREE_SETS, "three sets of data"),
      )),
    width=9.0, height=4.2, legend={"ncols": 3, "fontsize": 8},
)  # fmt: skip
"""Points of value above QoS of rules and agents, with both pools."""
