"""Submission: the jobs of a workload become tasks, a block at a time, each in its partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from math import inf

import numpy as np

from simkit.arrays import Bools, Floats, Ints
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
        self._users = users if users is not None and users.of_waiting else None
        self.by_waiting = self._users is not None
        """Whether it depends on the jobs that wait, so that jobs are sent at their submission."""
        first = cluster.partitions[0]
        self.only = first if cluster.partitions == (Partition(first.name),) else None
        """The partition that takes every job, where there is just one and without limits."""
        self.partition = np.full(0 if self.only else len(workload), -1)
        """(J,) row of the partition that each job has been sent to, -1: none; empty with `only`."""
        self._first, self._admits = 0, [[False]]

    def look_at(self, first: int, last: int) -> None:
        """Look at the jobs in rows ``first:last``, which are sent next."""
        self._first, self._admits = first, self.admits(first, last).T.tolist()

    def send(self, tasks: Sequence[Task]) -> str:
        """Send a job's tasks to their partition; return why none takes them, empty if one does.

        `look_at` has looked at the job.
        """
        row = tasks[0].job_index
        for position, admits in enumerate(self._admits[row - self._first]):
            if admits and not self._too_many_wait(tasks[0], position):
                partition = self._cluster.partitions[position]
                for task in tasks:
                    task.partition = position
                    task.priority, task.machines = partition.priority, partition.machines
                self.partition[row] = position
                return ""
        for task in tasks:
            task.partition = -1
        return self.why_refused(tasks)

    def why_refused(self, tasks: Sequence[Task]) -> str:
        """Return why no partition takes a job's tasks."""
        row = tasks[0].job_index
        queue, number = int(self._workload.queue[row]), int(self._workload.partition[row])
        reasons = []
        for position, partition in enumerate(self._cluster.partitions):
            if partition.takes(queue, number):
                reason = next(filter(None, (self._refusal(t, partition) for t in tasks)), "")
                reasons.append(reason or self._too_many_wait(tasks[0], position))
        return "; ".join(reasons) or f"no partition takes queue {queue}, partition {number}"

    def _too_many_wait(self, task: Task, position: int) -> str:
        """Return why a partition takes no more jobs of a task's user now; empty: it does."""
        if self._users is None:
            return ""
        name = self._workload.label_of("user", task.user)
        return self._users.refusal(position, task.user, name)

    def admits(self, first: int, last: int) -> Bools:
        """Return (P, n): which partitions take and admit the jobs of some rows, whoever waits."""
        load = self._workload
        tasks = slice(int(load.first_task[first]), int(load.first_task[last]))
        found = np.ones((len(self._cluster.partitions), last - first), np.bool_)
        for partition, admits in zip(self._cluster.partitions, found, strict=True):
            for broken, _ in self._rules(partition, tasks):
                if tasks.stop - tasks.start > last - first:
                    begins = load.first_task[first:last] - tasks.start
                    broken = np.logical_or.reduceat(broken, begins)
                admits &= ~broken
            if partition.queues or partition.partitions:
                named = np.isin(load.queue[first:last], list(partition.queues))
                admits &= named | np.isin(load.partition[first:last], list(partition.partitions))
        return found

    def _refusal(self, task: Task, partition: Partition) -> str:
        """Return why a partition does not admit a task; empty: it does."""
        rules = self._rules(partition, slice(task.index, task.index + 1))
        return next((text(task) for broken, text in rules if broken[0]), "")

    def _rules(
        self, partition: Partition, tasks: slice
    ) -> Iterator[tuple[Bools, Callable[[Task], str]]]:
        """Yield rule by rule (n,) which of some tasks break it, and what is said of such a one."""
        load, name = self._workload, partition.name
        needed = np.where(load.gang[tasks], load.instances[tasks], 1)
        too_large = needed > self._most_instances(load.request[tasks], partition)
        yield too_large, lambda task: self._too_large(task, partition)
        if (most_s := partition.max_time_s) < inf:
            requested = load.requested_time_s[tasks]
            allows = f"partition {name} allows {most_s:g} s"
            yield np.isposinf(requested), lambda _: f"has no time limit, {allows}"
            yield (
                requested > most_s,
                lambda task: f"asks for {task.requested_time_s:g} s, {allows}",
            )
        if (most := partition.max_demand) < inf:
            resource = self._cluster.resources[0]
            yield (
                self._demand(tasks) > most,
                lambda task: (
                    f"asks for {task.demand[0]:g} {resource}, partition {name} allows {most:g}"
                ),
            )

    def _most_instances(self, request: Floats, partition: Partition) -> Ints:
        """Return how many instances of (n, R) requests a partition's machines ever hold.

        The result has shape (n,), or (1,) if all requests are the same.
        """
        column = {name: row for row, name in enumerate(self._workload.resources)}
        of_cluster = [column.get(name, -1) for name in self._cluster.resources]
        if request.strides[0] == 0:
            request = request[:1]  # one row, repeated
        rows, kind = request.tolist(), np.arange(len(request))
        if request.shape[1] == 1:  # numbers are sorted fast, and few of them differ
            kinds, kind = np.unique(request, return_inverse=True)
            rows = kinds.reshape(-1, 1).tolist()
        asked = [tuple([row[at] if at >= 0 else 0.0 for at in of_cluster]) for row in rows]
        most = [self._cluster.most_instances(row, partition.machines) for row in asked]
        return np.array(most)[kind.reshape(-1)]

    def _demand(self, tasks: slice) -> Floats:
        """Return (n,): what all instances of some tasks ask of the cluster's first resource."""
        load, resource = self._workload, self._cluster.resources[0]
        if resource not in load.resources:
            return np.zeros(tasks.stop - tasks.start)
        asked = load.request[tasks, load.resources.index(resource)]
        amounts: Floats = asked * load.instances[tasks]
        return amounts

    def _too_large(self, task: Task, partition: Partition) -> str:
        """Return why a partition's machines never hold a task."""
        room = self._cluster.most_instances(task.request, partition.machines)
        needed = task.instances if task.gang else 1
        requests = zip(task.request, self._cluster.resources, strict=True)
        asked = ", ".join(f"{amount:g} {name}" for amount, name in requests if amount)
        machines = "the machines" if self.only else f"the machines of partition {partition.name}"
        hold = f"{machines} hold {room}" if room else "no machine can hold one"
        return f"asks for {needed} x {asked} at once, {hold}"


_UNSENT = Partition("")  # until a task is sent to its partition
BLOCK = 2048
"""Jobs turned into Python numbers at a time: what keeps a long trace's memory flat."""


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
        self._predictor = predictor
        self._order = [
            workload.resources.index(name) if name in workload.resources else -1
            for name in cluster.resources
        ]
        self.routing = Routing(workload, cluster, users)
        self._worths = TaskWorths.of(workload, cluster)

    def jobs(self) -> Iterator[Arriving]:
        """Yield every job in order of submission."""
        return chain.from_iterable(map(self._block, range(0, len(self.workload), BLOCK)))

    def _block(self, first: int) -> Iterator[Arriving]:
        """Return a block's jobs; made column by column, not one by one: it is what a job costs."""
        load, last = self.workload, min(first + BLOCK, len(self.workload))
        tasks = self.tasks(first, last)
        offsets = load.first_task[first : last + 1] - load.first_task[first]
        whole: Iterable[Sequence[Task]]
        if len(tasks) == last - first:
            whole = zip(tasks)
        else:
            bounds = offsets.tolist()
            whole = (tuple(tasks[a:b]) for a, b in pairwise(bounds))
        times = load.submit_time_s[first:last].tolist()
        refusals = [""] * len(times)
        if self.routing.only is None:
            self.routing.look_at(first, last)
            if not self.routing.by_waiting:
                whole = list(whole)
                refusals = list(map(self.routing.send, whole))
        else:
            (admits,) = self.routing.admits(first, last)
            for row in np.flatnonzero(~admits).tolist():
                refusals[row] = self.routing.why_refused(tasks[offsets[row] : offsets[row + 1]])
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
