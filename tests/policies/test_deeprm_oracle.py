"""DeepRM's original episodes, decided anew by our heuristics.

The reference: 100 job sets at each of five job rates, with every action that eight heuristics of the
original code took, and the starts and finishes that came of them. The episodes are replayed action
by action in tests/learners/lockstep/test_lockstep_oracle.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from engine_runs import begin
from trace_files import oracle_file
from workloads import one_task_jobs

from simkit.arrays import stream
from simkit.policies.slotted import SlottedPacker, SlottedSJF, SlottedTetris
from simkit.policy.estimates import Actual
from simkit.rules import AdmissionRule, Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

RATES = ("0.1", "0.379", "0.596", "0.705", "1")
KNOBS = ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5")
HEURISTICS = {
    "SJF": SlottedSJF,
    "Packer": SlottedPacker,
    **{f"Tetris{knob}": lambda knob=knob: SlottedTetris(float(knob)) for knob in KNOBS},
}
VOID = 10
ARRIVALS_END = 50
"""The step before which no episode of the original ends; ours ends with its last job."""
RULES = Rules(scheduling={"step": 1.0}, admission=AdmissionRule(slots=10, backlog=60))
POOL = Cluster.pool({"cpu": 10.0, "mem": 10.0})


@dataclass
class Reference:
    """The original's episodes at one job rate."""

    workloads: list[Workload]
    actions: dict[tuple[str, int], list[int]]
    schedules: dict[tuple[str, int], list[tuple[float, float]]]
    """(start, finish) of every job, by policy and job set."""


def workload(length, size):
    """Return a job set; what the original has at step 0 it never delivers."""
    steps = np.flatnonzero(length[1:]) + 1
    return one_task_jobs(steps, length[steps], size[steps])


@pytest.fixture(scope="module")
def reference():
    read: dict[str, Reference] = {}

    def of_rate(rate):
        if rate not in read:
            path = oracle_file("deeprm", f"unseen_all_done_r{rate}_jobs.csv.gz")
            read[rate] = read_reference(str(path).removesuffix("_jobs.csv.gz"))
        return read[rate]

    return of_rate


def read_reference(path):
    with np.load(f"{path}_jobsets.npz") as sets:
        workloads = [workload(*pair) for pair in zip(sets["nw_len"], sets["nw_size"], strict=True)]
    with np.load(f"{path}_actions.npz") as file:
        names = [name.decode().split(":") for name in file["keys"]]
        parts = np.split(file["actions"], file["offsets"][1:])
    keys = [(policy, int(number)) for policy, number in names]
    actions = {key: part.tolist() for key, part in zip(keys, parts[: len(keys)], strict=True)}
    schedules = {key: [] for key in keys}
    jobs = pl.read_csv(f"{path}_jobs.csv.gz").sort("policy", "ex", "job")
    for policy, number, start, finish in jobs.select("policy", "ex", "start", "finish").rows():
        schedules[policy, number].append((float(start), float(finish)))
    return Reference(workloads, actions, schedules)


class Played:
    """An episode in our model: what was done at each decision, and what came of it."""

    def __init__(self, load):
        self.actions: list[int] = []
        self.run = begin(load, POOL, rules=RULES, predictor=Actual())
        self.simulation = self.run.simulation

    @property
    def schedule(self):
        return self.run.rows("jobs", "start_time_s end_time_s", by="job_id")

    @property
    def idle_steps(self):
        """Steps that the original goes on for when the last job has ended."""
        return max(0, ARRIVALS_END - int(max(end for _, end in self.schedule)))


def decide(load, policy):
    """Let a policy decide, and note its actions."""
    episode = Played(load)
    policy.reset(episode.simulation.info, stream(0, "policy"))
    episode.actions = [VOID] * int(load.submit_time_s[0])
    for state in episode.simulation.decisions():
        policy.tracker.update(state)
        tasks = [policy.tracker.task(slot) for slot in range(VOID)]
        for place in policy.schedule(state):
            episode.actions.append(tasks.index(place.task))
            episode.simulation.apply(place)
            policy.tracker.update(state)
            tasks = [policy.tracker.task(slot) for slot in range(VOID)]
        if episode.simulation.jobs_ended < len(load):  # or else the episode is over
            episode.actions.append(VOID)
    return episode


def check_decisions(reference, rate, policy, numbers):
    known, make = reference(rate), HEURISTICS[policy]
    for number in numbers:
        if len(known.workloads[number]):
            episode, theirs = decide(known.workloads[number], make()), known.actions[policy, number]
            ours = [*episode.actions, *[VOID] * episode.idle_steps]
            # One more where the original's list of running jobs keeps one that has finished.
            assert theirs in (ours, [*ours, VOID]), f"job set {number}"
            assert episode.schedule == known.schedules[policy, number]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("policy", HEURISTICS)
def test_our_heuristics_take_the_same_actions(reference, rate, policy):
    check_decisions(reference, rate, policy, (0, 74))


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("policy", HEURISTICS)
def test_our_heuristics_take_the_same_actions_in_all_episodes(reference, rate, policy):
    check_decisions(reference, rate, policy, range(100))
