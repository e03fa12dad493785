"""The commands that judge runs and write them: bound, compare, summarise, verify, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from simkit.cli.options import (
    AsJson,
    By,
    Level,
    NoCode,
    Partial,
    RunFolder,
    Scenario,
    Seed,
    Settings,
    Sort,
    Top,
    Verbose,
    groups_of,
    overrides,
    scenario_source,
)
from simkit.cli.text import (
    READ_WIDTH,
    Blocks,
    Line,
    Plain,
    Table,
    echo,
    print_blocks,
    print_or_json,
)
from simkit.text import counted
from simkit.units import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simkit.analysis.time_bound import TimeBound
    from simkit.verify.audit import Audit


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="A B", help="Two run folders; with --with, all runs of A."),
    ],
    others: Annotated[
        list[Path] | None, typer.Option("--with", help="A run of B; repeat it for each seed of A.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="A metric to compare, of jobs (wait_time_s, job_value, energy_j, …) or of whole "
            "runs (carbon_kg, grid_kwh.import, wait_time_s.p99, …); may be repeated.",
        ),
    ] = None,
    by: By = None,
    sort: Sort = None,
    top: Top = None,
    level: Level = 0.95,
    partial: Partial = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs, job by job or as a whole: differences B - A with confidence intervals.

    `simkit compare A B` compares two runs; the interval is a bootstrap over weeks. Several seeds:
    `simkit compare A0 A1 A2 --with B0 --with B1 --with B2`.
    """
    from simkit.analysis.compare import compare_runs
    from simkit.cli.run_text import comparison_blocks
    from simkit.results.run_folder import open_run

    groups = groups_of(by, sort, top)
    if others:
        folders = list(runs), list(others)
    elif len(runs) == 2:
        folders = [runs[0]], [runs[1]]
    else:
        raise typer.BadParameter(
            f"{counted(len(runs), 'run')}; give two, or the runs of B by --with"
        )
    first, second = ([open_run(f, allow_partial=partial) for f in side] for side in folders)
    comparison = compare_runs(first, second, metrics=metric or None, by=by, level=level)
    blocks = comparison_blocks(comparison, groups)
    print_or_json(blocks, comparison.as_json(), as_json=as_json)


TableFormat = Literal["text", "csv", "markdown", "latex"]
"""A format of `simkit summarise`."""
_TABLE_ENDINGS: Final[dict[str, TableFormat]] = {".csv": "csv", ".md": "markdown", ".tex": "latex"}


def summarise(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...", help="Run folders, or folders of runs such as a sweep's."
        ),
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Keys of the scenario that make the groups: policy,workload.offered_load. "
            "Default: all that differ but the seed."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="A metric: wait_time_s, wait_time_s.p99, carbon_kg; may be repeated.",
        ),
    ] = None,
    form: Annotated[
        TableFormat | None,
        typer.Option(
            "--format", "-f", help="Default: by the ending of FILE (.csv, .md, .tex), else text."
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the table to this file."),
    ] = None,
    level: Level = 0.95,
) -> None:
    """Summarise a sweep: mean and interval over seeds of each metric, the best marked."""
    from simkit.analysis.summary import summarise as summary_of

    chosen = _table_format(form, target)
    keys, names = (
        [part.strip() for text in texts or () for part in text.split(",") if part.strip()]
        for texts in (by, metric)
    )
    found = summary_of(runs, keys, names, level=level)
    if chosen == "text":
        from simkit.cli.run_text import summary_blocks

        print_blocks(summary_blocks(found))
        return
    text = {"csv": found.csv, "markdown": found.markdown, "latex": found.latex}[chosen]()
    if target is None:
        echo(text.rstrip("\n"))
        return
    from simkit.results.output_folder import write_text

    write_text(target, text)
    echo(f"{target} written ({chosen})")


def _table_format(form: TableFormat | None, target: Path | None) -> TableFormat:
    """Return the format; raises BadParameter if the name of a file gives none."""
    if target is None:
        return form or "text"
    chosen = form or _TABLE_ENDINGS.get(target.suffix.lower())
    if chosen in (None, "text"):
        raise typer.BadParameter(
            f"{target}: a file is written as csv, markdown or latex; end its name in .csv, .md or "
            ".tex, or add --format"
        )
    return chosen


Claim = Literal["easy", "fcfs", "any"]
"""What the schedule of another tool claims; see `simkit.verify.schedules.Claim`."""


def verify(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, or tables of another tool's schedule: .csv or .parquet with job, "
            "submit, start, end, processors and, if there is one, requested.",
        ),
    ],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder whose files may be read as inputs, besides the run folder, the working "
            "folder, the data folder and simkit's own; may be repeated.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 if a rule that may apply was not audited.")
    ] = False,
    processors: Annotated[
        float | None, typer.Option(min=0, help="For a table: how many processors there are.")
    ] = None,
    policy: Annotated[
        Claim | None,
        typer.Option(
            "--policy",
            "-p",
            help="For a table: what its schedule claims; default: easy. Any: capacity alone.",
        ),
    ] = None,
    verbose: Verbose = False,
    partial: Partial = False,
    as_json: AsJson = False,
) -> None:
    """Audit runs against their inputs and every rule; exit 1 with the violating rows.

    For the schedule of another tool it checks times and capacity, and first come, first served or
    EASY backfilling: `simkit verify jobs.csv --processors 128 --policy easy`.
    """
    from simkit.verify import verify_run
    from simkit.verify.schedules import ENDINGS, verify_schedule

    tables = [path for path in runs if path.suffix.lower() in ENDINGS and not path.is_dir()]
    if tables and processors is None:
        raise typer.BadParameter(f"{tables[0]}: a table does not say it; add --processors N")
    if (processors is not None or policy is not None) and not tables:
        raise typer.BadParameter("--processors and --policy are about tables; run folders say both")
    audits = [
        verify_schedule(path, processors=processors or 0.0, policy=policy or "easy")
        if path in tables
        else verify_run(path, allow_partial=partial, inputs=inputs or ())
        for path in runs
    ]
    found = [audit.to_dict() for audit in audits]
    blocks = audits_blocks(audits, verbose=verbose)
    print_or_json(blocks, found if len(found) > 1 else found[0], as_json=as_json)
    if not all(audit.ok for audit in audits):
        raise typer.Exit(1)
    if strict and not all(audit.fully_audited for audit in audits):
        raise typer.Exit(5)


def audits_blocks(audits: Sequence[Audit], *, verbose: bool = False) -> Blocks:
    """Yield the checks of each audit, an empty line between two."""
    for number, audit in enumerate(audits):
        if number:
            yield Plain()
        yield from audit_blocks(audit, verbose=verbose)


def audit_blocks(audit: Audit, *, verbose: bool = False) -> Blocks:
    """Yield the checks and the rows that break a rule; those that do not apply if `verbose`."""
    rows = []
    for check in audit.checks:
        if check.skipped and not check.applies and not verbose:
            continue
        if audit.alike and check.skipped.startswith(audit.alike):
            continue  # the last line says it of all these rules at once
        found = "-" if check.skipped else f"{check.found:,}"
        why_not = "not audited: because" if check.applies else "does not apply:"
        rule = f"{why_not} {check.skipped}" if check.skipped else check.rule
        rows.append((check.name, f"{check.examined:,}", found, rule))
    heads = ["Check", "examined", "violations", "rule"]
    yield Table(heads, rows, text=1, piped_width=READ_WIDTH)
    for check in audit.checks:
        for violation in check.violations:
            yield Plain(str(violation), wraps=True)
        if more := check.found - len(check.violations):
            yield Plain(f"{check.name}: and {more:,} more", wraps=True)
    for check in audit.checks:
        for what, value in check.notes.items():
            if value:
                yield Plain(f"note: {check.name}: {what}: {_listed(value)}", wraps=True)
    yield Plain(f"{audit.folder}: {audit.summary()}", wraps=True)


def _listed(value: Any) -> str:
    """Return a note's number or text, or several separated by commas."""
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else ", ".join(map(str, value))


ExportFormat = Literal["swf", "batsim", "power"]
"""A format of `simkit export`."""
_ENDINGS: Final[dict[str, ExportFormat]] = {
    ".csv": "batsim", ".parquet": "power", ".swf": "swf", ".gz": "swf",
}  # fmt: skip


def export(
    run: RunFolder,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    form: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format", "-f", help="Default: batsim for .csv, power for .parquet, swf for the rest."
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For power: means over 5m, 1h, …; default: rows as they were recorded.",
        ),
    ] = None,
    partial: Partial = False,
) -> None:
    """Write a run for other tools.

    swf: its jobs as a log. batsim: its jobs with the columns of Batsim's jobs.csv. power: the
    power flows of its site as .csv or .parquet; `simkit export RUN power.csv -f power --every 5m`.
    """
    from simkit.analysis.export import export_batsim, export_power, export_swf
    from simkit.results.output_folder import check_file
    from simkit.results.run_folder import open_run

    chosen = form or _form_of(target)
    if every is not None and chosen != "power":
        raise typer.BadParameter(f"--every goes with --format power, not {chosen}")
    opened = open_run(run, allow_partial=partial)
    check_file(target)
    if chosen == "power":
        export_power(opened, target, every=every)
    elif chosen == "batsim":
        export_batsim(opened, target)
    else:
        export_swf(opened, target)
    echo(f"{target} written ({chosen})")


def _form_of(target: Path) -> ExportFormat:
    """Return the format of a file by its name; raises RunError if the name gives none."""
    from simkit.errors import RunError

    if (form := _ENDINGS.get(target.suffix.lower())) is None:
        raise RunError(
            f"{target}: the name gives no format; end it in .swf, .swf.gz, .csv or .parquet, or "
            "add --format swf, batsim or power"
        )
    return form


REASONS: Final = {
    "alone": "no job ends before its run time has passed",
    "one machine": "all work on one machine of the whole size, the shortest remaining first",
    "mean work": "all work on one machine of the whole size, by weight and size",
    "prices": "each job at its cheapest start, at the best prices found",
    "to come": "all work that is still to come, on the whole cluster",
    "no job": "no job has this metric",
    "interrupted": "unknown: jobs may be interrupted, and then wait until their first start",
}
"""Method of a bound → what it rests on, or why there is none."""


def bound(
    scenario: Scenario,
    seed: Seed = None,
    settings: Settings = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="A metric; may be repeated. Default: all that have one."
        ),
    ] = None,
    closest: Annotated[
        bool,
        typer.Option(
            "--closest",
            help="Look for the closest bounds of more than 5,000 jobs as well; a third of a second "
            "for every 250 jobs and metric.",
        ),
    ] = False,
    no_code: NoCode = False,
    as_json: AsJson = False,
) -> None:
    """Say how small waits, turnarounds and slowdowns can be at all, whatever the policy.

    No schedule that finishes all jobs and interrupts none is better, even if it knows all of them
    and their true run times beforehand, on the cluster as one pool that is always whole. `--set
    workload.window.jobs=0..255` takes a part of a log.
    """
    from simkit.analysis.time_bound import FEW, METRICS, bounds_of
    from simkit.experiment import prepare
    from simkit.scenario.yaml_document import load_scenario

    loaded = load_scenario(
        scenario_source(scenario), overrides=overrides(settings, seed), single=True,
        allow_code=not no_code,
    )  # fmt: skip
    experiment = prepare(loaded)
    jobs = len(experiment.trace.workload)
    found = bounds_of(
        experiment, list(dict.fromkeys(metric or METRICS)), few=jobs if closest else FEW
    )
    content = {
        "scenario": loaded.name, "jobs": jobs, "bounds": [asdict(one) for one in found]
    }  # fmt: skip
    print_or_json(bound_blocks(str(loaded.name), jobs, found), content, as_json=as_json)


def bound_blocks(name: str, jobs: int, found: Sequence[TimeBound]) -> Blocks:
    """Yield the bounds as a table."""
    yield Line("Scenario", name)
    yield Line("Jobs", counted(jobs, "job"))
    if left_out := max(one.left_out for one in found):
        yield Line("Left out", f"{counted(left_out, 'job')} that can never run: more is asked for "
            "than there is")  # fmt: skip
    rows = [
        [one.metric, quantity(one.value, "s" if one.metric.endswith("_s") else "1"),
         f"{one.jobs:,}", REASONS[one.method]]
        for one in found
    ]  # fmt: skip
    yield Table(["Metric", "at least", "jobs", "because"], rows, text=1)
