"""Random small scenarios that combine features: what meets here, random scenarios seldom combine.

Every combination is a function that draws a scenario around it; then the other features that go
with it are added by chance. Times are drawn so that many of them are equal, and some are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Section = dict[str, Any]

PROCESS = """
def strike(view, machines, first, away, pause, running, times):
    yield view.timeout(first)
    for _ in range(times):
        view.take_away(machines, running=running, cause="strike")
        yield view.timeout(away)
        view.give_back(cause="strike")
        yield view.timeout(pause)
"""
PREDICTOR = '''
class Last:
    """The last run time of the same size, or a share of the request."""

    learns = True

    def reset(self, workload, rng):
        self.told = workload.requested_time_s
        self.known = {}

    def estimates(self, first, last):
        return 0 * self.told[first:last] + 10.0

    def on_submission(self, task):
        return self.known.get(task.instances, 0.25 * min(task.requested_time_s, 1e6))

    def on_end(self, task, run_time_s):
        self.known[task.instances] = run_time_s
'''


def combined_scenario(rng: np.random.Generator, folder: Path) -> Section:
    """Return a scenario; its files are written to the folder."""
    make = COMBINATIONS[int(rng.integers(len(COMBINATIONS)))]
    return make(_Draw(rng, folder))


class _Draw:
    """Draws the parts of one scenario."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        self.rng, self.folder = rng, folder
        self.size = int(rng.integers(2, 9))
        """Processors of the pool, or of each machine."""
        self.machines = 1

    def coin(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def base(self, *, machines: bool = False) -> Section:
        """Return jobs on a pool or on machines, under a policy that is often replayed."""
        cluster: Section = {"processors": self.size}
        if machines or self.coin(0.3):
            self.machines = int(self.rng.integers(1, 5))
            group = {"name": "g", "count": self.machines, "processors": self.size}
            cluster = {"machines": [group]}
        policy: Section = {"order": self.pick("fcfs", "fcfs", "sjf", "lcfs", "wfp3", "random")}
        policy["backfill"] = self.pick("none", "easy", "easy", "conservative")
        if policy["backfill"] == "easy" and self.coin(0.3):
            policy["backfill"] = {"type": "easy", "order": "sjf"}
        return {
            "seed": int(self.rng.integers(1000)),
            "workload": {"type": "jobs", "path": self.file("jobs.csv", self.table())},
            "cluster": cluster,
            "policy": policy,
        }

    def table(self) -> str:
        """Return a table of jobs: users, queues, deadlines, and now and then releases and links."""
        rng, jobs = self.rng, int(self.rng.integers(2, 50))
        submit = np.cumsum(rng.choice([0, 0, 0, 1, 10, 60, 600], size=jobs))
        run = rng.choice([0, 0, 1, 10, 10, 60, 300, 2000], size=jobs)
        if self.coin(0.3):
            run = run + rng.random(jobs).round(3)
        asked = np.ceil(run * rng.choice([0.5, 1, 1, 2, 5], size=jobs)) + rng.integers(0, 2, jobs)
        columns: dict[str, Any] = {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": submit,
            "run_time_s": run,
            "processors": rng.integers(1, self.size + 1, size=jobs),
            "requested_time_s": asked,
            "user": rng.integers(-1, 3, size=jobs),
            "queue": rng.integers(1, 3, size=jobs),
            "qos": rng.uniform(0.05, 1, size=jobs).round(3),
            "deadline_s": submit + asked + rng.choice([0, 10, 100, 5000], size=jobs),
        }
        if self.coin(0.4):
            before = np.arange(1, jobs + 1) - rng.choice([1, 1, 2, 5], size=jobs)
            columns["preceding_job"] = np.where((rng.random(jobs) < 0.4) & (before > 0), before, -1)
            columns["think_time_s"] = rng.choice([0, 0, 1, 60], size=jobs)
        if self.coin(0.2):
            columns["release_time_s"] = submit + rng.choice([0, 0, 5, 500], size=jobs)
        rows = zip(*columns.values(), strict=True)
        return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"

    # ---- features ------------------------------------------------------------------------------

    def leave_late(self, scenario: Section) -> None:
        scenario["value"] = {"deadlines": self.pick("column", "qos")}
        scenario["admission"] = {**scenario.get("admission", {}), "late": "leave"}

    def slots(self, scenario: Section) -> None:
        admission: Section = {"slots": int(self.rng.integers(1, 5))}
        if self.coin(0.5):
            admission["backlog"] = int(self.rng.integers(0, 10))
        if self.coin(0.3):
            admission["refill"] = "next_decision"
        scenario["admission"] = {**scenario.get("admission", {}), **admission}

    def limit_users(self, scenario: Section) -> None:
        parts = [{"name": "short", "queues": [1]}, {"name": "rest"}][self.pick(0, 1) :]
        for part in parts:
            if part["name"] == "rest" or self.coin(0.5):
                part["max_running_per_user"] = int(self.rng.integers(1, 4))
            if self.coin(0.3):
                part["max_waiting_per_user"] = int(self.rng.integers(1, 6))
        scenario["cluster"]["partitions"] = parts

    def preempt(self, scenario: Section, *ways: str) -> None:
        hot = {"name": "hot", "queues": [1], "priority": 1}
        rest = {"name": "rest", "preempt": self.pick(*(ways or ("suspend", "requeue", "cancel")))}
        if self.coin(0.3):
            rest["max_running_per_user"] = int(self.rng.integers(1, 4))
        scenario["cluster"]["partitions"] = [hot, rest]
        if scenario["policy"]["backfill"] == "conservative":
            scenario["policy"]["backfill"] = self.pick("none", "easy")

    def clock(self, scenario: Section) -> None:
        period = self.pick(1, 7, 60, "5m")
        if "power" in scenario and period in (1, 7):
            period = 600  # what power never suffices for waits a year, step by step
        scenario["scheduling"] = {self.pick("every", "step", "step"): period}

    def failures(self, scenario: Section) -> None:
        scenario["cluster"]["failures"] = {
            "mtbf": self.pick("10m", "3h", "1d"), "mttr": self.pick("1m", "10m", "1h"),
            "running": self.pick("requeue", "requeue", "suspend", "drain"),
        }  # fmt: skip

    def correct(self, scenario: Section) -> None:
        kind = self.pick("user-mean", "perturbed", "requested", "own", "own")
        if kind == "own":
            kind = f"{self.file('predictor.py', PREDICTOR)}:Last"
        scenario["estimates"] = {"type": kind, "correction": self.pick("tsafrir", "request")}

    def process(self, scenario: Section) -> None:
        machines = list(range(self.machines)) if self.coin(0.5) else [0]
        running = self.pick("requeue", "requeue", "suspend", "drain")
        arguments = {
            "machines": machines, "first": self.pick(0, 1, 100), "running": running,
            "away": self.pick(1, 50, 1000), "pause": self.pick(0, 1, 100),
            "times": int(self.rng.integers(1, 4)),
        }  # fmt: skip
        path = f"{self.file('process.py', PROCESS)}:strike"
        scenario["processes"] = [{"path": path, "args": arguments}]

    def supply(self, scenario: Section) -> None:
        full = 200.0 * self.size * self.machines
        machines: Section = {"idle_w": 50, "full_w": 200}
        if self.coin(0.3):
            machines |= {"boot": "2m", "boot_w": 150, "shutdown": "1m"}
        power: Section = {
            "machines": machines, "align": {"zero": "2020-01-01T00:00:00Z"},
            "supply": {"limit": self.pick("power", "resources"),
                       "running": self.pick("drain", "suspend", "requeue")},
        }  # fmt: skip
        if self.coin(0.6):
            levels = {"type": "levels", "high_w": full, "low_w": full / 4, "high_share": 0.6}
            power["sources"] = {"luck": {"signal": levels}}
        if self.coin(0.6) or "sources" not in power:
            limit = {"import_limit_w": full * self.pick(0.3, 0.8)} if self.coin(0.5) else {}
            power["grid"] = limit
        if self.coin(0.3):
            power["battery"] = {"capacity_kwh": full / 1000 * self.pick(0.1, 1)}
        scenario["power"] = power

    def maintain(self, scenario: Section) -> None:
        window: Section = {
            "start": self.pick(0, 100, "1h"), "duration": self.pick(10, "20m"),
            "running": self.pick("drain", "suspend", "requeue"),
        }  # fmt: skip
        scenario["cluster"]["maintenance"] = [window]


# ---- combinations --------------------------------------------------------------------------------


def _late_users(draw: _Draw) -> Section:
    """User limits hold back jobs that are late when they are let in."""
    scenario = draw.base()
    draw.limit_users(scenario)
    draw.leave_late(scenario)
    if draw.coin(0.3):
        draw.slots(scenario)
    if draw.coin(0.3):
        draw.clock(scenario)
    if draw.coin(0.3):
        scenario["walltime"] = "kill"
    if draw.coin(0.2):
        draw.correct(scenario)
    return scenario


def _paused_at_once(draw: _Draw) -> Section:
    """Tasks are preempted at the instant of their start, and may go on at that instant."""
    scenario = draw.base()
    draw.preempt(scenario, "suspend", "suspend", "requeue", "cancel")
    draw.slots(scenario)
    if draw.coin(0.3):
        draw.clock(scenario)
    if draw.coin(0.2):
        draw.leave_late(scenario)
    if draw.coin(0.2):
        draw.correct(scenario)
    if draw.coin(0.2):
        scenario["walltime"] = "kill"
    return scenario


def _processes_and_supply(draw: _Draw) -> Section:
    """Processes take machines away while power limits how many are on."""
    scenario = draw.base()
    draw.process(scenario)
    draw.supply(scenario)
    if draw.coin(0.3):
        draw.maintain(scenario)
    if draw.coin(0.2):
        draw.failures(scenario)
    if draw.coin(0.3):
        draw.clock(scenario)
    if draw.coin(0.2):
        draw.preempt(scenario)
    return scenario


def _stopped_between_steps(draw: _Draw) -> Section:
    """Work is lost between decisions that come at regular times, and killed at its wall time."""
    scenario = draw.base(machines=draw.coin(0.7))
    draw.failures(scenario)
    draw.clock(scenario)
    if draw.coin(0.8):
        scenario["walltime"] = "kill"
    if draw.coin(0.3):
        draw.leave_late(scenario)
    if draw.coin(0.3):
        draw.correct(scenario)
    if draw.coin(0.3):
        draw.limit_users(scenario)
    elif draw.coin(0.3):
        draw.preempt(scenario)
    return scenario


def _corrected_predictions(draw: _Draw) -> Section:
    """Estimates come from a predictor, often one of the user's own, and are corrected."""
    scenario = draw.base()
    draw.correct(scenario)
    if draw.coin(0.4):
        scenario["walltime"] = "kill"
    if draw.coin(0.3):
        draw.failures(scenario)
    if draw.coin(0.3):
        draw.clock(scenario)
    if draw.coin(0.3):
        draw.preempt(scenario)
    if draw.coin(0.2):
        draw.maintain(scenario)
    return scenario


def _processes_alone(draw: _Draw) -> Section:
    """Processes take machines away beside maintenance, failures and limits of users."""
    scenario = draw.base()
    draw.process(scenario)
    if draw.coin(0.5):
        draw.maintain(scenario)
    if draw.coin(0.4):
        draw.failures(scenario)
    if draw.coin(0.4):
        draw.limit_users(scenario)
    if draw.coin(0.4):
        draw.clock(scenario)
    if draw.coin(0.3):
        draw.leave_late(scenario)
    return scenario


COMBINATIONS: tuple[Callable[[_Draw], Section], ...] = (
    _late_users, _paused_at_once, _processes_and_supply, _stopped_between_steps,
    _corrected_predictions, _processes_alone,
)  # fmt: skip
