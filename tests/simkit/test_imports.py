"""Who may import whom, read from the source; and how little a start imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("polars", "pandas", "scipy", "torch", "pyarrow", "pooch", "matplotlib")
FOLDERS = ("traces", "policies", "learners", "scenarios")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield (module, whether for type checkers alone) of every import in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, id(node) in typing_only


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def offences(folder: str, banned: tuple[str, ...], but: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files(folder)
        if path.name not in but
        for module, _ in imports(path)
        if any(module == name or module.startswith(f"{name}.") for name in banned)
    ]


RULES = [
    # the core finds plug-ins by entry point, so it imports none of the folders
    ("simkit", tuple(f"simkit.{folder}" for folder in FOLDERS), ()),
    # only the engine knows SimPy
    ("simkit", ("simpy",), ("processes.py", "simulation.py")),
    ("simkit", ("torch",), ()),
    # the one environment is made of Gymnasium; all else works without it
    ("simkit", ("gymnasium",), ("env.py", "env_registry.py")),
    # readers know the workload and errors, not the engine
    ("traces", ("simpy", "torch", "simkit.simulation", "simkit.policy", "simkit.policies"), ()),
    ("policies", ("simpy", "torch", "simkit.simulation", "simkit.traces", "polars", "pandas"), ()),
    ("learners", ("simpy",), ()),
    # a second copy of every class
    *((folder, FOLDERS, ()) for folder in ("simkit", *FOLDERS, "tests")),
]


@pytest.mark.parametrize(("folder", "banned", "but"), RULES)
def test_nobody_imports_what_they_must_not(
    folder: str, banned: tuple[str, ...], but: tuple[str, ...]
) -> None:
    assert offences(folder, banned, but) == []


ENGINE = (
    "simulation", "processes", "bookkeeping", "submission", "room", "profile", "task",
    "task_queue", "policy", "policy_bases", "cluster", "admission", "estimates", "recorder",
    "workload", "site", "energy_system", "power_supply", "power_outlook", "pool_units",
    "machine_units", "machine_load", "machine_power", "power_model", "pue", "battery", "controller",
    "grid", "ledger", "ledger_rows", "ledger_flows", "ledger_store", "drawn_power", "energy_bills",
    "energy_shares", "energy_metrics", "value", "value_metrics", "task_worths",
)  # fmt: skip


def test_the_auditor_shares_no_code_with_the_engine() -> None:
    engine = {f"simkit.{name}" for name in ENGINE}
    found = [
        f"{path.name} imports {module}"
        for path in files("simkit")
        if path.name.startswith("verify")
        for module, _ in imports(path)
        if module in engine or module in ("simkit.digest", "simkit.metrics")
    ]
    assert found == []


def test_layers_below_do_not_import_layers_above() -> None:
    """cli -> experiment -> simulation -> policy, cluster, workload -> errors."""
    above = {"cli", "experiment", "sweep", "api", "run_writer", "scenario_file", "simulation"}
    low = ("workload", "cluster", "policy", "task", "room", "profile", "units", "errors", "metrics")
    found = [
        f"{name} imports {module}"
        for name in low
        for module, typing_only in imports(ROOT / "simkit" / f"{name}.py")
        if not typing_only and module.removeprefix("simkit.") in above
    ]
    assert found == []


def loaded_by(code: str) -> set[str]:
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name.partition(".")[0] for name in out.stdout.split()}


def test_import_simkit_is_light() -> None:
    assert not loaded_by("import simkit") & {*HEAVY, "numpy", "pydantic", "typer", "rich"}


@pytest.mark.parametrize("command", ["--help", "run --help", "trace --help"])
def test_help_loads_nothing_heavy(command: str) -> None:
    code = (
        "import contextlib, io, sys\nsys.argv = ['simkit', *" + repr(command.split()) + "]\n"
        "from simkit.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main()"
    )
    assert not loaded_by(code) & {*HEAVY, "numpy", "simpy"}


def test_every_public_name_can_be_imported() -> None:
    import simkit

    missing = [name for name in simkit.__all__ if not hasattr(simkit, name)]
    assert missing == []
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        simkit.simulat  # noqa: B018 - the lookup is the test
