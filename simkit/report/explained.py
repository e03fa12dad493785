"""Why the longest waits of a run were so long, for its report."""

from __future__ import annotations

from simkit.report.facts import longest_waits
from simkit.results.run_folder import Run
from simkit.why.causes import MEANINGS
from simkit.why.jobs import Progress, explain_jobs

Explanations = dict[int | str, list[tuple[float, float, str, str]]]
"""Job → (start, end, cause, sentence) of each stretch of its wait; times on the trace's clock."""


def explanations_of(
    run: Run,
    *,
    allow_partial: bool = False,
    allow_code: bool = False,
    progress: Progress | None = None,
) -> Explanations:
    """Return the explanations of the jobs that the report lists; the run is made again for them.

    Args:
        run: the run.
        allow_partial: also explain a run that did not finish, up to its end.
        allow_code: also run code that the scenario names, such as a policy of one's own. By default
            it is not run: a report may be of a stranger's run.
        progress: is called after every decision of the rerun.

    Raises SimkitError if the run cannot be made again, or names code that is not allowed.
    """
    ids = [row["job_id"] for row in longest_waits(run)]
    if not ids:
        return {}
    found = explain_jobs(
        run, ids, allow_partial=allow_partial, allow_code=allow_code, progress=progress
    )
    return {
        each.job_id: [
            (start, end, MEANINGS[cause].title, sentence)
            for start, end, cause, sentence in each.rows()
        ]
        for each in found
    }
