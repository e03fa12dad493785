"""Starts and ends of all jobs in every form that plays many replicas at once, or is compiled.

Actions are drawn from a seed, among those that are allowed. This is the one golden file that knows
names inside `learners/`; they are imported here and nowhere else, so that a move is one change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from cases import Case, digest, rounded
from small_scenarios import DEEPRM, POOL, READY, TABLE, WIND, table_of_jobs

import simkit
from simkit.agent.ready_pool import ReadyPool
from simkit.agent.slotted import Slotted
from simkit.learners.lockstep import Lockstep, MeteredLockstep
from simkit.learners.lockstep.class_games import ClassGames
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.outcome import outcome, summary
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.rules import ORDERS
from simkit.learners.lockstep.ready_pool.rules import play as play_by_rule
from simkit.learners.lockstep.ready_pool.streams import streams_of
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.chunk_bounds import look_ahead
from simkit.learners.scorers.job_model import Hold, Rule, simulate
from simkit.learners.scorers.job_scorer import JobScorer
from simkit.learners.scorers.pair_model import chunks, roll_out
from simkit.learners.scorers.pair_model import play as play_pairs
from simkit.learners.scorers.pair_scorer import RULES, PairScorer
from simkit.traces.models.deeprm import DeepRMModel, SchedQRMModel
from simkit.traces.task_table import read_task_table


def drawn(mask: Any, rng: np.random.Generator) -> Any:
    """Return an allowed action of each replica; those with low numbers are likelier."""
    weight = mask * np.linspace(1.5, 1.0, mask.shape[1])
    return (rng.random(mask.shape) * weight).argmax(axis=1)


# ---- slots ---------------------------------------------------------------------------------------


def deeprm_sets(count: int, rate: float = 0.5) -> JobSets:
    drawn_sets = DeepRMModel.of(rate=rate, steps=30).draw_sets(np.random.default_rng(1), count)
    return JobSets(drawn_sets.enter, drawn_sets.length, drawn_sets.size)


def slots(kind: type[Lockstep] = Lockstep, **rules: Any) -> dict[str, Any]:
    model = Slotted(slots=5, backlog=8, backlog_shown=8)
    games, rng = kind(model, deeprm_sets(12), 3, **rules), np.random.default_rng(2)
    if isinstance(games, MeteredLockstep):
        games.meter(20)
    rewards = np.zeros(36)
    while len(active := games.active):
        rewards[active] += games.step(drawn(games.mask(), rng))
    found = {
        "played": digest([games.start, games.finish, games.decisions, games.steps]),
        "rewards": digest(rounded(rewards)),
        "outcome": digest(rounded(list(outcome(games).values()))),
    }
    if isinstance(games, MeteredLockstep):
        found["measured"] = digest(rounded(list(games.measured().values())))
    return found


def endless_slots() -> dict[str, Any]:
    model, rng = Slotted(slots=5, backlog=8), np.random.default_rng(3)
    games = Lockstep(model, JobSets.empty(6, 30, model.resources), endless=True)
    fresh, rows = deeprm_sets(60), 0
    seen: list[Any] = []

    def begin(replicas: Any) -> None:
        nonlocal rows
        taken = fresh.take(np.arange(rows, rows + len(replicas)))
        width = games.sets.length.shape[1] - taken.length.shape[1]
        pad = [(0, 0), (0, width)]
        games.begin(replicas, JobSets(
            np.pad(taken.enter, pad), np.pad(taken.length, pad), np.pad(taken.size, [*pad, (0, 0)]),
        ))  # fmt: skip
        rows += len(replicas)

    begin(np.arange(6))
    for _ in range(600):
        games.step(drawn(games.mask(), rng))
        if games.over.any() and rows < 50:
            ended = np.flatnonzero(games.over)
            seen += [games.start[ended], games.finish[ended], games.steps[ended]]
            seen.append(
                rounded([value for part in summary(games, ended).values() for value in part])
            )
            begin(ended)
    return {"games": rows, "played": digest(seen)}


def vector_env() -> dict[str, Any]:
    import gymnasium

    import simkit.env  # noqa: F401 - registers the environments

    envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=4, scenario=DEEPRM | {"name": "golden"})
    rng, seen = np.random.default_rng(4), []
    _, infos = envs.reset(seed=5)
    for _ in range(200):
        actions = drawn(np.stack(list(infos["action_mask"])), rng)
        _, rewards, over, cut, infos = envs.step(actions)
        seen.append([actions, rounded(rewards), over, cut, rounded(infos["time_s"])])
    return {"played": digest(seen)}


# ---- classes -------------------------------------------------------------------------------------


def classes(starts: Any, **rules: Any) -> dict[str, Any]:
    model = Slotted((10, 10), slots=10, horizon=120, max_length=10, backlog=None, backlog_shown=10)
    sets = JobSets(
        *SchedQRMModel(type="schedqrm", jobs=20, rate=0.5).draw_sets(np.random.default_rng(6), 8)
    )
    games = ClassGames(ClassLockstep(model, sets, **rules), starts, patience=3, shaped=True)
    rng, rewards = np.random.default_rng(7), np.zeros(8)
    while len(active := games.active):
        rewards[active] += games.step(drawn(games.mask(), rng))
    lockstep = games.lockstep
    return {
        "played": digest([lockstep.start, lockstep.finish, lockstep.decisions, lockstep.steps]),
        "rewards": digest(rounded(rewards)),
    }


# ---- ready pools ---------------------------------------------------------------------------------

HOURS = 150
POOL_OF_JOBS = ReadyPool(ready=8, horizon=48, max_start=12)


def ready_scenario(**changes: Any) -> simkit.Scenario:
    return simkit.Scenario.model_validate({**READY, "name": "golden", **changes})


def ready(sections: Mapping[str, Any], **rules: Any) -> dict[str, Any]:
    streams = streams_of(ready_scenario(**sections), [1, 2, 3], HOURS + 48)
    games = ReadyGames(POOL_OF_JOBS, streams, 2, hours=HOURS, **rules)
    rng = np.random.default_rng(8)
    while len(games.active):
        games.step(drawn(games.mask(), rng))
    return {
        "played": digest([games.start, games.end, games.rejected, games.decisions, games.steps]),
        "value": digest(rounded(games.value_ratio())),
    }


def ready_by_rule(order: str) -> dict[str, Any]:
    streams = streams_of(ready_scenario(), [1, 2, 3], HOURS + 48)
    games = ReadyGames(POOL_OF_JOBS, streams, hours=HOURS, late_leave=True)
    play_by_rule(games, ORDERS[order])
    return {"played": digest([games.start, games.end, games.steps])}


def endless_ready() -> dict[str, Any]:
    given, rng, seen = 0, np.random.default_rng(9), []

    def fresh(count: int) -> Any:
        nonlocal given
        given += count
        return streams_of(ready_scenario(), range(given - count, given), HOURS + 48)

    games = ReadyGames(POOL_OF_JOBS, fresh(4), hours=HOURS, late_leave=True, fresh=fresh)
    for _ in range(1200):
        actions = drawn(games.mask(), rng)
        games.step(actions)
        seen.append([actions, games.begun, games.steps])
    return {"games": given, "played": digest(seen)}


# ---- compiled ------------------------------------------------------------------------------------


def chunks_of_pairs() -> list[Any]:
    with TemporaryDirectory() as place:
        table_of_jobs(Path(place) / "jobs.csv")
        workload = read_task_table(Path(place) / "jobs.csv", submit="last").workload
    groups = TABLE["cluster"]["machines"]
    capacity = np.array([[group["cpu"], group["mem"]] for group in groups for _ in range(3)], float)
    return list(chunks(workload, capacity, 12))


def pairs() -> dict[str, Any]:
    """Play chunks by rules, by networks of drawn weights, looking ahead, and drawing pairs."""
    found: dict[str, Any] = {}
    some = chunks_of_pairs()
    scorers = {name: RULES[name] for name in RULES}
    for name, blank in (
        ("layers", PairScorer.by_terms({}, (5, 3))),
        ("paper", PairScorer.of_paper()),
    ):
        weights = np.random.default_rng(10).integers(-64, 65, len(blank.flat)) / 64
        scorers[name] = blank.with_flat(weights)
    for name, scorer in scorers.items():
        played = [play_pairs(chunk, scorer, most) for chunk in some for most in (1, 4)]
        found[name] = digest([[one.makespan, one.placed] for one in played])
    ahead = [look_ahead(chunk, list(RULES.values())) for chunk in some]
    found["look ahead"] = digest([[one.makespan, one.placed, one.chosen] for one in ahead])
    for name in ("layers", "paper"):
        rolled = [roll_out(chunk, scorers[name], np.random.default_rng(11)) for chunk in some]
        found[f"roll out {name}"] = digest(
            [[one.makespan, one.chosen, one.task, rounded(one.tick)] for one in rolled]
        )
    return found


def pool() -> dict[str, Any]:
    """Start jobs of a log by rules and drawn weights, under each set of rules."""
    trace = simkit.prepare(simkit.Scenario.model_validate({**POOL, "name": "golden", "seed": 2}))
    jobs, found = PoolJobs.of(trace.trace.workload, 32), {}
    blank = JobScorer.zero(4)
    scorer = blank.with_flat(np.random.default_rng(12).integers(-64, 65, len(blank.flat)) / 64)
    kinds: Mapping[str, Callable[..., Any]] = {
        "submit": partial(simulate, jobs, Rule.by_key(jobs.submit_s)),
        "run time": partial(simulate, jobs, Rule.by_key(jobs.r_s)),
        "wfp3": partial(simulate, jobs, Rule.wfp3(jobs)),
        "saf-p": partial(simulate, jobs, Rule.saf_p(jobs)),
        "scorer": partial(simulate, jobs, scorer, visible=64),
    }
    for name, start in kinds.items():
        for backfill in ("easy", "rlscheduler", "rlscheduler-none"):
            found[f"{name} {backfill}"] = digest(rounded(start(backfill=backfill), 12))
    found["scorer ends"] = digest(rounded(simulate(jobs, scorer, end="always"), 12))
    held = simulate(jobs, Rule.by_key(jobs.r_s), hold=Hold(3600.0, 0.25))
    return found | {"held": digest(rounded(held, 12))}


LIGHT: Mapping[str, Callable[[], dict[str, Any]]] = {
    "slots": slots,
    "slots completion": partial(slots, objective="completion", limit=120),
    "slots metered": partial(slots, MeteredLockstep),
    "slots endless": endless_slots,
    "classes ahead": partial(classes, "ahead"),
    "classes now": partial(classes, "now", reading="decisions"),
    "ready pool": partial(ready, {}, late_leave=True),
    "ready pool power": partial(ready, {"power": WIND}, reject=True),
    "ready pool backlog": partial(ready, {}, late_leave=True, backlog=None),
    "ready pool by value": partial(ready_by_rule, "value-density"),
    "ready pool endless": endless_ready,
}
CASES: Mapping[str, Case] = {
    **{f"lock-step {name}": Case(results) for name, results in LIGHT.items()},
    "lock-step vector environment": Case(vector_env, needs=("gymnasium",)),
    "compiled pairs": Case(pairs, slow=True, needs=("numba",)),
    "compiled pool": Case(pool, slow=True, needs=("numba",)),
}
