"""The reference of the learners: what `learn.arguments` may say, from each learner's model."""

from __future__ import annotations

from typing import Any, get_type_hints

from generate_scenario import type_words
from pydantic import BaseModel

from simkit.text import attribute_docstrings

UNITS = {
    "iterations": "iterations", "job_sets": "job sets", "rollouts": "episodes",
    "held_out_sets": "job sets", "horizon": "steps", "memory": "steps", "last_step": "step",
    "max_decisions": "decisions", "backlog_shown": "tasks", "kl": "nats", "batch": "decisions",
    "warm_start_rounds": "rounds", "epochs": "passes", "replay": "transitions",
    "decisions_per_update": "decisions", "target_every": "updates", "products": "products",
    "games": "games", "held_out_games": "games", "hours": "steps", "decisions": "decisions",
    "cost_limit": "jobs", "max_start": "steps", "watched": "games",
}  # fmt: skip
"""Argument → what it counts; all others have no unit."""


def deeprm_arguments() -> str:
    """Return the table of the learner deeprm's arguments."""
    from simkit.learners.deeprm import DeepRMArguments

    return _table(DeepRMArguments)


def sofia_arguments() -> str:
    """Return the table of the learner sofia's arguments."""
    from simkit.learners.sofia import SofiaArguments

    return _table(SofiaArguments)


def ppo_arguments() -> str:
    """Return the table of the learner ppo's arguments."""
    from simkit.learners.ppo import PPOArguments

    return _table(PPOArguments)


def cocorl_arguments() -> str:
    """Return the table of the learner cocorl's arguments."""
    from simkit.learners.cocorl import CoCoRLArguments

    return _table(CoCoRLArguments)


def dqn_arguments() -> str:
    """Return the table of the learner dqn's arguments."""
    from simkit.learners.dqn import DQNArguments

    return _table(DQNArguments)


def rlscheduler_arguments() -> str:
    """Return the table of the learner rlscheduler's arguments."""
    from simkit.learners.rlscheduler import RLSchedulerArguments

    return _table(RLSchedulerArguments)


def deepjs_arguments() -> str:
    """Return the table of the learner deepjs's arguments."""
    from simkit.learners.deepjs import DeepJSArguments

    return _table(DeepJSArguments)


def fitness_arguments() -> str:
    """Return the table of the learner fitness's arguments."""
    from simkit.learners.fitness import FitnessArguments

    return _table(FitnessArguments)


def _table(arguments: type[BaseModel]) -> str:
    hints = get_type_hints(arguments, include_extras=True)
    about = attribute_docstrings(arguments)
    rows = [
        f"| `{name}` | {type_words(hints[name])} | {UNITS.get(name, '')} "
        f"| `{_shown(field.default)}` | {' '.join(about.get(name, '').split())} |"
        for name, field in arguments.model_fields.items()
    ]
    head = ["| argument | type | unit | default | meaning |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
