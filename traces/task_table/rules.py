"""The rules for tables of tasks: their names in reports, and their meaning."""

from __future__ import annotations

from typing import Final

NO_ID: Final = "id missing"
BAD_SUBMIT: Final = "no usable submit time"
BAD_RUN: Final = "no usable run time"
NEGATIVE_RUN: Final = "run time negative"
ZERO_RUN: Final = "run time zero"
BAD_INSTANCES: Final = "no usable number of instances"
BAD_REQUEST: Final = "no usable request"
BAD_RETRIES: Final = "no usable number of retries"
BAD_RELEASE: Final = "no usable release time"
OTHER_UNIT: Final = "looks like another unit"
OTHER_REQUEST: Final = "request differs within the task"
OTHER_SUBMIT: Final = "submit time differs within the job"
OF_JOB: Final = {
    "release_time_s": "release time differs within the job",
    "preceding_job": "preceding job differs within the job",
    "think_time_s": "think time differs within the job",
    "user": "user differs within the job",
}
"""Column of which a job's first row counts for all → what is noted of a row that differs."""
OF_TASK: Final = {
    "requested_time_s": "requested time differs within the task",
    "retries": "retries differ within the task",
    "parents": "parents differ within the task",
}
"""The same of an instance's row, with `rows: instance`, and the first of its task."""
NO_PARENT: Final = "parent does not exist"
PARENT_LEFT_OUT: Final = "parent left out"
LOOP: Final = "tasks wait for each other"
REPEATED_TASK: Final = "task id repeats within the job"

MEANINGS: Final[dict[str, str]] = {
    NO_ID: "The id of the job or of the task is empty; the row is left out.",
    BAD_SUBMIT: "The submit time is empty, nan, infinite or beyond 2^32 s; left out.",
    BAD_RUN: "The run time is empty, nan, infinite or beyond 2^32 s; left out.",
    NEGATIVE_RUN: "The run time is below 0 (rule `negative_run`).",
    ZERO_RUN: "The run time is 0; left out (rule `zero_run`).",
    BAD_INSTANCES: "The number of instances is empty, below 1 or not whole; left out.",
    BAD_REQUEST: "All resources are empty or 0, or one is negative, nan, infinite or beyond 2^33; "
    "left out. One that is empty beside others is a request for none of it, as 0 is. In a table "
    "with `parents` a row of zeros is kept: it is a barrier, for which others may wait.",
    BAD_RETRIES: "The number of retries is negative, beyond 2^33 or not whole; left out.",
    BAD_RELEASE: "The release time is nan, infinite or beyond 2^32 s; left out. "
    "Empty: there is none.",
    OTHER_UNIT: "A submit time beyond 2^32 s that would be a date in milliseconds, or a request "
    "beyond 2^33, as memory in bytes is: the key `factors` brings a column into our unit.",
    OTHER_REQUEST: "With `rows: instance`: the row asks for something else than the first one of "
    "its task, whose request counts for all.",
    OTHER_SUBMIT: "The row's submit time is not the one of its job, which the rule `submit` takes "
    "from the job's first or last row.",
    **{
        rule: f"The row has another {column} than the first of its job that is not left out, which "
        "counts for the job; a row that is left out is noted, too."
        for column, rule in OF_JOB.items()
    },
    **{
        rule: f"With `rows: instance`: the row has another {column} than the first one of its "
        "task, which counts for all."
        for column, rule in OF_TASK.items()
    },
    NO_PARENT: "A task of the job waits for one that the job does not have, or whose line is "
    "malformed; all rows of the job are left out (on_error: skip). With on_error: refuse an error "
    "names each, as it does with the next two.",
    PARENT_LEFT_OUT: "A task of the job waits for one whose row is left out under another rule; "
    "all rows of the job are left out (on_error: skip).",
    LOOP: "Tasks of the job wait for each other in a circle, so that none could start; all rows "
    "of the job are left out (on_error: skip).",
    REPEATED_TASK: "An earlier row of the job has the same task id; both are kept, and parents "
    "mean the first.",
}
"""What each rule or note means, in a sentence."""
