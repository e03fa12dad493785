"""What the agents of 110 % withhold (figure 7): jobs that would fit, while a step passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
import torch

from simkit.arrays import stream
from simkit.experiment import carry_out, prepare
from simkit.learners.common.torch_training import load_weights, one_thread
from simkit.learners.games.job_sets import NumberedSlots
from simkit.learners.lockstep.job_sources import SlotJobs
from simkit.learners.networks.build import build
from simkit.learners.networks.distributions import masked_log_softmax, sample
from simkit.learners.studies.deeprm.judge import HEURISTICS
from simkit.learners.studies.deeprm.trainings import Agents, scenario_at, trained_at
from simkit.learners.studies.results import long
from simkit.learners.studies.trainings import KeptTraining, kept_table
from simkit.scenario import Scenario
from simkit.training import Workplace
from simkit.training.held_out import applied, held_out

WATCHED: Final = 110
"""The load of the agents in the paper, in percent; of those that there are, the nearest."""
BEST_TETRIS: Final = "Tetris 0.0005"
PLAYED: Final = "withholding"
"""The case of all steps; those of the jobs are named after their lengths."""


def of_length(steps: object) -> str:
    """Return the case of the jobs of a length."""
    return f"jobs of {steps}"


def watch(place: Workplace, papers: Sequence[Agents], sets: int) -> pl.DataFrame:
    """Return rows of the long table for the original's sets; kept.

    Of `PLAYED` ``steps`` and ``withholding_steps``, in which a job in a slot would have fit at once
    but a step passed; of each length ``jobs``, ``withheld_jobs``, withheld in some step, and
    ``slowdown_sum``, the last also under Tetris, which starts whatever fits.
    """
    agents = min(
        (one for one in papers if one.arm == trained_at(one.load)),
        key=lambda one: abs(one.load - WATCHED),
    )

    def play() -> pl.DataFrame:
        parts = [_by_length(BEST_TETRIS, None, _played_by(BEST_TETRIS, agents.load, sets))]
        for seed, one in enumerate(agents.kept):
            steps, jobs = _watched(one, seed, sets)
            sums = steps.with_row_index("item")
            parts += [
                long(sums, steps.columns, arm=agents.arm, case=PLAYED, seed=seed),
                _by_length(agents.arm, seed, jobs),
            ]
        return pl.concat(parts)

    key = [agents.arm, sets, *(one.digest for one in agents.kept)]
    return kept_table(place, "withheld", key, play)


def _by_length(arm: str, seed: int | None, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the sums of the jobs of each set and length."""
    sums = jobs.with_columns(jobs=1).group_by("item", "length", maintain_order=True).sum()
    metrics = [name for name in sums.columns if name not in ("item", "length")]
    case = pl.format(of_length("{}"), "length")
    return long(sums, metrics, arm=arm, case=case, seed=seed).sort("case", "item", "metric")


def _watched(kept: KeptTraining, seed: int, sets: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Play held-out sets with an agent; return a row for each set, and one for each job."""
    source = SlotJobs(kept.scenario, "the learner deeprm")
    weights = kept.agent.weights
    layout = NumberedSlots(source.model, "none", "deeprm-image")
    network = build(layout.scorer(len(weights["layers.0.bias"])))
    load_weights(network, weights)
    games = layout.games(source.held_out(sets), 1, "slowdown", 2000)
    game = games.lockstep
    rng = stream(seed, "deeprm.withheld")
    idle, held = np.zeros(len(game.finish), np.int64), np.zeros(game.finish.shape, np.bool_)
    while len(game.active):
        fits, job = game.fits_now(), game.jobs_in_slots()
        before, active = game.steps.copy(), game.active
        with one_thread(), torch.inference_mode():
            logits = network(torch.from_numpy(games.observe()))
        games.step(sample(masked_log_softmax(logits), rng))
        passed = game.steps[active] > before[active]
        idle[active] += fits.any(axis=1) & passed
        row, slot = np.nonzero(fits & passed[:, None])
        held[active[row], job[row, slot]] = True
    jobs = game.sets
    # a job that has not ended counts with its slowdown so far
    finish = np.where(game.finish >= 0, game.finish, jobs.enter[:, :1] + game.steps[:, None])
    slowdown = (finish - jobs.enter) / np.maximum(jobs.length, 1)
    there = jobs.there
    return pl.DataFrame({"steps": game.steps, "withholding_steps": idle}), pl.DataFrame({
        "item": np.nonzero(there)[0], "length": jobs.length[there],
        "slowdown_sum": slowdown[there], "withheld_jobs": held[there].astype(np.int64),
    })  # fmt: skip


def _played_by(label: str, load: int, sets: int) -> pl.DataFrame:
    """Return a row for every job under a heuristic, in the engine."""
    scenario, parts = scenario_at(load), []
    data = {**scenario.model_dump(mode="json"), "policy": HEURISTICS[label]}
    for number, overrides in enumerate(held_out(scenario, sets=sets)):
        jobs = carry_out(prepare(Scenario.model_validate(applied(data, overrides)))).jobs
        length, turnaround = pl.col("run_time_s"), pl.col("turnaround_time_s")
        parts.append(jobs.select(
            pl.lit(number).alias("item"), length.round().cast(pl.Int64).alias("length"),
            (turnaround / length).alias("slowdown_sum"),
        ))  # fmt: skip
    return pl.concat(parts)
