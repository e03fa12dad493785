"""Slurm's lists of machines, and what was in use on each, against a plain loop."""

import random

import numpy as np
import pytest

from simkit.traces.sacct.recorded import node_names
from simkit.workload import Workload
from simkit.workload.machine_groups import machine_groups, most_by_machine
from simkit.workload.recorded import Nodes, Recorded

LISTS = [
    ("login1", ["login1"]),
    ("a,b", ["a", "b"]),
    ("gpu[001-003,007],login1", ["gpu001", "gpu002", "gpu003", "gpu007", "login1"]),
    ("n[08-11]", ["n08", "n09", "n10", "n11"]),
    ("rack[1-2]n[01-02]", ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]),
    ("cn[1,3]-ib", ["cn1-ib", "cn3-ib"]),
    ("a,a", ["a"]),
    ("", []),
    ("None assigned", []),
    ("x[1-", []),
    ("x[a-b]", []),
    ("x[3-1]", []),
    ("x[1-999999999]", []),
    ("x[1-90000]y[1-90000]", []),
    ("a,,b", []),
]


@pytest.mark.parametrize(("text", "names"), LISTS)
def test_lists(text, names):
    assert list(node_names(text)) == names


@pytest.mark.parametrize("seed", range(10))
def test_the_most_on_each_machine_is_that_of_a_plain_loop(seed):
    draw = random.Random(seed)
    jobs = [(draw.randrange(40), draw.randrange(9), draw.sample(range(5), draw.randint(1, 3)))
            for _ in range(50)]  # fmt: skip
    columns = {
        "job_id": range(50), "submit_time_s": [0] * 50, "run_time_s": [run for _, run, _ in jobs],
        "processors": [len(on) * draw.randint(1, 4) for _, _, on in jobs],
    }  # fmt: skip
    load = Workload.from_jobs(columns)
    past = Recorded.started(load, np.array([start for start, _, _ in jobs], float))
    first = np.concatenate(([0], np.cumsum([len(on) for _, _, on in jobs])))
    nodes = Nodes(tuple("abcde"), first, np.array([m for _, _, on in jobs for m in on]))
    job = np.repeat(np.arange(50), np.diff(first))
    each = (past.held["processors"] / np.diff(first))[job]
    most = [0] * 5
    for instant, _, _ in jobs:
        now = [0] * 5
        for (start, run, on), size in zip(jobs, columns["processors"], strict=True):
            for machine in on:
                now[machine] += size // len(on) * (start <= instant < start + run)
        most = [max(pair) for pair in zip(most, now, strict=True)]
    assert most_by_machine(past, nodes, job, each).tolist() == most
    (group,) = machine_groups(load, past, nodes, np.zeros(50, np.int64))
    assert (group.count, group.partitions) == (5, (0,))
    assert group.each["processors"] >= max(most)
