"""Submission: the jobs of a workload become tasks, a block at a time, each in its partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from math import inf

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.engine.events import Arriving
from simkit.engine.held_back import UserLimits
from simkit.errors import ScenarioError
from simkit.policy.estimates import Predictor
from simkit.policy.task import Task
from simkit.units import AMOUNT_GRID
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Partition
from simkit.workload.workload import OF_JOBS


class TaskWorths:
    """Gives tasks their quality of service, deadline, worth and share of the cluster.

    Where the worth depends on the run time, a task knows only the worth of a second, so that its
    true run time stays hidden. Any other worth is shared evenly by the job's tasks.
    """

    def __init__(self, workload: Workload, cluster: Cluster) -> None:
        self._workload = workload
        total = {
            name: float(amount)
            for name, amount in zip(cluster.resources, cluster.capacity.sum(axis=0), strict=True)
        }
        capacity = np.array([total[name] for name in workload.resources])
        self._capacity = np.where(capacity > 0, capacity, np.inf)
        self._tasks_of_job = np.diff(workload.first_task)

    @classmethod
    def of(cls, workload: Workload, cluster: Cluster) -> TaskWorths | None:
        """Return None for a workload that says nothing of worth."""
        if any(len(getattr(workload, name)) for name in OF_JOBS):
            return cls(workload, cluster)
        return None

    def give(self, tasks: Sequence[Task], rows: slice, jobs: Ints) -> None:
        """Set the worth of the tasks in some rows; `jobs` is the row of each one's job."""
        load = self._workload
        columns = zip(
            tasks, _column(load.qos, jobs, 1.0), _column(load.deadline_s, jobs, np.inf),
            self._per_second(rows), self._fixed(jobs), self._shares(rows),
            strict=False,
        )  # fmt: skip
        has_qos = bool(len(load.qos))
        for task, qos, deadline, per_second, fixed, share in columns:
            task.qos, task.has_qos = qos, has_qos
            task.deadline_s = deadline
            task.value_per_s = per_second
            task.fixed_value = fixed
            task.cluster_share = share

    def _per_second(self, rows: slice) -> Iterator[float]:
        column = self._workload.value_per_s
        return iter(column[rows].tolist()) if len(column) else repeat(0.0)

    def _fixed(self, jobs: Ints) -> Iterator[float]:
        load = self._workload
        if len(load.value_per_s) or not len(load.value):
            return repeat(0.0)
        return iter((load.value[jobs] / self._tasks_of_job[jobs]).tolist())

    def _shares(self, rows: slice) -> list[float]:
        load = self._workload
        demand = load.request[rows] * load.instances[rows, None]
        shares: list[float] = (demand / self._capacity).max(axis=1).tolist()
        return shares


def _column(column: Floats, jobs: Ints, default: float) -> Iterator[float]:
    return iter(column[jobs].tolist()) if len(column) else repeat(default)


def _inexact_sums(workload: Workload, cluster: Cluster) -> list[str]:
    """Return the resources whose requests are too fine for sums over all machines to be exact."""
    problems = []
    totals = dict(zip(cluster.resources, cluster.capacity.sum(axis=0).tolist(), strict=True))
    for column, name in enumerate(workload.resources):
        unit = np.spacing(totals[name])
        if unit > AMOUNT_GRID and np.fmod(workload.request[:, column], unit).any():
            problems.append(
                f"cluster: the machines have {totals[name]:g} {name} in all, and tasks ask for "
                f"fractions finer than {unit:.2g}, whose sums would not be exact; use a larger "
                "unit, or requests in whole units"
            )
    return problems


def check_requests(workload: Workload, cluster: Cluster) -> None:
    """Raise ScenarioError if jobs ask for what machines have not, or too finely for exact sums."""
    if missing := [name for name in workload.resources if name not in cluster.resources]:
        raise ScenarioError(
            f"cluster: jobs ask for {', '.join(missing)}, but the machines have only "
            f"{', '.join(cluster.resources)}; add it to the machines"
        )
    if len(workload.whole_memory):
        raise ScenarioError(
            "workload: jobs take all memory of their machines, however much that is; "
            "`simkit.workload.cluster.fill_whole_memory` gives them an amount"
        )
    if inexact := _inexact_sums(workload, cluster):
        raise ScenarioError(inexact)


class Routing:
    """Sends each job to the first partition that takes its queue and admits all of its tasks.

    A partition takes jobs of the trace's queues or partitions that it names, or all jobs if it
    names none. It admits a task that asks for no more time and processors than it allows, and that
    its machines could hold if they were empty; unless too many jobs of its user wait there.
    """

    def __init__(
        self, workload: Workload, cluster: Cluster, users: UserLimits | None = None
    ) -> None:
        self._workload = workload
        self._cluster = cluster
        self._users = users
        self.by_waiting = users is not None and users.of_waiting
        """Whether it depends on the jobs that wait, so that jobs are sent at their submission."""
        first = cluster.partitions[0]
        self.only = first if cluster.partitions == (Partition(first.name),) else None
        """The partition that takes every job, where there is just one and without limits."""
        self.partition = np.full(0 if self.only else len(workload), -1)
        """(J,) row of the partition that each job has been sent to, -1: none; empty with `only`."""

    def send(self, tasks: Sequence[Task]) -> str:
        """Send a job's tasks to their partition; return why none takes them, empty if one does."""
        row = tasks[0].job_index
        queue, number = int(self._workload.queue[row]), int(self._workload.partition[row])
        reasons = []
        for position, partition in enumerate(self._cluster.partitions):
            if partition.takes(queue, number):
                reason = next(filter(None, (self.refusal(t, partition) for t in tasks)), "")
                reason = reason or self._too_many_wait(tasks[0], position)
                if not reason:
                    for task in tasks:
                        task.partition = position
                        task.priority, task.machines = partition.priority, partition.machines
                    self.partition[row] = position
                    return ""
                reasons.append(reason)
        for task in tasks:
            task.partition = -1
        return "; ".join(reasons) or f"no partition takes queue {queue}, partition {number}"

    def _too_many_wait(self, task: Task, position: int) -> str:
        """Return why a partition takes no more jobs of a task's user now; empty: it does."""
        if not self.by_waiting or self._users is None:
            return ""
        name = self._workload.label_of("user", task.user)
        return self._users.refusal(position, task.user, name)

    def refusal(self, task: Task, partition: Partition) -> str:
        """Return why a partition does not admit a task; empty: it does."""
        resources = self._cluster.resources
        room = self._cluster.most_instances(task.request, partition.machines)
        needed = task.instances if task.gang else 1
        if needed > room:
            asked = ", ".join(
                f"{a:g} {n}" for a, n in zip(task.request, resources, strict=True) if a
            )
            machines = (
                "the machines" if self.only else f"the machines of partition {partition.name}"
            )
            hold = f"{machines} hold {room}" if room else "no machine can hold one"
            return f"asks for {needed} x {asked} at once, {hold}"
        if task.requested_time_s == inf and partition.max_time_s < inf:
            return (
                f"has no time limit, partition {partition.name} allows {partition.max_time_s:g} s"
            )
        if task.requested_time_s > partition.max_time_s:
            return (
                f"asks for {task.requested_time_s:g} s, partition {partition.name} allows "
                f"{partition.max_time_s:g} s"
            )
        if task.demand[0] > partition.max_demand:
            return (
                f"asks for {task.demand[0]:g} {resources[0]}, partition {partition.name} allows "
                f"{partition.max_demand:g}"
            )
        return ""


_UNSENT = Partition("")  # until a task is sent to its partition
_BLOCK = 2048  # jobs turned into Python numbers at a time: what keeps a long trace's memory flat


class Submission:
    """Makes jobs into tasks with an estimate, and sends them to their partitions."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        predictor: Predictor,
        users: UserLimits | None = None,
    ) -> None:
        check_requests(workload, cluster)
        self.workload = workload
        """Whose jobs they are."""
        self._cluster = cluster
        self._predictor = predictor
        self._order = [
            workload.resources.index(name) if name in workload.resources else -1
            for name in cluster.resources
        ]
        self.routing = Routing(workload, cluster, users)
        self._worths = TaskWorths.of(workload, cluster)

    def jobs(self) -> Iterator[Arriving]:
        """Yield every job in order of submission."""
        return chain.from_iterable(map(self._block, range(0, len(self.workload), _BLOCK)))

    def _block(self, first: int) -> Iterator[Arriving]:
        """Return a block's jobs; made column by column, not one by one: it is what a job costs."""
        load, last = self.workload, min(first + _BLOCK, len(self.workload))
        tasks = self.tasks(first, last)
        offsets = load.first_task[first : last + 1] - load.first_task[first]
        whole: Iterable[Sequence[Task]]
        if len(tasks) == last - first:
            whole = zip(tasks)
        else:
            bounds = offsets.tolist()
            whole = (tuple(tasks[a:b]) for a, b in pairwise(bounds))
        times = load.submit_time_s[first:last].tolist()
        if self.routing.by_waiting:
            refusals = [""] * len(times)
        elif self.routing.only is None:
            whole = list(whole)
            refusals = list(map(self.routing.send, whole))
        else:
            refusals = [""] * len(times)
            for position in self._doubtful(int(load.first_task[first]), len(tasks)):
                task = tasks[position]
                row = task.job_index - first
                refusals[row] = refusals[row] or self.routing.refusal(task, self.routing.only)
        return zip(times, range(first, last), whole, refusals)  # noqa: B905 - hot, and equal

    def tasks(self, first: int, last: int) -> list[Task]:
        """Return the tasks of the jobs in rows ``first:last``."""
        load = self.workload
        rows = slice(int(load.first_task[first]), int(load.first_task[last]))
        jobs = np.arange(first, last)
        if rows.stop - rows.start > len(jobs):
            jobs = np.repeat(jobs, np.diff(load.first_task[first : last + 1]))
        only = self.routing.only or _UNSENT
        tasks = list(
            map(
                Task,
                range(rows.start, rows.stop),
                jobs.tolist(),
                load.submit_time_s[jobs].tolist(),
                self._requests(load.request[rows]),
                load.instances[rows].tolist(),
                load.gang[rows].tolist(),
                self._predictor.estimates(rows.start, rows.stop).tolist(),
                load.requested_time_s[rows].tolist(),
                load.user[jobs].tolist(),
                load.group[jobs].tolist(),
                load.queue[jobs].tolist(),
                repeat(0),
                repeat(only.priority),
                repeat(only.machines),
                self._demands(rows),
            )
        )
        if len(load.request_as_read):
            for task, read in zip(tasks, self._requests(load.request_as_read[rows]), strict=True):
                task.request_as_read = read
        if self._worths is not None:
            self._worths.give(tasks, rows, jobs)
        return tasks

    def _requests(self, rows: Floats) -> list[tuple[float, ...]]:
        """Return the rows of (T, R) requests, in the order of the cluster's resources."""
        if rows.strides[0] == 0 and len(rows):
            return [self._sorted(rows[0].tolist())] * len(rows)
        if self._order == list(range(rows.shape[1])):
            return list(map(tuple, rows.tolist()))
        return [self._sorted(row) for row in rows.tolist()]

    def _sorted(self, row: list[float]) -> tuple[float, ...]:
        return tuple([row[r] if r >= 0 else 0.0 for r in self._order])

    def _demands(self, tasks: slice) -> list[tuple[float, ...]]:
        """Return what all instances of each task ask for together."""
        load = self.workload
        amounts = load.request[tasks] * load.instances[tasks, None]
        none = [0.0] * len(amounts)
        columns = [amounts[:, r].tolist() if r >= 0 else none for r in self._order]
        return list(zip(*columns, strict=True))

    def _doubtful(self, begin: int, count: int) -> Sequence[int]:
        """Return which of the tasks must be checked one by one: they might never run."""
        if len(self._cluster.capacity) > 1:
            return range(count)
        load, tasks = self.workload, slice(begin, begin + count)
        columns = [i for i, r in enumerate(self._order) if r >= 0]
        asked = load.request[tasks] * load.instances[tasks, None]
        room = self._cluster.capacity[0]
        if self._order != list(range(asked.shape[1])):
            asked, room = asked[:, [self._order[i] for i in columns]], room[columns]
        too_much = asked > room
        if not too_much.any():
            return ()
        doubtful: list[int] = np.flatnonzero(too_much.any(axis=1)).tolist()
        return doubtful
