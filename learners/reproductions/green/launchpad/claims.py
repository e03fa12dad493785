"""The bars that this study sets for Launchpad, and the dissertation's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simkit.learners.reproductions.green.judge import Gap, gap
from simkit.learners.reproductions.green.launchpad.runs import ACTIONS, KINDS, Results
from simkit.learners.reproductions.green.studies import LATE_LEAVE, MIXES, SMALL_POOL
from simkit.learners.reproductions.green.trainings import named

__all__ = ["ALIKE", "BARS", "NEAR", "TABLE_7_1", "Bar", "Claim", "bars", "claims", "verdict"]

ALIKE: Final = 1.0
"""Points of value within which two candidates count as alike; published intervals: ±1.5 to 2.3."""
NEAR: Final = 0.05
"""The most by which an agreement may differ from the published one to count as the same."""
TABLE_7_1: Final[Mapping[str, Mapping[str, float]]] = {
    "clone": {"qos": 0.95, "qos-sjf": 0.99, "combo": 0.98},
    "offline": {"qos": 0.91, "qos-sjf": 0.91, "combo": 0.87},
    "launch": {"qos": 0.21, "qos-sjf": 0.21, "combo": 0.17},
}
"""Kind → data → published action agreement."""
NOT_TESTED: Final = "not tested"
BARS: Final = (
    "the clone is at least 1 point below QoS",
    "offline is at least 1 point above the clone",
    "offline is at most 0.5 points below QoS",
    "offline + online is above the clone",
    "offline + online is above offline",
)
"""Bars for agents of the mix of four rules, at the pool of 15, with drawn actions."""
_LARGE, _SMALL = LATE_LEAVE.ready, SMALL_POOL.ready


@dataclass(frozen=True)
class Bar:
    """One of `BARS`, for a seed."""

    words: str
    gap: Gap
    """Mean over the streams."""
    met: bool


def bars(results: Results, seed: int, actions: str) -> list[Bar]:
    """Return the bars for the trainings of a seed."""
    table, plan = results.judged[_LARGE], results.plan.combo
    clone, offline, launch = (named(plan[kind][seed], actions) for kind in KINDS)
    found = (
        gap(table, clone, "qos"), gap(table, offline, clone), gap(table, offline, "qos"),
        gap(table, launch, clone), gap(table, launch, offline),
    )  # fmt: skip
    met = (
        found[0].value <= -1.0, found[1].value >= 1.0, found[2].value >= -0.5,
        found[3].value > 0.0, found[4].value > 0.0,
    )  # fmt: skip
    return [Bar(*one) for one in zip(BARS, found, met, strict=True)]


# --- the dissertation's claims --------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A claim and our result."""

    figure: str
    words: str
    drawn: str
    """Our result with drawn actions."""
    likeliest: str
    """Our result with the likeliest actions."""
    verdict: str

    @property
    def row(self) -> Sequence[str]:
        """The cells of a table."""
        return (self.figure, self.words, self.drawn, self.likeliest, self.verdict)


def verdict(drawn: bool, likeliest: bool) -> str:
    """Return the verdict on a claim that does not say how actions are taken."""
    if drawn == likeliest:
        return "confirmed" if drawn else "not confirmed"
    return f"confirmed with {'drawn' if drawn else 'the likeliest'} actions only"


Found = tuple[str, bool]
"""The number as text, and whether it confirms the claim."""


def claims(results: Results) -> list[Claim]:
    """Return the checklist, in the order of the figures."""

    def over(kind: str, baseline: str) -> Callable[[str], list[Gap]]:
        return lambda actions: _over(results, kind, baseline, actions)

    return [
        _tested("7.3", "the clone of four rules is below QoS",
                lambda actions: _all_below(over("clone", "qos")(actions))),
        _tested("7.3", "the clone of QoS performs as QoS",
                lambda actions: _alike([_over_small(results, "clone", "qos", "qos", actions)])),
        _tested("7.3, 7.4a", "the clone of QoS is above those of the mixes",
                lambda actions: _all_above(_over_mixes(results, "clone", actions))),
        _tested("7.4a", "offline is above the clone, from the four rules",
                lambda actions: _all_above(over("offline", "clone")(actions))),
        _tested("7.4a", "offline agents perform alike: from QoS less those from the mixes",
                lambda actions: _alike(_over_mixes(results, "offline", actions))),
        _untested("7.4b, 7.5", "offline from the four rules is above the clone and QoS, 50 units",
                  over("offline", "clone"), over("offline", "qos")),
        _tested("7.6", "online performs as well as QoS, for its clone, and as offline, 10 units",
                lambda actions: _no_worse([*over("online", "qos")(actions),
                                           *over("online", "offline")(actions)])),
        Claim("7.6", "the same with 20 and 30 units", "", "", NOT_TESTED),
        Claim("7.6", "online is below them with 40 and 50 units", "", "", NOT_TESTED),
        _untested("7.7", "offline + online is at least at par with both, 100 units",
                  over("launch", "qos"), over("launch", "offline")),
        *_agreements(results),
    ]  # fmt: skip


def _tested(figure: str, words: str, find: Callable[[str], Found]) -> Claim:
    (drawn, drawn_holds), (likeliest, likeliest_holds) = (find(actions) for actions in ACTIONS)
    return Claim(figure, words, drawn, likeliest, verdict(drawn_holds, likeliest_holds))


def _untested(figure: str, words: str, *gaps: Callable[[str], list[Gap]]) -> Claim:
    """Return a claim about other sizes, with our result for 10 units."""
    drawn, likeliest = (
        "10 units: " + " and ".join(_listed(find(actions)) for find in gaps) for actions in ACTIONS
    )
    return Claim(figure, words, drawn, likeliest, NOT_TESTED)


def _over(results: Results, kind: str, baseline: str, actions: str) -> list[Gap]:
    """Return how far agents at the pool of 15 are above QoS or another kind, seed by seed."""
    table, plan = results.judged[_LARGE], results.plan.combo
    others = [baseline] * len(plan[kind])
    if baseline in plan:
        others = [named(task, actions) for task in plan[baseline]]
    mine = [named(task, actions) for task in plan[kind]]
    return [gap(table, one, other) for one, other in zip(mine, others, strict=True)]


def _over_small(results: Results, kind: str, data: str, baseline: str, actions: str) -> Gap:
    """Return how far an agent at the pool of 5 is above a rule or the same kind from other data."""
    plan = results.plan.mixes[kind]
    is_data = baseline in MIXES and baseline != data
    other = named(plan[baseline], actions) if is_data else baseline
    return gap(results.judged[_SMALL], named(plan[data], actions), other)


def _over_mixes(results: Results, kind: str, actions: str) -> list[Gap]:
    return [_over_small(results, kind, "qos", data, actions) for data in MIXES if data != "qos"]


def _all_below(gaps: list[Gap]) -> Found:
    return _listed(gaps), all(one.high < 0.0 for one in gaps)


def _all_above(gaps: list[Gap]) -> Found:
    return _listed(gaps), all(one.low > 0.0 for one in gaps)


def _alike(gaps: list[Gap]) -> Found:
    return _listed(gaps), all(abs(one.value) <= ALIKE for one in gaps)


def _no_worse(gaps: list[Gap]) -> Found:
    return _listed(gaps), all(one.value >= -ALIKE for one in gaps)


def _listed(gaps: list[Gap]) -> str:
    return ", ".join(f"{one.value:+.2f}" for one in gaps)


def _agreements(results: Results) -> Iterator[Claim]:
    """Yield table 7.1: the agreement of each kind, and that it falls from kind to kind."""

    def shares(kind: str, actions: str) -> list[float]:
        tasks = results.plan.mixes[kind]
        return [results.agreement(_SMALL, data, [named(tasks[data], actions)]) for data in MIXES]

    for kind, label in KINDS.items():
        published = list(TABLE_7_1[kind].values())

        def find(actions: str, kind: str = kind, published: list[float] = published) -> Found:
            ours = shares(kind, actions)
            near = [abs(one - theirs) <= NEAR for one, theirs in zip(ours, published, strict=True)]
            return _percents(ours), all(near)

        words = (
            f"agreement of {label} with QoS, SJF and QoS, and four rules: {_percents(published)}"
        )
        yield _tested("table 7.1", words, find)

    def falls(actions: str) -> Found:
        means = [sum(shares(kind, actions)) / len(MIXES) for kind in KINDS]
        return _percents(means), means[0] > means[1] > means[2]

    yield _tested("table 7.1", "the clone agrees most, offline + online least (means)", falls)


def _percents(shares: Sequence[float]) -> str:
    return f"{', '.join(f'{100 * one:.0f}' for one in shares)} %"
