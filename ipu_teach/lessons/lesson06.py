"""The former place of `ipu_course.lesson06`."""

from ipu_course.lesson06 import ROW, Disc, on_the_clock, two_reports

__all__ = ["ROW", "Disc", "on_the_clock", "two_reports"]
