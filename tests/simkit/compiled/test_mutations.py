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
import importlib, importlib.util, sys
from pathlib import Path
module, old, new, seeds, helper, name = sys.argv[1:]
spec = importlib.util.find_spec(module)
text = Path(spec.origin).read_text()
assert text.count(old) >= 1, f"{module} has no {old!r}"
made = importlib.util.module_from_spec(spec)
sys.modules[module] = made
exec(compile(text.replace(old, new), spec.origin, "exec"), made.__dict__)
drawn = getattr(importlib.import_module(helper), name)
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


POOLS = "pool_scenarios", "drawn"
BAGS = "bag_scenarios", "drawn_bags"


def some_differ(
    module: str, old: str, new: str, seeds: int, drawn: tuple[str, str] = POOLS
) -> bool:
    """Return whether any of the random scenarios differs with a line of a kernel changed."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAYED, f"simkit.compiled.{module}", old, new,
         str(seeds), *drawn],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(HELPERS)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return bool(found.stdout)


@pytest.mark.thorough
def test_nothing_differs_as_it_is() -> None:
    assert not some_differ("pools", "count = len(job)", "count = len(job)", 60)
    assert not some_differ("machines", "now.open -= 1", "now.open -= 1", 60, BAGS)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("replay_fixed", "EVER_S), freed - missing", "EVER_S), freed - missing + 1"),
        ("releases", "].time <= time:", "].time < time:"),
        ("pools", "if due < ends:", "if due < ends and False:"),
        ("trees", "heap[above].number <= number", "heap[above].number >= number"),
        ("plan", "max(one.estimate, TIME_GRID)", "max(one.estimate + 1, TIME_GRID)"),
        ("plan", "change[number].pool == at", "change[number].pool != at"),
        ("pools", ".waiting >= users.most_waiting", ".waiting > users.most_waiting"),
        ("replay_fixed", "gap.head == NOBODY or time <= gap.shadow", "True"),
        ("replay_fixed", "        hold_for(ahead, pools, head, time)", "        pass"),
        ("orders", "max(min(mean, estimate), _LEAST_S)", "min(mean, estimate)"),
        ("trees", "least.estimate <= slack", "least.estimate < slack"),
        ("plan", "end = min(begin + duration, before)", "end = begin + duration"),
    ],
)
def test_planted_faults_are_seen(module: str, old: str, new: str) -> None:
    assert some_differ(module, old, new, 2000)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("machines", "_set_free(bags, machine)\n", "pass\n"),
        ("machines", "instance == last.first + last.count", "True"),
        ("machines", "next_run != run or at != machine", "next_run != run"),
        ("machines", "bags.now[0].changed = 1\n        _correct_at", "_correct_at"),
        ("replay_bags", "if amount > 0 and amount", "if amount"),
        ("replay_bags", "].rank < place)", "].rank < 0)"),
        ("replay_bags", "if score > best:", "if score >= best:"),
        ("trees", "if least[row, r] > bound[r]:", "if least[row, r] >= bound[r]:"),
    ],
)
def test_planted_faults_in_replays_of_bags_are_seen(module: str, old: str, new: str) -> None:
    assert some_differ(module, old, new, 1500, BAGS)
