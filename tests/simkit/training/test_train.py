"""`simkit train`: a training stops and goes on, and comes to the same as one that never stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from typing import Any

import polars as pl
import pytest
from children import child

from simkit.errors import PluginError, RunError, ScenarioError
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.training.train import stands_at, train

LEARNER = '''
"""A learner of one number: a random walk whose generator is part of a checkpoint."""
import json, math, time
import numpy as np
from simkit.plugins import instantiate
from simkit.errors import ScenarioError
from simkit.training import Training

def begin(scenario, arguments, *, seed, device):
    return instantiate("learn.arguments", Walk, {"seed": seed, **arguments})

class Walk(Training):
    less_is_better = ("energy",)

    def __init__(self, seed, iterations=20, course=(), pause=0.0, fails_at=-1, extendable=False,
                 broken_at=-1):
        if iterations > 1000:
            raise ScenarioError("learn.arguments: iterations is too many")
        self.iteration, self.iterations = 0, iterations
        self.course, self.pause, self.fails_at = list(course), pause, fails_at
        self.extendable, self.broken_at = extendable, broken_at
        self.rng, self.x = np.random.default_rng(seed), 0.0

    def step(self):
        time.sleep(self.pause)
        if self.iteration == self.fails_at:
            raise KeyboardInterrupt
        if self.iteration == self.broken_at:
            raise ScenarioError("broken")
        self.x += float(self.rng.normal())
        self.iteration += 1
        return {"return": self.x, "decisions": 10, "mean_of_nothing": math.nan}

    def held_out(self):
        at = min(self.iteration, len(self.course) - 1)
        slowdown = float(self.course[at]) if self.course else abs(self.x)
        return {"slowdown": slowdown, "unfinished": 0, "return": self.x, "energy": 1.0}

    def save(self, folder):
        state = {"i": self.iteration, "x": self.x, "rng": self.rng.bit_generator.state}
        (folder / "state.json").write_text(json.dumps(state))

    def load(self, folder):
        state = json.loads((folder / "state.json").read_text())
        self.iteration, self.x = state["i"], state["x"]
        self.rng.bit_generator.state = state["rng"]

    def write_agent(self, folder, curve_end):
        text = json.dumps({"x": self.x, "iteration": curve_end["iteration"], "row": curve_end})
        (folder / "agent.json").write_text(text)

class Unjudged(Walk):
    def held_out(self):
        return {}

def unjudged(scenario, arguments, *, seed, device):
    return Unjudged(seed, **arguments)

nothing = 3
def without_torch(scenario, arguments, *, seed, device):
    raise ModuleNotFoundError("No module named 'torch'", name="torch")
'''
WALL = ("wall_time_s", "evaluation_time_s", "decisions_per_s")
"""Columns that differ from one run to the next."""


@pytest.fixture
def scenario(tmp_path):
    """Return a scenario with the learner and other settings of `learn`."""
    path = tmp_path / "walk.py"
    path.write_text(LEARNER)

    def make(function="begin", seed=0, **learn):
        return load_scenario(
            {
                "workload": {"type": "swf", "path": "sample:lublin_1000"},
                "seed": seed,
                "learn": {"learner": f"{path}:{function}", **learn},
            }
        )

    return make


def result(folder):
    """Return the metrics, times of the wall aside, and the agent."""
    rows = pl.read_parquet(folder / "metrics.parquet").drop(WALL).to_dicts()
    agent = json.loads((folder / "agent" / "agent.json").read_text())
    return rows, {key: agent[key] for key in ("x", "iteration")}


def stop_after(iterations):
    """Return a watch that sends this process a Ctrl-C at the end of an iteration."""

    def watch(training, _row):
        if training.iteration == iterations:
            os.kill(os.getpid(), signal.SIGINT)

    return watch


def test_a_row_an_iteration_and_held_out_numbers_where_they_are_due(tmp_path, scenario):
    train(scenario(iterations=7, held_out_every=3), tmp_path / "t")
    rows, agent = result(tmp_path / "t")
    assert [row["iteration"] for row in rows] == list(range(8))
    looked = [row["iteration"] for row in rows if row["held_out_slowdown"] is not None]
    assert looked == [0, 3, 6, 7]  # before the first, every third, and at the end
    assert agent == {"x": rows[-1]["return"], "iteration": 7}


@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("stops", [(1,), (4,), (3, 8)])
def test_an_interrupted_training_ends_as_one_that_was_not(tmp_path, scenario, keep, stops):
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


@pytest.mark.thorough
def test_a_killed_training_goes_on_from_its_checkpoint(tmp_path, scenario):
    """SIGKILL leaves no time for anything; what is there is whole."""
    made = scenario(iterations=30, held_out_every=4, arguments={"pause": 0.03})
    train(made, tmp_path / "whole")
    code = (
        "import sys, json; from simkit.scenario import Scenario; from simkit.training.train import train\n"
        f"s = Scenario.model_validate(json.loads({made.model_dump_json()!r}))\n"
        f"train(s, {str(tmp_path / 'killed')!r}, checkpoint_every_s=0.001)"
    )
    state = tmp_path / "killed" / "checkpoint" / "state.json"
    with child([sys.executable, "-c", code], tmp_path):
        deadline = time.monotonic() + 30
        while not state.is_file() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert json.loads((tmp_path / "killed" / "training.json").read_text())["iteration"] < 30
    done = train(made, tmp_path / "killed")
    assert not done.was_finished
    assert result(tmp_path / "killed") == result(tmp_path / "whole")


def test_metrics_ahead_of_the_checkpoint_are_taken_back(tmp_path, scenario):
    """A kill between the two leaves rows of iterations that are done again; none is doubled."""
    made = scenario(iterations=6)
    train(made, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(made, tmp_path / "t", watch=stop_after(2))
    whole = pl.read_parquet(tmp_path / "whole" / "metrics.parquet")
    whole.head(5).write_parquet(tmp_path / "t" / "metrics.parquet")
    train(made, tmp_path / "t")
    assert result(tmp_path / "t") == result(tmp_path / "whole")


def test_a_kill_between_two_renames_leaves_the_old_checkpoint(tmp_path, scenario):
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
def test_early_stopping(tmp_path, scenario, patience, last, best):
    made = scenario(
        iterations=6, held_out_every=1, patience=patience, keep="best", arguments={"course": COURSE}
    )
    done = train(made, tmp_path / "t")
    assert done.rows[-1]["iteration"] == last
    assert done.info["best"]["iteration"] == best
    assert result(tmp_path / "t")[1]["iteration"] == best
    assert done.info["stopped"] == ("no further gain" if last < 6 else "all iterations done")


def test_a_finished_training_is_left_as_it_is(tmp_path, scenario):
    made = scenario(iterations=3)
    assert not train(made, tmp_path / "t").was_finished
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "t").rglob("*") if p.is_file()}
    assert train(made, tmp_path / "t").was_finished
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_the_folder_of_another_training_is_refused_by_what_differs(tmp_path, scenario):
    train(scenario(iterations=3), tmp_path / "t")
    with pytest.raises(RunError, match=r"learn.iterations \(3 there, 4 here\), seed \(0 there, 1"):
        train(scenario(iterations=4, seed=1), tmp_path / "t")
    with pytest.raises(RunError, match="device"):
        train(scenario(iterations=3), tmp_path / "t", device="cuda")
    assert train(scenario(iterations=4), tmp_path / "t", force=True).rows[-1]["iteration"] == 4


def test_agents_of_one_seed_are_the_same_to_the_byte(tmp_path, scenario):
    """What the clock says of the last iteration stays in the metrics."""
    written = []
    for name in ("a", "b"):
        train(scenario(iterations=2), tmp_path / name)
        written.append((tmp_path / name / "agent" / "agent.json").read_text())
    assert written[0] == written[1]
    assert set(json.loads(written[0])["row"]).isdisjoint(WALL)


@pytest.mark.parametrize("stop", [2, None])
@pytest.mark.parametrize("keep", ["last", "best"])
def test_more_iterations_later_are_as_all_at_once(tmp_path, scenario, keep, stop):
    """Interrupted or at its end: the agent is that of a training that was to have six at once."""
    set_ = {"held_out_every": 2, "keep": keep, "arguments": {"extendable": True}}
    train(scenario(iterations=6, **set_), tmp_path / "whole")
    if stop is None:
        train(scenario(iterations=4, **set_), tmp_path / "t")
    else:
        with pytest.raises(KeyboardInterrupt):
            train(scenario(iterations=4, **set_), tmp_path / "t", watch=stop_after(stop))
    done = train(scenario(iterations=6, **set_), tmp_path / "t")
    assert (done.was_finished, done.info["status"], done.info["iterations"]) == (
        False, "complete", 6
    )  # fmt: skip
    assert result(tmp_path / "t") == result(tmp_path / "whole")
    assert train(scenario(iterations=6, **set_), tmp_path / "t").was_finished


REFUSED_LENGTHS: list[tuple[dict[str, Any], int]] = [
    # it has come further already
    ({}, 3),
    # the agent was looked at after iteration 4, which a longer training would not do
    ({"held_out_every": 3, "keep": "best"}, 6),
    ({"held_out_every": 3, "patience": 9}, 6),
    # not the length alone
    ({"seed": 1}, 6),
]


@pytest.mark.parametrize(("set_", "iterations"), REFUSED_LENGTHS)
def test_another_length_that_would_be_another_training_is_refused(
    tmp_path, scenario, set_, iterations
):
    set_ = {"arguments": {"extendable": True}, **set_}
    train(scenario(iterations=4, **{**set_, "seed": 0}), tmp_path / "t")
    with pytest.raises(RunError, match=r"another training.*(iterations|seed) \("):
        train(scenario(iterations=iterations, **set_), tmp_path / "t")


def test_a_learner_whose_trainings_cannot_be_extended_says_so(tmp_path, scenario):
    train(scenario(iterations=3), tmp_path / "t")
    with pytest.raises(RunError, match=r"with 3 iterations, .* cannot be extended, here to 5"):
        train(scenario(iterations=5), tmp_path / "t")
    with pytest.raises(RunError, match="another training, which differs in"):
        train(scenario(iterations=5, seed=1), tmp_path / "t")


@pytest.mark.parametrize(
    ("learn", "text"),
    [
        ({"criterion": "slowdwn"}, "learn.criterion: .*did you mean 'slowdown'"),
        ({"criterion": "slowdown_of_sets"}, "learn.criterion: 'slowdown_of_sets'"),
        # the worst return would have been kept as the best
        ({"criterion": "return"}, "learn.criterion: 'return'"),
        # a mean over no job
        ({"arguments": {"course": ["nan"]}}, "learn.criterion: the held-out slowdown is nan"),
        ({"arguments": {"broken_at": 0}}, "broken"),
    ],
)
def test_what_is_refused_leaves_no_folder_in_the_way(tmp_path, scenario, learn, text):
    with pytest.raises(ScenarioError, match=text):
        train(scenario(**{"iterations": 3, **learn}), tmp_path / "t")
    assert not (tmp_path / "t").exists()
    train(scenario(iterations=3), tmp_path / "t")


def test_a_refused_criterion_throws_nothing_away(tmp_path, scenario):
    train(scenario(iterations=3), tmp_path / "t")
    before = result(tmp_path / "t")
    with pytest.raises(ScenarioError, match="not among"):
        train(scenario(iterations=3, criterion="slowdown_of_sets"), tmp_path / "t", force=True)
    assert result(tmp_path / "t") == before


def test_a_failure_after_a_checkpoint_leaves_the_folder(tmp_path, scenario):
    made = scenario(iterations=5, arguments={"broken_at": 3})
    with pytest.raises(ScenarioError, match="broken"):
        train(made, tmp_path / "t", checkpoint_every_s=1e-6)
    assert json.loads((tmp_path / "t" / "checkpoint" / "state.json").read_text())["i"] == 3


def test_metrics_and_criterion_are_the_learners(tmp_path, scenario):
    """What less is better of; and the mean over nothing is no number, and so left out."""
    done = train(scenario(iterations=2, criterion="energy"), tmp_path / "t")
    assert done.info["best"] == {"held_out_energy": 1.0, "iteration": 0}
    assert all("mean_of_nothing" not in row for row in done.rows)


def test_a_finished_training_without_its_checkpoint_is_finished(tmp_path, scenario):
    whole = train(scenario(iterations=3), tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "checkpoint")
    again = train(scenario(iterations=3), tmp_path / "t")
    assert (again.was_finished, again.rows) == (True, whole.rows)
    shutil.rmtree(tmp_path / "t" / "agent")
    with pytest.raises(RunError, match="checkpoint is gone.*iteration 3; restore.*--force"):
        train(scenario(iterations=3), tmp_path / "t")


def test_a_checkpoint_that_was_taken_away_is_not_trained_over(tmp_path, scenario):
    with pytest.raises(KeyboardInterrupt):
        train(scenario(iterations=6), tmp_path / "t", watch=stop_after(2))
    shutil.rmtree(tmp_path / "t" / "checkpoint")
    with pytest.raises(RunError, match="checkpoint is gone, so it cannot resume from iteration 2"):
        train(scenario(iterations=6), tmp_path / "t")


def test_an_agent_that_was_taken_away_is_written_again_if_it_can_be(tmp_path, scenario):
    def again(**learn):
        made = scenario(iterations=6, held_out_every=1, **learn)
        train(made, tmp_path / "t", force=True)
        before = result(tmp_path / "t")
        shutil.rmtree(tmp_path / "t" / "agent")
        assert train(made, tmp_path / "t").was_finished
        assert result(tmp_path / "t") == before

    again()
    again(keep="best", arguments={"course": [5.0, 4.0, 3.0, 2.0, 1.5, 1.2, 1.0]})
    with pytest.raises(
        RunError, match="agent of iteration 2 is gone.*checkpoint is of iteration 6"
    ):
        again(keep="best", arguments={"course": [5.0, 4.0, 3.0, 3.5, 3.5, 3.5, 3.5]})


@pytest.mark.parametrize("key", ["status", "iteration", "scenario"])
def test_a_training_json_that_lacks_something_is_told(tmp_path, scenario, key):
    train(scenario(iterations=1), tmp_path / "t")
    path = tmp_path / "t" / "training.json"
    stated = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in stated.items() if k != key}))
    with pytest.raises(RunError, match=f"{key} is missing; start over with --force"):
        train(scenario(iterations=1), tmp_path / "t")


def test_a_folder_with_other_things_is_refused(tmp_path, scenario):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine.txt").write_text("dear")
    with pytest.raises(RunError, match="holds other files"):
        train(scenario(iterations=1), tmp_path / "t")
    train(scenario(iterations=1), tmp_path / "t", force=True)
    assert (tmp_path / "t" / "mine.txt").read_text() == "dear"


def test_what_cannot_be_trained_is_told(tmp_path, scenario):
    cases: list[tuple[Scenario, type[Exception], str]] = [
        (scenario("nothing"), PluginError, "is not a learner"),
        (scenario("without_torch"), PluginError, r"needs torch.*install simkit-cluster\[learn\]"),
        (scenario(iterations=2000), ScenarioError, "too many"),
        (scenario(arguments={"paus": 1}), ScenarioError, "did you mean 'pause'"),
        (scenario(criterion="slowdwn"), ScenarioError, "did you mean 'slowdown'"),
    ]
    for number, (made, kind, text) in enumerate(cases):
        with pytest.raises(kind, match=text):
            train(made, tmp_path / str(number))


def test_iterations_given_twice_are_refused(scenario):
    with pytest.raises(ScenarioError, match=r"learn.arguments.iterations: is given twice"):
        scenario(iterations=3, arguments={"iterations": 4})


def test_a_learner_whose_module_lacks_torch_says_what_to_install(tmp_path):
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
def command(simkit, tmp_path):
    """Return what runs `simkit train` on a scenario beside the learner above."""
    (tmp_path / "walk.py").write_text(LEARNER)
    (tmp_path / "s.yaml").write_text("workload: {type: swf, path: 'sample:lublin_1000'}\n")
    return partial(simkit, "train", "s.yaml", "-o", "t", "--learner")


def test_the_command_trains_and_says_where_the_agent_is(command):
    options = ("walk.py:begin", "--iterations", 3, "--seed", 4)
    done = command(*options)
    assert done.code == 0
    assert "3 of 3" in done.out
    assert "t/agent" in done.out
    told = json.loads(command(*options, "--json").out)
    assert (told["was_finished"], told["seed"], told["iteration"]) == (True, 4, 3)


def test_an_unknown_learner_is_told(command):
    done = command("deprm")
    assert done.code == 2
    assert "learn.learner: 'deprm' is not known as a learner" in done.err


def test_ctrl_c_says_where_it_stands(command, tmp_path):
    done = command("walk.py:begin", "--set", "learn.arguments.fails_at=2", "--iterations", 5)
    assert done.code == 130
    assert "t stands at iteration 0 of 5, without a checkpoint: the same command starts" in done.err
    command("walk.py:begin", "--iterations", 5, "--force")
    stand = "iteration 5 of 5: the same command resumes from there"
    assert stands_at(tmp_path / "t").endswith(stand)
    assert stands_at(tmp_path / "u").endswith("u holds nothing yet: the same command starts anew")


def test_the_agent_of_a_learner_that_holds_nothing_out_is_the_last(command):
    done = command("walk.py:unjudged", "--iterations", 2)
    assert (done.code, "t/agent (of the last iteration)" in done.out) == (0, True)


def test_what_compares_agents_needs_held_out_jobs(tmp_path, scenario):
    made = scenario("unjudged", iterations=2, keep="best", patience=3, criterion="unfinished")
    with pytest.raises(ScenarioError) as told:
        train(made, tmp_path / "t")
    assert [text.partition(", but ")[0] for text in told.value.problems] == [
        "learn.keep: is best", "learn.patience: is 3", "learn.criterion: is unfinished",
    ]  # fmt: skip
    assert all("unjudged holds nothing out" in text for text in told.value.problems)
    assert not (tmp_path / "t").exists()


def test_ctrl_c_while_the_command_line_is_loaded_is_no_traceback():
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from simkit.cli import main\n"
        "main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")
