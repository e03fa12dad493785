"""Two runs with one seed are one: in a process, and over hash seeds in others."""

from __future__ import annotations

import os
import subprocess
import sys

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
