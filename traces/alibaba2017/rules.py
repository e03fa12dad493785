"""The rules for Alibaba's tables: options, names in reports, and meaning.

Each known problem of the trace (its description names most) has one name, under which reports count
it. Where more than one treatment makes sense, the scenario chooses. The defaults leave out rows
that never ran or had not ended, and rows without a usable time or machine.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from simkit.sections import Section

NOT_A_NUMBER: Final = "value not usable"
NO_IDS: Final = "job or task id missing"
WAITING: Final = "task never started"
RUNNING: Final = "task still running"
FAILED: Final = "task failed or cancelled"
UNKNOWN_STATUS: Final = "unknown status"
EARLY: Final = "created before the trace"
NO_END: Final = "end time missing"
NEGATIVE_RUN: Final = "ends before it is created"
ZERO_RUN: Final = "task run time 0"
NO_INSTANCES: Final = "task without instances"
NO_REQUEST: Final = "plan_cpu or plan_mem missing"
REPEATED_TASK: Final = "repeated task id"
LATER_TASK: Final = "created after its job"

INSTANCE_WAITING: Final = "instance never started"
INSTANCE_RUNNING: Final = "instance still running"
INSTANCE_FAILED: Final = "attempt failed or interrupted"
RETRIED: Final = "retried later"
NO_START: Final = "start time missing"
NEGATIVE_ATTEMPT: Final = "ends before it starts"
UNKNOWN_TASK: Final = "task not in batch_task"
TASK_LEFT_OUT: Final = "instance of a task left out"
SURPLUS: Final = "more instances than planned"
MISSING_INSTANCES: Final = "instances without a row"
TASKS_WITHOUT_ROWS: Final = "tasks without a row"

UNKNOWN_MACHINE: Final = "unknown machine id"
NO_MACHINE: Final = "machine id missing"
UNKNOWN_EVENT: Final = "unknown event"
NO_CAPACITY: Final = "machine without capacity"
CAPACITY_KNOWN: Final = "capacity from the machine's add"
EVENT_ORDER: Final = "out of time order"
ADDED_AGAIN: Final = "machine added again"

NO_CONTAINER: Final = "container id missing"
BAD_REQUEST: Final = "container request missing"
NOT_CREATED: Final = "removal without creation"
CREATED_AGAIN: Final = "container created again"

NO_USER_OF: Final = "usage of nobody"
NO_TIME: Final = "usage without a time"
SHARE_OUTSIDE: Final = "usage outside 0 to 100 %"
NO_SHARE: Final = "usage incomplete"
WITHOUT_EVENT: Final = "usage without an event"

MEANINGS: Final[dict[str, str]] = {
    NO_USER_OF: "The machine or container id of the measurement is empty.",
    NO_TIME: "The time of the measurement is empty.",
    SHARE_OUTSIDE: "A share of cpu, memory or disk is negative or above 100 %.",
    NO_SHARE: "A share of cpu, memory or disk is empty.",
    WITHOUT_EVENT: "No event of the trace has this machine or container; the trace's authors know "
    "of such containers.",
    NOT_A_NUMBER: "A field that is needed is nan, infinite, negative where only 0 or more makes "
    "sense, not whole where it must be, or beyond 2^33 (submit and run times: 2^32, ids: 2^53); "
    "the row is left out.",
    NO_IDS: "The job or the task id is empty, so the row's owner is unknown; left "
    "out. The trace's description knows of these rows in batch_instance.",
    WAITING: "The task's status is Waiting or Ready: it never ran; left out (rule `waiting`).",
    RUNNING: "The task's status is Running: it had not ended when the trace did, so its run time "
    "is not known; left out (rule `running`).",
    FAILED: "The task's status is Failed or Cancelled; left out (rule `failed`).",
    UNKNOWN_STATUS: "The status is unknown; left out.",
    EARLY: "The task was created before the trace's zero (rule `early`).",
    NO_END: "The end time is 0 or empty; left out.",
    NEGATIVE_RUN: "The task ends before it is created (rule `negative_run`).",
    ZERO_RUN: "The task ends in the second in which it is created; left out (rule `zero_run`).",
    NO_INSTANCES: "The task has no instances, or a number that is not whole; left out.",
    NO_REQUEST: "The cpu or the memory that an instance asks for is empty (rule `no_request`).",
    REPEATED_TASK: "Another row has the same job and task id; both are kept, rows of instances "
    "go to the first.",
    LATER_TASK: "The task was created after its job's first task; it is submitted with the job.",
    INSTANCE_WAITING: "The status is Waiting or Ready: the instance never ran; left out.",
    INSTANCE_RUNNING: "The status is Running: the run time is not known; left out.",
    INSTANCE_FAILED: "The attempt failed, was cancelled or was interrupted (a backup instance): "
    "its run time is not that of the instance; left out.",
    RETRIED: "A later attempt followed (seq_no is below total_seq_no); left out (rule `retries`).",
    NO_START: "The start time is 0 or empty; left out.",
    NEGATIVE_ATTEMPT: "The instance ends before it starts; left out.",
    UNKNOWN_TASK: "batch_task has no row of this job and task; left out.",
    TASK_LEFT_OUT: "The rules left out the task of this instance, so it is left out with it.",
    SURPLUS: "More instances of the task ended than it planned; those that started last are left "
    "out.",
    MISSING_INSTANCES: "Instances that the table does not show ended; they take their task's mean.",
    TASKS_WITHOUT_ROWS: "Tasks none of whose instances the table shows ended; their instances "
    "take the run time of `durations`.",
    UNKNOWN_MACHINE: "server_event has no machine of this id. Events are left out; instances and "
    "containers are kept.",
    NO_MACHINE: "The machine id is empty; left out.",
    UNKNOWN_EVENT: "The event is unknown; left out.",
    NO_CAPACITY: "A machine is added without cpu or memory; left out.",
    CAPACITY_KNOWN: "The event carries no capacity (0, or empty), as errors do; what the machine "
    "had when it was added is taken.",
    EVENT_ORDER: "The row comes after one of a later time; rows are sorted by time.",
    ADDED_AGAIN: "The machine is there already; the row is kept and states its capacity.",
    NO_CONTAINER: "The container id is empty; left out.",
    BAD_REQUEST: "What the container holds is empty or negative; left out.",
    NOT_CREATED: "A container is removed that is not there; left out.",
    CREATED_AGAIN: "A container is created that is there already; left out.",
}
"""What each rule or note means, in a sentence."""


class RowRules(Section):
    """How to treat known problems of the trace."""

    waiting: Literal["drop", "keep"] = "drop"
    """Tasks that never started; kept, they run as long as the clock says between their times."""
    running: Literal["drop", "keep"] = "drop"
    """Tasks that had not ended; kept, they run until their last change of state."""
    failed: Literal["keep", "drop"] = "keep"
    """Failed and cancelled tasks: they held machines like any other, so they are kept."""
    early: Literal["keep", "zero", "drop"] = "keep"
    """Tasks created before the trace's zero. Their negative times are those of the same clock (run
    times across zero are as usual), so they are kept; ``zero`` submits them at 0."""
    negative_run: Literal["drop", "zero"] = "drop"
    """Tasks that end before they are created; ``zero`` makes their run time 0."""
    zero_run: Literal["drop", "keep"] = "drop"
    """Tasks that end in the second in which they are created."""
    no_request: Literal["drop", "median"] = "drop"
    """Tasks whose cpu or memory is empty; ``median`` takes that of the other kept tasks."""
    retries: Literal["last", "all"] = "last"
    """Of instances tried more than once, the last attempt counts; ``all``: any that ended well."""

    @model_serializer(mode="wrap")
    def _where_they_differ(self, handler: SerializerFunctionWrapHandler) -> dict[str, str]:
        return {k: v for k, v in handler(self).items() if v != type(self).model_fields[k].default}
