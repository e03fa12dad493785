"""Learners that play any scenario: each kind trains them, and their agents run as in their games."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from small_scenarios import CLASSES, DEEPRM, READY, SOFIA, WIND
from trainings import weights

from simkit import plugins, simulate
from simkit.arrays import stream
from simkit.errors import ScenarioError
from simkit.learners.common.games import Games
from simkit.learners.games.choice import GamesArguments, games_of
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.games.simulations import SimulatedSource, Slice
from simkit.learners.lockstep.job_sets import JobSets
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.training.evaluate import agent_candidate, evaluate
from simkit.training.held_out import Unseen
from simkit.training.train import train
from simkit.verify import verify_run

JOBS = 8
"""Of a slice that is simulated."""


class Kind(NamedTuple):
    """A scenario as it is trained on, and what makes a run of it replay one of the slices."""

    trained: Mapping[str, Any]
    first: Mapping[str, Any]
    arguments: Mapping[str, Any]


def of_log(name: str, **arguments: int) -> Kind:
    """Return a bundled scenario that replays a sample of a log."""
    stated = load_scenario(name, single=True).model_dump(mode="json", exclude={"policy"})
    window = {"workload": {**stated["workload"], "window": {"jobs": f"0..{JOBS - 1}"}}}
    return Kind(stated, window, {"jobs": JOBS, **arguments})


GREEN = {
    "workload": {"type": "lublin", "jobs": JOBS, "processors": 256, "offered_load": 2.0},
    "power": {
        "machines": {"idle_w": 60, "full_w": 200},
        "sources": {"solar": {"signal": {"type": "gleamm-sample", "part": "solar"}, "times_load": 1}},
        "align": {"offset": 0},
        "battery": {"capacity_kwh": 20},
        "supply": {"limit": "power", "running": "suspend"},
        "forecast": {"type": "noisy", "horizon": "24h", "step": "1h"},
    },
}  # fmt: skip
AHEAD = {"starts": "ahead", "job_sets": 100}
KINDS: dict[str, Kind] = {
    "log": of_log("quickstart", job_sets=24),  # few of which have to wait
    "cloud": of_log("cloud-quickstart"),
    "green": Kind(GREEN, {}, {"jobs": JOBS}),
    "rare": Kind(READY | {"workload": READY["workload"] | {"jobs": JOBS}}, {}, {"hours": 2000}),
    "deeprm": Kind(DEEPRM, {}, AHEAD),
    "deeprm image": Kind(DEEPRM, {}, AHEAD | {"observation": "deeprm-image"}),
    "deeprm flat": Kind(DEEPRM, {}, AHEAD | {"observation": "deeprm-compact"}),
    "sofia": Kind(SOFIA, {}, {"starts": "ahead"}),
    "sofia columns": Kind(SOFIA, {}, {"starts": "ahead", "observation": "sofia-shares"}),
    "schedqrm": Kind(CLASSES, {}, {"starts": "ahead"}),
}
SMALL: dict[str, dict[str, Any]] = {
    "actor-critic": {"rollouts": 2, "batch": 8},
    "dqn": {"batch": 4, "decisions_per_update": 8, "replay": 200, "rollouts": 2},
    "evolution": {"candidates": 4},
    "ppo": {"rollouts": 2},
    "reinforce": {"rollouts": 2},
}
"""Learner → its own arguments at their smallest."""


def begin(learner: str, kind: Kind) -> Any:
    few = {"iterations": 1, "job_sets": 2, "held_out_sets": 2, "hidden": 8, "max_decisions": 2_000}
    arguments = {**few, **SMALL[learner], **kind.arguments}
    scenario = Scenario.model_validate({**kind.trained, "seed": 3})
    return plugins.find("simkit.learners", learner)(scenario, arguments, seed=0)


def play_greedily(made: Any, games: Games) -> None:
    scores = scores_of(made)
    while len(games.active):
        best = np.where(games.mask(), scores(games.observe()), -np.inf)
        games.step(best.argmax(axis=1))


def scores_of(made: Any) -> Callable[[Any], Any]:
    """Return a function: observations → scores of the actions by a training's agent."""
    if made.learner == "evolution":
        return made.problem.genes.network(made.search.mean).logits  # type: ignore[no-any-return]
    network = made.network
    network = getattr(network, "actor", getattr(network, "advantages", network))

    def scores(seen: Any) -> Any:
        with torch.inference_mode():
            return network(torch.from_numpy(seen)).numpy()

    return scores


def starts_in_games(made: Any) -> list[float | None]:
    """Return when tasks of the scenario's own seed, or of a log's first window, start."""
    scenario, source = made.scenario, getattr(made, "problem", made).source
    if isinstance(source, ReadySource):
        games = source.games(source.streams([scenario.seed]))
        play_greedily(made, games)
        return [None if hour < 0 else 3600.0 * hour for hour in games.start[0].tolist()]
    if isinstance(source, SimulatedSource):
        one = Slice(scenario.seed, None if source.slices.trained is None else 0)
        games = source.simulations([one])
        play_greedily(made, games)
        return starts(games.plays[0].episode.records())
    sets = JobSets(*scenario.workload.draw_sets(stream(scenario.seed, "workload"), 1))
    games = source.games(sets)
    play_greedily(made, games)
    lockstep = games.lockstep
    found: list[float | None] = (lockstep.start[0] - sets.enter[0, 0])[sets.there[0]].tolist()
    return found


def starts(run: Any) -> list[float | None]:
    begin = run.jobs["submit_time_s"].min()
    started = run.tasks.sort("job_id", "task_id")["start_time_s"] - begin
    found: list[float | None] = started.to_list()
    return found


@pytest.mark.parametrize(
    "kind", [k if k != "cloud" else pytest.param(k, marks=pytest.mark.thorough) for k in KINDS]
)
@pytest.mark.parametrize(
    "learner",
    [n if n == "ppo" else pytest.param(n, marks=pytest.mark.thorough) for n in SMALL],
)
def test_its_agent_runs_as_in_its_games(learner: str, kind: str, tmp_path: Path) -> None:
    if (learner, kind) == ("evolution", "deeprm image"):
        with pytest.raises(ScenarioError, match=r"learn\.arguments\.observation: "):
            begin(learner, KINDS[kind])
        return
    made = begin(learner, KINDS[kind])
    before = weights(made)
    logged = made.step()
    assert np.isfinite([*logged.values()]).all(), logged
    assert weights(made) != before
    made.write_agent(tmp_path / "agent", {})
    policy: dict[str, Any] = {"agent": str(tmp_path / "agent")}
    if kind.startswith(("deeprm", "sofia")) and learner != "dqn":
        policy["args"] = {"choose": "greedy"}
    stated = {**KINDS[kind].trained, **KINDS[kind].first, "seed": 3, "policy": policy}
    found = starts(simulate(stated))
    assert found == pytest.approx(starts_in_games(made))


@pytest.mark.parametrize(
    ("stated", "changes"),
    [
        (DEEPRM, {"cluster": {"machines": [{"count": 2, "cpu": 10, "mem": 10}]}}),
        (DEEPRM, {"scheduling": {}, "admission": {}}),
        (DEEPRM, {"estimates": "user-mean"}),
        (READY, {"power": WIND | {"battery": {"capacity_kwh": 20}}}),
        (READY, {"estimates": "requested"}),
    ],
)
def test_what_lock_step_does_not_cover_is_simulated(stated: Any, changes: Any) -> None:
    chosen = GamesArguments()
    usual = games_of(Scenario.model_validate(stated), chosen, "ppo", 2)
    assert not isinstance(usual, SimulatedSource)
    source = games_of(Scenario.model_validate(stated | changes), chosen, "ppo", 2)
    assert isinstance(source, SimulatedSource)
    games = source.games(source.draw(np.random.default_rng(0), 1))
    assert games.step(games.mask().argmax(axis=1)).shape == (1,)


BUNDLED = (
    "quickstart", "sdsc-sp2", "kth-sp2", "lublin-256", "theta-2022", "cloud-quickstart",
    "alibaba-2017", "green-quickstart", "green-carbon", "deeprm", "sofia", "schedqrm", "rare",
    "deepjs",
)  # fmt: skip
FIFTY = {"machines": [{"count": 50, "cpu": 64, "mem": 1.0}]}
"""The cluster of alibaba-2017: a part of its machines."""


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("learner", SMALL)
def test_it_trains_on_a_bundled_scenario_with_no_other_key(
    learner: str, name: str, tmp_path: Path
) -> None:
    learn = {"learner": learner, "iterations": 1}
    laid_over = {"learn": learn} | ({"cluster": FIFTY} if name == "alibaba-2017" else {})
    scenario = load_scenario(name, single=True, overrides=laid_over)
    done = train(scenario, tmp_path / "training")
    agent = agent_candidate(str(done.folder))
    part = (
        {} if scenario.workload.is_drawn or name == "deepjs" else {"workload.window.jobs": "0..99"}
    )
    simulate(scenario, policy=dict(agent.policy), overrides=part, output=tmp_path / "run")
    assert verify_run(tmp_path / "run").ok
    unseen = Unseen.of_agents(scenario, [done.agent], count=2)
    found = evaluate(scenario, [agent], unseen=unseen, workers=1)
    assert found.sets == 2
    assert found.candidates[0].submitted > 0
