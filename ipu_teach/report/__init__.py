"""Reports: the record of a run as data, with queries on it. Nothing here runs a program.

Compared with `tiny`, which returns values, a report contains the modelled cycles and bytes of every
superstep that an engine ran, by tile and by codelet. The report computes these numbers from the
compiled program and a log of step numbers.

The package contains:

- `Report` with the queries of Graphcore's libpva, "what if" questions and chains of causes (`why`);
- `print_profile_summary`, a summary as text with Poplar's labels;
- `compare`, the differences between two reports;
- `HostTrace`, `tracepoint` and `counter`, for the timeline of the host;
- report files, which can be opened as a `Report` again, and traces for Chrome and Perfetto.

These terms occur in many docstrings of the package:

- A *compiled step* is a superstep, a host transfer or another action of the compiled program. The
  numbers of compiled steps begin at 0. A *step of the run* is one execution of a compiled step.
- A *leaf* is a node of a program tree that executes a compiled step. A *place* is the number of a
  leaf in program order, over all programs.
- `Target.sets` lists the groups of tiles that have a clock of their own. Each IPU is a set. On a
  machine with I/O tiles, each IPU has two sets: its I/O tiles and its other tiles.
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
