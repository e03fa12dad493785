"""Who may import whom: the order of the rooms, no circles, small rooms; and how light a start is.

The lists follow from the folders: a new room that `ORDER` does not name fails the first test.
Every import counts, those inside functions and those for type checkers too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("simkit", "traces", "policies", "learners", "scenarios")
MOST_FILES = 20
"""Files of a room, `__init__` not counted."""
ALL_FILES = 286
"""Files outside learners/, which may grow only as others are merged."""
HEAVY = ("polars", "pandas", "scipy", "torch", "pyarrow", "pooch", "matplotlib")

ORDER = (
    "cli", "training", "gym", "report", "analysis", "why", "experiment", "results", "scenario",
    "compiled", "engine", "agent", "power", "policy", "workload", "face",
)  # fmt: skip
"""Rooms of simkit from the top floor down; each may import what comes after it. The files of
simkit/ itself are the face, but for the two of `ABOVE`."""
ABOVE = {"simkit", "simkit.env"}
"""Stand above all rooms: the table of public names, and the Gymnasium environment."""
AUDITOR = {
    "simkit.dates", "simkit.errors", "simkit.files", "simkit.plugins", "simkit.records",
    "simkit.sections", "simkit.text", "simkit.power.facts", "simkit.power.signal",
    "simkit.power.signal_trace",
}  # fmt: skip
"""What the auditor takes of simkit besides the scenario's models and the readers: what data are."""
COMPUTED = {
    "engine", "compiled", "policy", "results", "experiment", "agent", "gym", "policies", "analysis", "why",
    "report", "training", "learners",
}  # fmt: skip
"""Rooms that compute what the auditor judges: none of its imports leads there, however far."""
SETTLED = {
    f"simkit.power.{name}"
    for name in ("battery", "controller", "forecast", "ledger", "machine_model", "signal_align",
                 "signal_patterns", "site", "system")
}  # fmt: skip
"""What settles the power of a site, which the auditor computes again."""

POWER_VIEW = {"simkit.power.site"}
"""What policies may take of power: the site that they see, and the words for what it lacks."""

REST = "..."
"""All parts of a folder that its floors do not name."""
PARTS = {
    "learners": (
        "studies", REST, "games", "run_times scorers lockstep", "pools", "common", "networks",
        "pretrained",
    ),
    "verify": (
        "__init__", "site", REST, "audited_run", "input_tasks", "inputs", "folder", "audit",
    ),
    "traces": ("convert samples", REST, "rigid_jobs", "tables", "rules files", "columns"),
}  # fmt: skip
"""Folder → its parts, files and folders, from the top floor down; those of a floor stand apart."""

SHORTEST = 40
"""Lines of a file outside learners/, but for `__init__` and contracts: protocols alone."""

SCENARIO_KEYS = {f"simkit.scenario.{name}" for name in ("workload", "signals", "references")}
"""What formats and signals may take of scenarios: the base classes, and references to files."""

FLOORS: dict[str, set[str]] = {
    "traces": {"traces", "scenario", "power", "workload", "face"},
    "policies": {"policies", "agent", "policy", "power", "workload", "face"},
    "learners": {"learners", "traces", *ORDER} - {"cli"},
    "scenarios": set(),
    "verify": {"verify", "traces", "scenario", "power", "face"},
    **{room: {*ORDER[place:]} for place, room in enumerate(ORDER)},
    "cli": {*ORDER, "verify"},
}
"""Room → the rooms that it may import."""


def module_name(path: Path) -> str:
    """Return the import name of a file of the repository."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] != "simkit":
        parts.insert(0, "simkit")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(p): p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))}


def statements(path: Path) -> Iterator[ast.AST]:
    """Yield the statements of a file, those inside others too, but no expressions, which are many."""
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, field, [])


def imported(path: Path) -> Iterator[str]:
    """Yield what a file imports; a name that is a module of simkit as this module."""
    for node in statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in FILES else str(node.module)


IMPORTS: Mapping[str, frozenset[str]] = {
    name: frozenset(imported(path)) - {name} for name, path in FILES.items()
}


def room_of(module: str) -> str:
    """Return the room of a module of simkit: ``engine``, ``face``, ``traces``, …."""
    parts = module.split(".")
    is_room = len(parts) > 1 and (len(parts) > 2 or FILES[module].name == "__init__.py")
    return parts[1] if is_room else "face"


def test_every_room_has_its_floor() -> None:
    assert {room_of(module) for module in FILES} == set(FLOORS)
    assert FILES.keys() >= ABOVE | AUDITOR | POWER_VIEW | SCENARIO_KEYS


def test_imports_go_down() -> None:
    up = [
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        for other in others & FILES.keys()
        if module not in ABOVE and (other in ABOVE or room_of(other) not in FLOORS[room_of(module)])
    ]
    assert up == []


def reached(start: str, arrows: Mapping[str, Set[str]]) -> set[str]:
    """Return what can be reached from a node, itself only by way of a circle."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        for other in arrows.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def test_no_circles() -> None:
    arrows = {module: others & FILES.keys() for module, others in IMPORTS.items()}
    assert [module for module in FILES if module in reached(module, arrows)] == []


def parts_of(folder: str) -> dict[str, set[str]]:
    """Return the parts of a folder, files and folders within it → the parts that they import."""
    arrows: dict[str, set[str]] = {}

    def part(module: str) -> str:
        return module.removeprefix(folder).lstrip(".").partition(".")[0] or "__init__"

    for module in FILES:
        if module == folder or module.startswith(f"{folder}."):
            inside = (o for o in IMPORTS[module] & FILES.keys() if o.startswith(f"{folder}."))
            arrows.setdefault(part(module), set()).update(map(part, inside))
    return {name: others - {name} for name, others in arrows.items()}


def test_the_parts_of_a_folder_have_an_order() -> None:
    """A folder counts as one: its files may not import what imports one of them."""
    folders = {m for m, path in FILES.items() if path.name == "__init__.py"} - {"simkit"}
    arrows = {folder: parts_of(folder) for folder in folders}
    circular = {
        folder
        for folder, parts in arrows.items()
        if any(part in reached(part, parts) for part in parts)
    }
    assert circular == set()


@pytest.mark.parametrize("room", PARTS)
def test_the_parts_of_a_room_stand_on_floors(room: str) -> None:
    """Each part imports only those below it; parts that no floor names may import each other."""
    floor = {name: at for at, names in enumerate(PARTS[room]) for name in names.split()}
    arrows = parts_of(f"simkit.{room}")
    assert floor.keys() - {REST} <= arrows.keys()
    up = [
        f"{part} imports {other}"
        for part, others in arrows.items()
        for other in others
        if floor.get(part, floor[REST]) > floor.get(other, floor[REST])
        or (part in floor and floor[part] == floor.get(other, -1))
    ]
    assert up == []


def test_every_folder_of_learners_has_its_floor() -> None:
    """The files of learners/ itself are the algorithms, which no floor names."""
    folders = {
        path.name for path in (ROOT / "learners").iterdir() if (path / "__init__.py").exists()
    }
    assert folders == {name for names in PARTS["learners"] for name in names.split()} - {REST}


def test_rooms_are_small() -> None:
    rooms: dict[Path, int] = {}
    for path in FILES.values():
        rooms[path.parent] = rooms.get(path.parent, 0) + (path.name != "__init__.py")
    crowded = {str(r.relative_to(ROOT)): n for r, n in rooms.items() if n > MOST_FILES}
    assert crowded == {}


def test_files_are_few() -> None:
    assert sum(room_of(module) != "learners" for module in FILES) <= ALL_FILES


def is_contract(path: Path) -> bool:
    """Return whether a file defines protocols and abstract classes alone."""
    made = [node for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)]  # fmt: skip
    return all(
        isinstance(node, ast.ClassDef)
        and {"Protocol", "ABC"} & {ast.unparse(b) for b in node.bases}
        for node in made
    )


def test_files_are_not_scraps() -> None:
    """A concept that fills no forty lines stands beside what uses it."""
    short = {
        module
        for module, path in FILES.items()
        if room_of(module) != "learners" and path.name != "__init__.py"
        and len(path.read_text(encoding="utf-8").splitlines()) < SHORTEST
        and not is_contract(path)
    }  # fmt: skip
    assert short == set()


def test_the_auditor_shares_the_schema_not_the_logic() -> None:
    taken = {
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        if room_of(module) == "verify"
        for other in others & FILES.keys()
        if room_of(other) not in ("verify", "scenario", "traces") and other not in AUDITOR
    }
    assert taken == set()
    reached, todo = set[str](), [module for module in FILES if room_of(module) == "verify"]
    while todo:
        for other in top_imports(todo.pop()) & FILES.keys() - reached:
            reached.add(other)
            todo.append(other)
    assert {other for other in reached if room_of(other) in COMPUTED} | reached & SETTLED == set()


def top_imports(module: str) -> set[str]:
    """Return what a file imports as it is imported: not inside functions, nor for types alone."""
    body = ast.parse(FILES[module].read_text(encoding="utf-8")).body
    found = {module.rpartition(".")[0]}
    for node in body:
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else str(node.module) for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("room", "of", "allowed"),
    [("policies", "power", POWER_VIEW), ("traces", "scenario", SCENARIO_KEYS)],
)
def test_of_some_rooms_others_see_only_a_view(room: str, of: str, allowed: set[str]) -> None:
    beyond = {
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        if room_of(module) == room
        for other in others & FILES.keys()
        if room_of(other) == of and other not in allowed
    }
    assert beyond == set()


RUNS = {"engine", "policy", "agent", "results", "analysis", "experiment"}
SETTLES = {
    f"simkit.power.{name}" for name in
    ("battery", "controller", "ledger", "machine_model", "site", "system")
}  # fmt: skip
"""What no section may need before something is built of it: rooms, and files of power."""


def test_sections_need_nothing_that_runs() -> None:
    code = (
        "import pkgutil, simkit.scenario as room\n"
        "from importlib import import_module\n"
        "for found in pkgutil.iter_modules(room.__path__):\n"
        "    import_module(f'simkit.scenario.{found.name}')"
    )
    loaded = loaded_modules(code) & FILES.keys()
    assert {m for m in loaded if room_of(m) in RUNS or m in SETTLES} == set()


def test_agents_do_not_import_each_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    begins = project["entry-points"]["simkit.learners"].values()
    agents = {place.partition(":")[0] for place in begins} - {"simkit.learners.recipes"}
    crossed = [
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        for mine in agents
        for other in others
        if module.startswith(mine)
        for theirs in agents - {mine}
        if other.startswith(theirs)
    ]
    assert crossed == []


def who_imports(*packages: str) -> set[str]:
    """Return the modules that import one of these packages."""
    return {
        module
        for module, others in IMPORTS.items()
        for other in others
        if any(other == package or other.startswith(f"{package}.") for package in packages)
    }


KNOWN_TO: dict[str, set[str]] = {
    "simpy": {"simkit.engine.events"},
    "numba": {"simkit.machine_code"},
    "gymnasium": {
        "simkit.env", "simkit.gym.agent_view", "simkit.learners.lockstep.vector_env",
        "simkit.learners.lockstep.sb3",
    },
}  # fmt: skip
"""Package → the only modules that import it."""


@pytest.mark.parametrize("package", KNOWN_TO)
def test_only_some_modules_know(package: str) -> None:
    assert who_imports(package) == KNOWN_TO[package]


def test_only_learners_know_torch_and_few_rooms_no_tables() -> None:
    assert {room_of(module) for module in who_imports("torch")} == {"learners"}
    light = {"policies", "policy", "power", "workload"}
    tables = {module for module in who_imports("polars", "pandas") if room_of(module) in light}
    assert tables == {"simkit.workload.workload"}


SECOND = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(FOLDERS[1:])})[ .]", re.MULTILINE)


def test_no_second_copy_of_a_class() -> None:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.py"), *FILES.values()]
    assert [path for path in files if SECOND.search(path.read_text(encoding="utf-8"))] == []


def folder_of(module: str) -> str:
    """Return the folder of the repository in which a module lies."""
    return FILES[module].relative_to(ROOT).parts[0]


def constant_imports(module: str) -> Iterator[str]:
    """Yield constant strings that name a module of another folder.

    The folders know each other by import or by entry point, never by a name in a string. The name
    of a whole folder is that of its group of entry points, or of its data.
    """
    text = FILES[module].read_text(encoding="utf-8")
    if not re.search(r"[\"']simkit\.", text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named, _, attribute = node.value.partition(":")
            is_module = attribute or (named.count(".") > 1 and "samples" not in named)
            if named in FILES and is_module and folder_of(named) != folder_of(module):
                yield f"{module}:{node.lineno}: {node.value}"


def test_nobody_imports_by_a_constant_string() -> None:
    assert [text for module in FILES for text in constant_imports(module)] == []


def loaded_modules(code: str) -> set[str]:
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(out.stdout.split())


def loaded_by(code: str) -> set[str]:
    return {name.partition(".")[0] for name in loaded_modules(code)}


def test_import_simkit_is_light() -> None:
    assert not loaded_by("import simkit") & {*HEAVY, "numpy", "pydantic", "typer", "rich"}


def command(words: str) -> str:
    """Return Python that runs a command of simkit."""
    return (
        "import contextlib, io, sys\nsys.argv = ['simkit', *" + repr(words.split()) + "]\n"
        "from simkit.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main()"
    )


@pytest.mark.parametrize("words", ["--help", "run --help", "trace --help"])
def test_help_loads_nothing_heavy(words: str) -> None:
    assert not loaded_by(command(words)) & {*HEAVY, "numpy", "simpy"}


def test_a_run_loads_what_its_scenario_uses(tmp_path: Path) -> None:
    loaded = loaded_modules(command(f"run quickstart --output {tmp_path / 'run'} --no-progress"))
    assert (tmp_path / "run" / "metrics.json").exists()
    assert loaded & FILES.keys() & {"simkit.engine.simulation", "simkit.traces.swf"}
    of_power = {module for module in loaded & FILES.keys() if room_of(module) == "power"}
    assert of_power == {"simkit.power", "simkit.power.ledger"}  # the names of columns
    rooms = ("simkit.analysis.", "simkit.traces.tables.")
    sections = {f"simkit.scenario.{name}" for name in ("power", "signals", "value")}
    assert {module for module in loaded if module.startswith(rooms) or module in sections} == set()
    assert not {name.partition(".")[0] for name in loaded} & {"scipy", "pandas", "torch", "numba"}


def test_every_public_name_can_be_imported() -> None:
    import simkit

    missing = [name for name in simkit.__all__ if not hasattr(simkit, name)]
    assert missing == []
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        simkit.simulat  # noqa: B018 - the lookup is the test


KEPT = (
    "simkit.policy", "simkit.workload", "simkit.scenario", "simkit.experiment", "simkit.training",
    "simkit.verify", "simkit.errors", "simkit.units", "simkit.env", "simkit.cli:main",
    "simkit.traces.swf:read_swf", "simkit.traces.power:read_power",
    "simkit.traces.alibaba2017:read_alibaba2017", "simkit.learners.recipes:deeprm",
    "simkit.learners.recipes:sofia",
)  # fmt: skip


@pytest.mark.parametrize("path", KEPT)
def test_documented_import_paths_stay(path: str) -> None:
    from importlib import import_module

    module, _, name = path.partition(":")
    assert not name or callable(getattr(import_module(module), name))
