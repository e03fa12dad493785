"""The scenario's `workload`: which jobs arrive, and how they are transformed.

Here are the base classes of trace formats and of models of jobs. Kinds of workload (see
`references`) are entry points of the group ``simkit.readers``. The how-to "Add a trace format"
shows one.
"""

from __future__ import annotations

import gzip
import inspect
import os
import zlib
from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, SerializeAsAny, model_validator

from simkit import plugins
from simkit.arrays import stream
from simkit.errors import PluginError, TraceError
from simkit.files import SpecialFileError, refuse_special
from simkit.scenario.references import Arguments, Family, File, Kind, ReaderName
from simkit.sections import (
    Count,
    Instant,
    Jobs,
    Positive,
    PositiveDuration,
    Section,
    check_order,
)
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.recorded import Recorded

BINARY: Final = "\0"
"""Stands for the first line of what is not text."""


class Window(Section):
    """The part of the log that is simulated."""

    start: Instant | None = None
    """Jobs submitted from here on: a duration after the first submission, or a date."""
    end: Instant | None = None
    """Jobs submitted before this: a duration after the first submission, or a date."""
    jobs: Jobs | None = None
    """A number of jobs, or "first..last" by rank of submission, from 0, both included."""

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        check_order(self.start, self.end)
        return self


class Resample(Section):
    """A new workload by drawing users and their weeks (Zakay & Feitelson 2014), seeded."""

    weeks: Count | None = None
    """Length of the new workload in weeks; null: that of the log."""


class TargetLoad(Section):
    """The offered load that arrivals are compressed or spread to."""

    offered_load: Positive
    """Requested area over capacity, from the first to the last submit."""
    processors: Count
    """Processors of the machine that it is the load of."""


class WorkloadSource(Kind):
    """What every kind of workload takes."""

    in_python = "simkit.workload.transform"

    dependencies: Literal["simulated", "recorded", "ignore"] = "simulated"
    """Whether a job waits for its release time, and for the simulated ends of the jobs that precede
    it plus think times; for its release time alone (recorded); or for neither (ignore)."""
    window: Window | None = None
    """The part that is simulated; absent: all of it."""
    load: Positive = 1.0
    """Arrivals are compressed by this factor (2.0: twice the arrival rate), run times unchanged."""
    processors_scale: Positive = 1.0
    """Instances of each task (processors, or units of several with gpus) times this, rounded, at
    least 1."""
    processors_max: Count | None = None
    """Maximum processors of a task: it loses instances, and a single instance with more is cut to
    this number, with its gpus and memory unchanged. null: no limit."""
    run_time_scale: Positive = 1.0
    """Run times and requested times of all jobs times this."""
    run_time_max: PositiveDuration | None = None
    """Longer run times and requested times are cut to this; null: no limit."""
    resample: Resample | None = None
    """Draw a new workload from the log's users and weeks; absent: the log as it is."""
    target_load: TargetLoad | None = None
    """Bring the arrivals to an offered load, after everything else; absent: as they are."""

    @property
    def is_drawn(self) -> bool:
        """Whether the jobs depend on the scenario's seed."""
        return False

    @abstractmethod
    def trace(self, rng: np.random.Generator) -> Trace:
        """Return the jobs before any of the transforms above; `rng` is for kinds that draw them.

        Raises TraceError if there are none.
        """

    def transformed(self, workload: Workload, seed: int, most_jobs: int | None = None) -> Workload:
        """Return the workload after the transforms, in the order in which they stand above.

        A resample draws from the stream "resample" of the seed, and makes at most about
        `most_jobs`; None: any number. Raises TraceError if nothing is left, or they do not fit.
        """
        from simkit.workload import transform

        workload = transform.with_dependencies(workload, self.dependencies)
        if (part := self.window) is not None:
            rank = None if part.jobs is None else (part.jobs.first, part.jobs.last)
            workload = transform.window(workload, start=part.start, end=part.end, jobs=rank)
        if self.load != 1.0:
            workload = transform.scale_load(workload, self.load)
        if self.processors_scale != 1.0:
            workload = transform.scale_processors(workload, self.processors_scale)
        if self.processors_max is not None:
            workload = transform.cap_processors(workload, self.processors_max)
        if self.run_time_scale != 1.0:
            workload = transform.scale_run_times(workload, self.run_time_scale)
        if self.run_time_max is not None:
            workload = transform.cap_run_times(workload, self.run_time_max)
        if self.resample is not None:
            rng = stream(seed, "resample")
            workload = transform.resample(workload, self.resample.weeks, rng, most_jobs=most_jobs)
        if (target := self.target_load) is not None:
            workload = transform.scale_to_load(workload, target.offered_load, target.processors)
        return workload

    def trace_for(self, resources: Collection[str], rng: np.random.Generator) -> Trace:
        """Return the jobs as `trace` does, for machines that have these resources.

        A kind whose keys leave it to the machines what jobs ask for reads it by them.
        """
        return self.trace(rng)

    def source_of(self, resource: str) -> str:
        """Return what makes jobs of this kind ask for a resource, for a warning; empty: nothing."""
        return ""

    def derived(self) -> dict[str, tuple[float, str]]:
        """Return key → (how much it makes, of what), of keys that make jobs or users of nothing.

        That is compared with `limits.jobs` of the scenario before anything is made. Default: the
        keys `jobs` and `users`, if the kind has them.
        """
        counts = {key: getattr(self, key, None) for key in ("jobs", "users")}
        return {key: (n, key) for key, n in counts.items() if isinstance(n, int)}

    def arguments(self) -> dict[str, Any]:
        """Return the keys of this kind alone, without those that every kind takes."""
        keys = type(self).model_fields.keys() - WorkloadSource.model_fields.keys()
        return {key: getattr(self, key) for key in type(self).model_fields if key in keys}


class TraceFormat(WorkloadSource):
    """A format of recorded traces: where the file is, and how it is read."""

    path: File
    """The file, plain or .gz; relative to the scenario file."""

    meanings: ClassVar[Mapping[str, str]] = {}
    """Rule of the reader's report → what it means, in a sentence, for `simkit trace check`."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of file names, such as ``.swf``; they count where no format knows the content."""
    of_tasks: ClassVar[bool] = False
    """Whether its jobs are of tasks for machines that it does not tell, not of processors."""

    @abstractmethod
    def read(self) -> Trace:
        """Read the jobs; raises TraceError, with file and line, for what cannot be read."""

    def recorded(self) -> tuple[Trace, Recorded]:
        """Read the jobs as `read` does, and what the log records of when and on what they ran."""
        trace = self.read()
        return trace, Recorded.without_starts(trace.workload)

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether the file or folder is of this format.

        Args:
            path: exists.
            head: the first line that is not empty, unpacked; empty for an empty file, `BINARY` for
                a folder or a binary file.
        """
        return False

    def facts(self) -> dict[str, Any] | None:
        """Return what `simkit trace info` shows; None: what follows from the jobs."""
        return None

    def reports(self) -> dict[str, RowReport]:
        """Return table → what was done to its rows; a format of one file calls its table ""."""
        return {"": self.read().report}

    def trace(self, rng: np.random.Generator) -> Trace:
        return self.read()


class WorkloadModel(WorkloadSource):
    """A statistical model of jobs."""

    has_arrivals: ClassVar[bool] = False
    """Whether it models the arrivals itself, so that it needs no `offered_load`."""

    @abstractmethod
    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw the jobs; equal generators give equal jobs."""

    @property
    def is_drawn(self) -> bool:
        return True

    def trace(self, rng: np.random.Generator) -> Trace:
        return self.generate(rng)


WORKLOADS = Family(WorkloadSource, "simkit.readers", "workload")  # type: ignore[type-abstract]
"""The kinds of workload that are installed."""


class PluginWorkload(WorkloadSource):
    """A custom reader: a function in a file, or of an installed package."""

    reader: ReaderName
    """Name of an entry point, package.module:attribute or file.py:attribute."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the reader."""

    @property
    def is_drawn(self) -> bool:
        """Whether the reader takes a generator `rng`."""
        return _takes_generator(plugins.find(WORKLOADS.group, self.reader))

    def trace(self, rng: np.random.Generator) -> Trace:
        """Call the reader: a function, or a subclass of `WorkloadSource`."""
        arguments = self.args | ({"rng": rng} if self.is_drawn else {})
        made = WORKLOADS.call(self.reader, arguments, f"workload: the reader {self.reader!r}")
        made = made.trace(rng) if isinstance(made, WorkloadSource) else made
        if not isinstance(made, Trace):
            raise PluginError(
                f"workload: the reader {self.reader!r} returned a {type(made).__name__}; "
                "a reader returns a simkit.workload.Trace"
            )
        return made


def _takes_generator(reader: Any) -> bool:
    try:
        return "rng" in inspect.signature(reader).parameters
    except (TypeError, ValueError):  # built in: it has no signature
        return False


# --- formats of traces --------------------------------------------------------------------------


def trace_formats() -> dict[str, type[TraceFormat]]:
    """Return type → class of the installed formats of traces."""
    kinds = WORKLOADS.classes().items()
    return {name: kind for name, kind in kinds if issubclass(kind, TraceFormat)}


def recognise(path: Path) -> str:
    """Return the `type` of a trace, by its content, else by its name; empty if none knows it.

    Formats of other packages are asked before those bundled with simkit.
    """
    head = first_line(path)[1]
    formats = trace_formats()
    order = sorted(formats, key=lambda name: plugins.is_of_simkit(formats[name].__module__))
    ending = path.name.lower().removesuffix(".gz")
    by_content = (name for name in order if formats[name].recognise(path, head))
    by_name = (name for name in order if ending.endswith(formats[name].suffixes or "\0"))
    return next(by_content, "") or next(by_name, "")


def format_of(path: Path) -> str:
    """Return the `type` of a trace as `recognise` does; raises TraceError if no format knows it."""
    if not os.path.exists(path):  # noqa: PTH110  False, not an error, for a name that is too long
        near = get_close_matches(path.name, [p.name for p in path.absolute().parent.glob("*")], n=1)
        hint = f"; did you mean {str(path.parent / near[0])!r}?" if near else "; check the path"
        raise TraceError(f"{path}: no such file{hint}")
    try:
        refuse_special(path)
    except SpecialFileError as error:
        raise TraceError(f"{path}: {error}") from None
    if name := recognise(path):
        return name
    if path.is_dir():
        raise TraceError(
            f"{path}: is a folder, but no format recognises its content; name a file in it"
        )
    number, line = first_line(path)
    what = (
        f"by this line, {line[:60]!r}" if line != BINARY else "as it is a binary file, or damaged"
    )
    docs = {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in trace_formats().items()}
    known = "".join(f"\n  --format {name}: {about}" for name, about in docs.items())
    raise TraceError(
        f"{path}:{number}: the format is not recognised {what}; check the file, or name its "
        f"format:{known}"
    )


def first_line(path: Path) -> tuple[int, str]:
    """Return number and text of a file's first line that is not empty, unpacked.

    (1, "") for an empty file; (1, `BINARY`) for a folder and for what cannot be read as text.
    """
    with suppress(OSError, EOFError, zlib.error, SpecialFileError):
        refuse_special(path)
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as lines:
            text = lines.read(1 << 16)
        if b"\0" not in text:
            for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
                if bare := line.strip().removeprefix("\ufeff"):
                    return number, bare
            return 1, ""
    return 1, BINARY


WorkloadSection = Annotated[SerializeAsAny[WorkloadSource], WORKLOADS]
"""Any kind of workload, distinguished by `type`."""
