"""Measures programs: the sizes of their sections and how long they run; writes table and data card.

The idea is that of "SchedQRM" (CCIT 2019), which predicts the burst time of a job from what its
ELF file looks like, but whose data are not public. A row of the table is a C++ program, compiled
for one size of its input at one level of optimisation, with its section sizes and its processor
time, which is the smallest of three runs. Some rows are measured again at the end, so that the
noise of the times is known.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from importlib import resources
from itertools import count, islice
from os import PathLike
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from simkit.arrays import Floats, stream
from simkit.errors import TraceError, did_you_mean
from simkit.traces.elf_bursts.measurements import (
    CLASSES,
    HEAP_SHARE,
    KINDS,
    LONGEST_S,
    SECTIONS,
    Measurements,
    Program,
    RunTimes,
    Wanted,
    compiler_version,
    drawn,
    find_compiler,
    locked,
    pin,
    processors,
    read_signature,
    require_pyelftools,
    run_time_s,
    sized,
    sources_hash,
)

__all__ = ["KINDS", "generate_elf_bursts", "read_bursts"]

Progress = Callable[[int, int], None]
"""Takes (rows measured, rows in all)."""
T = TypeVar("T")

RUNS = 3
"""Runs of a program; the smallest time counts."""
_AGAIN_EVERY = 20  # one row in this many is measured again
_CURVE_RUNS = 2


def generate_elf_bursts(
    folder: Path, *, rows: int, kinds: Sequence[str] = KINDS, workers: int | None = None,
    seed: int = 0, progress: Progress | None = None,
) -> Path:  # fmt: skip
    """Measure programs, and write ``bursts.parquet`` and a data card into a folder.

    What was measured is kept in the folder as it is made: after an interruption the same command
    goes on, and one with more rows adds to those that are there.

    Args:
        folder: for table, card and measurements.
        rows: programs in the table.
        kinds: names of kinds of programs.
        workers: processors to measure on, one program on each at a time; None: all.
        seed: seed of sizes, levels and wanted run times.
        progress: told of each row, and of each kind and level whose run times by size are measured
            before.

    Returns the path of the table. Raises TraceError if there is no compiler, if the folder holds
    other measurements or cannot be written, or if there are too few processors.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise TraceError(
                f"elf-bursts: no program is called {kind!r}{did_you_mean(kind, KINDS)}"
            )
    if not kinds:
        raise TraceError(f"elf-bursts: no kinds of programs; choose some of {', '.join(KINDS)}")
    compiler = find_compiler()
    require_pyelftools()
    made_by = {
        "seed": seed, "kinds": list(kinds), "machine": _machine(),
        "compiler": compiler_version(compiler), "sources": sources_hash(),
    }  # fmt: skip
    there = processors()
    if workers is not None and not 0 < workers <= len(there):
        raise TraceError(
            f"elf-bursts: --workers is {workers}, but there are {len(there)} processors; a program "
            "is measured alone on one"
        )
    wanted = drawn(kinds, stream(seed, "elf-bursts"))
    with locked(folder):
        kept = Measurements.in_folder(folder, made_by)
        with _Bench(compiler, there[:workers]) as bench:
            programs = _measure_rows(bench, kept, wanted, rows, progress)
            _measure_again(bench, kept, programs)
        table, path = bursts_table(programs, kept, rows), folder / "bursts.parquet"
        try:
            table.write_parquet(path)
            write_card(folder / "README.md", table, made_by, left_out=len(programs) - rows)
        except OSError as error:
            raise TraceError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return path


class _Bench:
    """Compiles and runs programs, one on each processor at a time."""

    def __init__(self, compiler: str, there: Sequence[int]) -> None:
        self._compiler = compiler
        self._free: SimpleQueue[int] = SimpleQueue()
        for processor in there:
            self._free.put(processor)
        self.workers = len(there)
        self._pool = ThreadPoolExecutor(len(there), initializer=lambda: pin(self._free.get()))

    def __enter__(self) -> _Bench:
        self._folder = TemporaryDirectory(prefix="simkit-elf-bursts-")
        self._numbers = count()
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def each(
        self, work: Callable[[T], Any], things: Iterable[tuple[int, T]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number, result) of numbered things, as they are done; few wait at a time."""
        waiting: dict[Future[Any], int] = {}
        left = iter(things)
        while True:
            for number, thing in islice(left, 2 * self.workers - len(waiting)):
                waiting[self._pool.submit(work, thing)] = number
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()

    @contextmanager
    def compiled(self, program: Program) -> Iterator[Path]:
        """Yield the path of the program's file."""
        path = Path(self._folder.name) / f"{program.kind}-{next(self._numbers)}"
        try:
            program.compile(self._compiler, path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def time_of(self, program: Program, runs: int = RUNS) -> float | None:
        """Return the smallest of some run times in seconds; None: it takes too long."""
        with self.compiled(program) as path:
            times = run_time_s(path, LONGEST_S, runs)
        return None if times is None else min(times)

    def row_of(self, program: Program) -> dict[str, Any] | None:
        """Return signature and run times of a program; None: it takes too long."""
        with self.compiled(program) as path:
            times = run_time_s(path, LONGEST_S, RUNS)
            if times is None or min(times) >= LONGEST_S:
                return None
            return {"signature": read_signature(path), "times": times}


def _measure_rows(
    bench: _Bench, kept: Measurements, wanted: Iterator[Wanted], rows: int,
    progress: Progress | None,
) -> list[Program]:  # fmt: skip
    """Measure until enough rows are there; return the programs, those left out among them."""
    programs: list[Program] = []
    used: set[Program] = set()
    while True:
        done = sum(kept.rows[number] is not None for number in range(len(programs)))
        if done == rows:
            return programs
        more = list(islice(wanted, rows - done))
        for _ in _measure_curves(bench, kept, more):
            if progress is not None:
                progress(done, rows)
        curves = {name: RunTimes.of(*curve) for name, curve in kept.curves.items()}
        first = len(programs)
        programs += sized(more, curves, used)
        numbers = range(first, len(programs))
        done += sum(kept.rows.get(number) is not None for number in numbers)
        todo = [(number, programs[number]) for number in numbers if number not in kept.rows]
        for number, row in bench.each(bench.row_of, todo):
            kept.add_row(number, row)
            done += row is not None
            if progress is not None:
                progress(done, rows)


def _measure_curves(bench: _Bench, kept: Measurements, wanted: Sequence[Wanted]) -> Iterator[None]:
    """Measure the run times by size that are missing for some wanted programs, one at a step."""

    def curve(of: Wanted) -> RunTimes:
        def measure(size: int) -> float:
            program = Program(of.kind, of.level, heap=False, size=size)
            found = bench.time_of(program, _CURVE_RUNS)
            return np.inf if found is None else found

        return RunTimes.measured(measure, LONGEST_S)

    missing = list({each.curve: each for each in wanted if each.curve not in kept.curves}.values())
    for number, found in bench.each(curve, enumerate(missing)):
        kept.add_curve(missing[number].curve, found.size.tolist(), found.time_s.tolist())
        yield


def _measure_again(bench: _Bench, kept: Measurements, programs: Sequence[Program]) -> None:
    """Measure some rows a second time."""
    todo = [
        (number, programs[number])
        for number in range(0, len(programs), _AGAIN_EVERY)
        if kept.rows[number] is not None and number not in kept.again
    ]
    for number, run_s in bench.each(bench.time_of, todo):
        kept.add_again(number, run_s)


def _machine() -> str:
    """Return the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


_SAMPLE = Path(str(resources.files("simkit.traces.samples").joinpath("elf_bursts.parquet")))
SIGNATURE = (*SECTIONS, "file_size")
"""Columns of a program's signature, in bytes."""


def bursts_table(programs: Sequence[Program], kept: Measurements, rows: int) -> pl.DataFrame:
    """Return the first `rows` measured programs, one a row.

    Columns: ``kind``, ``level``, ``heap``, ``size``; `SIGNATURE`; ``run_1_s`` to ``run_3_s`` and
    the smallest, ``run_time_s``; ``again_s``, the smallest of three runs at another time, if there
    were some; ``class``, 0 to 9: the tenth of 0.3 s.
    """
    found: list[dict[str, Any]] = []
    for number, program in enumerate(programs):
        row = kept.rows[number]
        if row is None or len(found) == rows:
            continue
        times = {f"run_{k}_s": time_s for k, time_s in enumerate(row["times"], 1)}
        run_time_s = min(row["times"])
        found.append({
            "kind": program.kind, "level": program.level, "heap": program.heap,
            "size": program.size, **row["signature"], **times, "run_time_s": run_time_s,
            "again_s": kept.again.get(number), "class": burst_class(run_time_s),
        })  # fmt: skip
    floats = ("run_1_s", "run_2_s", "run_3_s", "run_time_s", "again_s")
    return pl.DataFrame(found, schema_overrides=dict.fromkeys(floats, pl.Float64))


def read_bursts(path: str | PathLike[str] | None = None) -> pl.DataFrame:
    """Return a table of programs that was written before.

    Args:
        path: the Parquet file; None: the sample that comes with simkit.

    Raises TraceError if it cannot be read, or lacks columns.
    """
    place = Path(path) if path is not None else _SAMPLE
    try:
        table = pl.read_parquet(place)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise TraceError(
            f"{place}: cannot be read as a Parquet file: {why}; name the bursts.parquet that "
            "simkit trace generate elf-bursts has written"
        ) from None
    wanted = ("kind", "level", "heap", "size", *SIGNATURE, "run_time_s", "class")
    if missing := [name for name in wanted if name not in table.columns]:
        raise TraceError(
            f"{place}: has no column {', '.join(missing[:3])}{', …' * (len(missing) > 3)}; name "
            "the bursts.parquet that simkit trace generate elf-bursts has written"
        )
    return table


def burst_class(run_time_s: float) -> int:
    """Return the class of a run time: the tenth of 0.3 s, from 0; the last if it is longer."""
    return min(int(run_time_s * CLASSES / LONGEST_S), CLASSES - 1)


class Noise(NamedTuple):
    """How far the run times of one and the same program are from each other."""

    sigma: float
    """Relative standard deviation of a run time, which is the smallest of three runs."""
    flips: float
    """The share of programs whose two run times are in different classes."""
    single_flips: float
    """The same of two single runs, one after the other."""
    pairs: int
    """Programs that were measured twice."""


def noise_of(table: pl.DataFrame) -> Noise:
    """Return the noise of a table; NaN where nothing was measured twice."""
    twice = table.drop_nulls("again_s")
    one, other = twice["run_time_s"].to_numpy(), twice["again_s"].to_numpy()
    first, second = table["run_1_s"].to_numpy(), table["run_2_s"].to_numpy()
    ratio = np.log(other / one)
    return Noise(
        float(np.sqrt(np.mean(ratio**2) / 2)) if len(ratio) else float("nan"),
        _flips(one, other), _flips(first, second), len(ratio),
    )  # fmt: skip


def _flips(one: Floats, other: Floats) -> float:
    if not len(one):
        return float("nan")
    flips = [burst_class(a) != burst_class(b) for a, b in zip(one, other, strict=True)]
    return float(np.mean(flips))


def write_card(path: Path, table: pl.DataFrame, made_by: Mapping[str, Any], left_out: int) -> None:
    """Write the card of a table.

    Args:
        path: the Markdown file.
        table: as `bursts_table` returns it.
        made_by: seed, machine and compiler.
        left_out: programs that took too long.
    """
    noise, kinds, name = noise_of(table), table["kind"].n_unique(), path.resolve().parent.name
    lines = [
        "# Burst times of small programs", "",
        f"{table.height:,} C++ programs of {kinds} kinds: the sizes of the sections of their ELF "
        "files, and how long they run. Each was compiled for one size of its input, at one level "
        "of optimisation.", "",
        f"- Made by: `simkit trace generate elf-bursts {name} --jobs {table.height} "
        f"--seed {made_by['seed']}`",
        f"- Machine: {made_by['machine']}; compiler: {made_by['compiler']}",
        "- Run time: processor time (user and system) of the process, pinned to a processor; the "
        "smallest of three runs",
        f"- Classes: {CLASSES}, each {LONGEST_S / CLASSES:g} s wide; sizes were chosen so that run "
        f"times are spread evenly; {left_out:,} programs took longer and were left out",
        f"- {HEAP_SHARE:.0%} of the programs have their arrays on the heap (`heap`): their "
        "section sizes do not depend on the size of the input",
        f"- Noise: relative standard deviation of a run time {noise.sigma:.2%} ({noise.pairs:,} "
        f"programs measured again at the end); {noise.flips:.1%} of them changed their class, and "
        f"{noise.single_flips:.1%} did between two single runs", "",
        "## Rows by class", "", "| class | run time, s | rows | most frequent kind | its share |",
        "|---|---|---|---|---|", *_classes(table), "",
        "## Rows by kind", "", "| kind | rows | on the heap |", "|---|---|---|", *_kinds(table), "",
    ]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")


def _classes(table: pl.DataFrame) -> list[str]:
    width, lines = LONGEST_S / CLASSES, []
    for number in range(CLASSES):
        rows = table.filter(pl.col("class") == number)
        span = f"{number * width:.2f}-{(number + 1) * width:.2f}"
        if not rows.height:
            lines.append(f"| {number} | {span} | 0 | | |")
            continue
        kind, most = rows["kind"].value_counts().sort("count", "kind").row(-1)
        share = most / rows.height
        lines.append(f"| {number} | {span} | {rows.height:,} | {kind} | {share:.1%} |")
    return lines


def _kinds(table: pl.DataFrame) -> list[str]:
    counts = table.group_by("kind").agg(pl.len(), pl.col("heap").sum()).sort("kind")
    return [f"| {kind} | {rows:,} | {heap:,} |" for kind, rows, heap in counts.rows()]
