"""The command `simkit report`."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.options import AsJson, Group, NoCode, NoProgress, Partial, RunFolder
from simkit.cli.text import echo

if TYPE_CHECKING:
    from simkit.results.run_folder import Run
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simkit.report.report import Explanations


def explain(
    run: RunFolder,
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help="Ids of jobs.", show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Show what waits at this time and why, what is free and reserved, and scores: "
            "seconds or a duration after the trace's zero (10d, 3h), or as it is printed "
            "(3d 17:33:38, 1996-10-11 05:08:44); a date without a zone is on the run's clock.",
            show_default=False,
        ),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Split the waiting time of all jobs by cause.")
    ] = False,
    longest: Annotated[
        int | None,
        typer.Option(
            "--longest",
            min=1,
            metavar="N",
            help="The N jobs that waited longest.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--every", help="Show every interval, not neighbours of one cause as one."),
    ] = False,
    partial: Partial = False,
    no_code: NoCode = False,
    no_progress: NoProgress = False,
    as_json: AsJson = False,
) -> None:
    """Say why jobs of a run waited, in intervals that add up to the wait.

    `simkit explain RUN JOB` names what blocked it from when to when, and who overtook it.
    `simkit explain RUN --summary` splits all waiting by cause; `--at TIME` shows the queue then.
    The run is made again from its run.json, and must come out the same.
    """
    from simkit.cli.text import print_json
    from simkit.progress import watch_progress
    from simkit.results.run_folder import open_run

    asked = [bool(jobs), at is not None, summary, longest is not None]
    if sum(asked) != 1:
        raise typer.BadParameter(
            "give the ids of jobs, or one of --longest N, --summary and --at TIME"
        )
    opened = open_run(run, allow_partial=partial)
    total = opened.info.get("jobs")
    with watch_progress(total if isinstance(total, int) else 0, enabled=not no_progress) as watch:
        found = _explanations(opened, jobs or [], at, longest, partial, not no_code, watch)
    if as_json:
        content = [each.as_json() for each in found]
        print_json(content[0] if len(content) == 1 and longest is None else content)
        return
    for number, each in enumerate(found):
        if number:
            echo("")
        echo(each.text(every=every) if jobs or longest else each.text())


def _explanations(
    run: Run,
    jobs: list[str],
    at: str | None,
    longest: int | None,
    partial: bool,
    allow_code: bool,
    watch: Any,
) -> list[Any]:
    """Return what is to be shown; each has `text` and `as_json`."""
    from simkit.why.at import queue_at, time_of
    from simkit.why.jobs import explain_jobs, longest_waits
    from simkit.why.summary import explain_summary

    options: dict[str, Any] = {
        "allow_partial": partial,
        "allow_code": allow_code,
        "progress": watch,
    }
    if at is not None:
        return [queue_at(run, time_of(run, at), **options)]
    if longest is not None:
        return [*explain_jobs(run, longest_waits(run, longest, allow_partial=partial), **options)]
    if jobs:
        return [*explain_jobs(run, jobs, **options)]
    return [explain_summary(run, **options)]


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
    explain: Annotated[
        bool,
        typer.Option(
            "--explain/--no-explain",
            help="Say why the longest waits were so long; the runs are made again for that.",
        ),
    ] = True,
    allow_code: Annotated[
        bool,
        typer.Option(
            "--allow-code",
            help="Also run again what a scenario names as code, such as a policy of your own, to "
            "explain its waits. Off by default, as a report may be of a stranger's run.",
        ),
    ] = False,
    partial: Partial = False,
    no_progress: NoProgress = False,
) -> None:
    """Write a report of runs or a sweep: one HTML file that opens from disk, without a network.

    Of a run: headline numbers, what was in use and waiting over time, power, a Gantt chart, waits
    by group, the scenario. Several runs: also who gains and who loses. A sweep: response curves.
    """
    from simkit.report.report import MOST_RUNS, write_report

    single = len(runs) <= MOST_RUNS and all((run / "run.json").is_file() for run in runs)
    why: list[Explanations] = []
    if explain and single:
        why = [_explained(run, partial, allow_code, not no_progress) for run in runs]
    page = write_report(
        runs, target or runs[0] / "report.html", explanations=why, allow_partial=partial
    )
    echo(f"report: {page} ({page.stat().st_size / 1e6:,.1f} MB)")


def _explained(folder: Path, partial: bool, allow_code: bool, shows_progress: bool) -> Explanations:
    """Return why a run's longest waits were so long; nothing, with a note, if it cannot be told."""
    from simkit.cli.text import warn
    from simkit.errors import SimkitError
    from simkit.plugins import code_refused
    from simkit.progress import watch_progress
    from simkit.report.report import explanations_of
    from simkit.results.run_folder import open_run

    run = open_run(folder, allow_partial=partial)
    total = run.info.get("jobs")
    try:
        with (
            watch_progress(total if isinstance(total, int) else 0, enabled=shows_progress) as watch,
            code_refused(not allow_code, remedy="give --allow-code"),
        ):
            return explanations_of(
                run, allow_partial=partial, allow_code=allow_code, progress=watch
            )
    except SimkitError as error:
        warn(f"note: the longest waits of {folder} are not explained: {error}")
        return {}


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
    if not 0 < level < 1:
        raise typer.BadParameter(f"--level {level:g}; a level of confidence lies between 0 and 1")
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
