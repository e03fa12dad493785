"""The scenario's `workload`: which jobs arrive, and the base classes of trace formats and models.

A kind of workload is a class: its fields are the keys that a scenario gives, the text under a field
is its documentation, and a method returns the jobs. An entry point ``NAME = module:Class`` in the
group ``simkit.readers`` makes it ``workload: {type: NAME, …}``; no other list names it. The how-to
"Add a trace format" shows one.
"""

from __future__ import annotations

import gzip
import inspect
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

import numpy as np
from pydantic import (
    Field,
    GetCoreSchemaHandler,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import core_schema

from simkit import plugins
from simkit.errors import PluginError, TraceError, did_you_mean
from simkit.plugins import instantiate
from simkit.scenario.error_messages import problems_of, shown
from simkit.scenario.references import Arguments, File, ReaderName
from simkit.scenario.types import (
    BrokenRulesError,
    Count,
    Instant,
    Jobs,
    Positive,
    PositiveDuration,
    Section,
    check_order,
)
from simkit.workload import RowReport, Trace

GROUP: Final = "simkit.readers"
"""The group of entry points that holds the kinds of workload."""
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
    """Length of the new workload in weeks; null: as many as the log has."""


class TargetLoad(Section):
    """The offered load that arrivals are compressed or spread to."""

    offered_load: Positive
    """Requested area over capacity, from the first to the last submit."""
    processors: Count
    """Processors of the machine that it is the load of."""


class WorkloadSource(Section):
    """What every kind of workload takes."""

    type: str
    """The kind of workload."""
    window: Window | None = None
    """The part that is simulated; absent: all of it."""
    load: Positive = 1.0
    """Arrivals are compressed by this factor (2.0: twice the arrival rate), run times unchanged."""
    processors_scale: Positive = 1.0
    """Processors of each job times this, rounded, at least 1."""
    processors_max: Count | None = None
    """Jobs that ask for more processors ask for so many instead; null: no limit."""
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

    def arguments(self) -> dict[str, Any]:
        """Return the keys of this kind alone, without those that every kind takes."""
        keys = type(self).model_fields.keys() - WorkloadSource.model_fields.keys()
        return {key: getattr(self, key) for key in type(self).model_fields if key in keys}

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """Return the source with these arguments, as a scenario's author would write them.

        Raises TraceError, for all of them at once, if one is unknown, missing or out of its range,
        and for the keys that a scenario alone applies, such as `load`.
        """
        problems = [
            f"{name}: is applied by a scenario; from Python use simkit.workload.transform"
            for name in WorkloadSource.model_fields.keys() & arguments.keys() - {"type"}
        ]
        try:
            made = cls.model_validate({"type": ""} | arguments)
        except ValidationError as error:
            problems += [
                f"{'.'.join(map(str, problem.path))}: {problem.text}".removeprefix(": ")
                for problem in problems_of(error, cls)
            ]
        if problems:
            raise TraceError("\n".join(problems))
        return made


class TraceFormat(WorkloadSource):
    """A format of recorded traces: where the file is, and how it is read."""

    path: File
    """The file, plain or .gz; relative to the scenario file."""

    meanings: ClassVar[Mapping[str, str]] = {}
    """Rule of the reader's report → what it means, in a sentence, for `simkit trace check`."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of file names, such as ``.swf``; they count where no format knows the content."""

    @abstractmethod
    def read(self) -> Trace:
        """Read the jobs; raises TraceError, with file and line, for what cannot be read."""

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
        """Read the jobs."""
        return self.read()


class WorkloadModel(WorkloadSource):
    """A statistical model of jobs."""

    @abstractmethod
    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw the jobs; equal generators give equal jobs."""

    @property
    def is_drawn(self) -> bool:
        """True."""
        return True

    def trace(self, rng: np.random.Generator) -> Trace:
        """Draw the jobs."""
        return self.generate(rng)


class PluginWorkload(WorkloadSource):
    """A custom reader: a function in a file, or of an installed package."""

    reader: ReaderName
    """Name of an entry point, package.module:attribute or file.py:attribute."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the reader."""

    @property
    def is_drawn(self) -> bool:
        """Whether the reader takes a generator `rng`."""
        return _takes_generator(plugins.find(GROUP, self.reader))

    def trace(self, rng: np.random.Generator) -> Trace:
        """Call the reader: a function, or a subclass of `WorkloadSource`."""
        reader: Any = plugins.find(GROUP, self.reader)
        arguments: dict[str, Any] = dict(self.args)
        if _is_source(reader):
            reader = reader.of
        elif _takes_generator(reader):
            arguments["rng"] = rng
        made = instantiate(f"workload: the reader {self.reader!r}", reader, arguments)
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


def _is_source(reader: Any) -> bool:
    return isinstance(reader, type) and issubclass(reader, WorkloadSource)


# --- the kinds that are installed --------------------------------------------------------------


def kind_names() -> list[str]:
    """Return what `type` may be, without an import of any of it."""
    return [name for name in plugins.names(GROUP) if "." not in name]  # machines.… have a dot


def kinds() -> dict[str, type[WorkloadSource]]:
    """Return type → class of all installed kinds; readers that are functions are not among them."""
    found = {name: plugins.find(GROUP, name) for name in kind_names()}
    return {name: kind for name, kind in found.items() if _is_source(kind)}


def kind_of(name: str) -> type[WorkloadSource]:
    """Return the class that a `type` stands for.

    Raises PluginError, with the nearest name, if there is none.
    """
    names = kind_names()
    if names and name not in names:
        raise PluginError(f"unknown value {name!r}{did_you_mean(name, names)}")
    kind: type[WorkloadSource] = plugins.find(GROUP, name)
    if not _is_source(kind):
        raise PluginError(
            f"{name!r} is a function, not a kind of workload; write "
            f"{{type: plugin, reader: {name}, args: …}}"
        )
    return kind


def trace_formats() -> dict[str, type[TraceFormat]]:
    """Return type → class of the installed formats of traces."""
    return {name: kind for name, kind in kinds().items() if issubclass(kind, TraceFormat)}


def recognise(path: Path) -> str:
    """Return the `type` of a trace, told by its content, else by its name; empty if none knows it.

    Formats of other packages are asked before those bundled with simkit.
    """
    head = first_line(path)[1]
    formats = trace_formats()
    order = sorted(formats, key=lambda name: formats[name].__module__.startswith("simkit."))
    ending = path.name.lower().removesuffix(".gz")
    by_content = (name for name in order if formats[name].recognise(path, head))
    by_name = (name for name in order if ending.endswith(formats[name].suffixes or "\0"))
    return next(by_content, "") or next(by_name, "")


def format_of(path: Path) -> str:
    """Return the `type` of a trace as `recognise` does; raises TraceError if no format knows it."""
    if not path.exists():
        near = get_close_matches(path.name, [p.name for p in path.absolute().parent.glob("*")], n=1)
        hint = f"; did you mean {str(path.parent / near[0])!r}?" if near else "; check the path"
        raise TraceError(f"{path}: no such file{hint}")
    if name := recognise(path):
        return name
    if path.is_dir():
        raise TraceError(f"{path}: is a folder, and no format knows its content; name a file in it")
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
    with suppress(OSError, EOFError, zlib.error):
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


class OfKind:
    """Marks the field whose section is of the class that its key `type` names."""

    def models(self) -> dict[str, type[WorkloadSource]]:
        """Return tag → model, for the paths of errors."""
        return kinds()

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Judge the section by its own class; only this class is imported."""
        return core_schema.with_info_before_validator_function(self._validated, handler(source))

    def _validated(self, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            return value  # a section that is made already, or pydantic says what it must be
        known = ", ".join(kind_names())
        if "type" not in value:
            raise BrokenRulesError([(("type",), f"is missing; add one of: {known}")])
        name = value["type"]
        if not isinstance(name, str):
            text = f"must be one of {known}, not {shown(name)}"
            raise BrokenRulesError([(("type",), text)])
        try:
            kind = kind_of(name)
        except PluginError as error:
            raise BrokenRulesError([(("type",), str(error))]) from error
        try:
            return kind.model_validate(value, context=info.context)
        except ValidationError as error:
            unknown = any(part["type"] == "extra_forbidden" for part in error.errors())
            others = (
                {tag: model for tag, model in kinds().items() if tag != name} if unknown else {}
            )
            problems = problems_of(error, kind, tag=name, others=others)
            raise BrokenRulesError((problem.path, problem.text) for problem in problems) from error


WorkloadSection = Annotated[SerializeAsAny[WorkloadSource], OfKind()]
"""Any kind of workload, told apart by `type`."""
