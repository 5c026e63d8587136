"""The kit where there are no threads, no processes and no numba: docs/in_the_browser.md."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ipu_course.checking.time_limit import within
from ipu_teach._support import progress

pytest.importorskip("IPython")
ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "as_in_a_browser.py"


@pytest.mark.slow
def test_a_lesson_runs_without_threads_processes_and_numba() -> None:
    """The others are run by `python3 run.py test --as-in-a-browser`."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "00"], text=True, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "00: 4 of 4 exercises passed; asked for in vain: a thread\n"


SHUT_IN = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import as_in_a_browser, importlib.util, os, subprocess, threading
asked = as_in_a_browser.shut_in()
for step in (
    lambda: __import__("numba"),
    lambda: __import__("_multiprocessing"),
    threading.Thread(target=print).start,
    lambda: subprocess.run(["true"]),
    lambda: os.system("true"),
):
    try:
        step()
    except (ImportError, RuntimeError, OSError) as error:
        print(type(error).__name__, error)
print(asked, importlib.util.find_spec("threadpoolctl"))
"""


def test_what_a_browser_has_not_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", SHUT_IN], text=True, capture_output=True)
    assert done.stdout.splitlines() == [
        "ModuleNotFoundError No module named 'numba'",
        "ModuleNotFoundError No module named '_multiprocessing'",
        "RuntimeError can't start new thread",
        *[f"OSError [Errno {errno.ENOSYS}] emscripten does not support processes."] * 2,
        "['a thread', 'a process', 'a process'] None",
    ], done.stderr


def test_without_threads_nothing_is_watched_and_nothing_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(progress, "_watcher", None)
    monkeypatch.setattr(progress, "_screen", lambda: sys.stderr)
    with progress.working("a long task"):
        assert within(0.001, lambda: sum(range(10**5))) == 4_999_950_000
    assert progress._watcher is None and capsys.readouterr().err == ""


def test_the_configuration_names_what_there_is() -> None:
    """It has not been opened in a browser: docs/in_the_browser.md says so."""
    folder = ROOT / "deploy" / "jupyterlite"
    build = json.loads((folder / "jupyter_lite_config.json").read_text("utf-8"))
    (lessons,) = build["LiteBuildConfig"]["contents"]
    assert (folder / lessons / "00_meet_the_machine.ipynb").is_file()
    assert build["PipliteAddon"]["piplite_urls"] == ["../../dist"]
    settings = json.loads((folder / "jupyter-lite.json").read_text("utf-8"))
    kernel = settings["jupyter-config-data"]["litePluginSettings"]
    (options,) = kernel.values()
    assert set(options["loadPyodideOptions"]["packages"]) >= {"numpy", "tqdm", "threadpoolctl"}
