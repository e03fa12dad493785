"""Numbers for generated instances, machines and containers: fitted where tables are published.

Sources as in `alibaba2017_model`. batch_instance, container_event and the usage tables are not
among the tables these numbers were fitted to: what is known of them are counts (issues #10 and #13
of the trace's repository) and the description. The rest is assumed and says so.
"""

from __future__ import annotations

from typing import Final

from .alibaba2017_marginals import Marginal

# ---- run times of instances (fitted) -----------------------------------------------------------

_LEVELS: Final = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def _share(*values: float) -> Marginal:
    return Marginal(tuple(zip(values, _LEVELS, strict=True)))


RUN_SHARE: Final = (
    (1, 0, _share(
        0.2, 0.3, 0.5, 0.75, 0.833, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
    )),
    (2, 0, _share(
        0.446, 0.521, 0.568, 0.667, 0.75, 0.802, 0.846, 0.875, 0.905, 0.935, 0.964, 1.0,
    )),
    (3, 0, _share(
        0.284, 0.461, 0.599, 0.729, 0.811, 0.87, 0.916, 0.947, 0.975, 0.999, 1.0, 1.0,
    )),
    (32, 0, _share(
        0.181, 0.275, 0.385, 0.54, 0.649, 0.741, 0.814, 0.885, 0.932, 0.963, 0.989, 1.0,
    )),
    (128, 0, _share(
        0.045, 0.197, 0.296, 0.429, 0.534, 0.613, 0.695, 0.776, 0.86, 0.907, 0.947, 1.0,
    )),
    (128, 300, _share(
        0.006, 0.025, 0.036, 0.06, 0.145, 0.245, 0.389, 0.555, 0.787, 0.921, 0.952, 1,
    )),
    (512, 0, _share(
        0.011, 0.02, 0.029, 0.057, 0.113, 0.178, 0.241, 0.328, 0.456, 0.635, 0.826, 1.0,
    )),
    (512, 300, _share(
        0.001, 0.008, 0.044, 0.12, 0.16, 0.216, 0.264, 0.315, 0.348, 0.413, 0.516, 1.0,
    )),
    (512, 1_000, _share(
        0.001, 0.005, 0.009, 0.048, 0.061, 0.091, 0.114, 0.138, 0.171, 0.195, 0.221, 0.508,
    )),
)  # fmt: skip
"""From so many instances and so many seconds of wall time on (the last row that applies) → mean run
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
"""Assumed: so many of these rows at once have the same times, on different machines."""
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
CONTAINER_CPU: Final = ((2, 0.15), (4, 0.55), (6, 0.1), (8, 0.2))
CONTAINER_MEM: Final = ((0.0212, 0.4), (0.0424, 0.45), (0.0848, 0.15))
CONTAINER_DISK: Final = (0.02, 0.08)
"""Assumed: cores, memory and disk that a container holds, with their shares."""
LARGEST_FILL: Final = 0.9
"""Assumed: share of a machine that its containers hold at most."""
LATE_CONTAINERS: Final = 0.03
REMOVED_CONTAINERS: Final = 0.02
"""Assumed: containers that are created, and removed, during the day."""
