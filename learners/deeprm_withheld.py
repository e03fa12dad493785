"""Where an agent is not work-conserving: steps that pass although a visible job would have fitted.

Figure 7 of the DeepRM paper counts them at 110 % load, how long the jobs are that are withheld, and
how short and long jobs fare.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simkit.experiment import carry_out, prepare
from simkit.held_out import applied, held_out
from simkit.reproduction import Workplace
from simkit.scenario import Scenario
from simkit.seeds import stream

from .bundle import read_bundle
from .deeprm_model import JobSource, slotted_model
from .deeprm_study import HEURISTICS, Setting, Task, judged_scenario, scenario_of
from .input_layers import make_input_layer
from .lockstep import Lockstep
from .policy_network import PolicyNetwork
from .rollouts import chooser

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BEST_TETRIS = "Tetris 0.0005"


@dataclass(frozen=True)
class Withheld:
    """What the agents of a load withheld on the held-out sets, all seeds together."""

    load: int
    steps: int
    """Steps that passed."""
    withheld_steps: int
    """Steps that passed although a job in a slot would have fitted at once."""
    lengths: dict[int, int]
    """Length → jobs of it that were withheld in some step."""
    present: dict[int, int]
    """Length → jobs of it in all."""
    slowdown: dict[int, float]
    """Length → mean slowdown of the agents' jobs."""
    slowdown_of_tetris: dict[int, float]
    """The same under Tetris, which starts whatever fits."""


def withheld(place: Workplace, setting: Setting) -> Withheld:
    """Watch the agents trained at 110 % (or the nearest trained load) on the held-out sets."""
    load = min(setting.trained, key=lambda trained: abs(trained - 110))
    steps = withheld_steps = 0
    lengths: Counter[int] = Counter()
    length, slowdown = [], []
    for seed in range(setting.seeds):
        game, idle, held = _watched(place, Task(load, seed), setting)
        sets = game.job_sets
        steps, withheld_steps = steps + int(game.steps.sum()), withheld_steps + idle
        lengths.update(sets.length[held].tolist())
        # what has not ended counts with its slowdown so far
        last = sets.enter[:, :1] + game.steps[:, None]
        finish = np.where(game.finish >= 0, game.finish, last)
        length.append(sets.length[sets.there])
        slowdown.append(((finish - sets.enter) / np.maximum(sets.length, 1))[sets.there])
    jobs, slow = np.concatenate(length), np.concatenate(slowdown)
    return Withheld(
        load, steps, withheld_steps, dict(lengths), dict(Counter(jobs.tolist())),
        _by_length(jobs, slow), _by_length(*_under(BEST_TETRIS, load, setting)),
    )  # fmt: skip


def _watched(place: Workplace, task: Task, setting: Setting) -> tuple[Lockstep, int, Bools]:
    """Play the held-out sets with an agent.

    Returns the game, the steps in which something was withheld, and (S, J) which jobs ever were.
    """
    scenario = scenario_of(task, setting)
    model = slotted_model(scenario, horizon=20, memory=10)
    game = Lockstep(model, JobSource(scenario).unseen(setting.held_out), limit=2000)
    weights = read_bundle(place.work / "trainings" / task.name / "agent").weights
    network = PolicyNetwork(make_input_layer("deeprm-image", model)[0], dict(weights))
    decide = chooser(network, game, stream(task.seed, "deeprm.withheld"))
    idle, held = 0, np.zeros(game.finish.shape, np.bool_)
    while len(game.active):
        could, job = game.fits_now(), game.jobs_in_slots()
        actions, before, games = decide(game.view()), game.steps.copy(), game.active
        game.step(actions)
        went_on = game.steps[games] > before[games]
        idle += int((could.any(axis=1) & went_on).sum())
        row, slot = np.nonzero(could & went_on[:, None])
        held[games[row], job[row, slot]] = True
    return game, idle, held


def _under(label: str, load: int, setting: Setting) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Return lengths and slowdowns of all jobs of the held-out sets under a heuristic."""
    scenario = judged_scenario(load)
    data = {**scenario.model_dump(mode="json"), "policy": HEURISTICS[label]}
    lengths, slowdowns = [], []
    for overrides in held_out(scenario, sets=setting.held_out):
        jobs = carry_out(prepare(Scenario.model_validate(applied(data, overrides)))).jobs
        lengths.append(jobs["run_time_s"].to_numpy())
        slowdowns.append((jobs["turnaround_time_s"] / jobs["run_time_s"]).to_numpy())
    return np.rint(np.concatenate(lengths)).astype(np.int64), np.concatenate(slowdowns)


def _by_length(length: Ints, values: npt.NDArray[np.float64]) -> dict[int, float]:
    return {int(n): float(values[length == n].mean()) for n in np.unique(length)}
