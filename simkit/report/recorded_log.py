"""The waits that a run's own log records, read again if the log is still as it was."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import polars as pl
from pydantic import ValidationError

from simkit.errors import SimkitError
from simkit.plugins import code_refused
from simkit.results.run_folder import Run
from simkit.results.run_info import changed_inputs
from simkit.scenario import Scenario
from simkit.scenario.workload import TraceFormat


def log_waits(run: Run) -> pl.DataFrame | None:
    """Return job_id and recorded_s of the jobs whose wait the log records; None without any.

    The log is read where run.json says that it was, and only if its SHA-256 is still the one that
    was recorded. Resampled workloads have other jobs than their log. No code of a scenario runs.
    """
    inputs = run.info.get("inputs") or []
    section = (run.info.get("scenario") or {}).get("workload")
    if not isinstance(section, dict) or section.get("resample") or not inputs:
        return None
    changed = set(
        changed_inputs({"inputs": [i for i in inputs if i["path"] == section.get("path")]})
    )
    if section.get("path") in changed or section.get("path") not in {i["path"] for i in inputs}:
        return None
    with suppress(SimkitError, ValidationError, ValueError, TypeError), code_refused():
        workload = Scenario.model_validate(run.info["scenario"]).workload
        if not isinstance(workload, TraceFormat):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the run are shown
            trace, past = workload.recorded()
        wait = past.start_s - trace.workload.submit_time_s
        known = np.isfinite(wait) & (wait >= 0)
        if known.any():
            ids = pl.Series("job_id", trace.workload.job_id[known])
            return pl.DataFrame({"job_id": ids, "recorded_s": wait[known]})
    return None
