"""The command `simkit calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simkit.cli.echo import echo
from simkit.cli.options import AsJson, NoCode, NoProgress

if TYPE_CHECKING:
    from simkit.scenario import Scenario


def calibrate(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="A log with recorded starts, or a scenario whose log and machines are used.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the best scenario to this YAML file.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--csv", metavar="FILE", help="Write the table to this file.", show_default=False
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="TYPE",
            help="The log's type in a scenario, such as swf; default: detected.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a value of the scenario that is calibrated: --set "
            "cluster.processors=430. May be repeated.",
            show_default=False,
        ),
    ] = None,
    weeks: Annotated[
        int, typer.Option("--weeks", min=2, help="Most weeks to judge, spread over the log.")
    ] = 40,
    week: Annotated[str, typer.Option("--week", help="Length of a week.")] = "7d",
    warmup: Annotated[
        str, typer.Option("--warmup", help="Time before each week, with the recorded starts.")
    ] = "7d",
    workers: Annotated[
        int | None, typer.Option("--workers", "-j", min=1, help="Processes; default: all cores.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    no_code: NoCode = False,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Say which policy, estimates and limits explain the waits that a log records.

    Orders and backfilling are tried first, then estimates, limits of users and priorities of
    queues. Each week begins with the jobs that ran and waited by the log. Every other week
    chooses; the others, which chose nothing, report how well the choice explains them.
    """
    from simkit.cli.calibration.text import csv_text, print_calibration, write
    from simkit.cli.text import print_json
    from simkit.experiment.calibration import calibrate as search
    from simkit.experiment.calibration_weeks import Split
    from simkit.experiment.interrupt import terminated_like_interrupted
    from simkit.progress import runs_progress

    base = _scenario_of(log, kind, settings, allow_code=not no_code)
    for target in (output, table):
        _check_target(target, log, force=force)
    split = Split(_seconds("--week", week), _seconds("--warmup", warmup, least=0), weeks)
    with (
        terminated_like_interrupted(),
        runs_progress(MOST, str, not no_progress) as advance,
    ):
        found = search(base, split, workers=workers, told=advance)
    if output is not None:
        write(found, output, log)
    if table is not None:
        from simkit.results.output_folder import whole_file

        with whole_file(table) as part:
            part.write_text(csv_text(found), encoding="utf-8")
    if as_json:
        print_json(found.as_dict())
    else:
        print_calibration(found, log)
    for target in (output, table):
        if target is not None and not as_json:
            echo(f"wrote {target}")


MOST = 22
"""About as many candidates are tried; the bar ends a little early or late."""


def _seconds(option: str, text: str, least: float = 60.0) -> float:
    """Return the seconds of an option; raises ScenarioError for none, or too few."""
    from simkit.errors import ScenarioError
    from simkit.units import format_duration, parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ScenarioError(f"{option}: {error}") from None
    if not least <= seconds < float("inf"):
        raise ScenarioError(
            f"{option}: {text!r} is too short or endless; give at least {format_duration(least)}"
        )
    return seconds


def _scenario_of(
    log: Path, kind: str | None, settings: list[str] | None, *, allow_code: bool
) -> Scenario:
    """Return the first scenario of a log, or the one that is named, with --set laid over it."""
    from simkit.cli.options import overrides
    from simkit.cli.trace import trace_at
    from simkit.errors import ScenarioError
    from simkit.experiment.api import log_type, refuse_mistaken
    from simkit.scenario.bundled import find_scenario
    from simkit.scenario.first_scenario import first_scenario
    from simkit.scenario.yaml_document import ScenarioText, load_scenario

    laid_over = overrides(settings, None)
    path = find_scenario(str(log)) if kind is None and not log.exists() else log
    if kind is None and path.is_dir():
        refuse_mistaken(path, str(log))
    is_scenario = kind is None and path.is_file() and not log_type(path)
    if is_scenario:
        loaded = load_scenario(path, overrides=laid_over, allow_code=allow_code)
    else:
        made = first_scenario(trace_at(log, kind, None), Path.cwd() / "calibrated.yaml")
        text = ScenarioText(made.text.encode(), str(log))
        loaded = load_scenario(text, overrides=laid_over, allow_code=allow_code)
    loaded = loaded.model_copy(update={"sweep": {}})
    if loaded.power is not None:
        raise ScenarioError("power: a log is calibrated without power; --set power=null")
    return loaded


def _check_target(target: Path | None, log: Path, *, force: bool) -> None:
    """Raise RunError if a file to write is the log, is there, or cannot be written."""
    from simkit.errors import RunError
    from simkit.results.output_folder import check_file

    if target is None:
        return
    check_file(target)
    if target.exists() and log.exists() and target.samefile(log):
        raise RunError(f"{target}: is the log itself; name another file")
    if target.exists() and not force:
        raise RunError(f"{target}: is there already; replace it with --force, or name another file")
