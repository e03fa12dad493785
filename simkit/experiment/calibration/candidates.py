"""What is tried: orders and backfilling, then estimates, limits of users, priorities of queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simkit.arrays import Ints
from simkit.workload import Workload

POLICIES: Final = (
    "fcfs", "fcfs+easy", "fcfs+conservative", "sjf+easy", "ljf+easy", "saf+easy",
    "hrrn+easy", "wfp3+easy", "multifactor+easy", "sjf", "lcfs+easy",
)  # fmt: skip
"""Orders and backfilling; ties of the score go to the earlier one."""
PLAIN: Final = "fcfs+easy"
ESTIMATES: Final[dict[str, Any]] = {
    "requested": "requested",
    "requested, corrected": {"type": "requested", "correction": "tsafrir"},
    "user-mean": "user-mean",
    "actual": "actual",
}
"""Name → where the policy's estimates come from."""
MOST_QUEUES: Final = 12
"""Queues or partitions with fewer jobs than the largest so many share a priority."""


@dataclass(frozen=True)
class Candidate:
    """A setting that is tried."""

    stage: str
    """What it varies: policy, estimates, users or queues."""
    name: str
    overrides: Mapping[str, Any]
    """Dotted key → value, laid over the base scenario."""


Stage = Callable[[Candidate, Mapping[str, Any], Workload, Ints], Iterator[Candidate]]
"""Yields what may be better than the best so far: by that, the base scenario, the jobs with their
recorded starts, and the rows of those submitted in weeks that choose."""


def first_candidates() -> list[Candidate]:
    """Return the policies, on the machines and with the estimates of the base scenario."""
    return [Candidate("policy", name, {"policy": name}) for name in POLICIES]


def _estimates(
    best: Candidate, base: Mapping[str, Any], load: Workload, _rows: Ints
) -> Iterator[Candidate]:
    """Yield other estimates; without requests in the log, these say nothing."""
    has_requests = bool((load.requested_time_s > 0).any())
    for name, value in ESTIMATES.items():
        if value != base.get("estimates") and (has_requests or not name.startswith("requested")):
            yield Candidate(
                "estimates", f"{best.name}, {name}", {**best.overrides, "estimates": value}
            )


def _limits_of_users(
    best: Candidate, base: Mapping[str, Any], load: Workload, rows: Ints
) -> Iterator[Candidate]:
    """Yield limits of the jobs of a user that run at once: what most, or all, users kept to."""
    peaks = _peaks_of_users(load, rows)
    if len(peaks) < 2:
        return
    tried = dict.fromkeys(int(np.ceil(np.quantile(peaks, q))) for q in (1.0, 0.99, 0.95))
    for most in tried:
        partitions = [
            {**part, "max_running_per_user": most} for part in _partitions(best.overrides, base)
        ]
        name = f"{best.name}, at most {most:,} running jobs of a user"
        yield Candidate("users", name, {**best.overrides, "cluster.partitions": partitions})


def _peaks_of_users(load: Workload, rows: Ints) -> Ints:
    """Return how many of its jobs each user had running at once at most, by the log."""
    first = load.first_task[:-1][rows]
    start, run, user = load.recorded_start_s[first], load.run_time_s[first], load.user[rows]
    known = np.isfinite(start) & (user >= 0)
    peaks = []
    for one in np.unique(user[known]):
        begin = start[known & (user == one)]
        until = begin + run[known & (user == one)]
        order = np.argsort(np.concatenate((until, begin)), kind="stable")
        change = np.concatenate((-np.ones(len(until)), np.ones(len(begin))))[order]
        peaks.append(int(np.cumsum(change).max()))
    return np.array(peaks, dtype=np.int64)


def _partitions(overrides: Mapping[str, Any], base: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the partitions of a candidate; one for all jobs if there are none."""
    own = overrides.get("cluster.partitions") or (base.get("cluster") or {}).get("partitions")
    return [dict(part) for part in own or ()] or [{"name": "all"}]


def _priorities_of_queues(
    best: Candidate, base: Mapping[str, Any], load: Workload, rows: Ints
) -> Iterator[Candidate]:
    """Yield priorities of queues, and of partitions: who waited less comes first.

    They order the jobs themselves, so they are tried with first come, first served as well.
    """
    if (base.get("cluster") or {}).get("partitions"):
        return  # the site's own partitions stay as they are
    yield from _by_priority(best, base, load, rows)
    plain = Candidate("policy", PLAIN, {"policy": PLAIN})
    if best.overrides.get("policy") != PLAIN:
        yield from _by_priority(plain, base, load, rows)


def _by_priority(
    best: Candidate, base: Mapping[str, Any], load: Workload, rows: Ints
) -> Iterator[Candidate]:
    """Yield a candidate with priorities of queues, and one with those of partitions."""
    first = load.first_task[:-1][rows]
    waits = load.recorded_start_s[first] - load.submit_time_s[rows]
    for column, key in (("queue", "queues"), ("partition", "partitions")):
        numbers = getattr(load, column)
        groups = _ranked(numbers[rows], waits)
        if len(groups) < 2:
            continue
        common = {
            name: value
            for part in _partitions(best.overrides, base)
            for name, value in part.items()
            if name == "max_running_per_user"
        }
        named = {int(n) for group in groups for n in group}
        parts = [
            {
                "name": f"{column}-{'-'.join(map(str, group))}".replace("--", "-none-")[:80],
                key: [load.label_of(column, int(n)) for n in group],
                "priority": float(len(groups) - rank),
                **common,
            }
            for rank, group in enumerate(groups)
        ]
        if {*np.unique(numbers).tolist()} - named:
            parts.append({"name": "others", "priority": 0.0, **common})
        yield Candidate(
            "queues", f"{best.name}, priorities by {column}",
            {**best.overrides, "cluster.partitions": parts},
        )  # fmt: skip


def _ranked(numbers: Ints, waits: Any) -> list[Sequence[int]]:
    """Return the largest groups of jobs, the one that waited least (on average) first."""
    found, counts = np.unique(numbers, return_counts=True)
    largest = found[np.argsort(-counts, kind="stable")[:MOST_QUEUES]]
    means = {
        int(n): float(np.mean(waits[(numbers == n) & (waits >= 0)]))
        for n in sorted(largest.tolist())
        if ((numbers == n) & (waits >= 0)).any()
    }
    return [(n,) for n in sorted(means, key=lambda n: (means[n], n))]


def _policies_again(
    best: Candidate, _base: Mapping[str, Any], _load: Workload, _rows: Ints
) -> Iterator[Candidate]:
    """Yield the other policies, with the estimates, limits and priorities that were found."""
    own = best.overrides["policy"]
    others = {key: value for key, value in best.overrides.items() if key != "policy"}
    if others:
        for name in POLICIES:
            if name != own:
                named = best.name.replace(own, name, 1)
                yield Candidate("policy again", named, {"policy": name, **others})


STAGES: Final[tuple[Stage, ...]] = (
    _estimates, _limits_of_users, _priorities_of_queues, _policies_again,
)  # fmt: skip
"""After the policies, one after the other, each from the best so far."""
