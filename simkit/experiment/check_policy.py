"""The checker of policies: tells an author which rules a policy breaks.

An author's whole test:

    from simkit import check_policy

    def test_my_policy():
        check_policy(MyPolicy())

A run stops at the first rule that a policy breaks. The checker replays the policy through small
workloads, each with something that often goes wrong, and lists everything it breaks at once.

| rule | a policy … |
|---|---|
| `interface` | has ``reset(info, rng)`` and ``schedule(state)`` |
| `iterable` | yields its actions, or returns an iterable of them |
| `error` | raises nothing, also when the queue is empty or nothing fits |
| `illegal-action` | asks only for what the rules allow |
| `read-only` | changes nothing of the state except by its actions |
| `endless` | comes to an end, in a decision and in asking to be woken |
| `starvation` | starts every job in the end, and resumes what it suspends |
| `repeatable` | decides the same with the same generator: draws from nothing else |
| `forgets` | decides the same again after ``reset`` |
| `lets-go` | keeps no state, task or system of an earlier run after ``reset`` |

A loop that never yields cannot be detected: it hangs here as it would in a run.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import polars as pl

from simkit.arrays import stream
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError
from simkit.experiment.policy import missing_methods
from simkit.policy import Action, Policy, State
from simkit.rules import Rules, Scheduling
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance, Partition


def check_policy(policy: Policy | type[Policy] | Callable[[], Policy], *, seed: int = 0) -> None:
    """Raise PolicyError with every rule that a policy breaks; return None if it breaks none.

    Args:
        policy: a policy that has not run yet, its class, or a function that makes one. An object
            is copied if possible, to compare the decisions of two fresh ones.
        seed: of the workloads and of the generator that the policy gets.

    Raises PolicyError, one line a rule: ``starvation: 3 of 40 jobs of 'rigid jobs on a pool' do not
    run to their end (job 7, 9, 12); …``. Its cause is the first error that the policy raised.

    Example:
        >>> from simkit.policies.orderings import SJF
        >>> from simkit.policy.ordered import OrderedPolicy
        >>> check_policy(OrderedPolicy(SJF()))
    """
    make = _maker(policy)
    broken: dict[str, BrokenRule] = {}
    for finding in _findings(make, seed):
        broken.setdefault(finding.rule, finding)
    if broken:
        causes = (finding.__cause__ for finding in broken.values() if finding.__cause__)
        raise _report(make(), broken.values()) from next(causes, None)


def _report(policy: object, findings: Iterable[BrokenRule]) -> PolicyError:
    lines = [f"  {finding}" for finding in findings]
    count = "a rule" if len(lines) == 1 else f"{len(lines)} rules"
    return PolicyError("\n".join([f"{type(policy).__name__} breaks {count} of policies:", *lines]))


def _maker(policy: Policy | type[Policy] | Callable[[], Policy]) -> Callable[[], Policy]:
    """Return a function that makes a fresh policy, or returns the only one if it has no copy.

    Raises PolicyError if the object is not a policy.
    """
    made = policy
    if isinstance(policy, type) or not (hasattr(policy, "reset") or hasattr(policy, "schedule")):
        if not callable(policy):
            raise _report(policy, [_no_interface(["reset", "schedule"])])
        made = policy()
    if missing := missing_methods(made, "reset", "schedule"):
        raise _report(made, [_no_interface(missing)])
    if made is not policy:
        return policy  # type: ignore[return-value] # a class or function: it has just made one

    def fresh() -> Policy:
        try:
            return copy.deepcopy(made)  # type: ignore[return-value]
        except Exception:  # some objects cannot be copied, and may raise anything
            return made  # type: ignore[return-value]

    return fresh


def _no_interface(missing: list[str]) -> BrokenRule:
    return BrokenRule(
        "interface",
        f"has no {' and no '.join(missing)}; a policy has reset(info, rng) and schedule(state)",
    )


def _findings(make: Callable[[], Policy], seed: int) -> Iterator[BrokenRule]:
    """Yield every finding; several may concern one rule."""
    kept: list[tuple[Policy, Trial]] = []  # the policies too, or nothing would be held
    for case in cases(seed):
        policy, other = make(), make()
        first, finding = _try(policy, case, seed)
        if finding is not None:
            yield finding
            continue
        yield from _starved(first)
        # `forgets` can only be checked of a repeatable policy. Of a policy that cannot be copied,
        # `other` is the same object, so it has to forget at once.
        finding = _differs(first, other, "forgets" if other is policy else "repeatable", seed)
        finding = finding or _differs(first, policy, "forgets", seed)
        if finding is not None:
            yield finding
            continue
        _reset_for_another_run(policy, case, seed)
        kept.append((policy, first))
    yield from _held(trial for _, trial in kept)


_REMEDIES = {
    "repeatable": "draw from the generator that reset gets, and from nothing else",
    "forgets": "forget everything in reset",
}


def _differs(first: Trial, policy: Policy, rule: str, seed: int) -> BrokenRule | None:
    """Run a case again; return a finding if the result differs."""
    again, finding = _try(policy, first.case, seed)
    where = first.first_difference(again) if finding is None else f"that it breaks {finding.rule}"
    if where is None:
        return None
    return BrokenRule(
        rule, f"another run of {first.case.name!r} differs, first in {where}; {_REMEDIES[rule]}"
    )


def _try(policy: Policy, case: Case, seed: int) -> tuple[Trial, BrokenRule | None]:
    trial = Trial(case, seed)
    try:
        trial.run(policy)
    except BrokenRule as finding:
        return trial, finding
    return trial, None


def _starved(trial: Trial) -> Iterator[BrokenRule]:
    """Yield a finding if jobs have not run to their end."""
    jobs = trial.frame("jobs").select("job_id", "start_time_s", "status").rows()
    waiting = [
        job
        for job, start, status in jobs
        if status in ("waiting", "running") or (status == "killed" and start is None)
    ]
    if waiting:
        shown = ", ".join(map(str, sorted(waiting)[:5]))
        yield BrokenRule(
            "starvation",
            f"{len(waiting)} of {len(jobs)} jobs of {trial.case.name!r} do not run to their end "
            f"(job {shown}{', …' if len(waiting) > 5 else ''}), though each fits the empty "
            "machines; place every task in the end, and resume what is suspended",
        )


def _reset_for_another_run(policy: Policy, case: Case, seed: int) -> None:
    recorder = Recorder(case.workload, case.cluster.resources, Trial(case, seed))
    other = Simulation(case.workload, case.cluster, recorder)
    policy.reset(other.info, stream(seed, "policy"))


def _held(earlier: Iterable[Trial]) -> Iterator[BrokenRule]:
    """Yield a finding for each run whose objects live on, though its policy has been reset."""
    gc.collect()  # once for all runs: it takes long in a large process
    for trial in earlier:
        kinds = {type(held).__name__ for ref in trial.shown if (held := ref()) is not None}
        if kinds:
            yield BrokenRule(
                "lets-go",
                f"after reset it still keeps objects of an earlier run of {trial.case.name!r} "
                f"({', '.join(sorted(kinds))}); forget them in reset",
            )


# --- a trial: one run of a policy through a case

MOST_DECISIONS = 10_000
"""Decisions in a case, which takes a few thousand seconds under any policy that works."""
MOST_ACTIONS = 5_000
"""Actions in one decision; a case has a few hundred instances."""


class BrokenRule(Exception):  # noqa: N818 - a result, not an error of simkit's
    """A rule that the policy broke: its name, and how."""

    def __init__(self, rule: str, how: str) -> None:
        super().__init__(f"{rule}: {how}")
        self.rule = rule
        self.how = how


class Trial:
    """One run of a policy through a case: its records, and weak references to what was shown."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.tables: dict[str, list[pl.DataFrame]] = {}
        self.shown: list[weakref.ref[Any]] = []
        self._seed = seed

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Take records; a trial is the sink of its run."""
        self.tables.setdefault(table, []).append(rows)

    def run(self, policy: Policy) -> None:
        """Replay the case; raises BrokenRule for the first rule that the policy breaks."""
        case = self.case
        recorder = Recorder(case.workload, case.cluster.resources, self)
        simulation = Simulation(
            case.workload, case.cluster, recorder, rules=case.rules, seed=self._seed
        )
        self.shown.append(weakref.ref(simulation.info))
        with _Blame("error", self._where("reset", None)):
            policy.reset(simulation.info, stream(self._seed, "policy"))
        for decision, state in enumerate(simulation.decisions()):
            if decision == MOST_DECISIONS:
                raise BrokenRule(
                    "endless",
                    f"{self._where('schedule', state)} was called {MOST_DECISIONS} times; "
                    "WakeAt only while it serves a purpose",
                )
            self.shown += [weakref.ref(task) for task in state.arrived]
            for action in self._actions(policy, state):
                with _Blame("illegal-action", f"{self._where('schedule', state)}: {action!r}"):
                    simulation.apply(action)

    def _actions(self, policy: Policy, state: State) -> Iterator[Action]:
        """Yield the policy's actions, and check that it changes nothing of the state."""
        where = self._where("schedule", state)
        before = _fingerprint(state)
        with _Blame("error", where):
            returned = policy.schedule(state)
        try:
            actions = iter(returned)
        except TypeError:
            raise BrokenRule(
                "iterable",
                f"{where} returned {type(returned).__name__}; yield actions or return a list",
            ) from None
        for _ in range(MOST_ACTIONS):
            with _Blame("error", where):
                action = next(actions, None)
            _check_unchanged(state, before, where)
            if action is None:
                return
            yield action
            before = _fingerprint(state)
        raise BrokenRule(
            "endless", f"{where} has yielded {MOST_ACTIONS} actions; it must come to an end"
        )

    def _where(self, method: str, state: State | None) -> str:
        if state is None:
            return f"{method} ({self.case.name})"
        return f"{method} ({self.case.name}, at {state.now:g} s, {len(state.queue)} waiting)"

    def frame(self, table: str) -> pl.DataFrame:
        """Return a table of the records."""
        return pl.concat(self.tables[table])

    def first_difference(self, other: Trial) -> str | None:
        """Return the first table in which two trials of a case differ, or None."""
        return next((t for t in self.tables if not self.frame(t).equals(other.frame(t))), None)


class _Blame:
    """Turns an exception inside it into a broken rule; a write to the state into `read-only`."""

    def __init__(self, rule: str, where: str) -> None:
        self._rule = rule
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: Any
    ) -> None:
        if not isinstance(error, (Exception, SystemExit)) or isinstance(error, BrokenRule):
            return
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise BrokenRule(
                "read-only", f"{self._where} writes to an array of the state; write to a copy"
            ) from error
        what = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
        place = ""
        if self._rule == "error":
            frame = extract_tb(error.__traceback__)[-1]
            place = f" ({Path(frame.filename).name}, line {frame.lineno})"
        raise BrokenRule(self._rule, f"{self._where}: {what}{place}") from error


def _fingerprint(state: State) -> dict[str, Any]:
    """Return what a policy can reach but must not change: name → value."""
    return {
        "now": state.now,
        "queue": [
            (task.index, task.remaining, task.estimate_s, task.request, task.instances, task.gang)
            for task in state.queue.tasks
        ],
        "arrived": [task.index for task in state.arrived],
        "ended": [allocation.rank for allocation in state.ended],
        "reservations": [
            (task.index, place.on, place.start_s) for task, place in state.reservations.items()
        ],
        "running": [allocation.rank for allocation in state.running],
        "suspended": [allocation.rank for allocation in state.suspended],
        "expected_ends": [(end, rank) for end, rank, _ in state.expected_ends],
        "steps": list(state.steps),
        "free": state.free.tolist(),
        "capacity": state.capacity.tolist(),
    }


def _check_unchanged(state: State, before: dict[str, Any], where: str) -> None:
    """Raise BrokenRule if the policy has changed the state other than by an action."""
    for part, now in _fingerprint(state).items():
        if now != before[part]:
            raise BrokenRule(
                "read-only",
                f"{where} changes state.{part}; yield actions, and plan in copies "
                "(state.profile(), state.room.copy(), list(state.queue))",
            )


# --- the cases: small workloads with something that often goes wrong

LONGEST_RUN_S = 60
"""Run times are short, so that a policy may ask to be woken every second."""


@dataclass(frozen=True)
class Case:
    """A workload on a cluster; every job of it fits the empty machines."""

    name: str
    workload: Workload
    cluster: Cluster
    rules: Rules = field(default_factory=Rules)


def cases(seed: int) -> Iterator[Case]:
    """Yield the cases, the simplest first; the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    pool = Cluster.pool({"processors": 16.0})
    yield Case("one job", _rigid(rng, jobs=1), pool)
    yield Case("rigid jobs on a pool", _rigid(rng, jobs=40), pool)
    yield Case("jobs that arrive at one instant", _rigid(rng, jobs=30, gap_s=0.0), pool)
    yield Case("a job as large as the pool", _large_behind_small(rng), pool)
    yield Case("gangs and bags on several machines with several resources",
               _mixed(rng), _machines())  # fmt: skip
    yield Case("partitions", _mixed(rng), _machines(partitions=_PARTITIONS))
    yield Case("maintenance", _mixed(rng), _machines(maintenance=_WINDOWS))
    yield Case(
        "decisions every 30 s", _rigid(rng, jobs=30), pool, Rules(scheduling=Scheduling(every=30.0))
    )
    yield Case(
        "decisions at every step",
        _rigid(rng, jobs=30),
        pool,
        Rules(scheduling=Scheduling(step=30.0)),
    )


_CAPACITY = np.array([[4.0, 8.0], [8.0, 4.0], [2.0, 16.0]])
_PARTITIONS = (
    Partition("small", machines=(0, 1), queues=frozenset({0}), priority=1.0),
    Partition("all"),
)
# Capacity drains below what is held, and tasks come back to the queue.
_WINDOWS = (
    Maintenance(60.0, 200.0, 0, (4.0, 4.0), "drain"),
    Maintenance(90.0, 120.0, 1, (8.0, 4.0), "requeue"),
)


def _machines(
    partitions: tuple[Partition, ...] = (Partition("all"),),
    maintenance: tuple[Maintenance, ...] = (),
) -> Cluster:
    return Cluster(("cpu", "mem"), ("a", "b", "c"), _CAPACITY, partitions, maintenance)


def _rigid(rng: np.random.Generator, jobs: int, gap_s: float = 12.0) -> Workload:
    """Return jobs of 1 to 16 processors; run times from 0, estimates on both sides of the truth."""
    run = rng.integers(0, LONGEST_RUN_S + 1, jobs).astype(np.float64)
    return Workload.from_jobs(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": np.floor(np.cumsum(gap_s * rng.exponential(size=jobs))),
            "run_time_s": run,
            "requested_time_s": np.ceil(run * rng.uniform(0.8, 4.0, jobs)),
            "processors": 2 ** rng.integers(0, 5, jobs),
            "user": rng.integers(-1, 4, jobs),
        }
    )


def _large_behind_small(rng: np.random.Generator) -> Workload:
    """Return a stream of small jobs and, among them, one that needs the whole pool."""
    load = _rigid(rng, jobs=40, gap_s=6.0)
    sizes = load.instances % 5 + 1
    sizes[5] = 16
    return load.with_columns(instances=sizes)


def _mixed(rng: np.random.Generator, jobs: int = 30) -> Workload:
    """Return jobs of one to three tasks, gangs and bags; some ask for one resource or for none."""
    tasks = rng.integers(1, 4, jobs)
    total = int(tasks.sum())
    run = rng.integers(0, LONGEST_RUN_S + 1, total).astype(np.float64)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(1, jobs + 1),
        submit_time_s=np.floor(np.cumsum(10.0 * rng.exponential(size=jobs))),
        first_task=np.concatenate(([0], np.cumsum(tasks))),
        task_id=np.arange(total),
        instances=rng.integers(1, 5, total),
        request=rng.choice([0.0, 0.5, 1.0, 2.0], (total, 2)),
        run_time_s=run,
        requested_time_s=np.ceil(run * rng.uniform(0.8, 4.0, total)),
        gang=rng.random(total) < 0.5,
        queue=rng.integers(0, 2, jobs),
        user=rng.integers(-1, 4, jobs),
    )
