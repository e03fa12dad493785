"""Facts about a trace of power, carbon intensity or prices: span, step, gaps and size."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.arrays import Floats
from simkit.dates import date_text, parse_zone
from simkit.power.signal_trace import PowerTrace, intervals
from simkit.workload.trace import rows_facts

GAPS_NAMED: Final = 5
"""Number of gaps that are listed, the longest first."""


def power_facts(trace: PowerTrace) -> dict[str, Any]:
    """Return the facts about a trace, as plain numbers and text.

    Returns:
        unit, time_zone, sampling, label; values, step_s, span_s (to the end of the last interval,
        gaps included), first and last (times on the clock of the place); mean, min and max of the
        values in `unit`, negative (how many); gaps: count, total_s, longest_s, and the longest of
        them with start and length_s; notes: what the reader took for granted; warnings: what
        contradicts the declarations; rows: counts of the file's rows by rule, None if unknown.
    """
    values = trace.value
    starts, ends, _ = intervals(trace)
    return {
        "name": trace.name,
        "unit": trace.unit,
        "time_zone": trace.time_zone,
        "sampling": trace.sampling,
        "label": trace.label,
        "values": len(trace),
        "step_s": trace.step_s,
        "span_s": float(ends[-1] - starts[0]),
        "first": _clock(trace, trace.time_s[0]),
        "last": _clock(trace, trace.time_s[-1]),
        "mean": float(values.mean()),
        "min": float(values.min()),
        "max": float(values.max()),
        "negative": int(np.count_nonzero(values < 0)),
        "gaps": _gaps(trace, ends[:-1], starts[1:]),
        "notes": list(trace.notes),
        "warnings": list(trace.warnings),
        "rows": rows_facts(trace.report) if trace.report is not None else None,
    }


def _gaps(trace: PowerTrace, ends: Floats, starts: Floats) -> dict[str, Any]:
    """Return the gaps between the (n - 1,) ends of intervals and the starts of the next."""
    open_s = starts - ends
    rows = np.flatnonzero(open_s > 0)
    lengths = open_s[rows]
    longest = rows[np.argsort(-lengths, kind="stable")][:GAPS_NAMED]
    return {
        "count": len(rows),
        "total_s": float(lengths.sum()),
        "longest_s": float(lengths.max(initial=0.0)),
        "longest": [
            {"start": _clock(trace, float(ends[row])), "length_s": float(open_s[row])}
            for row in longest.tolist()
        ],
    }


def _clock(trace: PowerTrace, time_s: float) -> str:
    """Return an instant as the clock of the place shows it."""
    return date_text(float(time_s), "%Y-%m-%d %H:%M %Z", parse_zone(trace.time_zone))
