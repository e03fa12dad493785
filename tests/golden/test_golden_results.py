"""Golden results are as they were; what a case is stands in `cases_…` beside this file.

A change of results updates the table openly, and the changelog says why:

    python tests/golden/golden.py --update [CASE ...]
"""

from __future__ import annotations

import pytest
from cases import DATA, Case
from cases_agents import AGENT_OF, RUNS
from cases_trained import TRAININGS
from golden import PINNED, expected, missing, read_table

from simkit import plugins


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


def test_every_learner_is_trained_and_its_agents_decide() -> None:
    learners = set(plugins.names("simkit.learners"))
    assert {name.split()[0] for name in TRAININGS} == learners
    agents = {agent for _, agent, _ in RUNS.values()}
    without = {name for name in learners if not any(a.split("-")[0] == name for a in agents)}
    assert without == AGENT_OF.keys()
    assert {*AGENT_OF.values()} <= learners - without
