"""Explains what a reader did to the rows of a trace, rule by rule."""

from __future__ import annotations

from simkit.traces.alibaba2017 import rules as alibaba2017_rules
from simkit.traces.power import rules as power_rules
from simkit.traces.rules import RULES
from simkit.traces.task_table import rules as task_table_rules
from simkit.workload import RowReport


def describe(report: RowReport) -> list[tuple[str, int, str, list[int]]]:
    """Explain a report: (rule, rows, explanation, first line numbers), one a rule that was met.

    Rules that leave rows out come first, then those that repair, then what was only noted.
    """
    counts = [*report.dropped.items(), *report.repaired.items(), *report.notes.items()]
    return [(rule, n, _meaning(rule), report.lines.get(rule, [])) for rule, n in counts]


def _meaning(rule: str) -> str:
    for meanings in (
        RULES,
        alibaba2017_rules.MEANINGS,
        task_table_rules.MEANINGS,
        power_rules.MEANINGS,
    ):
        if rule in meanings:
            return meanings[rule]
    return ""
