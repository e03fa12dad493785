"""Writes the report of runs or of a sweep: one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

from simkit.analysis.runs_below import runs_below
from simkit.errors import RunError
from simkit.report.clock import Clock, clock_of
from simkit.report.facts import longest_waits, missing_tables, run_facts
from simkit.report.gains import compare_with_first
from simkit.report.gantt import MOST_JOBS, MOST_RECTANGLES, chart_of
from simkit.report.groups import distributions_of, groups_of, recorded_waits
from simkit.report.over_time import charts_over_time
from simkit.report.packed import Packed
from simkit.report.page import page_text
from simkit.report.recorded_log import log_waits
from simkit.report.sweeps import sweep_facts
from simkit.results.output_folder import check_file, whole_file
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.text import counted

MOST_RUNS: Final = 6
"""Runs that are shown side by side; of more, a table and curves are shown, as of a sweep."""

Explanations = Mapping[Any, Sequence[tuple[float, float, str, str]]]
"""Job id → why it waited, in order: start (s, on the trace's clock), end (s), cause, sentence."""


def write_report(
    runs: RunOrFolder | Sequence[RunOrFolder],
    target: str | PathLike[str],
    *,
    explanations: Sequence[Explanations] = (),
    allow_partial: bool = False,
) -> Path:
    """Write the report of runs or of a sweep into one HTML file; return the file.

    The file loads nothing: it opens from disk, without a network. The same runs give the same
    bytes.

    Args:
        runs: a run or its folder, up to `MOST_RUNS` of them; or folders with runs below them, such
            as a sweep's.
        target: the file, ``.html``; it is replaced when the new one is whole.
        explanations: why jobs waited, one mapping a run in their order; `longest_waits` names the
            jobs that the page lists.
        allow_partial: also take runs that were interrupted or failed.

    Raises RunError for folders without runs, for runs among folders of runs, and for a file that
    cannot be written.
    """
    given = [runs] if isinstance(runs, (Run, str, PathLike)) else list(runs)
    if not given:
        raise RunError("report: no run is given; name at least one run folder, or a sweep's folder")
    path = Path(target)
    if path.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"{path}: a report is an .html file; name it so")
    _check_not_mixed(given)
    is_sweep = len(given) > MOST_RUNS or any(_holds_runs(one) for one in given)
    if is_sweep:
        opened = [one for one in given if isinstance(one, Run)]
        opened += runs_below(one for one in given if not isinstance(one, Run))
    else:
        opened = [open_run(one, allow_partial=allow_partial) for one in given]
    check_file(path)
    text = _of_sweep(opened) if is_sweep else _of_runs(opened, explanations)
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _holds_runs(one: RunOrFolder) -> bool:
    """Return whether a folder is none of a run, but may have runs below it."""
    return not isinstance(one, Run) and Path(one).is_dir() and not (Path(one) / "run.json").exists()


def _is_run(one: RunOrFolder) -> bool:
    return isinstance(one, Run) or (Path(one) / "run.json").exists()


def _check_not_mixed(given: Sequence[RunOrFolder]) -> None:
    """Raise RunError for runs among folders of runs, which have no table and curves in common."""
    folders = [Path(one) for one in given if not isinstance(one, Run) and _holds_runs(one)]
    above = [folder for folder in folders if next(folder.rglob("run.json"), None) is not None]
    runs = [one.folder if isinstance(one, Run) else one for one in given if _is_run(one)]
    if above and runs:
        run = runs[0]
        raise RunError(
            f"report: {run} is a run and {above[0]} a folder of runs; a report shows runs beside "
            f"each other, or the runs of a sweep; write two: `simkit report {run}` and "
            f"`simkit report {above[0]}`"
        )


def _of_sweep(runs: Sequence[Run]) -> str:
    sweep = sweep_facts(runs)
    data = {"sweep": sweep, "runs": []}
    return page_text(f"{sweep['name']}: {counted(len(runs), 'run')}", data, ())


def _of_runs(runs: Sequence[Run], explanations: Sequence[Explanations]) -> str:
    clock = clock_of([run for run in runs if run.resources and not missing_tables(run)])
    shown, blocks = [], []
    for number, run in enumerate(runs):
        why = explanations[number] if number < len(explanations) else {}
        packed = Packed()
        facts = _of_run(run, clock, packed, why, share=len(runs))
        columns = packed.finish()
        blocks.append(columns.pop("block"))
        shown.append({**facts, **columns})
    data = {
        "runs": shown,
        "clock": clock.as_json() if clock else None,
        "comparisons": compare_with_first(runs) if len(runs) > 1 else [],
    }
    names = " · ".join(dict.fromkeys(run.name for run in runs))
    return page_text(names, data, blocks)


def _of_run(
    run: Run, clock: Clock | None, packed: Packed, why: Explanations, share: int
) -> dict[str, Any]:
    """Return all that the page shows of a run; its columns go into `packed`."""
    facts = run_facts(run)
    if missing := missing_tables(run):
        return {**facts, "empty": f"it has no table of {', '.join(missing)}"}
    if clock is None or not run.resources or not facts["counts"]["submitted"]:
        return {**facts, "empty": "no job was ever submitted"}
    longest = [
        {**job, "explanation": [list(part) for part in why.get(job["job_id"], ())]}
        for job in longest_waits(run)
    ]
    return {
        **facts,
        "charts": charts_over_time(run, clock, packed),
        "gantt": chart_of(
            run, clock, packed, rectangles=MOST_RECTANGLES // share, jobs=MOST_JOBS // share
        ),
        "groups": groups_of(run),
        "distributions": distributions_of(run),
        "recorded": recorded_waits(run, log_waits(run)),
        "longest": longest,
    }
