"""The guard of speed: ten ratios of processor time within one run, held against recorded values.

    python tests/benchmarks/guard.py            # half a minute; exit code 1 if a ratio is too high
    python tests/benchmarks/guard.py --record   # writes guard.json: say in the commit why it rose

What is measured alternates, round by round, with a plain-Python replay of a log (two pools: with
the same jobs on one; start-up and whole run: with a process that imports part of the standard
library). A ratio is the shortest time of the one over the shortest time of the other, over the
rounds of several processes: what else the machine does, and how the memory of a process happens to
lie, only ever lengthen a time, and not both alike. A ratio above its limit is measured on, and
counts if it stays above. The values belong to the kind of machine that runs the checks of this
repository; elsewhere, record the values of the commit before a change, and compare with those.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

HERE: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "helpers"))

import plain_replay  # noqa: E402

from simkit.compiled.replay import replay_pool  # noqa: E402
from simkit.engine.recorder import Recorder  # noqa: E402
from simkit.engine.simulation import Simulation  # noqa: E402
from simkit.env import SchedulingEnv  # noqa: E402
from simkit.gym.episodes import Nowhere  # noqa: E402
from simkit.policies.easy import Easy  # noqa: E402
from simkit.policies.fitness import FirstFit  # noqa: E402
from simkit.policies.orderings import FCFS  # noqa: E402
from simkit.policy.declared import PoolRule  # noqa: E402
from simkit.policy.estimates import Requested  # noqa: E402
from simkit.policy.fitness import FitnessPolicy  # noqa: E402
from simkit.policy.ordered import OrderedPolicy  # noqa: E402
from simkit.power.facts import Supply  # noqa: E402
from simkit.power.forecast import Persistence  # noqa: E402
from simkit.power.machine_model import PowerModel  # noqa: E402
from simkit.power.signal import CARBON, PRICE, Steps  # noqa: E402
from simkit.power.site import Foresight, Grid, Site, Source  # noqa: E402
from simkit.rules import Rules  # noqa: E402
from simkit.workload import Workload  # noqa: E402
from simkit.workload.cluster import Cluster, Partition  # noqa: E402

VALUES: Final = HERE / "guard.json"
MARGIN: Final = 1.075
"""A ratio may be so many times its value: half of the slowdown of 15 % that must not pass."""
PROCESSES: Final = 5
ROUNDS: Final = 7
"""How often a process measures each ratio, but for those of `FEWER`."""
FEWER: Final = {"whole run": 3}
"""Ratio → rounds, of one that takes long."""
ATTEMPTS: Final = 3
"""How often a ratio that is too high is measured before it counts."""
SEPARATE: Final = "import asyncio, decimal, email, http.server, logging.config, unittest, xml.sax"
"""What a process of the standard library imports, in units of which start-up is measured."""
START: Final = "from simkit.cli import main; main()"
Piece = Callable[[], None]


def log(seed: int, processors: int, load: float, jobs: int) -> dict[str, list[float]]:
    """Return columns of a made-up log: bursts of jobs, sizes of powers of two, long limits."""
    rng = np.random.default_rng(seed)
    size = 2 ** rng.integers(0, int(np.log2(processors)), jobs)
    run = np.ceil(rng.lognormal(7.0, 1.8, jobs).clip(10, 86_400))
    gaps = rng.weibull(0.6, jobs)
    span_s = float((run * size).sum()) / (load * processors)
    submit = np.floor(np.cumsum(gaps / gaps.sum() * span_s))
    limit = np.ceil(run * rng.choice([1.0, 2.0, 5.0, 20.0], jobs))
    columns = {"submit_time_s": submit, "run_time_s": run, "processors": size,
               "requested_time_s": limit}  # fmt: skip
    return {name: column.tolist() for name, column in columns.items()}


SHORT: Final = log(1, 128, 0.75, 4_000)
LONG: Final = log(2, 512, 1.05, 4_000)


def plain(columns: Mapping[str, Any], processors: int) -> Piece:
    """Return the plain replay of a log."""
    names = ("submit_time_s", "run_time_s", "processors", "requested_time_s")
    lists = [columns[name] for name in names]

    def piece() -> None:
        plain_replay.replay(processors, *lists, easy=True)

    return piece


def engine(columns: Mapping[str, Any], cluster: Cluster | int, site: Site | None = None) -> Piece:
    """Return the replay of a log by the engine, on a cluster or so many processors."""
    workload = Workload.from_jobs({"job_id": range(len(columns["run_time_s"])), **columns})
    if isinstance(cluster, int):
        cluster = Cluster.pool({"processors": cluster})

    def piece() -> None:
        recorder = Recorder(workload, ("processors",), Nowhere())
        Simulation(workload, cluster, recorder, site=site).run(OrderedPolicy(FCFS(), Easy()))

    return piece


def compiled() -> Piece:
    """Return the replay of ten times as many jobs by the compiled engine, records included."""
    columns = log(6, 512, 0.95, 40_000)
    workload = Workload.from_jobs({"job_id": range(len(columns["run_time_s"])), **columns})
    cluster, policy = Cluster.pool({"processors": 512}), OrderedPolicy(FCFS(), Easy())
    rule = policy.decision_rule()
    assert isinstance(rule, PoolRule)

    def piece() -> None:
        recorder = Recorder(workload, ("processors",), Nowhere())
        replay_pool(policy, rule, workload, cluster, recorder, rules=Rules(), predictor=Requested())

    return piece


def pools() -> tuple[Piece, Piece]:
    """Return a replay on two partitions with processors of their own, and one on as many in all.

    Jobs go to one partition and the other in turn, which leaves more of them waiting than fit.
    """
    columns = {**LONG, "queue": [row % 2 for row in range(len(LONG["run_time_s"]))]}
    names = ("a", "b")
    parts = tuple(
        Partition(name, machines=(row,), queues=frozenset({row})) for row, name in enumerate(names)
    )
    two = Cluster(("processors",), names, np.full((2, 1), 256.0), parts)
    return engine(columns, two), engine(columns, 512)


def power() -> Piece:
    """Return a replay with sun, price and carbon intensity that change every five minutes."""
    rng, every_s = np.random.default_rng(3), 300.0
    count = int(max(SHORT["submit_time_s"]) / every_s) + 2
    times, span_s = np.arange(count) * every_s, count * every_s

    def signal(low: float, high: float, unit: str) -> Steps:
        values = rng.uniform(low, high, count)
        return Steps(times, values, span_s, unit=unit, past_end="wrap")

    grid = Grid(float("inf"), 0.0, signal(0.02, 0.3, PRICE), 0.0, signal(100.0, 600.0, CARBON))
    pool = PowerModel.linear(128 * 100.0, 128 * 250.0, "processors")
    sun = Source("sun", signal(0.0, 30e3, "W"))
    return engine(
        {name: column[:2_500] for name, column in SHORT.items()}, 128, Site((pool,), (sun,), grid)
    )


def limited() -> tuple[Piece, Piece]:
    """Return a replay whose power limits what runs, planned by a forecast, and one without."""
    times = np.arange(int(max(SHORT["submit_time_s"]) / 3600.0) + 2) * 3600.0
    watts = 30e3 * np.sin(times * 2 * np.pi / 86_400).clip(0)
    sun = Steps(times, watts, times[-1] + 3600.0, unit="W", past_end="wrap")
    site = Site(
        (PowerModel.linear(128 * 100.0, 128 * 250.0, "processors"),), (Source("sun", sun),),
        Grid(24e3, 0.0, 0.1, 0.0, 400.0), supply=Supply(limit="power"),
        foresight=Foresight(48 * 3600.0, 3600.0, Persistence(sun, 86_400.0)),
    )  # fmt: skip
    columns = {name: column[:1_500] for name, column in SHORT.items()}
    return engine(columns, 128, site), engine(columns, 128)


def cloud() -> Piece:
    """Return bags of a cloud, first fit on 200 machines."""
    rng, jobs = np.random.default_rng(4), 500
    workload = Workload.from_jobs(
        {
            "job_id": np.arange(jobs),
            "submit_time_s": np.sort(rng.uniform(0, 20_000, jobs)),
            "run_time_s": np.ceil(rng.lognormal(5.0, 1.0, jobs)),
            "instances": rng.integers(1, 60, jobs),
            "cpu": rng.choice([0.5, 1.0, 2.0, 4.0], jobs),
            "mem": rng.uniform(0.5, 8.0, jobs),
        },
        request=("cpu", "mem"),
    )
    workload = replace(workload, gang=np.zeros(jobs, bool))
    names = tuple(f"m{row}" for row in range(200))
    cluster = Cluster(("cpu", "mem"), names, np.tile([32.0, 64.0], (200, 1)))

    def piece() -> None:
        recorder = Recorder(workload, workload.resources, Nowhere())
        Simulation(workload, cluster, recorder).run(FitnessPolicy(FirstFit()))

    return piece


def environment() -> Piece:
    """Return steps through DeepRM's environment, resets included."""
    env = SchedulingEnv("deeprm", "deeprm-compact")
    actions = np.random.default_rng(5).integers(0, int(env.action_space.n), 2_000).tolist()  # type: ignore[attr-defined]

    def piece() -> None:
        env.reset(seed=0)
        for action in actions:
            if any(env.step(action)[2:4]):
                env.reset()

    return piece


def child(*command: str) -> Piece:
    """Return a process; its processor time is that of children."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

    def piece() -> None:
        subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environ)

    return piece


def whole_run() -> Piece:
    """Return a run of a thousand jobs as a process: imports, reading, metrics, writing, the end."""
    folder = TemporaryDirectory()  # it goes with the piece

    def piece() -> None:
        child("-c", START, "run", "quickstart", "--force", "--output", folder.name)()

    return piece


def pairs() -> dict[str, tuple[Piece, Piece]]:
    """Return what is measured by name, each with the piece that is its unit."""
    unit, separate = plain(SHORT, 128), child("-c", SEPARATE)
    return {
        "short queues": (engine(SHORT, 128), unit),
        "long queues": (engine(LONG, 512), plain(LONG, 512)),
        "two pools": pools(),
        "compiled": (compiled(), unit),
        "cloud": (cloud(), unit),
        "power": (power(), unit),
        "limited power": limited(),
        "environment": (environment(), unit),
        "start-up": (child("-c", START, "--help"), separate),
        "whole run": (whole_run(), separate),
    }


def processor_s() -> float:
    """Return the processor time of this process and of children that have ended, in s."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def timed(piece: Piece, slower: float = 0.0) -> float:
    """Return the processor time of a piece; `slower` adds that share of it as a busy loop."""
    begin = processor_s()
    piece()
    spent = processor_s() - begin
    until = time.process_time() + slower * spent
    while time.process_time() < until:
        pass
    return processor_s() - begin


class Shortest(NamedTuple):
    """The shortest processor times of a piece and of its unit, in s."""

    piece_s: float = float("inf")
    unit_s: float = float("inf")

    def of_both(self, other: Shortest) -> Shortest:
        """Return the shorter times of two measurements."""
        return Shortest(min(self.piece_s, other.piece_s), min(self.unit_s, other.unit_s))

    def ratio(self) -> float:
        """Return the piece's time in units of the other's."""
        return round(self.piece_s / self.unit_s, 3)


def measure(names: Sequence[str], slow: str | None, by: float) -> dict[str, Shortest]:
    """Return the shortest times over the rounds of this process."""
    found = {}
    for name, (piece, unit) in pairs().items():
        if name in names:
            piece()
            unit()
            slower = by if name == slow else 0.0
            rounds = range(FEWER.get(name, ROUNDS))
            times = [Shortest(timed(piece, slower), timed(unit)) for _ in rounds]
            found[name] = reduce(Shortest.of_both, times)
    return found


def measure_apart(names: Sequence[str], slow: str | None, by: float) -> dict[str, Shortest]:
    """Return the shortest times over several processes, one after another."""
    command = [sys.executable, __file__, "--by", str(by), "--slow", slow or "", "--within", *names]
    found = dict.fromkeys(names, Shortest())
    for _ in range(PROCESSES):
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        for name, times in json.loads(output).items():
            found[name] = found[name].of_both(Shortest(*times))
    return found


def judge(values: Mapping[str, float], slow: str | None, by: float) -> list[str]:
    """Measure, print, and return the names of the ratios that stay above their limits."""
    red, found = list(values), dict.fromkeys(values, Shortest())
    tries: dict[str, list[float]] = {name: [] for name in values}
    for _ in range(ATTEMPTS):
        for name, times in measure_apart(red, slow, by).items():
            found[name] = found[name].of_both(times)
            tries[name].append(found[name].ratio())
        red = [name for name in red if tries[name][-1] > MARGIN * values[name]]
        if not red:
            break
    for name, each in tries.items():
        shown = ", then ".join(f"{one:.3f}" for one in each)
        limit = MARGIN * values[name]
        print(f"{name:14}{values[name]:8.3f}  at most {limit:.3f}  measured {shown}")
    return red


def main() -> int:
    """Measure, print and judge; return 1 if a ratio is too high."""
    parser = argparse.ArgumentParser(description="Holds ten ratios of processor time.")
    parser.add_argument("--record", action="store_true", help="write the values")
    parser.add_argument("--slow", metavar="NAME", help="slow this one down, to test the guard")
    parser.add_argument("--by", type=float, default=0.15, help="by so much (0.15)")
    parser.add_argument("--within", nargs="+", metavar="NAME", help="print ratios of this process")
    chosen = parser.parse_args()
    if chosen.within:
        print(json.dumps(measure(chosen.within, chosen.slow, chosen.by)))
        return 0
    if chosen.record:
        found = measure_apart(list(pairs()), None, 0.0)
        values = {name: times.ratio() for name, times in found.items()}
        VALUES.write_text(json.dumps(values, indent=1) + "\n")
        return 0
    red = judge(json.loads(VALUES.read_text()), chosen.slow, chosen.by)
    for name in red:
        print(
            f"{name} is slower than its value in {VALUES.name}: profile it; if the price is worth "
            "paying, record the value and say why in the commit"
        )
    return bool(red)


if __name__ == "__main__":
    sys.exit(main())
