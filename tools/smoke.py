"""Run the tests nearest to the files that differ from a branch: ``make smoke BASE=main``.

First who imports whom and the golden results, then changed tests, then those that import a changed
file or name a changed scenario, its room's before others, then the rest of the room, then the
documentation. Tests that would start after `BUDGET_S` are skipped, and the last line counts them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET_S = 30
"""Seconds in which tests start; the rest of a minute is for imports and for the last of them."""
ALWAYS = ("tests/simkit/test_architecture.py", "tests/simkit/test_packaging.py", "tests/golden")
ROOMS = ("simkit", "traces", "policies", "learners")
BENCHMARKS = ROOT / "tests" / "benchmarks"
DOCS = "tests/docs/test_docs.py"


def changed(base: str) -> list[str]:
    """Return the files that differ from where the branch left `base`, new ones included."""
    fork = _git("merge-base", base, "HEAD")[0]
    return sorted(
        {*_git("diff", "--name-only", fork), *_git("ls-files", "--others", "--exclude-standard")}
    )


def _git(*words: str) -> list[str]:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout.splitlines()


def selected(files: Iterable[str]) -> list[str]:
    """Return the test files and folders for some changed files, the nearest first."""
    files = [Path(file) for file in files]
    rooms = [mirror(file) for file in files if file.parts[0] in ROOMS]
    using = importers({name for file in files for name in names(file)})
    near = [
        *(str(file) for file in files if file.match("test_*.py")),
        *sorted(using, key=lambda path: not any(path.startswith(f"{room}/") for room in rooms)),
        *(str(file.parent) for file in files if serves_a_folder(file)),
    ]
    docs = [DOCS for file in files if file.suffix == ".md"]
    found = dict.fromkeys([*ALWAYS, *near, *rooms, *docs])
    return [path for path in found if (ROOT / path).exists()]


def serves_a_folder(file: Path) -> bool:
    """Return whether a file serves all tests of its folder: its fixtures, or data beside them."""
    return file.parts[0] == "tests" and (file.name == "conftest.py" or file.suffix != ".py")


def names(file: Path) -> Iterator[str]:
    """Yield what tests write to use a file: a module's name, or that of a scenario in quotes.

    A module that its package passes on has the package's name too. Everything uses the package
    `simkit` itself, whose room is all of tests/simkit.
    """
    if file.parts[0] == "scenarios" and file.suffix == ".yaml":
        yield f'"{file.stem}"'
    if file.suffix != ".py":
        return
    if file.parts[0] in ("tests", "tools"):
        yield file.stem
    elif file.parts[0] in ROOMS:
        package, module = module_name(file.parent), module_name(file)
        if module != "simkit":
            yield module
        if package not in ("simkit", module) and module in used(ROOT / file.parent / "__init__.py"):
            yield package


def module_name(path: Path) -> str:
    """Return the import name of a file or folder, ``simkit.traces.swf`` for ``traces/swf``."""
    parts = [part for part in path.with_suffix("").parts if part != "__init__"]
    return ".".join(parts if parts[0] == "simkit" else ["simkit", *parts])


def importers(modules: set[str]) -> list[str]:
    """Return the test files that use some modules or scenarios, those that use most first."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if BENCHMARKS in path.parents:
            continue
        if shared := len(used(path) & modules):
            found[str(path.relative_to(ROOT))] = shared
    return sorted(found, key=lambda path: -found[path])


def used(path: Path) -> set[str]:
    """Return the modules that a file imports, perhaps with other names, and its quoted words."""
    if not path.exists():
        return set()
    text = path.read_text("utf-8")
    found = set(re.findall(r"^\s*import ([\w.]+)", text, re.MULTILINE))
    for module, imported in re.findall(
        r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", text, re.MULTILINE
    ):
        found |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", imported))}
    return found | set(re.findall(r'"[\w-]+"', text))


def mirror(file: Path) -> str:
    """Return the folder of tests, at least that of a room, that a file's folder belongs to."""
    folder = Path("tests") / file.parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return str(folder)


def main() -> int:
    """Run them; the exit code is pytest's."""
    tests = selected(changed(sys.argv[1] if len(sys.argv) > 1 else "main"))
    print(*tests, sep="\n", flush=True)
    options = ["-m", "not slow and not thorough", "-n", "auto", "--dist", "loadgroup"]
    options.append("--hypothesis-profile=quick")
    command = [sys.executable, "-m", "pytest", *options, f"--budget={BUDGET_S}", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
