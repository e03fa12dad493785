"""The reference of the learners: what `learn.arguments` may say, from each learner's model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
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
    "decisions_per_update": "decisions", "target_every": "updates",
    "games": "games", "hours": "steps", "decisions": "decisions",
    "cost_limit": "jobs", "max_start": "steps", "clone": "iterations", "offline": "iterations",
    "warm_up": "iterations", "updates": "steps", "watched": "games",
}  # fmt: skip
"""Argument → what it counts; all others have no unit."""
LOCKSTEP = "job sets in lock-step"
WAYS = {
    "SLOTS": "numbered slots in lock-step", "USUAL": "simulations, and episodes of a ready pool",
}  # fmt: skip
"""Name of a learner's defaults by way to play → the way; the model's own are for `LOCKSTEP`."""
WITHOUT_END = "games of a ready pool without an end"


def learner_arguments() -> dict[str, Callable[[], str]]:
    """Return the name of each learner's part of a page → the function that makes the table."""
    return {f"{name}_arguments": partial(_arguments, name) for name in names("simkit.learners")}


def _arguments(learner: str) -> str:
    """Return the table of a learner's arguments, or of those in which a recipe differs."""
    begin = find("simkit.learners", learner)
    if not isinstance(begin, Recipe):
        return "\n\n".join([_table(_model(begin)), *_by_way_to_play(begin)])
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


def _by_way_to_play(begin: Callable[..., Any]) -> Iterator[str]:
    """Yield the table of the defaults that depend on what is played, if there are any."""
    place, model = _place(begin), _model(begin)
    defaults: dict[str, Mapping[str, Any]] = {
        way: vars(place)[name] for name, way in WAYS.items() if name in vars(place)
    }
    recipes = [each for each in vars(place).values() if isinstance(each, Recipe)]
    if recipes:
        defaults[WITHOUT_END] = recipes[0].defaults
    usual = {name: field.default for name, field in model.model_fields.items()}
    rows = [
        [f"`{name}`", *(f"`{_shown(given.get(name, usual[name]))}`"
                        for given in ({}, *defaults.values()))]
        for name in usual
        if any(given.get(name, usual[name]) != usual[name] for given in defaults.values())
    ]  # fmt: skip
    if rows:
        heads = ["argument", LOCKSTEP, *defaults]
        head, *lines = (f"| {' | '.join(row)} |" for row in (heads, *rows))
        told = "Defaults that depend on what is played:"
        yield "\n".join([told, "", head, "|---" * len(heads) + "|", *lines])


def _place(begin: Callable[..., Any], scorer: str = "network") -> ModuleType:
    """Return the module of a learner's arguments, or of a scorer's."""
    problems = getattr(import_module(begin.__module__), "PROBLEMS", {})
    return import_module(problems.get(scorer, begin).__module__)


def _model(begin: Callable[..., Any], scorer: str = "network") -> type[BaseModel]:
    """Return the one model of arguments beside a learner's `begin`, or that of a scorer."""
    if problems := getattr(import_module(begin.__module__), "PROBLEMS", None):
        return problems[scorer].arguments  # type: ignore[no-any-return]
    place = _place(begin)
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
