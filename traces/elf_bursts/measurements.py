"""The programs that are measured: sources, compiler, run time, signature; plan and measurements.

The run time is the processor time of the process, which others disturb least. The signature is the
sizes of the sections of the ELF file, and of the file. All kinds of programs occur equally often,
with run times spread evenly: a few sizes of input are measured, and the size for a wanted run time
is interpolated between these. A file keeps measurements as they are made, so that a stopped command
resumes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module, resources
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PluginError, TraceError
from simkit.files import SpecialFileError, parse_json, refuse_special

_FOLDER: Final = Path(str(resources.files(__package__).joinpath("programs")))
_SUFFIX: Final = ".cpp"

KINDS: Final = tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))
"""Names of the programs."""
LEVELS: Final = ("O0", "O1", "O2", "O3")
"""Levels of optimisation."""


@dataclass(frozen=True)
class Program:
    """A program for one size of its input."""

    kind: str
    level: str
    heap: bool
    """Whether its arrays are on the heap."""
    size: int

    def compile(self, compiler: str, target: Path) -> None:
        """Write its ELF file; raises TraceError with the compiler's first message."""
        command = [
            compiler, f"-{self.level}", f"-DSIZE={self.size}", *(["-DHEAP"] if self.heap else []),
            str(_FOLDER / f"{self.kind}{_SUFFIX}"), "-o", str(target),
        ]  # fmt: skip
        found = subprocess.run(
            command, capture_output=True, text=True, check=False, process_group=0
        )
        if found.returncode:
            message = next(iter(found.stderr.splitlines()), f"exit status {found.returncode}")
            raise TraceError(
                f"elf-bursts: {compiler} cannot compile {self.kind} of size {self.size}: {message}"
            )


def sources_hash() -> str:
    """Return a hash of the programs' sources, so that rows of different ones are not mixed."""
    found = sha256()
    for path in sorted(_FOLDER.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def find_compiler(name: str = "g++") -> str:
    """Return the compiler's path; raises TraceError if there is none."""
    path = shutil.which(name)
    if path is None:
        raise TraceError(
            f"elf-bursts: {name} is not on the PATH, and the programs are compiled by it; install "
            "GCC (Debian: apt install g++)"
        )
    return path


def compiler_version(compiler: str) -> str:
    """Return the first line of what the compiler says of itself."""
    found = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()[0]


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(processor: int) -> None:
    """Keep this thread, and what it starts from now on, on one processor, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {processor})


def run_time_s(path: Path, most_s: float, runs: int) -> list[float] | None:
    """Return the processor times, user and system, of some runs of a program, in seconds.

    None if one was killed because it took `most_s` seconds, rounded up. Raises TraceError if one
    failed.
    """
    found = []
    for _ in range(runs):
        process = subprocess.Popen(
            [path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C must not look like a program that fails
        )  # fmt: skip
        if hasattr(resource, "prlimit"):
            limit = ceil(most_s)
            with suppress(ProcessLookupError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            return None
        if process.returncode:
            raise TraceError(
                f"elf-bursts: {path.name} failed with exit status {process.returncode}; it may "
                "need more memory than there is"
            )
        found.append(usage.ru_utime + usage.ru_stime)
    return found


SECTIONS: Final = (
    "interp", "gnu.hash", "dynsym", "dynstr", "gnu.version", "gnu.version_r", "rela.dyn",
    "rela.plt", "init", "plt", "plt.got", "text", "fini", "rodata", "eh_frame_hdr", "eh_frame",
    "init_array", "fini_array", "dynamic", "got", "got.plt", "data", "bss", "comment", "symtab",
    "strtab", "shstrtab",
)  # fmt: skip
"""Sections, without the dot in front of their names: those of table I in "SchedQRM" (2019), and
others that compilers make."""


def require_pyelftools() -> None:
    """Raise PluginError, which says what to install, without pyelftools."""
    try:
        import_module("elftools.elf.elffile")
    except ModuleNotFoundError as error:
        raise PluginError(
            "elf-bursts: sections are read by pyelftools, which is not installed; "
            "pip install 'simkit-cluster[elf]'"
        ) from error


def read_signature(path: Path) -> dict[str, int]:
    """Return the size in bytes of each of `SECTIONS`, 0 where it is absent, and ``file_size``.

    Raises PluginError without pyelftools, TraceError if the file cannot be read or is not in ELF.
    """
    require_pyelftools()
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    sizes = dict.fromkeys(SECTIONS, 0)
    try:
        with path.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                name = section.name.removeprefix(".")
                if name in sizes:
                    sizes[name] = int(section["sh_size"])
        size = path.stat().st_size
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read: {error.strerror or error}; name an executable file"
        ) from None
    except (ELFError, ValueError, LookupError, TypeError, AttributeError):  # all of damaged files
        raise TraceError(
            f"{path}: is not an ELF file; compile the programs on Linux or another system that "
            "uses ELF"
        ) from None
    return {**sizes, "file_size": size}


_FORM = 1


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from measuring into it meanwhile.

    Raises TraceError if it cannot be made, or if another process measures.
    """
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _cannot(folder, error) from None
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = "another process measures there; wait for it, or name another folder"
                raise TraceError(f"{folder}: {text}") from None
        yield
    finally:
        os.close(lock)


@dataclass
class Measurements:
    """What has been measured so far, one JSON object a line.

    The first records seed, kinds, machine, compiler and sources.
    """

    path: Path
    curves: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    """Sizes and run times in seconds of each program, by its kind and level."""
    rows: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    """Signature and run times by number of row; None: it took too long."""
    again: dict[int, float | None] = field(default_factory=dict)
    """The run time of a row at another time, in seconds; None: it took too long."""

    @classmethod
    def in_folder(cls, folder: Path, made_by: Mapping[str, Any]) -> Measurements:
        """Open the file of a folder, or begin one.

        Args:
            folder: where it is; made if absent.
            made_by: what must be the same as in the file.

        Raises TraceError if they are not, or if the file is not one of these.
        """
        found = cls(folder / "measured.jsonl")
        first = {"form": _FORM, **made_by}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not found.path.exists():
                if others := sorted(path.name for path in folder.iterdir()):
                    raise TraceError(
                        f"{folder}: holds no measurements, but {others[0]}"
                        f"{', …' * (len(others) > 1)}; name a new folder"
                    )
                found._append(first)
                return found
            refuse_special(found.path)
            text = found.path.read_text(encoding="utf-8")
            lines = text.splitlines(keepends=True)
            if lines and not lines[-1].endswith("\n"):  # cut off as it was written
                lines.pop()
                found.path.write_text("".join(lines), encoding="utf-8")
        except OSError as error:
            raise _cannot(folder, error) from None
        except SpecialFileError as error:
            raise TraceError(f"{found.path}: {error}") from None
        except UnicodeDecodeError:
            raise _no_measurement(found.path, 1) from None
        records = [_parsed(found.path, number, line) for number, line in enumerate(lines, 1)]
        if not records:
            found._append(first)
            return found
        if others := [key for key in first if records[0].get(key) != first[key]]:
            key = others[0]
            raise TraceError(
                f"{found.path}: {key} is {records[0].get(key)!r} there, but {first[key]!r} now; "
                "resume with the same, or name a new folder"
            )
        for number, record in enumerate(records[1:], 2):
            try:
                found._take(record)
            except KeyError:
                raise _no_measurement(found.path, number) from None
        return found

    def add_curve(self, name: str, sizes: list[float], times: list[float]) -> None:
        """Keep the run times of a program by size."""
        self.curves[name] = sizes, times
        self._append({"curve": name, "sizes": sizes, "times": times})

    def add_row(self, number: int, row: dict[str, Any] | None) -> None:
        """Keep a row."""
        self.rows[number] = row
        self._append({"row": number, "found": row})

    def add_again(self, number: int, run_s: float | None) -> None:
        """Keep the run time of a row that was measured again."""
        self.again[number] = run_s
        self._append({"again": number, "run_s": run_s})

    def _take(self, record: dict[str, Any]) -> None:
        if "curve" in record:
            self.curves[record["curve"]] = record["sizes"], record["times"]
        elif "row" in record:
            self.rows[record["row"]] = record["found"]
        else:
            self.again[record["again"]] = record["run_s"]

    def _append(self, record: Mapping[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise _cannot(self.path.parent, error) from None


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = parse_json(line.encode())
    except ValueError:
        record = None
    if not isinstance(record, dict) or not {"form", "curve", "row", "again"} & record.keys():
        raise _no_measurement(path, number)
    return record


def _no_measurement(path: Path, number: int) -> TraceError:
    return TraceError(
        f"{path}, line {number}: is not a measurement; delete the file, or name a new folder"
    )


def _cannot(folder: Path, error: OSError) -> TraceError:
    return TraceError(
        f"{folder}: cannot be used: {error.strerror or error}; name another folder, or make room"
    )


CLASSES = 10
LONGEST_S = 0.3
"""Run times are in tenths of this; programs that take longer are left out."""
HEAP_SHARE = 0.15
"""The share of programs with arrays on the heap."""
_SHORTEST_S = 0.002  # about the time to start a program


class Wanted(NamedTuple):
    """A program that is to run for a given time."""

    kind: str
    level: str
    heap: bool
    time_s: float

    @property
    def curve(self) -> str:
        """The name of the run times by size that say how large it must be."""
        return f"{self.kind} {self.level}"


def drawn(kinds: Sequence[str], rng: np.random.Generator) -> Iterator[Wanted]:
    """Yield programs without end: kinds take turns, all else is drawn."""
    while True:
        for kind in kinds:
            level = LEVELS[int(rng.integers(len(LEVELS)))]
            heap = bool(rng.random() < HEAP_SHARE)
            yield Wanted(kind, level, heap, float(rng.uniform(_SHORTEST_S, LONGEST_S)))


def sized(
    wanted: Sequence[Wanted], curves: Mapping[str, RunTimes], used: set[Program]
) -> list[Program]:
    """Return the programs for wanted run times, none of them twice.

    A size that was used before gives way to the next larger one.

    Args:
        wanted: as `drawn`.
        curves: run times by size, by `Wanted.curve`.
        used: programs of before; those returned are added.
    """
    programs = []
    for each in wanted:
        size = curves[each.curve].size_for(each.time_s)
        while (program := Program(each.kind, each.level, each.heap, size)) in used:
            size += 1
        used.add(program)
        programs.append(program)
    return programs


_FIRST = 64  # the smallest size that is measured
_SHORT_S = 0.003  # where starting a program takes as long as its work
_LARGEST = 2**28


@dataclass(frozen=True)
class RunTimes:
    """Run times of a program by the size of its input, both ascending; (K,) each."""

    size: Floats
    time_s: Floats

    @classmethod
    def measured(cls, measure: Callable[[int], float], most_s: float) -> RunTimes:
        """Measure larger and larger sizes until one takes longer than `most_s`.

        Raises TraceError if none is short enough to be measured.

        Args:
            measure: from a size to its run time in seconds; infinity: it takes too long.
            most_s: seconds.
        """
        sizes: list[int] = []
        times: list[float] = []
        size = _FIRST
        while not times or (times[-1] <= most_s and size < _LARGEST):
            time_s = measure(size)
            if time_s == np.inf:  # too large a step
                below = sizes[-1] if sizes else 0
                if size - below < 2:
                    raise TraceError(f"elf-bursts: a program of size {size} takes too long")
                size = (below + size) // 2
                continue
            sizes.append(size)
            times.append(time_s)
            size = round(size * (3.0 if time_s < _SHORT_S else 1.5))
        return cls.of(sizes, times)

    @classmethod
    def of(cls, sizes: Sequence[float], times: Sequence[float]) -> RunTimes:
        """Return measured run times as a curve that does not fall."""
        return cls(np.array(sizes, np.float64), np.maximum.accumulate(np.array(times, np.float64)))

    def size_for(self, time_s: float) -> int:
        """Return the size whose run time is nearest to `time_s`, by a power law in between."""
        log_time, log_size = np.log(self.time_s), np.log(self.size)
        steeper = np.append(True, np.diff(log_time) > 0)  # where it is level, the smallest size
        found = np.interp(np.log(time_s), log_time[steeper], log_size[steeper])
        return max(1, round(float(np.exp(found))))
