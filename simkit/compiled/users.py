"""Limits of users: who is let in, and who is held back until another job of the user has ended.

The rules are those of `simkit.engine.held_back.UserLimits`: at most so many jobs of a user are let
in at a time, the first submitted first; a job without a user is not limited.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.machine_code import inner, records

__all__ = ["Users", "is_let_in", "next_let_in", "no_users"]

NOBODY: Final = -1
ACCOUNT: Final = np.dtype([("let_in", np.int64), ("first", np.int64), ("last", np.int64)])
"""How many jobs of a user are let in that have not ended; the first and the last that is held."""


class Users(NamedTuple):
    """The accounts of U users in P pools; both are 0 if nothing is limited."""

    most: Floats
    """(P,) most jobs of a user that are let in at a time."""
    account: Any
    """(P, U)"""
    following: Ints
    """(J,) the job that is held behind each."""


def no_users(job: Any, most: Floats) -> Users:
    """Return empty accounts; `most` (P,) are the limits of the pools, infinite for none."""
    if np.isinf(most).all():
        most, job = most[:0], job[:0]
    users = int(job["user"].max(initial=-1)) + 1
    account = records(np.zeros((len(most), users), ACCOUNT))
    account["first"] = NOBODY
    return Users(most, account, np.full(len(job), NOBODY))


@inner
def is_let_in(users: Users, pool: int, user: int, job: int) -> bool:
    """Take in a job at its submission; return whether it may start, else it is held."""
    if len(users.most) == 0 or user < 0:
        return True
    one = users.account[pool, user]
    if one.let_in < users.most[pool]:
        one.let_in += 1
        return True
    if one.first == NOBODY:
        one.first = job
    else:
        users.following[one.last] = job
    one.last = job
    return False


@inner
def next_let_in(users: Users, pool: int, user: int) -> int:
    """Take note that a job that was let in has ended; return who is let in for it, or -1."""
    if len(users.most) == 0 or user < 0:
        return NOBODY
    one = users.account[pool, user]
    job = one.first
    if job == NOBODY:
        one.let_in -= 1
    else:
        one.first = users.following[job]
    return job  # type: ignore[no-any-return]
