"""What the fields of sacct hold that simkit does not read: ``sacct --helpformat`` lists them all.

Whether a field is read is not decided here: the reader names each column of a table that it did not
look at, and this list says what such a column holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from simkit.traces.unread import PLAIN

_SAME: Final = (
    ("jobid", "jobidraw"),
    ("alloccpus", "ncpus"),
    ("elapsed", "elapsedraw"),
    ("timelimit", "timelimitraw"),
    ("nnodes", "allocnodes"),
    ("user", "uid"),
    ("group", "gid"),
    ("qos", "qosraw"),
    ("totalcpu", "usercpu", "systemcpu"),
    ("consumedenergy", "consumedenergyraw"),
    ("cputime", "cputimeraw"),
)
"""Fields that say the same: where one is read, nothing of the others is lost."""

_MEANINGS: Final = {
    "resources asked for": "ReqTRES ReqGRES ReqMem ReqCPUS ReqNodes Licenses Constraints Layout "
    "NTasks ReqCPUFreq ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov",
    "resources allocated": "AllocTRES AllocGRES AllocCPUS NCPUS NNodes AllocNodes",
    "the machines it ran on": "NodeList BlockID",
    "when it could start: --begin, dependencies and holds": "Eligible",
    "time suspended": "Suspended",
    "time limit": "Timelimit TimelimitRaw Deadline",
    "recorded wait": "Reserved Planned ResvCPU ResvCPURAW PlannedCPU PlannedCPURAW",
    "time executed": "Elapsed ElapsedRaw CPUTime CPUTimeRAW",
    "recorded time": "Submit Start End State",
    "a reservation that it ran in": "Reservation ReservationId",
    "jobs that it depends on": "Dependency Dependencies",
    "how the scheduler treated it": "Flags Priority Reason QOSREQ",
    "attempts before this one": "Restarts",
    "cluster that the job belongs to": "Cluster",
    "processor time used": "TotalCPU UserCPU SystemCPU AveCPU MinCPU MinCPUNode MinCPUTask "
    "AveCPUFreq",
    "memory used": "MaxRSS AveRSS MaxVMSize AveVMSize MaxRSSNode MaxRSSTask MaxVMSizeNode "
    "MaxVMSizeTask AvePages MaxPages MaxPagesNode MaxPagesTask",
    "energy used": "ConsumedEnergy ConsumedEnergyRaw",
    "resources used": "TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask "
    "TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve "
    "TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode "
    "TRESUsageOutMinTask TRESUsageOutTot",
    "disk traffic": "AveDiskRead AveDiskWrite MaxDiskRead MaxDiskReadNode MaxDiskReadTask "
    "MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask",
    "machine that failed": "FailedNode",
    PLAIN: "Account AdminComment AssocID Comment Container DBIndex DerivedExitCode ExitCode Extra "
    "GID Group JobID JobIDRaw JobName McsLabel Partition QOS QOSRAW SLUID StdErr StdIn StdOut "
    "SubmitLine SystemComment UID User WCKey WCKeyID WorkDir",
}  # fmt: skip

HOLDS: Final = {
    name.lower(): meaning for meaning, names in _MEANINGS.items() for name in names.split()
}
"""Field in lower case → what it holds."""


def left_aside(columns: Collection[str], read: Collection[str]) -> Iterator[str]:
    """Yield the columns that say something that no column which was read says.

    Args:
        columns: those of the table.
        read: those of them that were read.
    """
    lower = {name.lower() for name in read}
    covered = {name for group in _SAME if lower & set(group) for name in group}
    # ``--parsable`` ends lines in a delimiter: the last column has no name, and nothing in it
    yield from (name for name in columns if name and name.lower() not in lower | covered)
