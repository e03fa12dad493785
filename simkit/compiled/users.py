"""Limits of users: whose jobs are refused, who is let in, and who waits for another of the user's.

The rules are those of `simkit.engine.held_back.UserLimits`: at most so many jobs of a user wait in
a pool, others are refused; and at most so many are let in at a time, the first submitted first. A
job without a user is not limited.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.machine_code import inner, records

__all__ = ["Users", "is_let_in", "is_refused", "next_let_in", "no_users", "waits_no_more"]

NOBODY: Final = -1
ACCOUNT: Final = np.dtype([
    ("waiting", np.int64), ("let_in", np.int64), ("first", np.int64), ("last", np.int64),
])  # fmt: skip
"""How many jobs of a user have not started, let in or not; how many are let in that have not ended;
the first and the last that is held."""


class Users(NamedTuple):
    """The accounts of U users in P pools; both are 0 if nothing is limited."""

    most_waiting: Floats
    """(P,) most jobs of a user that wait at a time."""
    most: Floats
    """(P,) most jobs of a user that are let in at a time."""
    account: Any
    """(P, U)"""
    following: Ints
    """(J,) the job that is held behind each."""


def no_users(job: Any, most_waiting: Floats, most: Floats) -> Users:
    """Return empty accounts; (P,) are the limits of the pools, infinite for none."""
    if np.isinf(most_waiting).all() and np.isinf(most).all():
        most_waiting, most, job = most_waiting[:0], most[:0], job[:0]
    users = int(job["user"].max(initial=-1)) + 1
    account = records(np.zeros((len(most), users), ACCOUNT))
    account["first"] = NOBODY
    return Users(most_waiting, most, account, np.full(len(job), NOBODY))


@inner
def is_refused(users: Users, pool: int, user: int) -> bool:
    """Return whether too many jobs of a user wait in a pool for another to be submitted."""
    if len(users.most) == 0 or user < 0:
        return False
    return users.account[pool, user].waiting >= users.most_waiting[pool]  # type: ignore[no-any-return]


@inner
def is_let_in(users: Users, pool: int, user: int, job: int) -> bool:
    """Take in a job at its submission; return whether it may start, else it is held."""
    if len(users.most) == 0 or user < 0:
        return True
    one = users.account[pool, user]
    one.waiting += 1
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
def waits_no_more(users: Users, pool: int, user: int) -> None:
    """Take note that a job starts."""
    if len(users.most) > 0 and user >= 0:
        users.account[pool, user].waiting -= 1


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
