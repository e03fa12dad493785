"""The signals of a run's site, made again when they are needed, and what its machines may draw.

Patterns, random levels, sums, means and scales are recomputed here. Files are read by the readers
of the scenario's own signals; how they are laid on the clock is in `course`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from simkit.dates import is_utc
from simkit.errors import SimkitError
from simkit.power.facts import GRID, POWER, TEMPERATURE, Quantity
from simkit.scenario.machine_power import (
    GroupedMachines,
    LinearMachine,
    MachineFacts,
    PueCurve,
    ResourceMachine,
    TableMachine,
)
from simkit.scenario.signals import (
    ConstantSignal,
    LevelsSignal,
    MeansSignal,
    Pattern,
    RecordedSignal,
    RecurringSignal,
    ScaledSignal,
    SignalSource,
    SumSignal,
)
from simkit.sections import Section
from simkit.verify.audit import Check, Floats, NotApplicableError, NotAuditedError, on_grid, rule
from simkit.verify.audited_run import AuditedRun
from simkit.verify.folder import RunFolder
from simkit.verify.inputs import inputs_below
from simkit.verify.site.course import (
    DAY,
    Clock,
    Course,
    Record,
    clock_of,
    offsets,
    on_calendar,
    on_run,
    pieces_of,
    total,
)

_Size = Callable[[], tuple[str, float]]
"""Returns peak or mean, and how large it is in W; nothing if a record is not scaled."""
_OF_WEATHER = 2.5e-6
"""Share of the rated power by which power from weather may differ: processors round otherwise."""
_BLOCK = 1024
"""Levels that are drawn at once."""
_MONDAY = 3.0 * DAY
"""Unix time 0 was a Thursday, three days into its week."""


class SiteSignals:
    """The signals of a run's site over the time of its ledger.

    Each method returns a `Course` and raises NotAuditedError, with the place, for a signal that
    is not recomputed.
    """

    def __init__(self, run: AuditedRun) -> None:
        """Begin with a run with rows of power."""
        self._run = run
        self._span = float(run.power["start_s"][0]), float(run.power["end_s"][-1])
        self._made: dict[str, Course | NotAuditedError] = {}
        self._facts: dict[str, float] = {}

    @cached_property
    def _full_w(self) -> float:
        """What all machines draw when busy, in W."""
        return sum(draw.full for draw in machine_draws(self._run).values())

    @cached_property
    def _clock(self) -> Clock:
        return clock_of(self._run)

    def facts(self) -> dict[str, float]:
        """Return what run.json must say of the site, as far as signals have been made again."""
        found = self._facts | {"machines.full_w": self._full_w}
        with suppress(NotAuditedError):
            found["load_w"] = self.load_w
        with suppress(NotAuditedError):
            found["epoch_s"] = self._clock.epoch
        return found

    def of_grid(self, key: str) -> Course:
        """Return a signal of the grid; the limit of a grid that has none is infinite."""
        grid = self._run.setting("power", "grid")
        if grid is None:
            return Course.constant(0.0)
        signal = getattr(grid, key)
        if signal is None:
            return Course.constant(np.inf)
        return self._at(f"power.grid.{key}", signal, GRID[key])

    def critical(self) -> Course:
        """Return the critical load in W."""
        return self._at("power.critical_w", self._run.setting("power", "critical_w"), POWER)

    @property
    def _pue(self) -> PueCurve:
        section: PueCurve = self._run.setting("power", "pue")
        return section

    def pue_of(self, machines_w: Floats) -> Floats:
        """Return (N,) the PUE when machines draw `machines_w`, without what the weather adds."""
        section = self._pue
        if section.by_load is None:
            return np.full(len(machines_w), section.ratio or 1.0)
        return _between(section.by_load, machines_w / (section.rated_w or self._full_w))

    def added_pue(self) -> Course:
        """Return what the temperature outside adds to the PUE."""
        section = self._pue
        if section.temperature is None:
            return Course.constant(0.0)
        course = self._at("power.pue.temperature", section.temperature, TEMPERATURE)
        added = _between(section.added_by_temperature or {0.0: 0.0}, course.values)
        return Course(course.times, np.where(np.isnan(course.values), np.nan, added))

    def source(self, name: str) -> Course:
        """Return the power of a source in W."""
        section = self._run.setting("power", "sources")[name]
        place = f"power.sources.{name}"

        def size() -> tuple[str, float]:
            if section.peak_w is not None:
                return "peak", section.peak_w
            if section.times_load is not None:
                return "mean", section.times_load * self.load_w
            return "", 0.0

        return self._at(place, section.signal, POWER, size)

    @cached_property
    def load_w(self) -> float:
        """What the site draws in the mean when all its machines are busy, in W."""
        run, full = self._run, self._full_w
        if run.setting("power", "pue", "temperature") is not None:
            raise NotAuditedError("the load of busy machines depends on the weather")
        return full * float(self.pue_of(np.array([full]))[0]) + self._critical_mean()

    def _critical_mean(self) -> float:
        critical = self._run.setting("power", "critical_w")
        if isinstance(critical, ConstantSignal):
            return critical.value
        jobs, tasks = self._run.jobs, self._run.tasks
        if not self._run.complete or not jobs.height or not tasks["gang"].all():
            raise NotAuditedError("the mean of the critical load is not known")
        submitted = jobs.select("job_id", "submit_time_s").unique("job_id")
        ends = tasks.select("job_id", "trace_run_time_s").join(submitted, on="job_id")
        last = ends.select((pl.col("submit_time_s") + pl.col("trace_run_time_s")).max()).item()
        first = min(0.0, float(str(jobs["submit_time_s"].min())))
        course = self._make("power.critical_w", critical, POWER, (first, float(last)), None)
        return course.integral(first, float(last)) / (float(last) - first)

    def _at(
        self, place: str, section: SignalSource, quantity: Quantity, size: _Size | None = None
    ) -> Course:
        """Return the signal at a place over the run, made once; the error names the place."""
        if place not in self._made:
            try:
                self._made[place] = self._make(place, section, quantity, self._span, size)
            except NotAuditedError as error:
                self._made[place] = NotAuditedError(f"{place}: {error}")
            except (OSError, EOFError, ValueError, SimkitError, zlib.error) as error:
                why = f"{type(error).__name__}: {error}"
                self._made[place] = NotAuditedError(f"{place}: it cannot be read again ({why})")
        made = self._made[place]
        if isinstance(made, NotAuditedError):
            raise made
        return made

    def _make(
        self, place: str, section: SignalSource, quantity: Quantity,
        span: tuple[float, float], size: _Size | None,
    ) -> Course:  # fmt: skip
        """Return the course of a section; `size` says to which peak or mean a record is scaled."""
        if not span[0] <= span[1]:
            raise NotAuditedError("the rows of the ledger are not in order")
        if isinstance(section, ConstantSignal):
            return Course.constant(section.value)
        if isinstance(section, RecurringSignal):
            pattern = section.checked_pattern()
            return recurring(pattern, self._clock if pattern.local else None, *span)
        if isinstance(section, LevelsSignal):
            return _levels(section, self._run.scenario.seed, place, *span)
        if isinstance(section, SumSignal):
            parts = enumerate(section.signals)
            each = [(f"{place}.signals.{n}", part) for n, part in parts]
            return total([self._make(at, part, quantity, span, None) for at, part in each])
        if isinstance(section, ScaledSignal):
            of = self._make(f"{place}.signal", section.signal, quantity, span, None)
            return of.scaled(section.factor)
        if isinstance(section, MeansSignal):
            step = on_grid(section.step)
            whole = np.floor(span[0] / step) * step, (np.floor(span[1] / step) + 1.0) * step
            of = self._make(f"{place}.signal", section.signal, quantity, whole, size)
            return of.means(step, *span)
        if isinstance(section, RecordedSignal):
            return self._recorded(place, section, quantity, span, size)
        raise NotAuditedError(f"signals of type {section.type} are not recomputed")

    def _recorded(
        self, place: str, section: RecordedSignal, quantity: Quantity,
        span: tuple[float, float], size: _Size | None,
    ) -> Course:  # fmt: skip
        """Return what a file says on the clock of the run."""
        record = self._read(section)
        if record.unit != quantity.unit:
            raise NotAuditedError(f"the file is in {record.unit}")
        record = record.at_least(quantity.least)
        gaps, align = section.gaps, self._run.setting("power", "align")
        what, wanted = ("", 0.0) if size is None else size()
        factor = 1.0
        if what:
            pieces = record.pieces(gaps)
            factor = wanted / (float(pieces.values.max()) if what == "peak" else pieces.mean())
            self._facts[f"{place.removeprefix('power.')}.factor"] = factor
        if align.type == "calendar":
            return on_calendar(record, gaps, self._clock, *span).scaled(factor)
        pieces = record.pieces(gaps)
        zero = self._clock.epoch
        if align.type == "offset":
            zero = float(pieces.begins[0]) + align.offset
        course = on_run(pieces, zero, section.past_end, *span)
        return Course(course.times, course.values, record.slack).scaled(factor)

    def _read(self, section: RecordedSignal) -> Record:
        """Return what a file holds, by simkit's own readers alone, from its recorded input."""
        if not type(section).__module__.startswith("simkit.traces."):
            raise NotAuditedError(f"signals of type {section.type} are not recomputed")
        named = {key: getattr(section, key, None) for key in ("path", "curves")}
        paths = {key: str(self._input(path)) for key, path in named.items() if path is not None}
        trace = section.model_copy(update=paths).read()
        if trace.typical:
            raise NotAuditedError("a typical year is not laid on one year again")
        rated = getattr(section, "rated_w", None) or float(trace.value.max(initial=0.0))
        computed = hasattr(section, "rated_w")
        each = rated * getattr(section, "turbines", 1)
        return Record.of(trace, _OF_WEATHER * each if computed else 0.0)

    def _input(self, recorded: str) -> Path:
        """Return an input file by its path in the scenario."""
        path = next(inputs_below(self._run, recorded), None)
        if path is None:
            raise NotAuditedError(f"{Path(recorded).name} is not among the recorded inputs")
        return path


def _between(points: Mapping[float, float], at: Floats) -> Floats:
    """Return (N,) values on the lines between points, level beyond them."""
    places, values = np.array(sorted(points.items())).T
    return np.asarray(np.interp(at, places, values))


# ---- signals without a file ---------------------------------------------------------------------


def recurring(pattern: Pattern, clock: Clock | None, first: float, last: float) -> Course:
    """Return a pattern over a span of the run, on a local clock or, without one, from its zero."""
    period = on_grid(pattern.period_s)
    entries = sorted((on_grid(at), value) for at, value in pattern.entries.items())
    at, values = (np.array(column) for column in zip(*entries, strict=True))
    pieces_of(first, last, period / len(at), "a pattern that recurs")
    epoch, begins, ahead = 0.0, np.array([first]), np.array([0.0])
    if clock is not None:
        epoch = clock.epoch
        begins, ahead = offsets(pattern.zone or clock.shown, epoch + first, epoch + last)
    shift = _MONDAY if clock is not None and period == 7.0 * DAY else 0.0
    times, found = [], []
    for begin, end, offset in zip(begins, [*begins[1:], epoch + last], ahead, strict=True):
        local = begin + offset + shift, end + offset + shift
        periods = np.arange(np.floor(local[0] / period), np.floor(local[1] / period) + 1.0)
        edges = (periods[:, None] * period + at).ravel()
        row = int(np.searchsorted(edges, local[0], side="right"))
        inside = edges[row : np.searchsorted(edges, local[1], side="left")]
        times.append(np.append(local[0], inside) - offset - shift - epoch)
        # before the first entry of a period the last one holds
        found.append(values[np.arange(row - 1, row + len(inside)) % len(at)])
    return Course(np.concatenate(times), np.concatenate(found))


def _levels(section: LevelsSignal, seed: int, place: str, first: float, last: float) -> Course:
    """Return random levels over a span of the run; each depends on seed, place and number alone."""
    step = on_grid(section.step)
    pieces_of(first, last, step, "a signal of levels")
    numbers = np.arange(np.floor(first / step), np.floor(last / step) + 1.0)
    blocks = np.floor(numbers / _BLOCK).astype(np.int64)
    drawn = [_drawn(int(block), seed, place) for block in np.unique(blocks)]
    within = (numbers - float(blocks[0]) * _BLOCK).astype(np.int64)
    high = np.concatenate(drawn)[within] < section.high_share
    return Course(numbers * step, np.where(high, section.high_w, section.low_w))


def _drawn(block: int, seed: int, place: str) -> Floats:
    source = np.random.SeedSequence([seed, crc32(place.encode())], spawn_key=(block % 2**64,))
    return np.random.default_rng(source).random(_BLOCK)


# ---- clocks -------------------------------------------------------------------------------------


@rule
def check_clocks(run: RunFolder, check: Check) -> None:
    """Files of power are laid on the run's clock by the zone of their place.

    A file in UTC does not say where its sun shines. Where the run's zone is another, the scenario
    must name the place's zone.
    """
    power = run.scenario.power
    if power is None:
        raise NotApplicableError("the run has no power")
    if power.align.type != "calendar":
        raise NotApplicableError("files are not aligned by calendar")
    zone = power.align.zone or run.manifest["time_zone"]
    recorded = run.manifest.get("power") or {}
    if recorded.get("zone") != zone:
        check.add("the run's zone is not recorded", {"zone": zone, "found": recorded.get("zone")})
    unknown = []
    for place, section in _tables_in(power, ()):
        if getattr(section, "format", None) and not (section.zone or section.site_zone):
            unknown.append(place)
            continue
        check.examined += 1
        clock = section.zone or "UTC"
        row = {"signal": place, "path": section.path, "zone": section.site_zone or clock}
        if recorded.get(f"{place}.zone") != row["zone"]:
            check.add("another zone is recorded", row | {"found": recorded.get(f"{place}.zone")})
        if zone and not is_utc(zone) and section.site_zone is None and is_utc(clock):
            message = "the file is in UTC, the run's zone is another, and site_zone is not declared"
            check.add(message, row | {"zone_of_run": zone})
    if unknown and not check.found:
        places = ", ".join(unknown)
        raise NotAuditedError(f"{places}: the zone that the format of a file gives is not known")
    if not check.examined:
        raise NotApplicableError("no signal is read from a table of times")


def _tables_in(section: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the signals of a section that are read from tables, with their dotted places."""
    if hasattr(section, "site_zone"):
        of_source = path[0] == "sources" and path[2:3] == ("signal",)
        yield ".".join(path[:2] + path[3:] if of_source else path), section
    parts = dict(section) if isinstance(section, Section | Mapping) else {}
    parts |= dict(enumerate(section)) if isinstance(section, tuple) else {}
    for name, part in parts.items():
        yield from _tables_in(part, (*path, str(name)))


# ---- what machines draw -------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineDraw:
    """What one machine draws, in W."""

    idle: float
    """When on without tasks, and while it shuts down."""
    off: float
    """When switched off."""
    boot: float
    """While it boots."""
    boot_s: float
    """How long it boots."""
    shutdown_s: float
    """How long it shuts down."""
    added: dict[str, Floats]
    """Resource → W above idle at equal steps of its use, from 0 to 1."""

    @property
    def full(self) -> float:
        """The power when all resources are in use."""
        return self.idle + float(sum(watts[-1] for watts in self.added.values()))

    @property
    def linear(self) -> bool:
        """Whether the power is linear in the use of each resource."""
        return all(len(watts) == 2 for watts in self.added.values())


def machine_draws(run: RunFolder) -> dict[int, MachineDraw]:
    """Return machine id → what it draws."""
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    pool = len(machines) == 1 and "processors" in run.resources
    number = float(machines[0]["capacity"]["processors"]) if pool else 1.0
    return {
        int(machine["id"]): _draw_of(run, section, machine["capacity"], number)
        for machine, section in zip(machines, _sections(run, machines), strict=True)
    }


def _sections(run: RunFolder, machines: list[dict[str, Any]]) -> Sequence[MachineFacts]:
    """Return the scenario's section on the power of each machine."""
    section = run.setting("power", "machines")
    if not isinstance(section, GroupedMachines):
        return [section] * len(machines)
    groups = section.groups
    chosen = []
    for machine in machines:
        name = str(machine["name"])
        group = re.sub(r"-\d+$", "", name)
        named = [key for key in groups if key != "default" and key in (name, group)]
        chosen.append(groups[named[0] if named else "default"])
    return chosen


def _draw_of(
    run: RunFolder, section: MachineFacts, capacity: dict[str, float], number: float
) -> MachineDraw:
    if isinstance(section, ResourceMachine):
        idle = section.idle_w
        added = {name: [0.0, watts] for name, watts in section.per_resource.items()}
    else:
        assert isinstance(section, LinearMachine | TableMachine)
        table: tuple[float, ...] = (
            section.table if isinstance(section, TableMachine) else (section.idle_w, section.full_w)
        )
        idle = table[0]
        usual = [name for name in ("cpu", "processors") if name in run.resources]
        resource = section.resource or (*usual, run.resources[0])[0]
        added = {resource: [watts - idle for watts in table]}
    return MachineDraw(
        number * idle,
        number * section.off_w,
        number * (idle if section.boot_w is None else section.boot_w),
        section.boot,
        section.shutdown,
        {r: number * np.array(watts) for r, watts in added.items() if capacity.get(r)},
    )
