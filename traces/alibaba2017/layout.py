"""The tables of Alibaba's cluster-trace-v2017: their columns, in the order of its schema.csv.

Alibaba Cluster Trace Program, "Cluster data collected from production clusters in Alibaba for
cluster management research", cluster-trace-v2017. The files have no header. Names on the left are
ours; ids are whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

Kind = Literal["id", "number", "text"]

_LOADS: Final[dict[str, Kind]] = {"load1": "number", "load5": "number", "load15": "number"}

COLUMNS: Final[dict[str, dict[str, Kind]]] = {
    "batch_task": {
        "create_time_s": "number",
        "end_time_s": "number",
        "job_id": "id",
        "task_id": "id",
        "instances": "number",
        "status": "text",
        "plan_cpu": "number",
        "plan_mem": "number",
    },
    "batch_instance": {
        "start_time_s": "number",
        "end_time_s": "number",
        "job_id": "id",
        "task_id": "id",
        "machine_id": "id",
        "status": "text",
        "seq_no": "number",
        "total_seq_no": "number",
        "cpu_max": "number",
        "cpu_mean": "number",
        "mem_max": "number",
        "mem_mean": "number",
    },
    "server_event": {
        "time_s": "number",
        "machine_id": "id",
        "event": "text",
        "detail": "text",
        "cpu": "number",
        "mem": "number",
        "disk": "number",
    },
    "server_usage": {
        "time_s": "number",
        "machine_id": "id",
        "cpu_percent": "number",
        "mem_percent": "number",
        "disk_percent": "number",
        **_LOADS,
    },
    "container_event": {
        "time_s": "number",
        "event": "text",
        "container_id": "id",
        "machine_id": "id",
        "cpu": "number",
        "mem": "number",
        "disk": "number",
        "cpu_set": "text",
    },
    "container_usage": {
        "time_s": "number",
        "container_id": "id",
        "cpu_percent": "number",
        "mem_percent": "number",
        "disk_percent": "number",
        **_LOADS,
        "cpi_mean": "number",
        "mpki_mean": "number",
        "cpi_max": "number",
        "mpki_max": "number",
    },
}
"""Table → its columns and what they hold."""

_MOST_AND_MEAN: Final = {"max": "most", "mean": "mean"}
HOLDS: Final = {
    "machine_id": "machine that it ran on",
    "seq_no": "which attempt it was",
    "total_seq_no": "how many attempts there were",
    "detail": "why the machine failed",
    "cpu": "cores",
    "mem": "memory",
    "disk": "disk",
    "cpi_mean": "cycles an instruction",
    "cpi_max": "cycles an instruction",
    "mpki_mean": "cache misses",
    "mpki_max": "cache misses",
    **dict.fromkeys(_LOADS, "load of the machine"),
    "cpu_set": "the cores that it is bound to",
    **{f"{what}_{key}": f"{word} {what} used" for what in ("cpu", "mem")
       for key, word in _MOST_AND_MEAN.items()},
}  # fmt: skip
"""Column that a reader may leave aside → what it holds."""


def unread(table: str, read: Sequence[str]) -> list[str]:
    """Return the columns of a table that are not among those read."""
    return [name for name in COLUMNS[table] if name not in read]


TABLES: Final = tuple(COLUMNS)
CPU_PER_CORE: Final = 100.0
"""`plan_cpu` counts hundredths of a core; the machines' cpu counts cores."""

NAMES_OF_2018: Final = ("machine_meta", "machine_usage", "container_meta")
"""Tables that only cluster-trace-v2018 has; the others have the names of v2017's."""
_WIDTHS_OF_2018: Final = {"batch_task": 9, "batch_instance": 14, "container_usage": 11}


def looks_like_2018(table: str, fields: list[str]) -> bool:
    """Return whether a row has the form of v2018: another width, or ids such as m_12 and c_3."""
    if len(fields) == _WIDTHS_OF_2018.get(table):
        return True
    prefix, _, number = fields[0].partition("_")
    return prefix in ("m", "c") and number.isdigit()
