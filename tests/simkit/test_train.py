"""`simkit train`: a training stops and goes on, and comes to the same as one that never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simkit.cli import main
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.scenario import Scenario
from simkit.scenario_file import load_scenario
from simkit.train import train

LEARNER = '''
"""A learner of one number: a random walk whose generator is part of a checkpoint."""
import json, time
import numpy as np
from simkit.construct import construct
from simkit.errors import ScenarioError

def begin(scenario, arguments, *, seed, device):
    return construct("learn.arguments", Walk, {"seed": seed, **arguments})

class Walk:
    def __init__(self, seed, iterations=20, course=(), pause=0.0, fails_at=-1):
        if iterations > 1000:
            raise ScenarioError("learn.arguments: iterations is too many")
        self.iteration, self.iterations = 0, iterations
        self.course, self.pause, self.fails_at = list(course), pause, fails_at
        self.rng, self.x = np.random.default_rng(seed), 0.0

    def step(self):
        time.sleep(self.pause)
        if self.iteration == self.fails_at:
            raise KeyboardInterrupt
        self.x += float(self.rng.normal())
        self.iteration += 1
        return {"return": self.x, "decisions": 10}

    def held_out(self):
        at = min(self.iteration, len(self.course) - 1)
        return {"slowdown": self.course[at] if self.course else abs(self.x), "unfinished": 0}

    def save(self, folder):
        state = {"i": self.iteration, "x": self.x, "rng": self.rng.bit_generator.state}
        (folder / "state.json").write_text(json.dumps(state))

    def load(self, folder):
        state = json.loads((folder / "state.json").read_text())
        self.iteration, self.x = state["i"], state["x"]
        self.rng.bit_generator.state = state["rng"]

    def write_agent(self, folder, curve_end):
        text = json.dumps({"x": self.x, "iteration": curve_end["iteration"]})
        (folder / "agent.json").write_text(text)

nothing = 3
def without_torch(scenario, arguments, *, seed, device):
    raise ModuleNotFoundError("No module named 'torch'", name="torch")
'''
WALL = ("wall_time_s", "decisions_per_s")
"""Columns that differ from one run to the next."""


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., Scenario]:
    """Return a scenario with the learner and other settings of `learn`."""
    path = tmp_path / "walk.py"
    path.write_text(LEARNER)

    def make(function: str = "begin", seed: int = 0, **learn: Any) -> Scenario:
        return load_scenario(
            {
                "workload": {"type": "swf", "path": "sample:lublin_1000"},
                "seed": seed,
                "learn": {"learner": f"{path}:{function}", **learn},
            }
        )

    return make


def result(folder: Path) -> tuple[list[dict[str, Any]], Any]:
    """Return the metrics, times of the wall aside, and the agent."""
    rows = pl.read_parquet(folder / "metrics.parquet").drop(WALL).to_dicts()
    return rows, json.loads((folder / "agent" / "agent.json").read_text())


def stop_after(iterations: int) -> Callable[..., None]:
    """Return a watch that sends this process a Ctrl-C at the end of an iteration."""

    def watch(training: Any, _row: Any) -> None:
        if training.iteration == iterations:
            os.kill(os.getpid(), signal.SIGINT)

    return watch


def test_a_row_an_iteration_and_held_out_numbers_where_they_are_due(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    train(scenario(iterations=7, held_out_every=3), tmp_path / "t")
    rows, agent = result(tmp_path / "t")
    assert [row["iteration"] for row in rows] == list(range(8))
    looked = [row["iteration"] for row in rows if row["held_out_slowdown"] is not None]
    assert looked == [0, 3, 6, 7]  # before the first, every third, and at the end
    assert agent == {"x": rows[-1]["return"], "iteration": 7}


@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("stops", [(1,), (4,), (3, 8)])
def test_an_interrupted_training_ends_as_one_that_was_not(
    tmp_path: Path, scenario: Callable[..., Scenario], keep: str, stops: tuple[int, ...]
) -> None:
    made = scenario(iterations=10, held_out_every=2, keep=keep)
    train(made, tmp_path / "whole")
    for number in stops:
        with pytest.raises(KeyboardInterrupt):
            train(made, tmp_path / "parts", watch=stop_after(number))
        info = json.loads((tmp_path / "parts" / "training.json").read_text())
        assert (info["status"], info["iteration"]) == ("interrupted", number)
    done = train(made, tmp_path / "parts")
    assert result(tmp_path / "parts") == result(tmp_path / "whole")
    assert [row["iteration"] for row in done.rows] == list(range(11))


def test_a_killed_training_goes_on_from_its_checkpoint(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    """SIGKILL leaves no time for anything; what is there is whole."""
    made = scenario(iterations=30, held_out_every=4, arguments={"pause": 0.03})
    train(made, tmp_path / "whole")
    code = (
        "import sys, json; from simkit.scenario import Scenario; from simkit.train import train\n"
        f"s = Scenario.model_validate(json.loads({made.model_dump_json()!r}))\n"
        f"train(s, {str(tmp_path / 'killed')!r}, checkpoint_every_s=0.001)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    state = tmp_path / "killed" / "checkpoint" / "state.json"
    deadline = time.monotonic() + 30
    while not (state.is_file() and time.monotonic() < deadline):
        time.sleep(0.01)
    time.sleep(0.15)
    process.kill()
    process.wait()
    assert json.loads((tmp_path / "killed" / "training.json").read_text())["iteration"] < 30
    done = train(made, tmp_path / "killed")
    assert not done.was_finished
    assert result(tmp_path / "killed") == result(tmp_path / "whole")


def test_metrics_ahead_of_the_checkpoint_are_taken_back(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    """A kill between the two leaves rows of iterations that are done again; none is doubled."""
    made = scenario(iterations=6)
    train(made, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "t", watch=stop_after(2))
    whole = pl.read_parquet(tmp_path / "whole" / "metrics.parquet")
    whole.head(5).write_parquet(tmp_path / "t" / "metrics.parquet")
    train(made, tmp_path / "t")
    assert result(tmp_path / "t") == result(tmp_path / "whole")


def test_a_kill_between_two_renames_leaves_the_old_checkpoint(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    made = scenario(iterations=6)
    train(made, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "t", watch=stop_after(3))
    (tmp_path / "t" / "checkpoint").rename(tmp_path / "t" / "checkpoint.old")
    train(made, tmp_path / "t")
    assert result(tmp_path / "t") == result(tmp_path / "whole")
    assert not (tmp_path / "t" / "checkpoint.old").exists()


COURSE = [5.0, 4.0, 3.0, 3.5, 3.0, 3.2, 2.0]
"""Held-out slowdown after 0, 1, … iterations; equal is no gain."""


@pytest.mark.parametrize(
    ("patience", "last", "best"),
    [
        (1, 3, 2),  # the first look without a gain is the last
        (2, 4, 2),  # 3.5 and 3.0 are none
        (3, 5, 2),
        (4, 6, 6),  # it lasts to the end
        (None, 6, 6),
    ],
)
def test_early_stopping(
    tmp_path: Path,
    scenario: Callable[..., Scenario],
    patience: int | None,
    last: int,
    best: int,
) -> None:
    made = scenario(
        iterations=6, held_out_every=1, patience=patience, keep="best", arguments={"course": COURSE}
    )
    done = train(made, tmp_path / "t")
    assert done.rows[-1]["iteration"] == last
    assert done.info["best"]["iteration"] == best
    assert result(tmp_path / "t")[1]["iteration"] == best
    assert done.info["stopped"] == ("no further gain" if last < 6 else "all iterations done")


def test_a_finished_training_is_left_as_it_is(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    made = scenario(iterations=3)
    assert not train(made, tmp_path / "t").was_finished
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "t").rglob("*") if p.is_file()}
    assert train(made, tmp_path / "t").was_finished
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_the_folder_of_another_training_is_refused_by_what_differs(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    train(scenario(iterations=3), tmp_path / "t")
    with pytest.raises(RunError, match=r"learn.iterations \(3 there, 4 here\), seed \(0 there, 1"):
        train(scenario(iterations=4, seed=1), tmp_path / "t")
    with pytest.raises(RunError, match="device"):
        train(scenario(iterations=3), tmp_path / "t", device="cuda")
    assert train(scenario(iterations=4), tmp_path / "t", force=True).rows[-1]["iteration"] == 4


def test_a_folder_with_other_things_is_refused(
    tmp_path: Path, scenario: Callable[..., Scenario]
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine.txt").write_text("dear")
    with pytest.raises(RunError, match="holds other things"):
        train(scenario(iterations=1), tmp_path / "t")
    train(scenario(iterations=1), tmp_path / "t", force=True)
    assert (tmp_path / "t" / "mine.txt").read_text() == "dear"


def test_what_cannot_be_trained_is_told(tmp_path: Path, scenario: Callable[..., Scenario]) -> None:
    cases: list[tuple[Scenario, type[Exception], str]] = [
        (scenario("nothing"), PluginError, "is no learner"),
        (scenario("without_torch"), PluginError, r"needs torch.*install simkit-cluster\[learn\]"),
        (scenario(iterations=2000), ScenarioError, "too many"),
        (scenario(arguments={"paus": 1}), ScenarioError, "did you mean 'pause'"),
        (scenario(criterion="slowdwn"), ScenarioError, "did you mean 'slowdown'"),
        (scenario().model_copy(update={"learn": None}), ScenarioError, "learn: is missing"),
    ]
    for number, (made, kind, text) in enumerate(cases):
        with pytest.raises(kind, match=text):
            train(made, tmp_path / str(number))


def test_iterations_given_twice_are_refused(scenario: Callable[..., Scenario]) -> None:
    with pytest.raises(ScenarioError, match=r"learn.arguments.iterations: is given twice"):
        scenario(iterations=3, arguments={"iterations": 4})


def test_a_learner_whose_module_lacks_torch_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "lacks.py").write_text("import torch_is_not_here")
    (tmp_path / "torchless.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
    )
    for name, text in (("lacks", "cannot be loaded"), ("torchless", r"simkit-cluster\[learn\]")):
        made = load_scenario(
            {
                "workload": {"type": "swf", "path": "sample:lublin_1000"},
                "learn": {"learner": f"{tmp_path / name}.py:begin"},
            }
        )
        with pytest.raises(PluginError, match=text):
            train(made, tmp_path / f"{name}-out")


# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def simkit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command where there is a scenario, ``s.yaml``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.py").write_text(LEARNER)
    (tmp_path / "s.yaml").write_text("workload: {type: swf, path: 'sample:lublin_1000'}\n")

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["simkit", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        return (int(exit_.value.code or 0), *capsys.readouterr())

    return call


def test_the_command_trains_and_says_where_the_agent_is(
    simkit: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    options = ("--learner", "walk.py:begin", "--iterations", 3, "--seed", 4, "-o", "t")
    code, out, _ = simkit("train", "s.yaml", *options)
    assert code == 0
    assert "3 of 3" in out
    assert "t/agent" in out
    code, out, _ = simkit("train", "s.yaml", *options, "--json")
    told = json.loads(out)
    assert (told["was_finished"], told["seed"], told["iteration"]) == (True, 4, 3)


def test_an_unknown_learner_is_told(simkit: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = simkit("train", "s.yaml", "--learner", "deprm")
    assert code == 2
    assert "learn.learner: 'deprm' is not known as a learner" in err


def test_ctrl_c_says_where_it_stands(
    simkit: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    settings = ("--set", "learn.arguments.fails_at=2", "--iterations", 5, "-o", "t")
    code, _, err = simkit("train", "s.yaml", "--learner", "walk.py:begin", *settings)
    assert code == 130
    assert "the same command goes on from there" in err
