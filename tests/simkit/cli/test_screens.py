"""What people see on terminals of 80 and 100 columns, held against files.

`SIMKIT_WRITE_SCREENS=1 pytest tests/simkit/cli/test_screens.py` writes them anew; look at them.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from pseudo_terminal import on_terminal

SCREENS = Path(__file__).parent / "screens"
SWEEP = """
name: loads
workload: {type: lublin, jobs: 200, processors: 64, offered_load: 0.8}
policy: {order: fcfs}
sweep:
  policy.backfill: [none, easy]
  workload.load: [1.0, 1.2]
  seed: [0, 1]
"""
SMALL = """
workload: {type: lublin, jobs: 200, processors: 64, offered_load: 0.8}
cluster: {processors: 64, partitions: [{name: small, max_processors: 8}]}
policy: {path: idle.py:Idle}
"""
IDLE = """
class Idle:
    def reset(self, info, rng): pass
    def schedule(self, state): return []
"""
COMMANDS = {
    "run": "run quickstart -o first --no-progress",
    "run-green": "run green-quickstart -o green --no-progress",
    "run-cloud": "run cloud-quickstart -o cloud --no-progress",
    "compare": "compare first second",
    "sweep": "sweep sweep.yaml -o swept --workers 1 --force --no-progress",
    "verify": "verify green",
    "warnings": "run small.yaml -o small --no-progress",
    "evaluate": "evaluate deeprm -a deeprm-70 -p sjf -p packer --sets 6 --workers 1 --no-progress",
}
VARIES = [  # what differs between machines and times
    (r"(?s)(?<=\nTook        ).*?(?=\n\S)", "…"),
    (r"(?m)^(done .*?) +\d{1,2}\.\d$", r"\1  …"),  # seconds of a run of a sweep
    (r"(?<=\nDigest      )\w{64}", "…"),
    (r"(?s)^Trace\s.*?(?=\n            \d)", "Trace       …"),  # wrapped by the length of paths
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a second run, a sweep, and a scenario that simkit warns of."""
    place = tmp_path_factory.mktemp("screens")
    for name, text in (("sweep.yaml", SWEEP), ("small.yaml", SMALL), ("idle.py", IDLE)):
        (place / name).write_text(text, encoding="utf-8")
    on_terminal("run quickstart -o second --set policy.order=sjf --no-progress", 80, place)
    return place


@pytest.mark.thorough
@pytest.mark.long
def test_screens(folder, tmp_path):
    columns = 80
    wrong = []
    for name, command in COMMANDS.items():
        printed = on_terminal(command, columns, folder)
        kept = SCREENS / f"{name}-{columns}.txt"
        assert max(map(len, printed.splitlines())) <= columns or "/" in printed, name
        for pattern, shown in VARIES:
            printed = re.sub(pattern, shown, printed)
        if os.environ.get("SIMKIT_WRITE_SCREENS"):
            kept.write_text(printed, encoding="utf-8")
        elif printed != kept.read_text("utf-8"):
            (tmp_path / kept.name).write_text(printed, encoding="utf-8")
            wrong.append(f"{kept} is not {tmp_path / kept.name}")
    assert not wrong, "\n".join(wrong)


NUMBER = re.compile(r"(?<![\w.,:])\d[\d,]*(?:\.\d+)?%?(?![\w.,:])")


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [60, 140])
def test_no_screen_cuts_a_number(columns, folder):
    on_terminal(COMMANDS["run-green"], columns, folder)  # what `verify` looks at
    for name in ("run", "compare", "verify"):  # a sweep leaves columns out
        printed = on_terminal(COMMANDS[name], columns, folder)
        for pattern, shown in VARIES:
            printed = re.sub(pattern, shown, printed)
        kept = (SCREENS / f"{name}-80.txt").read_text("utf-8")
        assert {*NUMBER.findall(kept)} <= {*NUMBER.findall(printed)}, name
