"""The signals of a run's site, by their places in the scenario, made again when they are needed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.folder import RunFolder
from simkit.verify.inputs import MissingInputError, inputs_below
from simkit.verify.numbers import Floats, on_grid, seconds
from simkit.verify.site.calendar import on_calendar
from simkit.verify.site.clock import Clock, clock_of
from simkit.verify.site.course import Course, NotRecomputedError, total
from simkit.verify.site.patterns import levels, schedule
from simkit.verify.site.record import Pieces, Record, on_run
from simkit.verify.site.tables import record_of
from simkit.verify.site.units import CARBON, PRICE, TEMPERATURE, WATT
from simkit.verify.site.weather import record_of_weather

_TABLES = ("csv", "gleamm", "gleamm-sample", "generation", "carbon", "price")
_WEATHER = ("nsrdb", "wind-toolkit")
_SAMPLE = "gleamm_like_2019.csv.gz"
_SAMPLE_ZONE = "UTC-06:00"
_UNITS = {
    "import_limit_w": WATT, "export_limit_w": WATT, "price_per_kwh": PRICE,
    "export_price_per_kwh": PRICE, "carbon_gco2_per_kwh": CARBON,
}  # fmt: skip
"""Key of the grid → the unit of its signal."""
_Size = Callable[[], tuple[str, float]]
"""Returns peak or mean, and how large it is in W; nothing if a record is not scaled."""
_LEAST = {WATT: 0.0, CARBON: 0.0}
"""Unit → the least value that counts."""


class SiteSignals:
    """The signals of a run's site over the time of its ledger.

    Each method returns a `Course` and raises NotRecomputedError, with the place, for a signal that
    is not recomputed.
    """

    def __init__(
        self, run: RunFolder, span: tuple[float, float], full_w: Callable[[], float]
    ) -> None:
        """Begin.

        Args:
            run: with power.
            span: begin and end of its ledger, in s.
            full_w: returns what all machines draw when busy, in W.
        """
        self._run, self._span, self._full_w = run, span, full_w
        self._made: dict[str, Course | NotRecomputedError] = {}
        self._facts: dict[str, float] = {}

    @cached_property
    def _clock(self) -> Clock:
        return clock_of(self._run)

    def facts(self) -> dict[str, float]:
        """Return what run.json must say of the site, as far as signals have been made again."""
        found = self._facts | {"machines.full_w": self._full_w()}
        with suppress(NotRecomputedError):
            found["load_w"] = self.load_w
        with suppress(NotRecomputedError):
            found["epoch_s"] = self._clock.epoch
        return found

    def of_grid(self, key: str) -> Course:
        """Return a signal of the grid; the limit of a grid that has none is infinite."""
        grid = self._run.setting("power", "grid")
        if grid is None:
            return Course.constant(0.0)
        if key == "import_limit_w" and grid.get(key) is None:
            return Course.constant(np.inf)
        return self._at(f"power.grid.{key}", grid.get(key), _UNITS[key])

    def critical(self) -> Course:
        """Return the critical load in W."""
        return self._at("power.critical_w", self._run.setting("power", "critical_w"), WATT)

    @property
    def _pue(self) -> Mapping[str, Any]:
        section = self._run.setting("power", "pue")
        if not isinstance(section, Mapping):
            raise NotRecomputedError("power.pue: the scenario does not state it")
        return section

    def pue_of(self, machines_w: Floats) -> Floats:
        """Return (N,) the PUE when machines draw so many W, without what the weather adds."""
        section = self._pue
        if section.get("by_load") is None:
            return np.full(len(machines_w), float(section.get("ratio") or 1.0))
        rated = float(section.get("rated_w") or self._full_w())
        return _between(section["by_load"], machines_w / rated)

    def added_pue(self) -> Course:
        """Return what the temperature outside adds to the PUE."""
        section = self._pue
        if section.get("temperature") is None:
            return Course.constant(0.0)
        course = self._at("power.pue.temperature", section["temperature"], TEMPERATURE)
        added = _between(section.get("added_by_temperature") or {"0": 0.0}, course.values)
        return Course(course.times, np.where(np.isnan(course.values), np.nan, added))

    def source(self, name: str) -> Course:
        """Return the power of a source in W."""
        section = self._run.setting("power", "sources")[name]
        place = f"power.sources.{name}"

        def size() -> tuple[str, float]:
            if section.get("peak_w") is not None:
                return "peak", float(section["peak_w"])
            if section.get("times_load") is not None:
                return "mean", float(section["times_load"]) * self.load_w
            return "", 0.0

        return self._at(place, section.get("signal"), WATT, size)

    @cached_property
    def load_w(self) -> float:
        """What the site draws in the mean when all its machines are busy, in W."""
        run, full = self._run, self._full_w()
        if run.setting("power", "pue", "temperature") is not None:
            raise NotRecomputedError("the load of busy machines depends on the weather")
        return full * float(self.pue_of(np.array([full]))[0]) + self._critical_mean()

    def _critical_mean(self) -> float:
        critical = self._run.setting("power", "critical_w")
        if isinstance(critical, (int, float)):
            return float(critical)
        jobs, tasks = self._run.jobs, self._run.tasks
        if not self._run.complete or not jobs.height or not tasks["gang"].all():
            raise NotRecomputedError("the mean of the critical load is not known")
        submitted = jobs.select("job_id", "submit_time_s").unique("job_id")
        ends = tasks.select("job_id", "trace_run_time_s").join(submitted, on="job_id")
        last = ends.select((pl.col("submit_time_s") + pl.col("trace_run_time_s")).max()).item()
        first = min(0.0, float(str(jobs["submit_time_s"].min())))
        course = self._make("power.critical_w", critical, WATT, (first, float(last)), None)
        return course.integral(first, float(last)) / (float(last) - first)

    def _at(
        self,
        place: str,
        section: Any,
        unit: str,
        size: _Size | None = None,
    ) -> Course:
        """Return the signal at a place over the run, made once; the error names the place."""
        if place not in self._made:
            try:
                self._made[place] = self._make(place, section, unit, self._span, size)
            except (MissingInputError, NotRecomputedError) as error:
                self._made[place] = NotRecomputedError(f"{place}: {error}")
            except (OSError, EOFError, ValueError, KeyError, zlib.error) as error:
                why = f"{type(error).__name__}: {error}"
                self._made[place] = NotRecomputedError(f"{place}: it cannot be read again ({why})")
        made = self._made[place]
        if isinstance(made, NotRecomputedError):
            raise made
        return made

    def _make(
        self, place: str, section: Any, unit: str, span: tuple[float, float],
        size: _Size | None,
    ) -> Course:  # fmt: skip
        """Return the course of a section; `size` says to which peak or mean a record is scaled."""
        if not span[0] <= span[1]:
            raise NotRecomputedError("the rows of the ledger are not in order")
        if isinstance(section, (int, float)) and not isinstance(section, bool):
            return Course.constant(section)
        if not isinstance(section, Mapping):
            raise NotRecomputedError("the scenario does not state it")
        kind = section.get("type")
        if kind == "constant":
            return Course.constant(section["value"])
        if kind == "schedule":
            return schedule(section, self._clock, *span)
        if kind == "levels":
            return levels(section, int(self._run.manifest["seed"]), place, *span)
        if kind == "sum":
            parts = enumerate(section["signals"])
            each = [(f"{place}.signals.{n}", part) for n, part in parts]
            return total([self._make(at, part, unit, span, None) for at, part in each])
        if kind == "scaled":
            of = self._make(f"{place}.signal", section["signal"], unit, span, None)
            return of.scaled(float(section["factor"]))
        if kind == "means":
            step = on_grid(seconds(section["step"]))
            whole = np.floor(span[0] / step) * step, (np.floor(span[1] / step) + 1.0) * step
            of = self._make(f"{place}.signal", section["signal"], unit, whole, size)
            return of.means(step, *span)
        return self._recorded(place, section, unit, span, size)

    def _recorded(
        self, place: str, section: Mapping[str, Any], unit: str, span: tuple[float, float],
        size: _Size | None,
    ) -> Course:  # fmt: skip
        """Return what a file says on the clock of the run."""
        record = self._read(section)
        if record.unit != unit:
            raise NotRecomputedError(f"the file is in {record.unit}")
        if unit in _LEAST:
            record = record.at_least(_LEAST[unit])
        gaps, align = section.get("gaps") or {}, self._run.setting("power", "align") or {}
        what, wanted = ("", 0.0) if size is None else size()
        factor = 1.0
        if what:
            pieces = record.pieces(gaps)
            factor = wanted / (float(pieces.values.max()) if what == "peak" else pieces.mean())
            self._facts[f"{place.removeprefix('power.')}.factor"] = factor
        if align.get("type", "calendar") == "calendar":
            return on_calendar(record, gaps, self._clock, *span).scaled(factor)
        pieces = record.pieces(gaps)
        zero = self._zero(align, pieces)
        past_end = str(section.get("past_end", "error"))
        course = on_run(pieces, zero, past_end, *span)
        return Course(course.times, course.values, record.slack).scaled(factor)

    def _zero(self, align: Mapping[str, Any], pieces: Pieces) -> float:
        if align.get("type") == "offset":
            return float(pieces.begins[0]) + seconds(align.get("offset") or 0.0)
        return self._clock.epoch

    def _read(self, section: Mapping[str, Any]) -> Record:
        kind = section.get("type")
        if kind == "gleamm-sample":
            path = Path(str(resources.files("simkit.traces.samples").joinpath(_SAMPLE)))
            return record_of({**section, "zone": _SAMPLE_ZONE, "unit": "kW"}, path)
        if kind in _TABLES:
            return record_of(section, self._input(section["path"]))
        if kind in _WEATHER:
            curves = section.get("curves")
            path = self._input(section["path"])
            return record_of_weather(section, path, curves and self._input(curves))
        raise NotRecomputedError(f"signals of type {kind} are not recomputed")

    def _input(self, recorded: str) -> Path:
        """Return an input file by its path in the scenario."""
        path = next(inputs_below(self._run, str(recorded)), None)
        if path is None:
            raise NotRecomputedError(f"{Path(recorded).name} is not among the recorded inputs")
        return path


def _between(points: Mapping[str, Any], at: Floats) -> Floats:
    """Return (N,) values on the lines between points, level beyond them."""
    known = sorted((float(place), float(value)) for place, value in points.items())
    places, values = np.array(known).T
    return np.asarray(np.interp(at, places, values))
