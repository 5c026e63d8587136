"""The former place of `ipu_course.starters`."""

from ipu_course.starters import take

__all__ = ["take"]
