"""What happened, as data, and the questions one asks of it."""

from ipu_teach.report.compiled import CompiledProfile
from ipu_teach.report.log import ProgramRun, StepLog
from ipu_teach.report.profile import Profile
from ipu_teach.report.report import ComputeSetProfile, Report, StepRun
from ipu_teach.report.summary import print_profile_summary
from ipu_teach.report.table import Table

__all__ = [
    "CompiledProfile", "ComputeSetProfile", "Profile", "ProgramRun", "Report", "StepLog", "StepRun", "Table",
    "print_profile_summary",
]  # fmt: skip
