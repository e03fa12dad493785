"""The commands that take run folders: compare, summarise, verify, export, plot, report."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.echo import echo
from simkit.cli.options import (
    AsJson,
    By,
    Group,
    Partial,
    RunFolder,
    Sort,
    Top,
    Verbose,
    groups_of,
)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="A B", help="Two run folders; with --with, all runs of A."),
    ],
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A run of B; repeat it for each seed of A."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="A metric to compare, of jobs (wait_time_s, job_value, energy_j, …) or of whole "
            "runs (carbon_kg, grid_kwh.import, wait_time_s.p99, …); may be repeated.",
        ),
    ] = None,
    by: By = None,
    sort: Sort = None,
    top: Top = None,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    partial: Partial = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs, job by job or as a whole: differences B - A with confidence intervals.

    `simkit compare A B` compares two runs; the interval is a bootstrap over weeks. Several seeds:
    `simkit compare A0 A1 A2 --with B0 --with B1 --with B2`.
    """
    from simkit.analysis.compare import compare_runs
    from simkit.cli.run_text import print_comparison
    from simkit.cli.text import print_json
    from simkit.results.run_folder import open_run
    from simkit.text import counted

    groups = groups_of(by, sort, top)
    if others:
        folders = list(runs), list(others)
    elif len(runs) == 2:
        folders = [runs[0]], [runs[1]]
    else:
        raise typer.BadParameter(
            f"{counted(len(runs), 'run')}; give two, or the runs of B by --with"
        )
    first, second = ([open_run(f, allow_partial=partial) for f in side] for side in folders)
    comparison = compare_runs(
        first, second, metrics=metric or None, by=None if by is None else by.value, level=level
    )
    if as_json:
        print_json(comparison.as_json())
    else:
        print_comparison(comparison, groups)


class TableFormat(StrEnum):
    """A format of `simkit summarise`."""

    TEXT = "text"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


_TABLE_ENDINGS = {".csv": TableFormat.CSV, ".md": TableFormat.MARKDOWN, ".tex": TableFormat.LATEX}


def summarise(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...", help="Run folders, or folders of runs such as a sweep's."
        ),
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Keys of the scenario that make the groups: policy,workload.offered_load. "
            "Default: all that differ but the seed.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="A metric: wait_time_s, wait_time_s.p99, carbon_kg; may be repeated.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        TableFormat | None,
        typer.Option(
            "--format", "-f", help="Default: by the ending of FILE (.csv, .md, .tex), else text."
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the table to this file."),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
) -> None:
    """Summarise a sweep: mean and interval over seeds of each metric, the best marked."""
    from simkit.analysis.summary import summarise as summary_of

    chosen = _table_format(form, target)
    keys, names = (
        [part.strip() for text in texts or () for part in text.split(",") if part.strip()]
        for texts in (by, metric)
    )
    found = summary_of(runs, keys, names, level=level)
    if chosen is TableFormat.TEXT:
        from simkit.cli.run_text import print_summary

        print_summary(found)
        return
    text = {
        TableFormat.CSV: found.csv, TableFormat.MARKDOWN: found.markdown,
        TableFormat.LATEX: found.latex,
    }[chosen]()  # fmt: skip
    if target is None:
        echo(text.rstrip("\n"))
        return
    from simkit.results.output_folder import check_file

    check_file(target)
    target.write_text(text, encoding="utf-8")
    echo(f"{target} written ({chosen.value})")


def _table_format(form: TableFormat | None, target: Path | None) -> TableFormat:
    """Return the format; raises BadParameter if the name of a file gives none."""
    if target is None:
        return form or TableFormat.TEXT
    chosen = form or _TABLE_ENDINGS.get(target.suffix.lower())
    if chosen is None or chosen is TableFormat.TEXT:
        raise typer.BadParameter(
            f"{target}: a file is written as csv, markdown or latex; end its name in .csv, .md or "
            ".tex, or add --format"
        )
    return chosen


class Claim(StrEnum):
    """What the schedule of another tool claims; see `simkit.verify.schedules.Claim`."""

    EASY = "easy"
    FCFS = "fcfs"
    ANY = "any"


def verify(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, or tables of another tool's schedule: .csv or .parquet with job, "
            "submit, start, end, processors and, if there is one, requested.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--inputs",
            metavar="DIR",
            help="A folder whose files may be read as inputs, besides the run folder, the working "
            "folder, the data folder and simkit's own; may be repeated.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 if a rule that may apply was not audited.")
    ] = False,
    processors: Annotated[
        float | None,
        typer.Option("--processors", min=0, help="Of a table: how many processors there are."),
    ] = None,
    policy: Annotated[
        Claim | None,
        typer.Option(
            "--policy",
            "-p",
            help="Of a table: what its schedule claims; default: easy. Any: capacity alone.",
            show_default=False,
        ),
    ] = None,
    verbose: Verbose = False,
    partial: Partial = False,
    as_json: AsJson = False,
) -> None:
    """Audit runs against their inputs and every rule; exit 1 with the violating rows.

    Of the schedule of another tool it checks times and capacity, and first come, first served or
    EASY backfilling: `simkit verify jobs.csv --processors 128 --policy easy`.
    """
    from simkit.cli.run_text import print_audit
    from simkit.cli.text import print_json
    from simkit.verify import verify_run
    from simkit.verify.schedules import ENDINGS, verify_schedule

    tables = [path for path in runs if path.suffix.lower() in ENDINGS and not path.is_dir()]
    if tables and processors is None:
        raise typer.BadParameter(f"{tables[0]}: a table does not say it; add --processors N")
    if (processors is not None or policy is not None) and not tables:
        raise typer.BadParameter("--processors and --policy are about tables; run folders say both")
    audits = [
        verify_schedule(path, processors=processors or 0.0, policy=(policy or Claim.EASY).value)
        if path in tables
        else verify_run(path, allow_partial=partial, inputs=inputs or ())
        for path in runs
    ]
    if as_json:
        found = [audit.to_dict() for audit in audits]
        print_json(found if len(found) > 1 else found[0])
    for number, audit in enumerate(() if as_json else audits):
        if number:
            echo()
        print_audit(audit, verbose=verbose)
    if not all(audit.ok for audit in audits):
        raise typer.Exit(1)
    if strict and not all(audit.fully_audited for audit in audits):
        raise typer.Exit(5)


class ExportFormat(StrEnum):
    """A format of `simkit export`."""

    SWF = "swf"
    BATSIM = "batsim"
    POWER = "power"


def export(
    run: RunFolder,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    form: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format", "-f", help="Default: batsim for .csv, power for .parquet, swf for the rest."
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For power: means over 5m, 1h, …; default: rows as they were recorded.",
        ),
    ] = None,
    partial: Partial = False,
) -> None:
    """Write a run for other tools.

    swf: its jobs as a log. batsim: its jobs with the columns of Batsim's jobs.csv. power: the
    power flows of its site as .csv or .parquet; `simkit export RUN power.csv -f power --every 5m`.
    """
    from simkit.analysis.export import export_batsim, export_power, export_swf
    from simkit.results.output_folder import check_file
    from simkit.results.run_folder import open_run

    chosen = form or _form_of(target)
    if every is not None and chosen is not ExportFormat.POWER:
        raise typer.BadParameter(f"--every goes with --format power, not {chosen.value}")
    opened = open_run(run, allow_partial=partial)
    check_file(target)
    if chosen is ExportFormat.POWER:
        export_power(opened, target, every=every)
    elif chosen is ExportFormat.BATSIM:
        export_batsim(opened, target)
    else:
        export_swf(opened, target)
    echo(f"{target} written ({chosen.value})")


def _form_of(target: Path) -> ExportFormat:
    """Return the format of a file by its name; raises RunError if the name gives none."""
    from simkit.errors import RunError

    endings = {
        ".csv": ExportFormat.BATSIM,
        ".parquet": ExportFormat.POWER,
        ".swf": ExportFormat.SWF,
        ".gz": ExportFormat.SWF,
    }
    if (form := endings.get(target.suffix.lower())) is None:
        raise RunError(
            f"{target}: the name gives no format; end it in .swf, .swf.gz, .csv or .parquet, or "
            "add --format swf, batsim or power"
        )
    return form


class PictureKind(StrEnum):
    """The subject of a picture."""

    JOBS = "jobs"
    POWER = "power"
    COMPARISON = "comparison"
    SWEEP = "sweep"
    TRAINING = "training"


def plot(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Runs, a sweep, or trainings."),
    ],
    kind: Annotated[
        PictureKind | None,
        typer.Option(
            "--kind",
            "-k",
            help="Subject of the picture. Default: sweep with --x, comparison with --with, "
            "training for folders of `simkit train`, else jobs.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A .png, .svg or .pdf file; default: plot.png, power.png, by-user.png, … in the "
            "first folder.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Of runs: partition, queue, user, group, size or length of jobs. Of a sweep: keys "
            "of the scenario that make lines of their own.",
            show_default=False,
        ),
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(
            "--x",
            metavar="KEY",
            help="Of a sweep: the key along the axis.",
            show_default=False,
        ),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            "--y",
            metavar="METRIC",
            help="Of a sweep: a metric; default: wait_time_s.",
            show_default=False,
        ),
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="Of a comparison: a run of B; repeat it for each seed of A.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Of a comparison: a metric; may be repeated.", show_default=False
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    partial: Partial = False,
) -> None:
    """Draw runs, a comparison, a sweep or trainings.

    jobs: utilisation, queue, waits and, of runs on power, their supply; several runs share one
    picture; with --by, waits and slowdowns of each group. power: the site of one run. comparison:
    the differences of two runs, or of runs paired by seed. sweep: `simkit plot SWEEP --x
    workload.offered_load --y wait_time_s --by policy`, mean and interval over seeds. training:
    learning curves.
    """
    from simkit.errors import RunError
    from simkit.results.output_folder import check_file

    chosen = kind or _kind_of(folders, x, y, others)
    names = [part.strip() for text in by or () for part in text.split(",") if part.strip()]
    asked = {"--x": x, "--y": y, "--by": names, "--with": others, "--metric": metric}
    for option, value in asked.items():
        if value and option not in _TAKES[chosen]:
            fits = [name.value for name, taken in _TAKES.items() if option in taken]
            raise typer.BadParameter(
                f"{option} does not go with a picture of {chosen.value}, but of {' or '.join(fits)}"
            )
    if len(folders) > 1 and chosen in (PictureKind.POWER, PictureKind.SWEEP):
        noun = "runs" if chosen is PictureKind.POWER else "folders"
        raise typer.BadParameter(f"{len(folders)} {noun}; a picture of {chosen.value} shows one")
    for folder in folders:
        if not os.path.exists(folder):  # noqa: PTH110  False for a name that is too long
            raise RunError(
                f"{folder}: there is no such folder; give those that `simkit run`, `simkit sweep` "
                "or `simkit train` wrote"
            )
    picture = target or folders[0] / f"{_usual_name(chosen, names)}.png"
    check_file(picture)
    if chosen is PictureKind.SWEEP:
        from simkit.analysis.plot_sweep import plot_sweep

        if x is None:
            raise typer.BadParameter(_without_x(folders))
        plot_sweep(folders, x, y or "wait_time_s", by=names, level=level, target=picture)
    elif chosen is PictureKind.TRAINING:
        from simkit.training.curves import plot_training

        plot_training(folders, picture)
    else:
        _plot_runs(chosen, folders, others or [], names, metric, level, partial, picture)
    echo(f"picture: {picture}")


_TAKES = {
    PictureKind.JOBS: ("--by",),
    PictureKind.POWER: (),
    PictureKind.COMPARISON: ("--by", "--with", "--metric"),
    PictureKind.SWEEP: ("--x", "--y", "--by"),
    PictureKind.TRAINING: (),
}
"""Subject → the options that go with it."""


def _kind_of(
    folders: list[Path], x: str | None, y: str | None, others: list[Path] | None
) -> PictureKind:
    """Return the subject of a picture by its options and folders."""
    from simkit.training.folder import is_training

    if x is not None or y is not None:
        return PictureKind.SWEEP
    if others:
        return PictureKind.COMPARISON
    if all(map(is_training, folders)):
        return PictureKind.TRAINING
    only = folders[0]
    is_run = len(folders) > 1 or not os.path.isdir(only) or (only / "run.json").exists()  # noqa: PTH112
    holds_runs = not is_run and next(only.rglob("run.json"), None) is not None
    return PictureKind.SWEEP if holds_runs else PictureKind.JOBS


def _without_x(folders: list[Path]) -> str:
    """Return what a picture of a sweep needs, and what there is."""
    from simkit.analysis.runs_below import Settings
    from simkit.analysis.summary import complete_runs

    keys = [key for key in Settings(complete_runs(folders)[0]).varying if key != "seed"]
    which = f"one of {', '.join(keys)}" if keys else "but its runs differ in no key"
    return f"a picture of a sweep needs --x, {which}"


def _usual_name(kind: PictureKind, by: list[str]) -> str:
    if kind is PictureKind.JOBS:
        return f"by-{by[0]}" if by else "plot"
    return kind.value if kind is PictureKind.POWER else "plot"


def _plot_runs(
    kind: PictureKind,
    folders: list[Path],
    others: list[Path],
    by: list[str],
    metric: list[str] | None,
    level: float,
    partial: bool,
    picture: Path,
) -> None:
    """Draw runs, their power, or their comparison."""
    from simkit.analysis.compare import compare_runs
    from simkit.analysis.plot import plot_compare
    from simkit.analysis.plot_comparison import plot_comparison
    from simkit.analysis.plot_groups import plot_groups
    from simkit.analysis.plot_power import plot_power
    from simkit.results.run_folder import open_run

    if len(by) > 1 or (by and by[0] not in list(Group)):
        raise typer.BadParameter(
            f"--by {', '.join(by)}: jobs are grouped by one of {', '.join(Group)}"
        )
    group = Group(by[0]) if by else None
    if kind is PictureKind.COMPARISON and not others and len(folders) != 2:
        raise typer.BadParameter(
            f"{len(folders)} runs; a comparison has two, or the runs of B by --with"
        )
    if kind is PictureKind.COMPARISON and not others:
        folders, others = folders[:1], folders[1:]
    first = [open_run(folder, allow_partial=partial) for folder in folders]
    second = [open_run(folder, allow_partial=partial) for folder in others]
    if kind is PictureKind.COMPARISON:
        found = compare_runs(
            first,
            second,
            metrics=metric or None,
            by=None if group is None else group.value,
            level=level,
        )
        plot_comparison(found, picture)
    elif kind is PictureKind.POWER:
        plot_power(first[0], picture)
    elif group is not None:
        plot_groups(first, group.value, picture)
    else:
        plot_compare(first, picture)
    echo(f"picture: {picture}")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="One run, or several to compare with the first; or the folder of a sweep.",
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="An .html file; default: report.html in the first folder.",
            show_default=False,
        ),
    ] = None,
    partial: Partial = False,
) -> None:
    """Write a report of runs or a sweep: one HTML file that opens from disk, without a network.

    Of a run: headline numbers, what was in use and waiting over time, power, a Gantt chart, waits
    by group, the scenario. Several runs: also who gains and who loses. A sweep: response curves.
    """
    from simkit.report.report import write_report

    page = write_report(runs, target or runs[0] / "report.html", allow_partial=partial)
    echo(f"report: {page} ({page.stat().st_size / 1e6:,.1f} MB)")
