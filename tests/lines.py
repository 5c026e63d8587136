"""Remove the quoted line of the program from error messages.

Its number changes whenever a test is edited.
"""

from __future__ import annotations

import re

from ipu_teach.errors import IPUTeachError


def without_line(error: BaseException) -> str:
    """Return the message of `error` without `line:`, which must name a Python file and a number."""
    assert isinstance(error, IPUTeachError)
    if error.line:
        assert re.match(r"[\w.]+\.py, line \d+(: .+)?$", error.line), error.line
        assert f"\n  line:  {error.line}" in str(error)
    return str(error).replace(f"\n  line:  {error.line}", "") if error.line else str(error)
