"""The commands of learning: `train`, `evaluate`, `reproduce` and `burst-times …`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from simkit.cli.options import (
    AsJson,
    Level,
    NoCode,
    NoProgress,
    Output,
    Scenario,
    Seed,
    Settings,
    WholeHelpGroup,
    Workers,
    overrides,
    scenario_source,
)
from simkit.cli.text import (
    Blocks,
    Line,
    Plain,
    Table,
    echo,
    print_blocks,
    print_or_json,
    warn,
    warnings_kept,
)

if TYPE_CHECKING:
    from simkit.analysis.intervals import Interval
    from simkit.scenario import Scenario as LoadedScenario
    from simkit.scenario.yaml_document import Source
    from simkit.training import Training
    from simkit.training.evaluate import Candidate, Evaluation, Judged
    from simkit.training.folder import Row
    from simkit.training.held_out import Unseen
    from simkit.training.train import Trained


TRAININGS = Path("trainings")
"""Default folder of trainings."""
GROUP = "simkit.reproductions"
WORK = Path("runs")
"""Default folder of reproductions."""


def train(
    scenario: Scenario,
    output: Output = None,
    learner: Annotated[
        str | None,
        typer.Option(
            help="Use this learner; default: the scenario's, else the usual one for its workload. "
            "Arguments and iterations that the scenario gives another learner do not count."
        ),
    ] = None,
    seed: Seed = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Iterations in all.")] = None,
    settings: Settings = None,
    no_code: NoCode = False,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option(help="Where the learner calculates.")
    ] = "cpu",
    checkpoint_every: Annotated[
        str, typer.Option(metavar="TIME", help="Time between checkpoints: 30s, 5m.")
    ] = "60s",
    force: Annotated[
        bool, typer.Option("--force", help="Start over, whatever the folder holds.")
    ] = False,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Train an agent on a scenario, or continue an interrupted training.

    The folder is trainings/NAME-HASH unless --output names one; FOLDER/agent is the agent, which a
    scenario names: `policy: {agent: FOLDER}`. The same command continues an interrupted training,
    and gives the same agent as without the interruption.
    """
    from simkit.scenario import scenario_hash
    from simkit.scenario.yaml_document import load_scenario
    from simkit.training.train import stands_at, with_learner
    from simkit.training.train import train as do_train

    given = {"learn.learner": learner, "learn.iterations": iterations}
    short = [f"{key}={value}" for key, value in given.items() if value is not None]
    source = scenario_source(scenario)
    laid_over = _for_its_learner(source, overrides([*(settings or ()), *short], seed))
    given_scenario = load_scenario(source, overrides=laid_over, single=True, allow_code=not no_code)
    loaded = with_learner(given_scenario)
    folder = output or TRAININGS / f"{loaded.name}-{scenario_hash(loaded)[:8]}"
    every_s = _seconds(checkpoint_every)
    try:
        with training_progress(enabled=not no_progress) as watch, warnings_kept() as said:
            done = do_train(
                loaded,
                folder,
                device=device,
                checkpoint_every_s=every_s,
                force=force,
                watch=watch,
            )
    except KeyboardInterrupt:
        echo(f"interrupted; {stands_at(folder)}", err=True)
        raise typer.Exit(130) from None
    usual_for = "" if loaded is given_scenario else loaded.workload.type
    print_or_json(_training_blocks(done, usual_for), _as_json(done), as_json=as_json)
    for text in said:
        warn(f"warning: {text}")


def _for_its_learner(source: Source, laid_over: dict[str, Any]) -> dict[str, Any]:
    """Return overrides that drop what the scenario says to another learner than theirs."""
    from simkit.scenario.overrides import anchor_paths
    from simkit.scenario.yaml_document import Document

    key = "learn.learner"
    if laid_over.get(key) is None:
        return laid_over
    others = {name: value for name, value in laid_over.items() if not name.startswith("learn.")}
    document = Document.read(source, others)
    data = document.laid_over({}, [])
    learn = data.get("learn") if isinstance(data, dict) else None
    theirs = learn.get("learner") if isinstance(learn, dict) else None
    if theirs is None or anchor_paths({key: theirs}, document.base)[key] == laid_over[key]:
        return laid_over
    return {"learn.arguments": {}, "learn.iterations": None, **laid_over}


def _seconds(text: str) -> float:
    from simkit.units import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"--checkpoint-every: {error}") from error
    if seconds <= 0:
        raise typer.BadParameter(f"--checkpoint-every is {text}; it must be more than 0")
    return seconds


def _as_json(done: Trained) -> dict[str, Any]:
    keys = ("learner", "seed", "iteration", "iterations", "stopped", "best")
    return {
        "training": str(done.folder),
        "agent": str(done.agent),
        **{key: done.info.get(key) for key in keys},
        "last": dict(done.rows[-1]) if done.rows else {},
        "was_finished": done.was_finished,
    }


def _training_blocks(done: Trained, usual_for: str) -> Blocks:
    """Yield what came of a training; `usual_for`: the workload whose usual learner was taken."""
    from simkit.training.train import CLOCK, EVALUATION
    from simkit.units import format_duration

    info = done.info
    if done.was_finished:
        yield Line("Training", f"{done.folder} was finished already; --force starts over")
    seconds, judged = (
        format_duration(sum(row.get(name, 0.0) for row in done.rows))
        for name in ("wall_time_s", EVALUATION)
    )
    if any(EVALUATION in row for row in done.rows):
        seconds += f", and {judged} for evaluations"
    why = f" (the usual one for {usual_for})" if usual_for else ""
    yield Line("Learner", f"{info['learner']}{why}, seed {info['seed']}, {info['device']}")
    yield Line("Iterations", f"{info['iteration']:,} of {info['iterations']:,} in {seconds}: "
        f"{info.get('stopped', '')}")  # fmt: skip
    shown = {k: v for k, v in done.rows[-1].items() if k not in ("iteration", *CLOCK)}
    yield Line("Last", ", ".join(f"{name} {value:,.6g}" for name, value in shown.items()))
    if best := info.get("best"):
        name, value = next(iter(best.items()))
        yield Line("Best", f"{name} {value:,.6g} at iteration {best['iteration']:,}")
    yield Line("Agent", f"{done.agent} ({_kept(info)})")


def _kept(info: Any) -> str:
    best = info.get("best")  # absent if the learner judges nothing
    if best and info["scenario"]["learn"]["keep"] == "best":
        return f"of iteration {best['iteration']:,}, the best by the criterion"
    return "of the last iteration"


def evaluate(
    scenario: Scenario,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            "-a",
            metavar="FOLDER",
            help="A training, a bundle, or a bundled agent; may be repeated.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="ORDER, ORDER+BACKFILL, my_policy.py:Mine or {KEY: VALUE, …}, as in a scenario; "
            "simkit policies lists names. May be repeated.",
        ),
    ] = None,
    sets: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Held-out job sets; default: the workload's own numbered job sets, else 10 seeds.",
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds as job sets: 0..9 or 0,3,7.")] = None,
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="A..B|N",
            help="Windows of the trace as job sets, both ends included: with workload.window.jobs "
            "0..9, window 2 is jobs 20..29. Of that key, only the number of jobs counts: windows "
            "are numbered from the trace's first job. With --held-out: how many.",
        ),
    ] = None,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Judge on what trainings hold out: windows spread over the last 20 % of a trace, "
            "or the first seeds of a model. Share, jobs and number are those of the agent's own "
            "training; without an agent, 30 windows.",
        ),
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --held-out: jobs of a set.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="A metric of jobs, a number of its distribution, or one of a run: slowdown, "
            "wait_time_s.p99, makespan_s. Repeated: further ones beside the first. Default: "
            "slowdown; with --held-out the one by which the agent's training selected.",
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option(
            "--bound", help="Also say what no schedule can be below, and how near each comes."
        ),
    ] = False,
    level: Level = 0.95,
    seed: Seed = None,
    settings: Settings = None,
    no_code: NoCode = False,
    workers: Workers = None,
    output: Output = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another evaluation in --output.")
    ] = False,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Compare agents and heuristics on the same held-out job sets, with confidence intervals.

    Unfinished jobs count at their current value. The reference is the best heuristic;
    differences and ratios are against it, paired set by set.
    """
    from simkit.experiment.interrupt import terminated_like_interrupted
    from simkit.progress import runs_progress
    from simkit.results.run_writer import claimed
    from simkit.scenario.yaml_document import load_scenario
    from simkit.training.evaluate import (
        agent_candidate,
        check_evaluation,
        evaluation_hash,
        policy_candidate,
        write_evaluation,
    )
    from simkit.training.evaluate import evaluate as judge_all
    from simkit.training.held_out import held_out as sets_of
    from simkit.training.held_out import metric_of_agents, parse_seeds, parse_windows

    laid_over = overrides(settings, seed)
    loaded = load_scenario(
        scenario_source(scenario), overrides=laid_over, single=True, allow_code=not no_code
    )
    candidates = [*map(agent_candidate, agent or ()), *map(policy_candidate, policy or ())]
    chosen = parse_seeds(seeds) if seeds is not None else None
    unseen = _unseen(loaded, candidates, windows, jobs) if held_out else None
    if jobs is not None and not held_out:
        raise typer.BadParameter("--jobs is the size of held-out job sets; add --held-out")
    usual = metric_of_agents(_agents(candidates)) if held_out else "slowdown"
    first, *beside = dict.fromkeys(metric or [usual])
    numbers = parse_windows(windows) if windows is not None and unseen is None else None
    where = sets_of(loaded, sets=sets, seeds=chosen, windows=numbers, unseen=unseen)
    if output is not None:
        identity = evaluation_hash(loaded, candidates, where, (first, *beside), level, bound)
        check_evaluation(output, identity, force=force)
    runs = (len(candidates) + bound) * len(where)
    try:
        with (
            terminated_like_interrupted(),
            claimed(output, "an evaluation") if output is not None else nullcontext(),
            runs_progress(runs, lambda o: o.assignment["label"], not no_progress) as advance,
        ):
            found = judge_all(
                loaded,
                candidates,
                sets=sets,
                seeds=chosen,
                windows=numbers,
                unseen=unseen,
                metric=first,
                beside=beside,
                bound=bound,
                level=level,
                workers=workers,
                on_end=advance,
                allow_code=not no_code,
            )
            if output is not None:
                write_evaluation(found, output)
    except KeyboardInterrupt:
        echo("interrupted; an evaluation cannot be continued, start it again", err=True)
        raise typer.Exit(130) from None
    written = [] if output is None else [Plain(f"written to {output}")]
    blocks = chain(_evaluation_blocks(found), written)
    print_or_json(blocks, found.as_json(), as_json=as_json)


def _unseen(
    scenario: LoadedScenario,
    candidates: Sequence[Candidate],
    windows: str | None,
    jobs: int | None,
) -> Unseen:
    """Return the held-out job sets that are asked for."""
    from simkit.training.held_out import Unseen

    if windows is not None and not (windows.isdecimal() and int(windows)):
        raise typer.BadParameter(
            f"--windows {windows}: with --held-out, it is how many windows, such as 30"
        )
    count = None if windows is None else int(windows)
    return Unseen.of_agents(scenario, _agents(candidates), count=count, jobs=jobs)


def _agents(candidates: Sequence[Candidate]) -> list[Path]:
    """Return the folders of the candidates that are agents."""
    from simkit.errors import ScenarioError
    from simkit.scenario.bundled import agent_folder

    named = [one.policy["agent"] for one in candidates if "agent" in one.policy]
    try:
        return [agent_folder(name, Path.cwd()) for name in named]
    except ValueError as error:
        raise ScenarioError(f"--policy: {error}") from error


def _evaluation_blocks(found: Evaluation) -> Blocks:
    """Yield each candidate's means, how it does against the reference, and notes on the columns."""
    from simkit.text import counted
    from simkit.units import quantity

    heads = ["Candidate", "mean of sets", "low", "high", "of all jobs", "unfinished", "rejected"]
    rows = []
    for one in found.candidates:
        means = (one.set_mean, *_bounds(one.interval), one.pooled_mean)
        numbers = (quantity(number, found.unit) for number in means)
        rows.append([one.label, *numbers, f"{one.unfinished:,}", f"{one.rejected:,}"])
    if found.bound is not None:
        heads.append("of the gap")
        for row, one in zip(rows, found.candidates, strict=True):
            row.append("-" if one.of_gap is None else f"{one.of_gap:.0%}")
        rows.append(["bound", quantity(found.bound, found.unit), *["-"] * (len(heads) - 2)])
    yield Table(heads, rows)
    if found.beside:
        yield Plain()
        yield _beside_table(found)
    others = [one for one in found.candidates if one.label != found.reference]
    if others:
        yield Plain()
        yield from _against_blocks(found.reference, others, found.unit)
    empty = f"; {found.empty_sets} more without a job are left out" if found.empty_sets else ""
    first = found.candidates[0]
    yield Line("Metric", found.metric)
    yield Line("Job sets", f"{found.sets:,} with {counted(first.submitted, 'job')}{empty}")
    if others:
        told = f"{found.reference}; differences and wins are against it, set by set"
        yield Line("Reference", told)
    if found.bound is not None:
        yield Line("Bound", "no schedule that finishes all jobs and interrupts none is below it, "
            "whatever it knows")  # fmt: skip
        yield Line(
            "Of the gap", f"how far each comes on the way from {found.reference} to the bound"
        )
        if any(one.unfinished for one in found.candidates):
            yield Line("Note", "not all jobs have finished: the bound is not for such schedules, "
                "which may be below it")  # fmt: skip
    if any(one.log_ratio is not None for one in others):
        yield Line("Log ratio", "mean over the sets of ln(candidate / reference); 0.01 is 1 % more")
    interval = first.interval
    yield Line("Interval", f"{interval.level:.0%}, {interval.method}")
    if _overlap(found):
        yield Line("Note", "the windows share jobs, so the intervals are too narrow; take fewer "
            "with --windows, or shorter ones with --jobs")  # fmt: skip
    if any(one.unfinished for one in found.candidates):
        yield Line("Note", "unfinished jobs count with their value up to the end of the run")


def _beside_table(found: Evaluation) -> Table:
    """Return the means over the sets of the further metrics."""
    from simkit.results.all_metrics import measured

    rows = [
        [
            one.label,
            *(measured(name, one.beside[name], unit) for name, unit in found.beside.items()),
        ]
        for one in found.candidates
    ]
    return Table(["Mean of sets", *found.beside], rows)


def _overlap(found: Evaluation) -> bool:
    """Return whether held-out windows have jobs in common."""
    spans = sorted({tuple(map(int, row["window"].split(".."))) for row in found.rows
                    if "window" in row})  # fmt: skip
    return any(later[0] <= earlier[1] for earlier, later in pairwise(spans))


def _against_blocks(reference: str, others: Sequence[Judged], unit: str) -> Blocks:
    """Yield how each candidate does against the reference, set by set."""
    from simkit.units import quantity

    heads = [f"Against {reference}", "difference", "low", "high", "log ratio", "low", "high",
             "wins", "ties", "losses"]  # fmt: skip
    rows = []
    for one in others:
        differences = (one.difference, *_bounds(one.difference_interval))
        ratios = (one.log_ratio, *_bounds(one.log_ratio_interval))
        rows.append([
            one.label,
            *(quantity(number, unit) for number in differences),
            *(quantity(number, "1") for number in ratios),
            *(f"{number:,}" for number in (one.wins, one.ties, one.losses)),
        ])  # fmt: skip
    yield Table(heads, rows)


def _bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _silent(_line: str) -> None:
    """Show nothing; a function, as a `Workplace` goes to other processes."""


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The reproduction; without it, list them."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where to write the page; default: runs/reproduce-NAME.",
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where trainings are kept and resumed; default: runs/reproduce-NAME/work.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    workers: Workers = None,
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
    say: Callable[[str], None] = _silent if no_progress else partial(echo, err=True)
    try:
        with terminated_like_interrupted():
            page = carry_out(Workplace(pages, kept, quick, workers or os.cpu_count() or 1, say))
    except KeyboardInterrupt:
        echo(f"interrupted; the same command continues from {kept}", err=True)
        raise typer.Exit(130) from None
    echo(f"{page} written")


@contextmanager
def training_progress(*, enabled: bool) -> Iterator[Callable[[Training, Row], None] | None]:
    """Yield what shows an iteration, as a bar from the first on; None if stderr is no terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    from simkit.progress import progress_bar
    from simkit.training.train import EVALUATION, HELD_OUT
    from simkit.units import format_duration

    bar = progress_bar("{task.fields[numbers]}", "{task.fields[rate]}")
    row_of_bar, last = bar.add_task("", numbers="", rate=""), {"held out": ""}
    judged_s = 0.0

    def show(training: Training, row: Row) -> None:
        nonlocal judged_s
        bar.start()
        judged_s += row.get(EVALUATION, 0.0)
        rates = [f"{row['decisions_per_s']:,.0f} decisions/s"] if "decisions_per_s" in row else []
        if judged_s:
            rates.append(f"evaluations {format_duration(judged_s)}")
        held_out = {name: value for name, value in row.items() if name.startswith(HELD_OUT)}
        if held_out:
            name = HELD_OUT + training.criterion
            name = name if name in held_out else next(iter(held_out))
            last["held out"] = f", held out {held_out[name]:,.4g}"  # the bar has to fit as well
        bar.update(
            row_of_bar,
            total=training.iterations,
            completed=training.iteration,
            numbers=(f"return {row['return']:,.4g}" if "return" in row else "") + last["held out"],
            rate=", ".join(rates),
        )

    try:
        yield show
    finally:
        bar.stop()


burst_times = typer.Typer(
    help="Predict how long programs run from the sections of their executables.",
    cls=WholeHelpGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)


Model = Literal["local-power-law", "trees", "network"]
"""The kinds of models; see `simkit.learners.run_times.burst_predictor`."""


@burst_times.command("fit")
def fit(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Where to write the predictor's bundle."
        ),
    ],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            help="The bursts.parquet that `simkit trace generate elf-bursts` has written; default: "
            "a sample that comes with simkit.",
        ),
    ] = None,
    model: Annotated[
        Model, typer.Option("--model", "-m", help="Model to fit.")
    ] = "local-power-law",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the held-out programs and the model.")
    ] = 0,
) -> None:
    """Fit a predictor of run times to measured programs, and say how well it does.

    It is judged by the macro F1 of ten classes, tenths of 0.3 s, on 30 % of the programs, which are
    held out at random or by ranges of their size. The bundle is then fitted to all of them.
    """
    from simkit import plugins

    done = plugins.find("simkit.tools", "burst-times.fit")(table, output, model, seed)
    rows = [
        [way, *("-" if score is None else f"{score:.3f}" for score in scores)]
        for way, scores in done.macro_f1.items()
    ]
    print_blocks([Table(["Macro F1, held out", "static arrays", "arrays on the heap"], rows)])
    fitted = f"fitted to {done.programs:,} programs of {done.kinds} kinds"
    echo(f"\n{output} written: {model}, {fitted}")


@burst_times.command("predict")
def predict(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="A folder that `fit` has written.")
    ],
    programs: Annotated[
        list[Path], typer.Argument(metavar="PROGRAM", help="Executable files in ELF.")
    ],
) -> None:
    """Predict how long programs run, from the section sizes of their executables.

    The time is meant for the machine on which the programs of the fit were measured. A program that
    differs from all of them is marked: its prediction is unreliable.
    """
    from simkit import plugins
    from simkit.cli.text import wrapped

    found = plugins.find("simkit.tools", "burst-times.predict")(bundle, programs)
    heads = ["Program", "time", "class", "from", "to", "probability", "like those fitted to"]
    rows = [[str(one.path), *_cells(one), "no" if one.unlike else "yes"] for one in found]
    print_blocks([Table(heads, rows)])
    for one in found:
        if one.unlike:
            echo()
            wrapped(
                f"{one.path} is unlike every program that the predictor was fitted to: it is "
                f"{one.times_usual:,.1f} times as far from the nearest as 99 % of them are from "
                "theirs. Do not rely on its time; measure programs like it and fit again."
            )


def _cells(one: Any) -> list[str]:
    """Return time, class, its span and its probability."""
    low, high = one.span_s
    return [
        f"{one.run_time_s:.4f} s", str(one.label), f"{low:.2f} s",
        "-" if high is None else f"{high:.2f} s",
        "-" if one.probability is None else f"{one.probability:.0%}",
    ]  # fmt: skip
