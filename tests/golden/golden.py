"""The table of golden results: one command makes it, checks it, or compares two commits.

    python tests/golden/golden.py [CASE ...]            which cases give other results than the table
    python tests/golden/golden.py --update [CASE ...]   write the results of cases into the table
    python tests/golden/golden.py --base COMMIT [CASE ...]

Cases of the table rest on decisions, times and whole numbers, which every machine finds alike. What
rests on the training of floats does not, and is compared between two commits on one machine:
``--base`` takes the files of a commit from git, runs those cases with both, and says of each whether
it is equal. A CASE may be the beginning of names: ``agent``, ``train ppo``.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = HERE / "results.json"
for folder in (HERE, HERE.parent / "fuzz", HERE.parent / "helpers"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import cases_trained  # noqa: E402
from cases import DATA, Case  # noqa: E402

PINNED: Mapping[str, Case] = {}
"""Name → case of the table; empty where another commit's simkit is imported, whose inner names
may be others."""
if not os.environ.get("GOLDEN_SITE"):
    import cases_agents
    import cases_lockstep
    import cases_runs
    import cases_surfaces

    PINNED = {
        **cases_runs.CASES, **cases_agents.CASES, **cases_lockstep.CASES, **cases_surfaces.CASES,
    }  # fmt: skip
TRAINED: Mapping[str, Case] = cases_trained.CASES
"""Name → case that is only compared between two commits."""


def expected(name: str) -> Any:
    """Return what the table says of a case; None: it is not there yet."""
    return read_table().get(name)


def read_table() -> dict[str, Any]:
    """Return the whole table."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def missing(case: Case) -> str | None:
    """Return why a case cannot be run here; None: it can."""
    if case.needs_data and not DATA.is_dir():
        return f"no logs in {DATA}; set SIMKIT_DATA"
    absent = [name for name in case.needs if find_spec(name) is None]
    return f"{', '.join(absent)} not installed" if absent else None


def chosen(known: Iterable[str], asked: list[str]) -> list[str]:
    """Return the names that begin with one of those asked for; all, if none is."""
    return [name for name in known if not asked or name.startswith(tuple(asked))]


def update(asked: list[str]) -> int:
    """Write the results of cases into the table; drop what is no case any more."""
    table = read_table()
    for name in chosen(PINNED, asked):
        if reason := missing(PINNED[name]):
            print(f"{name}: left as it is: {reason}")
            continue
        found = PINNED[name].results()
        print(f"{name}: {'as before' if table.get(name) == found else 'written'}", flush=True)
        table[name] = found
        kept = {each: table[each] for each in PINNED if each in table}
        TABLE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def check(asked: list[str]) -> int:
    """Print the cases whose results are not those of the table; 1 if there is one."""
    table, differing = read_table(), 0
    for name in chosen(PINNED, asked):
        if reason := missing(PINNED[name]):
            print(f"{name}: skipped: {reason}")
            continue
        lines = PINNED[name].differences(table.get(name), PINNED[name].results())
        differing += bool(lines)
        print(f"{name}: {'DIFFERS' if lines else 'equal'}", *lines, sep="\n  ", flush=True)
    return 1 if differing else 0


def compare(base: str, asked: list[str]) -> int:
    """Run the cases of trained floats with a commit and with this tree; 1 if one differs."""
    differing = 0
    with tempfile.TemporaryDirectory() as name:
        site = installed(base, Path(name))
        for case in chosen(TRAINED, asked):
            if reason := missing(TRAINED[case]):
                print(f"{case}: skipped: {reason}")
                continue
            there, here = (results_with(path, case) for path in (site, None))
            differing += there != here
            print(f"{case}: {'equal' if there == here else 'DIFFERS'}", flush=True)
            if there != here:
                print(f"  {base}: {there}\n  here: {here}")
    return 1 if differing else 0


def installed(commit: str, folder: Path) -> Path:
    """Take the files of a commit; return a folder from which Python imports its simkit."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder / "tree", filter="data")
    tree, site = folder / "tree", folder / "site"
    told = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    (site / "simkit").mkdir(parents=True)
    for path in (tree / "simkit").iterdir():
        (site / "simkit" / path.name).symlink_to(path)
    for package, place in told["tool"]["setuptools"]["package-dir"].items():
        if package != "simkit":
            (site / "simkit" / package.removeprefix("simkit.")).symlink_to(tree / place)
    project = told["project"]
    facts = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()))
    ]
    (facts / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return site


def results_with(site: Path | None, case: str) -> Any:
    """Return the results of a case of trained floats in a process with another simkit, or this."""
    paths = [] if site is None else [str(site)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "SIMKIT_DATA": str(DATA)}
    env["GOLDEN_SITE"] = "" if site is None else str(site)
    done = subprocess.run(
        [sys.executable, __file__, "--print", case], env=env, capture_output=True, text=True
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names, or how they begin")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--base", metavar="COMMIT", help="also compare trained floats with it")
    parser.add_argument("--print", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("SIMKIT_DATA", str(DATA))
    if given.print:
        import simkit

        site = os.environ.get("GOLDEN_SITE")
        assert not site or Path(simkit.__file__).is_relative_to(site), simkit.__file__
        print("\n" + json.dumps(TRAINED[given.print].results()))
        return 0
    if not chosen([*PINNED, *TRAINED], given.cases):
        parser.error(f"no case begins with {' or '.join(given.cases)}; known: "
                     f"{', '.join([*PINNED, *TRAINED])}")  # fmt: skip
    if given.update:
        return update(given.cases)
    differs = check(given.cases)
    return max(differs, compare(given.base, given.cases)) if given.base else differs


if __name__ == "__main__":
    sys.exit(main())
