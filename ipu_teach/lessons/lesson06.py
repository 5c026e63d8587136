"""The old name of the module `ipu_course.lesson06`, for existing notebooks."""

from ipu_course.lesson06 import ROW, Disc, on_the_clock, two_reports

__all__ = ["ROW", "Disc", "on_the_clock", "two_reports"]
