"""The agents that come with simkit, by name, and where the bundle of an agent is.

They are found as data, with `importlib.resources`; nothing of the learners is imported.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from simkit.errors import did_you_mean

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
