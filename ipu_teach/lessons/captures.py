"""The old name of the module `ipu_course.lesson13.captures`, for existing notebooks."""

from ipu_course.lesson13.captures import captured

__all__ = ["captured"]
