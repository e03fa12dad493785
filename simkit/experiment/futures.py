"""Other futures of a run: another policy from an instant on, and forks of a run that is there.

    simkit run scenario.yaml --switch-policy 30d:sjf+easy
    simkit run --fork runs/mine --at 30d --set policy.backfill=none

Both make a scenario whose policy switches, which runs from its beginning: the past comes out as it
was, because nothing before the instant depends on what decides after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from simkit.errors import RunError, ScenarioError
from simkit.results.run_folder import open_run
from simkit.results.run_info import changed_inputs
from simkit.scenario import Scenario
from simkit.scenario.overrides import anchor_paths
from simkit.scenario.policy import SwitchedPolicy
from simkit.scenario.yaml_document import load_scenario
from simkit.scenario.yaml_lines import parse_scalar
from simkit.sections import Instant

_INSTANT: Final[TypeAdapter[float | datetime]] = TypeAdapter(Instant)
FREE: Final = ("policy", "name", "metrics", "limits")
"""Sections that a fork may set: policies decide the future alone, the others no part of a run."""


def parse_switches(texts: Iterable[str]) -> list[tuple[str, Any]]:
    """Return (time, policy) of texts like ``30d:sjf+easy``; the policy is a name or YAML.

    As dates and policies have colons, too, the time is the longest beginning that is one.

    Raises ScenarioError for a text without a time or without a policy.
    """
    found = []
    for text in texts:
        ends = [match.start() for match in re.finditer(":", text)]
        times = [text[:end].strip() for end in ends if _is_instant(text[:end].strip())]
        if not times:
            raise ScenarioError(
                f"--switch-policy {text!r}: begins with no time; write TIME:POLICY, such as "
                "30d:sjf+easy or 2004-05-31T12:00+02:00:sjf"
            )
        policy = text.lstrip()[len(times[-1]) :].lstrip().removeprefix(":").strip()
        if not policy:
            raise ScenarioError(
                f"--switch-policy {text!r}: names no policy; write TIME:POLICY, such as 30d:sjf"
            )
        found.append((times[-1], parse_scalar(policy, "--switch-policy")))
    return found


def _is_instant(text: str) -> bool:
    try:
        _INSTANT.validate_python(text)
    except ValidationError:
        return False
    return True


def with_switches(
    scenario: Scenario, switches: Sequence[tuple[Any, Any]], *, allow_code: bool = True
) -> Scenario:
    """Return a scenario whose policy is followed by others.

    Args:
        scenario: without a sweep over its policy.
        switches: (time, policy) of each, in the forms of a scenario file, the earliest first; they
            follow changes that the scenario has already. Relative paths start from the working
            folder.
        allow_code: as in `load_scenario`.

    Raises ScenarioError for a time or policy that is none, or changes out of order.
    """
    if not switches:
        return scenario
    data = scenario.model_dump(mode="json")
    policy: dict[str, Any] = data["policy"]
    if not isinstance(scenario.policy, SwitchedPolicy):
        policy = {"start": policy, "switch": []}
    changes = [
        {"at": at, "to": anchor_paths({"policy": to}, Path.cwd())["policy"]} for at, to in switches
    ]
    data["policy"] = {**policy, "switch": [*policy["switch"], *changes]}
    return load_scenario(data, allow_code=allow_code)


def fork(
    run: str | PathLike[str],
    at: float | str | datetime,
    overrides: Mapping[str, object] | None = None,
    *,
    allow_code: bool = True,
) -> Scenario:
    """Return the scenario of a run with another future.

    Args:
        run: the run folder, also of a run that did not finish.
        at: from when on the future is another: a duration after the first submission, such as
            ``30d``, or a date with a zone.
        overrides: dotted key → value: keys of the policy that decides from then on, in place of
            those of the policy that did; and ``name``, ``metrics``, ``limits`` for all of the run.
            Relative paths start from the working folder.
        allow_code: as in `load_scenario`.

    Raises RunError for a folder that is no run, inputs that have changed since, and a run of Python
    objects that no scenario names; ScenarioError for keys that would change the past as well, and
    for a wrong time.
    """
    opened = open_run(run, allow_partial=True)
    _check_repeatable(Path(run), opened.info)
    settings = anchor_paths(dict(overrides or {}), Path.cwd())
    if wrong := [key for key in settings if key.split(".")[0] not in FREE]:
        raise ScenarioError([
            f"override {key}: would change the past of the run as well; a fork sets "
            f"{', '.join(FREE)} alone"
            for key in wrong
        ])  # fmt: skip
    try:
        instant = _INSTANT.validate_python(at)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ScenarioError(f"--at: {reason}") from None
    of_all = {key: value for key, value in settings.items() if key.split(".")[0] != "policy"}
    past = load_scenario(opened.info["scenario"], overrides=of_all, allow_code=allow_code)
    first_s = opened.scan("jobs").select("submit_time_s").min().collect().item()
    zero_s = float(opened.info.get("epoch_s") or "nan") + float(first_s or 0.0)
    before, acting = _split(past, _seconds(instant, zero_s), zero_s)
    later = {key: value for key, value in settings.items() if key.split(".")[0] == "policy"}
    alone = {**past.model_dump(mode="json"), "policy": acting}
    future = load_scenario(alone, overrides=later, allow_code=allow_code).model_dump(mode="json")
    change = {"at": _INSTANT.dump_python(instant, mode="json"), "to": future["policy"]}
    start, changes = before
    policy = {"start": start, "switch": [*changes, change]}
    return load_scenario({**alone, "policy": policy}, allow_code=allow_code)


def _check_repeatable(folder: Path, info: Mapping[str, Any]) -> None:
    if given := info.get("given"):
        raise RunError(
            f"{folder}: ran with Python objects in place of its {', '.join(given)}, so that "
            "run.json cannot repeat it; give simulate() these objects and a policy that switches"
        )
    if changed := changed_inputs(info):
        raise RunError(
            f"{folder}: {', '.join(changed)} changed or went since the run, so that its past would "
            "not be the same; put the file back, or run the scenario again"
        )


def _split(
    scenario: Scenario, at_s: float, zero_s: float
) -> tuple[tuple[Any, list[dict[str, Any]]], Any]:
    """Return the policies before an instant, as start and changes, and the one that acts then."""
    policy = scenario.model_dump(mode="json")["policy"]
    if not isinstance(scenario.policy, SwitchedPolicy):
        return (policy, []), policy
    times = [_seconds(change.at, zero_s) for change in scenario.policy.switch]
    kept = [c for c, time in zip(policy["switch"], times, strict=True) if time < at_s]
    acting = [c for c, time in zip(policy["switch"], times, strict=True) if time <= at_s]
    return (policy["start"], kept), acting[-1]["to"] if acting else policy["start"]


def _seconds(instant: float | datetime, zero_s: float) -> float:
    """Return an instant in seconds after the first submission, whose Unix time is given.

    Raises ScenarioError for a date if that is not known.
    """
    if not isinstance(instant, datetime):
        return instant
    if zero_s != zero_s:
        raise ScenarioError(
            f"--at: {instant.isoformat()} is a date, but the run does not tell when it began; give "
            "a duration after the first submission, such as 30d"
        )
    return instant.timestamp() - zero_s
