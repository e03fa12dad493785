"""How long runs take as logs grow, in both engines: the figures of docs/how-fast.md.

    python tests/benchmarks/growth.py jobs queues policies partitions large logs sweep
    python tests/benchmarks/growth.py jobs --most 100000 --rounds 1

Every run is a process of its own. *Whole* is the processor time of ``simkit run FILE`` from its
start to its end, with its peak memory, as the operating system counts them; *simulation* is the
processor time of the engine alone, without reading, metrics and files; *kernel* that of compiled
code alone. Shown are medians, of three whole runs and of five simulations, and beside them the time of a loop of a million
additions, so that machines can be compared. `jobs`, of all sizes, also writes what docs/pictures.py draws.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final

import numpy as np
import polars as pl

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from made_logs import PROCESSORS, bursts, long_queue  # noqa: E402

from simkit.workload import Workload  # noqa: E402

PICTURE: Final = ROOT / "docs" / "_static" / "how-fast.json"
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
FCFS: Final = {"order": "fcfs", "backfill": "easy"}
SJF: Final = {"order": "sjf", "backfill": "easy"}
CONSERVATIVE: Final = {"order": "fcfs", "backfill": "conservative"}
POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "FCFS": {"order": "fcfs", "backfill": "none"},
    "FCFS + EASY": FCFS,
    "SJF + EASY": SJF,
    "FCFS + EASY, shortest first": {
        "order": "fcfs", "backfill": {"type": "easy", "order": "sjf"},
    },
    "WFP3 + EASY": {"order": "wfp3", "backfill": "easy"},
    "conservative": CONSERVATIVE,
}  # fmt: skip
FUGAKU_NODES: Final = 158_976
FUGAKU_CORES: Final = 48
LOGS: Final = {
    "SDSC-SP2-1998-4.2": 54_034,
    "SDSC-BLUE-2000-4.2": 232_536,
    "HPC2N-2002-2.2": 202_871,
}
"""Log of the Parallel Workloads Archive → jobs."""
SWEPT: Final = {
    "policy.order": ["fcfs", "sjf", "saf", "wfp3"],
    "workload.load": [0.9, 1.0, 1.1, 1.2],
}
"""What a sweep varies besides the seed."""
SIMPY_MOST: Final = 1_000_000
"""So many jobs are the most that SimPy replays here."""
ONCE_FROM: Final = {"compiled": 10_000_000, "simpy": 100_000}
"""Runs of so many jobs are measured once."""


@dataclass(frozen=True)
class Whole:
    """What a process cost."""

    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True)
class Alone:
    """What a simulation cost without reading, metrics and files."""

    simulation_s: float
    kernel_s: float
    """0 in SimPy."""
    loop_s: float


# ---- measuring -----------------------------------------------------------------------------------


def process(*words: object) -> Whole:
    """Run a command of Python and return what it and the processes that it started cost."""
    command, started = [sys.executable, *map(str, words)], time.perf_counter()
    with (
        TemporaryFile("w+") as told,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told) as child,
    ):
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            told.seek(0)
            raise SystemExit(f"{command} ended with {child.returncode}: {told.read()}")
    wall_s = time.perf_counter() - started
    return Whole(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss * 1024 / 1e6)


def simkit(*words: object) -> Whole:
    """Run a command of simkit."""
    return process("-c", "from simkit.cli import main; main()", *words)


def middle(found: Sequence[Any]) -> Any:
    """Return the median of each field."""
    first = found[0]
    values = {f.name: median(getattr(one, f.name) for one in found) for f in fields(first)}
    return replace(first, **values)


def whole(scenario: Path, engine: str, rounds: int) -> Whole:
    """Measure `simkit run` of a scenario, files and metrics included."""
    with TemporaryDirectory(dir=scenario.parent) as folder:
        options = ("--engine", engine, "--no-progress", "--force", "-o", Path(folder) / "run")
        found: Whole = middle([simkit("run", scenario, *options) for _ in range(rounds)])
    return found


def alone(scenario: Path, engine: str, rounds: int) -> Alone:
    """Measure the simulation of a scenario in a process of its own."""
    command = [sys.executable, __file__, "--alone", str(scenario), engine, str(rounds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Alone(**json.loads(done.stdout))


def simulate_alone(scenario: Path, engine: str, rounds: int) -> Alone:
    """Simulate in this process, after a first time that loads what is needed."""
    from simkit.compiled import replay as compiled
    from simkit.experiment.experiment import prepare
    from simkit.experiment.experiment import replay as played
    from simkit.scenario.yaml_document import load_scenario

    original, kernel_s = compiled._kernel, [0.0]

    def timed(*given: Any, **more: Any) -> Any:
        go_on = original(*given, **more)
        kernel_s.append(0.0)

        def step(timeline: Any) -> bool:
            started = time.process_time()
            done: bool = go_on(timeline)
            kernel_s[-1] += time.process_time() - started
            return done

        return step

    compiled._kernel = timed
    experiment = prepare(load_scenario(scenario, overrides={"engine": engine}))
    assert experiment.engine.name == engine
    found = []
    for _ in range(rounds + (engine == "compiled")):
        started = time.process_time()
        played(experiment, ())
        found.append(Alone(time.process_time() - started, kernel_s[-1], loop()))
    result: Alone = middle(found[-rounds:])
    return result


def loop() -> float:
    """Return the processor time of a million additions."""
    started, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - started


# ---- scenarios -----------------------------------------------------------------------------------


def scenario(
    folder: Path, log: Path, policy: Mapping[str, Any], cluster: object = None, **more: Any
) -> Path:
    """Write a scenario of a log; the cluster is its own unless one is named. JSON is YAML."""
    file = folder / "scenario.yaml"
    sections = {"workload": {"type": "swf", "path": str(log)}, "policy": policy} | more
    file.write_text(json.dumps(sections | ({"cluster": cluster} if cluster else {})))
    return file


def written(folder: Path, name: str, make: Callable[[], pl.DataFrame]) -> Path:
    """Write a table of jobs as a log, unless it is there."""
    from simkit.traces.swf import write_swf

    log = folder / f"{name}.swf"
    if not log.exists():
        write_swf(log, Workload.from_jobs(make()))
    return log


@cache
def columns_mb(log: Path) -> float:
    """Return the size of the columns of a log's workload; a constant one, held once, is nothing."""
    from simkit.traces.swf import read_swf

    workload = read_swf(log).workload
    arrays = [getattr(workload, field.name) for field in fields(workload)]
    return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray) and a.strides[0]) / 1e6


# ---- what is measured ----------------------------------------------------------------------------


def row(title: str, jobs: int, engine: str, file: Path, rounds: int) -> dict[str, Any]:
    """Measure one scenario, print a row of a table, and return its numbers."""
    rounds = 1 if jobs >= ONCE_FROM[engine] else rounds
    run, engine_alone = whole(file, engine, min(rounds, 3)), alone(file, engine, rounds)
    print(
        f"| {title} | {jobs:,} | {engine} | {run.cpu_s:.2f} | {run.wall_s:.2f} | "
        f"{engine_alone.simulation_s:.3f} | {engine_alone.kernel_s:.3f} | {run.peak_mb:,.0f} | "
        f"{jobs / engine_alone.simulation_s:,.0f} | {engine_alone.loop_s:.3f} |",
        flush=True,
    )
    return {"title": title, "jobs": jobs, "engine": engine, **vars(run), **vars(engine_alone)}


def header(title: str) -> None:
    """Print the head of a table."""
    print(f"\n{title}\n\n| what | jobs | engine | whole CPU s | wall s | simulation s | kernel s |"
          " peak MB | jobs/s | loop s |\n|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")  # fmt: skip


def measure_jobs(folder: Path, most: int, rounds: int) -> None:
    """Measure logs of more and more jobs under FCFS and SJF with EASY, in both engines."""
    header("Jobs")
    found = []
    for jobs in (size for size in SIZES if size <= most):
        log = written(folder, f"bursts-{jobs}", lambda jobs=jobs: bursts(jobs, 0.9))
        for title, policy in (("FCFS + EASY", FCFS), ("SJF + EASY", SJF)):
            file = scenario(folder, log, policy, {"processors": 256})
            for engine in ("compiled", "simpy") if jobs <= SIMPY_MOST else ("compiled",):
                found.append(row(title, jobs, engine, file, rounds))
        print(f"columns of the log: {columns_mb(log):.1f} MB", flush=True)
    if most >= SIZES[-1]:
        PICTURE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure_queues(folder: Path, most: int, rounds: int) -> None:
    """Measure a log whose queues grow to tens of thousands."""
    header("Long queues")
    jobs = min(447_784, most)
    log = written(folder, f"long-queue-{jobs}", lambda: long_queue(jobs))
    for engine in ("compiled", "simpy"):
        for title, policy in (("FCFS + EASY", FCFS), ("SJF + EASY", SJF)):
            file = scenario(folder, log, policy, {"processors": PROCESSORS})
            row(title, jobs, engine, file, rounds)


def measure_policies(folder: Path, most: int, rounds: int) -> None:
    """Measure policies on one log."""
    header("Policies")
    for engine, jobs in (("compiled", 100_000), ("simpy", 10_000)):
        number = min(jobs, most)
        log = written(folder, f"bursts-{number}", lambda n=number: bursts(n, 0.9))
        for title, policy in POLICIES.items():
            file = scenario(folder, log, policy, {"processors": 256})
            row(title, number, engine, file, rounds)


def measure_partitions(folder: Path, most: int, rounds: int) -> None:
    """Measure the same jobs on one pool, and on two of half its size."""
    header("Partitions")
    halves = [{"name": f"p{q}", "processors": 128, "queues": [q]} for q in range(2)]
    for engine, jobs in (("compiled", 400_000), ("simpy", 40_000)):
        number = min(jobs, most)
        log = written(folder, f"in-turn-{number}", lambda n=number: bursts(n, 0.8))
        for title, policy in (("FCFS + EASY", FCFS), ("SJF + EASY", SJF)):
            for pools, cluster in (("one", {"processors": 256}), ("two", {"partitions": halves})):
                file = scenario(folder, log, policy, cluster)
                row(f"{title}, {pools} pool{'s' * (pools == 'two')}", number, engine, file, rounds)


def measure_large(folder: Path, most: int, rounds: int) -> None:
    """Measure a machine of the size of Fugaku."""
    header("A large machine")
    jobs, processors = min(1_300_000, most), FUGAKU_NODES * FUGAKU_CORES
    make = lambda: bursts(jobs, 0.9, processors=processors, sizes=13, unit=FUGAKU_CORES)  # noqa: E731
    log = written(folder, f"large-{jobs}", make)
    row("FCFS + EASY", jobs, "compiled", scenario(folder, log, FCFS, {"processors": processors}),
        rounds)  # fmt: skip


def measure_logs(folder: Path, _most: int, rounds: int) -> None:
    """Measure logs of the Parallel Workloads Archive."""
    header("Logs")
    for name, jobs in LOGS.items():
        log = Path(os.environ["SIMKIT_DATA"]) / "swf" / f"{name}-cln.swf.gz"
        for title, policy in (("FCFS + EASY", FCFS), ("conservative", CONSERVATIVE)):
            row(f"{name}, {title}", jobs, "compiled", scenario(folder, log, policy), rounds)


def measure_sweep(folder: Path, _most: int, _rounds: int) -> None:
    """Measure sweeps of few and of many runs of one log on two processes; compute larger ones."""
    name, jobs = next(iter(LOGS.items()))
    log = Path(os.environ["SIMKIT_DATA"]) / "swf" / f"{name}-cln.swf.gz"
    found = {}
    for seeds in (1, 1, 6):  # the first one compiles what is not there yet, and does not count
        swept = SWEPT | {"seed": [*range(seeds)]}
        file = scenario(folder, log, FCFS, estimates={"type": "perturbed"}, sweep=swept)
        runs = int(np.prod([len(values) for values in swept.values()]))
        found[runs] = simkit("sweep", file, "--engine", "compiled", "-j", 2, "--no-progress",
                             "--force", "-o", folder / f"sweep-{seeds}")  # fmt: skip
    for runs, cost in found.items():
        print(f"sweep of {runs} runs of {name} on two processes: {cost}", flush=True)
    (few, least), (many, most) = found.items()
    cpu_s = (most.cpu_s - least.cpu_s) / (many - few)
    fixed_s = most.cpu_s - many * cpu_s
    print(f"processor time: {cpu_s:.3f} s a run, {cpu_s / jobs * 1e6:.2f} µs a job, {fixed_s:.1f} s "
          f"to begin with; loop {loop():.3f} s")  # fmt: skip
    print(f"computed, on two idle cores: 1,000 runs {(fixed_s + 1000 * cpu_s) / 2 / 60:.1f} min, "
          f"10^9 jobs {cpu_s / jobs * 1e9 / 2 / 60:.0f} min")  # fmt: skip


MEASURES: Final = {
    "jobs": measure_jobs,
    "queues": measure_queues,
    "policies": measure_policies,
    "partitions": measure_partitions,
    "large": measure_large,
    "logs": measure_logs,
    "sweep": measure_sweep,
}


def main() -> None:
    """Measure what is asked for and print tables in Markdown."""
    if sys.argv[1:2] == ["--alone"]:
        file, engine, rounds = sys.argv[2:]
        print(json.dumps(vars(simulate_alone(Path(file), engine, int(rounds)))))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="+", choices=MEASURES)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="jobs of a log at most")
    parser.add_argument("--rounds", type=int, default=5, help="shown are medians of so many")
    parser.add_argument("--folder", type=Path, help="where logs are kept; default: a temporary one")
    given = parser.parse_args()
    print(f"a million additions: {loop():.3f} s")
    with TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in given.what:
            MEASURES[name](folder, given.most, given.rounds)


if __name__ == "__main__":
    main()
