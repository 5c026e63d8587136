"""The former place of `ipu_course.lesson13.captures`."""

from ipu_course.lesson13.captures import captured

__all__ = ["captured"]
