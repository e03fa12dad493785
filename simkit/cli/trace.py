"""The commands `simkit trace …`: inspect, check, convert, generate and download logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.options import AsJson, NoProgress, WholeHelpGroup
from simkit.cli.text import Line, echo, print_blocks, print_or_json
from simkit.cli.trace_generate import generate, power

if TYPE_CHECKING:
    from simkit.scenario.workload import TraceFormat

app = typer.Typer(
    help="Inspect, check, convert, generate and download logs.",
    cls=WholeHelpGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)

AnyTrace = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A log or a table of tasks, plain or .gz; or Alibaba's trace of 2017: a folder with "
        "some of its tables, an archive, or one of them.",
    ),
]
Log = Annotated[Path, typer.Argument(metavar="LOG", help="A log, plain or .gz.")]
Target = Annotated[Path, typer.Argument(metavar="FILE", help="The SWF log to write; .gz packs it.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="TYPE",
        help="Log format (`type` in a scenario), such as swf, sacct or jobs; default: detected.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of this type in a scenario."),
]
KeepZeroRun = Annotated[bool, typer.Option(help="Keep jobs whose run time is 0.")]


def trace_at(
    path: Path, kind: str | None, settings: Sequence[str] | None, **keys: object
) -> TraceFormat:
    """Return the trace at a place, of the format given or of the one that recognises it.

    Raises TraceError if no format does, or for keys that this format does not take.
    """
    from simkit.errors import TraceError, did_you_mean
    from simkit.scenario.overrides import parse_overrides, set_value, split_key
    from simkit.scenario.workload import format_of, trace_formats

    name = kind or format_of(path)
    formats = trace_formats()
    if name not in formats:
        raise TraceError(f"--format: {name!r} is not a format{did_you_mean(name, formats)}")
    arguments: dict[str, Any] = {"type": name, "path": str(path)}
    arguments |= {key: value for key, value in keys.items() if value not in (None, False)}
    try:
        for key, value in parse_overrides(settings or ()).items():
            set_value(arguments, split_key(key), value)
    except ValueError as error:
        raise TraceError(f"--set: {error}") from None
    return formats[name].of(**arguments)


@app.command("info")
def info(
    log: AnyTrace,
    kind: Format = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show a trace's jobs, span, machines and load; for task tables, also sizes and faults."""
    from simkit.cli.trace_text import facts_blocks, job_facts_blocks
    from simkit.workload.trace import job_facts, task_facts

    source = trace_at(log, kind, settings)
    facts, blocks = source.facts(), facts_blocks
    if facts is None:
        trace, past = source.recorded()
        if trace.workload.gang.all():
            facts, blocks = job_facts(trace, past), job_facts_blocks
        else:
            facts = task_facts(source.type, log, trace)
    print_or_json(blocks(log, facts), facts, as_json=as_json)


@app.command("check")
def check(
    log: AnyTrace,
    kind: Format = None,
    fix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the log without what is wrong to this file, as SWF."
        ),
    ] = None,
    keep_zero_run: KeepZeroRun = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show which rows of a trace are repaired or left out, and why, with line numbers."""
    from simkit import plugins
    from simkit.cli.trace_text import check_blocks, checked_content, written_blocks

    source = trace_at(log, kind, settings, keep_zero_run=keep_zero_run)
    written = None if fix is None else plugins.find("simkit.tools", "trace.convert")(source, fix)
    reports = source.reports() if written is None else {"": written.report}
    blocks = [
        block
        for table, report in reports.items()
        for block in check_blocks(log, report, source.meanings, table)
    ]
    if fix is not None and written is not None:
        blocks += written_blocks(fix, written.report.jobs, written.remarks)
    print_or_json(blocks, checked_content(reports, source.meanings), as_json=as_json)


@app.command("convert")
def convert(
    log: Log,
    target: Target,
    kind: Format = None,
    processors: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Size of the machine; default: that of an SWF log's header; of other logs, the "
            "most processors used at once, if they record starts.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Zone of sacct's times, such as Europe/Berlin; default: UTC."
        ),
    ] = None,
    keep_zero_run: KeepZeroRun = False,
    settings: Settings = None,
) -> None:
    """Write a log of any format as a clean SWF log, with all that SWF has a field for."""
    from simkit import plugins
    from simkit.cli.text import rows_blocks
    from simkit.cli.trace_text import written_blocks

    source = trace_at(log, kind, settings, keep_zero_run=keep_zero_run, time_zone=time_zone)
    convert = plugins.find("simkit.tools", "trace.convert")
    done = convert(source, target, machine_processors=processors)
    print_blocks([Line("Log", str(log))])
    print_blocks(rows_blocks(done.report))
    print_blocks(written_blocks(target, done.report.jobs, done.remarks))


def init(
    log: Log,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The scenario to write; default: the log's name with .yaml, in this folder.",
        ),
    ] = None,
    kind: Format = None,
    settings: Settings = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a first scenario for a log: its machines, estimates and a policy, with comments.

    The machines are those that the log shows: what was in use at once, by partition, and its
    largest jobs. The scenario runs as it is.
    """
    from simkit.cli.trace_text import first_scenario_blocks
    from simkit.results.output_folder import write_text
    from simkit.scenario.first_scenario import first_scenario

    source = trace_at(log, kind, settings)
    target = output or Path(f"{log.name.removesuffix('.gz').rpartition('.')[0] or log.name}.yaml")
    check_new(target, log, "--output", force=force)
    made = first_scenario(source, target)
    write_text(target, made.text)
    print_blocks(first_scenario_blocks(log, target, made))


def check_new(target: Path, log: Path, option: str, *, force: bool) -> None:
    """Raise RunError if a file to write is the log, is there already, or cannot be written."""
    from simkit.errors import RunError
    from simkit.results.output_folder import check_file

    check_file(target)
    if target.exists() and log.exists() and target.samefile(log):
        raise RunError(f"{target}: is the log itself; name another file with {option}")
    if target.exists() and not force:
        raise RunError(
            f"{target}: is there already; replace it with --force, or name another file with "
            f"{option}"
        )


app.command("generate")(generate)
app.command("power")(power)


@app.command("list")
def list_logs(as_json: AsJson = False) -> None:
    """List the public logs of the Parallel Workloads Archive that simkit knows."""
    from dataclasses import asdict

    from simkit import plugins
    from simkit.cli.trace_text import catalogue_blocks

    entries = plugins.find("simkit.tools", "trace.catalogue")()
    content = [asdict(entry) for entry in entries]
    print_or_json(catalogue_blocks(entries), content, as_json=as_json)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the log, as `simkit trace list` has it.")],
    folder: Annotated[Path, typer.Option("--output", "-o", help="Where to put it.")] = Path(),
    base_url: Annotated[str | None, typer.Option(help="A mirror of the archive.")] = None,
    no_progress: NoProgress = False,
) -> None:
    """Download a public log from the archive unless it is there, and check that it is complete."""
    from simkit import plugins
    from simkit.progress import download_progress

    get = plugins.find("simkit.tools", "trace.fetch")
    with download_progress(enabled=not no_progress) as progress:
        path = get(name, folder, base_url=base_url, progress=progress)
    echo(str(path))
