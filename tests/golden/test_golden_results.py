"""Golden results are as they were; what a case is stands in `cases_…` beside this file.

A change of results updates the table openly, and the changelog says why:

    python tests/golden/golden.py --update [CASE ...]
"""

from __future__ import annotations

import pytest
from cases import DATA, Case
from golden import PINNED, expected, missing, read_table


def marked(name: str, case: Case) -> object:
    return pytest.param(name, marks=[pytest.mark.slow] if case.slow else [])


@pytest.mark.parametrize("name", [marked(name, case) for name, case in PINNED.items()])
def test_results_are_as_they_were(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := missing(PINNED[name]):
        pytest.skip(reason)
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    assert PINNED[name].differences(expected(name), PINNED[name].results()) == []


def test_the_table_has_the_cases_and_no_others() -> None:
    assert list(read_table()) == list(PINNED)
