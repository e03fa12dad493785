"""Times of a job that contradict each other: a start before its submission, say."""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.traces import rules
from simkit.traces.rules import Tally
from simkit.units import format_duration

SLACK_S = 1.0
"""Logs round times to seconds."""


def note_early_starts(tally: Tally, line: Ints, wait_s: Floats) -> None:
    """Note rows of jobs that started before they were submitted.

    Args:
        tally: counts them.
        line: (n,) the rows' lines.
        wait_s: (n,) from submission to start, NaN where unknown.
    """
    early = wait_s < 0
    if early.any():
        first = float(wait_s[early][0])
        tally.show(rules.START_EARLY, f"{format_duration(-first)} before submission")
        tally.note(rules.START_EARLY, line[early])


def note_odd_run_times(
    tally: Tally, line: Ints, span_s: Floats, run_s: Floats, paused_s: Floats | None = None
) -> None:
    """Note rows whose end is before their start, or whose run time does not fit between these.

    Args:
        tally: counts them.
        line: (n,) the rows' lines.
        span_s: (n,) from start to end, NaN where unknown.
        run_s: (n,) how long the job ran.
        paused_s: (n,) of the span, when it was suspended, NaN where unknown; None: unknown of all.
            Where it is known, a run time that is too short is as odd as one that is too long.
    """
    backwards = span_s < 0
    tally.note(rules.END_EARLY, line[backwards])
    if backwards.any():
        first = float(span_s[backwards][0])
        tally.show(rules.END_EARLY, f"{format_duration(-first)} before start")
    odd = _odd(span_s, run_s, paused_s) & ~backwards
    tally.note(rules.RUN_UNLIKE, line[odd])
    if odd.any():
        row = int(np.argmax(odd))
        span, run = format_duration(float(span_s[row])), format_duration(float(run_s[row]))
        tally.show(rules.RUN_UNLIKE, f"run time {run}, start to end {span}")


def _odd(span_s: Floats, run_s: Floats, paused_s: Floats | None) -> Bools:
    """Return which run times are longer than the span, or, with the pause, not the rest of it."""
    longer: Bools = run_s > span_s + SLACK_S
    if paused_s is None:
        return longer
    shorter: Bools = np.abs(span_s - paused_s - run_s) > SLACK_S
    return longer | shorter
