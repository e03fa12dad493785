"""Plays candidates on weeks of a log: its recorded starts up to the week, the candidate from then.

So each week begins as it did: with the jobs that ran, and those that waited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final

import numpy as np

from simkit.experiment import prepare, replay
from simkit.experiment.calibration.weeks import Found, Split, Week, judged
from simkit.experiment.workers import Workers
from simkit.experiment.workload import TraceMemory, read_trace
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.workload import Trace, Workload

_MEMORY: Final = TraceMemory()
"""The log, read once in each process."""
RECORDED: Final[dict[str, Any]] = {"recorded": {"unknown": "fit"}}
"""The policy of the warm-up; jobs whose start is unknown run as they fit."""


def recorded_trace(scenario: Scenario) -> Trace:
    """Return the log of a scenario with its recorded starts; see `read_trace`."""
    resources = scenario.cluster.resources
    return read_trace(
        scenario.workload, scenario.seed, scenario.value, _MEMORY, resources, recorded=True
    )


def play(
    base: Mapping[str, Any], overrides: Mapping[str, Any], split: Split, weeks: Sequence[Week]
) -> list[Found]:
    """Return what a candidate makes of the jobs of each week.

    Args:
        base: a scenario as plain values.
        overrides: the candidate's, laid over it.
        split: how the weeks were made.
        weeks: on the trace's clock.
    """
    scenario = load_scenario(base, overrides=overrides)
    workload = recorded_trace(scenario).workload
    return [_played(scenario, workload, split, week) for week in weeks]


def _played(scenario: Scenario, workload: Workload, split: Split, week: Week) -> Found:
    rows = split.jobs_around(workload, week)
    load = workload.take(rows)
    load = load.with_columns(job_id=np.arange(len(load)))  # those of the log may repeat
    begin_s = week.begin_s - float(load.submit_time_s[0])
    policy = scenario.model_dump(mode="json")["policy"]
    if begin_s > 0 and "recorded" not in policy:
        policy = {"start": RECORDED, "switch": [{"at": begin_s, "to": policy}]}
    one = load_scenario({**scenario.model_dump(mode="json"), "policy": policy})
    run = replay(prepare(one, workload=load), ("jobs",))
    jobs = run.jobs.select("job_id", "start_time_s")
    start = np.full(len(load), np.nan)
    start[jobs["job_id"].to_numpy()] = jobs["start_time_s"].cast(float).fill_null(np.nan).to_numpy()
    submit, first = load.submit_time_s, load.first_task[:-1]
    inside = (submit >= week.begin_s) & (submit < week.end_s)
    return judged(submit[inside], load.recorded_start_s[first][inside], start[inside])


Task = tuple[Mapping[str, Any], Mapping[str, Any], Split, Sequence[Week]]
"""The arguments of `play`."""


def play_all(tasks: Sequence[Task], workers: int, told: Callable[[int], None]) -> list[list[Found]]:
    """Return what `play` finds for each task, in several processes; `told` hears of each."""
    if min(workers, len(tasks)) < 2:
        done = []
        for row, task in enumerate(tasks):
            done.append(play(*task))
            told(row)
        return done
    with Workers(min(workers, len(tasks)), grace_s=0.0) as pool:
        running: dict[Future[list[Found]], int] = {}
        found: dict[int, list[Found]] = {}
        for row, task in _fed(tasks, running, workers, found, told):
            running[pool.submit(play, *task)] = row
    return [found[row] for row in range(len(tasks))]


def _fed(
    tasks: Sequence[Task],
    running: dict[Future[list[Found]], int],
    workers: int,
    found: dict[int, list[Found]],
    told: Callable[[int], None],
) -> Iterator[tuple[int, Task]]:
    """Yield a task whenever a worker is free, and take what the others have found."""
    waiting = list(enumerate(tasks))[::-1]
    while waiting or running:
        while waiting and len(running) < workers:
            yield waiting.pop()
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            row = running.pop(future)
            found[row] = future.result()
            told(row)
