"""Shell completion of the argument SCENARIO: bundled scenarios, beside files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ENDINGS: Final = (".yaml", ".yml", ".json")


def complete_scenario(incomplete: str) -> list[str]:
    """Return the bundled scenarios, files and folders of which a name begins like this.

    Files and folders are those of the working folder. Without a bundled scenario there is nothing
    to return: then the shell completes files itself, in any folder.
    """
    from simkit.scenario.bundled import scenario_names

    names = [name for name in scenario_names() if name.startswith(incomplete)]
    if not names:
        return []
    try:
        entries = [entry for entry in Path().iterdir() if _is_meant(entry.name, incomplete)]
    except OSError:
        entries = []
    return [*names, *sorted(filter(None, map(_shown, entries)))]


def _is_meant(name: str, incomplete: str) -> bool:
    return name.startswith(incomplete) and not name.startswith(".")


def _shown(entry: Path) -> str:
    """Return a folder with a slash, and a file that may be a scenario; empty for others."""
    if entry.is_dir():
        return f"{entry.name}/"
    return entry.name if entry.name.endswith(_ENDINGS) else ""
