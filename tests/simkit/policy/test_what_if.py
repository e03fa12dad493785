"""A what-if is the engine's own future where estimates are true, and leaves the present alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import mixed_jobs

from simkit.arrays import stream
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.fitness import BestFit, Tetris
from simkit.policies.orderings import FCFS, SJF, Random
from simkit.policies.ready_pool import ReadyPool
from simkit.policy import Cancel, Kill, Place, State, WakeAt
from simkit.policy.estimates import Actual
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.policy.what_if import PATIENCE, play_on
from simkit.rules import Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

POLICIES = {
    "fcfs": lambda: OrderedPolicy(FCFS()),
    "sjf with easy": lambda: OrderedPolicy(SJF(), Easy()),
    "random with easy, best fit": lambda: OrderedPolicy(Random(), Easy(), BestFit()),
    "conservative": lambda: Conservative().compose(FCFS()),
    "ready pool": lambda: ReadyPool().compose(SJF()),
    "tetris": lambda: FitnessPolicy(Tetris()),
    "best fit": lambda: FitnessPolicy(BestFit(), SJF()),
}
MACHINES = Cluster(("cpu", "mem"), ("a", "b", "c"), np.array([[4.0, 2.0], [4.0, 2.0], [2.0, 4.0]]))
POOL = Cluster.pool({"cpu": 8.0, "mem": 8.0})
CLUSTERS = {"pool": POOL, "machines": MACHINES}


@dataclass
class Drawn:
    """A small workload of gangs and bags, in jobs of one to three tasks."""

    seed: int
    jobs: int
    gap_s: int

    def workload(self) -> Workload:
        return mixed_jobs(self.seed, self.jobs, gap_s=self.gap_s, off=None, gangs=0.5)


def batches(gap_s=0):
    return st.builds(Drawn, st.integers(0, 2**32), st.integers(1, 12), st.just(gap_s))


class Ends:
    """The engine's records: all of them, and task → its last end."""

    def __init__(self):
        self.of = {}
        self.records = []

    def write(self, table, rows):
        self.records.append((table, rows))
        if table == "allocations":
            for task, end in rows.select("task_id", "end_time_s").rows():
                self.of[task] = max(end, self.of.get(task, end))


def watched(policy, load, cluster, look, rules=None):
    """Run a policy with true estimates, and call `look` before each decision; return `Ends`."""
    ends = Ends()
    recorder = Recorder(load, cluster.resources, ends)
    simulation = Simulation(load, cluster, recorder, rules=rules, predictor=Actual())
    policy.reset(simulation.info, stream(0, "policy"))
    for state in simulation.decisions():
        look(state)
        for action in policy.schedule(state):
            simulation.apply(action)
    return ends


def foreseen(state, policy, every_s=None):
    outcome = play_on(state, policy, stream(0, "policy"), every_s)
    return {task.index: end for task, end in outcome.ends_s.items()}


# --- it is the engine's future ---------------------------------------------------------------


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@given(drawn=batches())
def test_from_the_start_it_is_the_run(make, cluster, drawn):
    looks = []
    ends = watched(
        make(), drawn.workload(), cluster,
        lambda state: looks or looks.append(foreseen(state, make())),
    )  # fmt: skip
    assert looks[0] == ends.of


# The others keep to reservations that they made earlier.
MEMORYLESS = {
    name: make for name, make in POLICIES.items() if name not in ("conservative", "ready pool")
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("make", MEMORYLESS.values(), ids=MEMORYLESS)
@given(drawn=batches(gap_s=3))
def test_from_the_middle_it_is_the_rest_of_the_run(make, cluster, drawn):
    """Once the last job is there, what is seen at any decision is what comes."""
    load = drawn.workload()
    looks = []

    def look(state):
        if state.submitted == len(load):
            looks.append(foreseen(state, make()))

    ends = watched(make(), load, cluster, look)
    assert looks
    assert looks == [{task: ends.of[task] for task in look} for look in looks]


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@given(drawn=batches())
def test_periodic_decisions(make, drawn):
    looks = []
    ends = watched(
        make(), drawn.workload(), MACHINES,
        lambda state: looks or looks.append(foreseen(state, make(), every_s=5.0)),
        Rules(scheduling={"every": 5.0}),
    )  # fmt: skip
    assert looks[0] == ends.of


# --- what it knows, and what it leaves alone -------------------------------------------------


def at_first(load, cluster, look, policy=None, rules=None, predictor=None):
    """Return what `look` makes of the state at the first decision."""
    recorder = Recorder(load, cluster.resources, Ends())
    simulation = Simulation(load, cluster, recorder, rules=rules, predictor=predictor)
    return look(next(simulation.decisions()))


def gangs(*rows):
    """Return jobs of (submission, run time, processors), estimates as given, else the truth."""
    submit, run, size, *asked = zip(*rows, strict=True)
    return Workload.from_jobs(
        {
            "job_id": np.arange(len(rows)),
            "submit_time_s": np.array(submit, float),
            "run_time_s": np.array(run, float),
            "processors": np.array(size),
            "requested_time_s": np.array(asked[0] if asked else run, float),
        }
    )


FOUR = Cluster.pool({"processors": 4.0})


def test_later_arrivals_are_not_known_and_run_times_are_estimates():
    load = gangs((0, 5, 4, 10), (0, 5, 4, 20), (1, 5, 4, 5))
    assert at_first(load, FOUR, lambda s: foreseen(s, OrderedPolicy(FCFS()))) == {0: 10, 1: 30}


def test_an_overdue_task_ends_now():
    """Job 0 has run for 7 s of an estimated 5 when job 1 arrives."""
    looks = []
    policy = OrderedPolicy(FCFS())
    recorder = Recorder(load := gangs((0, 20, 4, 5), (7, 2, 4, 3)), FOUR.resources, Ends())
    simulation = Simulation(load, FOUR, recorder)
    policy.reset(simulation.info, stream(0, "policy"))
    for state in simulation.decisions():
        looks.append((state.now, foreseen(state, OrderedPolicy(FCFS()))))
        for action in policy.schedule(state):
            simulation.apply(action)
    assert looks[:2] == [(0, {0: 5}), (7, {0: 7, 1: 10})]


def test_what_never_starts_ends_never():
    never = type("Never", (), {"reset": lambda *_: None, "schedule": lambda *_: ()})
    assert at_first(gangs((0, 5, 4)), FOUR, lambda s: foreseen(s, never())) == {0: np.inf}


@given(drawn=batches(gap_s=3))
def test_looking_changes_nothing(drawn):
    """Every policy looks ahead at every decision: the run ends as without."""

    def look(state: State):
        for make in POLICIES.values():
            foreseen(state, make())

    for make in (POLICIES["conservative"], POLICIES["tetris"]):
        plain = watched(make(), drawn.workload(), MACHINES, lambda state: None).records
        looked = watched(make(), drawn.workload(), MACHINES, look).records
        assert [table for table, _ in looked] == [table for table, _ in plain]
        assert all(a.equals(b) for (_, a), (_, b) in zip(looked, plain, strict=True))


# --- the actions -----------------------------------------------------------------------------


class Script:
    """Yields what a function makes of the state, at the first decision only."""

    def __init__(self, actions):
        self.actions, self.seen = actions, []

    def reset(self, info, rng):
        pass

    def schedule(self, state):
        first, self.seen = not self.seen, [*self.seen, state.now]
        return self.actions(state) if first else ()


def played(actions, load=None):
    policy = Script(actions)
    load = load or gangs((0, 5, 3), (0, 7, 3))
    return at_first(load, FOUR, lambda state: foreseen(state, policy)), policy.seen


def test_a_reservation_that_does_not_fit_returns_to_the_queue():
    def actions(state):
        first, second = state.queue.tasks
        yield Place(first, ((0, 3),))
        yield Place(second, ((0, 3),), 4.0)

    assert played(actions) == ({0: 5, 1: np.inf}, [0, 4, 5])


def test_a_reservation_can_be_cancelled():
    def actions(state):
        first = state.queue[0]
        yield Place(first, ((0, 3),), 4.0)
        yield Cancel(first)
        assert state.arrived[-1] is first
        yield Place(first, ((0, 3),))

    assert played(actions, gangs((0, 5, 3))) == ({0: 5}, [0, 5])


def test_wake_ups_are_honoured_while_anything_waits():
    assert played(lambda _: [WakeAt(3.0), WakeAt(8.0)])[1] == [0, 3, 8]


WRONG = {
    r"Script in a what-if at 0 s: Kill cannot be played ahead, only Place, Cancel and WakeAt; look":
        lambda state: [Kill(state.queue[0])],
    r"WakeAt\(time_s=0.0\) must be a finite time after now":
        lambda state: [WakeAt(0.0)],
    r"places 2 of 3 instances":
        lambda state: [Place(state.queue[0], ((0, 2),))],
    r"does not fit where it is placed: \(\(0, 1\), \(0, 2\)\)":
        lambda state: [Place(state.queue[0], ((0, 1), (0, 2)))],
    r"is not waiting":
        lambda state: [Place(state.queue[0], ((0, 3),))] * 2,
    r"has no reservation to cancel":
        lambda state: [Cancel(state.queue[0])],
}  # fmt: skip


@pytest.mark.parametrize(("message", "actions"), WRONG.items(), ids=WRONG)
def test_illegal_actions(message, actions):
    with pytest.raises(PolicyError, match=message):
        played(actions)


def test_waking_up_in_vain_comes_to_an_end():
    class Restless(Script):
        def schedule(self, state):
            return [WakeAt(state.now + 1.0)]

    with pytest.raises(PolicyError, match=f"woke up {PATIENCE:,} times in a row"):
        at_first(gangs((0, 5, 3)), FOUR, lambda state: foreseen(state, Restless(None)))
