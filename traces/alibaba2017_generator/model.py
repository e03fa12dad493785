"""Numbers fitted to the published tables of cluster-trace-v2017, from which traces are generated.

Alibaba Cluster Trace Program, cluster-trace-v2017. Fitted: everything about jobs and tasks, to
the 80,553 tasks and 12,951 jobs of batch_task; machines, to the 1,313 machines and 39 errors of
server_event; mean run times of instances, to the 31,735 tasks of CloudSimPy's job table that can
be found in batch_task. Assumed, for want of the tables: what is said to be below.

The tables are knots of cumulative curves (see `alibaba2017_marginals.Marginal`), so chosen that no
curve is off by more than 0.004 to 0.012. They are no rows of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints

# MERGED A fitted distribution: knots of its cumulative curve, drawn from by inversion.


@dataclass(frozen=True)
class Marginal:
    """Values of at least 0 and the share of all that does not exceed each.

    Between two knots the curve is straight over log(1 + value); a value that stands twice is one
    that many rows have, and takes the whole share between its two knots.
    """

    knots: tuple[tuple[float, float], ...]
    """((value, share up to and with it), …), both ascending, the last share 1."""

    def __post_init__(self) -> None:
        """Check our own tables."""
        values, shares = np.array(self.knots).T
        assert (np.diff(values) >= 0).all()
        assert (np.diff(shares) >= 0).all()
        assert values[0] >= 0
        assert shares[-1] == 1

    def at(self, level: Floats) -> Floats:
        """Return the values at these levels, shares in 0 … 1, of any shape."""
        values, shares = np.array(self.knots).T
        return np.asarray(np.expm1(np.interp(level, shares, np.log1p(values))))

    def whole_at(self, level: Floats) -> Ints:
        """Return the whole numbers at these levels: those of whole knots have their exact share."""
        return np.ceil(self.at(level) - 1e-9).astype(np.int64)

    def share_upto(self, value: float) -> float:
        """Return which share of all is at most `value`."""
        values, shares = np.array(self.knots).T
        last = np.searchsorted(values, value, side="right") - 1
        if last < 0:
            return 0.0
        if last == len(values) - 1 or values[last] == value:
            return float(shares[last])
        rows = slice(last, last + 2)
        return float(np.interp(np.log1p(value), np.log1p(values[rows]), shares[rows]))


JOBS: Final = 12_951
MACHINES: Final = 1_313
DAY_S: Final = 86_400

# ---- jobs --------------------------------------------------------------------------------------

KINDS: Final = ("finished", "waiting", "broken")
"""Jobs whose tasks all ended, whose tasks never began, and with failed or running tasks."""
KIND_COUNTS: Final = (10_777, 937, 1_237)

TASKS_PER_JOB: Final = {
    "finished": Marginal((
        (1, 0.27522), (2, 0.37942), (3, 0.44038), (4, 0.50979), (5, 0.61687), (6, 0.66596),
        (7, 0.73369), (8, 0.76895), (10, 0.81377), (11, 0.8893), (12, 0.91602), (14, 0.93384),
        (16, 0.95927), (23, 0.98367), (44, 0.99768), (67, 0.999), (156, 1),
    )),
    "waiting": Marginal((
        (1, 0.01387), (2, 0.06403), (4, 0.15368), (5, 0.1953), (6, 0.25614), (7, 0.39594),
        (8, 0.46638), (10, 0.49413), (11, 0.72572), (12, 0.8143), (14, 0.83244), (15, 0.91355),
        (16, 0.97545), (28, 0.99787), (44, 1),
    )),
    "broken": Marginal((
        (1, 0.07033), (3, 0.26273), (4, 0.35651), (5, 0.45352), (6, 0.50606), (7, 0.67987),
        (8, 0.73161), (10, 0.76718), (11, 0.87146), (12, 0.91916), (14, 0.92886), (15, 0.96039),
        (20, 0.97979), (21, 0.98868), (69, 1),
    )),
}  # fmt: skip

ARRIVAL_EDGES_S: Final = (-1_078, *range(0, 59_401, 1_800), 60_182)
ARRIVALS: Final = (
    19, 339, 428, 227, 386, 305, 379, 339, 347, 325, 341, 176, 276, 320, 325, 334, 272, 206, 267,
    240, 256, 326, 338, 509, 653, 553, 747, 657, 564, 660, 554, 670, 303, 259, 51,
)  # fmt: skip
"""Jobs submitted between two edges: the first came before the trace's zero."""
BURST_JOBS: Final = 5.5
BURST_SPREAD_S: Final = 55.0
"""Jobs come in bursts, of so many on average, which follow the burst's begin after so long on
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

INSTANCES_PER_TASK: Final = Marginal((
    (1, 0.43765), (3, 0.54352), (4, 0.54944), (5, 0.57496), (6, 0.57981), (7, 0.59529),
    (10, 0.61299), (13, 0.63819), (22, 0.66812), (32, 0.70082), (35, 0.71553), (216, 0.84718),
    (315, 0.88907), (498, 0.92334), (499, 0.92446), (500, 0.93975), (501, 0.94616),
    (521, 0.94897), (1109, 0.97667), (1115, 0.98149), (1660, 0.9889), (2208, 0.99279),
    (4300, 0.9956), (6993, 0.9978), (13919, 0.9989), (20038, 0.99945), (33682, 0.99989),
    (64486, 1),
))  # fmt: skip
INSTANCES_OF_WAITING: Final = Marginal((
    (1, 0.48841), (2, 0.62631), (3, 0.65175), (177, 0.80411), (215, 0.82344), (253, 0.85566),
    (498, 0.91986), (500, 0.96338), (501, 0.97197), (520, 0.97536), (1654, 1),
))  # fmt: skip

WALL_S: Final = {
    "Terminated": Marginal((
        (0, 0.00045), (1, 0.00979), (2, 0.03056), (3, 0.06697), (4, 0.12341), (5, 0.18732),
        (6, 0.22612), (10, 0.30832), (14, 0.38548), (17, 0.42383), (29, 0.50657), (103, 0.68631),
        (345, 0.87196), (528, 0.9237), (683, 0.94525), (1023, 0.96833), (1847, 0.98532),
        (3395, 0.993), (5919, 0.99806), (11165, 0.9995), (29585, 1),
    )),
    "Failed": Marginal((
        (0, 0.00266), (1, 0.00977), (7, 0.10568), (22, 0.26021), (29, 0.30995), (42, 0.41208),
        (58, 0.51243), (84, 0.65897), (145, 0.82771), (193, 0.88988), (269, 0.93073),
        (427, 0.9627), (1066, 0.98845), (35863, 1),
    )),
    "Running": Marginal((
        (0, 0.00923), (1, 0.01756), (2, 0.0384), (4, 0.0777), (7, 0.13427), (8, 0.17743),
        (10, 0.21673), (17, 0.29086), (27, 0.37273), (40, 0.4939), (42, 0.49896), (47, 0.54272),
        (53, 0.56207), (60, 0.59839), (66, 0.64662), (80, 0.69068), (86, 0.71509), (87, 0.73444),
        (101, 0.75767), (102, 0.7794), (115, 0.80976), (152, 0.86008), (257, 0.91813),
        (561, 0.93331), (600, 0.96844), (601, 1),
    )),
    "Waiting": Marginal((
        (10, 0.29976), (11, 0.74296), (12, 0.82084), (15, 0.94156), (16, 0.9636), (21, 1),
    )),
}  # fmt: skip
"""End − creation by status, in s."""

CPU_VALUES: Final = (50, 100, 40, 75, 55, 65, 60, 70, 200, 600, 400, 300, 800)
CPU_COUNTS: Final = (52_901, 17_584, 372, 274, 122, 109, 77, 76, 8, 5, 4, 2, 2)
"""plan_cpu, in hundredths of a core, and the tasks that ask for it."""
SAME_CPU_SHARE: Final = 0.98
"""Tasks that ask for their job's plan_cpu: then 95 % of the jobs have one for all their tasks."""
LARGE_CPU: Final = 100
MEMORY: Final = {
    "small": Marginal((
        (0.003815391, 0), (0.003960345, 0.00842), (0.004053529, 0.0402), (0.004053529, 0.05985),
        (0.004074237, 0.07701), (0.004074237, 0.09966), (0.004079414, 0.09966),
        (0.004079414, 0.11975), (0.004089768, 0.13756), (0.004089768, 0.17417),
        (0.004094945, 0.17417), (0.004094945, 0.22243), (0.004110476, 0.24038),
        (0.004115652, 0.25141), (0.004115652, 0.26601), (0.004167422, 0.32054),
        (0.004208837, 0.34031), (0.005404706, 0.35525), (0.005404706, 0.44427),
        (0.005736029, 0.44427), (0.005736029, 0.47272), (0.007811974, 0.47333),
        (0.00805529, 0.51978), (0.00805529, 0.59181), (0.008060466, 0.59411),
        (0.008510859, 0.67907), (0.009717081, 0.77725), (0.010705873, 0.79242),
        (0.010705873, 0.83115), (0.013356457, 0.83117), (0.013356457, 0.89941),
        (0.016007041, 0.89941), (0.016007041, 0.98756), (0.016338364, 0.99056),
        (0.0321, 0.9998), (0.127331556, 1),
    )),
    "large": Marginal((
        (0.002754122, 0), (0.002754122, 0.12695), (0.005404706, 0.12695), (0.005404706, 0.93928),
        (0.005736029, 0.93928), (0.005736029, 0.96416), (0.010705873, 0.96421),
        (0.010705873, 0.99063), (0.016338364, 0.99744), (0.074319882, 1),
    )),
}  # fmt: skip
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


# MERGED Numbers for generated instances, machines and containers: fitted where tables are published.
# MERGED
# MERGED Sources as in `alibaba2017_model`. batch_instance, container_event and the usage tables are not
# MERGED among the tables these numbers were fitted to: what is known of them are counts (issues #10 and #13
# MERGED of the trace's repository) and the description. The rest is assumed and says so.


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
