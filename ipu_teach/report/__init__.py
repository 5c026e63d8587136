"""Reports: the record of a run as data, with questions about it.

Compared with `tiny`, which returns values, a report has every superstep that ran, by tile and by
vertex. It computes them from a log of step numbers alone. It offers the queries of libpva, the
profile summary in Poplar's words, reasons for waiting, comparisons, "what if" questions, the host's
timeline, and files that answer the same questions elsewhere. Nothing here runs a program.
"""

from ipu_teach.report.block_times import BlockRun
from ipu_teach.report.compare import Comparison, compare
from ipu_teach.report.compiled import CompiledProfile
from ipu_teach.report.host_times import counter, tracepoint
from ipu_teach.report.host_trace import HostEvent, HostTrace
from ipu_teach.report.log import ProgramRun, StepLog
from ipu_teach.report.profile import Profile
from ipu_teach.report.recording import Recording
from ipu_teach.report.report import Report, open_report
from ipu_teach.report.steps import ComputeSetProfile, StepRun
from ipu_teach.report.summary import print_profile_summary
from ipu_teach.report.trace_file import chrome_trace
from ipu_teach.report.why import Why

__all__ = [
    "BlockRun",
    "Comparison",
    "CompiledProfile",
    "ComputeSetProfile",
    "HostEvent",
    "HostTrace",
    "Profile",
    "ProgramRun",
    "Recording",
    "Report",
    "StepLog",
    "StepRun",
    "Why",
    "chrome_trace",
    "compare",
    "counter",
    "open_report",
    "print_profile_summary",
    "tracepoint",
]
