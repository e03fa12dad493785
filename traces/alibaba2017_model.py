"""Numbers fitted to the published tables of cluster-trace-v2017, from which traces are generated.

Alibaba Cluster Trace Program, cluster-trace-v2017. Fitted: everything about jobs and tasks, to
the 80,553 tasks and 12,951 jobs of batch_task; machines, to the 1,313 machines and 39 errors of
server_event; mean run times of instances, to the 31,735 tasks of CloudSimPy's job table that can
be found in batch_task. Assumed, for want of the tables: what is said to be below.

The tables are knots of cumulative curves (see `alibaba2017_marginals.Marginal`), so chosen that no
curve is off by more than 0.004 to 0.012. They are no rows of the trace.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .alibaba2017_marginals import Marginal

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
