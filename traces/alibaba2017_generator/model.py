"""Numbers fitted to the published tables of cluster-trace-v2017, from which traces are generated.

Alibaba Cluster Trace Program, cluster-trace-v2017. Fitted: everything about jobs and tasks, to
the 80,553 tasks and 12,951 jobs of batch_task; machines, to the 1,313 machines and 39 errors of
server_event; mean run times of instances, to the 31,735 tasks of CloudSimPy's job table that can
be found in batch_task. Assumed, for want of the tables: what is said to be below.

batch_instance, container_event and the usage tables are not among the tables these numbers were
fitted to: what is known of them are counts (issues #10 and #13 of the trace's repository) and the
description.

The tables in ``fitted.json`` are knots of cumulative curves (see `Marginal`), chosen so that no
curve is off by more than 0.004 to 0.012. They are not rows of the trace.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import numpy as np

from simkit.arrays import Floats, Ints


@dataclass(frozen=True)
class Marginal:
    """A fitted distribution: values of at least 0 and the share of all that does not exceed each.

    Between two knots the curve is straight over log(1 + value); a value that stands twice is one
    that many rows have, and takes the whole share between its two knots.
    """

    knots: Sequence[Sequence[float]]
    """((value, share up to and with it), …), both ascending, the last share 1."""

    def at(self, level: Floats) -> Floats:
        """Return the values at these levels, shares in 0 … 1, of any shape."""
        values, shares = np.array(self.knots).T
        return np.asarray(np.expm1(np.interp(level, shares, np.log1p(values))))

    def whole_at(self, level: Floats) -> Ints:
        """Return the whole numbers at these levels: those of whole knots have their exact share."""
        return np.ceil(self.at(level) - 1e-9).astype(np.int64)


_FITTED: Final[dict[str, Any]] = json.loads(
    resources.files(__package__).joinpath("fitted.json").read_text(encoding="utf-8")
)


def _by_name(table: str) -> dict[str, Marginal]:
    return {name: Marginal(knots) for name, knots in _FITTED[table].items()}


JOBS: Final = 12_951
MACHINES: Final = 1_313
DAY_S: Final = 86_400

# ---- jobs --------------------------------------------------------------------------------------

KINDS: Final = ("finished", "waiting", "broken")
"""Jobs whose tasks all ended, whose tasks never began, and with failed or running tasks."""
KIND_COUNTS: Final = (10_777, 937, 1_237)

TASKS_PER_JOB: Final = _by_name("tasks_per_job")

ARRIVAL_EDGES_S: Final = (-1_078, *range(0, 59_401, 1_800), 60_182)
ARRIVALS: Final[tuple[int, ...]] = tuple(_FITTED["arrivals"])
"""Jobs submitted between two edges: the first came before the trace's zero."""
BURST_JOBS: Final = 5.5
BURST_SPREAD_S: Final = 55.0
"""Jobs come in bursts, of this many on average, which follow the burst's begin after so long on
average. The variance of their number over its mean is then 1.1 in a second, 4.5 in a minute and
8.4 in five minutes, as it is in the trace (around its half-hourly rate)."""
JOBS_IN_ORDER: Final = 50
"""The trace's rows are 258 stretches in the order of time, one after the other."""

# ---- tasks -------------------------------------------------------------------------------------

LATE_SHARE: Final = 0.089
VERY_LATE_SHARE: Final = 0.0027
"""Tasks created a second, and two or more seconds, after their job's first; the others with it."""
VERY_LATE_S: Final = 5.0
BROKEN_WITH_FAILED: Final = (0.38, 0.95)
"""Share of broken jobs of one task, and of more, that have a task that failed (nearly always one);
the others have a running one."""
RUNNING_SHARE: Final = 0.478
"""Share of running tasks among the other tasks of broken jobs; the rest ended."""

INSTANCES_PER_TASK: Final = Marginal(_FITTED["instances_per_task"])
INSTANCES_OF_WAITING: Final = Marginal(_FITTED["instances_of_waiting"])

WALL_S: Final = _by_name("wall_s")
"""End − creation by status, in s."""

CPU_VALUES: Final = (50, 100, 40, 75, 55, 65, 60, 70, 200, 600, 400, 300, 800)
CPU_COUNTS: Final = (52_901, 17_584, 372, 274, 122, 109, 77, 76, 8, 5, 4, 2, 2)
"""plan_cpu, in hundredths of a core, and the tasks that ask for it."""
SAME_CPU_SHARE: Final = 0.98
"""Tasks that ask for their job's plan_cpu: then 95 % of the jobs have one for all their tasks."""
LARGE_CPU: Final = 100
MEMORY: Final = _by_name("memory")
"""plan_mem of tasks that ask for less than a core, and for a core or more."""

TOTAL_CORRELATION: Final = np.array(((1.0, 0.624, 0.656), (0.624, 1.0, 0.535), (0.656, 0.535, 1.0)))
JOB_CORRELATION: Final = np.array(
    ((0.307, 0.273, 0.255), (0.273, 0.531, 0.292), (0.255, 0.292, 0.270))
)
"""Correlations of the Gaussian scores behind instances, wall time and memory: of a task's own, and
of two tasks of a job. Large tasks take long and ask for much, and a job's tasks are alike. Fitted
so that the normal scores of generated tasks correlate as those of the trace's ended tasks do."""

NO_REQUEST: Final = {
    "Terminated": 10 / 67_013, "Failed": 1 / 1_126, "Running": 159 / 3_567, "Waiting": 1.0,
}  # fmt: skip
"""Share of tasks with empty plan_cpu and plan_mem."""
END_ZERO: Final = {"Terminated": 0.0, "Failed": 0.0, "Running": 208 / 3_567, "Waiting": 0.0}
ENDS_EARLY: Final = {"Terminated": 1 / 67_013, "Failed": 0.0, "Running": 0.0, "Waiting": 0.0}
"""Share of tasks that end a second before they are created."""

# ---- run times of instances (fitted) -----------------------------------------------------------

RUN_SHARE: Final[tuple[tuple[int, int, Marginal], ...]] = tuple(
    (instances, wall_s, Marginal(knots)) for instances, wall_s, knots in _FITTED["run_share"]
)
"""Smallest number of instances and of seconds of wall time (the last row that applies) → mean run
time of an instance as a share of its task's wall time. CloudSimPy's table has few tasks of more
than 500 s (1 %, the trace 8 %), so that for those this is a guess from few."""
RUN_SPREAD: Final = 0.5
"""Assumed: run times of a task's instances lie evenly within this share of their mean, or within
what the task's end leaves."""

# ---- rows of batch_instance (counts known, causes assumed) -------------------------------------

NOBODYS_SHARE: Final = 0.0131
"""Known: 211,305 rows, 1.31 % of all, lack job and task id (issue #10)."""
NOBODYS_LATE_SHARE: Final = 0.85
NOBODYS_LATE_S: Final = (60_000, 89_000)
"""Known: 85 % of these rows start between 60,000 s and 89,000 s, when no task is created."""
NOBODYS_GROUP: Final = 30
"""Assumed: this many of these rows at once have the same times, on different machines."""
ATTEMPTS: Final = (211_305 / NOBODYS_SHARE - 211_305) / 11_909_321
"""Rows for a planned instance, 1.337. The count is known; that all rows beyond the planned ones are
attempts before the last is assumed."""
INTERRUPTED_SHARE: Final = 0.5
"""Assumed: attempts before the last that were interrupted; the others failed, without an end."""
UNENDED_SHARE: Final = {"Failed": 0.1, "Running": 0.5}
"""Assumed: instances of failed tasks that failed, of running tasks that still run; at least one."""
CPU_USED: Final = (0.2, 1.0)
MEM_USED: Final = (0.3, 0.9)
"""Assumed: mean use of what an instance asks for; its maximum is up to half as much again."""
NO_USAGE_SHARE: Final = 0.01
"""Assumed: rows within the measured hours that lack their usage; that there are some is known."""

# ---- machines (fitted) -------------------------------------------------------------------------

CORES: Final = 64
CAPACITIES: Final = (
    ((0.6899697150104833, 1.0), 735), ((0.6900007765381927, 1.0), 365),
    ((0.6900059534594777, 1.0), 198), ((0.9999585846297208, 1.0), 7), ((1.0, 1.0), 5),
    ((0.6899697150104833, 0.09572460286727773), 1), ((0.6900059534594777, 0.9663781118484632), 1),
    ((0.5747883933424792, 1.0), 1),
)  # fmt: skip
"""(Memory, disk) of a machine and how many machines have them."""
FAULTY_MACHINES: Final = 7
LASTING_SHARE: Final = 3 / 7
"""Faulty machines whose error comes back all day; the others have a few within two hours."""
RETURN_S: Final = 7_330
FEW_ERRORS: Final = (1, 4)
ERRORS: Final = (
    ("agent_check", 19), ("machine_fail", 15), ("daemon_check", 3), ("disk_full", 1),
    ("nc_diskless", 1),
)  # fmt: skip
"""Details of soft errors and how often they occur. The trace has no hard errors."""

# ---- containers and usage ----------------------------------------------------------------------

USAGE_FROM_S: Final = 39_600
USAGE_UNTIL_S: Final = 82_800
"""Known: usage is disclosed for these twelve hours."""
USAGE_INTERVAL_S: Final = 300
CONTAINERS_PER_MACHINE: Final = 1_480_906 / 144 / 1_313
"""Known: 1,480,906 rows of usage (issue #13); if each of the 144 intervals has every container,
these are 7.8 for a machine."""
HIDDEN_SHARE: Final = 24_570 / 1_480_906
"""Known: rows of container_usage whose container has no row in container_event."""
CONTAINER_LAWS: Final = (
    ((2, 0.15), (4, 0.55), (6, 0.1), (8, 0.2)),
    ((0.0212, 0.4), (0.0424, 0.45), (0.0848, 0.15)),
)
CONTAINER_DISK: Final = (0.02, 0.08)
"""Assumed: cores, memory and disk that a container holds, with their shares."""
LARGEST_FILL: Final = 0.9
"""Assumed: share of a machine that its containers hold at most."""
LATE_CONTAINERS: Final = 0.03
REMOVED_CONTAINERS: Final = 0.02
"""Assumed: containers that are created, and removed, during the day."""
