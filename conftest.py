"""Make the lessons part of the test suite: nbval runs the solved ones and compares their output.

Every session, and every notebook in it, has its own state folder and one BLAS thread, so that sums
are equal in all sessions.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
STATE = Path(tempfile.mkdtemp(prefix="ipu_teach-tests-"))

# set before anything imports numpy; the workers and kernels of this session inherit it
for _variable in (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
):
    os.environ[_variable] = "1"
# outputs are stored and compared for numpy; the tests of a GPU ask for it
os.environ["IPU_TEACH_GPU"] = "0"
os.environ["IPU_TEACH_WORK"] = str(STATE / "work")
# the user's start-up files are not part of a lesson
os.environ["IPYTHONDIR"] = str(STATE / "ipython")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of these tests, and nbval's if it is missing or switched off.

    Without nbval, its options in pyproject.toml have no effect, and the other tests run.
    """
    parser.addoption(
        "--browser-all",
        action="store_true",
        help="every view on every page, not a spread: see tests/browser",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="all rows of long tables, and the slowest tests: see tests/__main__.py",
    )
    parser.addoption(
        "--photos",
        metavar="FOLDER",
        help="store photographs of every view in the folder: see tests/browser/test_photos.py",
    )
    parser.addoption(
        "--stand-in",
        action="store_true",
        help="run every engine on tests/fake_cupy.py, as on a GPU",
    )
    parser.addoption(
        "--minutes",
        action="store_true",
        help="what each minute of the suite buys: see tests/minutes.py",
    )
    if not pluginmanager.hasplugin("nbval"):
        for name in ("--nbval", "--nbval-current-env"):
            parser.addoption(name, action="store_true", help="nbval is not here: no effect")
        parser.addoption("--nbval-cell-timeout", help="nbval is not here: no effect")


def pytest_configure(config: pytest.Config) -> None:
    _never_lock()
    if config.option.stand_in:
        _use_stand_in()
    if config.option.minutes:
        sys.path.insert(0, str(ROOT / "tests"))
        import minutes

        config.pluginmanager.register(minutes)
    if config.pluginmanager.hasplugin("nbval"):
        if config.option.nbval_sanitize_with is None:
            config.option.nbval_sanitize_with = str(ROOT / "tests" / "nbval_sanitize.cfg")
        _mend_nbval()
    try:
        from hypothesis import settings
    except ImportError:
        return
    settings.register_profile("ipu_teach", deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("ipu_teach")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore learners' notebooks, which have no outputs to compare; tests/lessons runs them."""
    return (
        True
        if collection_path.suffix == ".ipynb" and collection_path.parent == ROOT / "notebooks"
        else None
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests marked `thorough`, unless the option `--thorough` is given."""
    if not config.option.thorough:
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, and collect less often.

    Each worker keeps 17,000 tests to the end, and walking through them takes a second of processor
    time. With Python's threshold of 700 objects, collections took 6 % of the time of the lessons.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)


def _never_lock() -> None:
    """Replace the lock of coverage.py, which it holds before Python 3.12 while it records a line.

    If a time limit of an answer stopped the code there, the lock would never be released.
    """
    measured = sys.modules.get("coverage")
    if measured and (running := measured.Coverage.current()) and running._collector:
        running._collector.data_lock = None


def _use_stand_in() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    import fake_cupy

    from ipu_teach.engine import backend

    del os.environ["IPU_TEACH_GPU"]
    sys.modules["cupy"] = fake_cupy
    backend.cuda_devices = lambda: 1


def _mend_nbval() -> None:
    from nbval.kernel import RunningKernel
    from nbval.plugin import IPyNbFile

    def execute_cell_input(self: Any, cell_input: str, allow_stdin: bool | None = None) -> Any:
        # nbval 0.11 sends store_history=False, and IPython then ignores a ";" at the end of a line
        return self.kc.execute(
            cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
        )

    RunningKernel.execute_cell_input = execute_cell_input
    start = IPyNbFile.setup

    def setup(self: Any) -> None:
        before = os.environ["IPU_TEACH_WORK"]
        os.environ["IPU_TEACH_WORK"] = tempfile.mkdtemp(dir=STATE, prefix=self.path.stem + "-")
        try:
            start(self)  # the kernel keeps the environment that it started with
        finally:
            os.environ["IPU_TEACH_WORK"] = before

    IPyNbFile.setup = setup


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    cell = getattr(item, "cell", None) if type(item).__name__ == "IPyNbCell" else None
    skipped = cell is not None and getattr(item, "options", {})["skip"]
    if cell is not None and not skipped and cell.source.strip() and cell.execution_count is None:
        pytest.fail("this cell was saved without running it: there is nothing to compare")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that is skipped because something named by `IPU_TEACH_REQUIRE` is missing.

    Continuous integration sets that variable.
    """
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2])
        if any(word in reason for word in os.environ.get("IPU_TEACH_REQUIRE", "").split()):
            report.outcome, report.longrepr = "failed", f"{reason}: it must not be missing here"
    return report
