"""Runs of one log under the name of another are found, whatever column differs.

Each cheat is consistent in itself: the jobs of a table in which one cell is changed are run, and
the results claim to be those of the table as it is. The honest run of each is sound, and its trace
is audited, so that what is found is the cheat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import pytest
from run_records import claimed

from simkit.verify import verify_run

pytestmark = pytest.mark.sampled

HEAD = ["job_id", "submit_time_s", "run_time_s", "processors", "requested_time_s", "user", "group", "executable", "queue", "partition", "qos", "value", "deadline_s"]  # fmt: skip
POOL: dict[str, Any] = {"cluster": {"processors": 8}, "policy": {"order": "fcfs",
                                                                  "backfill": "easy"}}  # fmt: skip
Cells = list[list[str]]


def jobs() -> Cells:
    """Return the rows of a table of 24 jobs, its names first."""
    rows = [HEAD]
    for n in range(24):
        submit, run = n * 20, 30 + n * 37 % 90
        rows.append([
            str(n), str(submit), str(run), str(1 + n * 5 % 8), str(run + n * 11 % 70 + 5),
            f"{n % 3}", f"{n % 2}", f"{n % 5}", f"{1 + n % 2}", f"{n % 4}",
            f"{0.3 + n % 7 / 10:.1f}", f"{n % 6}", f"{submit + 900 + n}",
        ])  # fmt: skip
    return rows


def changed(rows: Cells, column: str, value: str, row: int = 9) -> Cells:
    """Return the rows with one cell changed."""
    at = rows[0].index(column)
    rows = [[*cells] for cells in rows]
    assert rows[row + 1][at] != value
    rows[row + 1][at] = value
    return rows


def csv(path: Path, rows: Cells, separator: str = ",") -> Path:
    path.write_text("".join(separator.join(cells) + "\n" for cells in rows))
    return path


def swf(path: Path, rows: Cells) -> Path:
    """Write the jobs as a log in SWF: submit, run, processors, request, and numbers."""
    lines = ["; UnixStartTime: 1000000\n", "; MaxProcs: 8\n"]
    for job, submit, run, size, asked, user, group, app, queue, partition, *_ in rows[1:]:
        lines.append(f"{int(job) + 1} {submit} -1 {run} {size} -1 -1 {size} {asked} -1 1 {user} "
                     f"{group} {app} {queue} {partition} -1 -1\n")  # fmt: skip
    path.write_text("".join(lines))
    return path


def parquet(path: Path, rows: Cells) -> Path:
    names = ("user", "group", "executable", "queue", "partition")
    frame = pl.DataFrame(rows[1:], schema=rows[0], orient="row")
    frame = frame.with_columns(pl.exclude(names).cast(pl.Float64)).with_columns(
        pl.col("job_id").cast(pl.Int64)
    )
    frame.write_parquet(path)
    return path


def found_in(
    folder: Path,
    write: Callable[[Path, Cells], Path],
    rows: tuple[Cells, Cells],
    workload: Mapping[str, Any],
    sections: Mapping[str, Any],
) -> set[str]:
    """Return the rules that a run of one table breaks which claims to be of the other.

    The honest run is sound, and the rules about its jobs are audited.
    """  # fmt: skip
    paths = [write(folder / name, of) for name, of in zip(("table", "other"), rows, strict=True)]
    says, did = (POOL | {**sections, "workload": {**workload, "path": str(path)}} for path in paths)
    records = claimed(did, says, folder)
    honest = verify_run(folder / "says", inputs=[folder])
    assert honest.found == {}
    assert "trace" in {check.name for check in honest.done}
    return set(records.audit(folder / "cheat").found)


class Cheat(NamedTuple):
    """One cell of the table that is not what the run has."""

    column: str
    value: str
    workload: Mapping[str, Any] = MappingProxyType({})
    sections: Mapping[str, Any] = MappingProxyType({})


LIMIT = {"cluster": {"processors": 8, "partitions": [{"name": "p", "max_running_per_user": 1}]}}
QUEUES = {"cluster": {"processors": 8, "partitions": [
    {"name": "hot", "queues": [1], "priority": 5}, {"name": "rest"}]}}  # fmt: skip
WORTH = {"value": {"qos": "column", "deadlines": "column"}, "admission": {"late": "leave"}}
TABLE_CHEATS: dict[str, Cheat] = {
    "user": Cheat("user", "1", sections=LIMIT),
    "user in words": Cheat("user", "ann"),
    "unknown user": Cheat("user", ""),
    "group": Cheat("group", "7"),
    "executable": Cheat("executable", "7"),
    "queue": Cheat("queue", "1", sections=QUEUES),
    "partition": Cheat("partition", "9"),
    "request": Cheat("requested_time_s", "400"),
    "no request": Cheat("requested_time_s", ""),
    "no limit": Cheat("requested_time_s", "unlimited"),
    "qos": Cheat("qos", "0.99", sections=WORTH),
    "value": Cheat("value", "99", sections={"value": {"qos": "column"}}),
    "value without a section": Cheat("value", "99"),
    "deadline": Cheat("deadline_s", "9000", sections=WORTH),
    "no deadline": Cheat("deadline_s", "", sections=WORTH),
    "request, of some jobs": Cheat("requested_time_s", "400", {"window": {"jobs": "4..15"}}),
    "user, of a window": Cheat("user", "2", {"window": {"start": 100, "end": "5m"}}),
    "run time, denser": Cheat("run_time_s", "31", {"load": 1.7}),
    "deadline, denser": Cheat("deadline_s", "950", {"load": 1.7}, WORTH),
    "processors, scaled": Cheat("processors", "2", {"processors_scale": 0.5}),
    "processors, capped": Cheat("processors", "1", {"processors_max": 3}),
    "run time, scaled": Cheat("run_time_s", "31", {"run_time_scale": 1.25}),
    "request, capped": Cheat("requested_time_s", "33", {"run_time_max": "1m"}),
    "submit, to a load": Cheat("submit_time_s", "181",
                               {"target_load": {"offered_load": 0.8, "processors": 8}}),
    "everything at once": Cheat("user", "2", {
        "window": {"jobs": "2..20"}, "load": 1.3, "processors_scale": 0.7, "processors_max": 4,
        "run_time_scale": 0.9, "run_time_max": 80,
        "target_load": {"offered_load": 0.9, "processors": 8}}),
    "with factors": Cheat("requested_time_s", "400", {"factors": {"requested_time_s": 0.5}}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE_CHEATS)
def test_a_cell_of_a_table_of_jobs_that_differs_is_found(name: str, tmp_path: Path) -> None:
    cheat = TABLE_CHEATS[name]
    rows = jobs()
    both = rows, changed(rows, cheat.column, cheat.value)
    workload = {"type": "jobs", **cheat.workload}
    assert found_in(tmp_path, csv, both, workload, cheat.sections) & {"trace", "tasks"}


SWF_CHEATS: dict[str, Cheat] = {
    # what is done to the jobs is shared with tables, where each way is tried
    "user of the first jobs": Cheat("user", "2", {"window": {"jobs": 12}}),
    "queue in a window": Cheat("queue", "1", {"window": {"start": "1m"}}, QUEUES),
    "date of a window": Cheat("user", "2", {"window": {"end": "1970-01-12T13:51:40Z"}}),
    "processors, capped": Cheat("processors", "1", {"processors_max": 4}),
    "to a load": Cheat("run_time_s", "31",
                       {"target_load": {"offered_load": 0.7, "processors": 8}}),
    "group": Cheat("group", "5"),
}  # fmt: skip


@pytest.mark.parametrize("name", SWF_CHEATS)
def test_a_field_of_a_log_that_differs_is_found(name: str, tmp_path: Path) -> None:
    cheat = SWF_CHEATS[name]
    both = jobs(), changed(jobs(), cheat.column, cheat.value)
    workload = {"type": "swf", "requested_time": "raw", **cheat.workload}
    assert "trace" in found_in(tmp_path, swf, both, workload, cheat.sections)


def dated(form: str) -> Callable[[Cells], Cells]:
    """Return what writes submit times as dates of a day in October."""

    def write(rows: Cells) -> Cells:
        at = rows[0].index("submit_time_s")
        drop = rows[0].index("deadline_s")
        rows = [cells[:drop] for cells in rows]
        for cells in rows[1:]:
            minute, second = divmod(int(cells[at]), 60)
            cells[at] = form.format(h=22 + minute // 60, m=minute % 60, s=second)
        return rows

    return write


DIALECTS: dict[str, tuple[Callable[[Cells], Cells], dict[str, Any]]] = {
    "semicolons and decimal commas": (
        lambda rows: [rows[0], *([c.replace(".", ",") for c in cells] for cells in rows[1:])],
        {"decimal": ","},
    ),
    "marks of no value": (
        lambda rows: changed(changed(rows, "user", "-999", 3), "requested_time_s", "n/a", 5),
        {"missing": [-999]},
    ),
    "a mark that is no name": (
        lambda rows: changed(changed(rows, "user", "x", 3), "user", "X", 5), {"missing": ["x"]},
    ),
    "ISO": (dated("2023-10-05 {h:02}:{m:02}:{s:02}"), {"zone": "Europe/Berlin"}),
    "ISO with a T and fractions": (dated("2023-10-05T{h:02}:{m:02}:{s:02}.250Z"), {}),
    "basic ISO": (dated("20231005T{h:02}{m:02}{s:02}+02:00"), {}),
    "intervals": (dated("2023-10-05 {h:02}:{m:02}:{s:02} / 2023-10-06 01:00"), {"zone": "UTC"}),
    "a form": (dated("5.10.2023 {h}:{m:02}:{s:02}"),
               {"time_format": "%d.%m.%Y %H:%M:%S", "zone": "UTC-6"}),
    "a form with words": (dated("Oct 5, 2023 {h:02}:{m:02}:{s:02}"),
                          {"time_format": "%b %d, %Y %H:%M:%S", "zone": "Asia/Kolkata"}),
    "a form of intervals": (dated("2023-10-05 {h:02}:{m:02}:{s:02}-23:59:59"),
                            {"time_format": "%Y-%m-%d %H:%M:%S-%H:%M:%S", "zone": "UTC"}),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tables_of_any_dialect_are_read_again(dialect: str, tmp_path: Path) -> None:
    change, keys = DIALECTS[dialect]
    both = change(jobs()), changed(change(jobs()), "queue", "7")
    separated = ";" if dialect.startswith("semicolons") else "\t"
    found = found_in(
        tmp_path, lambda path, rows: csv(path, rows, separated), both,
        {"type": "jobs", "separator": separated} | keys, {},
    )  # fmt: skip
    assert "trace" in found


def test_the_end_of_a_day_is_read_again(tmp_path: Path) -> None:
    """24:00 and the next day's 0:00 are one instant."""
    times = ["2023-10-05 24:00", "2023-10-06 00:00", "2023-10-06T00:01:60"]
    rows = [["job_id", "submit_time_s", "run_time_s", "processors", "user"]]
    rows += [[str(n), time, "50", "4", "1"] for n, time in enumerate(times)]
    both = rows, changed(rows, "user", "2", 1)
    found = found_in(tmp_path, csv, both, {"type": "jobs", "zone": "UTC"}, {})
    assert "trace" in found


def test_a_cell_of_a_parquet_table_that_differs_is_found(tmp_path: Path) -> None:
    """There, too, marks stand for no value, and blanks around a name do not count."""
    rows = changed(changed(changed(jobs(), "user", "none", 3), "user", "X", 4), "user", " x ", 5)
    both = rows, changed(rows, "queue", "7")
    assert "trace" in found_in(tmp_path, parquet, both, {"type": "jobs"}, {})


TASKS = [["job", "task", "submit", "run", "asked", "n", "cpu", "who"]] + [
    f"{n // 2},{n % 2},{n // 2 * 15},{20 + n * 7 % 40},{50 + n * 7 % 60},{1 + n % 3},1,u{n // 4}"
    .split(",")
    for n in range(24)
]  # fmt: skip
COLUMNS = {"job_id": "job", "task_id": "task", "submit_time_s": "submit", "run_time_s": "run",
           "requested_time_s": "asked", "instances": "n", "cpu": "cpu", "user": "who"}  # fmt: skip
CLOUD = {"cluster": {"machines": [{"count": 2, "cpu": 4}]}, "policy": {"fitness": "best-fit"}}
TASK_CHEATS: dict[str, Cheat] = {
    "user": Cheat("who", "u0"),
    "user of a window": Cheat("who", "u0", {"window": {"jobs": "1..9"}}),
    "request of the first task": Cheat("asked", "7"),
    "request at another load": Cheat("asked", "7", {"load": 2.0}),
    "run time, scaled": Cheat("run", "21", {"run_time_scale": 1.5}),
    "instances, scaled": Cheat("n", "1", {"processors_scale": 2.0}),
    "instances, capped": Cheat("n", "1", {"processors_max": 2}),
    "run time to a load": Cheat("run", "21",
                                {"target_load": {"offered_load": 0.5, "processors": 8}}),
    "run time of a gang": Cheat("run", "21", {"gang": True, "run_time_max": 45}),
    "killed at the request": Cheat("asked", "7", {"gang": True}, {"walltime": "kill"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TASK_CHEATS)
def test_a_cell_of_a_table_of_tasks_that_differs_is_found(name: str, tmp_path: Path) -> None:
    cheat = TASK_CHEATS[name]
    both = TASKS, changed(TASKS, cheat.column, cheat.value, 8)
    workload = {"type": "tasks", "columns": COLUMNS, **cheat.workload}
    found = found_in(tmp_path, csv, both, workload, {**CLOUD, **cheat.sections})
    assert found & {"trace", "tasks", "estimates"}


NOT_READ_AGAIN: dict[str, dict[str, Any]] = {
    "a resample": {"type": "swf", "resample": {"weeks": 3}},
    "a model": {"type": "uniform", "jobs": 20, "processors": 8, "offered_load": 0.8},
    "a model with modal requests": {"type": "lublin", "jobs": 20, "processors": 8,
                                    "offered_load": 0.8, "users": 3, "estimates": "modal"},
    "a denser model": {"type": "poisson", "jobs": 20, "processors": 8, "offered_load": 0.8,
                       "load": 1.5},
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_READ_AGAIN)
def test_jobs_of_another_seed_are_never_said_to_hold(name: str, tmp_path: Path) -> None:
    workload = NOT_READ_AGAIN[name]
    if workload["type"] == "swf":
        workload = workload | {"path": str(swf(tmp_path / "log", jobs()))}
    says, did = (POOL | {"workload": workload, "seed": seed} for seed in (3, 4))
    audit = claimed(did, says, tmp_path).audit(tmp_path / "cheat")
    assert "trace" in audit.not_audited
    assert not audit.fully_audited


@pytest.mark.parametrize("gang", [True, False])
def test_tasks_that_run_past_their_requests_are_found(gang: bool, tmp_path: Path) -> None:
    """Each task of a job has a limit of its own, which the table of tasks says."""
    table = csv(tmp_path / "tasks.csv", changed(changed(TASKS, "asked", "7", 9), "asked", "9", 12))
    workload = {"type": "tasks", "columns": COLUMNS, "path": str(table), "gang": gang}
    did, says = (CLOUD | {"workload": workload, "walltime": rule} for rule in ("ignore", "kill"))
    records = claimed(did, says, tmp_path)
    honest = verify_run(tmp_path / "says", inputs=[tmp_path])
    assert honest.found == {}
    assert "walltime" in {check.name for check in honest.done}
    assert "walltime" in records.audit(tmp_path / "cheat").found
