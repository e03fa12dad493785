"""The command `simkit trace generate`: a log by a model, tables like Alibaba's, or programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.options import AsJson, NoProgress
from simkit.cli.text import Blocks, Line, echo, print_blocks, print_or_json, rounded
from simkit.progress import PATIENCE_S, progress_bar

if TYPE_CHECKING:
    from simkit.scenario.workload import WorkloadModel
    from simkit.workload import RowReport

TABLES = "alibaba2017"
"""The model that writes a folder of tables instead of a log."""
PROGRAMS = "elf-bursts"
"""Not a model: programs are compiled and run, and what is measured goes into a folder."""


def generate(
    model: Annotated[
        str,
        typer.Argument(
            help="A type of workload that draws rigid jobs; or alibaba2017; or elf-bursts. Any "
            "other word lists them."
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="TARGET",
            help="The SWF log to write (.gz packs it); of alibaba2017 a new folder for its tables, "
            "of elf-bursts one for its table and its measurements.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The same as TARGET.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="How many jobs; of elf-bursts: programs.")
    ] = 1000,
    processors: Annotated[
        int | None, typer.Option(min=1, help="Size of the machine; default: 128.")
    ] = None,
    load: Annotated[
        float | None, typer.Option(help="Offered load; the arrival rate follows from it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another key of the model in a scenario."),
    ] = None,
    machines: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="alibaba2017: number of machines; default: the trace's ratio of machines to jobs "
            "(1,313 for 12,951), at least 5.",
        ),
    ] = None,
    usage_interval: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="alibaba2017: interval of the tables of usage, 1m to 12h; default: 5m.",
        ),
    ] = None,
    packed: Annotated[bool, typer.Option("--gzip", help="alibaba2017: write .csv.gz.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", "-j", min=1, help="elf-bursts: processors to measure on; default: all."
        ),
    ] = None,
    no_progress: NoProgress = False,
) -> None:
    """Generate a log by a model and write it as SWF, or tables like Alibaba's trace of 2017.

    The keys of --set are those of the scenario's workload of that type, e.g. --set users=20.
    elf-bursts is not a model: it compiles C++ programs, and measures the sections of their ELF
    files and how long they run. The same command resumes an interrupted one.
    """
    known = (*_models(), TABLES, PROGRAMS)
    if model not in known:
        raise typer.BadParameter(f"{model!r} is not a model; known: {', '.join(known)}")
    if (target is None) == (output is None):
        raise typer.BadParameter("name the place to write to once, as TARGET or with --output")
    place = target or output
    assert place is not None  # one of them is given
    options: dict[str, dict[str, object]] = {
        "a log": {"--processors": processors, "--load": load, "--set": settings},
        TABLES: {
            "--machines": machines, "--usage-interval": usage_interval, "--gzip": packed or None,
        },
        PROGRAMS: {"--workers": workers},
    }  # fmt: skip
    own = options.pop(model if model in options else "a log")
    given = [
        name for foreign in options.values() for name, value in foreign.items() if value is not None
    ]
    if given:
        raise typer.BadParameter(f"{model} has no {', '.join(given)}; it has {', '.join(own)}")
    if model == PROGRAMS:
        _measure_programs(place, jobs, workers, seed, show_progress=not no_progress)
    elif model == TABLES:
        _generate_tables(
            place, jobs, machines, usage_interval or "5m", packed, seed,
            show_progress=not no_progress,
        )  # fmt: skip
    else:
        _generate_log(model, place, jobs, processors, load, seed, settings or [])


def _models() -> dict[str, type[WorkloadModel]]:
    """Return the types of workload that draw rigid jobs, by name."""
    from simkit.scenario.workload import WORKLOADS, WorkloadModel

    kinds = WORKLOADS.classes().items()
    return {name: kind for name, kind in kinds if issubclass(kind, WorkloadModel)}


def _generate_log(
    model: str,
    target: Path,
    jobs: int,
    processors: int | None,
    load: float | None,
    seed: int,
    settings: list[str],
) -> None:
    """Generate a log by a model and write it as SWF."""
    from simkit import plugins
    from simkit.experiment.workload import read_trace
    from simkit.scenario.overrides import parse_overrides
    from simkit.scenario.yaml_document import load_scenario

    keys: dict[str, Any] = {"type": model, "jobs": jobs, "processors": processors or 128}
    if load is not None:
        keys["offered_load"] = load
    elif not (settings or _models()[model].has_arrivals):
        keys["offered_load"] = 0.7
    scenario = load_scenario({"workload": keys | parse_overrides(settings), "seed": seed})
    trace = read_trace(scenario.workload, seed)
    command = f"model {model}, {jobs} jobs, {keys['processors']} processors, seed {seed}"
    write = plugins.find("simkit.writers", "swf")
    write(target, trace.workload, notes=(f"generated by simkit: {command}",))
    echo(f"{target} written: {len(trace.workload):,} jobs")


def _generate_tables(
    folder: Path,
    jobs: int,
    machines: int | None,
    usage_interval: str,
    packed: bool,
    seed: int,
    *,
    show_progress: bool,
) -> None:
    """Write the tables of a generated trace into a new folder, and say how many rows they have.

    Raises SimkitError for arguments out of their range, and if the folder cannot be written.
    """
    from simkit import plugins
    from simkit.arrays import stream
    from simkit.cli.text import pairs_blocks
    from simkit.errors import ScenarioError

    try:
        from simkit.units import parse_duration  # brings NumPy, which `--help` does without

        interval = parse_duration(usage_interval)
    except ValueError as error:
        raise ScenarioError(f"--usage-interval: {error}") from None
    if interval != int(interval):
        raise ScenarioError(f"--usage-interval: {usage_interval} is not in whole seconds; round it")
    with _progress("instances", enabled=show_progress) as progress:
        rows: dict[str, int] = plugins.find("simkit.tools", "trace.generate.alibaba2017")(
            folder,
            jobs=jobs,
            machines=machines,
            usage_interval_s=int(interval),
            packed=packed,
            rng=stream(seed, "workload"),
            progress=progress,
        )
    print_blocks(
        pairs_blocks(
            f"{folder} written", "rows", {name: f"{count:,}" for name, count in rows.items()}
        )
    )


def _measure_programs(
    folder: Path, programs: int, workers: int | None, seed: int, *, show_progress: bool
) -> None:
    """Measure programs, and say where the table is."""
    from simkit import plugins

    measure = plugins.find("simkit.tools", "trace.generate.elf-bursts")
    try:
        with _progress("programs", enabled=show_progress) as progress:
            table = measure(folder, rows=programs, workers=workers, seed=seed, progress=progress)
    except KeyboardInterrupt:
        echo(f"interrupted; the same command resumes with what {folder} has", err=True)
        raise typer.Exit(130) from None
    echo(f"{table} written: {programs:,} programs; {table.with_name('README.md')} describes them")


@contextmanager
def _progress(unit: str, *, enabled: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what a generator tells of (done, in all); a bar if it takes long."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    begin, bar = perf_counter(), progress_bar(unit, "")
    rows: list[Any] = []

    def show(done: int, total: int) -> None:
        if not rows:
            if perf_counter() - begin < PATIENCE_S:
                return
            rows.append(bar.add_task("", total=total))
            bar.start()
        bar.update(rows[0], completed=done)

    try:
        yield show
    finally:
        bar.stop()


def power(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="A type of signal that is read from a file, as in a scenario. Any other word "
            "lists them.",
        ),
    ],
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file, plain or .gz.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key that this type of signal has in a scenario, such as --set unit=kW. May be "
            "given repeatedly.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a file of power, carbon or prices holds: unit, zone, step, span, gaps and size."""
    from simkit import plugins
    from simkit.cli.text import warn
    from simkit.scenario.overrides import parse_overrides
    from simkit.scenario.yaml_document import read_signal_file

    keys: dict[str, Any] = {"type": kind} | parse_overrides(settings or ())
    if path is not None:
        keys["path"] = str(path)
    trace = read_signal_file(keys)
    facts = plugins.find("simkit.tools", "trace.power")(trace)
    print_or_json(power_blocks(facts, trace.report), facts, as_json=as_json)
    for warning in () if as_json else trace.warnings:
        warn(warning)


def power_blocks(facts: Mapping[str, Any], report: RowReport | None) -> Blocks:
    """Yield the facts of a trace and what was done to the rows of its file."""
    from simkit.cli.text import rows_blocks

    yield Line("Signal", facts["name"])
    if report is not None:
        yield from rows_blocks(report)
    for name, text in _lines(facts):
        yield Line(name, text)


def _lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from simkit.text import counted
    from simkit.units import format_duration

    yield from (("Note", note) for note in facts["notes"])
    label = {"start": "starts", "end": "ends"}[facts["label"]]
    what = f"means of intervals, at their {label}" if facts["sampling"] == "mean" else "readings"
    yield "Values", f"{facts['values']:,} {what}, every {format_duration(facts['step_s'])}"
    yield "Zone", facts["time_zone"]
    yield "From", f"{facts['first']} to {facts['last']}, span {format_duration(facts['span_s'])}"
    for name in ("mean", "min", "max"):
        yield name.capitalize(), f"{rounded(facts[name])} {facts['unit']}"
    if facts["negative"]:
        yield "Below 0", counted(facts["negative"], "value")
    gaps = facts["gaps"]
    if not gaps["count"]:
        yield "Gaps", "none"
        return
    total, longest = (format_duration(gaps[key]) for key in ("total_s", "longest_s"))
    yield "Gaps", f"{counted(gaps['count'], 'gap')}, {total} in all, the longest {longest}"
    for gap in gaps["longest"]:
        yield "", f"from {gap['start']} for {format_duration(gap['length_s'])}"
