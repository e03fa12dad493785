"""What the command line says to a user's mistakes, word by word.

New tests elsewhere pin the type of an error and the place that it names; older ones also match
phrases. After a change of a message:

    python tests/simkit/test_messages.py

writes `messages.txt` anew; read the difference.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from simkit.cli import main

TABLE = Path(__file__).resolve().with_name("messages.txt")

FILES = {
    "s.yaml": "workload: {type: lublin, jobs: 20, processors: 8}\ncluster: {processors: 8}\n",
    "log.yaml": "workload: {type: swf, path: log.swf}\ncluster: {processors: 8}\n",
    "twice.yaml": "seed: 1\nseed: 2\n",
    "broken.yaml": "workload: {type: lublin\n",
    "list.yaml": "- 1\n",
    "log.swf": "; MaxProcs: 8\n1 0 -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n2 5 -1 ten 1 -1 -1 1\n",
    "table.csv": "job_id,submit_time_s\n1,0\n",
    "mine.py": (
        "class Greedy:\n"
        "    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n"
        "        return state.queeu\n"
    ),
    "agent/agent.json": "{}",
    "text.txt": "text\n",
}
"""What lies in the folder in which the commands run."""

S = "validate s.yaml --set"
COMMANDS = f"""
{S} workload.jobs=-3
{S} workload.type=lublinn
{S} workload.processors=0
{S} workload.load=0
{S} workload.window={{start: 9d, end: 2d}}
{S} workload.resample={{weeks: -1}}
{S} polcy=sjf
{S} policy.order=fcfss
{S} policy=sjf+eesy
{S} policy=./none.py:Mine
{S} policy=mine.py:Missing
{S} policy={{order: sjf, placment: best-fit}}
{S} policy={{agent: deeprm-71}}
{S} policy={{agent: agent}}
{S} seed=-1
{S} cluster.machines=[{{count: 0, processors: 8}}]
{S} cluster.failures={{mtbf: 10s}}
{S} cluster.partitions=[{{name: a, machines: [b]}}]
{S} walltime=maybe
{S} estimates=user-meen
{S} estimates={{type: perturbed, factor: -1}}
{S} scheduling.step=10x
{S} scheduling={{every: 5s, step: 5s}}
{S} admission.slots=0
{S} value={{qos: {{high: [0.5, 2]}}}}
{S} limits.events=0
{S} processes=[{{path: none.py:Outage}}]
{S} power={{machines: {{idle_w: 5, full_w: 2}}}}
{S} power={{machines: {{idle_w: 5}}, battery: {{capacity_kwh: 1, floor: 2}}}}
{S} power={{grid: {{price_per_kwh: {{type: csvv}}}}}}
{S} power={{sources: {{wind: {{signal: {{type: csv, path: none.csv, column: w}}}}}}}}
{S} jobs
validate none.yaml
validate twice.yaml
validate broken.yaml
validate list.yaml
validate log.yaml
validate quikstart
run s.yaml --set policy=mine.py:Greedy
run s.yaml --seeed 3
runn s.yaml
sweep none.yaml -o out
sweep s.yaml -o out --set sweep={{policy.oder: [sjf]}}
verify none
verify .
compare none other
explain none 1
report none
plot none
export none
summarise none
show quikstart
init none.swf
init text.txt
calibrate log.swf
trace info none.swf
trace info log.swf
trace check text.txt
trace convert log.swf out.xyz
trace generate lublinn out.swf
trace fetch no-such-log
train s.yaml --learner ppo --set learn.criterion=slowdwn
train deeprm --set learn.learner=deprm
train deeprm --set learn={{learner: deeprm, arguments: {{hiden: 3, rollouts: 1, discount: 2}}}}
evaluate s.yaml --policy sjff
reproduce deeprmm
dataset recrod s.yaml
burst-times predict none text.txt
""".strip().splitlines()


def words(command: str) -> list[str]:
    """Return the words of a command; what follows ``--set`` is one word."""
    before, found, value = command.partition(" --set ")
    return [*shlex.split(before), *(["--set", value] if found else [])]


def said(command: str) -> str:
    """Run a command in this process and folder; return its exit code and what it said."""
    out, err = StringIO(), StringIO()
    argv, sys.argv = sys.argv, ["simkit", *words(command)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = argv
    told = (out.getvalue() + err.getvalue()).replace(f"{Path.cwd()}{os.sep}", "")
    lines = (line.rstrip() for line in told.splitlines())
    text = "\n".join(f"  {line}" for line in lines if line)
    return f"$ simkit {command}\n{text}\n  = {code}\n"


def prepare(folder: Path) -> None:
    """Write the files that the commands name."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("messages")
    prepare(made)
    return made


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    parts = re.split(r"^(?=\$ simkit )", TABLE.read_text("utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.rstrip() + "\n" for part in parts if part.strip()}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_message(
    command: str, folder: Path, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    assert said(command) == expected[f"$ simkit {command}"]


def test_no_message_is_a_traceback(expected: dict[str, str]) -> None:
    assert set(expected) == {f"$ simkit {command}" for command in COMMANDS}
    for message in expected.values():
        assert "Traceback" not in message
        assert re.search(r"\n  = [1-4]\n$", message), message


def _write(run: Callable[[str], str]) -> None:
    with TemporaryDirectory() as place:
        prepare(Path(place))
        os.chdir(place)
        TABLE.write_text("\n".join(map(run, COMMANDS)), encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    _write(said)
