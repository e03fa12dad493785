"""The content of `run.json`: scenario, input files, cluster, versions and memory."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import file_digest
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.results.run_folder import FORMAT, PORTABLE
from simkit.scenario import Scenario, portable_form, scenario_hash
from simkit.scenario.bundled import agent_files
from simkit.scenario.policy import AgentPolicy, ModelPolicy, policies_in
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.cluster import Cluster, Partition
from simkit.workload.trace import rows_facts

if TYPE_CHECKING:
    from simkit.power.site import Site

_PACKAGES = ("numpy", "polars", "pyarrow", "pydantic", "scipy", "simpy")
"""Distributions whose versions are recorded besides simkit's."""


def identity(scenario: Scenario, given: Sequence[str] = ()) -> dict[str, Any]:
    """Return by what a run is known as the same: its scenario after defaults, and its SHA-256.

    `given` are the parts that Python objects took the place of, which nothing in a scenario tells
    apart: policy, workload, cluster, processes.
    """
    return {
        "name": scenario.name,
        "scenario": scenario.model_dump(mode="json"),
        "scenario_sha256": scenario_hash(scenario),
        **({"given": list(given)} if given else {}),
    }


def first_info(
    scenario: Scenario,
    trace: Trace,
    cluster: Cluster,
    site: Site | None = None,
    *,
    given: Sequence[str] = (),
    hashed: bool = True,
) -> dict[str, Any]:
    """Return what is known before the simulation; `given` is as in `identity`.

    Unless `hashed`, no input file is read for its SHA-256: `inputs` and the portable form of the
    scenario are left out.
    """
    reports = {} if site is None else site.reports
    return {
        "format": FORMAT,
        "status": "incomplete",
        "error": "",
        **identity(scenario, given),
        **(_hashed_inputs(scenario, trace, cluster, site) if hashed else {}),
        "trace": _rows(trace.report),
        "tables": {
            name: _rows(report)
            for name, report in {**trace.tables, **cluster.reports, **reports}.items()
        },
        "epoch_s": _finite(trace.workload.epoch_s),
        "time_zone": trace.workload.time_zone,
        "cluster": _cluster(cluster, trace.workload),
        **({} if site is None else {"power": dict(site.facts)}),
        "seed": scenario.seed,
        "versions": versions(),
        "jobs": len(trace.workload),
    }


def _hashed_inputs(
    scenario: Scenario, trace: Trace, cluster: Cluster, site: Site | None
) -> dict[str, Any]:
    """Return the input files with their SHA-256, and the scenario with these in place of paths."""
    power = () if site is None else site.inputs
    inputs = _inputs([*trace.inputs, *cluster.inputs, *power, *_own_files(scenario)])
    hashes = {entry["path"]: entry["sha256"] for entry in inputs}
    return {PORTABLE: portable_form(scenario, hashes), "inputs": inputs}


def _inputs(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return path, SHA-256 and size of each file; each file once."""
    unique = dict.fromkeys(path.absolute() for path in paths)
    return [
        {"path": str(path), "sha256": file_sha256(path), "bytes": path.stat().st_size}
        for path in unique
    ]


def changed_inputs(info: Mapping[str, Any]) -> list[str]:
    """Return the files that a run read and that are not as they were, by its run.json.

    A file that is gone counts as changed: a log, a policy, an agent.
    """
    entries = [entry for entry in info.get("inputs") or () if isinstance(entry, Mapping)]
    return [str(entry.get("path")) for entry in entries if not _is_unchanged(entry)]


def _is_unchanged(entry: Mapping[str, Any]) -> bool:
    path = Path(str(entry.get("path")))
    try:
        same_size = path.is_file() and path.stat().st_size == entry.get("bytes")
        return bool(same_size and file_sha256(path) == entry.get("sha256"))
    except OSError:
        return False


def file_sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _own_files(scenario: Scenario) -> list[Path]:
    """Return the Python files that a scenario names, and the files of its agent or model.

    Those of the user's metrics change no result: metrics.json has their SHA-256.
    """
    section = scenario.model_dump(exclude={"metrics": {"custom"}})
    found = (re.fullmatch(r"(.+\.py):[\w.]+", text) for text in _texts(section))
    files = [Path(match[1]) for match in found if match and Path(match[1]).is_file()]
    for policy in policies_in(scenario.policy):
        if isinstance(policy, AgentPolicy):
            files += agent_files(policy.agent)
        elif isinstance(policy, ModelPolicy):
            files += [Path(file) for file in (policy.model, policy.statistics) if file is not None]
    return files


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)


def _rows(report: RowReport) -> dict[str, Any]:
    """Return the counts of a table's rows: ``read = accepted + repaired + dropped``."""
    facts = rows_facts(report)
    return {"read": facts.pop("rows"), **facts}


def _cluster(cluster: Cluster, workload: Workload) -> dict[str, Any]:
    """Return resources, machines and partitions; a machine's id is its row.

    Queues and partitions of the trace are given as in the table of jobs: by name if they have
    names, else by number.
    """
    rows = zip(cluster.machine_names, cluster.capacity.tolist(), strict=True)
    return {
        "resources": list(cluster.resources),
        "machines": [
            {
                "id": number,
                "name": name,
                "capacity": dict(zip(cluster.resources, amounts, strict=True)),
            }
            for number, (name, amounts) in enumerate(rows)
        ],
        "partitions": [
            _partition(part, len(cluster.capacity), workload) for part in cluster.partitions
        ],
    }


def _partition(partition: Partition, machines: int, workload: Workload) -> dict[str, Any]:
    rows = range(machines) if partition.machines is None else partition.machines
    return {
        "name": partition.name,
        "machines": list(rows),
        "priority": partition.priority,
        "preempt": partition.preempt,
        "max_time_s": _finite(partition.max_time_s),
        "max_processors": _finite(partition.max_demand),
        "max_running_per_user": _finite(partition.max_running_per_user),
        "max_waiting_per_user": _finite(partition.max_waiting_per_user),
        "queues": [workload.label_of("queue", n) for n in sorted(partition.queues)],
        "partitions": [workload.label_of("partition", n) for n in sorted(partition.partitions)],
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def versions() -> dict[str, str]:
    """Return the versions of simkit, Python, the platform and `_PACKAGES`."""
    return {
        "simkit": _version("simkit-cluster"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: _version(name) for name in _PACKAGES},
    }


@cache  # a lookup takes milliseconds, and an evaluation has hundreds of runs
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def peak_memory_bytes() -> int | None:
    """Return the peak memory of this process; None if the platform does not count it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
