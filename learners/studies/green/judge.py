"""The results of rules and agents of a ready pool on the same streams, all jobs counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, stream
from simkit.learners.common.games import Rule
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.job_sets import NEVER
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import ORDERS, left_over, play, threshold
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.trainings import drawn, kind_of
from simkit.learners.studies.results import Best
from simkit.learners.studies.trainings import KeptTraining, Part, digest_of, kept_rows, player
from simkit.training import Workplace

HEURISTICS: Final[Mapping[str, str]] = {
    "fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF",
}  # fmt: skip
"""The dissertation's rules → their labels there; HVF: the highest value first."""
THRESHOLDS: Final = tuple(step / 20 for step in range(11))
"""θ of the threshold rule: 0 to 0.5."""
JUDGED: Final = "reproduce.green.judged"
"""Name of the test streams; settings and θ were chosen on others."""
JUDGED_AFRESH: Final = "reproduce.green.judged-afresh"
"""Name of other test streams, for agents whose settings changed after a first test."""
TUNING: Final = "reproduce.green.tuning"
"""Name of the streams on which θ is chosen."""
METRICS: Final = ("value", "cost", "completed", "utilisation")
"""``value``: the value earned over the value of all jobs, in time where late jobs leave; ``cost``:
waiting jobs, mean over the hours; ``completed``: the share of jobs that ended; ``utilisation``: the
share of powered units that were in use."""


def threshold_of(theta: float) -> str:
    """Return the name of a threshold rule."""
    return f"threshold {theta:.2f}"


BEST: Final = {"threshold rule": Best("value", tuple(map(threshold_of, THRESHOLDS)), highest=True)}
"""That whose θ was chosen on other streams: where late jobs leave, no other is judged."""


RULES: Final[Mapping[str, Rule]] = {
    **ORDERS,
    **{threshold_of(theta): threshold(theta) for theta in THRESHOLDS},
    **{f"fit{hours}": left_over(hours) for hours in (0, 12)},
}
"""The number of a least-left-over rule is the last hour ahead in which a job may start."""


@dataclass(frozen=True)
class Candidate:
    """A rule or an agent."""

    arm: str
    digest: str
    """The name of a rule, or a hash of all that an agent's play depends on."""
    seed: int | None = None
    """Seed of the agent's training."""
    agent: Path | None = None
    """Folder of the agent."""
    draw: bool = False
    """Whether its actions are drawn; otherwise they are its likeliest."""
    reject: bool = False
    """Whether it rejects jobs."""

    def make(self) -> Rule:
        """Return the rule or agent, ready to play games from their beginning."""
        if self.agent is None:
            return RULES[self.digest]
        return player(self.agent, stream(0, "reproduce.green.actions") if self.draw else None)


def rule(name: str) -> Candidate:
    """Return a rule of `RULES`."""
    return Candidate(name, name)


def agents(trainings: Iterable[KeptTraining]) -> list[Candidate]:
    """Return the agents of complete trainings: with their likeliest actions, and drawn."""
    found = list(trainings)
    return [_agent(one, draw=draw) for draw in (False, True) for one in found]


def _agent(one: KeptTraining, *, draw: bool) -> Candidate:
    arm, name = (drawn(text) if draw else text for text in (kind_of(one), one.scenario.name))
    digest, folder = digest_of([name, one.digest, draw]), one.folder / "agent"
    learn = one.scenario.learn
    assert learn is not None
    reject = bool(learn.all_arguments.get("reject"))
    return Candidate(arm, digest, one.scenario.seed, folder, draw, reject)


def parts(
    where: Circumstances, candidates: Iterable[Candidate], streams: int, *, case: str = "",
    named: str = JUDGED,
) -> list[Part]:  # fmt: skip
    """Return a table for each candidate, of its `METRICS` on each stream.

    Args:
        where: circumstances.
        candidates: rules and agents.
        streams: number of streams, the items.
        case: name of the circumstances in the long table.
        named: name of the streams: the test streams, or others to choose settings on.
    """
    return [
        Part(one.arm, [asdict(where), one.digest, streams, named], _judge,
             (where, one, streams, named), {"arm": one.arm, "seed": one.seed, "case": case})
        for one in candidates
    ]  # fmt: skip


def judged(
    place: Workplace, where: Circumstances, candidates: Iterable[Candidate], streams: int,
    *, case: str = "", named: str = JUDGED,
) -> pl.DataFrame:  # fmt: skip
    """Return the `parts` as a long table; results are kept."""
    return kept_rows(place, parts(where, candidates, streams, case=case, named=named), METRICS)


def games_of(
    where: Circumstances, streams: int, *, named: str = JUDGED, reject: bool = False
) -> ReadyGames:
    """Return games of the test streams, or of others."""
    source = ReadySource(
        where.scenario("judged"), hours=where.hours, max_start=where.max_start, reject=reject
    )
    return source.games(source.draw(stream(0, named), streams))


def _judge(where: Circumstances, one: Candidate, streams: int, named: str) -> pl.DataFrame:
    games = games_of(where, streams, named=named, reject=one.reject)
    play(games, one.make())
    submitted = games.sets.enter < where.hours
    done = (games.start >= 0) & (games.end <= where.hours)
    return pl.DataFrame(
        {
            "item": np.arange(streams),
            "value": games.value_ratio(in_time=where.late == "leave"),
            "cost": games.costs / np.maximum(games.steps, 1),
            "completed": (submitted & done).sum(axis=1) / np.maximum(submitted.sum(axis=1), 1),
            "utilisation": _utilisation(games, where.hours),
        }
    )


def _utilisation(games: ReadyGames, hours: int) -> Floats:
    """Return (S,) the share of powered units that jobs held until an hour."""
    streams, ends = games.sets, np.minimum(games.end, hours)
    starts = np.where(games.start >= 0, np.minimum(games.start, hours), 0)
    held = np.where((games.start >= 0) & (games.end < NEVER), np.maximum(ends - starts, 0), 0)
    used = (held[..., None] * streams.size).sum(axis=1) / streams.powered[:, :hours].sum(axis=1)
    share: Floats = used.mean(axis=1)
    return share


def best_threshold(place: Workplace, where: Circumstances, streams: int) -> float:
    """Return the θ with the highest mean value on the tuning streams."""
    rules = [rule(threshold_of(theta)) for theta in THRESHOLDS]
    table = judged(place, where, rules, streams, named=TUNING).filter(metric="value")
    means = dict(table.group_by("arm").agg(pl.col("value").mean()).iter_rows())
    return max(THRESHOLDS, key=lambda theta: means[threshold_of(theta)])
