"""The command `simkit evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from simkit.cli_options import AsJson, NoProgress, Output, Scenario, Seed, Settings, overrides

if TYPE_CHECKING:
    from simkit.bootstrap import Interval
    from simkit.evaluate import Evaluation


def evaluate(
    scenario: Scenario,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            "-a",
            metavar="FOLDER",
            help="A training, a bundle, or an agent that comes with simkit; may be repeated.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="sjf, fcfs+easy, my_policy.py:Mine or {fitness: tetris}; may be repeated.",
        ),
    ] = None,
    sets: Annotated[
        int | None,
        typer.Option(
            "--sets",
            min=1,
            help="Held-out job sets; default: the 100 of the original code for a workload of type "
            "deeprm, else 10 seeds.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Seeds as job sets: 0..9 or 0,3,7.", show_default=False),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="A metric of single jobs: slowdown, …")
    ] = "slowdown",
    level: Annotated[float, typer.Option(help="Level of confidence.")] = 0.95,
    seed: Seed = None,
    settings: Settings = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-j", min=1, help="Processes; default: all cores.")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Judge agents and heuristics on the same held-out job sets, with confidence intervals.

    Jobs that never ended count with their value so far, and are counted. The reference is the best
    heuristic; differences from it are paired, set by set.
    """
    from simkit.candidates import agent_candidate, policy_candidate
    from simkit.cli_text import print_json
    from simkit.evaluate import evaluate as judge_all
    from simkit.evaluate import write_evaluation
    from simkit.held_out import held_out, parse_seeds
    from simkit.mistaken_scenario import scenario_file
    from simkit.output_place import check_place
    from simkit.progress import evaluation_progress
    from simkit.scenario_file import load_scenario

    laid_over = overrides(settings, seed)
    loaded = load_scenario(scenario_file(scenario), overrides=laid_over, single=True)
    candidates = [*map(agent_candidate, agent or ()), *map(policy_candidate, policy or ())]
    chosen = parse_seeds(seeds) if seeds is not None else None
    if output is not None:
        check_place(output)
    runs = len(candidates) * len(held_out(loaded, sets=sets, seeds=chosen))
    try:
        with evaluation_progress(runs, enabled=not no_progress) as advance:
            found = judge_all(
                loaded,
                candidates,
                sets=sets,
                seeds=chosen,
                metric=metric,
                level=level,
                workers=workers,
                on_end=advance,
            )
    except KeyboardInterrupt:
        typer.echo("interrupted; an evaluation keeps nothing: start it again", err=True)
        raise typer.Exit(130) from None
    if output is not None:
        write_evaluation(found, output)
    if as_json:
        print_json(found.as_json())
    else:
        _print(found)
        if output is not None:
            typer.echo(f"written to {output}")


def _print(found: Evaluation) -> None:
    """Print a row for each candidate, then how to read it."""
    from simkit.cli_text import console, quantity, say, table
    from simkit.words import counted

    made = table("Candidate", "mean of sets", "low", "high", "of all jobs", "difference",
                 "low", "high", "wins", "ties", "unfinished", "rejected")  # fmt: skip
    for one in found.candidates:
        apart: tuple[float | None, ...] = (one.difference, *_bounds(one.difference_interval))
        means = (one.set_mean, *_bounds(one.interval), one.pooled_mean)
        against = one.label != found.reference
        made.add_row(
            one.label,
            *(quantity(number, found.unit) for number in (*means, *apart)),
            f"{one.wins:,}" if against else "-",
            f"{one.ties:,}" if against else "-",
            f"{one.unfinished:,}",
            f"{one.rejected:,}",
        )
    console().print(made)
    empty = f"; {found.empty_sets} more without a job are left out" if found.empty_sets else ""
    first = found.candidates[0]
    say("Metric", found.metric)
    say("Job sets", f"{found.sets:,} with {counted(first.submitted, 'job')}{empty}")
    say("Reference", f"{found.reference}; differences and wins are against it, set by set")
    interval = first.interval
    say("Interval", f"{interval.level:.0%}, {interval.method}")
    if any(one.unfinished for one in found.candidates):
        say("Note", "unfinished jobs count with their value up to the end of the run")


def _bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)
