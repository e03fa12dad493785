"""The command `simkit explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.echo import echo
from simkit.cli.options import AsJson, NoCode, NoProgress, Partial, RunFolder

if TYPE_CHECKING:
    from simkit.results.run_folder import Run


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
