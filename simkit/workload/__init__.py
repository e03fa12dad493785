"""Workloads: the jobs of a trace in memory, the machines they run on, and what is made of both.

Job → task → instances; see `simkit.workload.workload.Workload`. A reader returns a `Trace`.
"""

from simkit.workload.trace import RowReport, Trace
from simkit.workload.workload import Workload

__all__ = ["RowReport", "Trace", "Workload"]
