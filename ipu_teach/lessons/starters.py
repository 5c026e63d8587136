"""The old name of the module `ipu_course.starters`, for existing notebooks."""

from ipu_course.starters import take

__all__ = ["take"]
