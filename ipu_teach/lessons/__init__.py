"""The former place of the course, for notebooks that learners already have: use `ipu_course`.

It warns once in a process, and goes away in the version after the next one.
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
