"""The documentation is true: what it shows runs and prints that, and nothing is left out."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, PAGES, ROOT, Command, blocks, commands, matches
from typer.testing import CliRunner

import simkit
from simkit import plugins
from simkit.cli import app
from simkit.verify import CHECKS

REFERENCE = DOCS / "reference"
ONLINE = ("trace", "fetch")


def identifier(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def shows_what_runs(page: Path) -> bool:
    shown = list(blocks(page))
    of_simkit = (c.words[0] == "simkit" for b in shown if b.language == "console"
                 for c in commands(b))  # fmt: skip
    return any(of_simkit) or any(b.language == "python" and not b.file for b in shown)


def written(page: Path) -> str:
    return page.read_text("utf-8")


# --- what is shown runs ------------------------------------------------------------------------


INTEGRATIONS = re.compile("stable_baselines3|sb3_contrib|torchrl|--on dask")


def marks(page: Path, part: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a part that needs software of others, which `make test` does without."""
    shown = (block.text for block in blocks(page) if block.part == part and not block.file)
    return [pytest.mark.thorough] if INTEGRATIONS.search("".join(shown)) else []


PARTS = [
    pytest.param(page, part, id=f"{identifier(page)} {part}".strip(), marks=marks(page, part))
    for page in PAGES
    if shows_what_runs(page)
    for part in dict.fromkeys(block.part for block in blocks(page))
]


@pytest.mark.long
@pytest.mark.parametrize(("page", "part"), PARTS)
def test_commands_and_blocks_run(page: Path, part: str, tmp_path: Path, monkeypatch) -> None:
    """Every block of a part of a page, from top to bottom, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
            if block.file == "pyproject.toml":
                declare(block.text)
        elif block.part != part:
            continue
        elif block.language == "python":
            exec(compile(block.text, identifier(page), "exec"), {})
        elif block.language == "console":
            for command in commands(block):
                carry_out(command)


def declare(project: str) -> None:
    """Make the entry points of a package in this folder known, as its installation would."""
    folder = Path("package-1.0.dist-info")
    folder.mkdir()
    groups = tomllib.loads(project)["project"]["entry-points"]
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in points.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "METADATA").write_text("Name: package\nVersion: 1.0\n", encoding="utf-8")


def carry_out(command: Command) -> None:
    """Run a command of simkit's in this process; exit code 0 and, if shown, its output."""
    if command.words[0] == "cd":
        os.chdir(command.words[1])
    if command.words[0] != "simkit" or command.words[1:3] == ONLINE:
        return
    if "elf-bursts" in command.words and shutil.which("g++") is None:
        pytest.skip("needs g++")
    result = CliRunner().invoke(app, command.words[1:])
    assert result.exit_code == 0, f"{command.words}: {result.output} {result.exception}"
    if command.output:
        shown = "\n".join(command.output)
        assert matches(command.output, result.stdout), f"shown:\n{shown}\nfound:\n{result.stdout}"


def test_the_first_lines_of_python_show_their_result(capsys: pytest.CaptureFixture[str]) -> None:
    first, shown, *_ = (b for b in blocks(ROOT / "README.md") if b.language in ("python", "text"))
    assert (first.language, shown.language) == ("python", "text")
    exec(compile(first.text, "README.md", "exec"), {"__name__": "__main__"})
    assert matches(tuple(shown.text.splitlines()), capsys.readouterr().out)


def test_tutorial(tmp_path: Path, monkeypatch) -> None:
    """The sessions of the tutorial, as one session."""
    monkeypatch.chdir(tmp_path)
    sessions = [b.text for b in blocks(DOCS / "tutorial.md") if b.language == "pycon"]
    assert len(sessions) >= 8
    test = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, "tutorial.md", None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_the_tests_of_an_author_run(tmp_path: Path) -> None:
    """The test that the page on policies proposes passes where it is written."""
    for block in blocks(DOCS / "howto" / "own-policy.md"):
        if block.file.endswith(".py"):
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_policy.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("shown", "found", "same"),
    [
        (("a  b",), "a b \n", True),  # runs of blanks count as one
        (("a …",), "a 1.25\n", True),  # an ellipsis within a line
        (("a …",), "b 1.25\n", False),
        (("…", "end"), "x\ny\nend\n", True),  # an ellipsis alone: any number of lines
        (("…", "end"), "end\n", True),
        (("a",), "a\nb\n", False),  # more than is shown
        (("1.5",), "175\n", False),  # a dot is a dot
    ],
)
def test_matches(shown: tuple[str, ...], found: str, same: bool) -> None:
    assert matches(shown, found) == same


# --- nothing is stale, nothing is left out -----------------------------------------------------


def test_generated_parts_are_as_the_code_is() -> None:
    command = [sys.executable, str(DOCS / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python docs/generate.py"


POLICIES = [(kind, name) for kind in ("order", "backfill", "placement", "policy")
            for name in plugins.names("simkit.policies", kind)]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), POLICIES)
def test_every_policy_is_in_the_reference(kind: str, name: str) -> None:
    assert re.search(rf"^### .*`{re.escape(name)}`", _part(kind), re.MULTILINE)


@pytest.mark.parametrize("name", plugins.names("simkit.policies", "fitness"))
def test_every_fitness_is_in_the_reference(name: str) -> None:
    assert f"`{name}`" in _part("fitness")


def _part(kind: str) -> str:
    """Return the chapter of policies.md about a kind."""
    chapters = {"order": "Orders", "backfill": "Backfilling", "placement": "Placement",
                "fitness": "Fitness"}  # fmt: skip
    text = written(REFERENCE / "policies.md")
    return text.partition(f"\n## {chapters.get(kind, 'Policies')}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", plugins.names("simkit.predictors"))
def test_every_estimator_is_in_the_reference(name: str) -> None:
    assert f"\n## `{name}`" in written(REFERENCE / "estimates.md")


@pytest.mark.parametrize(
    ("scenario", "overrides"),
    [("quickstart", {}), ("green-quickstart", {"value": {}, "workload.jobs": 100})],
)
def test_every_metric_is_in_the_reference_with_its_unit(
    scenario: str, overrides: dict[str, object]
) -> None:
    lines = written(REFERENCE / "metrics.md").splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| `")]
    told = {name.strip(" `"): unit.strip() for name, unit in rows}
    metrics = simkit.simulate(scenario, overrides=overrides).metrics
    found = {
        name.replace("_processors", "_RESOURCE"): values["unit"] for name, values in metrics.items()
    }
    assert {name: told.get(name) for name in found} == found


def test_every_rule_of_the_audit_is_told() -> None:
    rows = re.findall(r"^\| ([\w-]+) \|", written(DOCS / "howto" / "verify.md"), re.MULTILINE)
    names = [check.__name__.removeprefix("check_").replace("_", "-") for check in CHECKS]
    assert sorted(set(names) - set(rows)) == []


def test_every_public_name_is_in_the_reference() -> None:
    text = written(REFERENCE / "python-api.md")
    missing = [n for n in simkit.__all__ if n != "__version__" and f".{n}\n" not in text]
    assert missing == []


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {
        (index.parent / name).resolve()
        for index in PAGES
        for block in re.findall(r"```{toctree}\n(.*?)```", written(index), re.DOTALL)
        for name in block.splitlines()
        if name and not name.startswith(":")
    }
    pages = {page.with_suffix("") for page in PAGES if DOCS in page.parents} - {DOCS / "index"}
    assert pages == listed


# --- what is referred to exists ----------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_every_path_of_simkit_that_is_named_imports(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = set(re.findall(r"\bsimkit(?:\.[A-Za-z_]\w*)+", written(page)))
    for path in sorted(named - project["entry-points"].keys()):
        parts, found = path.split("."), importable(path)
        for part in parts[found.__name__.count(".") + 1 :]:
            assert not part.startswith("_"), path
            found = getattr(found, part)


def importable(path: str) -> Any:
    """Return the module with the longest name that begins a dotted path."""
    with suppress(ModuleNotFoundError):
        return import_module(path)
    return importable(path.rpartition(".")[0])


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", written(page), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", text)
    inside = [target for target in targets if "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_tests_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"[`:](test_\w+)`", written(page)))
    assert sorted(named - TESTS) == []


TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:simkit|traces|policies|docs|tests|tools)/[\w./-]+\.\w+)`", written(page)
    )
    assert [path for path in named if not (ROOT / path).exists()] == []
