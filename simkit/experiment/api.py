"""The Python API: a scenario in, the results of its run out; and the scenario that a user names.

import simkit

run = simkit.simulate("scenario.yaml", policy=my_policy)
print(run.metrics["wait_time_s"]["mean"], run.jobs)
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simkit.engine.outages import ProcessLike
from simkit.errors import ScenarioError, warn_of
from simkit.experiment.experiment import (
    carry_out,
    checked_process,
    compiles_first,
    given_objects,
    prepare,
    recorded_processes,
)
from simkit.experiment.policy import checked_policy, recorded_as
from simkit.policy import Policy
from simkit.progress import watch_progress
from simkit.results.output_folder import check_run_folder, scenario_of
from simkit.results.run_folder import Run
from simkit.results.run_info import identity
from simkit.scenario import Scenario
from simkit.scenario.bundled import find_scenario
from simkit.scenario.cluster import ClusterSection
from simkit.scenario.overrides import anchor_paths
from simkit.scenario.workload import WORKLOADS, PluginWorkload, recognise
from simkit.scenario.yaml_document import Source, load_scenario
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

_SCENARIO_ENDINGS: Final = (".yaml", ".yml", ".json")


def scenario_source(source: Source) -> Source:
    """Return what `load_scenario` reads of what a user names: alike for every command and call.

    Raises ScenarioError as `scenario_file` does.
    """
    return scenario_file(os.fspath(source)) if isinstance(source, str | os.PathLike) else source


def scenario_file(text: str) -> Path:
    """Return the scenario file that a user names: a path, or the name of a bundled scenario.

    Raises ScenarioError for a word that is neither, and for a log or a run folder, with the command
    that would use it.
    """
    path = find_scenario(text)
    refuse_mistaken(path, text)
    return path


def refuse_mistaken(path: Path, text: str) -> None:
    """Raise ScenarioError if a file is a log or a folder a run; `text` is how the user named it."""
    folder = path.parent if path.suffix == ".parquet" else path
    if (folder / "run.json").is_file():
        raise ScenarioError(_about_run(folder, text))
    if path.is_file() and (kind := log_type(path)):
        raise ScenarioError(f"{text}: this is a log, not a scenario. {_about_log(path, kind)}")


def log_type(path: Path) -> str:
    """Return the type that a scenario gives to a log: swf, sacct, …; empty if it is not one."""
    is_scenario = path.name.lower().removesuffix(".gz").endswith(_SCENARIO_ENDINGS)
    return "" if is_scenario else recognise(path)


def _about_log(path: Path, kind: str) -> str:
    """Return what makes a scenario of a log of this type."""
    place = f"./{path}" if str(path).startswith("-") else str(path)
    if getattr(WORKLOADS.find(kind), "of_tasks", False):  # `simkit init` knows no machines for it
        setting = shlex.quote(f"workload={{type: {kind}, path: {_yaml_text(place)}}}")
        return (
            "A scenario names the log, the machines and the policy; take those of a bundled one "
            f"(`simkit scenarios` lists them):\n\n    simkit run cloud-quickstart --set {setting}"
        )
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    made = shlex.quote(f"./{stem}.yaml" if stem.startswith("-") else f"{stem}.yaml")
    return (
        "A scenario names the log, the machines and the policy; write one for it, and run that:"
        f"\n\n    simkit init {shlex.quote(place)}\n    simkit run {made}"
    )


def _yaml_text(text: str) -> str:
    """Return a path for YAML, quoted if it has special characters."""
    plain = all(c.isalnum() or c in "/._-" for c in text)
    return text if plain else "'" + text.replace("'", "''") + "'"


def _about_run(folder: Path, text: str) -> str:
    name = scenario_of(folder)
    again = f"its scenario is called {name!r}: run that" if name else "give the scenario that ran"
    what = "this is a run folder" if folder == Path(text) else "this is a table of a run"
    return (
        f"{text}: {what}, not a scenario; {again}. The commands that read a run are verify, "
        f"compare, plot, report and export: simkit verify {shlex.quote(str(folder))}"
    )


def simulate(
    scenario: Source,
    *,
    policy: Policy | type[Policy] | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    seed: int | None = None,
    overrides: Mapping[str, object] | None = None,
    workload: Workload | None = None,
    cluster: Cluster | None = None,
    processes: Sequence[ProcessLike] | None = None,
    metrics: Sequence[Callable[..., Any]] = (),
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: bool = False,
    allow_code: bool = True,
) -> Run:
    """Run a scenario and return its results.

    Args:
        scenario: a YAML file, the name of a bundled scenario, a mapping of the same form, or a
            `Scenario`.
        policy: an object with `reset` and `schedule` (or its class) in place of the scenario's;
            or what the scenario writes: ``{"order": "sjf", "backfill": "easy"}``, ``"sjf+easy"``,
            ``"sjf"`` or ``"my_policy.py:Mine"``.
        seed: in place of the scenario's.
        overrides: dotted key → value, laid over the scenario: ``{"workload.load": 1.2}``. As in
            the commands, relative paths in it and in `policy` start from the working folder, those
            of a scenario file from the file's.
        workload: in place of the scenario's, and not transformed.
        cluster: in place of the scenario's.
        processes: in place of the scenario's: objects with a method ``run(view)`` that yields
            events of SimPy, or generator functions of a view; see `SimulationView`.
        metrics: your own, besides those of the scenario: functions of tables of the run that return
            a number, such as ``def tail_wait(jobs)``; the result has them in
            ``run.metrics["custom"]``.
        output: folder to write; None keeps the results in memory. A run of the same scenario after
            defaults that is there is replaced when the new one is complete.
        force: replace also any other run there, or write next to other files. A policy object with
            attributes, a `workload`, a `cluster`, `processes` and `metrics` never count as the
            same.
        progress: show a progress bar if stderr is a terminal.
        allow_code: False refuses a scenario that names code, ``my_policy.py:Mine`` or
            ``package.module:attribute``: for scenarios from others.

    Returns:
        The run: ``run.jobs``, ``run.allocations``, … are polars frames (``.to_pandas()``),
        ``run.metrics`` a dictionary, ``run.info`` the content of `run.json`.

    What the command line warns of, such as rejected jobs, is a `SimkitWarning` each, and stands in
    ``run.info["warnings"]``.

    Raises ScenarioError, PluginError, TraceError, PolicyError or RunError, all of them
    `SimkitError`, with what is wrong and what to do.
    """
    for name, given, kind in (("workload", workload, Workload), ("cluster", cluster, Cluster)):
        if given is not None and not isinstance(given, kind):
            raise ScenarioError(
                f"{name}: must be a {kind.__name__} object, not a {type(given).__name__}; keys of "
                f'the scenario\'s {name} go into overrides={{"{name}.…": …}}'
            )
    laid_over = dict(overrides or {})
    if seed is not None:
        laid_over["seed"] = seed
    if isinstance(policy, Mapping | str | os.PathLike):
        laid_over["policy"] = dict(policy) if isinstance(policy, Mapping) else os.fspath(policy)
        policy = None
    loaded = load_scenario(
        scenario_source(scenario),
        overrides=anchor_paths(laid_over, Path.cwd()),
        single=True,
        allow_code=allow_code,
    )
    chosen = None if policy is None else checked_policy(policy)
    if processes is not None:
        processes = [checked_process(process) for process in processes]
    loaded = _as_run(loaded, chosen, workload, cluster, processes)
    objects = given_objects(
        workload=workload, cluster=cluster, processes=processes, metrics=metrics or None
    )
    objects += ("policy",) if _has_state(policy) else ()
    if output is not None:
        check_run_folder(Path(output), identity(loaded, objects), force=force)
    experiment = prepare(
        loaded, policy=chosen, workload=workload, cluster=cluster, processes=processes,
        metrics=metrics,
    )  # fmt: skip
    experiment = replace(experiment, given=objects)
    warn_of(experiment.warnings)
    if progress:
        for note in compiles_first(experiment):
            print(note, file=sys.stderr)
    with watch_progress(len(experiment.trace.workload), enabled=progress) as watch:
        run = carry_out(experiment, output, watch=watch, force=force, quiet=True)
    warn_of(run.info["warnings"][len(experiment.warnings) :])
    return run


def _has_state(policy: Policy | type[Policy] | None) -> bool:
    """Return whether a policy may differ from others of its class, whose name a run records."""
    if policy is None or isinstance(policy, type):
        return False
    slots = any(getattr(kind, "__slots__", ()) for kind in type(policy).__mro__)
    return slots or bool(getattr(policy, "__dict__", None))


def _as_run(
    scenario: Scenario,
    policy: Policy | None,
    workload: Workload | None,
    cluster: Cluster | None,
    processes: Sequence[ProcessLike] | None,
) -> Scenario:
    """Return the scenario with what really runs in it, for `run.json`."""
    changes: dict[str, Any] = {}
    if policy is not None:
        changes["policy"] = recorded_as(type(policy))
    if cluster is not None:
        changes["cluster"] = ClusterSection()  # run.json has the machines
    if processes is not None:
        changes["processes"] = recorded_processes(processes)
    if workload is not None:
        changes["workload"] = PluginWorkload.model_construct(
            type="plugin", reader="in-memory", args={}
        )
    return scenario.model_copy(update=changes)
