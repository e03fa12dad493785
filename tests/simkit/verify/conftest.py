"""Good run folders, made without the engine: a small reference scheduler and writer of records.

A `World` is a run in memory. Tests change one thing in it and check which rule is violated.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import polars as pl
import pytest
from pydantic import ValidationError
from run_records import with_cells

from simkit.results.all_metrics import compute_metrics
from simkit.results.run_folder import MemoryRun
from simkit.results.run_writer import TABLES, RunDigest
from simkit.scenario import Scenario, portable_form, scenario_hash
from simkit.verify import verify_run
from simkit.verify.audit import Audit


class Task(NamedTuple):
    """A task of a job; `request` is what one instance asks for."""

    task_id: int
    instances: int
    run: float
    gang: bool = True
    request: Mapping[str, float] = {"processors": 1.0}
    parents: tuple[int, ...] = ()
    mean: float | None = None
    """Mean run time of the instances of a bag, if they differ."""


class Job(NamedTuple):
    job_id: int
    submit: float
    tasks: tuple[Task, ...]
    requested: float
    queue: int = -1
    status: str = "finished"
    reason: str = ""
    estimate: float | None = None


class Segment(NamedTuple):
    """An allocation from start to end."""

    job_id: int
    task_id: int
    machine: int
    first: int
    count: int
    start: float
    end: float | None
    outcome: str = "finished"
    attempt: int = 1


def rigid(job_id: int, submit: float, run: float, size: int, requested: float) -> Job:
    """A job of one gang, as a log of rigid jobs has it."""
    return Job(job_id, float(submit), (Task(0, size, float(run)),), float(requested))


def schedule(
    jobs: Sequence[Job], machines: Sequence[int], *, easy: bool = True, kill: bool = False
) -> list[Segment]:
    """FCFS, with EASY or without, of rigid jobs on machines of so many processors; first fit."""
    free, queue, running = list(machines), [], []  # running: (expected end, rank, end, places)
    waiting = sorted(jobs, key=lambda job: (job.submit, job.job_id))
    done: list[Segment] = []

    def start(job: Job, now: float) -> None:
        (task,), first = job.tasks, 0
        late = kill and job.requested < task.run
        end = now + (job.requested if late else task.run)
        places = []
        for machine, room in enumerate(free):
            if count := min(room, task.instances - first):
                places.append((machine, count))
                outcome = "killed" if late else "finished"
                done.append(Segment(job.job_id, 0, machine, first, count, now, end, outcome))
                free[machine] -= count
                first += count
        running.append((now + job.requested, len(done), end, places))

    def decide(now: float) -> None:
        while queue and queue[0].tasks[0].instances <= sum(free):
            start(queue.pop(0), now)
        if not (easy and queue):
            return
        need, room, shadow = queue[0].tasks[0].instances, sum(free), None
        for expected, count in sorted((max(e[0], now), sum(c for _, c in e[3])) for e in running):
            if shadow is not None and expected > shadow:
                break  # every release of the shadow instant counts
            room += count
            shadow = expected if shadow is None and room >= need else shadow
        extra = room - need
        for job in queue[1:]:
            size, in_time = job.tasks[0].instances, now + job.requested <= shadow
            if size <= sum(free) and (in_time or size <= extra):
                extra -= 0 if in_time else size
                queue.remove(job)
                start(job, now)

    while waiting or running:
        now = min([e[2] for e in running] + [job.submit for job in waiting[:1]])
        for entry in [e for e in running if e[2] == now]:
            running.remove(entry)
            for machine, count in entry[3]:
                free[machine] += count
        while waiting and waiting[0].submit == now:
            queue.append(waiting.pop(0))
        decide(now)
    return done


@dataclass
class World:
    """A run in memory, consistent when it is made."""

    manifest: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    metrics: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    """Input files, by name."""

    def cell(self, table: str, row: int, column: str) -> Any:
        return self.tables[table][column][row]

    def set(self, table: str, row: int, **values: Any) -> None:
        """Change some columns of a row; a function gets the old value."""
        self.tables[table] = with_cells(self.tables[table], row, **values)

    def drop(self, table: str, row: int) -> None:
        frame = self.tables[table].with_row_index("nth")
        self.tables[table] = frame.filter(pl.col("nth") != row).drop("nth")

    def append(self, table: str, rows: pl.DataFrame) -> None:
        self.tables[table] = pl.concat([self.tables[table], rows])

    def row_of(self, table: str, **wanted: Any) -> int:
        """Return the number of the first row with these values."""
        frame = self.tables[table].with_row_index("nth")
        found = frame.filter(*(pl.col(name) == value for name, value in wanted.items()))
        return int(found["nth"][0])

    def save(self, folder: Path, *, digest: bool = True, inputs: bool = True) -> Path:
        """Write the run folder, with the inputs' and the run's digests brought up to date."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            if "$" not in name:  # else a file that the test has put in its place
                (folder / name).write_bytes(content)
        manifest = dict(self.manifest)
        if inputs:
            manifest["inputs"] = [
                {"path": name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
                for name, data in self.files.items()
            ]
            sums = {entry["path"]: entry["sha256"] for entry in manifest["inputs"]}
            if manifest["scenario"] is not None:
                manifest |= both_forms(manifest["scenario"], sums)
        if digest:
            made = RunDigest()
            for name in filter(self.tables.__contains__, TABLES):
                made.update(name, self.tables[name])
            manifest["digest"] = made.finish(self.metrics, manifest.get("portable_scenario", {}))
        for name, table in self.tables.items():
            table.write_parquet(folder / f"{name}.parquet")
        (folder / "run.json").write_text(json.dumps(manifest))
        (folder / "metrics.json").write_text(json.dumps(self.metrics, indent=1))
        self.manifest = manifest
        return folder

    def audit(self, folder: Path, *, digest: bool = True, inputs: bool = True) -> Audit:
        """Save the run and audit it."""
        return verify_run(self.save(folder, digest=digest, inputs=inputs))


def both_forms(scenario: Any, sums: Mapping[str, str]) -> dict[str, Any]:
    """The scenario in its normal form, its hash, and its portable form; as it is if it is none."""
    try:
        made = Scenario.model_validate(scenario)
    except ValidationError:
        return {"scenario_sha256": "", "portable_scenario": {}}
    return {
        "scenario": made.model_dump(mode="json"),
        "scenario_sha256": scenario_hash(made),
        "portable_scenario": portable_form(made, sums),
    }


def build(
    jobs: Sequence[Job],
    segments: Sequence[Segment],
    capacity: Sequence[Mapping[str, float]],
    *,
    events: Iterable[tuple[float, str, int | None, str]] = (),
    partitions: Sequence[Mapping[str, Any]] = (),
    **scenario: Any,
) -> World:
    """Return the run in which `segments` happened.

    `events` are (time, kind, machine, detail), without those of jobs.
    """
    events = list(events)
    resources = sorted({name for machine in capacity for name in machine})
    segments = sorted(segments, key=lambda s: float("inf") if s.end is None else s.end)
    jobs = sorted(jobs, key=lambda job: _listed(job, segments))
    told = [*events, *_events(jobs, segments)]
    rows = [_job_row(job, segments, resources) for job in jobs]
    tables = {
        "jobs": pl.DataFrame(rows, schema=_job_schema(resources), orient="row"),
        "tasks": _tasks(jobs, segments, resources),
        "allocations": pl.DataFrame(
            [
                (s.job_id, s.task_id, s.machine, s.first, s.count, s.attempt, s.start, s.end,
                 s.outcome)
                for s in segments
            ],
            schema={
                **dict.fromkeys(
                    ("job_id", "task_id", "machine_id", "first_instance", "count", "attempt"),
                    pl.Int64,
                ),
                "start_time_s": pl.Float64, "end_time_s": pl.Float64, "outcome": pl.String,
            },
            orient="row",
        ),
        "events": pl.DataFrame(
            sorted(
                (e if len(e) == 6 else (e[0], e[1], None, None, e[2], e[3]) for e in told),
                key=lambda e: e[0],
            ),
            schema={
                "time_s": pl.Float64, "kind": pl.String, "job_id": pl.Int64,
                "task_id": pl.Int64, "machine_id": pl.Int64, "detail": pl.String,
            },
            orient="row",
        ),
    }  # fmt: skip
    slots = scenario.get("admission", {}).get("slots")
    shown = pl.min_horizontal("waiting", pl.lit(slots))
    tables["timeline"] = _timeline(jobs, segments, capacity, resources, list(events)).with_columns(
        waiting=shown, backlog=pl.col("waiting") - shown
    )
    manifest = {
        "format": 1,
        "status": "complete",
        "error": "",
        "name": "world",
        "scenario": {
            "name": "world",
            "seed": 0,
            "workload": {"type": "uniform", "jobs": 1, "processors": 1, "offered_load": 0.5},
            "cluster": {},
            "policy": {"order": "fcfs", "backfill": "easy", "placement": "first-fit"},
            "estimates": "requested",
            "walltime": "ignore",
            "admission": {"slots": None, "backlog": None, "refill": "at_once"},
            "scheduling": {"every": None},
            "metrics": {"tau": 10.0, "warmup": 0.0, "cooldown": 0.0},
        }
        | scenario,
        "inputs": [],
        "trace": {"read": len(jobs), "accepted": len(jobs), "repaired": {}, "dropped": {},
                  "notes": {}},
        "tables": {},
        "epoch_s": None,
        "time_zone": None,
        "seed": 0,
        "jobs": len(jobs),
        "cluster": {
            "resources": resources,
            "machines": [
                {"id": i, "name": f"m{i}", "capacity": dict(c)} for i, c in enumerate(capacity)
            ],
            "partitions": list(partitions),
        },
        "digest": None,
    }  # fmt: skip
    return World(manifest, tables, metrics_of(manifest, tables))


def _listed(job: Job, segments: Sequence[Segment]) -> tuple[float, int]:
    """Where a job's row stands: its end, then the number of its last allocation."""
    mine = [n for n, s in enumerate(segments) if s.job_id == job.job_id]
    if job.status == "rejected":
        return job.submit, -1
    over = job.status in ("finished", "killed") and mine
    return (segments[mine[-1]].end if over else float("inf")), mine[-1] if mine else job.job_id


def _events(jobs: Sequence[Job], segments: Sequence[Segment]) -> list[tuple[Any, ...]]:
    """What is told of jobs: rejected, suspended, resumed, lost; gangs once, bags row by row."""
    gangs = {(j.job_id, t.task_id): t.gang for j in jobs for t in j.tasks}
    told: dict[tuple[Any, ...], int] = {}
    for s in segments:
        key = (s.job_id, s.task_id, None)
        mine = [x for x in segments if (x.job_id, x.task_id) == key[:2]]
        before = [x for x in mine if x.attempt == s.attempt and x.first == s.first]
        if s.outcome == "suspended":
            work = sum(x.end - x.start for x in before if x.end is not None and x.end <= s.end)
            told[s.end, "suspended", *key, f"{work:.10g} s of work kept"] = 1
        if any(x.start < s.start for x in before):
            told[s.start, "resumed", *key, ""] = 1
        if s.outcome == "lost" and (not gangs[key[:2]] or s.first == 0):
            told[s.end, "lost", *key, s.first] = (
                s.count
                if not gangs[key[:2]]
                else sum(x.count for x in mine if (x.end, x.outcome) == (s.end, "lost"))
            )
    return [
        (j.submit, "rejected", j.job_id, None, None, j.reason)
        for j in jobs if j.status == "rejected"
    ] + [
        (*e[:5], f"{n} instances start over") if e[1] == "lost" else e for e, n in told.items()
    ]  # fmt: skip


def _job_schema(resources: Sequence[str]) -> dict[str, Any]:
    floats = (
        "submit_time_s", "start_time_s", "end_time_s", "wait_time_s", "turnaround_time_s",
        "run_time_s", "ideal_time_s", "requested_time_s", "estimate_s", "trace_run_time_s", "suspended_time_s",
        "lost_time_s",
    )  # fmt: skip
    numbers = ("job_id", "user", "group", "executable", "queue", "partition")
    return (
        dict.fromkeys(numbers, pl.Int64)
        | dict.fromkeys(floats, pl.Float64)
        | {"attempts": pl.Int64, "status": pl.String, "reason": pl.String}
        | dict.fromkeys(resources, pl.Float64)
    )


def _job_row(job: Job, segments: Sequence[Segment], resources: Sequence[str]) -> tuple[Any, ...]:
    mine = sorted((s for s in segments if s.job_id == job.job_id), key=lambda s: s.start)
    start = mine[0].start if mine else None
    over = job.status in ("finished", "killed")
    end = max(s.end for s in mine) if over and mine else None
    last = max((s.attempt for s in mine), default=0)
    turns = sorted({(s.attempt, s.start, s.end) for s in mine if s.task_id == mine[0].task_id})
    ideal = None if end is None else _ideal(job, mine)
    gaps = [b[1] - a[2] for a, b in itertools.pairwise(turns) if a[0] == b[0]]
    return (
        job.job_id, -1, -1, -1, job.queue, -1, job.submit, start, end,
        None if start is None else start - job.submit,
        None if end is None else end - job.submit,
        None if end is None else end - start if ideal is not None else
        sum(e - s for a, s, e in turns if a == last),
        ideal,
        job.requested,
        job.requested if job.estimate is None else job.estimate,
        max(task.run for task in job.tasks),
        float(sum(gaps)),
        float(sum(e - s for a, s, e in turns if a < last and e is not None)),
        last, job.status, job.reason,
        *(float(sum(t.instances * t.request.get(r, 0.0) for t in job.tasks)) for r in resources),
    )  # fmt: skip


def _ideal(job: Job, segments: Sequence[Segment]) -> float | None:
    """The critical path of a job of several tasks or instances: each task after its parents."""
    if len(job.tasks) == 1 and (job.tasks[0].gang or job.tasks[0].instances == 1):
        return None
    paths: dict[int, float] = {}
    for task in job.tasks:  # parents come first
        turns: dict[tuple[int, int], float] = {}
        for s in segments:
            if s.task_id == task.task_id and s.outcome != "lost" and s.end is not None:
                for unit in {0} if task.gang else range(s.first, s.first + s.count):
                    turns[unit, s.attempt] = turns.get((unit, s.attempt), 0.0) + s.end - s.start
        before = max((paths[parent] for parent in task.parents), default=0.0)
        paths[task.task_id] = before + max(turns.values(), default=0.0)
    return max(paths.values())


def _ready(job: Job, task: Task, segments: Sequence[Segment]) -> float | None:
    """When a task could start; its parents have all finished."""
    if job.status == "rejected":
        return None
    above = [s.end for s in segments if s.job_id == job.job_id and s.task_id in task.parents]
    return max((end for end in above if end is not None), default=job.submit)


def _tasks(
    jobs: Sequence[Job], segments: Sequence[Segment], resources: Sequence[str]
) -> pl.DataFrame:
    rows = []
    last = {(s.job_id, s.task_id): n for n, s in enumerate(segments)}
    every = [(job, task) for job in jobs for task in job.tasks]
    for job, task in sorted(every, key=lambda e: _task_listed(*e, segments, last)):
        for mine in [[s for s in segments if (s.job_id, s.task_id) == (job.job_id, task.task_id)]]:
            over = job.status in ("finished", "killed") and mine
            rows.append((
                job.job_id, task.task_id, task.instances, task.gang, _ready(job, task, segments),
                min((s.start for s in mine), default=None),
                max(s.end for s in mine) if over else None,
                task.run if task.mean is None else task.mean, job.status,
                *(float(task.request.get(r, 0.0)) for r in resources),
            ))  # fmt: skip
    schema = {
        "job_id": pl.Int64, "task_id": pl.Int64, "instances": pl.Int64, "gang": pl.Boolean,
        "ready_time_s": pl.Float64, "start_time_s": pl.Float64, "end_time_s": pl.Float64,
        "trace_run_time_s": pl.Float64, "status": pl.String,
        **dict.fromkeys(resources, pl.Float64),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def _task_listed(
    job: Job, task: Task, segments: Sequence[Segment], last: Mapping[tuple[int, int], int]
) -> tuple[float, int]:
    if job.status == "rejected":
        return job.submit, -1
    row = last.get((job.job_id, task.task_id), -1)
    over = job.status in ("finished", "killed") and row >= 0
    return (segments[row].end if over else float("inf")), row


def _timeline(
    jobs: Sequence[Job],
    segments: Sequence[Segment],
    capacity: Sequence[Mapping[str, float]],
    resources: Sequence[str],
    events: Sequence[tuple[float, str, int | None, str]],
) -> pl.DataFrame:
    request = {(j.job_id, t.task_id): t.request for j in jobs for t in j.tasks}
    instants = {j.submit for j in jobs} | {s.start for s in segments}
    instants |= {s.end for s in segments if s.end is not None} | {event[0] for event in events}
    rows, now_there = [], [dict(machine) for machine in capacity]
    for now in sorted(instants):
        for time, kind, machine, detail in events:
            if time == now and kind == "capacity" and machine is not None:
                now_there[machine] |= json.loads(detail)["capacity"]
        held = [s for s in segments if s.start <= now and (s.end is None or now < s.end)]
        used = [
            sum(s.count * request[s.job_id, s.task_id].get(r, 0.0) for s in held) for r in resources
        ]
        there = [sum(machine.get(r, 0.0) for machine in now_there) for r in resources]
        gangs = {(j.job_id, t.task_id) for j in jobs for t in j.tasks if t.gang}
        alone = sum((s.job_id, s.task_id) not in gangs for s in held)
        tasks = alone + len({(s.job_id, s.task_id) for s in held} & gangs)
        waiting = sum(
            _waits(job, task, segments, now)
            for job in jobs for task in job.tasks
        )  # fmt: skip
        rows.append((now, waiting, 0, tasks, *map(float, used), *map(float, there)))
    columns = [f"{kind}_{r}" for kind in ("allocated", "capacity") for r in resources]
    counts = dict.fromkeys(("waiting", "backlog", "running"), pl.Int64)
    schema = {"time_s": pl.Float64, **counts, **dict.fromkeys(columns, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _waits(job: Job, task: Task, segments: Sequence[Segment], now: float) -> bool:
    """Whether an instance of the task has not been placed, or has to start over."""
    ready = _ready(job, task, segments)
    if job.status == "rejected" or ready is None or now < ready:
        return False
    mine = [s for s in segments if (s.job_id, s.task_id) == (job.job_id, task.task_id)]
    if job.status == "killed" and all(s.end is not None and s.end <= now for s in mine):
        return False
    begun = {(s.first, s.count, s.attempt) for s in mine if s.start <= now}
    lost = sum(s.count for s in mine if s.outcome == "lost" and s.end <= now)
    return task.instances > sum(count for _, count, _ in begun) - lost


def metrics_of(manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """The metrics as the engine computes them from the tables."""
    settings = manifest["scenario"]["metrics"]
    return compute_metrics(MemoryRun(dict(manifest), tables), **settings)


def with_utilisation(world: World) -> World:
    """Compute the metrics again, of the tables as they are now."""
    world.metrics = metrics_of(world.manifest, world.tables)
    return world


def swf_of(jobs: Sequence[Job]) -> bytes:
    """The jobs as a log, with two lines that the rules leave out."""
    lines = ["; UnixStartTime: 0", "; MaxProcs: 8"]
    rows = [(j.job_id, j.submit, j.tasks[0].run, j.tasks[0].instances, j.requested) for j in jobs]
    rows += [(901, 3, -1, 2, 60), (902, 4, 50, -1, 60)]
    for number, submit, run, size, requested in rows:
        lines.append(
            f"{number} {submit:.17g} -1 {run:.17g} {size} -1 -1 {size} {requested:.17g} -1 1 "
            "-1 -1 -1 -1 -1 -1 -1"
        )
    return "\n".join((*lines, "")).encode()


def replayed(
    jobs: Sequence[Job], machines: Sequence[int], *, easy: bool = True, kill: bool = False
) -> World:
    """Return the run of a log of rigid jobs under the reference scheduler."""
    segments = schedule(jobs, machines, easy=easy, kill=kill)
    stopped = {s.job_id for s in segments if s.outcome == "killed"}
    jobs = [
        j._replace(status="killed", reason="requested time is over") if j.job_id in stopped else j
        for j in jobs
    ]
    world = build(
        jobs, segments, [{"processors": float(m)} for m in machines],
        workload={"type": "swf", "path": "log.swf", "load": 1.0, "window": None},
        policy={"order": "fcfs", "backfill": "easy" if easy else "none"},
        walltime="kill" if kill else "ignore",
    )  # fmt: skip
    world.files["log.swf"] = swf_of(jobs)
    world.manifest["trace"] |= {"read": len(jobs) + 2, "dropped": {"rules": 2}}
    return with_utilisation(world)


def rescheduled(
    jobs: Sequence[tuple[float, ...]], starts: Sequence[float], backfill: str, **scenario: Any
) -> World:
    """Return the run of a pool of 8 in which jobs (submit, run, size, requested) start then."""
    made = [rigid(n, *row) for n, row in enumerate(jobs, 1)]
    segments = [
        Segment(j.job_id, 0, 0, 0, j.tasks[0].instances, float(s), s + j.tasks[0].run)
        for j, s in zip(made, starts, strict=True)
    ]
    policy = {"order": "fcfs", "backfill": backfill}
    return with_utilisation(build(made, segments, [{"processors": 8.0}], policy=policy, **scenario))


@pytest.fixture(scope="session")
def kit() -> ModuleType:
    """This file, for tests that make runs of their own."""
    return sys.modules[__name__]


@pytest.fixture(scope="session")
def plain_jobs() -> list[Job]:
    """Eight processors: a blocked head, jobs backfilled by both conditions, ties, early ends."""
    return [
        rigid(1, 0, 100, 5, 100),
        rigid(2, 1, 50, 6, 60),  # blocked until 100: the head
        rigid(3, 2, 80, 3, 90),  # backfilled: ends before the shadow time
        rigid(4, 3, 30, 4, 40),
        rigid(5, 60, 200, 2, 300),  # backfilled at 82: two extra processors
        rigid(6, 61, 10, 1, 10),
        rigid(7, 61, 10, 8, 20),  # needs the whole machine
        rigid(8, 62, 5, 1, 5),
        rigid(9, 400, 20, 8, 20),
    ]


@pytest.fixture
def good(plain_jobs: list[Job]) -> World:
    return replayed(plain_jobs, [8])
