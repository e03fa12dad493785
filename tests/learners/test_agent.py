"""A trained agent as a policy: does what its weights say, and knows what it was trained on."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_scenarios import CLASSES, DEEPRM, READY

from simkit.agent.observe_slots import compact_schema
from simkit.agent.slotted import Slotted
from simkit.errors import PolicyError, RunError, ScenarioError
from simkit.experiment.api import simulate
from simkit.learners.agent import ViewAgent, load_agent
from simkit.learners.common.bundle import (
    ViewDescription,
    describe_view,
    hash_bundle,
    of_slots,
    read_bundle,
    up_to_date,
    write_bundle,
)
from simkit.learners.networks.shapes import PerceptronShape
from simkit.policy import SystemInfo
from simkit.scenario import Scenario
from simkit.verify import verify_run

MODEL = Slotted(capacity=(4, 4), slots=3, horizon=8, max_length=5, backlog=20, backlog_shown=16)
VOID = MODEL.slots
INFO = SystemInfo(("cpu", "mem"), ("pool",), np.array([[4.0, 4.0]]), ())
HEADER = "job_id,submit_time_s,run_time_s,cpu,mem"
POOL = {
    "cluster": {"machines": [{"count": 1, "cpu": 4, "mem": 4}]},
    "admission": {"slots": 3, "backlog": 20}, "estimates": "actual", "scheduling": {"step": "1s"},
}  # fmt: skip
SHOWN = {"workload": {"type": "deeprm", "offered_load": 0.9, "steps": 5}, **POOL}
"""A scenario on which the agents below were trained, as it were."""
JOBS = f"{HEADER}\n" + "".join(
    f"{i},{i // 2},{1 + i % 5},{1 + i % 3},{1 + i % 4}\n" for i in range(30)
)
"""Two jobs a second, of 1 to 5 s."""


def bundle(folder: Path, bias: dict[int, float] | None = None, **changes: Any) -> Path:
    """Write an agent that looks at nothing: the logits are `bias`, the rest 0."""
    schema = compact_schema(MODEL)
    last = np.zeros(MODEL.actions, np.float32)
    for action, logit in (bias or {}).items():
        last[action] = logit
    weights = {
        "layers.0.weight": np.zeros((schema.size, 2), np.float32),
        "layers.0.bias": np.zeros(2, np.float32),
        "layers.1.weight": np.zeros((2, MODEL.actions), np.float32),
        "layers.1.bias": last,
    }
    layers = (schema.size, 2, MODEL.actions)
    shape = PerceptronShape(type="perceptron", layers=layers, activation="relu")
    kind = of_slots(schema.name, MODEL, "none", ("cpu", "mem"))
    description = describe_view(shape, schema, kind) | {"scenario": SHOWN}
    write_bundle(folder, weights, description | changes)
    return folder


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a scenario of thirty jobs on the pool, with an agent as its policy."""
    (tmp_path / "jobs.csv").write_text(JOBS)

    def make(agent: Path, **args: Any) -> dict[str, Any]:
        columns = {name: name for name in HEADER.split(",")}
        return {
            "workload": {"type": "tasks", "path": str(tmp_path / "jobs.csv"), "columns": columns},
            **POOL,
            "policy": {"agent": str(agent), "args": args},
        }

    return make


def test_a_greedy_agent_that_would_wait_for_ever_runs_out_of_patience(tmp_path, scenario):
    """Arg-max is the void action throughout; each start comes after `patience` steps."""
    agent = bundle(tmp_path / "a", {VOID: 5.0})
    laid_over = {"admission": {"slots": 3}}
    run = simulate({**scenario(agent, choose="greedy", patience=4), **laid_over})
    starts = run.jobs["start_time_s"].sort()
    assert run.metrics["jobs"]["finished"] == 30
    assert starts[0] == 4.0
    assert starts.diff().drop_nulls().min() >= 4.0


def test_samples_have_the_networks_probabilities(tmp_path):
    """Logits ln 1 … ln 4: actions come in the ratio 1 : 2 : 3 : 4."""
    chances = {action: float(np.log(action + 1)) for action in range(MODEL.actions)}
    agent = load_agent(bundle(tmp_path / "a", chances))
    agent.reset(INFO, np.random.default_rng(0))
    assert isinstance(agent, ViewAgent)
    drawn = np.bincount([agent.choose(None) for _ in range(20_000)])  # type: ignore[arg-type]
    assert drawn / 20_000 == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.012)


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"admission": {"slots": 4}}, "admission.slots"),
        ({"admission": {}, "scheduling": {"step": "2s"}}, "scheduling.step admission.slots"),
        ({"scheduling": {}}, "scheduling.step"),
        ({"scheduling": {"every": "1s"}}, "scheduling.step"),
        ({"processes": [{"path": f"{__file__}:None"}]}, "processes"),
        # known once the cluster is there
        ({"cluster": {"machines": [{"count": 1, "cpu": 4, "mem": 8}]}}, "capacity"),
        ({"cluster": {"machines": [{"count": 2, "cpu": 4, "mem": 4}]}}, "machines"),
    ],
)
def test_another_scenario_is_refused_before_it_runs(tmp_path, scenario, changes, places):
    with pytest.raises(ScenarioError) as caught:
        simulate({**scenario(bundle(tmp_path / "a")), **changes}, output=tmp_path / "run")
    for place, problem in zip(places.split(), caught.value.problems, strict=True):
        assert place in problem
    assert not (tmp_path / "run").exists()


def test_another_observation_is_refused_by_its_field(tmp_path, scenario):
    """The encoder of that name shows other numbers than those of the training."""
    other = Slotted(capacity=(4, 4), slots=3, horizon=8, max_length=9, backlog_shown=16)
    agent = bundle(tmp_path / "a", observation=compact_schema(other).as_json())
    with pytest.raises(ScenarioError, match="max_length"):
        simulate(scenario(agent))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("architecture", {"type": "perceptron", "layers": [3, 4], "activation": "relu"}),
        ("requires", {"scheduling.steps": 1.0}),
        ("actions", {"type": "view", "count": 9}),
    ],
)
def test_a_bundle_whose_parts_do_not_fit_is_refused(tmp_path, key, value):
    with pytest.raises(RunError, match="steps" if key == "requires" else key):
        load_agent(bundle(tmp_path / "a", **{key: value}))


def test_a_schema_that_was_edited_is_refused(tmp_path):
    folder = bundle(tmp_path / "a")
    stated = json.loads((folder / "agent.json").read_text())
    stated["observation"]["fields"][0]["high"] = 2.0
    (folder / "agent.json").write_text(json.dumps(stated))
    with pytest.raises(RunError, match=r"observation\.fields"):
        load_agent(folder)
    hash_bundle(folder)  # the schema's own hash finds it, too
    with pytest.raises(RunError, match="observation"):
        load_agent(folder)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor", [1e17, 1e38])
def test_weights_that_overflow_are_refused(tmp_path, factor):
    """They are finite, and no hash finds them; logits would not be numbers."""
    folder = bundle(tmp_path / "a", {0: 1.0})
    large = {
        name: np.full_like(array, factor) for name, array in read_bundle(folder).weights.items()
    }
    description = json.loads((folder / "agent.json").read_text())
    write_bundle(folder, large, description)
    with pytest.raises(RunError, match="weights.safetensors"):
        load_agent(folder)


def test_an_observation_that_names_code_is_refused_and_the_code_does_not_run(tmp_path):
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nEncoder = object\n")
    schema = replace(compact_schema(MODEL), name=f"{tmp_path / 'mine.py'}:Encoder")
    folder = bundle(tmp_path / "a", observation=schema.as_json())
    with pytest.raises(RunError, match=r"mine\.py:Encoder"):
        load_agent(folder).reset(INFO, np.random.default_rng(0))
    assert not (tmp_path / "ran").exists()


KINDS = sorted((Path(__file__).parents[1] / "golden" / "agents").iterdir())
"""A bundle of each kind of agent."""
WHERE = {
    "ppo": DEEPRM,
    "dqn": CLASSES,
    "dqn-paper": CLASSES,
    "rare": READY,
    "cocorl-rejects": READY,
}
"""Agent of a view → a scenario for it."""
MADE = {"format", "learner", "seed", "weights_sha256", "sha256"}
"""What a bundle says of how it was made."""
READ = MADE | set(ViewDescription.model_fields)
"""What is read of a bundle of a view."""
OPTIONAL = {"architecture.scores"}
"""Entries that came later, and have a default for older bundles."""


def sections(stated: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the place of each entry that counts, what holds it, and its key."""
    for key, value in stated.items():
        if key not in MADE:
            inside = value if isinstance(value, dict) else {key: value}
            holder = value if isinstance(value, dict) else stated
            yield from (
                (key if holder is stated else f"{key}.{name}", holder, name) for name in inside
            )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_entry_is_checked_though_the_hashes_fit(tmp_path, kind):
    """One that is missing would be guessed, and one that is not known ignored."""
    folder = shutil.copytree(kind, tmp_path / "agent")
    path, whole = folder / "agent.json", json.loads((kind / "agent.json").read_text())
    where = Scenario.model_validate(WHERE[kind.name]) if kind.name in WHERE else None
    if where is not None:
        whole = {k: v for k, v in up_to_date(whole).items() if k in READ}

    def refused(place: str, change: Callable[[dict[str, Any], str], Any]) -> None:
        stated = copy.deepcopy(whole)
        change(*{where: (holder, key) for where, holder, key in sections(stated)}[place])
        path.write_text(json.dumps(stated))
        hash_bundle(folder)
        with pytest.raises((RunError, ScenarioError)) as caught:
            load_agent(folder, where).reset(INFO, np.random.default_rng(0))
        named = {place.partition(".")[0], place.rpartition(".")[2].removesuffix("_arguments")}
        sized = place.endswith("_units")  # the weights that do not fit are named
        assert sized or any(name in str(caught.value) for name in named), (place, caught.value)

    for place, *_ in [*sections(whole)]:
        for wrong in ("x", -1, {"x": 1}, [{}]):
            refused(place, lambda holder, key, wrong=wrong: holder.update({key: wrong}))
        if place not in OPTIONAL and not place.startswith(("requires.", "view.")):
            refused(place, lambda holder, key: holder.pop(key))
        if "." in place and not place.startswith("observation"):
            refused(place, lambda holder, key: holder.update({f"{key}_": 1}))


@pytest.mark.parametrize(("key", "value"), [("choose", "best"), ("patience", 0), ("patients", 3)])
def test_arguments_that_are_none_are_refused(tmp_path, scenario, key, value):
    with pytest.raises(ScenarioError, match=key):
        simulate(scenario(bundle(tmp_path / "a"), **{key: value}))


def test_a_job_beyond_the_horizon_is_told(tmp_path, scenario):
    """It fits at no step ahead: without a word the run would never end."""
    made = scenario(bundle(tmp_path / "a"))
    (tmp_path / "jobs.csv").write_text(f"{HEADER}\n1,0,8,1,1\n")
    with pytest.raises(PolicyError, match="horizon"):
        simulate(made)


def test_a_run_can_be_audited_and_names_the_bundles_files(tmp_path, scenario):
    agent = bundle(tmp_path / "mine")
    run = simulate(scenario(agent), output=tmp_path / "run")
    names = {Path(entry["path"]).name for entry in run.info["inputs"]}
    assert {"agent.json", "weights.safetensors"} <= names
    assert verify_run(tmp_path / "run").ok
    assert run.policy == "mine"
    (agent / "weights.safetensors").write_bytes(b"other")
    assert not verify_run(tmp_path / "run", inputs=[tmp_path]).ok


def test_a_training_stands_for_its_agent(tmp_path, scenario):
    bundle(tmp_path / "trained" / "agent")
    run = simulate(scenario(tmp_path / "trained"))
    assert run.info["scenario"]["policy"]["agent"] == str(tmp_path / "trained" / "agent")
    assert run.policy == "trained"


def test_a_folder_that_is_no_agent_is_told(tmp_path, scenario):
    with pytest.raises(ScenarioError, match=r"policy.agent: "):
        simulate(scenario(tmp_path))
