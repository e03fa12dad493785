"""The lookahead: it acts as the candidate with the best outcome, and as that candidate would."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import mixed_jobs

import simkit
from simkit.errors import PolicyError, ScenarioError
from simkit.policies.cloudsimpy import CloudSimPy
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.fitness import BestFit, Tetris
from simkit.policies.lookahead import Lookahead
from simkit.policies.orderings import FCFS, LJF, SJF, Random
from simkit.policy.estimates import Actual
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.rules import AdmissionRule, Rules
from simkit.verify import verify_run
from simkit.workload.cluster import Cluster

SAMPLE = {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": "0..149"}}
CANDIDATES = [{"fitness": "tetris"}, {"order": "sjf", "backfill": "easy"}, {"order": "fcfs"}]
POLICIES = {
    "fcfs": lambda: OrderedPolicy(FCFS()),
    "sjf with easy": lambda: OrderedPolicy(SJF(), Easy()),
    "random with easy": lambda: OrderedPolicy(Random(), Easy()),
    "conservative": lambda: Conservative().compose(FCFS()),
    "tetris": lambda: FitnessPolicy(Tetris()),
    "best fit": lambda: FitnessPolicy(BestFit(), SJF()),
}
MACHINES = Cluster(("cpu", "mem"), ("a", "b", "c"), np.array([[4.0, 2.0], [4.0, 2.0], [2.0, 4.0]]))


def mixed(seed, jobs, gap_s):
    """Return gangs and bags whose estimates are true."""
    return mixed_jobs(seed, jobs, gap_s=gap_s, off=None, gangs=0.5)


TABLES = ("jobs", "tasks", "allocations")


def same_schedule(one, other):
    return all(one[table].equals(other[table]) for table in TABLES)


# --- the candidate that acts -----------------------------------------------------------------


@pytest.mark.parametrize("policy", CANDIDATES, ids=str)
def test_a_single_candidate_gives_its_own_schedule(policy):
    alone = simkit.simulate({"workload": SAMPLE, "policy": policy})
    ahead = simkit.simulate({"workload": SAMPLE, "policy": {"lookahead": [policy]}})
    assert all(getattr(alone, table).equals(getattr(ahead, table)) for table in TABLES)


class Alternating(Lookahead):
    """Takes another candidate whenever tasks arrive."""

    def _best(self, state):
        self._outcome(state, self._ahead[0])
        return (self._acting + 1) % len(self.policies)


MEMORYLESS = {name: make for name, make in POLICIES.items() if name != "conservative"}


@pytest.mark.parametrize("slots", [None, 3])
@pytest.mark.parametrize("make", MEMORYLESS.values(), ids=MEMORYLESS)
@given(seed=st.integers(0, 2**32), gap_s=st.integers(0, 4))
def test_a_newcomer_decides_as_if_it_had_been_there(make, slots, seed, gap_s, simulate):
    load, rules = mixed(seed, 12, gap_s), Rules(admission=AdmissionRule(slots=slots))
    given = {"rules": rules, "predictor": Actual()}
    alone = simulate(make(), load, MACHINES, **given)
    taking_turns = simulate(Alternating([make(), make()]), load, MACHINES, **given)
    assert same_schedule(alone, taking_turns)


@given(seed=st.integers(0, 2**32), gap_s=st.integers(0, 4))
def test_a_newcomer_reserves_what_was_reserved(seed, gap_s, simulate):
    """With true estimates and gangs in a pool, to plan anew is to plan the same.

    On machines, places of equal start may be others, and so may what fits between them.
    """
    load = mixed(seed, 12, gap_s)
    load = load.with_columns(
        gang=np.ones(load.tasks, np.bool_), run_time_s=np.maximum(load.run_time_s, 1.0)
    )
    pool, make = Cluster.pool({"cpu": 8.0, "mem": 8.0}), POLICIES["conservative"]
    alone = simulate(make(), load, pool, predictor=Actual())
    taking_turns = simulate(Alternating([make(), make()]), load, pool, predictor=Actual())
    assert same_schedule(alone, taking_turns)


@given(seed=st.integers(0, 2**32), jobs=st.integers(1, 15))
def test_a_batch_ends_as_early_as_with_the_best_candidate(seed, jobs, simulate):
    load = mixed(seed, jobs, gap_s=0)
    makespans = [
        simulate(make(), load, MACHINES, predictor=Actual())["jobs"]["end_time_s"].max()
        for make in POLICIES.values()
    ]
    ahead = Lookahead([make() for make in POLICIES.values()])
    run = simulate(ahead, load, MACHINES, predictor=Actual())
    assert run["jobs"]["end_time_s"].max() == min(makespans)


# Each takes all four processors. At 0 there is nothing to choose, so ljf, the first, acts. At 10
# two jobs arrive, of 60 s and 10 s: whichever goes first, the last ends at 110.
SWITCH = [(0, 40, 4, 40), (10, 60, 4, 60), (0, 10, 4, 10)]


def test_it_switches_when_another_candidate_is_better(simulate, job_columns):
    jobs = job_columns(SWITCH)
    makespan = Lookahead([OrderedPolicy(LJF()), OrderedPolicy(SJF())])
    assert simulate(makespan, jobs, 4).starts == [0, 40, 100]  # a tie keeps the first
    for objective in ("turnaround", "slowdown"):
        ahead = Lookahead([OrderedPolicy(LJF()), OrderedPolicy(SJF())], objective)
        assert simulate(ahead, jobs, 4).starts == [0, 50, 40]
        assert ahead.acting is ahead.policies[1]


def test_the_objectives_differ(simulate, job_columns):
    """2 processors: ljf packs 5 + (3, 2), sjf ends later but serves the short ones first."""
    jobs = job_columns([(0, 2, 1, 2), (0, 3, 1, 3), (0, 5, 1, 5)])
    policies = [OrderedPolicy(SJF()), OrderedPolicy(LJF())]
    assert simulate(Lookahead(policies), jobs, 2).starts == [3, 0, 0]
    assert simulate(Lookahead(policies, "turnaround"), jobs, 2).starts == [0, 0, 2]


def test_a_task_that_never_ends_counts_more_than_any_time(simulate, job_columns):
    class Never:
        def reset(self, info, rng):
            pass

        def schedule(self, state):
            return ()

    run = simulate(Lookahead([Never(), OrderedPolicy(FCFS())]), job_columns([(0, 3, 1, 3)]), 2)
    assert run.starts == [0]


# --- what is refused -------------------------------------------------------------------------

SECTION = {"lookahead": CANDIDATES}
REFUSED = [
    ({"policy": {"lookahead": []}},
     r"policy.lookahead: has no policies; list those to choose from"),
    ({"policy": SECTION | {"objective": "makspan"}},
     r"policy.objective: unknown value 'makspan'; did you mean 'makespan'"),
    ({"policy": SECTION | {"horizon": 3}}, r"policy.horizon: unknown key"),
    ({"policy": {"lookahead": [{"order": "sjf"}, SECTION]}},
     r"policy.lookahead.1: looks ahead itself; list its policies in its place"),
    ({"policy": {"lookahead": [{"fitness": "tetris", "backfill": "easy"}]}},
     r"policy.lookahead.0.backfill: does not go with \{fitness, order, compat\}"),
    ({"policy": {"lookahead": [{"order": "sjff"}]}},
     r"policy.lookahead.0.order: 'sjff' is not known as an order"),
    ({"policy": {"lookahead": [{"fitness": "tetris"}, {"fitness": {"type": "tetris", "srtf": 2}}]}},
     r"policy.lookahead.1.fitness"),
    ({"policy": {"lookahead": [{"fitness": "tetris", "compat": "cloudsimpy"}]}},
     r"policy.lookahead.0.compat: cloudsimpy cannot begin in the middle of a run; leave it out"),
    ({"scheduling": {"step": "30s"}},
     r"policy.lookahead: it plays ahead from change to change, not step by step"),
    ({"cluster": {"failures": {"mtbf": "1d", "mttr": "1h", "running": "suspend"}}},
     r"policy.lookahead: cluster.failures.running is suspend"),
    ({"cluster": {"processors": 128, "partitions": [
        {"name": "low", "preempt": "requeue"}, {"name": "all", "priority": 1}]}},
     r"policy.lookahead preempts no running tasks, but the scenario has cluster.partitions.0"),
    ({"power": {"machines": {"idle_w": 1, "full_w": 2}, "grid": {}, "supply": {"limit": "power"}}},
     r"policy.lookahead: power.supply.limit is power"),
    ({"power": {"machines": {"idle_w": 1, "full_w": 2}, "grid": {}},
      "policy": {"lookahead": [{"order": "sjf"}, {"backfill": "price-threshold"}]}},
     r"policy.lookahead.1"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_scenarios_that_are_refused(section, message):
    with pytest.raises(ScenarioError, match=message):
        simkit.simulate({"workload": SAMPLE, "policy": SECTION} | section)


def test_arguments_that_are_refused():
    with pytest.raises(ScenarioError) as caught:
        Lookahead([Lookahead([OrderedPolicy(FCFS())]), 3], "makspan")
    for named, problem in zip(
        ("candidate 0, Lookahead", "candidate 1, int", "objective"),
        caught.value.problems,
        strict=True,
    ):
        assert problem.startswith(f"lookahead: {named}")
    locked = OrderedPolicy(FCFS())
    locked.lock = threading.Lock()
    for candidates, named in (
        ([], "no candidate"), (OrderedPolicy(FCFS()), "no list"),
        ([CloudSimPy()], "candidate 0, CloudSimPy"), ([locked], "candidate 0, OrderedPolicy"),
    ):  # fmt: skip
        with pytest.raises(ScenarioError, match=named):
            Lookahead(candidates)


def test_errors_of_custom_candidates_name_them(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from simkit.policy import Kill\n"
        "class Fails:\n"
        "    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n"
        "        return [state.nothing]\n"
        "class Kills(Fails):\n"
        "    def schedule(self, state):\n"
        "        return [Kill(task) for task in state.queue]\n"
    )

    def run(name):
        section = {"lookahead": [{"order": "sjf"}, {"path": f"{tmp_path}/mine.py:{name}"}]}
        return simkit.simulate({"workload": SAMPLE, "policy": section})

    with pytest.raises(PolicyError, match=r"mine.py:5: Lookahead failed at 91 s: AttributeError"):
        run("Fails")
    with pytest.raises(PolicyError, match=r"Kills in a what-if at 91 s: Kill cannot be played"):
        run("Kills")


def test_a_run_names_its_candidates(tmp_path):
    section = {"lookahead": [{"fitness": "tetris"}, {"order": "sjf", "backfill": "easy"}]}
    run = simkit.simulate({"workload": SAMPLE, "policy": section}, output=tmp_path / "run")
    assert run.policy == "lookahead(tetris, sjf + easy)"
    audit = verify_run(tmp_path / "run")
    assert audit.ok, audit.violations


def test_its_period_is_that_of_the_scenario():
    scenario = {"workload": SAMPLE, "scheduling": {"every": "30s"}}
    with pytest.raises(ScenarioError, match=r"every_s is None and scheduling.every is 30.0"):
        simkit.simulate(scenario, policy=Lookahead([OrderedPolicy(FCFS())]))
    ahead = simkit.simulate(scenario | {"policy": SECTION})
    assert (ahead.jobs["start_time_s"] % 30 == 0).all()
