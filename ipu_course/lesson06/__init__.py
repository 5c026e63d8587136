"""Lesson 06: Profiling."""

from ipu_course.lesson06.checks import ROW, Disc, on_the_clock, two_reports

__all__ = ["ROW", "Disc", "on_the_clock", "two_reports"]
