"""Text from strangers' files is shown on the terminal, never obeyed by it."""

from __future__ import annotations

import ast
import json
import shutil
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from simkit import cli
from simkit.cli import main
from simkit.errors import RunError, ScenarioError
from simkit.experiment.api import simulate
from simkit.results.run_folder import open_run
from simkit.text import printable

TITLE, RED, C1, TURNED = "\x1b]0;owned\x07", "\x1b[31mred", "\x9b2J", "\u202egnp"
"""A window's title (OSC), a colour (CSI), a cleared screen in one character, reversed text."""
EVIL = f"{TITLE}{RED}{C1}{TURNED}$\\frac{{"
OBEYED = "\x1b\x07\x9b\u202e"


@pytest.fixture
def simkit(monkeypatch, capfd):
    """Run a command; return what it printed to both streams, and check that nothing is obeyed."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["simkit", *words])
        with suppress(SystemExit):
            main()
        printed = "".join(capfd.readouterr())
        assert not [c for c in OBEYED if c in printed], words
        assert "Traceback" not in printed
        return printed

    return run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


SCENARIO = "workload: {type: lublin, jobs: 20, processors: 8}\nname: a\n"


@pytest.fixture
def runs(simkit):
    """Two runs, the first with evil text in every string of its files."""
    Path("s.yaml").write_text(SCENARIO)
    for name in ("evil", "good"):
        simkit("run", "s.yaml", "-o", name)
    info = json.loads(Path("evil/run.json").read_text())
    info |= {"name": EVIL, "time_zone": EVIL, "digest": EVIL, "error": EVIL}
    info["scenario"] |= {"name": EVIL, "policy": {"name": EVIL}}
    info["cluster"]["machines"][0]["name"] = EVIL
    info["inputs"] = [{"path": EVIL, "sha256": EVIL, "bytes": 1}]
    info["trace"] = {
        "read": 20,
        "accepted": 3,
        "repaired": {EVIL: 1},
        "dropped": {EVIL: 2},
        "notes": {EVIL: 1},
    }
    Path("evil/run.json").write_text(json.dumps(info))
    jobs = pl.read_parquet("evil/jobs.parquet")
    jobs.with_columns(status=pl.lit(EVIL), reason=pl.lit(EVIL)).write_parquet("evil/jobs.parquet")
    events = pl.DataFrame({"time_s": [1.0], "kind": [EVIL], "detail": [EVIL], "machine_id": [0]})
    old = pl.read_parquet("evil/events.parquet")
    pl.concat([old, events.match_to_schema(old.schema, missing_columns="insert")]).write_parquet(
        "evil/events.parquet"
    )
    metrics = json.loads(Path("evil/metrics.json").read_text())
    one = next(iter(metrics.values()))
    Path("evil/metrics.json").write_text(json.dumps({**metrics, EVIL: one}))
    return "evil", "good"


def test_run_folders(simkit, runs):
    evil, good = runs
    assert "\\x1b]0;owned\\x07" in simkit("verify", evil)
    json.loads(simkit("verify", good, "--json"))
    for words in (
        ("compare", evil, good), ("compare", good, evil), ("compare", evil, good, "--json"),
        ("compare", evil, good, "--metric", "nothing"), ("compare", evil, good, "-m", EVIL),
        ("plot", evil), ("plot", evil, good), ("plot", evil, "-k", "power"),
        ("export", evil, "o.swf"), ("export", evil, "o.csv"), ("export", evil, "o.csv", "-f", "power"),
        ("report", evil), ("report", evil, good), ("run", evil), ("validate", evil),
    ):  # fmt: skip
        simkit(*words)


def test_a_failed_run_says_why(simkit, runs):
    path = Path("evil/run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "failed"}))
    assert "\\x1b]0;owned\\x07\\x1b[31mred" in simkit("compare", "evil", "good")


def test_logs(simkit):
    text = C1 + TURNED  # the reader takes a file with \\x1b for a binary one
    header = f"; Computer: {text}\n; MaxProcs: 8\n; Note: {text}\n"
    job = "1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"
    Path("good.swf").write_text(header + job)
    Path("bad.swf").write_text(header + job + f"2 {EVIL} 0 10\n")
    for name in ("good.swf", "bad.swf"):
        for words in (
            ("trace", "info", name), ("trace", "check", name), ("run", name), ("validate", name),
            ("trace", "convert", name, "o.parquet"),
        ):  # fmt: skip
            simkit(*words)
    Path("binary.swf").write_text(header + f"; Note: {EVIL}\n" + job)
    assert "byte 0x1b does not occur in text" in simkit("trace", "info", "binary.swf")


def test_tables(simkit):
    Path("jobs.csv").write_text(f"id,at,{EVIL}\n{EVIL},0,1\n{EVIL},{EVIL},1\n")
    columns = "{job_id: id, submit_time_s: at, run_time_s: at, cpu: x}"
    Path("t.yaml").write_text(f"workload: {{type: tasks, path: jobs.csv, columns: {columns}}}\n")
    simkit("run", "t.yaml")
    simkit("trace", "info", "jobs.csv")


@pytest.mark.parametrize("command", ["run", "validate", "show", "sweep", "train", "evaluate"])
def test_scenarios(simkit, command):
    evil = json.dumps(EVIL)
    for line in (
        f"{evil}: 1", f"name: {evil}", f"policy: {{order: {evil}}}", f"policy: {{name: {evil}}}",
        f"policy: {{agent: {evil}}}", f"workload: {{type: swf, path: {evil}}}",
        f"estimates: {{type: perturbed, factor: {evil}}}", f"sweep: {{seed: [{evil}]}}",
    ):  # fmt: skip
        Path("s.yaml").write_text(SCENARIO.splitlines()[0] + f"\n{line}\n")
        simkit(command, "s.yaml")
    simkit(command, "s.yaml", "--set", f"name={EVIL}")


def test_agents(simkit):
    Path("mine").mkdir()
    Path("mine/agent.json").write_text(json.dumps({"format": EVIL}))
    assert "\\x1b" in simkit("run", "deeprm", "--set", "policy={agent: mine}")


def test_the_text_of_an_error_is_safe_in_python_too():
    assert str(RunError(f"{EVIL}\nb")) == (
        "\\x1b]0;owned\\x07\\x1b[31mred\\x9b2J\\u202egnp$\\frac{\nb"
    )
    assert str(ScenarioError([EVIL, "b"])).endswith("\nb")
    assert printable("a\nb\ud800 é\u00a0…") == "a\\nb\\ud800 é\u00a0…"


def test_only_one_place_of_the_command_line_prints():
    for file in Path(str(cli.__file__)).parent.glob("*.py"):
        calls = [n.func for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
        named = [f for f in calls if isinstance(f, ast.Name) and f.id == "print"]
        echoed = [f for f in calls if isinstance(f, ast.Attribute) and f.attr in ("echo", "secho")]
        assert not named, file
        assert not echoed or file.name == "text.py", file


WRONG_TYPES = [
    # a key of run.json, what a stranger writes there, what is said
    ("name", 3, "name is 3, it must be text"),
    ("seed", "x", "seed is 'x', it must be a whole number"),
    ("seed", 10**400, "seed is 1000000000"),
    ("jobs", [], "jobs is [], it must be a whole number"),
    ("epoch_s", {}, "epoch_s is {}, it must be a whole number or a number or null"),
    ("scenario", "x", "scenario is 'x', it must be an object"),
    ("scenario.policy", 1.5, "scenario.policy is 1.5, it must be an object or text or null"),
    ("scenario.power", True, "scenario.power is true, it must be an object or null"),
    ("scenario.power", {"battery": {}}, "scenario.power.battery has no capacity_kwh, charge_eff"),
    ("estimates", -1.5, "estimates is -1.5, it must be an object or null"),
    ("status", "complete\nm: every rule holds", "status is 'complete\\nm: every rule holds', it must"),
    ("cluster", {"a": 1}, "cluster has no resources, machines"),
    ("cluster.resources", [], "cluster.resources is [], it must name a resource"),
    ("cluster", None, "cluster is null, it must be an object"),
    ("cluster.resources", {"a": 1}, "cluster.resources is {'a': 1}, it must be a list"),
    ("cluster.machines", [3], "cluster.machines.0 is 3, it must be an object"),
    ("cluster.machines", [{"id": 0}], "cluster.machines.0 has no capacity"),
    (
        "cluster.machines", [{"id": 0, "capacity": {"processors": "x"}}],
        "cluster.machines.0.capacity.processors is 'x', it must be a whole number or a number",
    ),
    ("inputs", [{"path": 1, "sha256": ""}], "inputs.0.path is 1, it must be text"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(("key", "value", "said"), WRONG_TYPES)
def test_wrong_types_in_run_json_are_told_by_every_command(simkit, key, value, said, base):
    info = json.loads((base / "run.json").read_text())
    *above, last = key.split(".")
    inside = info
    for step in above:
        inside = inside[step]
    inside[last] = value
    Path("m").mkdir()
    for file in base.iterdir():
        Path("m", file.name).write_bytes(file.read_bytes())
    Path("m/run.json").write_text(json.dumps(info))
    for words in (("compare", "m", str(base)), ("plot", "m"), ("export", "m", "o.swf"),
                  ("report", "m")):  # fmt: skip
        assert f"m/run.json: {said}" in simkit(*words)
    with pytest.raises(RunError, match=r"m/run.json: "):
        open_run("m")
    simkit("verify", "m")  # it has its own rules for these


def test_resources_that_no_table_has_are_reported_by_every_command(simkit, base):
    info = json.loads((base / "run.json").read_text())
    info["cluster"]["resources"] = ["gpu\nm: every rule holds"]
    shutil.copytree(base, "m")
    Path("m/run.json").write_text(json.dumps(info))
    for words in (("compare", "m", str(base)), ("plot", "m"), ("export", "m", "o.swf"),
                  ("report", "m"), ("verify", "m")):  # fmt: skip
        said = simkit(*words)
        assert "gpu\\n" in said
        assert "Traceback" not in said
        assert "\nm: every rule holds" not in said


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A sound run."""
    folder = tmp_path_factory.mktemp("base") / "run"
    simulate({"workload": {"type": "lublin", "jobs": 20, "processors": 8}}, output=folder)
    return folder
