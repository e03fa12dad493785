"""Which programs are measured, and the file that keeps measurements so that a run can resume.

All kinds of programs occur equally often, with run times spread evenly: a few sizes of input are
measured, and the size for a wanted run time is interpolated between these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.files import SpecialFileError, parse_json, refuse_special
from simkit.traces.elf_bursts.programs import LEVELS, Program

__all__ = ["Measurements", "locked"]

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
                f"{found.path}: {key} is {records[0].get(key)!r} there, and {first[key]!r} now; "
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
