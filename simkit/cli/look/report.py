"""The command `simkit report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simkit.cli.echo import echo
from simkit.cli.options import NoProgress, Partial

if TYPE_CHECKING:
    from simkit.report.report import Explanations


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
