"""Faults planted in the kernels are seen by the comparison with SimPy's engine.

The kernels run as plain Python there, in a process of their own, with one line changed. Each fault
has the first seed of a random scenario that sees it: after a change of the scenarios, look for another.
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
module, old, new, first, last, helper, name = sys.argv[1:]
spec = importlib.util.find_spec(module)
text = Path(spec.origin).read_text()
assert text.count(old) >= 1, f"{module} has no {old!r}"
made = importlib.util.module_from_spec(spec)
sys.modules[module] = made
exec(compile(text.replace(old, new), spec.origin, "exec"), made.__dict__)
drawn = getattr(importlib.import_module(helper), name)
for seed in range(int(first), int(last)):
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
    seeds: range, module: str, old: str, new: str, drawn: tuple[str, str] = POOLS
) -> bool:
    """Return whether any of these random scenarios differs with a line of a kernel changed."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAYED, f"simkit.compiled.{module}", old, new,
         str(seeds.start), str(seeds.stop), *drawn],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(HELPERS)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return bool(found.stdout)


@pytest.mark.thorough
def test_nothing_differs_as_it_is() -> None:
    assert not some_differ(range(20), "pools", "count = len(job)", "count = len(job)")
    assert not some_differ(range(20), "machines", "now.open -= 1", "now.open -= 1", BAGS)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seed", "module", "old", "new"),
    [
        (2, "replay_fixed", "EVER_S), freed - missing", "EVER_S), freed - missing + 1"),
        (59, "releases", "].time <= time:", "].time < time:"),
        (10, "pools", "if due < ends:", "if due < ends and False:"),
        (0, "trees", "heap[above].number <= number", "heap[above].number >= number"),
        (18, "plan", "max(one.estimate, TIME_GRID)", "max(one.estimate + 1, TIME_GRID)"),
        (31, "plan", "change[number].pool == at", "change[number].pool != at"),
        (6, "pools", ".waiting >= users.most_waiting", ".waiting > users.most_waiting"),
        (1724, "replay_fixed", "gap.head == NOBODY or time <= gap.shadow", "True"),
        (0, "replay_fixed", "        hold_for(ahead, pools, head, time)", "        pass"),
        (28, "orders", "max(min(mean, estimate), _LEAST_S)", "min(mean, estimate)"),
        (143, "trees", "least.estimate <= slack", "least.estimate < slack"),
        (18, "plan", "end = min(begin + duration, before)", "end = begin + duration"),
    ],
)
def test_planted_faults_are_seen(seed: int, module: str, old: str, new: str) -> None:
    assert some_differ(range(seed, seed + 1), module, old, new)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seed", "module", "old", "new"),
    [
        (1, "machines", "_set_free(bags, machine)\n", "pass\n"),
        (5, "machines", "instance == last.first + last.count", "True"),
        (0, "machines", "next_run != run or at != machine", "next_run != run"),
        (14, "machines", "bags.now[0].changed = 1\n        _correct_at", "_correct_at"),
        (113, "replay_bags", "if amount > 0 and amount", "if amount"),
        (28, "replay_bags", "].rank < place)", "].rank < 0)"),
        (8, "replay_bags", "if score > best:", "if score >= best:"),
        (8, "trees", "if least[row, r] > bound[r]:", "if least[row, r] >= bound[r]:"),
    ],
)
def test_planted_faults_in_replays_of_bags_are_seen(
    seed: int, module: str, old: str, new: str
) -> None:
    assert some_differ(range(seed, seed + 1), module, old, new, BAGS)
