"""The logs of the study, and the agents that are trained on the first 80 % of four of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simkit.learners.studies.trainings import KeptTraining, data_file
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace
from simkit.training.held_out import SHARE

JOBS: Final = 256
"""Jobs in a window."""
ALL: Final = "all logs"
"""What an agent is trained on, in place of the name of a log."""


@dataclass(frozen=True)
class Log:
    """A log with a bundled scenario."""

    name: str
    scenario_name: str
    file: str
    processors: int
    trained: bool = True
    """Whether agents are trained on it."""
    requests: bool = True
    """Whether it has requested times; without, they are the true run times."""

    @property
    def path(self) -> str:
        """Where it is; raises RunError if it is missing."""
        return str(data_file("logs", f"swf/{self.file}.swf.gz"))

    @property
    def scenario(self) -> Scenario:
        """The bundled scenario."""
        return load_scenario(self.scenario_name, overrides={"workload.path": self.path})


LOGS: Final = (
    Log("SDSC-SP2", "sdsc-sp2", "SDSC-SP2-1998-4.2-cln", 128),
    Log("KTH-SP2", "kth-sp2", "KTH-SP2-1996-2.1-cln", 100),
    Log("HPC2N", "hpc2n", "HPC2N-2002-2.2-cln", 240),
    Log("SDSC-BLUE", "sdsc-blue", "SDSC-BLUE-2000-4.2-cln", 1152),
    Log("CTC-SP2", "ctc-sp2", "CTC-SP2-1996-3.1-cln", 338, trained=False),
    Log("lublin_256", "lublin-256", "lublin_256", 256, trained=False, requests=False),
)


@dataclass(frozen=True)
class LogsSetting:
    """How much to train and to judge."""

    seeds: Mapping[str, int]
    """Kind of training → seeds: ``ppo``, or ``evolution`` of a scorer of jobs."""
    arguments: Mapping[str, Mapping[str, Any]]
    """Kind of training → its arguments; PPO's are those of ``simkit train LOG`` if there are none.
    """
    windows: int = 100
    """Of each log, spread over its last 20 %."""
    estimates: tuple[str, ...] = ("modal", "user-mean", "actual")
    """What policies know of run times besides the requests; see `judge.ESTIMATES`."""
    cases: tuple[Log, ...] = LOGS

    @property
    def trained(self) -> list[Log]:
        """The logs to train on."""
        return [log for log in self.cases if log.trained]


SCORER: Final[Mapping[str, Any]] = {
    "fewest_jobs": JOBS, "most_jobs": 2 * JOBS, "held_out": SHARE, "least_slowdown": 1.5,
}  # fmt: skip
"""Arguments of evolution: windows like those that are judged, and the same part held out."""
FULL: Final = LogsSetting(
    {"evolution": 3, "ppo": 3}, {"evolution": {**SCORER, "iterations": 60}, "ppo": {}}
)
FEW: Final = {"iterations": 3, "candidates": 6, "job_sets": 8, "held_out_sets": 8}
SHORT: Final = {"iterations": 1, "job_sets": 2, "rollouts": 2, "warm_start": 1, "held_out_sets": 2}
QUICK: Final = LogsSetting(
    {"evolution": 1, "ppo": 1}, {"evolution": {**SCORER, **FEW}, "ppo": SHORT},
    6, ("actual",), (*LOGS[:2], LOGS[-1]),
)  # fmt: skip


@dataclass(frozen=True)
class Agent:
    """A training on one log, or on all of them."""

    kind: str
    log: str
    """Its name, or `ALL`."""
    seed: int

    def arm(self, case: Log) -> str:
        """Return the arm to which it belongs where it is judged."""
        if self.log == case.name:
            return self.kind
        return f"{self.kind}, {self.log}" if self.log == ALL else f"{self.kind} of {self.log}"


def agents(setting: LogsSetting) -> Iterator[Agent]:
    """Yield the trainings; only scorers are trained on all logs."""
    for kind, seeds in setting.seeds.items():
        logs = [*(log.name for log in setting.trained), *([ALL] if kind == "evolution" else [])]
        yield from (Agent(kind, log, seed) for seed in range(seeds) for log in logs)


def kept(place: Workplace, agent: Agent, setting: LogsSetting) -> KeptTraining:
    """Return the training of an agent."""
    log, *further = [one for one in setting.trained if agent.log in (one.name, ALL)]
    arguments = dict(setting.arguments[agent.kind])
    if further:
        arguments["logs"] = [{"path": o.path, "processors": o.processors} for o in further]
    learner = {"ppo": "ppo", "evolution": "rlscheduler"}[agent.kind]
    name = f"{agent.kind}-{agent.log}-seed{agent.seed}".lower().replace(" ", "-")
    learn = {"learner": learner, "arguments": arguments}
    chosen = {"name": name, "seed": agent.seed, "learn": learn}
    return KeptTraining(place, load_scenario(log.scenario, overrides=chosen))
