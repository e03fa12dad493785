"""The engine: gangs and bags, machines and resources, periods, limits, kills, hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, begin, greedy, make_jobs, rigid, simulate

from simkit.engine.simulation import PATIENCE
from simkit.errors import PolicyError, ScenarioError
from simkit.policy import Kill, Place, WakeAt
from simkit.rules import Rules
from simkit.workload.cluster import Cluster

ENDS = "job_id start_time_s end_time_s status"
PIECES = "task_id machine_id first_instance count attempt start_time_s end_time_s outcome"


def machines(*capacity: float | tuple[float, ...], resources=("processors",)) -> Cluster:
    rows = np.array(capacity, dtype=float).reshape(len(capacity), -1)
    return Cluster(resources, tuple(f"m{row}" for row in range(len(rows))), rows)


# ---- gangs and bags -------------------------------------------------------------------------


def test_a_gang_starts_on_several_machines_or_not_at_all():
    run = simulate(greedy, rigid((0, 10, 5), (1, 10, 2), (2, 10, 1)), machines(2, 1, 3))
    assert run.rows("allocations", PIECES) == [
        (0, 0, 0, 2, 1, 0, 10, "finished"),
        (0, 1, 2, 1, 1, 0, 10, "finished"),
        (0, 2, 3, 2, 1, 0, 10, "finished"),
        (2, 2, 0, 1, 1, 2, 12, "finished"),  # one is free: too little for job 1
        (1, 0, 0, 2, 1, 10, 20, "finished"),
    ]


def test_a_bag_starts_one_by_one_as_it_fits():
    run = simulate(greedy, make_jobs((0, a_bag(5, 10))), machines(1, 1))
    assert run.rows("allocations", PIECES) == [
        (0, 0, 0, 1, 1, 0, 10, "finished"),
        (0, 1, 1, 1, 1, 0, 10, "finished"),
        (0, 0, 2, 1, 1, 10, 20, "finished"),
        (0, 1, 3, 1, 1, 10, 20, "finished"),
        (0, 0, 4, 1, 1, 20, 30, "finished"),
    ]
    # of a bag, run_time_s is the time from its first start to its last end
    assert run.rows("jobs", f"{ENDS} run_time_s attempts") == [(0, 0, 30, "finished", 30, 1)]


@pytest.mark.parametrize(
    ("resources", "order"),
    [(("cpu", "mem"), [0, 1]), (("mem", "cpu"), [1, 0])],  # the cluster's own order
)
def test_every_resource_counts(resources, order):
    # (cpu, mem) of the machines: (4, 2) and (2, 4)
    cluster = machines(*np.array([[4, 2], [2, 4]])[:, order].tolist(), resources=resources)
    load = make_jobs(
        (0, a_gang(1, 10, request=(3, 1))),  # only machine 0 has the cpu
        (1, a_gang(1, 10, request=(1, 3))),  # only machine 1 has the mem
        (2, a_gang(1, 10, request=(2, 0))),  # one cpu is left on each: waits
        (3, a_gang(1, 10, request=(0, 1))),  # mem alone: machine 0
        resources=("cpu", "mem"),
    )
    run = simulate(greedy, load, cluster)
    assert run.rows("allocations", "task_id machine_id start_time_s", by="task_id") == [
        (0, 0, 0), (1, 1, 1), (2, 0, 10), (3, 0, 3),
    ]  # fmt: skip
    held = run.rows("timeline", "time_s allocated_cpu allocated_mem capacity_cpu capacity_mem")
    assert held[:4] == [(0, 3, 1, 6, 6), (1, 4, 4, 6, 6), (2, 4, 4, 6, 6), (3, 4, 5, 6, 6)]


def test_jobs_ask_for_what_no_machine_has():
    load = make_jobs((0, a_gang(1, 1, request=(1, 1))), resources=("processors", "gpu"))
    with pytest.raises(ScenarioError, match=r"ask for gpu, but the machines have only processors"):
        simulate(greedy, load, 4)


# ---- requests that add up to a machine --------------------------------------------------------


@pytest.mark.parametrize("share", [2, 3, 5, 6, 7, 10, 11, 20, 100])
def test_so_many_shares_fill_a_machine(share):
    # The grid of amounts must not make five fifths more than one.
    load = make_jobs((0, a_bag(share, 10, request=(1 / share,))))
    for cluster in (1.0, machines(1.0, 0.0)):
        run = simulate(greedy, load, cluster)
        assert run.rows("jobs", ENDS) == [(0, 0, 10, "finished")]
    load = make_jobs((0, a_gang(share, 10, request=(1 / share,))))
    assert simulate(greedy, load, 1.0).rows("jobs", ENDS) == [(0, 0, 10, "finished")]


# ---- jobs that no machine can run -------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "instances", "request_", "together", "status"),
    [
        ((4,), 5, 1.0, True, "rejected"),  # larger than the pool
        ((4,), 4, 1.0, True, "finished"),  # exactly as large
        ((4,), 5, 1.0, False, "finished"),  # a bag runs bit by bit
        ((4,), 1, 4.5, False, "rejected"),  # one instance is larger than the machine
        ((3, 3), 6, 1.0, True, "finished"),  # a gang over two machines
        ((3, 3), 3, 2.0, True, "rejected"),  # six are free, but two to a machine thrice are not
        ((3, 3), 2, 2.0, True, "finished"),
        ((3, 3), 1, 4.0, False, "rejected"),
    ],
)
def test_what_can_never_run_is_rejected(capacity, instances, request_, together, status):
    row = (a_gang if together else a_bag)(instances, 10, request=(request_,))
    run = simulate(greedy, make_jobs((3, row), (4, a_gang(1, 1))), machines(*capacity))
    jobs = dict(run.rows("jobs", "job_id status"))
    assert jobs == {0: status, 1: "finished"}
    if status == "rejected":
        assert run.rows("events", "time_s kind job_id") == [(3, "rejected", 0)]
        assert run.rows("jobs", "start_time_s end_time_s attempts")[0] == (None, None, 0)
        assert "at once" in run.rows("jobs", "reason")[0][0]
        assert run.rows("tasks", "task_id status")[0] == (0, "rejected")


# ---- when decisions are made --------------------------------------------------------------------


def test_periodic_decisions():
    times: list[float] = []

    def schedule(state):
        times.append(state.now)
        yield from greedy(state)

    load = rigid((0, 5, 1), (7, 1, 1), (8, 1, 1), (60, 30, 4), (61, 0, 1))
    run = simulate(schedule, load, rules=Rules(scheduling={"every": 30}))
    # at 0 and 60 jobs come exactly at the tick; at 120 the end of 90, at which nothing else was
    # to do; the run time of 0 makes a further round of its tick
    assert times == [0, 30, 60, 90, 90]
    assert run.starts() == {0: 0, 1: 30, 2: 30, 3: 60, 4: 90}


def test_periods_that_are_no_whole_seconds():
    run = simulate(greedy, rigid((0.05, 1, 4), (0.1, 1, 4)), rules=Rules(scheduling={"every": 0.1}))
    tick = round(0.1 * 2**20) / 2**20
    assert run.starts() == {0: tick, 1: 11 * tick}


def test_periods_before_the_zero_of_the_clock():
    run = simulate(greedy, rigid((-35, 1, 1), (-30, 1, 1)), rules=Rules(scheduling={"every": 30}))
    assert run.starts() == {0: -30, 1: -30}


@pytest.mark.parametrize("key", ["every", "step"])
@pytest.mark.parametrize("time_s", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_a_period_and_a_step_are_positive_times(key, time_s):
    with pytest.raises(ScenarioError, match=rf"rules.scheduling.{key}"):
        Rules(scheduling={key: time_s})


@pytest.mark.parametrize(
    "facts", [{"scheduling": {"step": 1.0, "every": 2.0}}, {"walltime": "Kill"}]
)
def test_rules_that_cannot_be(facts):
    with pytest.raises(ScenarioError):
        Rules(**facts)


@pytest.mark.parametrize("when", [5.0, 4.0, -1.0, float("inf"), float("nan"), 5.0 + 1e-9])
def test_waking_is_later_than_now(when):
    with pytest.raises(PolicyError, match=r"WakeAt.*must be a finite time after now"):
        simulate(lambda _: [WakeAt(when)], rigid((5, 1, 1)))


def test_an_empty_workload_makes_empty_tables():
    none = make_jobs((0, a_gang(1, 1))).take(np.array([], dtype=np.int64))
    run = simulate(greedy, none)
    assert [len(run[t]) for t in ("jobs", "tasks", "allocations", "timeline", "events")] == [0] * 5


# ---- limits and kills ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run_time", "requested", "walltime", "ends"),
    [
        (10, 4, "kill", (4, "killed", 4)),  # overruns its request
        (10, 10, "kill", (10, "finished", 10)),  # ends in time, just so
        (10, 20, "kill", (10, "finished", 10)),
        (10, float("nan"), "kill", (10, "finished", 10)),  # no request, no limit
        (10, 0, "kill", (0, "killed", 0)),
        (10, 4, "ignore", (10, "finished", 10)),
    ],
)
def test_walltime(run_time, requested, walltime, ends):
    load = rigid((0, run_time, 4, requested))
    run = simulate(greedy, load, rules=Rules(walltime=walltime))
    assert run.rows("jobs", "end_time_s status run_time_s") == [ends]
    assert run.rows("allocations", "end_time_s outcome") == [ends[:2]]
    assert run.rows("tasks", "end_time_s status") == [ends[:2]]
    reason = "requested time is over" if ends[1] == "killed" else ""
    assert run.rows("jobs", "reason") == [(reason,)]


def test_an_overrun_is_expected_to_end_now():
    seen: list[tuple[float, float]] = []

    def schedule(state):
        seen.extend((state.now, end) for end, _, _ in state.expected_ends)
        seen.extend((state.now, state.profile().earliest(t)[0]) for t in state.queue)
        yield from greedy(state)

    simulate(schedule, rigid((0, 10, 4, 3), (6, 1, 1)))
    tick = 2.0**-20  # nothing is planned at this instant on what the task still holds
    assert seen == [(0, 0), (6, 3), (6, 6 + tick), (10, 10)]


def killing(when, index, greedy):
    """Return a policy that kills a task at a time."""

    def schedule(state):
        if state.now == when:
            tasks = [*state.queue, *state.reservations, *(a.task for a in state.running)]
            tasks += [a.task for a in state.suspended]
            yield Kill(next(t for t in tasks if t.index == index), "enough")
        yield from greedy(state)

    return schedule


def test_kill_of_a_running_task():
    run = simulate(killing(4, 0, greedy), rigid((0, 10, 4), (4, 1, 4)))
    assert run.rows("jobs", f"{ENDS} run_time_s reason") == [
        (0, 0, 4, "killed", 4, "enough"), (1, 4, 5, "finished", 1, ""),
    ]  # fmt: skip
    assert run.rows("allocations", "task_id end_time_s outcome") == [
        (0, 4, "killed"), (1, 5, "finished"),
    ]  # fmt: skip
    assert run.rows("events", "time_s kind job_id detail") == [(4, "killed", 0, "enough")]


def test_a_run_that_is_left_can_be_closed():
    run = begin(rigid((0, 10, 4), (0, 10, 3), (1, 2, 1)))
    simulation = run.simulation
    for state in simulation.decisions():
        for action in greedy(state):
            simulation.apply(action)
        break
    simulation.close()
    simulation.close()  # nothing is written twice
    assert run.rows("jobs", ENDS) == [(0, 0, None, "running"), (1, None, None, "waiting")]
    assert run.rows("allocations", "job_id end_time_s outcome") == [(0, None, "running")]


def test_what_has_ended_cannot_be_killed():
    kept = []

    def schedule(state):
        kept.extend(state.queue)
        if state.now == 10:
            yield Kill(kept[0])
        yield from greedy(state)

    with pytest.raises(PolicyError, match=r"job 0 task 0: has ended, it cannot be killed"):
        simulate(schedule, rigid((0, 10, 1)))


# ---- the end of a run ---------------------------------------------------------------------------


def test_what_never_starts_is_recorded_as_waiting():
    run = simulate(
        lambda state: greedy(state) if state.now == 0 else (), rigid((0, 5, 4), (1, 5, 2))
    )
    assert run.rows("jobs", f"{ENDS} wait_time_s run_time_s attempts") == [
        (0, 0, 5, "finished", 0, 5, 1), (1, None, None, "waiting", None, None, 0),
    ]  # fmt: skip
    assert run.rows("tasks", "task_id status") == [(0, "finished"), (1, "waiting")]
    assert run.simulation.jobs_ended == 1


# ---- illegal actions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "what"),
    [
        (((0, 4),), r"m0.*for 4 processors, 3 are free"),  # too much for a machine
        (((0, 3),), r"places 3 of 4 remaining instances \(gang: all start together\)"),
        (((0, 3), (1, 2)), r"places 5 of 4"),
        (((0, 2), (0, 2)), "one twice"),
        (((0, 3), (7, 1)), "there is no machine 7; they go from 0 to 1"),
        (((0, 3), (-1, 1)), "there is no machine -1"),
        (((0, 5), (1, -1)), r"asks machine 0|places -1"),
        ((), r"places 0 of 4"),
        (None, "nowhere|no machine"),  # what state.fit returns where nothing fits
    ],
)
def test_an_illegal_placement_is_an_error_and_changes_nothing(on, what):
    states = []

    def schedule(state):
        states.append(state)
        for task in state.queue:
            yield Place(task, on)

    with pytest.raises(PolicyError, match=what) as error:
        simulate(schedule, rigid((2, 10, 4)), machines(3, 3))
    assert "at 2 s: job 0 task 0" in str(error.value)
    (state,) = states
    assert state.free.tolist() == [[3], [3]]
    assert [task.remaining for task in state.queue] == [4]
    assert not state.running


@pytest.mark.parametrize(
    "act",
    [
        lambda task: Place(task, ((0, task.instances),)),
        lambda task: Place(task, ((0, 1),)),  # part of a bag
        lambda task: Place(task, ((0, task.instances),), 50.0),
        Kill,
    ],
)
def test_a_task_that_waits_in_another_run(act):
    load = make_jobs((0, a_bag(3, 10)), (0, a_bag(2, 10)))
    waiting = []
    simulate(lambda state: waiting.extend(state.queue) or (), load)
    foreign = waiting[1]

    simulation = begin(load.take(np.array([0]))).simulation
    state = next(simulation.decisions())
    with pytest.raises(PolicyError, match="waits in another run"):
        simulation.apply(act(foreign))
    assert state.free.tolist() == [[4]]
    assert foreign.remaining == 2
    assert [task.index for task in state.queue] == [0]


# ---- what a policy holds while it acts ----------------------------------------------------------


def test_running_may_be_looped_over_while_it_changes():
    def schedule(state):
        yield from greedy(state)
        if state.now == 5:
            for allocation in state.running:
                yield Kill(allocation.task)

    run = simulate(schedule, rigid((0, 10, 1), (0, 10, 1), (5, 10, 1)))
    assert run.rows("jobs", "job_id end_time_s status") == [
        (0, 5, "killed"), (1, 5, "killed"), (2, 5, "killed"),
    ]  # fmt: skip


# ---- slotted time -------------------------------------------------------------------------------


def test_a_decision_at_every_step():
    times: list[float] = []

    def schedule(state):
        times.append(state.now)
        yield from greedy(state)

    load = rigid((3, 5, 1), (20.5, 2.25, 1))
    run = simulate(schedule, load, rules=Rules(scheduling={"step": 2}))
    # from the first multiple at or after the first submission until the last end; idle in between,
    # and the job of 20.5 starts at 22
    assert times == [*range(4, 26, 2)]
    assert run.starts() == {0: 4, 1: 22}


def test_a_policy_that_starts_nothing_ends():
    seen: list[float] = []

    def schedule(state):
        seen.append(state.now)
        return ()

    run = simulate(schedule, rigid((0, 1, 1)), rules=Rules(scheduling={"step": 1}))
    assert run.rows("jobs", "status") == [("waiting",)]
    assert seen == [*range(PATIENCE + 1)]


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
