"""A run made again from its run.json, and watched; it must be the same run.

Nothing of a normal run is kept for explanations: they cost what the run cost. `RunClock` writes and
reads the times of a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from math import inf, isfinite, nan
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from simkit.dates import date_text, is_dated, zone_of
from simkit.errors import RunError, SimkitError
from simkit.experiment import Experiment, Watch, carry_out, prepare
from simkit.plugins import code_refused
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.run_info import changed_inputs, versions
from simkit.scenario import Scenario, without_custom_metrics
from simkit.scenario.yaml_document import load_scenario
from simkit.sections import Instant as ScenarioInstant
from simkit.units import format_duration


@dataclass(frozen=True)
class Original:
    """A run that is to be explained, and the experiment that makes it again."""

    run: Run
    experiment: Experiment

    @property
    def clock(self) -> RunClock:
        """How its times are written."""
        submits = self.experiment.trace.workload.submit_time_s
        return clock_of(self.run, submits.min() if len(submits) else None)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.run.status == "complete"

    @property
    def end_s(self) -> float:
        """The last instant that the run recorded, in s; infinity for a complete one."""
        if self.complete:
            return inf
        last = [
            self.run.scan(table).select(column).max().collect().item()
            for table, column in (("timeline", "time_s"), ("allocations", "start_time_s"))
            if (self.run.folder / f"{table}.parquet").is_file()
        ]
        known = [float(time) for time in last if time is not None]
        if not known:
            raise RunError(
                f"{self.run.folder}: the run was {self.run.status} before anything was written, so "
                "nothing can be explained; run the scenario again"
            )
        return max(known)


def original(
    folder: RunOrFolder, *, allow_partial: bool = False, allow_code: bool = True
) -> Original:
    """Open a run and prepare the experiment that makes it again.

    Raises RunError if the run cannot be made again: Python objects took the place of parts of the
    scenario, its files have changed or are gone, or its scenario is not this simkit's.
    """
    run = open_run(folder, allow_partial=allow_partial)
    info = run.info
    if given := [name for name in info.get("given") or () if name != "metrics"]:
        raise RunError(
            f"{run.folder}: Python gave {' and '.join(map(str, given))} as objects, which run.json "
            "does not hold, so the run cannot be made again; name them in the scenario "
            "(my_policy.py:Mine)"
        )
    if changed := changed_inputs(info):
        raise RunError(
            f"{run.folder}: {', '.join(changed)} changed since the run or is gone, so another run "
            "would be explained; put the file back, or run the scenario again"
        )
    with nullcontext() if allow_code else code_refused():
        try:
            return Original(run, prepare(_scenario(run, info, allow_code)))
        except SimkitError as error:
            raise RunError(
                f"{run.folder}: the run cannot be made again from its run.json: {error}"
            ) from error


def _scenario(run: Run, info: Mapping[str, Any], allow_code: bool) -> Scenario:
    section = info.get("scenario")
    if not isinstance(section, dict) or not section:
        raise RunError(f"{run.folder}: run.json has no scenario; run the scenario again")
    return load_scenario(without_custom_metrics(section), single=True, allow_code=allow_code)


def rerun(first: Original, watch: Watch) -> Run:
    """Make a run again, watch its decisions, and return it.

    A run that did not finish is made again as far as it came (`watch` raises EndReachedError): the
    tables are then those of the original.

    Raises RunError if the digest is another one.
    """
    try:
        again = carry_out(first.experiment, watch=watch, quiet=True)
    except EndReachedError:
        return first.run
    except SimkitError:
        if first.complete:
            raise
        return first.run  # it ends here as the original did
    if first.complete and first.run.digest and again.digest != first.run.digest:
        raise RunError(f"{first.run.folder}: {_other(first.run)}")
    return again


def _other(run: Run) -> str:
    """Return in words that another run came out, and what may be why."""
    old, new = run.info.get("versions") or {}, versions()
    changed = [
        f"{name} {old.get(name)} → {new[name]}" for name in new if old.get(name) != new[name]
    ]
    why = f"; what differs: {', '.join(changed)}" if changed else ""
    return (
        "made again from its run.json, the run has another digest, so another run would be "
        f"explained{why}. Run the scenario again with this simkit, and explain that run"
    )


_CLOCK: Final = re.compile(
    r"\s*(-?)(?:(\d+)d )?\s*(\d{1,}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?\s*", re.ASCII
)
"""A time as it is printed: ``13:57:42`` or ``3d 17:33:38``."""
_DATE: Final = re.compile(r"\s*\d{4}-\d")


@dataclass(frozen=True)
class RunClock:
    """How the times of a run are written and read."""

    epoch_s: float = nan
    """Unix time of the trace's zero; NaN: it has no date."""
    zone: tzinfo = UTC
    zone_name: str = "UTC"
    first_s: float = nan
    """When the first job came, in s; NaN: unknown."""

    def text(self, time_s: float) -> str:
        """Return a time as a date in the zone, or since the trace's zero if it has no date."""
        if is_dated(self.epoch_s + time_s):
            return date_text(self.epoch_s + time_s, "%Y-%m-%d %H:%M:%S", self.zone)
        return format_duration(time_s)

    @property
    def line(self) -> str:
        """Which clock it is, in words."""
        if is_dated(self.epoch_s):
            return f"times in {self.zone_name}"
        if not isfinite(self.first_s):
            return "times since the trace's zero"
        return f"times since the trace's zero; the first job came at {self.text(self.first_s)}"

    def time_of(self, text: str | float) -> float:
        """Return seconds on the trace's clock of a time, in every form in which it is printed.

        Besides: seconds or a duration since the trace's zero, and dates with a zone.

        Raises RunError for anything else, and for a date where the zero's date is unknown.
        """
        if isinstance(text, str) and (match := _CLOCK.fullmatch(text)):
            sign, days, hours, minutes, seconds = match.groups()
            parts = float(days or 0), float(hours), float(minutes), float(seconds or 0)
            length = ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3]
            return -length if sign else length
        moment = _instant(self._with_zone(text))
        if not isinstance(moment, datetime):
            return moment
        if not is_dated(self.epoch_s):
            raise RunError(
                f"--at {text}: the run has no dates; give a time since the trace's zero "
                "(10d, 3h, 3d 17:33:38)"
            )
        return moment.timestamp() - self.epoch_s

    def _with_zone(self, text: str | float) -> str | float | datetime:
        """Return a date that names no zone as one in the run's; anything else as it is."""
        if not isinstance(text, str) or not _DATE.match(text):
            return text
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            return text
        return moment.replace(tzinfo=self.zone) if moment.tzinfo is None else moment


def _instant(given: str | float | datetime) -> float | datetime:
    try:
        found: float | datetime = TypeAdapter(ScenarioInstant).validate_python(given)
    except ValidationError as error:
        problem = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise RunError(f"--at: {problem}; or write a time as it is printed: 3d 17:33:38") from None
    return found


def dates_of(run: Run) -> tuple[float | None, str | None]:
    """Return the Unix time of a run's zero and its zone, None where unknown.

    Sun and prices may have dates even if the log has none.
    """
    site = run.info.get("power") or {}
    epoch, zone = run.info.get("epoch_s"), run.info.get("time_zone")
    if not epoch:
        epoch, zone = site.get("epoch_s"), site.get("zone") or zone
    return (float(epoch) if epoch else None), zone


def clock_of(run: Run, first_s: Any = None) -> RunClock:
    """Return the clock of a run; `first_s` is when its first job came, None if that is unknown."""
    epoch, name = dates_of(run)
    first = nan if first_s is None else float(first_s)
    return RunClock(first_s=first) if epoch is None else RunClock(epoch, *zone_of(name), first)


class EndReachedError(Exception):
    """The rerun has come as far as the run that it repeats."""
