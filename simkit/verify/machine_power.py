"""The audit of what machines draw: it follows from the allocations and the scenario's models.

Idle, booting and switched-off power is not in the allocations; it is held between what all machines
draw when off and what they draw when on and empty, or booting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.ledger import SLACK, Floats, blame, columns, no_power

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


@dataclass(frozen=True)
class Model:
    """What one machine draws, in W."""

    least: float
    """Of what it draws by itself."""
    most: float
    idle: float
    """When on and empty."""
    off: float
    """When switched off."""
    added: dict[str, Floats]
    """Resource → W above idle at equal steps of its use, from 0 to 1."""

    @property
    def full(self) -> float:
        """What it draws when all of it is in use."""
        return self.idle + float(sum(watts[-1] for watts in self.added.values()))

    @property
    def straight(self) -> bool:
        """Tell whether power rises in a line with the use of each resource."""
        return all(len(watts) == 2 for watts in self.added.values())


def models(run: RunFolder) -> dict[int, Model]:
    """Return machine id → model.

    Raises KeyError, TypeError or ValueError if the scenario does not tell it.
    """
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    pool = len(machines) == 1 and "processors" in run.resources
    number = float(machines[0]["capacity"]["processors"]) if pool else 1.0
    return {
        int(machine["id"]): _model(run, section, machine["capacity"], number)
        for machine, section in zip(machines, machine_sections(run, machines), strict=True)
    }


def machine_sections(run: RunFolder, machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the scenario says of the power of each machine."""
    section = run.setting("power", "machines")
    if "groups" not in section:
        return [section] * len(machines)
    groups = section["groups"]
    chosen = []
    for machine in machines:
        name = str(machine["name"])
        group = re.sub(r"-\d+$", "", name)
        named = [key for key in groups if key != "default" and key in (name, group)]
        chosen.append(groups[named[0] if named else "default"])
    return chosen


def _model(
    run: RunFolder, section: dict[str, Any], capacity: dict[str, float], number: float
) -> Model:
    if section.get("per_resource") is not None:
        idle = float(section["idle_w"])
        added = {name: [0.0, float(w)] for name, w in section["per_resource"].items()}
    else:
        table = section.get("table") or [section["idle_w"], section["full_w"]]
        idle = float(table[0])
        added = {_resource(run, section): [float(watts) - idle for watts in table]}
    boots = section.get("boot_w")
    own = (idle, float(section.get("off_w") or 0.0), idle if boots is None else float(boots))
    return Model(
        number * min(own),
        number * max(own),
        number * idle,
        number * own[1],
        {r: number * np.array(watts) for r, watts in added.items() if capacity.get(r)},
    )


def _resource(run: RunFolder, section: dict[str, Any]) -> str:
    if section.get("resource") is not None:
        return str(section["resource"])
    usual = [name for name in ("cpu", "processors") if name in run.resources]
    return usual[0] if usual else run.resources[0]


def check_machine_power(run: RunFolder) -> Check:
    """At every instant machines draw what their use adds to their own power."""
    check = Check("machine-power", "machines draw what the allocations add to their own power")
    if skipped := no_power(run, check):
        return skipped
    try:
        found = models(run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return check.leave_out(f"the scenario does not tell what machines draw: {error!r}")
    row = columns(run)
    check.examined = len(row["seconds"])
    least, most = (
        sum(getattr(model, which) for model in found.values()) for which in ("least", "most")
    )
    slack = SLACK * (most + row["machines_w"])
    own = row["standing_w"]
    outside = (own < least - slack) | (own > most + slack)
    blame(check, run, "machines without tasks draw more or less than they can", outside)
    times, added = _added(run, found)
    _compare(check, run, row, times, added, slack)
    return check


def _compare(
    check: Check,
    run: RunFolder,
    row: dict[str, Floats],
    times: Floats,
    added: Floats,
    slack: Floats,
) -> None:
    """What use adds holds from a row's start, and no change lies within a row."""
    dynamic = row["machines_w"] - row["standing_w"]
    levels = np.append(0.0, added)[np.searchsorted(times, row["start_s"], side="right")]
    wrong = ~(np.abs(dynamic - levels) <= slack)
    at = np.searchsorted(row["start_s"], times, side="right") - 1
    inside = (at >= 0) & (times < row["end_s"][at])
    at, within = at[inside], added[inside]
    wrong[at[~(np.abs(dynamic[at] - within) <= slack[at])]] = True
    expected = levels + row["standing_w"]
    blame(check, run, "machines_w is not what runs on them", wrong, machines_w=expected)


def _added(run: RunFolder, found: dict[int, Model]) -> tuple[Floats, Floats]:
    """Return the instants at which use changes, and what all use adds from then on, in W."""
    parts: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))]
    held = run.known.filter(pl.col("start_time_s").is_not_null())
    for machine, rows in held.group_by("machine_id", maintain_order=True):
        model = found.get(int(machine[0]))
        for resource, watts in model.added.items() if model else ():
            if resource in run.asked:
                capacity = run.capacity[int(machine[0])][run.resources.index(resource)]
                amount = (rows["count"] * rows[f"one_{resource}"]).to_numpy()
                parts.append(_changes(rows, amount, watts, capacity))
    times, changes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    times, total = times[order], np.cumsum(changes[order].astype(np.longdouble))
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[last], total[last].astype(np.float64)


def _changes(
    rows: pl.DataFrame, amount: Floats, watts: Floats, capacity: float
) -> tuple[Floats, Floats]:
    """Return the instants at which a resource of a machine changes hands, and the changes in W."""
    start = rows["start_time_s"].to_numpy()
    end = rows["end_time_s"].fill_null(np.inf).to_numpy()
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    used = np.cumsum(np.concatenate((amount, -amount))[order])
    return times[order], np.diff(power_at(watts, used / capacity), prepend=0.0)


def power_at(watts: Floats, use: Floats) -> Floats:
    """Return the power in W at (N,) uses, of straight lines between equal steps from 0 to 1.

    Beyond all that there is, as while work drains, the last line goes on.
    """
    beyond = np.maximum(use - 1.0, 0.0) * (watts[-1] - watts[-2]) * (len(watts) - 1)
    level: Floats = np.interp(use, np.linspace(0.0, 1.0, len(watts)), watts) + beyond
    return level


# MERGED The audit of bills: jobs and idle power together pay for all that machines have drawn.


_BILLED = ("energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost")


def check_bills(run: RunFolder) -> Check:
    """Bills are complete, add up, and are each job's part of what machines have drawn."""
    check = Check("bills", "jobs and idle power pay for what machines drew, each job for its part")
    if skipped := no_power(run, check):
        return skipped
    if "energy" not in run.tables:
        return check.skip("the run is not complete and has no bills")
    bills = run.tables["energy"]
    check.examined = bills.height
    _check_ids(check, run, bills)
    _check_sources(check, bills)
    row = columns(run)
    drawn = _drawn(row)
    _check_total(check, bills, row, drawn)
    _check_each(check, run, bills, row, drawn)
    return check


def _check_ids(check: Check, run: RunFolder, bills: pl.DataFrame) -> None:
    """Every job has one bill."""
    check.add_rows("a job has two bills", bills.filter(bills["job_id"].is_duplicated()))
    jobs = run.jobs.select("job_id").unique(maintain_order=True)
    check.add_rows("a job has no bill", jobs.join(bills, on="job_id", how="anti"))
    check.add_rows("a bill of no job", bills.join(jobs, on="job_id", how="anti"))


def _check_sources(check: Check, bills: pl.DataFrame) -> None:
    """The sources of a job's energy add up to it."""
    used = pl.col("energy_j") + pl.col("overhead_j")
    sources = pl.col("renewable_j") + pl.col("battery_j") + pl.col("grid_j")
    wrong = ((used - sources).abs() > SLACK * used.abs()) | (pl.col("energy_j") < 0)
    check.add_rows("the sources of a bill do not add up", bills.filter(wrong.fill_null(value=True)))


def _drawn(row: dict[str, Floats]) -> dict[str, Floats]:
    """Return what 1 W of machine power draws in each row, per s."""
    loaded = row["load_w"] > 0
    load = np.where(loaded, row["load_w"], 1.0)
    each = {
        "energy_j": np.maximum(load - row["unserved_w"], 0.0) / load,
        "renewable_j": row["load_renewable_w"] * row["pue"] / load,
        "battery_j": row["load_battery_w"] * row["pue"] / load,
        "grid_j": row["load_grid_w"] * row["pue"] / load,
        "carbon_g": row["load_carbon_g_per_s"] * row["pue"] / load,
        "cost": row["load_cost_per_s"] * row["pue"] / load,
    }
    sources = each["renewable_j"] + each["battery_j"] + each["grid_j"]
    each["overhead_j"] = sources - each["energy_j"]
    return {name: np.where(loaded, each[name], 0.0) for name in _BILLED}


def _check_total(
    check: Check, bills: pl.DataFrame, row: dict[str, Floats], drawn: dict[str, Floats]
) -> None:
    """What jobs pay and what is idle is what machines have drawn."""
    for name, rate in drawn.items():
        whole, idle, size = (
            float(np.sum((watts * rates * row["seconds"]).astype(np.longdouble)))
            for watts, rates in (
                (row["machines_w"], rate), (row["standing_w"], rate),
                (row["machines_w"], _size(name, drawn)),
            )
        )  # fmt: skip
        jobs = float(np.sum(bills[name].to_numpy().astype(np.longdouble)))
        if not abs(jobs + idle - whole) <= SLACK * size:
            found = {"what": name, "jobs": jobs, "idle": idle, "machines": whole}
            check.add("jobs and idle do not pay for what machines drew", found)


def _size(name: str, drawn: dict[str, Floats]) -> Floats:
    """Return the rate by which a deviation is measured, per s.

    Overhead is the difference of what is drawn and what machines get, so that its last digits are
    those of the energy.
    """
    size = np.abs(drawn[name])
    return size + drawn["energy_j"] if name == "overhead_j" else size


def _check_each(
    check: Check, run: RunFolder, bills: pl.DataFrame, row: dict[str, Floats],
    drawn: dict[str, Floats],
) -> None:  # fmt: skip
    """Each job pays for the W it added; where power is curved only the sum is held."""
    try:
        found = models(run)
    except (KeyError, TypeError, ValueError, AttributeError):
        return  # the rule "machine-power" says so
    if not all(model.straight for model in found.values()):
        check.notes["bills on curves, held by their sum alone"] = bills.height
        return
    held = run.known.filter(
        pl.col("start_time_s").is_not_null(), pl.col("machine_id").is_in(list(found))
    )
    watts = _watts(run, held)
    start = held["start_time_s"].to_numpy()
    end = held["end_time_s"].fill_null(np.inf).to_numpy()
    for name, rate in drawn.items():
        rates = {"expected": rate, "size": _size(name, drawn)}
        parts = [
            pl.Series(part, watts * _between(row, each, start, end)) for part, each in rates.items()
        ]
        paid = held.select("job_id").with_columns(parts)
        paid = paid.group_by("job_id").agg(pl.col(rates).sum())
        both = bills.select("job_id", name).join(paid, on="job_id", how="left")
        both = both.with_columns(pl.col(rates).fill_null(0.0))
        # what a sum over the whole run loses in its last digits
        noise = 1e-12 * float(rates["size"].max(initial=0.0)) * float(row["seconds"].sum())
        slack = SLACK * pl.col("size") + noise * float(watts.max(initial=0.0))
        wrong = both.filter(~((pl.col(name) - pl.col("expected")).abs() <= slack))
        check.add_rows(f"the job's {name} is not its part", wrong.drop("size"))


def _watts(run: RunFolder, held: pl.DataFrame) -> Floats:
    """Return what each allocation adds to its machine's power, in W."""
    rows_of = {machine: n for n, machine in enumerate(sorted(run.capacity))}
    per_unit = np.zeros((len(rows_of), len(run.asked)))
    for machine, model in models(run).items():
        for column, resource in enumerate(run.asked):
            capacity = run.capacity[machine][run.resources.index(resource)]
            if resource in model.added:
                per_unit[rows_of[machine], column] = model.added[resource][-1] / capacity
    on = np.searchsorted(sorted(rows_of), held["machine_id"].to_numpy())
    amounts = held.select(f"one_{resource}" for resource in run.asked).to_numpy()
    watts: Floats = (per_unit[on] * amounts).sum(axis=1) * held["count"].to_numpy()
    return watts


def _between(row: dict[str, Floats], rate: Floats, start: Floats, end: Floats) -> Floats:
    """Return what 1 W has drawn between times, (N,) each."""
    drawn = _until(row, rate, end) - _until(row, rate, start)
    return np.asarray(drawn, dtype=np.float64)


def _until(row: dict[str, Floats], rate: Floats, times: Floats) -> npt.NDArray[np.longdouble]:
    """Return what 1 W has drawn from the ledger's start until each time."""
    sums = np.append(0.0, np.cumsum((rate * row["seconds"]).astype(np.longdouble)))
    at = np.clip(np.searchsorted(row["start_s"], times, side="right") - 1, 0, len(rate) - 1)
    inside = np.clip(times - row["start_s"][at], 0.0, row["seconds"][at])
    return np.asarray(sums[at] + rate[at] * inside, dtype=np.longdouble)
