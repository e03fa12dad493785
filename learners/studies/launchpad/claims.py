"""The dissertation's claims about Launchpad: figures 7.3 to 7.7 and table 7.1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from simkit.analysis.intervals import Estimate
from simkit.learners.studies.launchpad.data import MIXES
from simkit.learners.studies.launchpad.tables import LABELS, LARGE, SMALL, TABLE_7_1
from simkit.learners.studies.launchpad.trainings import KINDS
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, Claim, holes
from simkit.learners.studies.results import Results

ALIKE: Final = 1.0
"""Points of value within which two candidates count as alike; published intervals: ±1.5 to 2.3."""
NEAR: Final = 5.0
"""The most points by which an agreement may differ from the published one to count as the same."""
_ACTS: Final = {"drawn": ", drawn", "likeliest": ""}
Holds = Callable[[Sequence[Estimate]], bool]


def verdict(by_drawn: bool, by_likeliest: bool) -> str:
    """Return the verdict on a claim that does not say how actions are taken."""
    if by_drawn == by_likeliest:
        return CONFIRMED if by_drawn else NOT_CONFIRMED
    return f"{CONFIRMED} with {'drawn' if by_drawn else 'the likeliest'} actions only"


def _claim(figure: str, words: str, cell: str, holds: Holds | None = None) -> Claim:
    """Return a claim whose ``[QUESTION : FORMAT]`` are holes, and which holds by their answers.

    ACT in them stands for both ways to act.
    """
    cells = [cell.replace("ACT", act) for act in _ACTS.values()]
    drawn, likeliest = map(holes, cells)
    if holds is None:
        return Claim(figure, words, drawn, more=(likeliest,))

    def rule(results: Results) -> str:
        asked = [re.findall(r"\[(.*?) : ", one) for one in cells]
        return verdict(*(holds([results.ask(each) for each in several]) for several in asked))

    return Claim(figure, words, drawn, rule, (likeliest,))


def _less(mine: str, *others: str, form: str = "+.2f") -> str:
    """Return by how much agents exceed others, in points."""
    pool = f"pool {SMALL}" if "pool5" in mine else f"pool {LARGE}"
    asked = (f"[value | {mine}ACT | {pool} | less={one} | percent : {form}]" for one in others)
    return ", ".join(asked)


def _above(found: Sequence[Estimate]) -> bool:
    return all(one.surely(0.0) for one in found)


def _below(found: Sequence[Estimate]) -> bool:
    return all(one.high is not None and one.high < 0.0 for one in found)


def _alike(found: Sequence[Estimate]) -> bool:
    return all(abs(one.value) <= ALIKE for one in found)


def _no_worse(found: Sequence[Estimate]) -> bool:
    return all(one.value >= -ALIKE for one in found)


def _falls(found: Sequence[Estimate]) -> bool:
    clone, offline, launch = (one.value for one in found)
    return clone > offline > launch


def _agreements(asked: Iterable[tuple[str, str]]) -> str:
    """Return the agreement of kinds of agents with data, in percent."""
    return ", ".join(
        f"[agreement | {kind}ACT | pool {SMALL}, {data} | percent : .0f]" for kind, data in asked
    ) + " %"  # fmt: skip


def _agrees(kind: str) -> Claim:
    """Return the claim of table 7.1 about a kind of agents."""
    published = [100 * share for share in TABLE_7_1[kind]]

    def near(found: Sequence[Estimate]) -> bool:
        return all(abs(a.value - b) <= NEAR for a, b in zip(found, published, strict=True))

    shown = ", ".join(f"{share:.0f}" for share in published)
    words = f"agreement of {LABELS[kind]} with QoS, SJF and QoS, and four rules: {shown} %"
    return _claim("table 7.1", words, _agreements((kind, data) for data in MIXES), near)


_SETS: Final = [f"{{}}-{data}-pool5ACT" for data in MIXES if data != "qos"]
CLAIMS: Final = (
    _claim("7.3", "the clone of four rules is below QoS",
           _less("clone-combo", "qos", form="+.2f ±"), _below),
    _claim("7.3", "the clone of QoS performs as QoS", _less("clone-qos-pool5", "qos"), _alike),
    _claim("7.3, 7.4a", "the clone of QoS is above those of the mixes",
           _less("clone-qos-pool5", *(one.format("clone") for one in _SETS)), _above),
    _claim("7.4a", "offline is above the clone, from the four rules",
           _less("offline-combo", "clone-comboACT", form="+.2f ±"), _above),
    _claim("7.4a", "offline agents perform alike: from QoS less those from the mixes",
           _less("offline-qos-pool5", *(one.format("offline") for one in _SETS)), _alike),
    _claim("7.4b, 7.5", "offline from the four rules is above the clone and QoS, 50 units",
           f"10 units: {_less('offline-combo', 'clone-comboACT', 'qos')}"),
    _claim("7.6", "online performs as well as QoS, for its clone, and as offline, 10 units",
           _less("online", "qos", "offline-comboACT"), _no_worse),
    Claim("7.6", "the same with 20 and 30 units"),
    Claim("7.6", "online is below them with 40 and 50 units"),
    _claim("7.7", "offline + online is at least at par with both, 100 units",
           f"10 units: {_less('launch-combo', 'qos', 'offline-comboACT')}"),
    *map(_agrees, KINDS),
    _claim("table 7.1", "the clone agrees most, offline + online least (means)",
           _agreements((kind, "all data") for kind in KINDS), _falls),
)  # fmt: skip
