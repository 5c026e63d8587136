"""Run the suite's own random tests on any number of seeds; hypothesis draws only some dozens."""

from __future__ import annotations

import importlib
import inspect
import io
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis.errors import UnsatisfiedAssumption

TESTS = Path(__file__).resolve().parents[1]
Test = Callable[[Random], None]


@cache
def random_tests() -> dict[str, Test]:
    """Return the tests whose random values all come from one `rng`, by file and name."""
    found: dict[str, Test] = {}
    for file in sorted(TESTS.glob("test_*.py")):
        if "st.randoms(" in file.read_text(encoding="utf-8"):
            for name, test in vars(importlib.import_module(file.stem)).items():
                inner = getattr(getattr(test, "hypothesis", None), "inner_test", None)
                if (
                    inner
                    and test.__module__ == file.stem
                    and list(inspect.signature(inner).parameters) == ["rng"]
                ):
                    found[f"{file.name}::{name}"] = inner
    return found


def one_test(seed: int, only: str = "") -> tuple[str, str]:
    """Run one of the tests with `only` in its name on the values that `seed` draws.

    Return the file of the test, and what is wrong.
    """
    names = [name for name in random_tests() if only in name]
    name = names[seed % len(names)]
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            random_tests()[name](Random(seed))
    except (UnsatisfiedAssumption, pytest.skip.Exception):
        return "not for this draw", ""
    except (Exception, pytest.fail.Exception):  # the second, of pytest.raises, is no Exception
        return name, f"{name}\n\n{traceback.format_exc()}"
    return name.partition("::")[0], ""
