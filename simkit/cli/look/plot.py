"""The command `simkit plot`."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.echo import echo
from simkit.cli.options import Group, Partial


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
