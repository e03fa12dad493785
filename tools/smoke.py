"""Run the tests nearest to the files that differ from a branch: ``make smoke BASE=main``.

First who imports whom and the golden results, then the tests that import a changed file, then the
other tests of its room. Tests that would start after `BUDGET_S` are skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET_S = 40
"""Seconds in which tests start; the rest of a minute is for imports and for the last of them."""
ALWAYS = ("tests/simkit/test_architecture.py", "tests/simkit/test_packaging.py", "tests/golden")
ROOMS = ("simkit", "traces", "policies", "learners")
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
    near = [
        *(str(file) for file in files if file.match("test_*.py")),
        *importers({name for file in files for name in names(file)}),
        *(DOCS for file in files if file.suffix == ".md"),
    ]
    rooms = (mirror(file) for file in files if file.parts[0] in ROOMS)
    return [path for path in dict.fromkeys([*ALWAYS, *near, *rooms]) if (ROOT / path).exists()]


def names(file: Path) -> Iterator[str]:
    """Yield the names by which tests import a file: its module, or that of a helper of tests."""
    if file.suffix != ".py" or file.name == "__init__.py":
        return
    if file.parts[0] == "tests":
        yield file.stem
    elif file.parts[0] in ROOMS:
        parts = file.with_suffix("").parts
        yield ".".join(parts if parts[0] == "simkit" else ("simkit", *parts))


def importers(modules: set[str]) -> list[str]:
    """Return the test files that import some modules, those that import most of them first."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        named = set(re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE))
        if shared := len(named & modules):
            found[str(path.relative_to(ROOT))] = shared
    return sorted(found, key=lambda path: -found[path])


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
