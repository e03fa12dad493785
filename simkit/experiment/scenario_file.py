"""The scenario file that a user names; a log or a run folder given by mistake is refused."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from simkit.errors import ScenarioError
from simkit.results.output_folder import scenario_of
from simkit.scenario.bundled import find_scenario
from simkit.scenario.workload import WORKLOADS, recognise
from simkit.scenario.yaml_document import Source

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
