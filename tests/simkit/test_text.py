"""A number with its noun."""

from __future__ import annotations

import pytest

from simkit.text import counted

CASES = [
    # number, noun, its plural, the words
    (0, "job", "", "0 jobs"),
    (1, "job", "", "1 job"),
    (2, "job", "", "2 jobs"),
    (54_034, "job", "", "54,034 jobs"),
    (1, "job has", "jobs have", "1 job has"),
    (3, "job has", "jobs have", "3 jobs have"),
]


@pytest.mark.parametrize(("number", "noun", "many", "words"), CASES)
def test_one_is_singular(number: int, noun: str, many: str, words: str) -> None:
    assert counted(number, noun, many) == words
