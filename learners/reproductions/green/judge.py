"""The results of rules and agents of a ready pool on the same streams, all jobs counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import set_interval
from simkit.arrays import Floats, Ints, stream
from simkit.learners.common.bundle import ViewDescription, read_bundle, up_to_date
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.job_sets import NEVER
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import ORDERS, Rule, left_over, play, threshold
from simkit.learners.networks.inference import masked_log_softmax, plain_network
from simkit.learners.reproductions.common import digest_of, kept_table, weights_hash
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.training import Workplace

__all__ = [
    "FIT",
    "JUDGED_AFRESH",
    "THRESHOLDS",
    "TUNING",
    "Candidate",
    "Gap",
    "agent",
    "best_threshold",
    "column",
    "games_of",
    "gap",
    "judged",
    "mean",
    "paired",
    "rule",
    "threshold_of",
]

FIT: Final = ("fit0", "fit12")
"""The least-left-over rules; their number is the last hour ahead in which a job may start."""
THRESHOLDS: Final = tuple(step / 20 for step in range(11))
"""θ of the threshold rule: 0 to 0.5."""
JUDGED: Final = "reproduce.green.judged"
"""Name of the test streams; settings and θ were chosen on others."""
JUDGED_AFRESH: Final = "reproduce.green.judged-afresh"
"""Name of other test streams, for agents whose settings changed after a first test."""
TUNING: Final = "reproduce.green.tuning"
"""Name of the streams on which θ is chosen."""


@dataclass(frozen=True)
class Candidate:
    """A rule or an agent."""

    name: str
    make: Callable[[], Rule]
    """Returns the rule or agent, ready to play games from their beginning."""
    digest: str
    """Identifies all that its play depends on."""
    reject: bool = False
    """Whether it rejects jobs."""


def threshold_of(theta: float) -> str:
    """Return the name of a threshold rule."""
    return f"threshold {theta:.2f}"


def rule(name: str) -> Candidate:
    """Return a rule by its name in `ORDERS` or `FIT` or from `threshold_of`; else KeyError."""
    known = dict(ORDERS)
    known |= {threshold_of(theta): threshold(theta) for theta in THRESHOLDS}
    known |= {fit: left_over(int(fit[3:])) for fit in FIT}
    chosen = known[name]
    return Candidate(name, lambda: chosen, name)


def agent(folder: Path, name: str, *, drawn: bool) -> Candidate:
    """Return the agent of a complete training.

    Args:
        folder: folder of the training.
        name: name of the candidate.
        drawn: draw actions, as in training; otherwise take the likeliest.
    """
    bundle = read_bundle(folder / "agent")
    described = ViewDescription.read(up_to_date(bundle.description))
    network = plain_network(described.architecture, bundle.weights)

    def make() -> Rule:
        rng = stream(0, "reproduce.green.actions")

        def choose(games: ReadyGames) -> Ints:
            logits, allowed = network.logits(games.observe()), games.mask()
            if not drawn:
                best: Ints = np.where(allowed, logits, -np.inf).argmax(axis=1)
                return best
            chances = np.exp(masked_log_softmax(logits, allowed).astype(np.float64))
            below = chances.cumsum(axis=1)
            at = rng.random(len(below)) * below[:, -1]
            taken: Ints = np.minimum(
                (below <= at[:, None]).sum(axis=1), (below < below[:, -1:]).sum(axis=1)
            )
            return taken

        return choose

    digest = digest_of([name, weights_hash(folder), drawn])
    return Candidate(name, make, digest, bool((described.view.action_arguments or {})["reject"]))


def judged(
    place: Workplace, where: Circumstances, candidates: Iterable[Candidate], streams: int,
    *, named: str = JUDGED,
) -> pl.DataFrame:  # fmt: skip
    """Return a row for each candidate and stream; results are kept.

    Columns ``candidate``, ``stream``, ``value``: the value earned over the value of all jobs, in
    time where late jobs leave; ``cost``: waiting jobs, mean over the hours; ``completed``: the
    share of jobs that ended; ``utilisation``: the share of powered units that were in use.

    Args:
        place: keeps results.
        where: circumstances.
        candidates: rules and agents.
        streams: number of streams.
        named: name of the streams: the test streams, or others to choose settings on.
    """
    tables = []
    for one in candidates:
        key = digest_of([asdict(where), one.digest, streams, named])
        play = partial(_judge, where, one, streams, named)
        tables.append(kept_table(place, place.work / "judged" / f"{key}.parquet", play))
    return pl.concat(tables)


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
            "stream": np.arange(streams),
            "value": games.value_ratio(in_time=where.late == "leave"),
            "cost": games.costs / np.maximum(games.steps, 1),
            "completed": (submitted & done).sum(axis=1) / np.maximum(submitted.sum(axis=1), 1),
            "utilisation": _utilisation(games, where.hours),
        }
    ).select(pl.lit(one.name).alias("candidate"), pl.all())


def _utilisation(games: ReadyGames, hours: int) -> Floats:
    """Return (S,) the share of powered units that jobs held until an hour."""
    streams, ends = games.sets, np.minimum(games.end, hours)
    starts = np.where(games.start >= 0, np.minimum(games.start, hours), 0)
    held = np.where((games.start >= 0) & (games.end < NEVER), np.maximum(ends - starts, 0), 0)
    used = (held[..., None] * streams.size).sum(axis=1) / streams.powered[:, :hours].sum(axis=1)
    share: Floats = used.mean(axis=1)
    return share


@dataclass(frozen=True)
class Gap:
    """A mean difference over streams in points, with an interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def column(table: pl.DataFrame, candidate: str, name: str = "value") -> Floats:
    """Return (S,) a column of a candidate, stream by stream."""
    found: Floats = table.filter(candidate=candidate).sort("stream")[name].to_numpy()
    return found.astype(np.float64)


def mean(table: pl.DataFrame, candidate: str, name: str = "value") -> float:
    """Return the mean of a column over the streams."""
    return float(column(table, candidate, name).mean())


def gap(table: pl.DataFrame, candidate: str, baseline: str, name: str = "value") -> Gap:
    """Return by how much a candidate exceeds a baseline on the same streams, in hundredths."""
    return paired(column(table, candidate, name), column(table, baseline, name))


def paired(mine: Floats, other: Floats) -> Gap:
    """Return the mean difference of (S,) numbers of the same streams, in hundredths."""
    difference = 100.0 * (mine - other)
    interval = set_interval(difference, np.ones(len(difference)))
    low = -np.inf if interval.low is None else interval.low
    high = np.inf if interval.high is None else interval.high
    return Gap(float(difference.mean()), low, high)


def best_threshold(place: Workplace, where: Circumstances, streams: int) -> float:
    """Return the θ with the highest mean value on the tuning streams."""
    names: Mapping[float, str] = {theta: threshold_of(theta) for theta in THRESHOLDS}
    table = judged(place, where, map(rule, names.values()), streams, named=TUNING)
    return max(names, key=lambda theta: mean(table, names[theta]))
