"""Explain random jobs of random runs: do the intervals add up, and are the blockers the blockers?

    python tests/simkit/why/explain_campaign.py --jobs 200 --logs 20

For each family of policies, jobs that waited are drawn from runs of random workloads. Their
intervals must add up to their wait, to the tick. Then, at the beginning of the last interval, what
it names is taken away, and the job must start at that instant; the same is tried with as many
random other jobs that waited or ran then. With `--logs`, jobs of windows of SDSC-SP2 follow, if
SIMKIT_DATA names the folder that has the log.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from counterfactual import Removal, replay_without

import simkit
from simkit.experiment import prepare
from simkit.scenario.yaml_document import load_scenario
from simkit.why.causes import Cause
from simkit.why.jobs import explain_jobs

Section = dict[str, Any]
LOG = "swf/SDSC-SP2-1998-4.2-cln.swf.gz"


def jobs_table(rng, jobs, size, load=1.1):
    """Return a table of jobs that keep `size` processors busy: requests above run times."""
    run = np.ceil(rng.lognormal(6.0, 1.4, jobs)).clip(1, 40_000)
    width = np.minimum(2 ** rng.integers(0, max(int(np.log2(size)), 1) + 1, jobs), size)
    odd = rng.random(jobs) < 0.3
    width = np.where(odd, rng.integers(1, size + 1, jobs), width)
    gap = (run * width).mean() / (size * load)
    submit = np.floor(np.cumsum(rng.exponential(gap, jobs) * rng.choice([0, 0.5, 2.2], jobs)))
    asked = np.ceil(run * rng.choice([1, 1, 1.5, 3, 8], jobs))
    columns = {
        "job_id": np.arange(1, jobs + 1), "submit_time_s": submit, "run_time_s": run,
        "processors": width, "requested_time_s": asked, "user": rng.integers(1, 6, jobs),
        "queue": rng.choice([1, 2, 2], jobs),
    }  # fmt: skip
    rows = zip(*(column.astype(int).tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


# ---- families -----------------------------------------------------------------------------------


def _pool(rng, folder, policy, **more):
    size = int(rng.choice([8, 32, 100]))
    table = folder / "jobs.csv"
    table.write_text(jobs_table(rng, 150, size, more.pop("load", 1.1)))
    cluster = {"processors": size, **more.pop("cluster", {})}
    return {
        "seed": int(rng.integers(1000)), "workload": {"type": "jobs", "path": str(table)},
        "cluster": cluster, "policy": policy, **more,
    }  # fmt: skip


def fcfs(rng, folder):
    return _pool(rng, folder, {"order": "fcfs", "backfill": "none"}, load=0.8)


def easy(rng, folder):
    return _pool(rng, folder, {"order": "fcfs", "backfill": "easy"})


def conservative(rng, folder):
    return _pool(rng, folder, {"order": "fcfs", "backfill": "conservative"})


def sjf_easy(rng, folder):
    return _pool(rng, folder, {"order": "sjf", "backfill": "easy"})


def multifactor(rng, folder):
    parts = [
        {"name": "short", "queues": [1], "max_running_per_user": int(rng.integers(1, 4))},
        {"name": "rest", "max_running_per_user": int(rng.integers(2, 6))},
    ]
    order = {"type": "multifactor", "age": 1.0, "size": 0.5, "fair_share": 2.0}
    policy = {"order": order, "backfill": "easy"}
    return _pool(rng, folder, policy, cluster={"partitions": parts})


def preemption(rng, folder):
    way = str(rng.choice(["requeue", "suspend"]))
    parts = [
        {"name": "hot", "queues": [1], "priority": 1}, {"name": "rest", "preempt": way},
    ]  # fmt: skip
    policy = {"order": "fcfs", "backfill": str(rng.choice(["none", "easy"]))}
    return _pool(rng, folder, policy, cluster={"partitions": parts}, load=0.9)


def maintenance(rng, folder):
    windows = [
        {"start": f"{int(at)}h", "duration": "4h", "running": "requeue"}
        for at in np.cumsum(rng.integers(6, 20, 6))
    ]
    policy = {"order": "fcfs", "backfill": str(rng.choice(["none", "easy", "conservative"]))}
    return _pool(rng, folder, policy, cluster={"maintenance": windows}, load=0.9)


def first_fit(rng, folder):
    count = int(rng.integers(3, 9))
    scenario = _pool(rng, folder, {"fitness": "first-fit"})
    size = scenario["cluster"]["processors"]
    table = Path(scenario["workload"]["path"])
    table.write_text(jobs_table(rng, 200, size, 1.2 * count))
    group = {"name": "m", "count": count, "processors": size}
    return {**scenario, "cluster": {"machines": [group]}}


def power(rng, folder):
    scenario = _pool(rng, folder, {"order": "fcfs", "backfill": "easy"}, load=0.5)
    full = 200.0 * scenario["cluster"]["processors"]
    levels = {"type": "levels", "high_w": full, "low_w": full / 4, "high_share": 0.6}
    scenario["power"] = {
        "machines": {"idle_w": 50, "full_w": 200}, "align": {"zero": "2020-01-01T00:00:00Z"},
        "supply": {"limit": "power", "running": "drain"}, "sources": {"plant": {"signal": levels}},
    }  # fmt: skip
    return scenario


Family = Callable[[np.random.Generator, Path], Section]
FAMILIES: tuple[Family, ...] = (
    fcfs, easy, conservative, sjf_easy, multifactor, preemption, maintenance, first_fit, power,
)  # fmt: skip
STRICT = ("fcfs", "easy", "conservative")
"""Families in which nothing is the policy's own choice."""


# ---- judging ------------------------------------------------------------------------------------


@dataclass
class Tally:
    """How the jobs of a family fared."""

    jobs: int = 0
    wrong_sums: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    """Causes of last intervals."""
    started: int = 0
    """Jobs that start at the last interval's beginning once what it names is gone."""
    started_before: int = 0
    """The same, if what it names is gone before anything is decided at that instant."""
    others_tried: int = 0
    others_started: int = 0
    """Jobs that start then once a random other job is gone."""
    exceptions: list[str] = field(default_factory=list)

    def line(self, name):
        """Return the tally as a row of text."""
        share = self.started / max(self.jobs, 1)
        before = self.started_before / max(self.jobs, 1)
        others = self.others_started / max(self.others_tried, 1)
        return (
            f"{name:<14}{self.jobs:>6}{len(self.wrong_sums):>7}{len(self.choices):>9}"
            f"{share:>10.1%}{before:>10.1%}{others:>10.1%}   {dict(self.causes.most_common(4))}"
        )

    def add(self, other):
        """Take in another tally."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def judge(name, explanation, tally, experiment,
          rng):  # fmt: skip
    """Check one explanation and count how it fares."""
    tally.jobs += 1
    who = f"{name}: job {explanation.job_id}"
    for wait in explanation.waits:
        edges = [edge for each in wait.intervals for edge in (each.start_s, each.end_s)]
        chained = edges[1:-1:2] == edges[2::2]
        total = sum(each.length_s for each in wait.intervals)
        ends = [*edges[:1], *edges[-1:]]
        if wait.length_s and (
            total != wait.length_s or not chained or ends != [wait.start_s, wait.end_s]
        ):
            tally.wrong_sums.append(f"{who}: {wait.kind} {total} of {wait.length_s}")
        if any(each.cause is Cause.POLICY for each in wait.intervals):
            tally.choices.append(who)
    assert explanation.wait is not None
    last = explanation.wait.intervals[-1]
    tally.causes[str(last.cause)] += 1
    ids = experiment.trace.workload.job_id.tolist()
    rows = {job: row for row, job in enumerate(ids)}
    mine = rows[explanation.job_id]
    found = replay_without(experiment, Removal.of(last, rows), mine)
    tally.started += found.started
    before = replay_without(experiment, Removal.of(last, rows, before=True), mine)
    tally.started_before += before.started
    if not found.started:
        tally.exceptions.append(f"{who}: {last.start_s:.10g}-{last.end_s:.10g} s {last.cause}: "
                                f"{last.sentence}")  # fmt: skip
    if found.others:
        other = found.others[int(rng.integers(len(found.others)))]
        tally.others_tried += 1
        tried = replay_without(experiment, Removal(last.start_s, {other}), mine)
        tally.others_started += tried.started


def examine(name, run, jobs, rng):
    """Explain random jobs of a run that waited, and judge what comes out."""
    tally = Tally()
    waited = run.jobs.filter(run.jobs["wait_time_s"] > 0)["job_id"].to_list()
    if not waited:
        return tally
    chosen = rng.choice(len(waited), min(jobs, len(waited)), replace=False)
    explained = explain_jobs(run, [waited[n] for n in sorted(chosen)])
    experiment = prepare(load_scenario(run.info["scenario"]))
    for explanation in explained:
        judge(name, explanation, tally, experiment, rng)
    return tally


def family_tally(family, jobs, seed=0, per_run=10):
    """Return the tally of so many jobs of random runs of a family."""
    tally, number = Tally(), 0
    while tally.jobs < jobs and number < 10 * jobs:
        rng = np.random.default_rng((seed, FAMILIES.index(family), number))
        number += 1
        with tempfile.TemporaryDirectory() as name:
            run = simkit.simulate(family(rng, Path(name)))
            label = f"{family.__name__} {seed}/{number - 1}"
            tally.add(examine(label, run, min(per_run, jobs - tally.jobs), rng))
    return tally


def windows_of_log(path, windows, seed=0):
    """Yield runs of windows of 2,000 jobs of a log under each of three policies."""
    rng = np.random.default_rng(seed)
    for number in range(windows):
        first = int(rng.integers(0, 50_000))
        backfill = ("none", "easy", "conservative")[number % 3]
        window = {"jobs": f"{first}..{first + 1999}"}
        workload = {"type": "swf", "path": str(path), "window": window}
        policy = {"order": "fcfs", "backfill": backfill}
        yield f"{backfill} {first}", simkit.simulate({"workload": workload, "policy": policy})


def main():
    """Run the campaign that the command line asks for; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=200, help="jobs of each family")
    parser.add_argument("--logs", type=int, default=0, help="windows of SDSC-SP2, 10 jobs each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one family")
    given = parser.parse_args()
    begin, all_of_them, bad = monotonic(), Tally(), False
    print(
        f"{'family':<14}{'jobs':>6}{'sums':>7}{'choices':>9}{'started':>10}{'before':>10}{'others':>10}"
    )
    for family in FAMILIES:
        if given.only in (None, family.__name__):
            tally = family_tally(family, given.jobs, given.seed)
            print(tally.line(family.__name__), flush=True)
            bad |= bool(tally.wrong_sums) or (family.__name__ in STRICT and bool(tally.choices))
            all_of_them.add(tally)
    data = os.environ.get("SIMKIT_DATA", "")
    if given.logs and data:
        tally = Tally()
        rng = np.random.default_rng(given.seed)
        for name, run in windows_of_log(Path(data) / LOG, given.logs, given.seed):
            tally.add(examine(f"SDSC-SP2 {name}", run, 10, rng))
        print(tally.line("SDSC-SP2"), flush=True)
        bad |= bool(tally.wrong_sums or tally.choices)
        all_of_them.add(tally)
    print(all_of_them.line("all"), f"{monotonic() - begin:.0f} s")
    for text in (*all_of_them.wrong_sums, *all_of_them.choices[:20]):
        print("wrong:", text)
    for text in all_of_them.exceptions:
        print("exception:", text)
    return int(bad or all_of_them.started < 0.95 * all_of_them.jobs)


if __name__ == "__main__":
    sys.exit(main())
