"""The commands that show runs: explain, report, plot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

import typer

from simkit.cli.options import AsJson, Group, Level, NoCode, NoProgress, Partial, RunFolder
from simkit.cli.text import echo

if TYPE_CHECKING:
    from simkit.report.report import Explanations
    from simkit.results.run_folder import Run


def explain(
    run: RunFolder,
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids of jobs.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Show what waits at this time and why, what is free and reserved, and scores: "
            "seconds or a duration after the trace's zero (10d, 3h), or as it is printed "
            "(3d 17:33:38, 1996-10-11 05:08:44); a date without a zone is on the run's clock.",
        ),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Split the waiting time of all jobs by cause.")
    ] = False,
    longest: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The N jobs that waited longest.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--every", help="Do not merge adjacent intervals with the same cause."),
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
    with watch_progress(opened.info.get("jobs", 0), enabled=not no_progress) as watch:
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
    from simkit.why.at import queue_at
    from simkit.why.jobs import explain_jobs, longest_waits
    from simkit.why.rerun import clock_of
    from simkit.why.summary import explain_summary

    options: dict[str, Any] = {
        "allow_partial": partial,
        "allow_code": allow_code,
        "progress": watch,
    }
    if at is not None:
        return [queue_at(run, clock_of(run).time_of(at), **options)]
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
            "--output", "-o", help="An .html file; default: report.html in the first folder."
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
            "explain its waits. Off by default, as a report may show someone else's run.",
        ),
    ] = False,
    partial: Partial = False,
    no_progress: NoProgress = False,
) -> None:
    """Write a report of runs or a sweep: one HTML file that opens from disk, without a network.

    One run: headline numbers, what was in use and waiting over time, power, a Gantt chart, waits
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
    try:
        with (
            watch_progress(run.info.get("jobs", 0), enabled=shows_progress) as watch,
            code_refused(not allow_code, remedy="give --allow-code"),
        ):
            return explanations_of(
                run, allow_partial=partial, allow_code=allow_code, progress=watch
            )
    except SimkitError as error:
        warn(f"note: the longest waits of {folder} are not explained: {error}")
        return {}


PictureKind = Literal["jobs", "power", "comparison", "sweep", "training"]
"""The subject of a picture."""


def plot(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Runs, a sweep, or trainings.")
    ],
    kind: Annotated[
        PictureKind | None,
        typer.Option(
            "--kind",
            "-k",
            help="Subject of the picture. Default: sweep with --x, comparison with --with, "
            "training for folders of `simkit train`, else jobs.",
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
            help="For runs: partition, queue, user, group, size or length of jobs. For a sweep: "
            "keys of the scenario that make lines of their own."
        ),
    ] = None,
    x: Annotated[
        str | None, typer.Option(metavar="KEY", help="For a sweep: the key along the axis.")
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="For a sweep: a metric; default: wait_time_s."),
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", help="For a comparison: a run of B; repeat it for each seed of A."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="For a comparison: a metric; may be repeated."),
    ] = None,
    level: Level = 0.95,
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
            fits = [name for name, taken in _TAKES.items() if option in taken]
            raise typer.BadParameter(
                f"{option} does not go with a picture of {chosen}, but of {' or '.join(fits)}"
            )
    if len(folders) > 1 and chosen in ("power", "sweep"):
        noun = "runs" if chosen == "power" else "folders"
        raise typer.BadParameter(f"{len(folders)} {noun}; a picture of {chosen} shows one")
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
    if chosen == "sweep":
        from simkit.analysis.plot_sweep import plot_sweep

        if x is None:
            raise typer.BadParameter(_without_x(folders))
        plot_sweep(folders, x, y or "wait_time_s", by=names, level=level, target=picture)
    elif chosen == "training":
        from simkit.training.curves import plot_training

        plot_training(folders, picture)
    else:
        _plot_runs(chosen, folders, others or [], names, metric, level, partial, picture)
    echo(f"picture: {picture}")


_TAKES: Final[dict[PictureKind, tuple[str, ...]]] = {
    "jobs": ("--by",),
    "power": (),
    "comparison": ("--by", "--with", "--metric"),
    "sweep": ("--x", "--y", "--by"),
    "training": (),
}
"""Subject → the options that go with it."""


def _kind_of(
    folders: list[Path], x: str | None, y: str | None, others: list[Path] | None
) -> PictureKind:
    """Return the subject of a picture by its options and folders."""
    from simkit.training.folder import is_training

    if x is not None or y is not None:
        return "sweep"
    if others:
        return "comparison"
    if all(map(is_training, folders)):
        return "training"
    only = folders[0]
    is_run = len(folders) > 1 or not os.path.isdir(only) or (only / "run.json").exists()  # noqa: PTH112
    holds_runs = not is_run and next(only.rglob("run.json"), None) is not None
    return "sweep" if holds_runs else "jobs"


def _without_x(folders: list[Path]) -> str:
    """Return what a picture of a sweep needs, and what there is."""
    from simkit.analysis.runs import Settings
    from simkit.analysis.summary import complete_runs

    keys = [key for key in Settings(complete_runs(folders)[0]).varying if key != "seed"]
    which = f"one of {', '.join(keys)}" if keys else "but its runs differ in no key"
    return f"a picture of a sweep needs --x, {which}"


def _usual_name(kind: PictureKind, by: list[str]) -> str:
    if kind == "jobs":
        return f"by-{by[0]}" if by else "plot"
    return kind if kind == "power" else "plot"


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
    from simkit.analysis.plot import plot_view
    from simkit.analysis.plot_comparison import plot_comparison
    from simkit.results.run_folder import open_run

    if len(by) > 1 or (by and by[0] not in get_args(Group)):
        raise typer.BadParameter(
            f"--by {', '.join(by)}: jobs are grouped by one of {', '.join(get_args(Group))}"
        )
    group: Any = by[0] if by else None
    if kind == "comparison" and not others:
        if len(folders) != 2:
            raise typer.BadParameter(
                f"{len(folders)} runs; a comparison has two, or the runs of B by --with"
            )
        folders, others = folders[:1], folders[1:]
    first = [open_run(folder, allow_partial=partial) for folder in folders]
    if kind == "comparison":
        second = [open_run(folder, allow_partial=partial) for folder in others]
        found = compare_runs(first, second, metrics=metric or None, by=group, level=level)
        plot_comparison(found, picture)
    else:
        plot_view(first, picture, by=group, kind="power" if kind == "power" else "jobs")
