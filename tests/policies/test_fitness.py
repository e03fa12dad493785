"""What each fitness prefers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from workloads import one_task_jobs

from simkit.errors import PolicyError, ScenarioError
from simkit.policies import fitness
from simkit.policies.orderings import FewestRemaining, LargestRequest
from simkit.policy import SystemInfo
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.pairs import MachineTaskPairs, TaskColumns
from simkit.policy.queue import TaskQueue
from simkit.policy.room import MachineRoom
from simkit.policy.task import Task
from simkit.workload.cluster import Cluster, Maintenance

MACHINES = {
    "first-fit": fitness.FirstFit,
    "best-fit": fitness.BestFit,
    "worst-fit": fitness.WorstFit,
    "random": fitness.RandomFit,
    "spread": fitness.Spread,
    "stack": fitness.Stack,
    "dot-product": fitness.DotProduct,
    "cosine": fitness.Cosine,
    "l2": fitness.L2Norm,
}
PAIRS = {"packer": fitness.Packer, "tetris": fitness.Tetris, "balance": fitness.Balance}

CAPACITY = np.array([[8.0, 16.0], [8.0, 16.0], [4.0, 64.0], [8.0, 16.0]])
FREE = np.array([[4.0, 16.0], [8.0, 4.0], [4.0, 32.0], [2.0, 2.0]])
INFO = SystemInfo(("cpu", "mem"), tuple("abcd"), CAPACITY, ())


def begun(member, seed=0):
    member.reset(INFO, np.random.default_rng(seed))
    return member


@pytest.mark.parametrize(
    ("name", "request_", "expected"),
    [
        # rows, whatever is free
        ("first-fit", (1.0, 1.0), [0, 1, 2, 3]),
        # shares of the largest machine (8 cpu, 64 mem): 0.75, 1.0625, 1.0, 0.28125
        ("best-fit", (1.0, 1.0), [3, 0, 2, 1]),
        ("worst-fit", (1.0, 1.0), [1, 2, 0, 3]),
        # cpu alone: 4, 8, 4, 2
        ("worst-fit", (1.0, 0.0), [1, 0, 2, 3]),
        # free shares of the machine's own capacity: 0.75, 0.625, 0.75, 0.1875
        ("spread", (1.0, 1.0), [0, 2, 1, 3]),
        ("stack", (1.0, 1.0), [3, 1, 0, 2]),
        # (free / capacity) · (request / capacity): .0625 + .0625, .125 + .015625, .25 + .0078125,
        # .03125 + .0078125
        ("dot-product", (1.0, 1.0), [2, 1, 0, 3]),
        # a request of cpu alone points where there is little but cpu: 1/√5, 4/√17, 2/√5, 2/√5
        ("cosine", (1.0, 0.0), [1, 2, 3, 0]),
        # squared distances of shares: .375² + .9375², .875² + .1875², .75² + .484375²,
        # .125² + .0625²
        ("l2", (1.0, 1.0), [3, 2, 1, 0]),
    ],
)
def test_order_of_machines(name, request_, expected):
    task = Task(0, 0, 0.0, request_)
    scores = begun(MACHINES[name]()).scores(task, FREE, CAPACITY)
    assert np.argsort(-scores, kind="stable").tolist() == expected


@pytest.mark.parametrize("name", ["spread", "stack", "dot-product", "cosine", "l2"])
def test_a_resource_that_a_machine_lacks_does_not_count(name):
    capacity, free = np.array([[4.0, 0.0], [4.0, 8.0]]), np.array([[2.0, 0.0], [2.0, 8.0]])
    scores = begun(MACHINES[name]()).scores(Task(0, 0, 0.0, (1.0, 0.0)), free, capacity)
    assert np.isfinite(scores).all()


def counts_dealt(member, needed, seed=0):
    task, room = Task(0, 0, 0.0, (1.0, 1.0), needed, gang=False), np.array([4, 4, 4, 2])
    order, placed = begun(member, seed).split(task, FREE, CAPACITY, room, needed)
    counts = np.zeros(4, int)
    counts[order] = placed
    return counts.tolist()


def test_random_draws_a_machine_for_each_instance():
    assert counts_dealt(fitness.RandomFit(), 14) == [4, 4, 4, 2]  # all there is
    one = [counts_dealt(fitness.RandomFit(), 1, seed).index(1) for seed in range(400)]
    assert np.bincount(one).min() > 70  # 100 each are expected
    assert counts_dealt(fitness.RandomFit(), 9, 3) == counts_dealt(fitness.RandomFit(), 9, 3)


def bags(*rows, arrivals=0.0):
    """Make one bag a job of (instances, cpu, mem, run time)."""
    count, cpu, mem, run = zip(*rows, strict=True)
    return one_task_jobs(arrivals, run, np.column_stack((cpu, mem)), count, gang=False)


def started(run):
    """Return (start, task, machine, count) of every allocation."""
    columns = ["start_time_s", "task_id", "machine_id", "count"]
    return run["allocations"].select(columns).sort(columns).rows()


TWO = Cluster(("cpu", "mem"), ("a", "b"), np.array([[4.0, 4.0], [4.0, 4.0]]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # task 0 takes 4 of 8 cores, task 1 takes two more
        ("first-fit", [(0, 0, 0, 4), (0, 1, 1, 2)]),
        ("best-fit", [(0, 0, 0, 4), (0, 1, 1, 2)]),
        ("stack", [(0, 0, 0, 4), (0, 1, 1, 2)]),
        ("worst-fit", [(0, 0, 0, 2), (0, 0, 1, 2), (0, 1, 0, 1), (0, 1, 1, 1)]),
        ("spread", [(0, 0, 0, 2), (0, 0, 1, 2), (0, 1, 0, 1), (0, 1, 1, 1)]),
    ],
)
def test_some_fill_a_machine_and_some_alternate(name, expected, simulate):
    run = simulate(FitnessPolicy(MACHINES[name]()), bags((4, 1, 0, 9), (2, 1, 1, 9)), TWO)
    assert started(run) == expected


def test_a_task_that_fits_nowhere_blocks_nobody(simulate):
    jobs = bags((1, 4, 4, 5), (1, 4, 4, 5), (1, 4, 4, 9), (3, 1, 1, 1), arrivals=[0, 0, 1, 2])
    run = simulate(FitnessPolicy(fitness.FirstFit()), jobs, Cluster(
        ("cpu", "mem"), ("a", "b", "c"), np.array([[4.0, 4.0], [4.0, 4.0], [2.0, 2.0]])))  # fmt: skip
    # Task 2 waits for a whole machine; task 3 fits beside it, two instances at a time, until what
    # is free at 5 s goes to task 2, which came first.
    assert started(run) == [(0, 0, 0, 1), (0, 1, 1, 1), (2, 3, 2, 2), (3, 3, 2, 1), (5, 2, 0, 1)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, [(0, 0, 0, 4)]),
        (FewestRemaining(), [(0, 0, 0, 2), (0, 2, 0, 1)]),  # task 2, and task 0 in what is left
        (LargestRequest(), [(0, 1, 0, 1)]),  # an instance of task 1 takes all the memory
    ],
)
def test_orders_for_bags(order, expected, simulate):
    jobs = bags((8, 1, 1, 2), (4, 1, 4, 2), (1, 2, 2, 2))
    one = Cluster(("cpu", "mem"), ("a",), np.array([[4.0, 4.0]]))
    run = simulate(FitnessPolicy(fitness.FirstFit(), order), jobs, one)
    assert [row for row in started(run) if row[0] == 0] == expected


def pairs_of(free, tasks):
    """Return every pair of one machine of 10 cpu and 20 mem, and some tasks."""
    size = len(tasks)
    rows = np.tile([free], (size, 1)).astype(float)
    return MachineTaskPairs(TaskColumns(tasks, 2), np.arange(size), np.zeros(size, int), rows,
                 np.tile([[10.0, 20.0]], (size, 1)))  # fmt: skip


def test_packer_scores_alignment():
    tasks = [Task(0, 0, 0.0, (1.0, 0.0)), Task(1, 1, 0.0, (0.0, 4.0)), Task(2, 2, 0.0, (1.0, 2.0))]
    # means of (5/10 · 1/10, 0), (0, 20/20 · 4/20), (5/10 · 1/10, 20/20 · 2/20)
    expected = [0.025, 0.1, 0.075]
    assert fitness.Packer().scores(pairs_of((5.0, 20.0), tasks)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("srtf", "first"),
    [
        (0.0, 0),  # the larger request is better aligned
        (1.0, 1),  # the least work left: 2 × 1 s against 4 × 9 s
        (0.5, 1),
    ],
)
def test_tetris_weighs_alignment_against_remaining_work(srtf, first, simulate):
    one = Cluster(("cpu", "mem"), ("a",), np.array([[4.0, 4.0]]))
    run = simulate(FitnessPolicy(fitness.Tetris(srtf)), bags((4, 2, 2, 9), (2, 1, 1, 1)), one)
    assert started(run)[0][1] == 0  # there is room for both sorts
    assert ((0, 1, 0, 2) in started(run)) == (first == 1)


def test_tetris_takes_the_remaining_work_of_the_whole_job():
    tasks = [
        Task(3, 0, 0.0, (1.0, 2.0), 2, gang=False, estimate_s=10.0),  # 2 × 10 s × 1/10 = 2
        Task(4, 0, 0.0, (2.0, 0.0), 1, gang=False, estimate_s=40.0),  # 1 × 40 s × (2/10 + 0)/2 = 4
        Task(7, 1, 0.0, (1.0, 2.0), 1, gang=False, estimate_s=20.0),  # 1 × 20 s × 1/10 = 2
    ]
    tetris = begun(fitness.Tetris(srtf=1.0))
    queue = TaskQueue(2)
    for task in tasks:
        queue.add(task)
    tetris.begin(SimpleNamespace(capacity=np.array([[10.0, 20.0]]), queue=queue))
    # jobs have 6 and 2 left, 4 on average
    expected = [1 / (1 + 6 / 4), 1 / (1 + 6 / 4), 1 / (1 + 2 / 4)]
    assert tetris.scores(pairs_of((10.0, 20.0), tasks)) == pytest.approx(expected)


@pytest.mark.parametrize("srtf", [-0.1, 1.5, float("nan"), "much", 2])
def test_tetris_refuses_a_weight_outside_0_to_1(srtf):
    with pytest.raises(ScenarioError, match=r"tetris: srtf is .*; it must lie from 0 to 1"):
        fitness.Tetris(srtf)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (lambda pairs: np.full(len(pairs), np.nan), "gives nan for <Task 0"),
        (lambda pairs: np.zeros(len(pairs) + 1), "gives scores of shape"),
    ],
)
def test_a_score_is_a_finite_number(score, words, simulate):
    with pytest.raises(PolicyError, match=words):
        simulate(FitnessPolicy(score), bags((1, 1, 1, 1)), TWO)


@pytest.mark.parametrize("name", [*MACHINES, *PAIRS])
def test_nothing_starts_that_maintenance_would_cut_short(name, simulate):
    # From 5 s on the first machine is away: what runs 6 s goes to the other.
    window = Maintenance(5.0, 20.0, 0, (4.0, 4.0), "requeue")
    cluster = Cluster(("cpu", "mem"), ("a", "b"), TWO.capacity, maintenance=(window,))
    run = simulate(FitnessPolicy({**MACHINES, **PAIRS}[name]()), bags((6, 1, 1, 6)), cluster)
    assert [(row[0], row[2], row[3]) for row in started(run)] == [(0, 1, 4), (6, 1, 2)]


# ---- placement rules: which machine comes first ------------------------------------------------------

# Shares of the largest machine (8 cpu, 64 mem): cpu 4/8, 2/8, 4/8, 2/8; mem 8/64, 16/64, 64/64, 0.
ROOM = np.array([[4.0, 8.0], [2.0, 16.0], [4.0, 64.0], [2.0, 0.0]])


def order_of(rule, request, fitting):
    task = Task(0, 0, 0.0, request)
    return rule.order(task, ROOM, CAPACITY, np.array(fitting)).tolist()


@pytest.mark.parametrize(
    ("rule", "request_", "fitting", "expected"),
    [
        (fitness.FirstFit, (1.0, 0.0), [0, 1, 2, 3], [0, 1, 2, 3]),
        # cpu alone: ½ ¼ ½ ¼; ties go by row
        (fitness.BestFit, (1.0, 0.0), [0, 1, 2, 3], [1, 3, 0, 2]),
        (fitness.WorstFit, (1.0, 0.0), [0, 1, 2, 3], [0, 2, 1, 3]),
        # memory alone: of the machines that have room
        (fitness.BestFit, (0.0, 4.0), [0, 1, 2], [0, 1, 2]),
        (fitness.WorstFit, (0.0, 4.0), [0, 1, 2], [2, 1, 0]),
        # both: 0.625, 0.5, 1.5
        (fitness.BestFit, (1.0, 4.0), [0, 1, 2], [1, 0, 2]),
        (fitness.WorstFit, (1.0, 4.0), [0, 1, 2], [2, 0, 1]),
        # asks for nothing: all alike
        (fitness.BestFit, (0.0, 0.0), [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_order_of_placements(rule, request_, fitting, expected):
    assert order_of(begun(rule()), request_, fitting) == expected


@pytest.mark.parametrize(
    "rule", [fitness.FirstFit, fitness.BestFit, fitness.WorstFit, fitness.RandomFit]
)
def test_instances_go_where_the_rule_says_and_no_more_than_fit(rule):
    task = Task(0, 0, 0.0, (1.0, 4.0), instances=5)
    chosen = begun(rule())
    on = MachineRoom(CAPACITY, ROOM.copy()).fit(task, chosen)
    assert sum(count for _, count in on) == 5
    for machine, count in on:
        assert (np.array(task.request) * count <= ROOM[machine]).all()
    if rule is not fitness.RandomFit:
        assert [m for m, _ in on] == order_of(chosen, task.request, [0, 1, 2])[: len(on)]
