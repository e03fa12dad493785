"""Nothing is lost in a cloud: bags and gangs with parents on machines that come, go and fail.

Whatever a legal policy does and whatever happens to the machines, every instance runs to its end
exactly once, or the records say what became of it; nothing starts where there is no room for it.
All of it is checked on the records, with a model of the machines that is the test's own.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import numpy as np
from engine_runs import greedy, simulate
from hypothesis import given
from hypothesis import strategies as st
from run_checks import Wild, check_everyone_is_there, check_instances, check_retries, pieces_of

from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster, Failures

RESOURCES = ("cpu", "mem")
CALM = 200.0  # from here on the restless policy disturbs nothing, so that runs end


@st.composite
def workloads(draw):
    """Jobs of some tasks, each of which may wait for earlier ones of its job."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs = draw(st.integers(1, 8))
    sizes = rng.integers(1, 5, jobs)
    total, first = int(sizes.sum()), np.concatenate(([0], np.cumsum(sizes)))
    parents = [
        rng.choice(np.arange(begin, row), rng.integers(0, min(row - begin, 2) + 1), replace=False)
        for begin, end in itertools.pairwise(first)
        for row in range(begin, end)
    ]
    instances = rng.choice([1, 1, 2, 3, 6], total)
    run = rng.choice([0.0, 1.0, 2.5, 10.0, 33.0], total)
    own = rng.choice([0.0, 1.0, 4.0, 4.0, 20.0], instances.sum())
    return Workload(
        resources=RESOURCES,
        job_id=np.arange(jobs),
        submit_time_s=np.cumsum(rng.choice([0.0, 0.0, 1.0, 4.0, 30.0], jobs)),
        first_task=first,
        task_id=np.arange(total),
        instances=instances,
        request=rng.choice([0.0, 0.2, 1 / 3, 0.5, 1.0], (total, 2)),
        run_time_s=run,
        requested_time_s=np.full(total, np.nan),
        gang=rng.random(total) < 0.4,
        first_parent=np.cumsum([0, *map(len, parents)]),
        parent=np.concatenate(parents).astype(np.int64),
        instance_run_time_s=own if draw(st.booleans()) else np.empty(0),
    )


@st.composite
def clusters(draw):
    """Up to three machines, over-committed, with changes of every kind, one after the other."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    machines = draw(st.integers(1, 3))
    factor = draw(st.sampled_from([1.0, 1.3, 2.0]))
    capacity = rng.choice([1.0, 2.0], (machines, 2)) * factor
    changes, absent = [], []
    for machine in range(machines):
        lives = [came_and_went, failed, held_by_container]
        chosen = draw(st.lists(st.sampled_from(lives), max_size=3, unique=True))
        for life in chosen:
            changes += life(rng, machine, capacity[machine])
        # One that joins may have been there before, with another size.
        joins = [c for c in changes if c.machine == machine and c.kind in ("join", "leave")]
        if joins and joins[0].kind == "join" and draw(st.booleans()):
            absent.append(machine)
    failures = draw(st.sampled_from([None, None, "requeue", "suspend", "drain"]))
    return Cluster(
        RESOURCES, tuple(f"m{row}" for row in range(machines)), capacity,
        changes=tuple(changes),
        absent=tuple(absent),
        failures=failures and Failures(mtbf=40.0, mttr=5.0, running=failures),
    )  # fmt: skip


def what_runs(rng):
    return str(rng.choice(["drain", "requeue", "suspend"]))


def came_and_went(rng, machine, has):
    """Let a machine join, perhaps late and with another size, leave, and come back."""
    join, leave, back = np.cumsum(rng.choice([1.0, 5.0, 20.0], 3)).tolist()
    late = [CapacityChange(join, machine, "join", "add", tuple((has * 0.5).tolist()))]
    return [
        *(late if rng.random() < 0.5 else []),
        CapacityChange(leave, machine, "leave", "remove", running=what_runs(rng)),
        CapacityChange(back, machine, "join", "add", tuple(has.tolist())),
    ]


def failed(rng, machine, has):
    """Let a machine fail, perhaps again before it is repaired."""
    changes = []
    for fault, begin in enumerate(rng.choice([0.0, 2.0, 10.0, 30.0], 2, replace=False).tolist()):
        facts = {"cause": "softerror", "fault": fault}
        down = CapacityChange(begin, machine, "down", running=what_runs(rng), **facts)
        up = CapacityChange(begin + rng.choice([1.0, 9.0]), machine, "up", **facts)
        changes += [down, up]
    return changes


def held_by_container(rng, machine, has):
    """Let containers take parts of a machine, together perhaps more than it has."""
    changes = []
    for begin in rng.choice([0.0, 3.0, 10.0], 2).tolist():
        taken = tuple((has * rng.choice([0.25, 0.5, 0.75])).tolist())
        running = what_runs(rng)
        changes.append(CapacityChange(begin, machine, "take", "container", taken, running))
        if rng.random() < 0.8:
            end = begin + rng.choice([1.0, 12.0])
            changes.append(CapacityChange(end, machine, "give", "container", taken, running))
    return changes


@given(workloads(), clusters(), st.sampled_from([None, 0.0, 0.3, 1.0]), st.integers(0, 99))
def test_nothing_is_lost_in_a_cloud(load, cluster, mischief, seed):
    policy = greedy if mischief is None else Wild(mischief, CALM, kills=0.1)
    run = simulate(policy, load, cluster, seed=seed)
    pieces = pieces_of(run)
    check_everyone_is_there(run, load)
    check_instances(run, load, pieces)
    check_retries(run, load, pieces)
    check_parents(run, load)
    steps = recorded_steps(run, cluster)
    check_machines(cluster, steps)
    check_room(run, load, cluster, steps)


def check_parents(run, load):
    """No instance of a task starts before all instances of its parents have ended well."""
    tasks = {row[0]: row[1:] for row in run.rows("tasks", "task_id start_time_s end_time_s status")}
    for task, (start, _, status) in tasks.items():
        for parent in load.parent[load.first_parent[task] : load.first_parent[task + 1]].tolist():
            if start is not None:
                assert tasks[parent][2] == "finished"
                assert tasks[parent][1] <= start
            if tasks[parent][2] == "killed":
                assert status == "killed"


def recorded_steps(run, cluster):
    """Return machine → {time: (R,) capacity from then on}, as the records have it."""
    steps = {row: {-np.inf: has} for row, has in enumerate(cluster.capacity)}
    for time, kind, machine, detail in run.rows("events", "time_s kind machine_id detail"):
        if kind == "capacity":
            amounts = json.loads(detail)["capacity"]
            steps[machine][time] = np.array([amounts[name] for name in RESOURCES])
    return steps


def at(steps, time):
    """Return what is in force at a time."""
    return steps[max(begin for begin in steps if begin <= time)]


def check_machines(cluster, steps):
    """Machines offer what follows from the changes; or nothing, where they fail at random."""
    for machine, recorded in steps.items():
        mine = [c for c in cluster.changes if c.machine == machine]
        for time in {c.time_s for c in mine}:
            present = machine not in cluster.absent
            expected = offered(cluster.capacity[machine], mine, time, present)
            found = at(recorded, time)
            down = cluster.failures is not None and not found.any()
            assert down or np.allclose(found, expected, rtol=0, atol=1e-8)


def offered(capacity, changes, time, there):
    """Return (R,) what a machine offers at a time, by all that has happened until then."""
    so_far = sorted(
        (c for c in changes if c.time_s <= time), key=lambda c: (c.time_s, c.takes_away)
    )
    has, taken, faults = capacity, np.zeros(2), set()
    for change in so_far:
        if change.kind in ("join", "leave"):
            there = change.kind == "join"
        if change.kind == "join":
            has, faults = np.array(change.amount), set()
        if change.kind in ("down", "up"):
            faults = faults ^ {change.fault} if change.kind == "down" else faults - {change.fault}
        if change.kind in ("take", "give"):
            taken = taken + np.array(change.amount) * (1 if change.kind == "take" else -1)
    return np.maximum(has - taken, 0) * (there and not faults)


def check_room(run, load, cluster, steps):
    """Whatever starts has room beside all else; only what drains may hold more than there is."""
    columns = "task_id machine_id count start_time_s end_time_s"
    rows = [
        (*row[:4], np.inf if row[4] is None else row[4]) for row in run.rows("allocations", columns)
    ]
    forced = defaultdict(set)  # machine → instants at which what runs has to make room
    for change in cluster.changes:
        if change.takes_away and change.running != "drain":
            forced[change.machine].add(change.time_s)
    for machine, recorded in steps.items():
        held = [(load.request[t] * n, s, e) for t, m, n, s, e in rows if m == machine]
        for now in {s for _, s, _ in held} | forced[machine]:
            there = at(recorded, now)
            used = sum((asked for asked, s, e in held if s <= now < e), np.zeros(2))
            starting = sum((asked for asked, s, _ in held if s == now), np.zeros(2))
            watched = np.full(2, True) if now in forced[machine] else starting > 0
            assert (used <= there)[watched].all()
            for asked, s, e in held:  # what comes and goes at one instant fits by itself
                assert s != now or e != now or (asked <= there)[asked > 0].all()
