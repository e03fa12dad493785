"""Makes build/types/simkit: the package as it is installed, for type checkers.

The folders policies/, traces/, … are installed below the import name simkit. mypy and pyright do
not know of that mapping, so they are shown a tree of links in which it is so. It is rebuilt each
time, and lies in build/, which git ignores.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def make_tree(root: Path = ROOT) -> Path:
    """Make the tree and return its folder, the one to put on the type checker's path."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    packages: dict[str, str] = settings["tool"]["setuptools"]["package-dir"]
    target = root / "build" / "types"
    shutil.rmtree(target, ignore_errors=True)
    for package, folder in packages.items():
        place = target.joinpath(*package.split("."))
        place.mkdir(parents=True, exist_ok=True)
        for entry in sorted((root / folder).rglob("*")):
            if entry.is_file() and entry.suffix in (".py", ".pyi", ".typed"):
                link = place / entry.relative_to(root / folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(entry)
    return target


if __name__ == "__main__":
    print(make_tree())
