"""What columns hold that no reader looks at: names for reports, and those that are plain."""

from __future__ import annotations

from typing import Final

PLAIN: Final = "plain"
"""What a column holds that tells nothing of resources, times, limits or relations."""
UNKNOWN_COLUMN: Final = "not known to simkit"
"""What a column holds that no list knows."""

PLAIN_COLUMNS: Final = dict.fromkeys(
    ("name", "job_name", "jobname", "task_name", "comment", "comments", "description", "note",
     "notes", "remark", "workdir", "work_dir", "working_directory", "command", "script", "label"),
    PLAIN,
)  # fmt: skip
"""Columns of anyone's tables that are plain, in lower case."""
