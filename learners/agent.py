"""Trained agents as policies.

policy: {agent: trainings/mine}
policy: {agent: deeprm-70, args: {choose: greedy}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simkit.errors import RunError, ScenarioError, SimkitError
from simkit.learners.common.bundle import (
    Bundle,
    Choose,
    Description,
    ViewDescription,
    read_bundle,
    up_to_date,
)
from simkit.learners.games.view_agent import ViewAgent
from simkit.learners.scorers.agent import JobAgent, JobDescription, PairAgent, PairDescription
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION
from simkit.scenario.overrides import dotted
from simkit.sections import problems_of

Agent = ViewAgent | JobAgent | PairAgent


def load_agent(
    folder: Path,
    scenario: Scenario | None = None,
    *,
    choose: Choose | None = None,
    patience: int | None = None,
    compat: str | None = None,
    keep: bool | None = None,
    step: str | float | None = None,
) -> Agent:
    """Return the agent in a bundle, as a policy.

    The arguments depend on the kind of agent; any other argument is refused. An agent of a pool
    takes none: it picks the job with the highest score.

    Args:
        folder: the bundle's folder.
        scenario: the scenario to run on; None: only the cluster is checked, when a run begins.
        choose: ``sample`` draws each action from the network's probabilities, as in training;
            ``greedy`` takes the most probable one, which with slots may never schedule some jobs.
            None: as the bundle says, else ``greedy``.
        patience: for slots. After this many steps in which a task fitted but none was placed, the
            task that can begin soonest is placed anyway, so that a run ends; None: 200.
        compat: for pairs. Another simulator whose rules of time the agent follows.
        keep: for classes. Whether the agent keeps the places that it has planned ahead, as in
            training, or plans anew at every decision, which suits inexact run times; None: keep.
        step: for classes. The run time that a class stands for; None: as in training.

    Raises RunError for a damaged bundle, ScenarioError, all problems at once, for wrong arguments
    and for a scenario that differs from the agent's training.
    """
    if choose not in (None, "sample", "greedy"):
        raise ScenarioError(f"agent: choose is {choose!r}; it must be sample or greedy")
    told = {"choose": choose, "patience": patience, "compat": compat, "keep": keep, "step": step}
    given = {key: value for key, value in told.items() if value is not None}
    bundle = read_bundle(folder)
    agent = _build(bundle, given, scenario)
    if others := [key for key in given if key not in agent.accepts]:
        raise ScenarioError(
            f"agent {agent.name}: does not take {' and '.join(others)}, but "
            f"{' and '.join(agent.accepts) or 'no arguments'}; leave that out"
        )
    if scenario is not None and (problems := agent.differences(scenario)):
        raise ScenarioError([f"agent {agent.name}: {text}" for text in problems])
    return agent


def _build(bundle: Bundle, given: Mapping[str, Any], scenario: Scenario | None) -> Agent:
    """Return the agent; raises RunError if the description is malformed."""
    where, remedy = bundle.folder / DESCRIPTION, "restore the bundle or train the agent again"
    models: dict[str, type[Description]] = {"jobs": JobDescription, "pairs": PairDescription}
    model = models.get(str(bundle.description["actions"].get("type")), ViewDescription)
    try:
        described = model.read(up_to_date(bundle.description))
        if isinstance(described, JobDescription):
            return JobAgent.of(bundle, described)
        if isinstance(described, PairDescription):
            own = {key: given[key] for key in PairAgent.accepts if key in given}
            return PairAgent.of(bundle, described, **own)
        assert isinstance(described, ViewDescription)
        return ViewAgent(bundle, described, scenario, **given)
    except SimkitError:
        raise
    except ValidationError as error:
        problems = [
            f"{dotted(problem.path)} {problem.text}" for problem in problems_of(error, model)
        ]
        raise RunError(
            "\n".join(f"{where}: is not as simkit wrote it ({text}); {remedy}" for text in problems)
        ) from None
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        reason = str(error) or type(error).__name__
        raise RunError(f"{where}: is not as simkit wrote it ({reason}); {remedy}") from error
