"""The reference of the learners: what `learn.arguments` may say, from each learner's model."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, get_type_hints

from generate_scenario import type_words
from pydantic import BaseModel

from simkit.learners.recipes import Recipe
from simkit.plugins import find, names
from simkit.text import attribute_docstrings

UNITS = {
    "iterations": "iterations", "job_sets": "job sets", "rollouts": "episodes",
    "held_out_sets": "job sets", "horizon": "steps", "memory": "steps", "last_step": "step",
    "max_decisions": "decisions", "backlog_shown": "tasks", "kl": "nats", "batch": "decisions",
    "warm_start": "rounds", "sets_per_mean": "slices", "patience": "steps",
    "epochs": "passes", "replay": "transitions",
    "decisions_per_update": "decisions", "target_every": "updates", "products": "products",
    "games": "games", "hours": "steps", "decisions": "decisions",
    "cost_limit": "jobs", "max_start": "steps", "clone": "iterations", "offline": "iterations",
    "warm_up": "iterations", "updates": "steps", "watched": "games",
}  # fmt: skip
"""Argument → what it counts; all others have no unit."""


def learner_arguments() -> dict[str, Callable[[], str]]:
    """Return the name of each learner's part of a page → the function that makes the table."""
    return {f"{name}_arguments": partial(_arguments, name) for name in names("simkit.learners")}


def _arguments(learner: str) -> str:
    """Return the table of a learner's arguments, or of those in which a recipe differs."""
    begin = find("simkit.learners", learner)
    if not isinstance(begin, Recipe):
        return _table(_model(begin))
    algorithm = begin.algorithm
    model = _model(find("simkit.learners", algorithm), begin.defaults.get("scorer", "network"))
    if "scorer" in begin.defaults:  # it has arguments of its own
        text = f"The algorithm is [`{algorithm}`](#{algorithm}) with `scorer: "
        return f"{text}{begin.defaults['scorer']}`:\n\n{_table(model)}"
    fields = model.model_fields
    rows = [
        f"| `{name}` | `{_shown(value)}` | `{_shown(fields[name].default)}` |"
        for name, value in begin.defaults.items()
    ]
    text = f"The algorithm is [`{algorithm}`](#{algorithm}); defaults that differ from its own:"
    head = [text, "", f"| argument | default | of `{algorithm}` |", "|---|---|---|"]
    return "\n".join([*head, *rows])


def _model(begin: Callable[..., Any], scorer: str = "network") -> type[BaseModel]:
    """Return the one model of arguments beside a learner's `begin`, or that of a scorer."""
    place = import_module(begin.__module__)
    if problems := getattr(place, "PROBLEMS", None):
        return problems[scorer].arguments  # type: ignore[no-any-return]
    (model,) = (
        each
        for name, each in vars(place).items()
        if name.endswith("Arguments") and each.__module__ == place.__name__
    )
    return model  # type: ignore[no-any-return]


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
    if value is None or isinstance(value, bool | tuple):
        return json.dumps(value)  # as in YAML
    return f"{value:g}" if isinstance(value, float) else str(value)
