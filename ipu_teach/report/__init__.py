"""What happened, as data, and the questions one asks of it."""

from ipu_teach.report.report import ComputeSetProfile, ProgramRun, Report, StepRun
from ipu_teach.report.summary import print_profile_summary

__all__ = ["ComputeSetProfile", "ProgramRun", "Report", "StepRun", "print_profile_summary"]
