"""The numbers of the DeepRM page: gains over heuristics, and what the agents withhold.

Gains have intervals, and all jobs count. Figure 7 of the paper counts, at 110 % load, the steps
that pass although a visible job would fit (the agent is not work-conserving), how long the withheld
jobs are, and how short and long jobs fare.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from simkit.arrays import Bools, Floats, Ints, stream
from simkit.experiment import carry_out, prepare
from simkit.learners.common.bundle import read_bundle
from simkit.learners.common.torch_training import load_weights, one_thread
from simkit.learners.games.job_sets import NumberedSlots
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sources import SlotJobs
from simkit.learners.networks.build import build
from simkit.learners.networks.distributions import masked_log_softmax, sample
from simkit.learners.reproductions.deeprm.study import (
    HEURISTICS,
    RESERVING,
    WITHHOLDING,
    DeepRMRun,
    DeepRMSetting,
    agents_at,
    judged_scenario,
    scenario_of,
)
from simkit.scenario import Scenario
from simkit.training import Workplace
from simkit.training.held_out import applied, held_out

RESAMPLES = 4000
OPPONENTS = tuple(label for label in HEURISTICS if label != "Random")
"""The paper's baselines: SJF, Packer and Tetris, here with every knob."""


@dataclass(frozen=True)
class RatioEstimate:
    """A ratio with its 95 % interval, by resampling job sets."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class AtLoad:
    """All candidates at one load; means are over all jobs of all held-out sets."""

    load: int
    means: dict[str, float]
    """Label → mean; each seed of the agents has its own label."""
    unfinished: dict[str, int]
    by_training: dict[int, RatioEstimate]
    """Load of the training → mean over its agents' seeds."""
    trained: int
    """Training load of the agents that are best at this load."""
    agents: tuple[str, ...]
    """Labels of these agents, seed by seed."""
    agent: RatioEstimate
    """Their mean over seeds."""
    best: str
    """The best of SJF, Packer and Tetris with any knob."""
    gain: RatioEstimate
    """1 − agents' mean / best's mean, paired by job set."""
    best_reserving: str
    gain_over_reserving: RatioEstimate
    best_withholding: str
    gain_over_withholding: RatioEstimate

    @property
    def best_tetris(self) -> str:
        """Tetris with its best knob, without reservations."""
        knobs = [label for label in OPPONENTS if label.startswith("Tetris") and label in self.means]
        return min(knobs, key=self.means.__getitem__)


def at_load(
    judged: pl.DataFrame, load: int, setting: DeepRMSetting, metric: str = "slowdown"
) -> AtLoad:
    """Return how all candidates fare at a load."""
    objective = "slowdown" if metric == "slowdown" else "completion"
    here = judged.filter((judged["load"] == load) & (judged["metric"] == metric))
    sums, jobs, unfinished = {}, {}, {}
    for (label,), rows in here.group_by("label", maintain_order=True):
        ordered = rows.sort("set")
        sums[str(label)] = ordered["sum"].to_numpy().astype(np.float64)
        jobs[str(label)] = ordered["jobs"].to_numpy().astype(np.float64)
        unfinished[str(label)] = int(ordered["unfinished"].sum())
    means = {label: float(sums[label].sum() / jobs[label].sum()) for label in sums}
    groups: dict[int, list[str]] = {}
    for task in agents_at(load, setting):
        if task.objective == objective and task.fresh and task.name in means:
            groups.setdefault(task.load, []).append(task.name)
    count = jobs["SJF"]
    totals = {at: np.mean([sums[name] for name in names], axis=0) for at, names in groups.items()}
    trained = min(totals, key=lambda at: float(totals[at].sum()))
    together = totals[trained]
    best, reserving, withholding = (
        min((label for label in labels if label in means), key=means.__getitem__)
        for labels in (OPPONENTS, tuple(RESERVING), tuple(WITHHOLDING))
    )
    return AtLoad(
        load, means, unfinished,
        {at: estimate_ratio(total, count, 0.0, 1.0) for at, total in sorted(totals.items())},
        trained, tuple(groups[trained]), estimate_ratio(together, count, 0.0, 1.0),
        best, estimate_ratio(together, sums[best], 1.0, -1.0),
        reserving, estimate_ratio(together, sums[reserving], 1.0, -1.0),
        withholding, estimate_ratio(together, sums[withholding], 1.0, -1.0),
    )  # fmt: skip


def estimate_ratio(above: Floats, below: Floats, offset: float, sign: float) -> RatioEstimate:
    """Return offset + sign · Σ above / Σ below, with the interval of resampled job sets."""
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1,)))
    drawn = rng.integers(len(above), size=(RESAMPLES, len(above)))
    values = offset + sign * above[drawn].sum(axis=1) / below[drawn].sum(axis=1)
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return RatioEstimate(float(offset + sign * above.sum() / below.sum()), low, high)


def first_below(curve: pl.DataFrame, level: float) -> int | None:
    """Return the first iteration whose held-out slowdown, averaged over seeds, is below a level."""
    looks = curve.select("iteration", "held_out_slowdown").drop_nulls()
    looks = looks.group_by("iteration").mean().sort("iteration")
    below = looks.filter(looks["held_out_slowdown"] < level)
    return int(below["iteration"][0]) if len(below) else None


BEST_TETRIS = "Tetris 0.0005"


@dataclass(frozen=True)
class Withheld:
    """The jobs that the agents of a load withheld on the held-out sets, over all seeds."""

    load: int
    steps: int
    """All steps."""
    withheld_steps: int
    """Steps that passed although a job in a slot would have fit at once."""
    lengths: dict[int, int]
    """Length → number of such jobs that were withheld in some step."""
    present: dict[int, int]
    """Length → number of such jobs."""
    slowdown: dict[int, float]
    """Length → mean slowdown of the agents' jobs."""
    slowdown_of_tetris: dict[int, float]
    """The same under Tetris, which starts whatever fits."""


def withheld(place: Workplace, setting: DeepRMSetting) -> Withheld:
    """Watch the agents trained at 110 % (or the nearest trained load) on the held-out sets."""
    load = min(setting.trained, key=lambda trained: abs(trained - 110))
    steps = withheld_steps = 0
    lengths: Counter[int] = Counter()
    length, slowdown = [], []
    for seed in range(setting.seeds):
        game, idle, held = _watched(place, DeepRMRun(load, seed), setting)
        sets = game.sets
        steps, withheld_steps = steps + int(game.steps.sum()), withheld_steps + idle
        lengths.update(sets.length[held].tolist())
        # a job that has not ended counts with its slowdown so far
        last = sets.enter[:, :1] + game.steps[:, None]
        finish = np.where(game.finish >= 0, game.finish, last)
        length.append(sets.length[sets.there])
        slowdown.append(((finish - sets.enter) / np.maximum(sets.length, 1))[sets.there])
    jobs, slow = np.concatenate(length), np.concatenate(slowdown)
    return Withheld(
        load, steps, withheld_steps, dict(lengths), dict(Counter(jobs.tolist())),
        _by_length(jobs, slow), _by_length(*_played_by(BEST_TETRIS, load, setting)),
    )  # fmt: skip


def _watched(
    place: Workplace, task: DeepRMRun, setting: DeepRMSetting
) -> tuple[Lockstep, int, Bools]:
    """Play the held-out sets with an agent.

    Returns the game, the number of steps that withheld a job, and (S, J) the jobs ever withheld.
    """
    scenario = scenario_of(task, setting)
    source = SlotJobs(scenario, "the learner deeprm")
    weights = read_bundle(place.work / "trainings" / task.name / "agent").weights
    layout = NumberedSlots(source.model, "none", "deeprm-image")
    network = build(layout.scorer(len(weights["layers.0.bias"])))
    load_weights(network, weights)
    games = layout.games(source.held_out(setting.held_out), 1, "slowdown", 2000)
    game = games.lockstep
    rng = stream(task.seed, "deeprm.withheld")
    idle, held = 0, np.zeros(game.finish.shape, np.bool_)
    while len(game.active):
        fits, job = game.fits_now(), game.jobs_in_slots()
        before, active = game.steps.copy(), game.active
        with one_thread(), torch.inference_mode():
            logits = network(torch.from_numpy(games.observe()))
        games.step(sample(masked_log_softmax(logits), rng))
        passed = game.steps[active] > before[active]
        idle += int((fits.any(axis=1) & passed).sum())
        row, slot = np.nonzero(fits & passed[:, None])
        held[active[row], job[row, slot]] = True
    return game, idle, held


def _played_by(label: str, load: int, setting: DeepRMSetting) -> tuple[Ints, Floats]:
    """Return lengths and slowdowns of all jobs in the held-out sets under a heuristic."""
    scenario = judged_scenario(load)
    data = {**scenario.model_dump(mode="json"), "policy": HEURISTICS[label]}
    lengths, slowdowns = [], []
    for overrides in held_out(scenario, sets=setting.held_out):
        jobs = carry_out(prepare(Scenario.model_validate(applied(data, overrides)))).jobs
        lengths.append(jobs["run_time_s"].to_numpy())
        slowdowns.append((jobs["turnaround_time_s"] / jobs["run_time_s"]).to_numpy())
    return np.rint(np.concatenate(lengths)).astype(np.int64), np.concatenate(slowdowns)


def _by_length(length: Ints, values: Floats) -> dict[int, float]:
    return {int(n): float(values[length == n].mean()) for n in np.unique(length)}
