"""Episodes: replays of a scenario, one after another, each with its own seed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from simkit.agent.reward import Reward, WeightedRewards, earned
from simkit.arrays import Floats, Ints, stream
from simkit.engine.recorder import Recorder, Status
from simkit.engine.simulation import Simulation
from simkit.errors import (
    LimitError,
    PluginError,
    RunError,
    ScenarioError,
    SimkitError,
)
from simkit.experiment import Experiment, prepare
from simkit.experiment.policy import build_predictor
from simkit.experiment.workload import read_trace
from simkit.gym.windows import EpisodeWindows, LogWindows, goes_by_the_clock, restarted
from simkit.plugins import author_traceback
from simkit.policy import Action, State, SystemInfo
from simkit.records import TableSink
from simkit.results.all_metrics import compute_metrics
from simkit.results.run_folder import Run
from simkit.results.run_info import first_info
from simkit.results.run_writer import MemoryWriter
from simkit.scenario import Scenario
from simkit.scenario.workload import WorkloadSource
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.cluster import fill_whole_memory

_WIDTH, _STATUS, _IDEAL = 11, 8, 10
"""Numbers in a row of `Recorder.jobs`, and which of them are the status and the ideal time."""
Loss = Literal["killed", "rejected"]
"""An end of a job that can be counted while a run goes on."""
_LOSSES = {"killed": float(Status.KILLED), "rejected": float(Status.REJECTED)}


class Nowhere:
    """Takes tables and forgets them."""

    def write(self, table: str, rows: Any) -> None:
        """Do nothing."""


class EpisodeRecorder(Recorder):
    """Sums jobs up as their rows come; passes the rows on to a sink, or drops them without one."""

    def __init__(
        self,
        workload: Workload,
        resources: tuple[str, ...],
        sink: TableSink | None = None,
        losses: Collection[Loss] = (),
    ) -> None:
        super().__init__(workload, resources, Nowhere() if sink is None else sink)
        self._losses = frozenset(_LOSSES[name] for name in losses)
        self._drops = sink is None
        self.keeps_timeline = not self._drops
        self._submit_time_s, self._of = workload.submit_time_s, len(workload)
        self._summed = 0  # numbers of `jobs` that are in the sums
        self._seen = 0  # how many of `jobs` `lost` has read
        self._lost = 0
        self._counts = np.zeros(len(Status), np.int64)
        self._sums = np.zeros(3)  # of slowdowns, turnaround times and wait times
        self._with_slowdown = 0
        self._last_end_s = -np.inf

    def lost(self) -> int:
        """Return how many jobs have ended in one of the `losses` so far."""
        if len(self.jobs) > self._seen:
            statuses = self.jobs[self._seen + _STATUS :: _WIDTH]
            self._seen = len(self.jobs)
            self._lost += sum(status in self._losses for status in statuses)
        return self._lost

    def change_capacity(self, capacity: list[float]) -> None:
        if self._drops:
            self.capacity = capacity
        else:
            super().change_capacity(capacity)

    def flush(self) -> None:
        self._sum_up()
        if self._drops:
            self._drop()
        else:
            super().flush()
        self._summed = self._seen = len(self.jobs)

    def close(self) -> None:
        self._sum_up()
        if self._drops:
            self._drop()
        else:
            super().close()
        self._summed = self._seen = 0

    def _drop(self) -> None:
        for rows in (
            self.simple, self.jobs, self.tasks, self.allocations, self.pieces, self.timeline,
            self.events,
        ):  # fmt: skip
            del rows[:]

    def _sum_up(self) -> None:
        """Add the rows that have come since the last call."""
        if self.simple:  # jobs of a single task that finished without incident
            task, _, start, end, _ = np.array(self.simple).reshape(-1, 5).T
            row = task.astype(np.int64)
            self._counts[Status.FINISHED] += len(row)
            self._add(self._job_of(row), start, end, self._longest_task_s[row])
        if len(self.jobs) > self._summed:
            self.lost()
            table = np.array(self.jobs[self._summed :]).reshape(-1, _WIDTH)
            self._counts += np.bincount(table[:, _STATUS].astype(np.int64), minlength=len(Status))
            ended = table[table[:, _STATUS] == Status.FINISHED]
            if len(ended):
                job, start, end, run = ended[:, :4].T
                ideal = ended[:, _IDEAL]
                run = np.where(np.isnan(ideal), run, ideal)
                self._add(job.astype(np.int64), start, end, run)

    def _add(self, job: Ints, start: Floats, end: Floats, run: Floats) -> None:
        """Add (J,) finished jobs: rows of the workload, and times."""
        submit = self._submit_time_s[job]
        turnaround, took = end - submit, run > 0
        slowdowns = turnaround / run if took.all() else turnaround[took] / run[took]
        self._sums += (slowdowns.sum(), turnaround.sum(), (start - submit).sum())
        self._with_slowdown += len(slowdowns)
        self._last_end_s = max(self._last_end_s, float(end.max()))

    def summary(self) -> dict[str, float]:
        """Return counts and means over the jobs of a closed run.

        Counts: ``jobs`` of the workload; of these ``finished``, ``killed``, ``rejected``, and
        ``unfinished``: all that did not finish, also those that run, wait or are not submitted yet.
        Means over finished jobs: ``slowdown`` (turnaround / run time, or ideal time of a job of
        several tasks or instances; of jobs where that is above 0), ``turnaround_time_s`` and
        ``wait_time_s``. ``makespan_s`` is the last end of a finished job minus the first
        submission. NaN if no job finished.
        """
        finished = int(self._counts[Status.FINISHED])
        slowdown, turnaround, wait = self._sums.tolist()
        first = float(self._submit_time_s[0]) if self._of else 0.0
        return {
            "jobs": self._of,
            "finished": finished,
            "killed": int(self._counts[Status.KILLED]),
            "rejected": int(self._counts[Status.REJECTED]),
            "unfinished": self._of - finished,
            "slowdown": slowdown / self._with_slowdown if self._with_slowdown else np.nan,
            "turnaround_time_s": turnaround / finished if finished else np.nan,
            "wait_time_s": wait / finished if finished else np.nan,
            "makespan_s": float(self._last_end_s) - first if finished else np.nan,
        }


class NoPolicy:
    """A policy that does nothing: the caller of `Episode` decides."""

    def reset(self, info: SystemInfo, rng: object) -> None:
        """Do nothing."""

    def schedule(self, state: State) -> Iterable[Action]:
        """Return no action."""
        return ()


class Episode:
    """One replay that the caller drives: time goes on when `advance` is called."""

    def __init__(
        self,
        experiment: Experiment,
        reward: Reward,
        *,
        records: bool = False,
        losses: Collection[Loss] = (),
    ) -> None:
        """Build the system; the first decision is reached by `advance`.

        Args:
            experiment: what is replayed; its policy is ignored.
            reward: is reset.
            records: whether to keep the tables of records, in memory.
            losses: the ends of jobs that `lost` counts.

        Raises ScenarioError if the reward or the cluster does not suit the workload.
        """
        load, cluster = experiment.trace.workload, experiment.cluster
        self._store: MemoryWriter | None = None
        if records:
            info = first_info(experiment.scenario, experiment.trace, cluster, experiment.site)
            self._store = MemoryWriter(info)
        self._recorder = EpisodeRecorder(load, cluster.resources, self._store, losses)
        self._simulation = Simulation(
            load, cluster, self._recorder, predictor=experiment.predictor, site=experiment.site,
            rules=experiment.scenario, correction=experiment.scenario.estimates.correction,
            seed=experiment.scenario.seed,
            observer=reward, processes=experiment.build_processes(),
        )  # fmt: skip
        self.state: State = self._simulation.state
        """The system as a policy sees it."""
        self._experiment, self._reward = experiment, reward
        try:
            reward.begin(load, self._simulation.info)
        except Exception as error:
            self._blame(error)
            raise
        self._jobs = len(load)
        submitted = load.submit_time_s
        self.begin_s, self.span_s = float(submitted[0]), float(submitted[-1] - submitted[0])
        """The first submission on the trace's clock, and the time from it to the last, in s."""
        self._decisions = self._simulation.decisions()
        self._closed = False
        self.out_of_time = False
        """Whether `limits.simulated_time` has cut the episode off."""

    @property
    def now(self) -> float:
        """Seconds on the trace's clock."""
        return self._simulation.now

    def advance(self) -> bool:
        """Let time go on to the next decision; False: the episode is over.

        That is: every job has ended (the replay then runs to its end), nothing more will happen, or
        the simulated time is over.
        """
        try:
            for _ in self._decisions:
                if self._simulation.jobs_ended < self._jobs:
                    return True
        except LimitError:
            self.out_of_time = self._simulation.out_of_time
            self.close()
            if not self.out_of_time:
                raise
        except Exception as error:
            self._blame(error)
            raise
        self._closed = True
        return False

    def apply(self, action: Action) -> None:
        """Place a task, or the like; raises PolicyError, and changes nothing, if it is illegal."""
        try:
            self._simulation.apply(action)
        except Exception as error:
            self._blame(error)
            raise

    def collect(self) -> float:
        """Return the reward for the time since the last call.

        Raises PluginError if a reward of somebody's own fails, or returns no finite number.
        """
        try:
            return earned(self._reward, self._simulation.now)
        except Exception as error:
            self._blame(error)
            raise

    def _blame(self, error: Exception) -> None:
        """Raise PluginError, with its line, for an error of the author of a reward."""
        if isinstance(error, SimkitError):
            return
        rewards = self._reward.parts if isinstance(self._reward, WeightedRewards) else ()
        for reward in (*rewards, self._reward):
            what = f"reward {type(reward).__name__} failed at {self._simulation.now:g} s"
            if text := author_traceback(error, reward, what):
                raise PluginError(text) from error

    def lost(self) -> int:
        """Return how many jobs have ended in one of the `losses` so far."""
        return self._recorder.lost()

    def close(self) -> None:
        """End the run where it is."""
        if not self._closed:
            self._closed = True
            self._simulation.close()

    def summary(self) -> dict[str, float]:
        """Return counts and means over the jobs; see `EpisodeRecorder.summary`."""
        return self._recorder.summary()

    def run_metrics(self) -> dict[str, float]:
        """Return the metrics of a closed episode's run, as `simkit run` computes them.

        A metric of many numbers is their mean; what is undefined is NaN. Jobs that have not started
        or ended are censored, so see `summary` as well.

        Raises RunError if the records were not kept.
        """
        given = self._experiment.scenario.metrics
        found = compute_metrics(
            self.records(), tau=given.tau, warmup=given.warmup, cooldown=given.cooldown
        )
        numbers = {
            name: metric.get("value", metric.get("mean"))
            for name, metric in found.items()
            if metric.keys() & {"value", "mean"}  # not counts by status, which `summary` has
        }
        return {name: np.nan if one is None else float(one) for name, one in numbers.items()}

    def records(self) -> Run:
        """Return the tables of a closed episode.

        Raises RunError if they were not kept, or if the episode is not over.
        """
        if self._store is None:
            raise RunError("the records of the episode were not kept; ask for them: records=True")
        if not self._closed:
            raise RunError(
                "the episode is not over, so its records are incomplete; take more steps"
            )
        self._store.close_tables()
        return self._store.results()


class Episodes:
    """Makes the experiments that episodes replay: the same scenario under any seed.

    Parts that do not depend on the seed are built once; a log is read once.
    """

    def __init__(self, scenario: Scenario, windows: EpisodeWindows | None = None) -> None:
        """Build everything for the scenario's own seed.

        Args:
            scenario: what is replayed.
            windows: each episode replays a window of the jobs that the scenario's own seed gives;
                None: all jobs.

        Raises as `prepare` does, and ScenarioError if there is no such window.
        """
        self._given = scenario, windows
        self._first = prepare(scenario, policy=NoPolicy())
        self._restarts = False
        self.windows: LogWindows | None = None
        """Windows that episodes replay; None: they replay all jobs."""
        if windows is not None:
            keep_times = goes_by_the_clock(scenario)
            self.windows = LogWindows(self.workload, windows, keep_times=keep_times)
        section = scenario.workload
        self._log: Workload | None = None
        """The log as it was read, if its transforms depend on the seed."""
        if not section.is_drawn and (section.resample is not None or scenario.value is not None):
            plain = {name: field.default for name, field in WorkloadSource.model_fields.items()}
            del plain["type"]
            plain_section = section.model_copy(update=plain)
            resources = scenario.cluster.resources
            trace = read_trace(plain_section, scenario.seed, resources=resources)
            self._log = fill_whole_memory(trace.workload, self._first.cluster)

    @property
    def scenario(self) -> Scenario:
        """The scenario that is replayed."""
        return self._given[0]

    @property
    def workload(self) -> Workload:
        """The jobs that the scenario's own seed gives."""
        return self._first.trace.workload

    def in_windows(self, windows: EpisodeWindows) -> Episodes:
        """Return episodes of the same jobs that replay windows of them.

        On a site with power, a window begins in the first week of the run's clock, so that no
        years before it are simulated; the signals move with it, and the battery starts as the
        scenario says.

        Raises ScenarioError if there is no such window.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._given = self._given[0], windows
        scenario = self._given[0]
        keep_times = goes_by_the_clock(scenario)
        twin.windows = LogWindows(self.workload, windows, keep_times=keep_times)
        twin._restarts = keep_times and not goes_by_the_clock(
            scenario.model_copy(update={"power": None})
        )
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Episodes:
        """Return episodes of the same jobs, which can be played at the same time as these.

        Everything is shared but the estimator, which learns while a run goes on.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._first = replace(self._first, predictor=build_predictor(self._first.scenario))
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the scenario alone: the trace is read again where it is unpickled."""
        return type(self), self._given

    def prepare(
        self,
        seed: int,
        *,
        workload: Workload | None = None,
        original_set: int | None = None,
        first_job: int | None = None,
    ) -> Experiment:
        """Return the experiment of a seed.

        Args:
            seed: the scenario's.
            workload: replaces the scenario's workload and its transforms, and windows.
            original_set: the number of a job set, for DeepRM's workload.
            first_job: the rank of the first job of the window; None: drawn from the seed.

        Raises ScenarioError for a set that the scenario's workload does not have or a window that
        the part does not have, TraceError if the seed draws no job.
        """
        scenario = self._first.scenario
        if seed != scenario.seed:
            scenario = scenario.model_copy(update={"seed": seed})
        trace, cluster, site = self._first.trace, self._first.cluster, self._first.site
        if self.windows is not None and workload is None:
            jobs = self.windows.take(self.windows.drawn(seed) if first_job is None else first_job)
            if self._restarts:
                scenario, jobs = restarted(scenario, jobs)
            trace = Trace(jobs, RowReport(read=len(jobs), accepted=len(jobs)))
        elif (
            workload is not None
            or original_set is not None
            or scenario.workload.is_drawn
            or self._log is not None
        ):
            jobs = self._jobs(scenario, original_set) if workload is None else workload
            if scenario.value is not None and not len(jobs.value):
                jobs = scenario.value.build(jobs, seed)
            trace = Trace(jobs, RowReport(read=len(jobs), accepted=len(jobs)))
            if not (self._is_independent_of_jobs and jobs.resources == cluster.resources):
                cluster = scenario.cluster.build(jobs)
            trace = replace(trace, workload=cluster.with_limits(jobs))
        if scenario.power is not None:
            most_steps = scenario.limits.steps
            site = scenario.power.build(cluster, trace.workload, seed, most_steps)
        first = self._first
        return Experiment(
            scenario, trace, cluster, first.policy, first.predictor,
            first.build_processes, site,
        )  # fmt: skip

    @property
    def _is_independent_of_jobs(self) -> bool:
        """Whether the cluster depends on the jobs only in the names of resources."""
        section = self._first.scenario.cluster
        parts = (section.maintenance, section.partitions, section.containers, section.trace)
        return (section.machines or section.processors) is not None and not any(parts)

    def _jobs(self, scenario: Scenario, original_set: int | None) -> Workload:
        """Return the jobs of a scenario's seed, without their values."""
        section, jobs = scenario.workload, self._log
        if jobs is None:
            if original_set is not None:
                section = _numbered(section, original_set)
            jobs = section.trace(stream(scenario.seed, "workload")).workload
        return section.transformed(jobs, scenario.seed)


def _numbered(section: WorkloadSource, original_set: int) -> WorkloadSource:
    if "original_set" not in type(section).model_fields:
        raise ScenarioError(
            f"original_set: a workload of type {section.type} has no numbered job sets; leave it "
            "out, or use `workload: {type: deeprm, …}`"
        )
    return section.model_copy(update={"original_set": original_set})
