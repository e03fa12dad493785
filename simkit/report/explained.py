"""Why the longest waits of a run were so long, for its report."""

from __future__ import annotations

from simkit.report.facts import longest_waits
from simkit.results.run_folder import Run
from simkit.why.causes import MEANINGS
from simkit.why.jobs import Progress, explain_jobs

Explanations = dict[int | str, list[tuple[float, float, str, str]]]
"""Job → (start, end, cause, sentence) of each stretch of its wait; times on the trace's clock."""


def explanations_of(
    run: Run, *, allow_partial: bool = False, progress: Progress | None = None
) -> Explanations:
    """Return the explanations of the jobs that the report lists; the run is made again for them.

    Code that the scenario names is not run: a report may be of a stranger's run.

    Raises SimkitError if the run cannot be made again, or names code.
    """
    ids = [row["job_id"] for row in longest_waits(run)]
    if not ids:
        return {}
    found = explain_jobs(run, ids, allow_partial=allow_partial, allow_code=False, progress=progress)
    return {
        each.job_id: [
            (start, end, MEANINGS[cause].title, sentence)
            for start, end, cause, sentence in each.rows()
        ]
        for each in found
    }
