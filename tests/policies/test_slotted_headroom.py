"""The rule that withholds long tasks: what it leaves free, and for how long."""

from __future__ import annotations

import pytest
from workloads import one_task_jobs

from simkit.errors import ScenarioError
from simkit.policies.slotted import SlottedHeadroom
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Cluster

POOL = Cluster.pool({"cpu": 10.0, "mem": 10.0})
RULES = Rules(scheduling={"step": 1.0}, admission=AdmissionRule(slots=10, backlog=60))
# Of both resources alike: 3 units for 2 steps, and 5 units for 10.
JOBS = one_task_jobs(0.0, [2, 10], [[3, 3], [5, 5]])


@pytest.mark.parametrize(
    ("headroom", "long", "patience", "expected"),
    [
        (0, 4, 50, [0, 0]),  # nothing need stay free: plain SJF
        (2, 4, 50, [0, 0]),  # 3 + 5 + 2 are the pool's 10
        (3, 4, 50, [0, 2]),  # 3 + 5 + 3 are more: it waits for the short one's end
        (3, 11, 50, [0, 0]),  # 10 steps are not long
        (6, 4, 5, [0, 5]),  # 5 + 6 never fit: it goes after its patience
        (6, 4, 0, [0, 0]),
    ],
)
def test_a_long_task_leaves_room(headroom, long, patience, expected, simulate):
    policy = SlottedHeadroom(headroom, long, patience)
    assert simulate(policy, JOBS, POOL, rules=RULES).starts == expected


def test_all_numbers_are_told_at_once():
    with pytest.raises(ScenarioError) as told:
        SlottedHeadroom(-1, 0, 1.5)  # type: ignore[arg-type]
    assert [text.split(":")[1].split()[0] for text in told.value.problems] == [
        "headroom", "long", "patience",
    ]  # fmt: skip
