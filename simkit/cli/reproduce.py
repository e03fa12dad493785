"""The command `simkit reproduce`: a paper's figures again, from training to page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.echo import echo
from simkit.cli.options import NoProgress

GROUP = "simkit.reproductions"
WORK = Path("runs")


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="The reproduction; without it, list them.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            show_default=False,
            help="Where to write the page; default: runs/reproduce-NAME.",
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            "--work",
            metavar="FOLDER",
            show_default=False,
            help="Where trainings are kept and resumed; default: runs/reproduce-NAME/work.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", "-j", min=1, help="Processes; default: all cores.")
    ] = None,
    no_progress: NoProgress = False,
) -> None:
    """Reproduce a paper's figures, from training to picture, next to its claims.

    It may be interrupted: finished trainings and results are not repeated.
    """
    import os

    from simkit import plugins
    from simkit.experiment.interrupt import terminated_like_interrupted
    from simkit.results.output_folder import check_place
    from simkit.training import Reproduction, Workplace

    if name is None:
        for known in plugins.names(GROUP):
            echo(known)
        return
    carry_out: Reproduction = plugins.find(GROUP, name)
    default = WORK / (f"reproduce-{name}-quick" if quick else f"reproduce-{name}")
    pages, kept = output or default, work or default / "work"
    for folder in (pages, kept):
        check_place(folder)
        folder.mkdir(parents=True, exist_ok=True)
    say = (lambda _line: None) if no_progress else (lambda line: echo(line, err=True))
    try:
        with terminated_like_interrupted():
            page = carry_out(Workplace(pages, kept, quick, workers or os.cpu_count() or 1, say))
    except KeyboardInterrupt:
        echo(f"interrupted; the same command continues from {kept}", err=True)
        raise typer.Exit(130) from None
    echo(f"{page} written")
