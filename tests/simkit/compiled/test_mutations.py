"""Faults planted in the kernels are seen by the comparison with SimPy's engine.

The kernels run as plain Python there, in a process of their own, with one line changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HELPERS = Path(__file__).parents[2] / "helpers"

PLAYED = """
import importlib.util, sys
from pathlib import Path
module, old, new, seeds = sys.argv[1:]
spec = importlib.util.find_spec(module)
text = Path(spec.origin).read_text()
assert text.count(old) >= 1, f"{module} has no {old!r}"
made = importlib.util.module_from_spec(spec)
sys.modules[module] = made
exec(compile(text.replace(old, new), spec.origin, "exec"), made.__dict__)
from pool_scenarios import drawn
for seed in range(int(seeds)):
    one = drawn(seed)
    try:
        equal = one.played("compiled").digest == one.played("simpy").digest
    except IndexError:
        equal = False
    if not equal:
        print("differs")
        break
"""


def some_differ(module: str, old: str, new: str, seeds: int) -> bool:
    """Return whether any of the random scenarios differs with a line of a kernel changed."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAYED, f"simkit.compiled.{module}", old, new,
         str(seeds)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(HELPERS)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return bool(found.stdout)


@pytest.mark.thorough
def test_nothing_differs_as_it_is() -> None:
    assert not some_differ("pools", "count = len(job)", "count = len(job)", 60)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("replay_fixed", "EVER_S), freed - missing", "EVER_S), freed - missing + 1"),
        ("releases", "].time <= time:", "].time < time:"),
        ("pools", "if due < ends:", "if due < ends and False:"),
        ("heap", "heap[above].number <= number", "heap[above].number >= number"),
        ("plan", "max(one.estimate, TIME_GRID)", "max(one.estimate + 1, TIME_GRID)"),
        ("plan", "change[number].pool == at", "change[number].pool != at"),
        ("users", ".waiting >= users.most_waiting", ".waiting > users.most_waiting"),
        ("replay_fixed", "gap.head == NOBODY or time <= gap.shadow", "True"),
        ("replay_fixed", "        hold_for(ahead, pools, head, time)", "        pass"),
        ("orders", "max(min(mean, estimate), _LEAST_S)", "min(mean, estimate)"),
        ("waiting", "least.estimate <= slack", "least.estimate < slack"),
        ("plan", "end = min(begin + duration, before)", "end = begin + duration"),
    ],
)
def test_planted_faults_are_seen(module: str, old: str, new: str) -> None:
    assert some_differ(module, old, new, 2000)
