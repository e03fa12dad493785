"""The commands that take a scenario, and those that list what it may name or be.

run, sweep, validate, show; policies, scenarios, schema, version.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from simkit.cli.options import (
    AsJson,
    By,
    EngineName,
    NoCode,
    NoProgress,
    Output,
    Scenario,
    ScenarioOrFork,
    Seed,
    Settings,
    Sort,
    SwitchPolicy,
    Top,
    Verbose,
    Workers,
    groups_of,
    overrides,
    scenario_source,
    swept,
)
from simkit.cli.text import echo, print_blocks, print_or_json

if TYPE_CHECKING:
    from simkit.experiment.workers import Executor
    from simkit.experiment.workload import TraceMemory
    from simkit.scenario import Scenario as Loaded
    from simkit.scenario.yaml_document import Source

RUNS = Path("runs")
"""The default folder of runs."""


def run(
    scenario: ScenarioOrFork = None,
    output: Output = None,
    seed: Seed = None,
    settings: Settings = None,
    engine: EngineName = None,
    switch_policy: SwitchPolicy = None,
    fork: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Repeat the past of this run, and let its future begin at --at: with --set, "
            "another policy decides from then on.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When the future of --fork begins: a duration after the first submission, or a "
            "date.",
        ),
    ] = None,
    no_code: NoCode = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write to --output whatever its folder contains.")
    ] = False,
    by: By = None,
    sort: Sort = None,
    top: Top = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Run a scenario; write a run folder and print its metrics.

    The folder is runs/NAME-HASH unless --output names one. A run of the same scenario after
    defaults and --set is replaced when the new one is complete; anything else, such as a run of
    another policy, is only replaced with --force.
    """
    from simkit.cli.run_text import run_blocks, trace_blocks
    from simkit.cli.text import warn
    from simkit.errors import LimitError
    from simkit.experiment import carry_out, compiles_first, prepare
    from simkit.progress import watch_progress
    from simkit.results.group_metrics import check_number
    from simkit.results.output_folder import check_run_folder
    from simkit.results.run_info import identity
    from simkit.scenario import scenario_hash
    from simkit.scenario.yaml_document import problems_located

    groups = groups_of(by, sort, top)
    source: Source
    laid_over: dict[str, Any]
    if fork is None and at is None:
        source, laid_over = scenario_source(_named(scenario)), overrides(settings, seed, engine)
        loaded = _loaded(source, laid_over, switch_policy, allow_code=not no_code)
    else:
        laid_over = overrides(settings, seed, engine)
        loaded = _forked(scenario, fork, at, laid_over, switch_policy, not no_code)
        source, laid_over = loaded, {}
    if sort is not None:
        check_number(
            sort, [name.replace(".", ":").split(":")[-1] for name in loaded.metrics.custom]
        )
    folder = output or RUNS / f"{loaded.name}-{scenario_hash(loaded)[:8]}"
    check_run_folder(folder, identity(loaded), force=force)
    with problems_located(source, laid_over):
        experiment = prepare(loaded)
    if not as_json:
        print_blocks(trace_blocks(experiment))
    for warning in (*experiment.warnings, *compiles_first(experiment)):
        warn(warning)
    try:
        with watch_progress(len(experiment.trace.workload), enabled=not no_progress) as watch:
            result = carry_out(experiment, folder, watch=watch, force=force, quiet=True)
    except KeyboardInterrupt:
        echo(_kept("interrupted", folder), err=True)
        raise typer.Exit(130) from None
    except LimitError:
        echo(_kept("stopped", folder), err=True)
        raise
    content: dict[str, Any] = {
        "run": str(folder),
        "digest": result.digest,
        "metrics": result.metrics,
    }
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: warn(f"warning: {message}")
        if as_json and by is not None:
            content["by"] = result.metrics_by(by).to_dicts()
        print_or_json(run_blocks(result, groups, verbose=verbose), content, as_json=as_json)
    for warning in result.info["warnings"][len(experiment.warnings) :]:
        warn(warning)


def _named(scenario: str | None) -> str:
    """Return the argument SCENARIO; raises ScenarioError if it is not given."""
    from simkit.errors import ScenarioError

    if scenario is None:
        raise ScenarioError(
            "SCENARIO is missing; name a scenario file or a bundled scenario (`simkit scenarios` "
            "lists them), or fork a run: --fork RUN --at TIME"
        )
    return scenario


def _loaded(
    source: Source, laid_over: dict[str, Any], switches: list[str] | None, *, allow_code: bool
) -> Loaded:
    """Return a scenario of one run, with the policies of --switch-policy."""
    from simkit.scenario.yaml_document import load_scenario

    loaded = load_scenario(source, overrides=laid_over, single=True, allow_code=allow_code)
    if not switches:
        return loaded
    from simkit.experiment.futures import parse_switches, with_switches

    return with_switches(loaded, parse_switches(switches), allow_code=allow_code)


def _forked(
    scenario: str | None,
    run: Path | None,
    at: str | None,
    laid_over: dict[str, Any],
    switches: list[str] | None,
    allow_code: bool,
) -> Loaded:
    """Return the scenario of --fork and --at; say so if its future is that of the run."""
    from simkit.cli.text import warn
    from simkit.errors import ScenarioError
    from simkit.experiment.futures import fork, parse_switches, with_switches
    from simkit.results.run_folder import open_run

    if run is None or at is None:
        missing = "--fork RUN" if run is None else "--at TIME"
        raise ScenarioError(f"--fork and --at belong together; add {missing}")
    if scenario is not None:
        raise ScenarioError(
            f"{scenario}: a fork has the scenario of its run; leave SCENARIO out, or --fork"
        )
    forked = fork(run, at, laid_over, allow_code=allow_code)
    forked = with_switches(forked, parse_switches(switches or ()), allow_code=allow_code)
    if forked.model_dump(mode="json")["policy"] == open_run(run, allow_partial=True).info[
        "scenario"
    ].get("policy"):
        warn(f"the future from {at} on has the policy of {run}, so that the run will be the same")
    return forked


def _kept(how: str, folder: Path) -> str:
    """Return where the results of a run are that was interrupted or stopped."""
    from simkit.results.output_folder import UNFINISHED, holds_finished_run

    if holds_finished_run(folder):
        return (
            f"{how}; {folder / UNFINISHED} has the results so far, marked as incomplete; "
            f"{folder} still has the previous run"
        )
    return f"{how}; {folder} has the results so far, marked as incomplete"


def sweep(
    scenario: Scenario,
    output: Output = None,
    seed: Seed = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a value of the scenario: --set policy.order=sjf; or sweep it: --set "
            "seed=0,1,2. May be repeated; relative paths in it start from the working folder.",
        ),
    ] = None,
    engine: EngineName = None,
    no_code: NoCode = False,
    workers: Workers = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Run on Dask: `dask` starts a cluster of --workers processes on this machine, "
            "tcp://host:port is a running scheduler whose workers share the output folder.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Repeat finished runs, and replace others.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Metrics to show, separated by commas: carbon_kg,grid_kwh.import,wait_time_s.p99.",
        ),
    ] = None,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Run a scenario for every combination of the values under its `sweep` key.

    A finished run with the same scenario and inputs is not repeated; runs of another scenario in
    the same folders are only replaced with --force. The folders are scenario=…/policy=…/seed=…
    below --output (default: runs/NAME-sweep).
    """
    from simkit.cli.run_text import sweep_blocks
    from simkit.cli.text import warn
    from simkit.experiment.interrupt import terminated_like_interrupted
    from simkit.experiment.sweep import plan_sweep, run_plan, sweep_warnings
    from simkit.progress import runs_progress
    from simkit.results.output_folder import check_place

    executor = None if on is None else _dask_cluster(on, workers)
    source, (single, axes) = scenario_source(scenario), swept(settings)
    plan = plan_sweep(
        source,
        output,
        sweep=axes,
        overrides=overrides(single, seed, engine),
        allow_code=not no_code,
    )
    check_place(plan.folder)
    try:
        with (
            terminated_like_interrupted(),
            runs_progress(len(plan.points), lambda o: o.folder.name, not no_progress) as advance,
        ):
            outcomes = run_plan(
                plan, workers=workers, executor=executor, force=force, on_end=advance
            )
    except KeyboardInterrupt:
        echo(f"interrupted; finished runs in {plan.folder} will not be repeated", err=True)
        raise typer.Exit(130) from None
    names = [name.strip() for name in (metrics or "").split(",")]
    print_or_json(
        sweep_blocks(plan.folder, outcomes, [name for name in names if name]),
        {"folder": str(plan.folder), "runs": [outcome.as_json() for outcome in outcomes]},
        as_json=as_json,
    )
    for warning in sweep_warnings(outcomes):
        warn(warning)
    if failed := [outcome for outcome in outcomes if outcome.state == "failed"]:
        for outcome in failed:
            echo(f"failed: {outcome.folder}: {outcome.error}", err=True)
        raise typer.Exit(1)


def _dask_cluster(on: str, workers: int | None) -> Executor:
    """Return the executor of `--on`; raises ScenarioError if it names none."""
    from simkit.errors import ScenarioError
    from simkit.experiment.dask_cluster import DaskCluster

    if on == "dask":
        return DaskCluster(workers=workers)
    if workers is not None:
        raise ScenarioError(
            f"--workers: the cluster at {on} has its own workers; leave --workers out"
        )
    return DaskCluster(on)


def validate(
    scenario: Scenario, seed: Seed = None, settings: Settings = None, no_code: NoCode = False
) -> None:
    """Check a scenario and everything it names, and report all problems at once.

    All files are read as `simkit run` reads them, so what is valid can be run; a long log takes
    its time. With a section `learn`, what is valid can be trained as well.
    """
    from simkit.errors import ScenarioError
    from simkit.experiment.experiment import check_before_reading
    from simkit.experiment.sweep import expand_sweep
    from simkit.experiment.workload import TraceMemory
    from simkit.scenario.yaml_document import check_names, locate_problems

    source, laid_over = scenario_source(scenario), overrides(settings, seed)
    points = expand_sweep(source, overrides=laid_over, allow_code=not no_code)
    differing = list(
        {
            repr({**point.assignment, "seed": 0}): point.scenario for point in reversed(points)
        }.values()
    )
    problems = dict.fromkeys(
        text
        for one in differing
        for text in (
            *_problems_of(check_before_reading, one),
            *(check_names(one) or _policy_problems(one)),
        )
    )
    memory = TraceMemory()
    logs = {repr((s.workload, s.cluster)): s for s in (point.scenario for point in points)}
    problems |= dict.fromkeys(text for one in logs.values() for text in _log_problems(one, memory))
    if not problems:
        scenarios = [point.scenario for point in points]
        problems = dict.fromkeys(_run_problems(scenarios, memory))
    if not problems and len(points) == 1 and points[0].scenario.learn is not None:
        from simkit.training.train import check_learn

        problems = dict.fromkeys(_problems_of(check_learn, points[0].scenario))
    if problems:
        raise ScenarioError(locate_problems(problems, source, laid_over))
    runs = f", a sweep of {len(points):,} runs" if len(points) > 1 else ""
    echo(f"{source} is a valid scenario{runs}")


def _policy_problems(scenario: Loaded) -> Sequence[str]:
    """Return why policy, estimator, processes or controller cannot be built: wrong arguments."""
    from simkit.experiment.experiment import process_builder
    from simkit.experiment.policy import build_policy, build_predictor

    def build_controller(scenario: Loaded) -> object:
        return None if scenario.power is None else scenario.power.controller.build()

    builders = (build_policy, build_predictor, process_builder, build_controller)
    found = (_problems_of(build, scenario) for build in builders)
    return next(filter(None, found), ())


def _log_problems(scenario: Loaded, memory: TraceMemory) -> Sequence[str]:
    """Return why the log cannot be read, as `simkit run` reads it."""
    from simkit.arrays import stream
    from simkit.errors import TraceError
    from simkit.scenario.workload import TraceFormat

    log = scenario.workload
    try:
        if isinstance(log, TraceFormat):
            rng = stream(scenario.seed, "workload")
            memory.trace(log, scenario.cluster.resources, rng)
    except TraceError as error:
        return [f"workload.path: {line}" for line in str(error).splitlines()]
    return []


def _run_problems(scenarios: Sequence[Loaded], memory: TraceMemory) -> Iterator[str]:
    """Yield why runs cannot begin, in the words of `simkit run`: each is prepared like a run.

    If runs of a sweep differ only in their seed, the first is prepared.
    """
    from simkit.experiment import prepare

    seen: dict[str, Loaded] = {}
    for scenario in scenarios:
        seen.setdefault(repr(scenario.model_dump(exclude={"name", "seed"})), scenario)
    for scenario in seen.values():
        yield from _problems_of(partial(prepare, memory=memory), scenario)


def _problems_of(build: Callable[[Loaded], object], scenario: Loaded) -> Sequence[str]:
    """Return why something cannot be built from a scenario; none if it can."""
    from simkit.errors import ScenarioError, SimkitError

    try:
        build(scenario)
    except ScenarioError as error:
        return error.problems
    except SimkitError as error:
        return [str(error)]
    return []


def show(
    scenario: Scenario,
    seed: Seed = None,
    settings: Settings = None,
    switch_policy: SwitchPolicy = None,
    no_code: NoCode = False,
    as_json: AsJson = False,
) -> None:
    """Print a scenario with all its defaults."""
    from simkit.cli.text import print_json
    from simkit.experiment.futures import parse_switches, with_switches
    from simkit.scenario.yaml_document import load_scenario, scenario_to_yaml

    loaded: Any = load_scenario(
        scenario_source(scenario), overrides=overrides(settings, seed), allow_code=not no_code
    )
    loaded = with_switches(loaded, parse_switches(switch_policy or ()), allow_code=not no_code)
    if as_json:
        print_json(loaded.model_dump(mode="json"))
    else:
        echo(scenario_to_yaml(loaded), end="")


KINDS = {
    "order": "policy.order",
    "backfill": "policy.backfill",
    "placement": "policy.placement",
    "fitness": "policy.fitness",
    "compat": "policy.compat",
    "policy": "policy.name",
}


def policies(as_json: AsJson = False) -> None:
    """List the orders, backfilling and placement rules, policies and estimators by name."""
    from simkit import plugins
    from simkit.cli.text import plugins_blocks
    from simkit.scenario.policy import LookaheadPolicy

    found = {key: plugins.names("simkit.policies", kind) for kind, key in KINDS.items()}
    found["policy.objective"] = list(get_args(LookaheadPolicy.model_fields["objective"].annotation))
    found["estimates"] = plugins.names("simkit.predictors")
    readers = plugins.names("simkit.readers")
    found["workload.type"] = [name for name in readers if "." not in name]  # others are dotted
    print_or_json(plugins_blocks(found), found, as_json=as_json)


def scenarios(as_json: AsJson = False) -> None:
    """List the bundled scenarios; `simkit run NAME` runs one."""
    from simkit.cli.text import pairs_blocks
    from simkit.scenario.bundled import scenario_names, scenario_path, scenario_summary

    found = {name: scenario_summary(scenario_path(name)) for name in scenario_names()}
    print_or_json(pairs_blocks("Scenario", "What it is", found), found, as_json=as_json)


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    from simkit.cli.text import print_json
    from simkit.scenario import json_schema

    print_json(json_schema())


def version() -> None:
    """Print simkit's version."""
    from importlib.metadata import version as version_of

    echo(f"simkit {version_of('simkit-cluster')}")
