"""`python3 run.py test --minutes`: measure the table in docs/authoring.md of CPU time by group of tests.

A test's CPU seconds include those of the processes that it started and that have ended. For a
notebook, only the last cell counts.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

# The rows of the table: a test belongs to the first row whose pattern its file name begins with.
ROWS = {
    "solved notebooks": "notebooks/",
    "answers of learners: right, wrong, blank": "lessons/test_exercises",
    "mutants of the answers": "lessons/test_mutants",
    "learner's notebooks": "lessons/test_learner",
    "the rest of lessons": "lessons/",
    "browsers": "browser/",
    "scalar loops, by CPython and compiled": "test_scalar|test_tiers|test_branches|test_students",
    "frontends and their table": "test_(ir|keras|popart|poptorch|training|unit_scaling)",
    "PopLibs' calls": "test_(pop|every_function|slices|dense|convolution|layers|optim|rearrange|gcl"
    "|sparse[.]|stretches)",
    "random programs and the judge": "test_(fuzz|judge|brute_force|exact|numbers_randomly|merge|semantics"
    "|definedness|observe)",
    "Ctrl-C, set-up, wheel, commands": "test_(ctrl_c|setup|wheel|cli|interrupt|release|hub|pack|progress)",
    "golden, tables of costs, `tiny`": "test_(golden|tiny|vertex_|model_page|pricing|exchange|tut6)",
    "the benchmark's graphs": "test_bench",
    "reports, and what if": "test_(report|what_if|why|sweep)",
    "the GPU's path": "test_gpu",
    "views": r"test_(\w*view|show|given|lesson_pictures|reprs|run_view)",
    "the house, errors, pages": "test_(house|docs|errors|caught|not_here|site|cheat|codelets_page"
    "|troubleshooting|tracebacks|workshop)",
    "graph, engine, data, numbers": "",
}


def row_of(nodeid: str) -> str:
    """Return the row of a test."""
    name = nodeid.removeprefix("tests/")
    return next(row for row, begins in ROWS.items() if re.match(begins, name))


def spent() -> float:
    """Return the CPU seconds of this process and of its child processes that have ended."""
    return sum(os.times()[:4])


began = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[began] = spent()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("spent", spent() - item.stash[began]))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    seconds: Counter[str] = Counter()
    tests = 0
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "spent":
                    seconds[row_of(report.nodeid)] += value
                    tests += 1
    terminalreporter.write_line(
        f"{tests:,} tests, {seconds.total():,.0f} s\n\n| tests | s |\n|---|---|"
    )
    for row, value in seconds.most_common():
        terminalreporter.write_line(f"| {row} | {value:.0f} |")
