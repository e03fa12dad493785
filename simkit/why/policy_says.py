"""What a policy says of its waiting tasks, where it has a method for that: words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Final

from simkit.errors import PolicyError
from simkit.policy.task import Task

_FORMS: Final = {
    "why": "why(self, state, task) → text",
    "scores": "scores(self, state) → {task: number}",
    "planned": "planned(self) → {task: time in s}",
}
"""Method → how it is asked, and what it returns."""


def words_of(policy: object, name: str, now_s: float, *given: object) -> str:
    """Return the words of a policy's method; empty if it has none.

    Raises PolicyError if it cannot be called so.
    """
    ask = _method(policy, name, now_s, given)
    return "" if ask is None else str(ask(*given))


def numbers_of(policy: object, name: str, now_s: float, *given: object) -> dict[Task, float]:
    """Return task → number of a policy's method; nothing if it has none.

    Raises PolicyError if it cannot be called so, or returns anything else.
    """
    ask = _method(policy, name, now_s, given)
    if ask is None:
        return {}
    found = ask(*given)
    if not isinstance(found, Mapping):
        raise _wrong(policy, name, now_s, f"returned {_shown(found)}")
    for task, number in found.items():
        if not isinstance(task, Task):
            raise _wrong(policy, name, now_s, f"has {_shown(task)} where a task is due")
        if isinstance(number, str) or not hasattr(number, "__float__"):
            raise _wrong(policy, name, now_s, f"has {_shown(number)} where a number is due")
    return {task: float(number) for task, number in found.items()}


def _method(
    policy: object, name: str, now_s: float, given: tuple[object, ...]
) -> Callable[..., Any] | None:
    ask: Callable[..., Any] | None = getattr(policy, name, None)
    if ask is None:
        return None
    if not callable(ask):
        raise _wrong(policy, name, now_s, f"is {_shown(ask)}")
    try:
        signature(ask).bind(*given)
    except TypeError as error:
        raise _wrong(policy, name, now_s, f"cannot be called: {error}") from None
    except ValueError:  # compiled code does not tell what it takes
        pass
    return ask


def _wrong(policy: object, name: str, now_s: float, what: str) -> PolicyError:
    return PolicyError(
        f"{type(policy).__name__} at {now_s:g} s: {name} {what}; explain asks for {_FORMS[name]}"
    )


def _shown(value: object) -> str:
    """Return a value's type, and its text if that is short."""
    text = repr(value)
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= 40 and value is not None else kind
