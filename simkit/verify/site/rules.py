"""Checks of the ledger against the site's signals, row by row: sources, grid, load and PUE.

Every signal is made again from the scenario, the seed and the files. One that is not made again is
named, and its rule is not audited.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.ledger import SLACK, add_power_rows, no_power
from simkit.verify.numbers import KWH, TICK, Floats
from simkit.verify.site.course import (
    Course,
    NotRecomputedError,
    lowest_in_rows,
    rows_that_differ,
    total,
)

_RATES = {
    "price_per_kwh": "generation_price_per_kwh",
    "carbon_gco2_per_kwh": "generation_gco2_per_kwh",
}
"""Key of a source → the column of the ledger."""


class _Audit:
    """A check of signals, and why some of them are not recomputed."""

    def __init__(self, run: AuditedRun, check: Check) -> None:
        self.run, self.check, self.row = run, check, run.power
        self.check.examined = len(self.row["seconds"])
        self._reasons: list[str] = []

    def known(self, make: Callable[[], Course]) -> Course | None:
        """Return a course; None, and the reason is kept, if it is not recomputed."""
        try:
            return make()
        except NotRecomputedError as error:
            self._reasons.append(str(error))
            return None

    def compare(
        self, column: str, course: Course, slack: Floats, less: Floats | float = 0.0
    ) -> None:
        """Record the rows in which a column, less something else, is not what a course has."""
        found = self.row[column] - less
        wrong, expected = rows_that_differ(self.row, found, course, slack)
        message = f"{column} is not what the scenario's signals give"
        add_power_rows(self.check, self.run, message, wrong, **{column: expected + less})

    def done(self) -> Check:
        """Return the check; it is not audited if a signal was not recomputed."""
        if self._reasons and not self.check.found:
            return self.check.leave_out("; ".join(dict.fromkeys(self._reasons)))
        return self.check


def check_generation(run: AuditedRun) -> Check:
    """Check what the sources give in every row, and its price and carbon."""
    rule = "the sources give what their signals say, at their price and carbon"
    check = Check("generation", rule)
    if skipped := no_power(run, check):
        return skipped
    audit, row = _Audit(run, check), run.power
    sources = run.setting("power", "sources")
    made = {name: audit.known(partial(run.site.source, name)) for name in sources}
    courses = {name: course for name, course in made.items() if course is not None}
    if len(courses) < len(sources) or not row["start_s"][0] <= row["end_s"][-1]:
        return audit.done()
    power = total([Course.constant(0.0), *courses.values()])
    audit.compare("generation_w", power, SLACK * np.abs(row["generation_w"]))
    for key, column in _RATES.items():
        rates = {name: float(getattr(source, key)) for name, source in sources.items()}
        most = max(map(abs, rates.values()), default=0.0)
        mixture = _mixture(power, courses, rates, most)
        audit.compare(column, mixture, np.full(len(row["seconds"]), SLACK * most))
    _check_facts(audit, courses)
    return audit.done()


def _mixture(
    power: Course, courses: dict[str, Course], rates: dict[str, float], most: float
) -> Course:
    """Return the price or carbon of what all sources give together; 0 while they give nothing."""
    gives = power.values > 0
    amounts = [rates[name] * course.at(power.times) for name, course in courses.items()]
    slack = 0.0
    if power.slack and len(courses) > 1 and gives.any():
        slack = most * min(1.0, 2.0 * power.slack / float(power.values[gives].min()))
    whole = np.where(gives, power.values, 1.0)
    values = np.sum(amounts, axis=0) / whole if amounts else np.zeros(len(whole))
    return Course(power.times, np.where(gives, values, 0.0), slack)


def _check_facts(audit: _Audit, courses: dict[str, Course]) -> None:
    """Check what run.json says that each source generated."""
    run, row = audit.run, audit.row
    facts = run.manifest.get("power") or {}
    first, last = float(row["start_s"][0]), float(row["end_s"][-1])
    for key, expected in run.site.facts().items():
        found = facts.get(key, expected)
        known = isinstance(found, (int, float))
        slack = 2.0 * TICK if key == "epoch_s" else 1e-7 * abs(expected)
        if not known or not abs(found - expected) <= slack:
            row_of = {"key": f"power.{key}", "found": found, "expected": expected}
            audit.check.add("run.json has another fact about the site", row_of)
    for name, course in courses.items():
        found = facts.get(f"sources.{name}.generation_kwh")
        if not run.complete or not isinstance(found, (int, float)):
            continue  # the rule run-info says so
        expected = course.integral(first, last) / KWH
        slack = SLACK * abs(expected) + course.slack * (last - first) / KWH
        if not abs(found - expected) <= slack:
            message = "run.json has another amount of what a source generated"
            audit.check.add(message, {"source": name, "found": found, "expected": expected})


def check_grid(run: AuditedRun) -> Check:
    """Check the grid's prices and carbon in every row, and that flows keep to its limits."""
    check = Check("grid", "the grid has the prices, carbon and limits that its signals say")
    if skipped := no_power(run, check):
        return skipped
    audit, row = _Audit(run, check), run.power
    for key in ("price_per_kwh", "export_price_per_kwh", "carbon_gco2_per_kwh"):
        if (course := audit.known(partial(run.site.of_grid, key))) is not None:
            audit.compare(key, course, SLACK * np.abs(row[key]))
    for name in ("import", "export"):
        course = audit.known(partial(run.site.of_grid, f"{name}_limit_w"))
        if course is None:
            continue
        limit, flow = lowest_in_rows(row, course), row[f"{name}_w"]
        slack = SLACK * (row["load_w"] + row["generation_w"] + flow) + course.slack
        add_power_rows(check, run, f"{name} is above its limit", ~(flow <= limit + slack))
    return audit.done()


def check_site_load(run: AuditedRun) -> Check:
    """Check the critical load and the PUE in every row."""
    check = Check("site-load", "the critical load and the PUE are those of the scenario")
    if skipped := no_power(run, check):
        return skipped
    audit, row = _Audit(run, check), run.power
    if (course := audit.known(run.site.critical)) is not None:
        machines_w = row["pue"] * row["machines_w"]
        slack = SLACK * (np.abs(row["load_w"]) + np.abs(machines_w))
        audit.compare("load_w", course, slack, machines_w)
    if (course := audit.known(run.site.added_pue)) is not None:
        audit.compare("pue", course, SLACK * row["pue"], run.site.pue_of(row["machines_w"]))
    return audit.done()
