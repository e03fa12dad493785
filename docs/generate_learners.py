"""The reference of the learners: what `learn.arguments` may say, from each learner's dataclass."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from math import inf
from textwrap import dedent
from types import ModuleType

UNITS = {
    "iterations": "iterations", "job_sets": "job sets", "rollouts": "episodes",
    "held_out_sets": "job sets", "horizon": "steps", "memory": "steps", "last_step": "step",
    "max_decisions": "decisions", "backlog_shown": "tasks", "kl": "nats", "batch": "decisions",
    "warm_start_rounds": "rounds", "epochs": "passes", "products": "products",
}  # fmt: skip
"""Argument → what it counts; all others have no unit."""


def deeprm_arguments() -> str:
    """Return the table of the learner deeprm's arguments."""
    from simkit.learners import deeprm

    return _table(deeprm)


def sofia_arguments() -> str:
    """Return the table of the learner sofia's arguments."""
    from simkit.learners import sofia

    return _table(sofia)


def _table(learner: ModuleType) -> str:
    texts = field_texts(learner.Arguments)
    rows = [
        f"| `{f.name}` | {_kind(learner, f.name, f.default)} | {UNITS.get(f.name, '')} "
        f"| `{_shown(f.default)}` | {texts[f.name]} |"
        for f in fields(learner.Arguments)
    ]
    head = ["| argument | type | unit | default | meaning |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def field_texts(cls: type) -> dict[str, str]:
    """Return what stands in quotes under each field of a class, on one line."""
    (body,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for before, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(before.target, ast.Name)
            found[before.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return {name: text.replace("|", "\\|") for name, text in found.items()}


def _kind(learner: ModuleType, name: str, default: object) -> str:
    if isinstance(default, bool):
        return "`true`, `false`"
    if isinstance(default, str):
        return ", ".join(f"`{choice}`" for choice in learner.CHOICES[name])
    word = "whole number" if isinstance(default, int) else "number"
    return f"{word} {_bounds(*learner.RANGES[name])}"


def _bounds(low: float, high: float) -> str:
    """Return ``≥ 1``, ``> 0``, ``0 to 1``; least amounts far below 1 stand for more than 0."""
    least = "> 0" if 0 < low < 1e-3 else f"≥ {low:g}"
    if high == inf:
        return least
    return f"{low:,.0f} to {high:,.0f}" if low >= 1 or low == 0 else f"{least} and ≤ {high:g}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
