"""The results of rules and agents of a ready pool on the same streams, all jobs counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints, stream
from simkit.learners.common.bundle import ViewDescription, up_to_date
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.job_sets import NEVER
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import ORDERS, Rule, left_over, play, threshold
from simkit.learners.networks.inference import masked_log_softmax, plain_network
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.green.trainings import drawn, kind_of
from simkit.learners.studies.results import long
from simkit.learners.studies.trainings import KeptTraining, digest_of, kept_table
from simkit.training import Workplace

HEURISTICS: Final[Mapping[str, str]] = {
    "fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF",
}  # fmt: skip
"""The dissertation's rules → their labels there; HVF: the highest value first."""
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
METRICS: Final = ("value", "cost", "completed", "utilisation")
"""``value``: the value earned over the value of all jobs, in time where late jobs leave; ``cost``:
waiting jobs, mean over the hours; ``completed``: the share of jobs that ended; ``utilisation``: the
share of powered units that were in use."""


@dataclass(frozen=True)
class Candidate:
    """A rule or an agent."""

    arm: str
    make: Callable[[], Rule]
    """Returns the rule or agent, ready to play games from their beginning."""
    digest: str
    """Identifies all that its play depends on."""
    seed: int | None = None
    """Seed of the agent's training."""
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


def agents(trainings: Iterable[KeptTraining]) -> list[Candidate]:
    """Return the agents of complete trainings: with their likeliest actions, and drawn."""
    found = list(trainings)
    return [_agent(one, draw=draw) for draw in (False, True) for one in found]


def _agent(one: KeptTraining, *, draw: bool) -> Candidate:
    bundle = one.agent
    described = ViewDescription.read(up_to_date(bundle.description))
    network = plain_network(described.architecture, bundle.weights)

    def make() -> Rule:
        rng = stream(0, "reproduce.green.actions")

        def choose(games: ReadyGames) -> Ints:
            logits, allowed = network.logits(games.observe()), games.mask()
            if not draw:
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

    kind, name = kind_of(one), one.scenario.name
    return Candidate(
        drawn(kind) if draw else kind,
        make,
        digest_of([drawn(name) if draw else name, one.digest, draw]),
        one.scenario.seed,
        bool((described.view.action_arguments or {})["reject"]),
    )


def judged(
    place: Workplace, where: Circumstances, candidates: Iterable[Candidate], streams: int,
    *, case: str = "", named: str = JUDGED,
) -> pl.DataFrame:  # fmt: skip
    """Return the `METRICS` of each candidate on each stream as a long table; results are kept.

    Args:
        place: keeps results.
        where: circumstances.
        candidates: rules and agents.
        streams: number of streams, the items.
        case: name of the circumstances in the table.
        named: name of the streams: the test streams, or others to choose settings on.
    """
    tables = []
    for one in candidates:
        key = [asdict(where), one.digest, streams, named]
        found = kept_table(place, one.arm, key, _judge, where, one, streams, named)
        tables.append(long(found, METRICS, arm=one.arm, case=case, seed=one.seed))
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
