"""Checks of the ledger: power balances in every row, and sources, carbon and cost add up.

The table "power" is checked against itself; `site.rules` compares it with the scenario's signals.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from simkit.verify.audit import (
    KWH,
    TICK,
    Bools,
    Check,
    Floats,
    NotApplicableError,
    NotAuditedError,
    rule,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.site.course import (
    Course,
    lowest_in_rows,
    rows_that_differ,
    total,
)
from simkit.verify.site.signals import SiteSignals

SLACK = 1e-9
"""Relative error that is allowed in a row, as a share of the power that flows."""
_TOTAL_SLACK = 1e-12
"""Relative error that is allowed over the whole run."""

_SOURCES = ("generation_w", "import_w", "discharge_w", "unserved_w")
_USES = ("load_w", "charge_w", "export_w", "curtailment_w", "losses_w")
_PARTS = (
    "machines_w", "standing_w", "load_renewable_w", "load_battery_w", "load_grid_w",
    "charge_renewable_w", "charge_grid_w", "load_battery_grid_w",
)  # fmt: skip
_SHOWN = ("start_s", "end_s", *_SOURCES, *_USES)


def needs_power(run: AuditedRun) -> None:
    """Raise NotApplicableError if the run has no rows of power."""
    if "power" not in run.tables:
        raise NotApplicableError("the run has no power")
    if not run.tables["power"].height:
        raise NotApplicableError("no time passed in the run")


def add_power_rows(
    check: Check, run: AuditedRun, message: str, wrong: Bools, **expected: Floats
) -> None:
    """Record wrong rows of the table "power"; keywords give the expected values of a column."""
    rows = run.tables["power"].filter(pl.Series(wrong))
    names = dict.fromkeys((*_SHOWN[:2], *(expected or _SHOWN)))
    extra = [pl.Series(f"expected_{name}", values[wrong]) for name, values in expected.items()]
    check.add_rows(message, rows.select(list(names)).with_columns(extra))


@rule
def check_ledger(run: AuditedRun, check: Check) -> None:
    """In every row sources equal uses, and no power is negative."""
    if "power" in run.tables and not run.tables["power"].height and run.complete:
        held = run.allocations.select("start_time_s", "end_time_s").drop_nulls()
        if (held["end_time_s"] > held["start_time_s"]).any():
            check.add("machines worked, and no row tells of power", {})
            return
    needs_power(run)
    row = run.power
    check.examined = len(row["seconds"])
    _check_times(check, run)
    sources, uses = (sum(row[name] for name in names) for names in (_SOURCES, _USES))
    flowing = np.maximum(sources, uses)
    add_power_rows(
        check, run, "power does not balance", ~(np.abs(sources - uses) <= SLACK * flowing)
    )
    for name in (*_SOURCES, *_USES, *_PARTS):
        add_power_rows(check, run, f"{name} is below 0", ~(row[name] >= -SLACK * flowing))
    both = (row["charge_w"] > 0) & (row["discharge_w"] > 0)
    add_power_rows(check, run, "the battery charges and discharges at once", both)
    slack = SLACK * flowing
    for part, whole in (
        (row["unserved_w"], row["load_w"] + row["losses_w"]),
        (row["curtailment_w"], row["generation_w"]),
        (row["standing_w"], row["machines_w"]),
        (row["pue"] * row["machines_w"], row["load_w"]),
    ):
        add_power_rows(check, run, "a part is larger than the whole", part > whole + slack)
    _check_total(check, row)


def _check_times(check: Check, run: AuditedRun) -> None:
    """Check that the rows follow each other, from the run's begin to its end or beyond."""
    row = run.power
    add_power_rows(check, run, "the row has no length", ~(row["seconds"] > 0))
    gap = np.append(False, row["start_s"][1:] != row["end_s"][:-1])
    add_power_rows(check, run, "the row does not begin where the previous row ends", gap)
    held = run.allocations.select("start_time_s", "end_time_s")
    times = np.concatenate([held[name].drop_nulls().to_numpy() for name in held.columns])
    outside = (times < row["start_s"][0]) | (times > row["end_s"][-1])
    for time in np.unique(times[outside]).tolist():
        check.add("an allocation is outside the time of the ledger", {"time_s": time})
    if not run.complete:
        return
    submitted, seen = run.jobs["submit_time_s"].drop_nulls(), run.tables["timeline"]["time_s"]
    begin = float(submitted.to_numpy().min(initial=0.0))
    if row["start_s"][0] != begin:
        found = {"start_s": float(row["start_s"][0]), "expected": begin}
        check.add("the ledger does not begin with the run", found)
    if row["end_s"][-1] < seen.to_numpy().max(initial=-np.inf):
        found = {"end_s": float(row["end_s"][-1]), "expected": float(str(seen.max()))}
        check.add("the ledger ends before the run", found)


def _check_total(check: Check, row: dict[str, Floats]) -> None:
    """Check that energy balances over the whole run."""
    energies = {
        name: float(np.sum((row[name] * row["seconds"]).astype(np.longdouble)))
        for name in (*_SOURCES, *_USES)
    }
    given, taken = (sum(energies[name] for name in names) for names in (_SOURCES, _USES))
    if not abs(given - taken) <= _TOTAL_SLACK * max(given, taken):
        check.add("energy does not balance over the run", {"sources_j": given, "uses_j": taken})


@rule
def check_sources(run: AuditedRun, check: Check) -> None:
    """Sources serve in their order, and carbon and cost follow from them."""
    needs_power(run)
    row = run.power
    check.examined = len(row["seconds"])
    flowing = np.sum([row[name] for name in _SOURCES], axis=0)
    for name, expected in _shares(row).items():
        wrong = ~(np.abs(row[name] - expected) <= SLACK * flowing)
        add_power_rows(
            check,
            run,
            f"{name} does not follow from the order of sources",
            wrong,
            **{name: expected},
        )
    served = row["load_renewable_w"] + row["load_battery_w"] + row["load_grid_w"]
    wanted = row["load_w"] + row["losses_w"] - row["unserved_w"]
    add_power_rows(
        check,
        run,
        "the sources of the load do not add up",
        ~(abs(served - wanted) <= SLACK * flowing),
    )
    for name, parts in _rates(row).items():
        expected, size = np.sum(parts, axis=0), np.sum(np.abs(parts), axis=0)
        wrong = ~(np.abs(row[name] - expected) <= SLACK * size)
        add_power_rows(
            check, run, f"{name} does not follow from the flows", wrong, **{name: expected}
        )


def _shares(row: dict[str, Floats]) -> dict[str, Floats]:
    """Return how much each source serves and charges, one source after another."""
    need = row["load_w"] + row["losses_w"] - row["unserved_w"]
    used = row["generation_w"] - row["curtailment_w"]
    found: dict[str, Floats] = {}
    offers = {"renewable": used, "battery": row["discharge_w"], "grid": row["import_w"]}
    for source, offer in offers.items():
        found[f"load_{source}_w"] = taken = np.clip(np.minimum(offer, need), 0.0, None)
        need = need - taken
    left = np.clip(used - found["load_renewable_w"], 0.0, None)
    found["charge_renewable_w"] = np.minimum(left, row["charge_w"])
    found["charge_grid_w"] = row["charge_w"] - found["charge_renewable_w"]
    return found


def _rates(row: dict[str, Floats]) -> dict[str, list[Floats]]:
    """Return the parts of the site's carbon in g/s and of its cost per s."""
    used, bought = row["generation_w"] - row["curtailment_w"], row["import_w"]
    return {
        "carbon_g_per_s": [
            bought * row["carbon_gco2_per_kwh"] / KWH,
            used * row["generation_gco2_per_kwh"] / KWH,
        ],
        "cost_per_s": [
            bought * row["price_per_kwh"] / KWH,
            used * row["generation_price_per_kwh"] / KWH,
            -row["export_w"] * row["export_price_per_kwh"] / KWH,
        ],
    }


_RATES = {
    "price_per_kwh": "generation_price_per_kwh",
    "carbon_gco2_per_kwh": "generation_gco2_per_kwh",
}
"""Key of a source → the column of the ledger."""


class _Audit:
    """A check of signals, and why some of them are not recomputed."""

    def __init__(self, run: AuditedRun, check: Check) -> None:
        self.run, self.check, self.row = run, check, run.power
        self.site = run.once(SiteSignals)
        self.check.examined = len(self.row["seconds"])
        self._reasons: list[str] = []

    def known(self, make: Callable[[], Course]) -> Course | None:
        """Return a course; None, and the reason is kept, if it is not recomputed."""
        try:
            return make()
        except NotAuditedError as error:
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

    def done(self) -> None:
        """Raise NotAuditedError if a signal was not recomputed."""
        if self._reasons:
            raise NotAuditedError("; ".join(dict.fromkeys(self._reasons)))


@rule
def check_generation(run: AuditedRun, check: Check) -> None:
    """The sources give what their signals say, at their price and carbon."""
    needs_power(run)
    audit, row = _Audit(run, check), run.power
    sources = run.setting("power", "sources")
    made = {name: audit.known(partial(audit.site.source, name)) for name in sources}
    courses = {name: course for name, course in made.items() if course is not None}
    if len(courses) < len(sources) or not row["start_s"][0] <= row["end_s"][-1]:
        audit.done()
        return
    power = total([Course.constant(0.0), *courses.values()])
    audit.compare("generation_w", power, SLACK * np.abs(row["generation_w"]))
    for key, column in _RATES.items():
        rates = {name: float(getattr(source, key)) for name, source in sources.items()}
        most = max(map(abs, rates.values()), default=0.0)
        mixture = _mixture(power, courses, rates, most)
        audit.compare(column, mixture, np.full(len(row["seconds"]), SLACK * most))
    _check_facts(audit, courses)
    audit.done()


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
    for key, expected in audit.site.facts().items():
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


@rule
def check_grid(run: AuditedRun, check: Check) -> None:
    """The grid has the prices, carbon and limits that its signals say."""
    needs_power(run)
    audit, row = _Audit(run, check), run.power
    for key in ("price_per_kwh", "export_price_per_kwh", "carbon_gco2_per_kwh"):
        if (course := audit.known(partial(audit.site.of_grid, key))) is not None:
            audit.compare(key, course, SLACK * np.abs(row[key]))
    for name in ("import", "export"):
        course = audit.known(partial(audit.site.of_grid, f"{name}_limit_w"))
        if course is None:
            continue
        limit, flow = lowest_in_rows(row, course), row[f"{name}_w"]
        slack = SLACK * (row["load_w"] + row["generation_w"] + flow) + course.slack
        add_power_rows(check, run, f"{name} is above its limit", ~(flow <= limit + slack))
    audit.done()


@rule
def check_site_load(run: AuditedRun, check: Check) -> None:
    """The critical load and the PUE are those of the scenario."""
    needs_power(run)
    audit, row = _Audit(run, check), run.power
    if (course := audit.known(audit.site.critical)) is not None:
        machines_w = row["pue"] * row["machines_w"]
        slack = SLACK * (np.abs(row["load_w"]) + np.abs(machines_w))
        audit.compare("load_w", course, slack, machines_w)
    if (course := audit.known(audit.site.added_pue)) is not None:
        audit.compare("pue", course, SLACK * row["pue"], audit.site.pue_of(row["machines_w"]))
    audit.done()
