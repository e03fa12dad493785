"""The commands `simkit trace …`: look at a log, clean it, generate one, get one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.options import AsJson, NoProgress
from simkit.cli.trace_generate import generate
from simkit.cli.trace_power import power

if TYPE_CHECKING:
    from simkit.workload import Trace

app = typer.Typer(help="Look at logs, clean, convert, generate and get them.", no_args_is_help=True)

Log = Annotated[Path, typer.Argument(metavar="LOG", help="A log, plain or .gz.")]
Target = Annotated[Path, typer.Argument(metavar="FILE", help="The SWF log to write; .gz packs it.")]


RECOGNISE = "simkit.traces.formats:recognise"
CONVERT = "simkit.traces.convert:convert_log"
CLOUD_FORMAT = "simkit.traces.formats:cloud_format"
CLOUD_REPORTS = "simkit.traces.formats:cloud_reports"
CLOUD_FACTS = "simkit.traces.formats:cloud_facts"


class Kind(StrEnum):
    """Formats of logs."""

    SWF = "swf"
    SACCT = "sacct"
    JOBS = "jobs"


Format = Annotated[
    Kind | None,
    typer.Option("--format", "-f", help="The log's format; default: told by its first line."),
]
KeepZeroRun = Annotated[bool, typer.Option(help="Keep jobs whose run time is 0.")]


def read(path: Path, kind: Kind | None, options: dict[str, Any] | None = None) -> Trace:
    """Read a log with the reader of its format."""
    from simkit import plugins

    trace: Trace = plugins.find("simkit.readers", _kind(path, kind))(path, **(options or {}))
    return trace


def _kind(path: Path, kind: Kind | None) -> str:
    from simkit import plugins

    if kind is not None:
        return kind.value
    name: str = plugins.find("simkit.tools", RECOGNISE)(path)
    return name


class TraceKind(StrEnum):
    """Formats of logs, and of traces of tasks on machines."""

    SWF = "swf"
    SACCT = "sacct"
    JOBS = "jobs"
    ALIBABA2017 = "alibaba2017"
    TASKS = "tasks"


AnyTrace = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A log or a table of tasks, plain or .gz; or Alibaba's trace of 2017: a folder with "
        "some of its tables, an archive, or one of them.",
    ),
]
TraceFormat = Annotated[
    TraceKind | None,
    typer.Option("--format", "-f", help="The trace's format; default: told by its content."),
]


@app.command("info")
def info(
    log: AnyTrace,
    kind: TraceFormat = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a trace holds: jobs, span, machines, load; of tasks also their sizes and faults."""
    from simkit import plugins
    from simkit.cli.text import print_json, print_pairs
    from simkit.cli.trace_text import facts_of, print_facts

    name = plugins.find("simkit.tools", CLOUD_FORMAT)(log) if kind is None else kind.value
    if name in (TraceKind.ALIBABA2017, TraceKind.TASKS):
        found = plugins.find("simkit.tools", CLOUD_FACTS)(log, name)
        if as_json:
            print_json(found)
        else:
            print_facts(log, found)
        return
    trace = read(log, None if kind is None else Kind(kind.value))
    facts = facts_of(trace)
    if as_json:
        print_json(facts)
    else:
        print_pairs(str(log), "", {name: str(value) for name, value in facts.items()})


@app.command("check")
def check(
    log: AnyTrace,
    kind: TraceFormat = None,
    fix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the log without what is wrong to this file, as SWF."
        ),
    ] = None,
    keep_zero_run: KeepZeroRun = False,
    as_json: AsJson = False,
) -> None:
    """Tell which rows of a trace are repaired or left out, and why, with line numbers."""
    from simkit import plugins
    from simkit.cli.trace_text import checked_as_json, print_check, print_written
    from simkit.errors import TraceError

    cloud = plugins.find("simkit.tools", CLOUD_FORMAT)(log) if kind is None else kind.value
    written = None
    if cloud in (TraceKind.ALIBABA2017, TraceKind.TASKS):
        if fix is not None:
            raise TraceError(
                f"{log}: --fix writes a log of jobs as SWF, and this is a trace of tasks on "
                "machines; its readers leave out what is wrong each time"
            )
        reports = plugins.find("simkit.tools", CLOUD_REPORTS)(log, cloud)
    else:
        name = _kind(log, None if kind is None else Kind(kind.value))
        if fix is not None:
            written = plugins.find("simkit.tools", CONVERT)(
                log, fix, kind=name, keep_zero_run=keep_zero_run
            )
            reports = {"": written.report}
        else:
            options = {"keep_zero_run": True} if keep_zero_run and name != "jobs" else {}
            reports = {"": read(log, Kind(name), options).report}
    describe = plugins.find("simkit.tools", "trace.describe")
    rules = {table: describe(report) for table, report in reports.items()}
    if as_json:
        checked_as_json(reports, rules)
        return
    for table, report in reports.items():
        print_check(log, report, rules[table], table)
    if fix is not None and written is not None:
        print_written(fix, written.report.jobs, written.remarks)


@app.command("convert")
def convert(
    log: Log,
    target: Target,
    kind: Format = None,
    processors: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Size of the machine; default: that of an SWF log's header; from sacct's output, "
            "the most processors used at once.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Zone of sacct's times, as Europe/Berlin; default: UTC."),
    ] = None,
    keep_zero_run: KeepZeroRun = False,
) -> None:
    """Write a log of any format as a clean SWF log, with all that SWF has a field for."""
    from simkit import plugins
    from simkit.cli.text import print_rows, say
    from simkit.cli.trace_text import print_written

    done = plugins.find("simkit.tools", CONVERT)(
        log,
        target,
        kind=_kind(log, kind),
        machine_processors=processors,
        keep_zero_run=keep_zero_run,
        time_zone=time_zone,
    )
    say("Log", str(log))
    print_rows(done.report)
    print_written(target, done.report.jobs, done.remarks)


app.command("generate")(generate)
app.command("power")(power)


@app.command("list")
def list_logs(as_json: AsJson = False) -> None:
    """List the public logs of the Parallel Workloads Archive that simkit knows."""
    from dataclasses import asdict

    from simkit import plugins
    from simkit.cli.text import print_json
    from simkit.cli.trace_text import print_catalogue

    entries = plugins.find("simkit.tools", "trace.catalogue")()
    if as_json:
        print_json([asdict(entry) for entry in entries])
    else:
        print_catalogue(entries)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the log, as `simkit trace list` has it.")],
    folder: Annotated[Path, typer.Option("--output", "-o", help="Where to put it.")] = Path(),
    base_url: Annotated[str | None, typer.Option(help="A mirror of the archive.")] = None,
    no_progress: NoProgress = False,
) -> None:
    """Get a public log from the archive, unless it is there, and check that it is whole."""
    from simkit import plugins
    from simkit.progress import download_progress

    get = plugins.find("simkit.tools", "trace.fetch")
    with download_progress(enabled=not no_progress) as progress:
        path = get(name, folder, base_url=base_url, progress=progress)
    typer.echo(str(path))
