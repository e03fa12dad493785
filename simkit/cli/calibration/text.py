"""Text about a calibration: the table on the screen, as CSV, and the best scenario as YAML."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from simkit.cli.tables import print_table
from simkit.cli.text import quantity, say
from simkit.results.output_folder import whole_file
from simkit.scenario.first_scenario import path_from
from simkit.text import counted, printable
from simkit.units import format_duration

if TYPE_CHECKING:
    from simkit.experiment.calibration import Calibration, Row
    from simkit.experiment.calibration_weeks import Score

HEADS = (
    "Candidate", "chosen on: within 5 min", "weekly error",
    "reported on: within 5 min", "weekly error", "mean wait",
)  # fmt: skip


def print_calibration(found: Calibration, log: Path) -> None:
    """Print what was tried, what explains the log best, and what cannot have happened."""
    say("Log", str(log))
    chosen = [week for week in found.weeks if week.chooses]
    split = found.split
    length = format_duration(split.length_s)
    say("Weeks", f"{counted(len(chosen), 'week')} of {length} to choose, "
        f"{len(found.weeks) - len(chosen):,} others to report, after a warm-up of "
        f"{format_duration(split.warmup_s)} each with the recorded starts")  # fmt: skip
    for part, score in _scores(found.best):
        unknown = f"; {score.unknown:,} without a recorded wait are not judged" * (
            score.unknown > 0
        )
        wait = quantity(_known(score.recorded_mean_s), "s")
        say("", f"{part}: {counted(score.jobs, 'job')}, recorded waits {wait} on average over the "
            f"weeks{unknown}")  # fmt: skip
    print_table(HEADS, [_cells(row, found) for row in found.rows])
    best, nearest = found.best, found.nearest
    say("Best", f"{best.candidate.name}: explains {_share(best.reports)} of the waits within five "
        "minutes on weeks that chose nothing")  # fmt: skip
    if nearest is not best:
        say("", f"nearest weekly means on the weeks that chose: {nearest.candidate.name}, "
            f"{quantity(_known(nearest.reports.weekly_error_s), 's')} off on weeks that chose "
            "nothing")  # fmt: skip
    if (none := found.rows[0]).reports.share_within >= best.reports.share_within:
        say("", f"that {none.candidate.name} explains {_share(none.reports)}: jobs waited for what "
            "is not tried here, or in an order that it does not find")  # fmt: skip
    if best.reports.unstarted + best.chooses.unstarted:
        never = best.reports.unstarted + best.chooses.unstarted
        say("", f"{counted(never, 'job')} never started under it, and count as not explained")
    _print_impossible(found)


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


def _print_impossible(found: Calibration) -> None:
    rows = found.impossible
    of = f"of {counted(rows.jobs, 'job')} on {rows.capacity:,.10g} processors"
    told = {
        "larger than the machine": rows.too_large,
        "started while more was in use than there is": rows.starts_over_capacity,
        "started before their submission": rows.started_early,
        "without a recorded start": rows.without_start,
    }
    some = [f"{count:,} {what}" for what, count in told.items() if count]
    say("Impossible", f"{'; '.join(some) or 'nothing'} ({of})")
    if rows.instants_over_capacity:
        say("", f"at {counted(rows.instants_over_capacity, 'instant')}, for "
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
    with whole_file(target) as part:
        part.write_text("\n".join(lines), encoding="utf-8")
