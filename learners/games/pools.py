"""Which simulations are games of a pool as arrays, and what they are then; see `PoolGames`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from simkit.agent.actions import Actions, NextHead, QueueActions
from simkit.agent.encoder import ObservationSchema
from simkit.agent.reward import Reward
from simkit.agent.rewards import (
    BoundedSlowdownReward,
    CompletionTimeReward,
    InSystemReward,
    SlowdownReward,
    WaitReward,
)
from simkit.errors import PluginError, ScenarioError
from simkit.experiment import Experiment
from simkit.learners.pools.games import PoolRules, PoolSlice
from simkit.learners.pools.jobs import PoolJobs
from simkit.machine_code import kernels
from simkit.policy.estimates import Actual, Requested
from simkit.rules import Rules
from simkit.scenario import Scenario

__all__ = ["pool_rules", "pool_slice"]

PAID: Final = (SlowdownReward, BoundedSlowdownReward, CompletionTimeReward, WaitReward)
"""Rewards that are known."""


def pool_rules(
    scenario: Scenario, actions: Actions, schema: ObservationSchema, reward: Reward,
    example: Experiment, *, steps: int, most: int,
) -> PoolRules | None:  # fmt: skip
    """Return the rules of games on a pool; None: simulations play them.

    Args:
        scenario: of the slices.
        actions: what is done, with its usual arguments.
        schema: what is seen.
        reward: what is paid.
        example: one of the slices.
        steps: see `PoolRules`.
        most: decisions after which an episode is cut off.
    """
    known = (
        type(actions) in (QueueActions, NextHead)
        and type(reward) in PAID
        and schema.name == "queue-set"
        and is_pool(scenario, example)
    )
    try:
        kernels("simkit.learners.pools.decisions")
    except PluginError:
        return None
    if not known or pool_slice(example, reward) is None:
        return None
    seen = schema.parameters
    return PoolRules(
        slots=actions.count - 1,
        heads=isinstance(actions, NextHead),
        floor=isinstance(reward, BoundedSlowdownReward),
        waits=isinstance(reward, WaitReward),
        time_scale_s=float(seen["time_scale_s"]),
        count_scale=float(seen["count_scale"]),
        priority=float(example.cluster.partitions[0].priority),
        tau_s=scenario.metrics.tau,
        steps=steps,
        most=most,
    )


def is_pool(scenario: Scenario, example: Experiment) -> bool:
    """Return whether a scenario is one pool that decides at every event by known estimates."""
    cluster, usual = scenario.cluster.model_dump(exclude_defaults=True), Rules()
    return (
        cluster.keys() <= {"processors"}
        and example.cluster.capacity.shape == (1, 1)
        and len(example.cluster.partitions) == 1
        and all(getattr(scenario, key) == getattr(usual, key) for key in Rules.model_fields)
        and type(example.predictor) in (Requested, Actual)
        and scenario.estimates.correction == "none"
        and not scenario.processes
        and scenario.power is None
        and scenario.value is None
    )


def pool_slice(played: Experiment, reward: Reward) -> PoolSlice | None:
    """Return what a slice plays on a pool; None if its jobs are none of a pool."""
    workload = played.trace.workload
    size = int(played.cluster.capacity[0, 0])
    try:
        jobs = PoolJobs.of(workload, size)
    except ScenarioError:
        return None
    if type(played.predictor) is Actual:
        jobs = replace(jobs, requested_s=workload.run_time_s)
    if not len(jobs) or not np.isfinite(jobs.requested_s).all():
        return None
    if isinstance(reward, WaitReward):
        return PoolSlice(jobs, workload.instances, np.full(len(jobs), 1.0 / reward.time_unit_s))
    assert isinstance(reward, InSystemReward)
    return PoolSlice(jobs, workload.instances, reward.costs_per_s(workload))
