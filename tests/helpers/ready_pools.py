"""What the tests of ready pools' learners share: a small scenario, and how an agent is followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from small_scenarios import READY

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.experiment import Experiment
from simkit.gym.episodes import Episodes, Nowhere
from simkit.learners.agent import load_agent
from simkit.learners.common.bundle import ViewDescription, read_bundle
from simkit.learners.networks.inference import plain_network
from simkit.policy import Place
from simkit.scenario import Scenario


def ready_scenario(**changes: Any) -> Scenario:
    """Return a small pool in which late jobs leave, with some sections changed."""
    return Scenario.model_validate({**READY, **changes})


def check_acts_as_in_lockstep(made: Any, where: Scenario, folder: Path) -> None:
    """Assert that a training's agent starts the same jobs in the simulation as in lock-step."""
    made.write_agent(folder, {})
    games = made.source.games(made.source.streams([5]))
    bundle = read_bundle(folder)
    network = plain_network(ViewDescription.read(bundle.description).architecture, bundle.weights)
    while len(games.active):
        scores = network.logits(games.observe())
        games.step(np.where(games.mask(), scores, -np.inf).argmax(axis=1))
    until = int(games.steps[0])  # then the game was over
    mine = {job: hour for job, hour in enumerate(games.start[0].tolist()) if 0 <= hour < until}
    assert hours_of_starts(load_agent(folder, where), Episodes(where).prepare(5), until) == mine


def hours_of_starts(agent: Any, experiment: Experiment, until: int) -> dict[int, int]:
    """Run an agent for so many hours; return job → hour in which it first started."""
    load, cluster, found = experiment.trace.workload, experiment.cluster, dict[int, int]()
    simulation = Simulation(
        load, cluster, Recorder(load, cluster.resources, Nowhere()), rules=experiment.scenario,
        predictor=experiment.predictor, site=experiment.site,
    )  # fmt: skip
    agent.reset(simulation.info, np.random.default_rng(0))
    for state in simulation.decisions():
        hour = round((state.now - float(load.submit_time_s[0])) / 3600)
        if hour >= until:
            break
        for action in agent.schedule(state):
            simulation.apply(action)
            if isinstance(action, Place):
                begin = state.now if action.start is None else action.start
                ahead = round((begin - state.now) / 3600)
                if hour + ahead < until:
                    found[action.task.job_index] = hour + ahead
    return found
