"""Episodes: replays of a scenario, one after another, each with its own seed."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from typing import Any

from simkit import plugins
from simkit.cluster_source import build_cluster
from simkit.episode_recorder import EpisodeRecorder, Loss
from simkit.errors import RunError, ScenarioError
from simkit.experiment import Experiment, prepare
from simkit.ledger_frames import LedgerFrames
from simkit.memory_run import MemoryStore
from simkit.policy import Action, Place, State, SystemInfo
from simkit.reward import Reward
from simkit.run_folder import Run
from simkit.run_info import first_info
from simkit.scenario import Scenario
from simkit.scenario_workload import WorkloadBase
from simkit.seeds import stream
from simkit.simulation import Simulation
from simkit.site_source import build_site
from simkit.value_source import valued
from simkit.workload import RowReport, Trace, Workload
from simkit.workload_source import read_trace, transformed


class Driven:
    """Stands where a policy is asked for: whoever drives the episode decides."""

    def reset(self, info: SystemInfo, rng: object) -> None:
        """Do nothing."""

    def schedule(self, state: State) -> Iterable[Action]:
        """Return no action."""
        return ()


class Episode:
    """One replay, to be driven from outside: time goes on when `advance` is called."""

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
            experiment: what is replayed; its policy is not asked.
            reward: begins anew.
            records: whether the tables of records are kept, in memory.
            losses: the fates of jobs that `lost` counts.

        Raises ScenarioError if the reward or the cluster does not suit the workload.
        """
        load, cluster = experiment.trace.workload, experiment.cluster
        self._store: MemoryStore | None = None
        if records:
            info = first_info(experiment.scenario, experiment.trace, cluster, experiment.site)
            self._store = MemoryStore(info)
        self._recorder = EpisodeRecorder(load, cluster.resources, self._store, losses)
        self._simulation = Simulation(
            load, cluster, self._recorder, rules=experiment.rules, predictor=experiment.predictor,
            seed=experiment.scenario.seed, site=experiment.site,
            ledger=LedgerFrames(self._recorder.sink), observer=reward,
        )  # fmt: skip
        self.state: State = self._simulation.state
        """The system as a policy sees it."""
        self._reward = reward
        reward.begin(load, self._simulation.info)
        self._jobs = len(load)
        self._decisions = self._simulation.decisions()
        self._closed = False

    def advance(self) -> bool:
        """Let time go on to the next decision; False: every job has ended, or nothing happens.

        When every job has ended nothing is left to decide, and the replay comes to its end by
        itself.
        """
        for _ in self._decisions:
            if self._simulation.jobs_ended < self._jobs:
                return True
        self._closed = True
        return False

    def apply(self, place: Place) -> None:
        """Place a task; raises PolicyError if that is illegal, and nothing has changed then."""
        self._simulation.apply(place)

    def collect(self) -> float:
        """Return the reward for the time that has passed since it was last asked for."""
        return self._reward.collect(self._simulation.now)

    def lost(self) -> int:
        """Return how many jobs have met with one of the `losses` so far."""
        return self._recorder.lost()

    def close(self) -> None:
        """Close the books where they stand."""
        if not self._closed:
            self._closed = True
            self._simulation.close()

    def summary(self) -> dict[str, float]:
        """Return what became of the jobs of a closed episode; see `EpisodeRecorder.summary`."""
        return self._recorder.summary()

    def records(self) -> Run:
        """Return the tables of a closed episode.

        Raises RunError if they were not kept, or if the episode is not over.
        """
        if self._store is None:
            raise RunError("the records of the episode were not kept; ask for them: records=True")
        if not self._closed:
            raise RunError("the episode is not over, its records are not complete; step on")
        self._store.close_tables()
        return self._store.results()


class Episodes:
    """Makes the experiments that episodes replay: the same scenario under any seed.

    What does not depend on the seed is built, and a log is read, once.
    """

    def __init__(self, scenario: Scenario) -> None:
        """Build everything for the scenario's own seed; raises as `prepare` does."""
        self._first = prepare(scenario, policy=Driven())
        section = scenario.workload
        self._reader = plugins.find("simkit.readers", section.reader_name)
        self._is_drawn = _takes_generator(self._reader)
        self._arguments = section.reader_arguments()
        self._log: Workload | None = None
        """As it was read, where what is made of it depends on the seed."""
        if not self._is_drawn and (section.resample is not None or scenario.value is not None):
            plain = {name: field.default for name, field in WorkloadBase.model_fields.items()}
            del plain["type"]
            self._log = read_trace(section.model_copy(update=plain), scenario.seed).workload

    def prepare(
        self, seed: int, *, workload: Workload | None = None, original_set: int | None = None
    ) -> Experiment:
        """Return what an episode replays.

        Args:
            seed: the scenario's.
            workload: takes the place of the scenario's and its transforms.
            original_set: a number of a job set, for DeepRM's workload.

        Raises ScenarioError for a set that the scenario's workload does not have, TraceError if the
        seed brings no job.
        """
        scenario = self._first.scenario
        if seed != scenario.seed:
            scenario = scenario.model_copy(update={"seed": seed})
        trace, cluster, site = self._first.trace, self._first.cluster, self._first.site
        if workload is not None or original_set is not None or self._depends_on_seed:
            jobs = self._jobs(scenario, original_set) if workload is None else workload
            if scenario.value is not None and not len(jobs.value):
                jobs = valued(jobs, scenario.value, seed)
            trace = Trace(jobs, RowReport(read=len(jobs), accepted=len(jobs)))
            if not (self._is_pool_of_its_own and jobs.resources == cluster.resources):
                cluster = build_cluster(scenario.cluster, jobs)
        if scenario.power is not None:
            site = build_site(scenario.power, cluster, trace.workload, seed)
        first = self._first
        return Experiment(
            scenario, trace, cluster, first.policy, first.predictor, first.rules, site
        )

    @property
    def _is_pool_of_its_own(self) -> bool:
        """Whether the cluster depends on nothing that jobs say but the names of resources."""
        section = self._first.scenario.cluster
        parts = (section.maintenance, section.partitions, section.containers, section.trace)
        return (section.machines or section.processors) is not None and not any(parts)

    @property
    def _depends_on_seed(self) -> bool:
        return self._is_drawn or self._log is not None

    def _jobs(self, scenario: Scenario, original_set: int | None) -> Workload:
        """Return the jobs of a scenario's seed, without their worth."""
        section, jobs = scenario.workload, self._log
        if jobs is None:
            arguments = self._arguments
            if original_set is not None:
                arguments = arguments | _numbered(section, original_set)
            jobs = self._reader(**arguments, rng=stream(scenario.seed, "workload")).workload
        return transformed(jobs, section, scenario.seed)


def _numbered(section: WorkloadBase, original_set: int) -> dict[str, int]:
    if "original_set" not in type(section).model_fields:
        raise ScenarioError(
            f"original_set: a workload of type {section.type} has no numbered job sets; leave it "
            "out, or use `workload: {type: deeprm, …}`"
        )
    return {"original_set": original_set}


def _takes_generator(reader: Any) -> bool:
    """Tell whether a reader draws jobs from the seed."""
    try:
        return "rng" in inspect.signature(reader).parameters
    except (TypeError, ValueError):  # built in: no signature to look at
        return False
