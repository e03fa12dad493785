"""Held-out job sets: what trainings hold out of a scenario, and other seeds, numbers, windows.

`Slices` are what learners play and are judged on: windows of a log, whose end is held out, or sets
that a model draws, whose first seeds are. `Unseen` gives the same ones to `simkit evaluate`. Most
job sets are overrides of a scenario; a held-out window is none, since it consists of the jobs of
the log as the training read it: see `prepare_window`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from simkit.arrays import stream
from simkit.errors import RunError, ScenarioError, SimkitWarning
from simkit.experiment import Experiment
from simkit.experiment.policy import build_policy, cluster_problems, scenario_problems
from simkit.experiment.workload import TraceMemory
from simkit.files import read_json
from simkit.gym.episodes import Episodes
from simkit.gym.windows import EpisodeWindows, LogWindows, Part
from simkit.power.site import policy_problems
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.scenario.policy import RecordedPolicy, policies_in
from simkit.scenario.workload import Window
from simkit.sections import JobRange
from simkit.text import counted
from simkit.workload.transform import window as jobs_within

TRACES: Final = TraceMemory()
"""The logs of this process's evaluations: each is read once, here and in every worker."""
_WINDOWS: Final = re.compile(r"(\d{1,18})\.\.(\d{1,18})", re.ASCII)


def parse_windows(text: str) -> range:
    """Return the windows of ``0..20``, both included; raises ScenarioError for anything else."""
    span = _WINDOWS.fullmatch(text.replace(" ", ""))
    if not span:
        raise ScenarioError(
            f"--windows {text}: is not a range; write the first and the last window, both "
            "included: 0..20"
        )
    first, last = int(span[1]), int(span[2])
    if first > last:
        raise ScenarioError(
            f"--windows {text}: the last window ({last}) comes before the first ({first}); write "
            f"{last}..{first}"
        )
    return range(first, last + 1)


def window_overrides(scenario: Scenario, windows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the overrides of each window, dotted key → value.

    In a scenario with ``workload.window: {jobs: 0..9}``, window k holds jobs 10 k to 10 k + 9 of
    those that the window's `start` and `end` leave; the last one of a trace may hold fewer. Each
    has a seed of its own, the scenario's + k, so that policies that draw do not draw alike in all.

    Raises ScenarioError if the scenario has no such windows, and TraceError if its trace cannot be
    read.
    """
    workload = scenario.workload
    if workload.window is None or workload.window.jobs is None:
        raise ScenarioError(
            "evaluate: windows are given, but workload.window.jobs, which says how many jobs each "
            "has, is not set; add --set workload.window.jobs=0..9 for ten"
        )
    if workload.is_drawn:
        raise ScenarioError(
            f"evaluate: windows are for a recorded trace, but a workload of type {workload.type} "
            "is drawn from its seed; give seeds instead"
        )
    size = workload.window.jobs.last - workload.window.jobs.first + 1
    _check_numbers(windows, _jobs(scenario, workload.window), size)
    return [
        {
            "workload.window.jobs": str(JobRange(number * size, (number + 1) * size - 1)),
            "seed": scenario.seed + number,
        }
        for number in windows
    ]


def _jobs(scenario: Scenario, window: Window) -> int:
    """Return how many jobs of the trace the window's `start` and `end` leave."""
    resources, rng = scenario.cluster.resources, stream(scenario.seed, "workload")
    trace = TRACES.trace(scenario.workload, resources, rng)
    return len(jobs_within(trace.workload, start=window.start, end=window.end))


def _check_numbers(windows: Sequence[int], jobs: int, size: int) -> None:
    """Raise ScenarioError if there are no windows, one is beyond the trace, or occurs twice."""
    count = -(-jobs // size)
    beyond = next((number for number in windows if not 0 <= number < count), None)
    if beyond is not None:
        raise ScenarioError(
            f"evaluate: there is no window {beyond}; {counted(jobs, 'job')} of the trace make "
            f"{counted(count, 'window')} of {size:,}; choose from 0..{count - 1}"
        )
    if not windows or len(set(windows)) < len(windows):
        raise ScenarioError("evaluate: windows must not be empty, and each must occur once")


ORIGINAL_SETS: Final = 100
"""Known job sets of the original DeepRM code."""
SEEDS: Final = 10
"""Default number of seeds that serve as job sets."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def held_out(
    scenario: Scenario,
    *,
    sets: int | None = None,
    seeds: Sequence[int] | None = None,
    windows: Sequence[int] | None = None,
    unseen: Unseen | None = None,
) -> list[dict[str, Any]]:
    """Return the overrides of each job set, dotted key → value.

    Args:
        scenario: with a workload of type `deeprm`, the sets are the unseen ones of the original
            code; with any other, those that its seeds draw.
        sets: how many: original sets 0, 1, …, or seeds 0, 1, ….
        seeds: the seeds, for any workload.
        windows: the windows of a recorded trace; see `window_overrides`.
        unseen: what a training holds out; a set of a recorded trace is a ``window`` (not a key of
            the scenario) and a seed.

    Raises ScenarioError for wrong numbers, and TraceError if windows are those of a trace that
    cannot be read.
    """
    choices = {"sets": sets, "seeds": seeds, "windows": windows, "unseen": unseen}
    options = {"unseen": "held-out"}
    given = [options.get(name, name) for name, value in choices.items() if value is not None]
    if len(given) > 1:
        raise ScenarioError(
            f"evaluate: {' and '.join(given[:2])} are both given; leave one of them out"
        )
    if sets is not None and sets < 1:
        raise ScenarioError(f"evaluate: {sets} job sets; it must be at least 1")
    if seeds is not None:
        if not seeds or len(set(seeds)) < len(seeds):
            raise ScenarioError("evaluate: seeds must not be empty, and each must occur once")
        return [{"seed": seed} for seed in seeds]
    if windows is not None:
        return window_overrides(scenario, windows)
    less: dict[str, Any] = {}
    if unseen is not None:
        if not scenario.workload.is_drawn:
            return unseen.windows_of(scenario)
        sets, less = unseen.count, unseen.fewer_jobs(scenario)
    if "original_set" not in type(scenario.workload).model_fields:
        return [{**less, "seed": seed} for seed in range(SEEDS if sets is None else sets)]
    count = ORIGINAL_SETS if sets is None else sets
    # another seed for each set: agents and policies that draw should not draw alike in all sets
    return [
        {"workload.original_set": number, "seed": scenario.seed + number} for number in range(count)
    ]


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of ``0..9`` or ``0,3,7..9``; raises ScenarioError for anything else."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        span = _RANGE.fullmatch(part)
        if span:
            found += range(int(span[1]), int(span[2]) + 1)
        elif part.isdecimal():
            found.append(int(part))
        else:
            raise ScenarioError(f"--seeds {text}: {part!r} is not a seed; write 0..9 or 0,3,7")
    return found


def applied(scenario: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a scenario's JSON with overrides, dotted key → value."""
    made = dict(scenario)
    for key, value in overrides.items():
        section, _, rest = key.partition(".")
        made[section] = applied(made[section], {rest: value}) if rest else value
    return made


JOBS: Final = 256
"""Usual number of jobs of a slice."""
INSTANCES: Final = 16_384
"""Most instances of the jobs of a usual window, in the mean; bags may have hundreds."""
SHARE: Final = 0.2
"""Usual share of a log, its end, that is held out."""
HELD_OUT: Final = ("held_out", "held_out_share")
"""Names of that share among a training's arguments; the second one in older trainings."""
_FIRST_SEED: Final = 2**20
"""Seeds below are never trained on."""


@dataclass(frozen=True)
class Slice:
    """What an episode replays."""

    seed: int
    first_job: int | None = None
    """Rank of the first job of a window; None: all jobs of the seed."""


@dataclass(frozen=True)
class Slices:
    """All slices of a scenario."""

    scenario: Scenario
    """Of an episode: a model with no more than `jobs`, a log without a `short_window`."""
    episodes: Episodes
    windows: EpisodeWindows | None
    """The windows that are held out; None: a model draws the jobs of each slice."""

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        *,
        jobs: int | None = None,
        held_out: float | str = SHARE,
        log: Episodes | None = None,
    ) -> Self:
        """Read a scenario and its trace.

        Args:
            scenario: any.
            jobs: of a slice; None: those of a `short_window`, else `JOBS`, or fewer where
                they have more than `INSTANCES`, or the held-out part less than two such windows.
            held_out: the part of a log that is held out; see `EpisodeWindows`.
            log: the scenario's `whole_log`, where it was read before.

        Raises ScenarioError or TraceError if it cannot be replayed; `trained` and `unseen` say
        whether the log has a window for each.
        """
        workload = scenario.workload
        if workload.is_drawn:
            scenario = of_fewer_jobs(scenario, jobs or JOBS)
            return cls(scenario, Episodes(scenario), None)
        if jobs is None:
            jobs = short_window(scenario)
        plain = whole_log(scenario) if log is None else log
        if jobs is None:
            share = held_out if isinstance(held_out, float) else SHARE
            count, instances = len(plain.workload), int(plain.workload.instances.sum())
            unseen = round(count * share)
            _refuse_too_few(count, unseen, share)
            few = INSTANCES * count // max(instances, 1)
            jobs = max(min(JOBS, few, min(unseen, count - unseen) // 2), 1)
        episodes = plain.in_windows(EpisodeWindows(jobs, "all"))
        return cls(episodes.scenario, episodes, EpisodeWindows(jobs, "held_out", held_out))

    @cached_property
    def trained(self) -> LogWindows | None:
        """Windows to train on. Raises ScenarioError if that part of the log is too short."""
        return self._part("train")

    @cached_property
    def unseen(self) -> LogWindows | None:
        """Windows that are held out. Raises ScenarioError if that part is too short."""
        return self._part("held_out")

    def _part(self, part: Part) -> LogWindows | None:
        if self.windows is None:
            return None
        return LogWindows(self.episodes.workload, replace(self.windows, part=part))

    def draw(self, rng: np.random.Generator, count: int) -> list[Slice]:
        """Return fresh slices, never held-out ones."""
        seeds = rng.integers(_FIRST_SEED, 2**31, count).tolist()
        if self.trained is None:
            return [Slice(seed) for seed in seeds]
        return [Slice(seed, self.trained.drawn(seed)) for seed in seeds]

    def held_out(self, count: int) -> list[Slice]:
        """Return windows spread over the held-out part, or the sets of the first seeds."""
        if self.unseen is None:
            return [Slice(seed) for seed in range(count)]
        ranks = self.unseen.spread(count)
        return [Slice(self.scenario.seed + n, first) for n, first in enumerate(ranks)]

    def prepare(self, one: Slice) -> Experiment:
        """Return the experiment of a slice, which has no policy; may be played next to others."""
        return deepcopy(self.episodes).prepare(one.seed, first_job=one.first_job)


def _refuse_too_few(count: int, unseen: int, share: float) -> None:
    """Raise ScenarioError if a log has no part to train on, or none to judge on."""
    if not 0 < unseen < count:
        raise ScenarioError(
            f"episode.held_out: is {share:g}, which leaves {count - unseen:,} of the log's "
            f"{counted(count, 'job')} to train on and {unseen:,} to judge on; give a share nearer "
            "to a half, or take a longer log"
        )


def short_window(scenario: Scenario) -> int | None:
    """Return how many jobs `workload.window.jobs` has, if it is a slice itself; None: it is not.

    One of more than `JOBS` is a part of the log, and nothing else of it is played.
    """
    window = scenario.workload.window
    if window is None or window.jobs is None:
        return None
    jobs = window.jobs.last - window.jobs.first + 1
    return jobs if jobs <= JOBS else None


def whole_log(scenario: Scenario) -> Episodes:
    """Return episodes of a recorded workload, beyond a `workload.window.jobs` that is a slice."""
    workload = scenario.workload
    if workload.window is not None and short_window(scenario) is not None:
        window = workload.window.model_copy(update={"jobs": None})
        whole = workload.model_copy(update={"window": window})
        scenario = scenario.model_copy(update={"workload": whole})
    return Episodes(scenario)


def of_fewer_jobs(scenario: Scenario, most: int) -> Scenario:
    """Return a scenario whose model draws at most so many jobs, if it counts them."""
    own = getattr(scenario.workload, "jobs", None)
    if not isinstance(own, int) or own <= most:
        return scenario
    fewer = scenario.workload.model_copy(update={"jobs": most})
    return scenario.model_copy(update={"workload": fewer})


WINDOW: Final = "window"
"""Key of a job set that is a window of a log: ``first..last``, ranks by submission."""
COUNT: Final = 30
"""Usual number of held-out job sets."""


@dataclass(frozen=True)
class Unseen:
    """The job sets that a training holds out, and how many of them."""

    count: int = COUNT
    """Windows spread evenly over the held-out end of a log, or sets that a model draws."""
    jobs: int | None = None
    """Jobs of a set; None: of a log, as many as a training takes; of a model, its own number."""
    share: float = SHARE
    """Share of a log, its end, that is held out."""

    @classmethod
    def of_agents(
        cls,
        scenario: Scenario,
        agents: Iterable[Path],
        *,
        count: int | None = None,
        jobs: int | None = None,
    ) -> Self:
        """Return what agents were judged on in their trainings, if they were trained like that.

        Args:
            scenario: what they are judged on now.
            agents: their folders. The number and size of the first one's job sets count, and the
                least share that is held out, since none has trained on that.
            count: in place of the first one's.
            jobs: in place of the first one's.

        Raises RunError if an agent cannot be read.
        """
        agents = list(agents)
        facts = [_facts(folder) for folder in agents]
        arguments = [_mapping(one.get("arguments")) for one in facts]
        counts = [
            n for one in arguments if isinstance(n := one.get("held_out_sets"), int) and n > 0
        ]
        shares = [
            share for one in arguments for key in HELD_OUT
            if isinstance(share := one.get(key), float) and 0 < share < 1
        ]  # fmt: skip
        if not scenario.workload.is_drawn:
            for folder, one in zip(agents, arguments, strict=True):
                if 0 in [one.get(key) for key in HELD_OUT]:
                    warnings.warn(
                        f"agent {agent_label(folder)}: its training held nothing out, so it may "
                        "have trained on the jobs that it is judged on",
                        SimkitWarning,
                        stacklevel=2,
                    )
        usual = JOBS if scenario.workload.is_drawn else None
        sizes = [given["jobs"] if isinstance(given.get("jobs"), int) else usual
                 for one, given in zip(facts, arguments, strict=True) if "view" in one]  # fmt: skip
        return cls(
            count=count or next(iter(counts), COUNT),
            jobs=jobs or next(iter(sizes), None),
            share=min(shares, default=SHARE),
        )

    def windows_of(self, scenario: Scenario) -> list[dict[str, Any]]:
        """Return the windows of a recorded workload.

        Raises ScenarioError if the held-out part is shorter than a window.
        """
        log = _LOGS.of(scenario)
        most = round(self.share * len(log.workload))
        if (self.jobs or 1) > most:
            raise ScenarioError(
                f"evaluate: the held-out {self.share:.0%} of the log are {counted(most, 'job')}, "
                f"fewer than a window of {self.jobs or 1:,}; "
                + ("choose fewer with --jobs" if most else "take a longer log")
            )
        slices = Slices.of(scenario, jobs=self.jobs, held_out=self.share, log=log)
        assert slices.episodes.windows is not None
        length = slices.episodes.windows.jobs
        return [
            {WINDOW: str(JobRange(one.first_job, one.first_job + length - 1)), "seed": one.seed}
            for one in slices.held_out(self.count)
            if one.first_job is not None
        ]

    def fewer_jobs(self, scenario: Scenario) -> dict[str, Any]:
        """Return the override of a model that draws more than `jobs`."""
        if self.jobs is None or of_fewer_jobs(scenario, self.jobs) is scenario:
            return {}
        return {"workload.jobs": self.jobs}


JUDGED_BY: Final = "judged_by"
"""The key of an agent's description that names the metric of runs by which it was selected."""


def metric_of_agents(agents: Iterable[Path]) -> str:
    """Return the metric of runs by which the first agent that tells it was selected.

    That of older agents is `slowdown`. Raises RunError if an agent cannot be read.
    """
    told = [_facts(folder).get(JUDGED_BY) for folder in agents]
    return next((one for one in told if isinstance(one, str)), "slowdown")


def _facts(agent: Path) -> dict[str, Any]:
    path = agent / DESCRIPTION
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); train the agent again") from error
    return _mapping(found)


def _mapping(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


class _Logs:
    """The log that this process read last for windows of it; policies share it."""

    def __init__(self) -> None:
        self._kept: dict[str, Episodes] = {}

    def of(self, scenario: Scenario) -> Episodes:
        """Return episodes of the whole log."""
        key = scenario.model_dump_json(exclude={"policy", "learn", "name"})
        if key not in self._kept:
            self._kept = {key: whole_log(scenario)}
        return self._kept[key]

    def forget(self) -> None:
        self._kept.clear()


_LOGS: Final = _Logs()


def forget_logs() -> None:
    """Release the logs that this process keeps for its evaluations."""
    TRACES.forget()
    _LOGS.forget()


def prepare_window(scenario: Scenario, window: str, seed: int) -> Experiment:
    """Return the experiment of a window of a log, as a training plays it.

    The jobs are those of the log after all transforms, which belong to the scenario's own seed; the
    window's seed is that of the run.

    Args:
        scenario: its policy decides.
        window: ``first..last``; see `Unseen.windows_of`.
        seed: of the run.

    Raises ScenarioError if the policy does not suit the scenario.
    """
    if any(isinstance(one, RecordedPolicy) for one in policies_in(scenario.policy)):
        raise ScenarioError(
            "evaluate: the policy recorded starts jobs when the log says, and a held-out window "
            "has times of its own; leave it out, or give --windows"
        )
    first, last = map(int, window.split(".."))
    episodes = _LOGS.of(scenario).in_windows(EpisodeWindows(last - first + 1, "all"))
    made = deepcopy(episodes).prepare(seed, first_job=first)
    own = made.scenario.model_copy(update={"policy": scenario.policy})
    policy = build_policy(own)
    problems = [
        *scenario_problems(policy, own),
        *cluster_problems(policy, made.cluster, own, made.trace.workload),
        *policy_problems(policy, made.site),
    ]
    if problems:
        raise ScenarioError(problems)
    return replace(made, scenario=own, policy=policy)
