"""Samples of long tables of tests: the suite runs a part of their rows, and `--thorough` all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def one_in(count: int, rows: Sequence[Any], name_of: Callable[[Any], str]) -> list[Any]:
    """Return the rows as parameters of a test, of which the suite runs one in `count`.

    The other rows have the marker `thorough`.
    """
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)),
            id=name_of(row),
            marks=pytest.mark.thorough if n % count else (),
        )
        for n, row in enumerate(rows)
    ]
