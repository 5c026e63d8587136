"""The old name of the package `ipu_course`, for notebooks that learners already have.

The first import in a process prints a warning. The version after the next one will not contain this
name.
"""

import warnings

from ipu_course import (
    built,
    check,
    given,
    hint,
    predict,
    progress,
    puzzle,
    share,
    solution,
    verify,
)

__all__ = [
    "built",
    "check",
    "given",
    "hint",
    "predict",
    "progress",
    "puzzle",
    "share",
    "solution",
    "verify",
]

warnings.warn(
    "ipu_teach.lessons is now ipu_course, and goes away in the version after the next one: "
    "write `from ipu_course import check`.",
    FutureWarning,
    stacklevel=2,
)
