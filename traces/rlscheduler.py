"""SWF logs as RLScheduler reads them: the jobs of its evaluation windows.

D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job scheduler
using reinforcement learning" (SC 2020).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from simkit.traces.rigid_jobs import KeptJobs
from simkit.traces.rules import Tally
from simkit.traces.swf import SwfLog
from simkit.traces.swf.blocks import SwfBlock

_MISSING_RUN_S = 10.0


class RLSchedulerLog(SwfLog):
    """An SWF log in which a missing run time becomes 10 s, and the larger processor count counts.

    Requested times stay as the log has them, also where the job ran longer; a missing one becomes
    the run time, and stays missing where that is missing too. Jobs whose run time is 0 are left
    out. A window of the paper is a range of the jobs:

        workload:
          type: plugin
          reader: simkit.traces.rlscheduler:RLSchedulerLog
          args: {path: SDSC-SP2-1998-4.2-cln.swf.gz}
          window: {jobs: 1981..3004}

    """

    requested_time: Literal["max", "raw"] = "raw"
    """As the log has it; RLScheduler kills no job."""

    def judge_block(self, block: SwfBlock, tally: Tally) -> KeptJobs:
        """Repair what RLScheduler repairs, then apply the rules to a block of rows."""
        values, wanted = block.values, block.values["requested_time"]
        values["requested_time"] = np.where(wanted == -1, values["run"], wanted)
        values["run"] = np.where(values["run"] < 0, _MISSING_RUN_S, values["run"])
        values["allocated"] = np.maximum(values["allocated"], values["requested"])
        return super().judge_block(block, tally)
