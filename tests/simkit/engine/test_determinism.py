"""Two runs with one seed are one: in a process, and over hash seeds in others."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from simkit.engine.simulation import Rules
from simkit.policies.easy import Easy
from simkit.policies.fitness import RandomFit
from simkit.policies.orderings import FCFS, Multifactor, Random
from simkit.policy.estimates import Perturbed
from simkit.policy.ordered import OrderedPolicy
from simkit.traces.models.lublin import LublinModel
from simkit.workload.cluster import Cluster, Maintenance

TABLES = ("jobs", "tasks", "allocations", "timeline", "events")

SCRIPT = """
import simkit

run = simkit.simulate({
    "workload": {"type": "lublin", "jobs": 300, "processors": 64},
    "cluster": {
        "machines": [{"name": name, "count": 1, "processors": 32} for name in "ab"],
        "maintenance": [{"start": 40000, "end": 60000, "machines": ["b"], "running": "requeue"}],
    },
    "policy": {"order": "multifactor", "backfill": "easy", "placement": "random"},
    "estimates": "perturbed",
}, seed=3)
print(hash("simkit"), run.digest)
"""


@pytest.fixture(scope="module")
def workload():
    return LublinModel.of(jobs=200, processors=64).generate(np.random.default_rng(2)).workload


def run_all(simulate, workload, policy, seed):
    cluster = Cluster(
        ("processors",), ("a", "b"), np.array([[32.0], [32.0]]),
        maintenance=(Maintenance(20000.0, 30000.0, 0, (16.0,), "suspend"),),
    )  # fmt: skip
    return simulate(
        policy, workload, cluster, seed=seed, predictor=Perturbed(), rules=Rules(walltime="kill")
    )


@pytest.mark.parametrize("order", [FCFS, Random, Multifactor])
def test_one_seed_one_result(order, simulate, workload):
    policy = OrderedPolicy(order(), Easy(), RandomFit())
    first, again = (run_all(simulate, workload, policy, 5) for _ in range(2))
    other = run_all(simulate, workload, policy, 6)
    for table in TABLES:
        assert first[table].equals(again[table])
    assert not first["jobs"].equals(other["jobs"])  # and the seed does matter


def test_the_hash_seed_has_no_say():
    outputs = []
    for hash_seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        outputs.append(done.stdout.split())
    assert len({hashed for hashed, _ in outputs}) > 1  # the hash seeds do differ
    assert len({digest for _, digest in outputs}) == 1
