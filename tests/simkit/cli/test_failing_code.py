"""A user's code that fails or exits: the command says where and when, and has its own exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simkit import cli
from simkit.errors import PolicyError
from simkit.experiment.api import simulate

CODE = """import sys, numpy as np

class Policy:
    def __init__(self, fail=False):
        if fail: {init}
    def reset(self, info, rng):
        pass
    def schedule(self, state):
        return ()

class Exits(Policy):
    def schedule(self, state):
        if state.now > 50: self.stop()
        return ()
    def stop(self):
        {later}

class Unready(Policy):
    def reset(self, info, rng):
        {later}

def process(view):
    yield view.timeout(70)
    {later}

class Estimator:
    learns = True
    def reset(self, *_): pass
    def estimates(self, first, last): return np.ones(last - first)
    def on_submission(self, *_):
        {later}
    def on_end(self, *_): pass
"""
FAILURES = {"sys.exit(0)": "SystemExit: 0", "sys.exit(3)": "SystemExit: 3",
            "{}['x']": "KeyError: 'x'", "raise BaseException('b')": "BaseException: b"}  # fmt: skip
PLACES = {
    # where the code fails → setting, exit code, what the message says but for the failure
    "schedule": ("policy={path: code.py:Exits}", 4, "code.py:16: Exits failed at 70 s: "),
    "reset": ("policy={path: code.py:Unready}", 4, "code.py:20: Unready failed at 0 s: "),
    "process": ("processes=[{path: code.py:process}]", 1,
                "process process at 70 s: "),
    "estimator": ("estimates={type: code.py:Estimator}", 4,
                  "code.py:31: the estimator Estimator failed at 0 s: "),
}  # fmt: skip


LOG = "; MaxProcs: 4\n" + "".join(
    f"{n} {70 * n} -1 100 1 -1 -1 1 100 -1 1 1 -1 -1 -1 -1 -1 -1\n" for n in range(3)
)


@pytest.fixture
def with_code(simkit):
    """Return a function of code and words after ``simkit`` that gives what the command ends with."""
    Path("log.swf").write_text(LOG)
    Path("s.yaml").write_text("workload: {type: swf, path: log.swf}\n")

    def call(code, command, setting, *more):
        Path("code.py").write_text(code)
        return simkit(command, "s.yaml", "--set", setting, *more)

    return call


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("place", PLACES)
def test_the_message_has_class_line_time_and_the_run_is_failed(with_code, place, failure):
    setting, code, text = PLACES[place]
    made = CODE.format(init="pass", later=failure)
    done = with_code(made, "run", setting, "-o", "run")
    assert done.code == code
    assert text + FAILURES[failure] in done.err
    assert re.search(rf"code.py:\d+, in \w+: {re.escape(failure)}", done.err)
    info = json.loads(Path("run/run.json").read_text())
    assert info["status"] == "failed"
    assert "digest" not in info
    assert FAILURES[failure] in info["error"]


@pytest.mark.parametrize("failure", [f for f in FAILURES if "Base" not in f])
def test_a_constructor_that_fails_is_told_before_the_run(with_code, failure):
    setting = "policy={path: code.py:Policy, args: {fail: true}}"
    done = with_code(CODE.format(init=failure, later="pass"), "run", setting, "-o", "run")
    assert done.code == 2
    assert "code.py:5: policy: " in done.err
    assert f"cannot be made: {FAILURES[failure]}" in done.err
    assert not Path("run").exists()


ESTIMATOR = {
    "learns": "learns = True",
    "reset": "def reset(self, workload, rng): pass",
    "estimates": "def estimates(self, first, last): pass",
    "on_submission": "def on_submission(self, task): return 1.0",
    "on_end": "def on_end(self, task, run_time_s): pass",
}


@pytest.mark.parametrize(
    ("left_out", "text"),
    [
        (["estimates"], "has no estimates; an estimator has reset, estimates, on_submission"),
        (["reset", "on_end"], "has no reset and no on_end; an estimator has"),
        (["learns"], "has no learns; an estimator has"),
    ],
)
def test_an_estimator_that_lacks_a_part_is_told_before_the_run(with_code, left_out, text):
    lines = [f"    {line}\n" for name, line in ESTIMATOR.items() if name not in left_out]
    for command, code, more in (("run", 4, ("-o", "run")), ("validate", 2, ())):
        done = with_code("class Est:\n" + "".join(lines), command, "estimates=code.py:Est", *more)
        assert done.code == code
        assert f"estimates: '{Path.cwd()}/code.py:Est' {text}" in done.err
        assert not Path("run").exists()


def test_in_python_an_exit_is_an_error_too():
    class Leaves:
        def reset(self, info, rng):
            pass

        def schedule(self, state):
            sys.exit(0)

    with pytest.raises(PolicyError, match="Leaves failed at .*SystemExit: 0") as caught:
        simulate("quickstart", policy=Leaves())  # type: ignore[arg-type]
    assert isinstance(caught.value.__cause__, SystemExit)


@pytest.mark.parametrize("given", ["5", "None", "object"])
def test_a_schedule_that_returns_no_actions_is_told(given):
    class Odd:
        def reset(self, info, rng):
            pass

        def schedule(self, state):
            return {"5": 5, "None": None, "object": object()}[given]

    with pytest.raises(PolicyError, match="Odd: schedule returned .* it must yield actions"):
        simulate("quickstart", policy=Odd)  # type: ignore[arg-type]


SET_NAME = """
class Part:
    def __set_name__(self, *_): raise KeyboardInterrupt
class Whole:
    part = Part()
"""


def test_ctrl_c_during_an_import_is_an_interrupt(monkeypatch, capsys):
    """Python 3.11 makes a RuntimeError of it within __set_name__, where pydantic is often."""
    monkeypatch.setattr(cli, "app", lambda **_: exec(SET_NAME, {}))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert (end.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_ctrl_c_during_the_first_imports_is_an_interrupt(tmp_path):
    (tmp_path / "typer.py").write_text(SET_NAME)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import simkit.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
