"""The documentation is true: what it shows runs and prints that, and nothing is left out."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from runpy import run_path
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
SLOW = ("docs/howto/burst-times.md", "docs/howto/cloud-traces.md", "docs/howto/green-datacenter.md",
        "docs/howto/gymnasium.md", "docs/howto/notebooks.md", "docs/howto/report.md",
        "docs/howto/train-an-agent.md", "docs/howto/train-on-your-log.md",
        "docs/howto/train-on-your-site.md", "docs/howto/what-if.md",
        "docs/howto/what-really-happened.md", "docs/howto/write-a-learner.md",
        "docs/reference/learners.md")  # fmt: skip
"""Pages that simulate or train for seconds."""


def marks(page: Path, part: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a part that takes long or needs what `make test` does without."""
    shown = (block.text for block in blocks(page) if block.part == part and not block.file)
    needs = INTEGRATIONS.search("".join(shown))
    return [pytest.mark.thorough] if needs or identifier(page) in SLOW else []


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


@pytest.mark.thorough
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


def test_generated_parts_are_as_the_code_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    monkeypatch.syspath_prepend(str(DOCS))
    with pytest.raises(SystemExit) as ended:
        run_path(str(DOCS / "generate.py"), run_name="__main__")
    assert not ended.value.code, f"{capsys.readouterr()}run: python docs/generate.py"


CHAPTERS = {
    "order": "Orders", "backfill": "Backfilling", "placement": "Placement", "fitness": "Fitness",
    "policy": "Policies",
}  # fmt: skip


@pytest.mark.parametrize("kind", CHAPTERS)
def test_every_policy_is_in_its_chapter(kind: str) -> None:
    text = written(REFERENCE / "policies.md")
    chapter = text.partition(f"\n## {CHAPTERS[kind]}\n")[2].partition("\n## ")[0]
    shown = "`{}`" if kind == "fitness" else "### .*`{}`"
    missing = [name for name in plugins.names("simkit.policies", kind)
               if not re.search(shown.format(re.escape(name)), chapter)]  # fmt: skip
    assert missing == []


def test_every_estimator_is_in_the_reference() -> None:
    text = written(REFERENCE / "estimates.md")
    assert [n for n in plugins.names("simkit.predictors") if f"\n## `{n}`" not in text] == []


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


def test_every_path_of_simkit_that_is_named_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {
        path for page in PAGES for path in re.findall(r"\bsimkit(?:\.[A-Za-z_]\w*)+", written(page))
    }
    for path in sorted(named - project["entry-points"].keys() - {*plugins.GROUPS}):
        parts, found = path.split("."), importable(path)
        if found is None:
            continue
        for part in parts[found.__name__.count(".") + 1 :]:
            assert not part.startswith("_"), path
            found = getattr(found, part)


def importable(path: str) -> Any:
    """Return the module with the longest name that begins a dotted path.

    None if it needs a library that is not installed, as with the extras of `make test`.
    """
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("simkit"):
            return None
    return importable(path.rpartition(".")[0])


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", written(page), flags=re.MULTILINE | re.DOTALL)
        targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", text)
        inside = [target for target in targets if "://" not in target]
        assert [t for t in inside if not (page.parent / t).exists()] == [], identifier(page)


def test_tests_and_files_that_are_named_exist() -> None:
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    file = re.compile(r"`((?:simkit|traces|policies|docs|tests|tools)/[\w./-]+\.\w+)`")
    for page in PAGES:
        text = written(page)
        missing = set(re.findall(r"[`:](test_\w+)`", text)) - tests
        missing |= {path for path in file.findall(text) if not (ROOT / path).exists()}
        assert sorted(missing) == [], identifier(page)
