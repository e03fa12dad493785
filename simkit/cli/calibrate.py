"""The command `simkit calibrate`: its options, its table on the screen and as CSV, its scenario."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from ruamel.yaml import YAML

from simkit.cli.options import AsJson, NoCode, NoProgress, Workers, overrides
from simkit.cli.text import Blocks, Line, Table, echo, print_or_json
from simkit.cli.trace import Format, check_new, trace_at
from simkit.results.output_folder import write_text
from simkit.scenario.first_scenario import first_scenario, path_from
from simkit.text import counted, printable
from simkit.units import format_duration, parse_duration, quantity

if TYPE_CHECKING:
    from simkit.experiment.calibration import Calibration, Row
    from simkit.experiment.calibration_weeks import Score
    from simkit.scenario import Scenario


def calibrate(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="A log with recorded starts, or a scenario whose log and machines are used.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the best scenario to this YAML file."
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table to this file.")
    ] = None,
    kind: Format = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a value of the scenario that is calibrated: --set "
            "cluster.processors=430. May be repeated.",
        ),
    ] = None,
    weeks: Annotated[
        int, typer.Option(min=2, help="Most weeks to judge, spread over the log.")
    ] = 40,
    week: Annotated[str, typer.Option(help="Length of a week.")] = "7d",
    warmup: Annotated[
        str, typer.Option(help="Time before each week, with the recorded starts.")
    ] = "7d",
    workers: Workers = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    no_code: NoCode = False,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Say which policy, estimates and limits explain the waits that a log records.

    Orders and backfilling are tried first, then estimates, limits of users and priorities of
    queues. Each week begins with the jobs that ran and waited by the log. Alternate
    weeks select; the rest validate.
    """
    from simkit.experiment.calibration import calibrate as search
    from simkit.experiment.calibration_weeks import Split
    from simkit.experiment.interrupt import terminated_like_interrupted
    from simkit.progress import runs_progress

    base = _scenario_of(log, kind, settings, allow_code=not no_code)
    for option, target in (("--output", output), ("--csv", table)):
        if target is not None:
            check_new(target, log, option, force=force)
    split = Split(_seconds("--week", week), _seconds("--warmup", warmup, least=0), weeks)
    with (
        terminated_like_interrupted(),
        runs_progress(MOST, str, not no_progress) as advance,
    ):
        found = search(base, split, workers=workers, on_result=advance)
    if output is not None:
        write(found, output, log)
    if table is not None:
        write_text(table, csv_text(found))
    print_or_json(calibration_blocks(found, log), found.as_dict(), as_json=as_json)
    for target in (output, table):
        if target is not None and not as_json:
            echo(f"wrote {target}")


MOST = 22
"""Approximate number of candidates; the bar ends a little early or late."""


def _seconds(option: str, text: str, least: float = 60.0) -> float:
    """Return the seconds of an option; raises ScenarioError for none, or too few."""
    from simkit.errors import ScenarioError

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
    from simkit.errors import ScenarioError
    from simkit.experiment.api import log_type, refuse_mistaken
    from simkit.scenario.bundled import find_scenario
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


HEADS = (
    "Candidate", "chosen on: within 5 min", "weekly error",
    "reported on: within 5 min", "weekly error", "mean wait",
)  # fmt: skip


def calibration_blocks(found: Calibration, log: Path) -> Blocks:
    """Yield what was tried, what explains the log best, and what cannot have happened."""
    yield Line("Log", str(log))
    chosen = [week for week in found.weeks if week.chooses]
    split = found.split
    length = format_duration(split.length_s)
    yield Line("Weeks", f"{counted(len(chosen), 'week')} of {length} to choose, "
        f"{len(found.weeks) - len(chosen):,} others to report, after a warm-up of "
        f"{format_duration(split.warmup_s)} each with the recorded starts")  # fmt: skip
    for part, score in _scores(found.best):
        unknown = f"; {score.unknown:,} without a recorded wait are not judged" * (
            score.unknown > 0
        )
        wait = quantity(_known(score.recorded_mean_s), "s")
        yield Line("", f"{part}: {counted(score.jobs, 'job')}, recorded waits {wait} on average "
            f"over the weeks{unknown}")  # fmt: skip
    yield Table(HEADS, [_cells(row, found) for row in found.rows])
    best, nearest = found.best, found.nearest
    yield Line("Best", f"{best.candidate.name}: explains {_share(best.reports)} of the waits "
        "within five minutes on weeks that chose nothing")  # fmt: skip
    if nearest is not best:
        yield Line("", f"nearest weekly means on the weeks that chose: {nearest.candidate.name}, "
            f"{quantity(_known(nearest.reports.weekly_error_s), 's')} off on weeks that chose "
            "nothing")  # fmt: skip
    if (none := found.rows[0]).reports.share_within >= best.reports.share_within:
        yield Line("", f"that {none.candidate.name} explains {_share(none.reports)}: jobs waited "
            "for what is not tried here, or in an order that it does not find")  # fmt: skip
    if best.reports.unstarted + best.chooses.unstarted:
        never = best.reports.unstarted + best.chooses.unstarted
        yield Line(
            "", f"{counted(never, 'job')} never started under it, and count as not explained"
        )
    yield from _impossible_blocks(found)


def _scores(row: Row) -> tuple[tuple[str, Score], tuple[str, Score]]:
    return ("to choose", row.chooses), ("to report", row.reports)


def _cells(row: Row, found: Calibration) -> list[str]:
    name = f"{row.candidate.name} (best)" if row is found.best else row.candidate.name
    return [
        name,
        *(_share(row.chooses), quantity(_known(row.chooses.weekly_error_s), "s")),
        *(_share(row.reports), quantity(_known(row.reports.weekly_error_s), "s")),
        quantity(_known(row.reports.mean_s), "s"),
    ]


def _share(score: Score) -> str:
    return f"{score.share_within:.1%}" if score.share_within == score.share_within else "unknown"


def _known(value: float) -> float | None:
    return value if value == value else None


def _impossible_blocks(found: Calibration) -> Blocks:
    rows = found.impossible
    of = f"of {counted(rows.jobs, 'job')} on {rows.capacity:,.10g} processors"
    facts = {
        "larger than the machine": rows.too_large,
        "started while more was in use than there is": rows.starts_over_capacity,
        "started before their submission": rows.started_early,
        "without a recorded start": rows.without_start,
    }
    some = [f"{count:,} {what}" for what, count in facts.items() if count]
    yield Line("Impossible", f"{'; '.join(some) or 'nothing'} ({of})")
    if rows.instants_over_capacity:
        yield Line("", f"at {counted(rows.instants_over_capacity, 'instant')}, for "
            f"{format_duration(rows.time_over_capacity_s)} in all; the most in use at once: "
            f"{rows.peak:,.10g}")  # fmt: skip


def csv_text(found: Calibration) -> str:
    """Return the table as CSV: a row a candidate, empty where a number is not known."""
    rows = found.table()
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write(found: Calibration, target: Path, log: Path) -> None:
    """Write the best scenario as YAML that `simkit run` takes, with how well it does."""
    data: dict[str, Any] = found.scenario.model_dump(mode="json", exclude_defaults=True)
    workload = found.scenario.model_dump(mode="json")["workload"]
    path = Path(workload["path"])
    data["workload"]["path"] = path_from(path, target)
    data.pop("name", None)
    best = found.best
    yaml, text = YAML(), StringIO()
    yaml.width = 4096
    yaml.dump(data, text)
    lines = [
        f"# What explains the waits of {printable(log.name)} best, found by `simkit calibrate`:",
        f"# {printable(best.candidate.name)}",
        f"# {_share(best.reports)} of the waits are within five minutes on weeks that chose "
        "nothing,",
        f"# weekly means {quantity(_known(best.reports.weekly_error_s), 's')} off on average.",
        text.getvalue(),
    ]
    write_text(target, "\n".join(lines))
