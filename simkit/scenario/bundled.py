"""The scenarios and sample traces that come with simkit, by name.

They are found as data, with `importlib.resources`; the modules beside them do not matter.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from simkit.errors import ScenarioError, did_you_mean

_SUFFIX = ".yaml"
_SAMPLE_SUFFIX = ".swf.gz"
SAMPLE = "sample:"
"""What a path in a scenario begins with if it is the name of a sample trace."""


def scenario_names() -> list[str]:
    """Return the names of the scenarios that come with simkit, such as ``quickstart``."""
    files = resources.files("simkit.scenarios").iterdir()
    return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))


def scenario_path(name: str) -> Path:
    """Return the file of a scenario that comes with simkit.

    Raises ScenarioError, with the nearest name, if there is none.
    """
    if name not in scenario_names():
        raise ScenarioError(f"no scenario is called {name!r}{did_you_mean(name, scenario_names())}")
    return Path(str(resources.files("simkit.scenarios").joinpath(name + _SUFFIX)))


def find_scenario(text: str) -> Path:
    """Return the file that a user names: a path, or the name of one that comes with simkit.

    Raises ScenarioError for a plain word that is neither.
    """
    path = Path(text).expanduser()
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path  # `load_scenario` says what is wrong with it, if anything is
    if text in scenario_names():
        return scenario_path(text)
    known = did_you_mean(text, scenario_names())
    raise ScenarioError(f"{text}: there is no such file, and no scenario of that name{known}")


def scenario_summary(path: Path) -> str:
    """Return the first line of comment in a scenario file; empty if it does not begin with one."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ").rstrip() if first.startswith("#") else ""


def sample_names() -> list[str]:
    """Return the names of the sample traces that come with simkit, such as ``lublin_1000``."""
    return sorted(_samples())


def sample_path(name: str) -> Path:
    """Return the file, or the folder of tables, of a sample trace.

    Raises ValueError, with the nearest name, if there is none.
    """
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


# MERGED The agents that come with simkit, by name, and where the bundle of an agent is.
# MERGED
# MERGED They are found as data, with `importlib.resources`; nothing of the learners is imported.


DESCRIPTION: Final = "agent.json"
"""The file that makes a folder the bundle of an agent."""
AGENT: Final = "agent"
"""The folder inside that of a training which holds the bundle."""


def agent_names() -> list[str]:
    """Return the names of the agents that come with simkit, such as ``deeprm-70``."""
    return sorted(_shipped())


def agent_folder(text: str, base: Path) -> Path:
    """Return the bundle that a user names.

    Args:
        text: a bundle, the folder of a training that has one, or the name of a shipped agent; a
            folder goes before a name.
        base: folder that a relative path starts from.

    Raises ValueError, with the nearest name, if it is none of these.
    """
    folder = (base / Path(text).expanduser()).resolve()
    for found in (folder, folder / AGENT):
        if (found / DESCRIPTION).is_file():
            return found
    shipped = _shipped()
    if text in shipped:
        return shipped[text]
    if folder.is_dir():
        raise ValueError(
            f"{folder} holds no {DESCRIPTION}, so it is no agent; give what `simkit train` wrote"
        )
    names = did_you_mean(text, shipped) if shipped else ""
    raise ValueError(f"there is no folder {folder}, and no agent of that name{names}")


def agent_label(folder: str | Path) -> str:
    """Return the name of an agent: that of its folder, or of the training that this is part of."""
    path = Path(folder)
    return path.parent.name if path.name == AGENT and path.parent.name else path.name


def agent_files(folder: str | Path) -> list[Path]:
    """Return the files of a bundle, in order of their names."""
    path = Path(folder)
    return sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []


def _shipped() -> dict[str, Path]:
    """Return name → bundle of the agents that come with simkit."""
    place = Path(str(resources.files("simkit.learners").joinpath("pretrained")))
    folders = place.iterdir() if place.is_dir() else ()
    return {entry.name: entry for entry in folders if (entry / DESCRIPTION).is_file()}
