"""A run made again from its run.json, and watched; it must be the same run.

Nothing of a normal run is kept for explanations: they cost what the run cost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf
from typing import Any

from simkit.errors import RunError, SimkitError
from simkit.experiment import Experiment, Watch, carry_out, prepare
from simkit.plugins import code_refused
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.run_info import changed_inputs, versions
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.why.clock import RunClock, clock_of
from simkit.why.watcher import EndReachedError


@dataclass(frozen=True)
class Original:
    """A run that is to be explained, and the experiment that makes it again."""

    run: Run
    experiment: Experiment

    @property
    def clock(self) -> RunClock:
        """How its times are written."""
        submits = self.experiment.trace.workload.submit_time_s
        return clock_of(self.run, submits.min() if len(submits) else None)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.run.status == "complete"

    @property
    def end_s(self) -> float:
        """The last instant that the run recorded, in s; infinity for a complete one."""
        if self.complete:
            return inf
        last = [
            self.run.scan(table).select(column).max().collect().item()
            for table, column in (("timeline", "time_s"), ("allocations", "start_time_s"))
            if (self.run.folder / f"{table}.parquet").is_file()
        ]
        known = [float(time) for time in last if time is not None]
        if not known:
            raise RunError(
                f"{self.run.folder}: the run was {self.run.status} before anything was written, so "
                "nothing can be explained; run the scenario again"
            )
        return max(known)


def original(
    folder: RunOrFolder, *, allow_partial: bool = False, allow_code: bool = True
) -> Original:
    """Open a run and prepare the experiment that makes it again.

    Raises RunError if the run cannot be made again: Python objects took the place of parts of the
    scenario, its files have changed or are gone, or its scenario is not this simkit's.
    """
    run = open_run(folder, allow_partial=allow_partial)
    info = run.info
    if given := [name for name in info.get("given") or () if name != "metrics"]:
        raise RunError(
            f"{run.folder}: Python gave {' and '.join(map(str, given))} as objects, which run.json "
            "does not hold, so the run cannot be made again; name them in the scenario "
            "(my_policy.py:Mine)"
        )
    if changed := _changed(info):
        raise RunError(
            f"{run.folder}: {', '.join(changed)} changed since the run or is gone, so another run "
            "would be explained; put the file back, or run the scenario again"
        )
    with nullcontext() if allow_code else code_refused():
        try:
            return Original(run, prepare(_scenario(run, info, allow_code)))
        except SimkitError as error:
            raise RunError(
                f"{run.folder}: the run cannot be made again from its run.json: {error}"
            ) from error


def _scenario(run: Run, info: Mapping[str, Any], allow_code: bool) -> Scenario:
    section = info.get("scenario")
    if not isinstance(section, dict) or not section:
        raise RunError(f"{run.folder}: run.json has no scenario; run the scenario again")
    return load_scenario(_without_metrics(section), single=True, allow_code=allow_code)


def _without_metrics(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario without the metrics of the user: code that changes nothing of the run."""
    metrics = section.get("metrics")
    if not isinstance(metrics, dict):
        return dict(section)
    return {**section, "metrics": {k: v for k, v in metrics.items() if k != "custom"}}


def _changed(info: Mapping[str, Any]) -> list[str]:
    """Return the files that the run read and that are not as they were, but those of metrics."""
    section = info.get("scenario") or {}
    custom = (section.get("metrics") or {}).get("custom") or ()
    of_metrics = {str(name).rpartition(":")[0] for name in custom}
    others = json.dumps(_without_metrics(section), ensure_ascii=False)
    return [
        file
        for file in changed_inputs(info)
        if file not in of_metrics or json.dumps(file, ensure_ascii=False)[1:-1] in others
    ]


def rerun(first: Original, watch: Watch) -> Run:
    """Make a run again, watch its decisions, and return it.

    A run that did not finish is made again as far as it came (`watch` raises EndReachedError): the
    tables are then those of the original.

    Raises RunError if the digest is another one.
    """
    try:
        again = carry_out(first.experiment, watch=watch, quiet=True)
    except EndReachedError:
        return first.run
    except SimkitError:
        if first.complete:
            raise
        return first.run  # it ends here as the original did
    if first.complete and first.run.digest and again.digest != first.run.digest:
        raise RunError(f"{first.run.folder}: {_other(first.run)}")
    return again


def _other(run: Run) -> str:
    """Return in words that another run came out, and what may be why."""
    old, new = run.info.get("versions") or {}, versions()
    changed = [
        f"{name} {old.get(name)} → {new[name]}" for name in new if old.get(name) != new[name]
    ]
    why = f"; what differs: {', '.join(changed)}" if changed else ""
    return (
        "made again from its run.json, the run has another digest, so another run would be "
        f"explained{why}. Run the scenario again with this simkit, and explain that run"
    )
