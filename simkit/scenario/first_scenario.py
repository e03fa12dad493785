"""A first scenario for a log: YAML with a comment on where each number comes from.

It runs as it is, and drops no job: its machines are those that the log shows to have been there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite
from pathlib import Path
from typing import Final

import numpy as np

from simkit.errors import TraceError
from simkit.scenario.bundled import SAMPLE
from simkit.scenario.workload import TraceFormat, trace_formats
from simkit.text import counted, printable
from simkit.units import format_duration
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.machine_groups import MachineSize, machine_groups, machine_size
from simkit.workload.recorded import GPU, Peak, Recorded
from simkit.workload.trace import instant_text

MEMORY: Final = "mem"
KNOWN_SHARE: Final = 0.5
"""Memory counts if it is known of at least this share of jobs: others take whole machines."""
MOST_NAMED: Final = 3
"""Groups of machines that more partitions share are called shared-1, shared-2, …."""
_PLAIN: Final = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_WORDS: Final = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML reads as something else."""


@dataclass(frozen=True)
class FirstScenario:
    """A scenario as text, and what a person should know of it."""

    text: str
    report: RowReport
    """How the rows of the log were read."""
    machines: tuple[str, ...]
    """The machines, a line for each partition."""
    unknown: tuple[str, ...]
    """What the log does not tell, and what stands in the scenario instead."""


def first_scenario(log: TraceFormat, target: Path) -> FirstScenario:
    """Return a scenario that replays a log under EASY backfilling.

    Args:
        log: any trace of rigid jobs; keys that are set in it stand in the scenario.
        target: the scenario's file; paths in it are relative to its folder.

    Raises TraceError if the log cannot be read, or holds tasks on machines.
    """
    trace, past = log.recorded()
    if not trace.workload.gang.all():
        raise TraceError(
            f"{log.path}: this is a trace of tasks on machines, and its machines do not follow "
            "from it; begin with a bundled scenario (`simkit scenarios` lists them)"
        )
    trace = _asking_for_all(log, trace, past)
    draft = _Draft(log, trace.workload, past, _sizes(trace.workload, past))
    lines = [
        f"# A first scenario for {printable(Path(log.path).name)}, written by `simkit init`.",
        "# The machines are the least that the log shows: what was in use at once, and its largest",
        "# jobs. Correct what you know better.",
        *draft.workload_lines(target), "", *draft.cluster_lines(), "",
        *draft.estimates_lines(), "", *draft.policy_lines(),
    ]  # fmt: skip
    text = "\n".join([*lines, ""])
    return FirstScenario(text, trace.report, tuple(draft.machines()), tuple(draft.unknown()))


def _asking_for_all(log: TraceFormat, trace: Trace, past: Recorded) -> Trace:
    """Return the jobs with all that their machines are to have: gpus and memory too, if known.

    The report names the columns that are read neither for them nor for what the log records.
    """
    held = past.held.keys() - set(trace.workload.resources)
    if MEMORY in held:
        known = float(np.isfinite(past.held[MEMORY]).mean())
        if known < KNOWN_SHARE or not (past.machines >= 1).all():
            held.remove(MEMORY)
    if not held:
        return trace
    resources = (*trace.workload.resources, *sorted(held))
    asking = log.trace_for(resources, np.random.default_rng(0))
    unread = {name: holds for name, holds in asking.report.unread.items()
              if name in trace.report.unread}  # fmt: skip
    return replace(asking, report=replace(asking.report, unread=unread))


def _sizes(workload: Workload, past: Recorded) -> list[MachineSize]:
    """Return the machines of each partition; of all jobs if there is one, or no start is known."""
    header = workload.capacity.get(workload.resources[0])
    numbers, of_job = np.unique(workload.partition, return_inverse=True)
    if len(numbers) == 1 or not past.started_jobs:
        return [machine_size(workload, past, np.arange(len(workload)), header=header)]
    order = np.argsort(of_job, kind="stable")
    ends = np.cumsum(np.bincount(of_job))[:-1]
    sizes = [
        machine_size(workload, past, rows, number)
        for number, rows in zip(numbers.tolist(), np.split(order, ends), strict=True)
    ]
    most = max(size.each.get(MEMORY, 0.0) for size in sizes)
    return [
        replace(size, each={**size.each, MEMORY: most}) if size.each.get(MEMORY) == 0 else size
        for size in sizes
    ]


@dataclass(frozen=True)
class _Group:
    """Equal machines of the scenario."""

    name: str
    partitions: tuple[int, ...]
    """Rows of the partitions that use them."""
    count: int
    each: Mapping[str, float]
    origin: tuple[str, ...]
    """Where the numbers come from."""


class _Draft:
    """The parts of a scenario, as lines of YAML."""

    def __init__(
        self, log: TraceFormat, workload: Workload, past: Recorded, sizes: Sequence[MachineSize]
    ) -> None:
        self._log, self._load, self._past, self._sizes = log, workload, past, sizes
        self._names = _names(workload, [size.number for size in sizes])
        self._header = workload.capacity.get(workload.resources[0])
        self._pools = len(workload.resources) == 1 and past.nodes is None
        self._groups = [] if self._pools else list(self._machine_groups())
        several = self._pools and len(sizes) > 1
        self._shared = several and self._header is not None and self._total() > self._header
        self._keys = log.model_dump(mode="json", exclude_unset=True, exclude={"type", "path"})

    def workload_lines(self, target: Path) -> Iterator[str]:
        """Yield the section `workload`."""
        yield "workload:"
        kinds = (name for name, kind in trace_formats().items() if isinstance(self._log, kind))
        yield f"  type: {self._log.type or next(kinds)}"
        yield f"  path: {quoted(path_from(Path(self._log.path), target))}"
        for key, value in self._keys.items():
            yield f"  {key}: {json.dumps(value, ensure_ascii=False)}"
        if zone := self._load.time_zone:
            yield f"  # the log's time zone: {zone}"
        elif "time_zone" in type(self._log).model_fields:
            yield "  # Set the zone in which the times were printed; until then they count as UTC:"
            yield "  # time_zone: Europe/Berlin"

    def _machine_groups(self) -> Iterator[_Group]:
        """Yield the machines that the log names, or else those of each partition."""
        if (nodes := self._past.nodes) is None:
            for row, (size, name) in enumerate(zip(self._sizes, self._names, strict=True)):
                yield _Group(name, (row,), size.count, size.each, tuple(self._origin(size)))
            return
        of_job = np.zeros(len(self._load), np.int64)
        if len(self._sizes) > 1:
            of_job = np.searchsorted([size.number for size in self._sizes], self._load.partition)
        groups = machine_groups(self._load, self._past, nodes, of_job)
        named = {row for group in groups for row in group.partitions}
        most = max(
            *(group.each.get(MEMORY, 0.0) for group in groups),
            *(size.each.get(MEMORY, 0.0) for size in self._sizes),
        )
        for number, group in enumerate(groups, 1):
            names = [self._names[row] for row in group.partitions]
            name = "+".join(names) if len(names) <= MOST_NAMED else f"shared-{number}"
            each = {**group.each, MEMORY: most} if group.each.get(MEMORY) == 0 else group.each
            shared = f", shared by the partitions {', '.join(names)}" if len(names) > 1 else ""
            origin = [
                f"{counted(group.named, 'machine')} named in the log{printable(shared)}. Each has",
                "the most that was in use at once on one of them, or that a job had of one.",
            ]
            if group.count > group.named:
                more = group.count - group.named
                origin.append(f"{more:,} more for jobs whose machines the log does not name.")
            yield _Group(name, group.partitions, group.count, each, tuple(origin))
        for row, (size, name) in enumerate(zip(self._sizes, self._names, strict=True)):
            if row not in named:
                origin = ["The log names no machines of these jobs.", *self._how_many(size)]
                yield _Group(name, (row,), size.count, size.each, tuple(origin))

    def cluster_lines(self) -> Iterator[str]:
        """Yield the section `cluster`."""
        several = len(self._sizes) > 1
        yield "cluster:"
        if several:
            yield from (f"  # {line}" for line in self._whole_peaks())
        elif self._pools or self._past.nodes is not None:
            yield from (f"  # {line}" for line in self._origin(self._sizes[0]))
        if self._groups:
            yield "  machines:"
        for group in self._groups:
            yield from (f"    # {line}" for line in group.origin)
            yield from _group_lines(group, named=several)
        if self._pools and not several:
            yield f"  processors: {number(self._sizes[0].each[self._load.resources[0]])}"
        if self._shared:
            yield f"  processors: {number(self._whole())}"
        if several:
            yield "  partitions:"
            for row in range(len(self._sizes)):
                yield from self._partition(row)

    def _partition(self, row: int) -> Iterator[str]:
        size, name = self._sizes[row], self._names[row]
        if self._pools or self._past.nodes is not None:
            yield from (f"    # {line}" for line in self._origin(size))
        labels = self._load.labels.get("partition")
        entry = quoted(labels[size.number]) if labels and size.number >= 0 else str(size.number)
        yield f"    - name: {quoted(name)}"
        yield f"      partitions: [{entry}]" + "  # jobs without one" * (size.number < 0)
        if self._pools and not self._shared:
            yield f"      processors: {number(size.each[self._load.resources[0]])}"
        elif not self._pools:
            own = [quoted(group.name) for group in self._groups if row in group.partitions]
            yield f"      machines: [{', '.join(own)}]"
        if isfinite(size.longest_limit_s):
            longest = format_duration(size.longest_limit_s)
            yield f"      # the longest time limit in the log: {longest}; to enforce a limit:"
            yield f"      # max_time: {size.longest_limit_s:g}  # s"

    def _origin(self, size: MachineSize) -> Iterator[str]:
        """Yield where the numbers of some machines come from."""
        yield f"{counted(size.jobs, 'job')}; the largest asks for {amounts(size.largest)}"
        if not size.peak:
            yield "the log does not tell when they started, nor what was in use at once"
        yield from _peaks(self._load, size.peak)
        if self._header is not None and len(self._sizes) == 1:
            yield f"the log's header: {self._header:,.6g} {self._load.resources[0]}"
        if self._past.nodes is None and len(self._load.resources) > 1:
            yield from self._how_many(size)

    def _how_many(self, size: MachineSize) -> Iterator[str]:
        """Yield the reasons for the number and size of the machines without a known name."""
        if size.has_machines and len(self._load.resources) > 1:
            yield "Each machine has the most that a job had of one; there are as many as"
            yield "hold what was in use at once, and the job on the most machines."
        else:
            yield "The log does not tell of single machines: this is one for all jobs."

    def _whole_peaks(self) -> Iterator[str]:
        peaks = {name: self._past.peak(name) for name in self._load.resources}
        found = {name: peak for name, peak in peaks.items() if peak is not None}
        yield from (f"of all jobs, {line}" for line in _peaks(self._load, found))
        name, total = self._load.resources[0], self._total()
        if self._shared:
            yield (
                f"the log's header: {self._header:,.6g} {name}; what was in use in each partition "
                f"adds up to {total:,.6g}, so that they share them"
            )
            return
        if self._header is not None:
            yield f"the log's header: {self._header:,.6g} {name}; those below: {total:,.6g}"
        if self._past.nodes is not None:
            return
        if self._pools:
            yield "If partitions share their processors, take these out of them, and put here:"
            yield f"processors: {number(self._whole())}"
        else:
            yield "If partitions share machines, keep one group, and name it in each of them."

    def _whole(self) -> float:
        """Return the processors that all partitions would share: no job is larger."""
        name = self._load.resources[0]
        largest = max(size.largest[name] for size in self._sizes)
        peak = self._past.peak(name)
        return max(self._header or (0.0 if peak is None else peak.amount), largest)

    def _total(self) -> float:
        """Return the processors, or what comes first, of all pools or groups."""
        name = self._load.resources[0]
        parts = self._sizes if self._pools else self._groups
        return sum(part.each[name] * part.count for part in parts)

    def estimates_lines(self) -> Iterator[str]:
        """Yield the key `estimates`."""
        limited, endless = self._with_limits(), int(np.isposinf(self._past.limit_s).sum())
        jobs, rest = counted(len(self._load), "job"), len(self._load) - limited - endless
        if not limited:
            without = f" ({counted(endless, 'job')} without a limit)" * (endless > 0)
            yield f"# the log has no time limits{without}, so the policy knows the true run times"
            yield "estimates: actual"
            return
        known = f"# {limited:,} of {jobs} {'has' if limited == 1 else 'have'} a time limit"
        yield known + "; of the others the policy knows the run time" * (rest > 0 and not endless)
        if endless:
            others = f"; the policy knows the run time of the other {rest:,}" * (rest > 0)
            yield f"# without a limit, and planned as endless: {counted(endless, 'job')}{others}"
        yield "estimates: requested"

    def policy_lines(self) -> Iterator[str]:
        """Yield the section `policy`."""
        yield "# in order of submission; shorter jobs fill the gaps without delaying the first"
        yield from ("policy:", "  order: fcfs", "  backfill: easy")

    def _with_limits(self) -> int:
        """Return how many jobs have a time limit; one without end is none."""
        return int(((self._past.limit_s > 0) & np.isfinite(self._past.limit_s)).sum())

    def machines(self) -> Iterator[str]:
        """Yield the machines, a line for each group or pool."""
        several = len(self._sizes) > 1
        if self._shared:
            whole = {self._load.resources[0]: self._whole()}
            jobs = counted(len(self._load), "job")
            yield f"{amounts(whole)} for {jobs}, shared by {len(self._sizes)} partitions"
            return
        for group in self._groups:
            text = f"{counted(group.count, 'machine')} with {amounts(group.each)}"
            yield f"{group.name}: {text}" if several else text
        if self._pools:
            for size, name in zip(self._sizes, self._names, strict=True):
                text = f"{amounts(size.each)} for {counted(size.jobs, 'job')}"
                yield f"{name}: {text}" if several else text

    def unknown(self) -> Iterator[str]:
        """Yield what the log does not tell, and what stands in the scenario instead."""
        resources, started = self._load.resources, self._past.started_jobs
        if not started and self._header is None:
            yield "when jobs started, and the size of the machine: it is that of the largest job"
        elif not started:
            yield "when jobs started: the size of the machine is that in the header"
        elif started < len(self._load):
            rest = len(self._load) - started
            count = "it does not count" if rest == 1 else "they do not count"
            yield f"when {counted(rest, 'job')} started: {count}"
        yield from self._above_the_header()
        if not started and len(np.unique(self._load.partition)) > 1:
            yield "the size of each partition: all jobs share the machine"
        yield from self._machines_unknown()
        if MEMORY in self._past.held:
            yield from self._memory_unknown()
        if not self._load.time_zone:
            yield "the time zone" + self._zone_remedy()
        if not self._with_limits():
            yield "time limits: the policy knows the true run times (estimates: actual)"
        if len(self._sizes) > 1 and self._past.nodes is None:
            yield from self._shared_or_not()
        if GPU not in resources and "gpus" in type(self._log).model_fields:
            yield "gpus: no column that is read has any"

    def _machines_unknown(self) -> Iterator[str]:
        """Yield for how many jobs the log does not tell the machines, or how many these were."""
        nodes = self._past.nodes
        if nodes is not None and (without := int((np.diff(nodes.first) == 0).sum())):
            yield (
                f"the machines of {counted(without, 'job')}: NodeList names none; those of the "
                "others are to hold them as well"
            )
        elif nodes is None and self._groups and not all(s.has_machines for s in self._sizes):
            yield "on how many machines each job ran: they are one without boundaries"

    def _above_the_header(self) -> Iterator[str]:
        """Yield that more was in use than the header has, or asked for."""
        name = self._load.resources[0]
        if self._header is None or (len(self._sizes) > 1 and not self._shared):
            return
        peak = self._past.peak(name)
        if max(size.largest[name] for size in self._sizes) > self._header:
            yield f"the size of the machine: a job asks for more {name} than the header has"
        elif peak is not None and peak.amount > self._header:
            yield (
                f"why {peak.amount:,.6g} {name} are recorded as in use at once, and "
                f"{self._header:,.6g} in the header: these count"
            )

    def _shared_or_not(self) -> Iterator[str]:
        """Yield that partitions may share machines, and what speaks for it."""
        name = self._load.resources[0]
        total, peak = self._total(), self._past.peak(name)
        most = 0.0 if peak is None else peak.amount
        if self._shared:
            yield (
                f"which {name} each partition may use: they share the {self._header:,.6g} of the "
                f"header, as what was in use in each adds up to {total:,.6g}"
            )
            return
        header = "" if self._header is None else f"; the header has {self._header:,.6g}"
        yield (
            f"whether partitions share machines: each has its own, {total:,.6g} {name} in all; "
            f"at most {most:,.6g} were in use at once{header}"
        )

    def _zone_remedy(self) -> str:
        if "time_zone" in type(self._log).model_fields:
            return ": times count as UTC; set workload.time_zone, or write it again with --set"
        return ": it matters only for power and prices by the hour"

    def _memory_unknown(self) -> Iterator[str]:
        untold = int(np.isnan(self._past.held[MEMORY]).sum())
        jobs = counted(untold, "job")
        if MEMORY not in self._load.resources:
            why = f"that of {jobs} is unknown" if untold else "the machines of jobs are unknown"
            yield f"memory: it is left out, as {why}"
        elif untold:
            yield f"the memory of {jobs}: they take all memory of their machines"


def _group_lines(group: _Group, *, named: bool) -> Iterator[str]:
    count = f"count: {group.count}"
    yield f"    - {f'name: {quoted(group.name)}' if named else count}"
    if named:
        yield f"      {count}"
    for resource, amount in group.each.items():
        if amount > 0:
            yield f"      {resource}: {number(amount)}"


def _peaks(workload: Workload, peaks: Mapping[str, Peak]) -> Iterator[str]:
    dated = isfinite(workload.epoch_s) and workload.epoch_s > 0
    for name, peak in peaks.items():
        if peak.amount > 0:
            when = instant_text(workload, peak.time_s)
            when = f"on {when}" if dated else f"{when} after the log's zero"
            yield f"peak in use in the log: {peak.amount:,.6g} {name} {when}"


def _names(workload: Workload, numbers: Sequence[int]) -> list[str]:
    """Return a name of its own for each partition, by its number in the log."""
    labels, called = workload.labels.get("partition"), workload.header_names.get("partition", {})
    names: list[str] = []
    for partition in numbers:
        if partition < 0:
            name = "no partition"
        elif labels:
            name = labels[partition]
        else:
            name = called.get(partition, str(partition))
        names.append(name if name not in names else f"{name} ({partition})")
    return names


def number(amount: float) -> str:
    """Return an amount for YAML: whole, or rounded up to a thousandth."""
    return str(int(amount)) if amount == int(amount) else f"{ceil(amount * 1000) / 1000:.15g}"


def amounts(of: Mapping[str, float]) -> str:
    """Return ``16 processors, 4 gpu``."""
    return ", ".join(f"{amount:,.6g} {name}" for name, amount in of.items() if amount > 0)


def quoted(text: str) -> str:
    """Return a text for YAML, in quotes unless it is a plain word."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    letters = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in letters)


def path_from(log: Path, target: Path) -> str:
    """Return the path of a log for a scenario file: relative if the log is below its folder."""
    whole, folder = log.absolute(), target.absolute().parent
    path = str(whole.relative_to(folder)) if whole.is_relative_to(folder) else str(whole)
    if "${" in path:
        raise TraceError(
            f"{log}: a scenario takes ${{…}} in a path for an environment variable; rename the "
            "file or its folder"
        )
    return str(whole) if path.startswith(("~", SAMPLE)) else path
