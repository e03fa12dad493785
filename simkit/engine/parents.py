"""Parents: tasks that may not be seen before other tasks of their job have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simkit.policy.task import Task
from simkit.workload import Workload


class Parents:
    """Holds tasks back until all their parents have ended well.

    The children of a task that was killed are killed with it: what they need will never be there.
    """

    def __init__(
        self, workload: Workload, show: Callable[[Task], None], kill: Callable[[Task, str], None]
    ) -> None:
        """`show` puts a task into the queue; `kill` ends one for a reason."""
        self._first, self._parent = workload.first_parent, workload.parent
        self._show = show
        self._kill = kill
        self.any = bool(len(workload.parent))
        """Whether any task of the workload has a parent."""
        self.held: dict[Task, int] = {}
        """Tasks held back, and how many parents each still waits for."""
        self._children: dict[Task, list[Task]] = {}

    def admit(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Take in the tasks of a job, in order of their rows; return those that need not wait."""
        begin, ready = tasks[0].index, []
        for task in tasks:
            rows = self._parent[self._first[task.index] : self._first[task.index + 1]].tolist()
            parents = dict.fromkeys(tasks[row - begin] for row in rows)
            for parent in parents:
                self._children.setdefault(parent, []).append(task)
            if parents:
                self.held[task] = len(parents)
            else:
                ready.append(task)
        return ready

    def forget(self, tasks: Sequence[Task]) -> None:
        """Forget the tasks of a job that is not run after all."""
        for task in tasks:
            self.held.pop(task, None)
            self._children.pop(task, None)

    def ended(self, task: Task, *, killed: bool) -> None:
        """Release the children whose last parent this was, or kill them with it."""
        for child in self._children.pop(task, ()):
            if child not in self.held:
                continue  # another parent was killed before
            if killed:
                del self.held[child]
                self._kill(child, "a task that it depends on was killed")
                continue
            self.held[child] -= 1
            if not self.held[child]:
                del self.held[child]
                self._show(child)
