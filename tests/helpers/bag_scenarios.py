"""Random runs of bags on machines, with ties, empty tasks, kills, refusals and machines that go."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from engine_runs import TaskRow, a_bag, a_gang, make_jobs
from pool_scenarios import Scenario

from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster

FITNESS: Final[tuple[Any, ...]] = (
    "first-fit", "best-fit", "worst-fit", "spread", "stack", "dot-product", "cosine", "l2-norm",
    "packer", "tetris", {"type": "tetris", "srtf": 0.0}, {"type": "tetris", "srtf": 1.0},
)  # fmt: skip
ORDERS: Final = (None, "fcfs", "lcfs", "sjf", "saf", "f1", "random", "largest-request")
ESTIMATES: Final[tuple[Any, ...]] = (
    "requested", "actual", {"type": "perturbed", "factor": 2.0},
    {"type": "requested", "correction": "tsafrir"}, {"type": "requested", "correction": "request"},
)  # fmt: skip


def drawn_bags(seed: int) -> Scenario:
    """Return a random run: a few or many bags, often at one instant, often overloaded."""
    rng = np.random.default_rng(seed)
    resources = ("cpu", "mem", "disk")[: int(rng.choice([1, 2, 2, 2, 3]))]
    cluster = _cluster(rng, resources)
    overrides = {
        "policy": {"fitness": FITNESS[rng.integers(len(FITNESS))]},
        "estimates": ESTIMATES[rng.integers(len(ESTIMATES))],
        "walltime": str(rng.choice(["kill", "ignore"])),
        "seed": seed % 7,
    }
    if (order := ORDERS[rng.integers(len(ORDERS))]) is not None:
        overrides["policy"]["order"] = order
    return Scenario(_bags(rng, resources, cluster), cluster, overrides)


def _cluster(rng: np.random.Generator, resources: tuple[str, ...]) -> Cluster:
    """Return a few machines or many, of one kind or of several, some of which lack a resource."""
    machines, kinds = int(rng.choice([1, 2, 5, 17, 40])), int(rng.choice([1, 2, 4]))
    size = rng.choice([0.5, 1.0, 4.0, 10.0], (kinds, len(resources)))
    size = np.where(rng.random(size.shape) < 0.1, 0.0, size)
    size[:, 0] = np.maximum(size[:, 0], 1.0)
    capacity = size[rng.integers(kinds, size=machines)]
    names = tuple(f"m{row}" for row in range(machines))
    changes = ()
    if rng.random() < 0.4:
        changes = tuple(_changes(rng, capacity))
    return Cluster(resources, names, capacity, changes=changes)


def _changes(rng: np.random.Generator, capacity: Any) -> list[CapacityChange]:
    """Return machines that go and come back; what runs there goes on."""
    changes = []
    for fault in range(int(rng.integers(1, 6))):
        machine, begin = int(rng.integers(len(capacity))), float(rng.integers(0, 60))
        end, part = begin + float(rng.integers(1, 40)), tuple((capacity[machine] / 2).tolist())
        kinds, amount = (("down", "up"), ()) if rng.random() < 0.5 else (("take", "give"), part)
        changes += [
            CapacityChange(time, machine, kind, "tried", amount, "drain", fault)
            for time, kind in zip((begin, end), kinds, strict=True)
        ]
    return changes


def _bags(rng: np.random.Generator, resources: tuple[str, ...], cluster: Cluster) -> Workload:
    """Return jobs of one task or several, with instances that run equally long or not."""
    jobs, step = int(rng.choice([1, 4, 12, 40])), float(rng.choice([0.0, 1.0, 10.0]))
    submit = np.sort(rng.integers(0, 3 + jobs, jobs) * step)
    shapes = [_request(rng, cluster) for _ in range(int(rng.choice([1, 3, 30])))]
    made = [
        (time, *(_task(rng, shapes) for _ in range(int(rng.choice([1, 1, 2, 4])))))
        for time in submit.tolist()
    ]
    facts: dict[str, Any] = {}
    if rng.random() < 0.3:
        instances = sum(task[0] for _, *tasks in made for task in tasks)
        facts["instance_run_time_s"] = rng.choice([0.0, 1.0, 2.5, 7.0, 20.0], instances)
    return make_jobs(*made, resources=resources, user=rng.integers(-1, 3, jobs), **facts)


def _request(rng: np.random.Generator, cluster: Cluster) -> tuple[float, ...]:
    """Return what an instance asks for: now and then nothing of a resource, or too much."""
    share = rng.choice([1.0, 1 / 2, 1 / 3, 1 / 7, 0.1, 0.01], cluster.capacity.shape[1])
    share = np.where(rng.random(len(share)) < 0.15, 0.0, share)
    largest = cluster.capacity.max(axis=0) * (1.1 if rng.random() < 0.05 else 1.0)
    return tuple((largest * share).tolist())


def _task(rng: np.random.Generator, shapes: list[tuple[float, ...]]) -> TaskRow:
    run = float(rng.choice([0.0, 1.0, 3.0, 10.0, 30.0])) * float(rng.choice([1, 1.5, 1 / 3]))
    requested = run * float(rng.choice([0.0, 0.5, 1, 1, 3])) if rng.random() < 0.5 else run
    requested = float(rng.choice([requested, requested, np.nan, np.inf], p=[0.6, 0.3, 0.07, 0.03]))
    request = shapes[rng.integers(len(shapes))]
    if rng.random() < 0.1:
        return a_gang(1, run, requested, request)
    return a_bag(int(rng.choice([1, 2, 5, 20, 100])), run, requested, request)
