"""The commands around a training: the usual learner, another learner, what is held out, `validate`."""

from __future__ import annotations

import json

import polars as pl
import pytest

from simkit import plugins
from simkit.errors import ScenarioError
from simkit.scenario.yaml_document import load_scenario
from simkit.training.evaluate import agent_candidate, evaluate
from simkit.training.held_out import Unseen
from simkit.training.train import check_learn, train, with_learner

PPO = {"job_sets": 2, "rollouts": 2, "held_out_sets": 4, "hidden": 8, "jobs": 20}
"""Arguments of a training that takes a second."""
GREEN = {"workload.jobs": 60, "workload.processors": 64}


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("deeprm", "deeprm"), ("sofia", "sofia"), ("schedqrm", "ppo"), ("rare", "ppo"),
        ("quickstart", "ppo"), ("green-quickstart", "ppo"),
    ],
)  # fmt: skip
def test_without_a_learner_the_usual_one_of_the_workload_trains(name, learner):
    scenario = load_scenario(name)
    found = with_learner(scenario)
    assert found.learn is not None
    assert found.learn.learner == learner
    check_learn(scenario)


def test_the_command_says_which_learner_is_the_usual_one(simkit):
    few = [
        word for key, value in PPO.items() for word in ("--set", f"learn.arguments.{key}={value}")
    ]
    done = simkit("train", "quickstart", "--iterations", 1, "-o", "t", *few)
    assert (done.code, done.err) == (0, "")
    assert "ppo (the usual one for swf), seed 0, cpu" in done.out
    assert " for evaluations: all iterations done" in done.out
    rows = pl.read_parquet("t/metrics.parquet")
    assert (rows["evaluation_time_s"] > 0).all()
    again = simkit("train", "quickstart", "--iterations", 1, "-o", "t", *few)
    assert "t was finished already" in again.out


def test_an_agent_alone_is_judged_by_what_its_training_selected_by(simkit):
    for name, key in (("t", "learn.criterion=slowdown"), ("w", "learn.arguments.reward=wait")):
        few = [
            word for key_, value in PPO.items()
            for word in ("--set", f"learn.arguments.{key_}={value}")
        ]  # fmt: skip
        done = simkit("train", "quickstart", "--iterations", 1, "-o", name, *few, "--set", key)
        assert done.code == 0, done.err
    alone = simkit("evaluate", "quickstart", "-a", "w", "--held-out", "-j", 1)
    assert "Metric      wait_time_s\n" in alone.out
    assert "Reference" not in alone.out
    words = ("-a", "t", "-a", "w", "--held-out", "-j", 1, "-m", "slowdown", "-m", "wait_time_s.max")
    both = simkit("evaluate", "quickstart", *words)
    assert "Mean of sets  wait_time_s.max\n" in both.out
    assert "differences and wins are against it" in both.out
    told = json.loads(simkit("evaluate", "quickstart", *words, "--json").out)
    assert told["beside"] == {"wait_time_s.max": "s"}
    assert all(one["beside"]["wait_time_s.max"] > 0 for one in told["candidates"])
    first = json.loads(simkit("evaluate", "quickstart", *words[:-4], "--json").out)
    assert first["metric"] == "slowdown"


def test_another_learner_gets_no_arguments_of_the_scenarios_own(simkit, tmp_path):
    learn = "{learner: deepjs, iterations: 7, arguments: {jobs: 10, repeats: 3}, held_out_every: 4}"
    (tmp_path / "s.yaml").write_text(
        f"workload: {{type: swf, path: 'sample:lublin_1000'}}\nlearn: {learn}\n"
    )
    few = [word for key, value in PPO.items() if key != "jobs"
           for word in ("--set", f"learn.arguments.{key}={value}")]  # fmt: skip
    done = simkit("train", "s.yaml", "--learner", "ppo", "-o", "t", *few, "--set",
                  "learn.iterations=1", "--json")  # fmt: skip
    assert done.code == 0, done.err
    kept = json.loads((tmp_path / "t" / "training.json").read_text())["scenario"]["learn"]
    given = {key: value for key, value in PPO.items() if key != "jobs"}
    assert (kept["iterations"], kept["arguments"], kept["held_out_every"]) == (1, given, 4)


def test_the_arguments_stay_if_the_learner_is_the_scenarios_own(simkit, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "workload: {type: swf, path: 'sample:lublin_1000'}\n"
        "learn: {learner: ppo, iterations: 1, arguments: {jobs: 2000}}\n"
    )
    done = simkit("train", "s.yaml", "--learner", "ppo", "-o", "t")
    assert "a window has 2,000 jobs" in done.err


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("quickstart", {}),
        ("quickstart", {"workload.target_load": {"offered_load": 0.9, "processors": 128}, "seed": 3}),
        ("quickstart", {"workload.window.jobs": "100..119", "workload.resample": {}}),
        ("green-quickstart", GREEN),
        ("green-quickstart", {
            "workload": {"type": "swf", "path": "sample:lublin_1000"}, "seed": 2,
        }),
        pytest.param(
            "cloud-quickstart", {"learn.arguments.jobs": 5}, marks=pytest.mark.thorough
        ),
    ],
)  # fmt: skip
def test_held_out_is_what_the_training_holds_out(name, overrides, tmp_path):
    learn = {"learner": "ppo", "iterations": 1, "arguments": PPO}
    scenario = load_scenario(name, overrides={"learn": learn, **overrides})
    done = train(scenario, tmp_path / "t")
    agent = agent_candidate(str(done.folder))
    unseen = Unseen.of_agents(scenario, [done.agent])
    assert (unseen.count, unseen.share) == (4, 0.2)
    found = evaluate(scenario, [agent], unseen=unseen, metric="bounded_slowdown", workers=1)
    told = done.rows[-1]
    assert found.candidates[0].pooled_mean == told["held_out_bounded_slowdown"]
    assert found.candidates[0].submitted == told["held_out_jobs"]


def test_an_unknown_criterion_is_refused_before_anything_is_played(monkeypatch, tmp_path):
    learn = {"learner": "ppo", "arguments": PPO, "criterion": "slowdown_of_users"}
    scenario = load_scenario("quickstart", overrides={"learn": learn})
    monkeypatch.setattr(
        "simkit.learners.ppo.PPOTraining.evaluate", lambda _self: pytest.fail("it was judged")
    )
    with pytest.raises(ScenarioError, match="'slowdown_of_users' is not a held-out metric"):
        train(scenario, tmp_path / "t")


@pytest.mark.parametrize(
    ("learn", "text"),
    [
        ("{learner: ppo, arguments: {jbos: 3}}", "s.yaml:2: learn.arguments.jbos: unknown key"),
        ("{arguments: {jobs: 2000}}", "a window has 2,000 jobs"),
        ("{criterion: slowdwn}", "s.yaml:2: learn.criterion: 'slowdwn' is not"),
        (
            "{learner: deeprm}",
            "learn.learner: deeprm is for workload.type deeprm, and this scenario's is swf",
        ),
    ],
)
def test_validate_says_what_train_would_refuse(simkit, tmp_path, learn, text):
    (tmp_path / "s.yaml").write_text(
        f"workload: {{type: swf, path: 'sample:lublin_1000'}}\nlearn: {learn}\n"
    )
    done = simkit("validate", "s.yaml")
    assert (done.code, text in done.err) == (2, True), done.err
    assert simkit("run", "s.yaml").code == 0  # runs ignore the section


def test_the_usual_learners_are_learners():
    from simkit.learners.recipes import USUAL

    assert set(USUAL.values()) <= set(plugins.names("simkit.learners"))


def held_out_sets(simkit, *words):
    """Return (jobs, sets) of an evaluation of fcfs."""
    done = simkit("evaluate", *words, "-p", "fcfs", "--held-out", "-j", 1, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    return told["candidates"][0]["submitted"], told["sets"]


def test_policies_alone_are_judged_on_what_is_held_out(simkit):
    assert held_out_sets(simkit, "quickstart") == (30 * 100, 30)
    assert held_out_sets(simkit, "quickstart", "--windows", 4, "--jobs", 7) == (28, 4)


def test_policies_alone_are_judged_on_what_is_held_out_of_a_log(simkit, real_data):
    assert held_out_sets(simkit, "lublin-256", "--windows", 2, "--jobs", 9) == (18, 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--held-out", "--windows", "0..3"], "with --held-out, it is how many windows"),
        (["--held-out", "--windows", "0"], "with --held-out, it is how many windows"),
        (["--held-out", "--sets", "3"], "sets and held-out are both given"),
        (["--jobs", "3"], "add --held-out"),
        (
            ["--held-out", "--jobs", "201"],
            "20% of the log are 200 jobs, fewer than a window of 201",
        ),
    ],
)
def test_what_cannot_be_held_out_is_told(simkit, words, text):
    done = simkit("evaluate", "quickstart", "-p", "fcfs", *words)
    assert (done.code, text in " ".join(done.err.split())) == (2, True), done.err


TWO_JOBS = """workload: {type: swf, path: two.swf}
cluster: {processors: 4}
"""


def test_a_log_that_cannot_be_divided_is_told(simkit, tmp_path):
    rows = [f"{n} {5 * n} 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1" for n in (1, 2)]
    (tmp_path / "two.swf").write_text("\n".join(rows) + "\n")
    (tmp_path / "two.yaml").write_text(TWO_JOBS)
    done = simkit("train", "two.yaml", "-o", "t")
    text = "held_out: is 0.2, which leaves 2 of the log's 2 jobs to train on and 0 to judge on"
    assert (done.code, text in " ".join(done.err.split())) == (2, True), done.err
    done = simkit("train", "quickstart", "--set", "learn.arguments.held_out=0.9999", "-o", "t")
    text = "which leaves 0 of the log's 1,000 jobs to train on and 1,000 to judge on"
    assert (done.code, text in " ".join(done.err.split())) == (2, True), done.err
    done = simkit("evaluate", "two.yaml", "-p", "fcfs", "--held-out")
    text = "the held-out 20% of the log are 0 jobs, fewer than a window of 1; take a longer log"
    assert (done.code, text in " ".join(done.err.split())) == (2, True), done.err


@pytest.mark.filterwarnings("default:ppo. nothing was learned")
def test_burst_classes_of_a_log_need_the_run_time_of_a_class(simkit):
    words = [word for key, value in {**PPO, "job_sets": 1, "actions": "classes"}.items()
             for word in ("--set", f"learn.arguments.{key}={value}")]  # fmt: skip
    train = ("train", "quickstart", "--learner", "ppo", "--iterations", 1, "-o", "t", *words)
    done = simkit(*train)
    assert (done.code, "step: is missing" in done.err) == (2, True), done.err
    done = simkit(*train, "--set", "learn.arguments.step=1h")
    assert (done.code, "no decision left a choice" in done.err) == (0, True), done.err


@pytest.mark.parametrize(("windows", "share"), [(2, False), (3, True)])
def test_windows_that_share_jobs_are_told(simkit, windows, share):
    done = simkit(
        "evaluate", "quickstart", "-p", "fcfs", "--held-out", "--windows", windows, "-j", 1
    )
    assert ("the windows share jobs" in done.out) == share
