"""Every learner learns, is repeatable, resumable, honest about what it cannot do; its agent is a policy."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from ready_pools import check_acts_as_in_lockstep, ready_scenario
from small_scenarios import WIND
from trainings import (
    SMALLEST,
    check_held_out_changes_nothing,
    check_resume,
    deeprm_scenario,
    pool_scenario,
    small_scenario,
    small_training,
    sofia_scenario,
    weights,
)

import simkit
from simkit import plugins
from simkit.errors import PluginError, RunError, ScenarioError, SimkitWarning
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.ready_pool.rules import ORDERS, play
from simkit.scenario import Scenario
from simkit.training.held_out import metric_of_agents
from simkit.training.judge import judged_metric
from simkit.training.train import train

LEARNERS = plugins.names("simkit.learners")
FORMS = [
    pytest.param(learner, form, marks=[pytest.mark.thorough] if form else [])
    for learner in LEARNERS
    for form in ({}, *(SMALLEST[learner].forms if learner in SMALLEST else ()))
]
COMPILED = re.compile(r"simkit\.learners\..*(kernel|compiled)")


def test_every_learner_is_tried():
    assert sorted(SMALLEST) == LEARNERS


@pytest.mark.parametrize(("learner", "form"), FORMS)
def test_resumed_is_as_not_interrupted(learner, form, tmp_path):
    check_resume(lambda: small_training(learner, **form), tmp_path)


@pytest.mark.parametrize(
    "learner",
    [pytest.param(n, marks=[] if n in ("deeprm", "ppo") else [pytest.mark.thorough]) for n in LEARNERS],
)  # fmt: skip
def test_more_iterations_later_are_as_all_at_once_or_refused(learner, tmp_path):
    def agent_after(iterations: int, folder: str) -> dict[str, bytes]:
        done = train(small_scenario(learner, iterations), tmp_path / folder)
        return {file.name: file.read_bytes() for file in done.agent.iterdir()}

    agent_after(2, "later")
    if small_training(learner).extendable:
        assert agent_after(3, "later") == agent_after(3, "at once")
    else:
        with pytest.raises(RunError, match="iterations"):
            agent_after(3, "later")


@pytest.mark.sampled
@pytest.mark.parametrize("learner", LEARNERS)
def test_an_evaluation_changes_nothing(learner):
    check_held_out_changes_nothing(lambda: small_training(learner))


NO_CHOICE = {"starts": "ahead", "job_sets": 1}, "no decision left a choice; take slices in which"
UNTRAINED: dict[str, tuple[dict[str, Any], str]] = {
    **dict.fromkeys(("actor-critic", "ppo", "reinforce"), NO_CHOICE),
    "dqn": ({"batch": 256}, r"the memory holds \d+ decisions, too few for batch: 256; lower it"),
}
"""Learner → arguments with which it learns nothing, and what it says."""


@pytest.mark.parametrize("learner", UNTRAINED)
def test_a_training_without_an_update_says_so_and_logs_no_number(learner, tmp_path):
    small, (changes, text) = SMALLEST[learner], UNTRAINED[learner]
    where = small.where(**({} if learner == "dqn" else {"seed": 2}))
    learn = {"learner": learner, "arguments": {**small.arguments, **changes, "iterations": 1}}
    scenario = Scenario.model_validate({**where.model_dump(mode="json"), "learn": learn})
    with pytest.warns(SimkitWarning, match=rf"^{learner}: nothing was learned, .*{text}"):
        done = train(scenario, tmp_path / "training")
    assert not {"loss", "entropy"} & done.rows[-1].keys()


def test_a_training_with_an_update_warns_of_nothing(tmp_path):
    made = small_training("dqn")
    made.step()
    assert made.warnings() == ()
    made.save(tmp_path)
    other = small_training("dqn")
    other.load(tmp_path)
    assert other.warnings() == ()


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_names_of_its_held_out_metrics_are_those_it_says(learner):
    made = small_training(learner)
    names = set(made.held_out_metrics)
    if names:
        assert {made.criterion, *made.held_out()} <= names


@pytest.mark.parametrize("learner", LEARNERS)
def test_another_seed_is_another_training(learner, tmp_path):
    one, other = small_training(learner, 1), small_training(learner, 2)
    one.save(tmp_path)
    with pytest.raises(RunError, match="seed"):
        other.load(tmp_path)
    one.step()
    other.step()
    assert weights(one) != weights(other)


@pytest.mark.parametrize("learner", LEARNERS)
def test_all_mistakes_come_at_once(learner):
    small = SMALLEST[learner]
    begin = plugins.find("simkit.learners", learner)
    wrong = {"itterations": 3, "iterations": 0}
    with pytest.raises(ScenarioError) as caught:
        begin(small.where(), {**small.arguments, **wrong}, seed=0, device="cuda:99")
    places = {text.partition(":")[0] for text in caught.value.problems}
    assert places == {"device", "learn.arguments.itterations", "learn.arguments.iterations"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("learner", "library", "extra"),
    [
        *((learner, "safetensors.numpy", "agents") for learner in LEARNERS),
        *((learner, "numba", "learn") for learner in ("deepjs", "fitness", "rlscheduler")),
        *((learner, "cma", "learn") for learner in ("evolution", "fitness", "rlscheduler")),
    ],
)
def test_without_its_libraries_it_names_the_extra(learner, library, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if COMPILED.fullmatch(name)]:
        monkeypatch.delitem(sys.modules, name)
        package, _, module = name.rpartition(".")
        monkeypatch.delattr(sys.modules[package], module, raising=False)
    with pytest.raises(PluginError, match=rf"simkit-cluster\[{extra}\]"):
        small_training(learner)


@pytest.mark.parametrize("learner", LEARNERS)
def test_its_agent_is_a_policy(learner, tmp_path):
    made = small_training(learner)
    made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    judged_metric(metric_of_agents([tmp_path / "agent"]))  # one that `simkit evaluate` knows
    stated = SMALLEST[learner].where().model_dump(mode="json", exclude={"policy"})
    policy: dict[str, Any] = {"agent": str(tmp_path / "agent")}
    if learner in ("deepjs", "fitness"):  # these decide under the rules of CloudSimPy
        policy["compat"], stated["scheduling"] = "cloudsimpy", {"every": "1s"}
    run = simkit.simulate(Scenario.model_validate({**stated, "policy": policy}))
    assert run.metrics["jobs"]["finished"] > 0


@pytest.mark.parametrize(
    ("learner", "form"),
    [(learner, form)
     for learner in ("actor-critic", "deeprm", "evolution", "ppo", "reinforce", "sofia")
     for form in ({}, *SMALLEST[learner].forms)],
)  # fmt: skip
def test_an_iteration_without_a_job_changes_nothing(learner, form, monkeypatch):
    made = small_training(learner, **form)
    made.step()  # after it, Adam moves weights even where the gradient is 0
    before = weights(made)
    source = getattr(made, "problem", made).source
    monkeypatch.setattr(type(source), "draw", lambda *_: JobSets.empty(2, 3, 2))
    if hasattr(made, "fixed"):
        made.fixed = JobSets.empty(2, 3, 2)
    assert made.step() == {"unfinished": 0.0, "decisions": 0.0}
    assert (made.iteration, weights(made)) == (2, before)


@pytest.mark.parametrize(
    ("learner", "arguments", "power"),
    [
        ("rare", {}, False),
        ("rare", {"reject": True}, True),
        ("offline", {}, False),
        ("cocorl", {}, False),
        ("cocorl", {"max_start": 12}, True),
        ("cocorl", {"reject": True}, True),
    ],
)
def test_its_agent_acts_in_the_simulation_as_in_lockstep(learner, arguments, power, tmp_path):
    where = ready_scenario(**({"power": WIND} if power else {}))
    made = small_training(learner, where=where, **arguments)
    for _ in range(3):
        made.step()
    check_acts_as_in_lockstep(made, where, tmp_path / "agent")


# --- learning -------------------------------------------------------------------------------------

CROWDED = {"type": "deeprm", "offered_load": 1.3, "steps": 15}
"""So many jobs that it matters which one begins."""
PPO: dict[str, Any] = {
    "iterations": 8, "job_sets": 16, "rollouts": 6, "hidden": 32, "held_out_sets": 40,
    "learning_rate": 0.01, "batch": 512,
}  # fmt: skip
SOFIA: dict[str, Any] = {
    "iterations": 35, "job_sets": 8, "rollouts": 8, "held_out_sets": 40, "learning_rate": 0.01,
}  # fmt: skip
LEARNS: list[tuple[str, Scenario | None, dict[str, Any], str, float]] = [
    ("deeprm", None, {
        "iterations": 40, "job_sets": 10, "rollouts": 10, "held_out_sets": 20, "hidden": 20,
        "observation": "deeprm-compact", "optimiser": "adam", "learning_rate": 0.02,
    }, "slowdown", 0.75),
    ("ppo", deeprm_scenario(workload=CROWDED), PPO, "slowdown", 0.75),
    ("ppo", sofia_scenario(positions=20), PPO, "slowdown", 0.75),
    ("reinforce", deeprm_scenario(workload=CROWDED), {
        "iterations": 12, "job_sets": 16, "rollouts": 6, "hidden": 32, "held_out_sets": 40,
        "kl": 0.1,
    }, "slowdown", 0.8),
    *(("sofia", None, SOFIA | {"update": update}, "slowdown", 0.85)
      for update in ("natural", "gradient", "proximal")),
    ("rlscheduler", None, {"iterations": 15, "candidates": 10, "job_sets": 6},
     "slowdown_geometric", 0.8),
]  # fmt: skip
"""Learner, scenario (None: its smallest), arguments, what falls, and below which share of it."""
QUICK = ("ppo", "sofia-natural")


def learning(case: tuple[Any, ...]) -> Any:
    name = "-".join([case[0], *([case[2]["update"]] if "update" in case[2] else [])])
    return pytest.param(*case, id=name, marks=[] if name in QUICK else [pytest.mark.thorough])


@pytest.mark.parametrize(
    ("learner", "where", "arguments", "key", "share"), [*map(learning, LEARNS)]
)
def test_it_learns(learner, where, arguments, key, share):
    made = small_training(learner, where=where, **arguments)
    before = made.held_out()[key]
    for _ in range(made.iterations):
        logged = made.step()
        assert np.isfinite([*logged.values()]).all(), logged
    after = made.held_out()
    assert after[key] < share * before
    assert after.get("unfinished", 0) == 0


@pytest.mark.parametrize(
    ("learner", "arguments"),
    [
        pytest.param("cocorl", {"iterations": 30}, marks=pytest.mark.thorough),
        pytest.param(
            "rare", {"iterations": 8, "updates": 120, "replay": 50_000}, marks=pytest.mark.slow
        ),
    ],
)
def test_it_loses_less_value_than_first_come_first_served(learner, arguments):
    """And far less than untrained, on held-out streams."""
    made = small_training(
        learner, games=48, decisions=32, hours=400, hidden=32, batch=256, held_out_sets=24,
        where=ready_scenario(
            admission={"slots": 15, "backlog": 144, "late": "leave"},
            workload={"type": "rare", "jobs": 190, "offered_load": 1.2},
        ), **arguments,
    )  # fmt: skip
    before = made.held_out()["lost_value_drawn"]
    for _ in range(made.iterations):
        made.step()
    rule = made.source.games(made.unseen)
    play(rule, ORDERS["fcfs"])
    after = made.held_out()
    assert after["lost_value_drawn"] < before - 0.05
    assert after["lost_value"] < 1.0 - float(rule.value_ratio().mean()) - 0.02


# --- refusals -------------------------------------------------------------------------------------

POISSON = {
    "type": "poisson", "jobs": 5, "processors": 4, "rate_per_s": 1.0, "mean_run_time_s": 5,
}  # fmt: skip
TWO = {"machines": [{"count": 2, "cpu": 10, "mem": 10}]}
DATA = {"dataset": "x", "clone": 1, "offline": 1}
REFUSED: dict[str, list[tuple[Scenario | dict[str, Any], dict[str, Any], str]]] = {
    "cocorl": [
        ({"scheduling": {}}, {}, "scheduling.step"),
        ({"admission": {"backlog": 9}}, {}, "admission.slots"),
        ({}, {"max_start": 48}, "max_start"),
        ({}, {"units": [10, 20], "cost_limit": 1.0}, "units"),
        ({}, {"units": [10, 20], "games": 1}, "games"),
        ({"power": WIND}, {"units": [20]}, "units"),
        ({}, {"rollouts": 2}, "rollouts"),
        ({}, {"loads": [0.5]}, "loads"),
        ({}, {"cost_share": 0.5}, "cost_of"),
        ({}, {"cost_of": "free"}, "cost_share"),
        ({}, {"cost_limit": 1.0, "cost_of": "free", "cost_share": 0.5}, "cost_limit"),
    ],
    "deepjs": [({}, {"sharpness": 3.0}, "sharpness")],
    "deeprm": [
        # the agent would be judged on what it learned from
        ({"workload": {"type": "deeprm", "rate": 0.3, "original_set": 3}}, {}, "workload.original_set"),
        # what changes jobs after they are drawn does not reach the lock-step environment
        ({"workload": {"type": "deeprm", "rate": 0.3, "load": 2.0}}, {}, "workload.load"),
        ({"workload": POISSON}, {}, "workload.type"),
        ({"workload": {"type": "deeprm", "offered_load": 2.0}}, {}, "workload"),  # > a job a step
        ({"admission": {}}, {}, "admission"),
        ({"estimates": "user-mean"}, {}, "estimates"),
        ({"cluster": TWO}, {}, "cluster.machines"),
        ({"scheduling": {"step": "2s"}}, {}, "scheduling.step"),
        ({}, {"horizon": 15}, "horizon"),
        ({}, {"rollouts": 1}, "rollouts"),  # every advantage would be 0
        # an agent would be judged, or learn, on nothing
        ({"workload": {"type": "deeprm", "rate": 0.0001}}, {}, "held_out_sets"),
        ({"workload": {"type": "deeprm", "rate": 0.001}},
         {"held_out_sets": 300, "job_sets": 1, "fresh": False}, "job_sets"),
    ],
    "dqn": [
        ({}, {"mask": "none", "starts": "now"}, "mask"),
        ({}, {"patience": 3}, "patience"),
        ({}, {"explore": 2}, "explore"),
        ({}, {"batch": 400}, "batch"),  # more than the memory holds
        ({}, {"horizon": 8}, "workload"),  # jobs take up to 10 steps
        ({}, {"job_sets": 2, "loads": [0.2, 0.9, 2.0]}, "job_sets"),
        ({"estimates": "user-mean"}, {"loads": [0.5]}, "estimates"),
        ({"scheduling": {}}, {"loads": [0.5]}, "scheduling"),
        ({}, {"objective": "completion"}, "objective"),
        ({}, {"jobs": 20, "loads": [0.5]}, "loads"),
    ],
    "fitness": [
        ({}, {"candidates": 1}, "candidates"),
        (pool_scenario(), {}, "workload"),
        ({"scheduling": {"step": "1s"}}, {}, "scheduling"),
        ({"cluster": {"machines": [{"cpu": 8, "mem": 1, "gpu": 1}]}}, {}, "cluster"),
    ],
    "offline": [
        ({}, {"clone": 3}, "clone"),  # without data
        ({}, {"dataset": "x", "clone": 3, "offline": 3}, "iterations"),
        ({}, DATA | {"actor": "hard"}, "actor"),
        ({}, {"decisions": 1}, "decisions"),
        ({}, {"rollouts": 3}, "rollouts"),  # games have no end
    ],
    "ppo": [
        (sofia_scenario(), {"loads": [0.5]}, "loads"),
        ({}, {"loads": [0.5, 2.0]}, "loads"),  # more than a job a step
        ({}, {"loads": [0.1, 0.2, 1.8]}, "job_sets"),
        ({}, {"weights": [1.0]}, "weights"),
        ({"workload": {"type": "deeprm", "rate": 0.0001}}, {}, "held_out_sets"),
        ({}, {"cost_limit": 1.0}, "cost_limit"),  # no cost is counted
        ({}, {"hours": 9}, "hours"),
    ],
    "rare": [
        ({}, {"teacher": "sjf"}, "teacher"),  # without a warm-up
        ({}, {"warm_up": 9}, "iterations"),
        ({}, {"decisions": 1}, "decisions"),
    ],
    "reinforce": [
        (sofia_scenario(), {"loads": [0.5]}, "loads"),
        ({}, {"loads": [0.1, 0.2, 1.8]}, "job_sets"),
        ({}, {"patience": 3}, "patience"),
        ({}, {"rollouts": 1}, "rollouts"),
        ({"workload": {"type": "deeprm", "rate": 0.0001}}, {}, "held_out_sets"),
        ({"admission": {}}, {"layout": "classes", "backlog_shown": 9}, "backlog_shown"),
        ({}, {"actions": "slots", "mask": "none"}, "mask"),
        ({"admission": {}}, {"layout": "classes", "warm_start": 1}, "warm_start"),
    ],
    "rlscheduler": [
        ({"cluster": {"machines": [{"count": 2, "processors": 16}]}}, {}, "cluster"),
        ({"cluster": {"processors": 8}}, {}, "workload"),
        ({"estimates": "actual"}, {}, "estimates"),
        ({"estimates": {"type": "requested", "factor": 2}}, {}, "estimates"),
        ({"estimates": {"type": "requested", "correction": "tsafrir"}}, {}, "estimates"),
        ({"walltime": "kill"}, {}, "walltime"),
        ({"scheduling": {"every": "60s"}}, {}, "scheduling"),
        ({"admission": {"slots": 5}}, {}, "admission"),
        ({"admission": {"backlog": 5}}, {}, "admission"),
        ({"processes": [{"path": __file__ + ":None"}]}, {}, "processes"),
        ({}, {"fewest_jobs": 70}, "fewest_jobs"),
        ({}, {"most_jobs": 900}, "most_jobs"),
        ({}, {"least_slowdown": 1e6}, "least_slowdown"),
        ({}, {"backfill": "rlscheduler", "end": "always"}, "end"),
    ],
    "sofia": [
        ({}, {"kl": 0}, "kl"),
        ({}, {"rollouts": 1}, "rollouts"),
        ({}, {"horizon": 8}, "horizon"),  # jobs take up to 8 steps
        ({"load": 2.0}, {}, "workload.load"),
        ({"rate": 0.0001}, {}, "held_out_sets"),
    ],
}  # fmt: skip
"""Learner → changes of its scenario, or another, its arguments, and the place that is named."""


@pytest.mark.parametrize(
    ("learner", "where", "arguments", "place"),
    [(learner, *case) for learner, cases in REFUSED.items() for case in cases],
)
def test_what_it_cannot_learn_from_is_refused(learner, where, arguments, place):
    told = where if isinstance(where, Scenario) else SMALLEST[learner].where(**where)
    of_scenario = place.partition(".")[0] in Scenario.model_fields
    # the place itself, or why a learner is not for this scenario
    key = (
        rf"(^|\n|is for |this scenario is not.*){place}"
        if of_scenario
        else f"learn.arguments.{place}: "
    )
    with pytest.raises(ScenarioError, match=key):
        small_training(learner, where=told, **arguments)
