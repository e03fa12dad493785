"""Bundled scenarios, sample traces and agents, by name.

They are found as data with `importlib.resources`; no module next to them is imported.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from simkit.errors import ScenarioError, did_you_mean

_SUFFIX = ".yaml"
_SAMPLE_SUFFIX = ".swf.gz"
SAMPLE = "sample:"
"""Prefix of a path in a scenario that is the name of a sample trace."""
DESCRIPTION: Final = "agent.json"
"""The file that makes a folder an agent."""
AGENT: Final = "agent"
"""The folder inside a training's folder that holds its agent."""


def scenario_names() -> list[str]:
    """Return the names of the bundled scenarios, such as ``quickstart``."""
    files = resources.files("simkit.scenarios").iterdir()
    return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))


def scenario_path(name: str) -> Path:
    """Return the file of a bundled scenario; raises ScenarioError with the nearest name."""
    if name not in scenario_names():
        raise ScenarioError(f"no scenario is called {name!r}{did_you_mean(name, scenario_names())}")
    return Path(str(resources.files("simkit.scenarios").joinpath(name + _SUFFIX)))


def find_scenario(text: str) -> Path:
    """Return the scenario file that a user names: a path, or the name of a bundled scenario.

    Raises ScenarioError for a plain word that is neither.
    """
    path = Path(text).expanduser()
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path  # `load_scenario` says what is wrong with it, if anything is
    if text in scenario_names():
        return scenario_path(text)
    known = did_you_mean(text, scenario_names())
    raise ScenarioError(f"{text}: there is no such file and no scenario of that name{known}")


def scenario_summary(path: Path) -> str:
    """Return the comment on the first line of a scenario file; empty if there is none."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ").rstrip() if first.startswith("#") else ""


def sample_names() -> list[str]:
    """Return the names of the bundled sample traces, such as ``lublin_1000``."""
    return sorted(_samples())


def sample_path(name: str) -> Path:
    """Return the file or folder of a sample trace; raises ValueError with the nearest name."""
    samples = _samples()
    if name not in samples:
        raise ValueError(f"no sample trace is called {name!r}{did_you_mean(name, sorted(samples))}")
    return samples[name]


def _samples() -> dict[str, Path]:
    """Return the packed SWF logs, and the folders that hold tables."""
    found = {}
    for entry in Path(str(resources.files("simkit.traces.samples"))).iterdir():
        if entry.name.endswith(_SAMPLE_SUFFIX):
            found[entry.name.removesuffix(_SAMPLE_SUFFIX)] = entry
        elif entry.is_dir() and any(entry.glob("*.csv.gz")):
            found[entry.name] = entry
    return found


def agent_names() -> list[str]:
    """Return the names of the bundled agents, such as ``deeprm-70``."""
    return sorted(_bundled_agents())


def agent_folder(text: str, base: Path) -> Path:
    """Return the folder of the agent that a user names.

    Args:
        text: an agent's folder, that of its training, or the name of a bundled agent; a folder
            comes before a name.
        base: folder that a relative path starts from.

    Raises ValueError, with the nearest name, for anything else.
    """
    folder = (base / Path(text).expanduser()).resolve()
    for found in (folder, folder / AGENT):
        if (found / DESCRIPTION).is_file():
            return found
    bundled = _bundled_agents()
    if text in bundled:
        return bundled[text]
    if folder.is_file():
        raise ValueError(
            f"{folder} is a file, an agent is a folder; a model of another library is "
            "{model: FILE, algorithm: package.module:Class}, a form of policy"
        )
    if folder.is_dir():
        raise ValueError(
            f"{folder} has no {DESCRIPTION}, so it is not an agent; give what `simkit train` wrote"
        )
    names = did_you_mean(text, bundled)
    raise ValueError(f"there is no folder {folder} and no agent of that name{names}")


def agent_label(folder: str | Path) -> str:
    """Return the name of an agent: its folder's, or that of the training it belongs to."""
    path = Path(folder)
    return path.parent.name if path.name == AGENT and path.parent.name else path.name


def agent_files(folder: str | Path) -> list[Path]:
    """Return the files of an agent, sorted by name."""
    path = Path(folder)
    return sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []


def _bundled_agents() -> dict[str, Path]:
    place = Path(str(resources.files("simkit.learners").joinpath("pretrained")))
    folders = place.iterdir() if place.is_dir() else ()
    return {entry.name: entry for entry in folders if (entry / DESCRIPTION).is_file()}
