"""Run solved lessons with the limits of Python in a browser (docs/in_the_browser.md).

    python3 run.py test --as-in-a-browser [00 …]

The process has no numba, no threadpoolctl, no Jupyter server and none of the modules that Pyodide
leaves out, and it cannot start a thread or a process. The cells run in IPython's shell, as in
JupyterLite's kernel. Their outputs must equal the stored ones, and each exercise must pass.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LESSONS = ("00", "01", "02", "03", "04")
# Modules that JupyterLite's kernel lacks: compiled packages, servers, and modules for a full system.
ABSENT = {
    *("numba", "llvmlite", "threadpoolctl", "cupy", "torch", "psutil"),
    *("zmq", "tornado", "jupyter_client", "jupyter_server", "ipykernel", "nbclient", "nbconvert"),
    *("_multiprocessing", "_posixsubprocess", "_posixshmem", "fcntl", "grp", "pwd", "resource"),
    *("termios", "curses", "_curses", "readline", "syslog"),
}


class Without:
    """A finder of modules that does not find those in `ABSENT`."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in ABSENT:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def shut_in() -> list[str]:
    """Take away from this process what a browser does not have.

    Return a list to which each refused request is added: "a thread" or "a process".
    """
    refused: list[str] = []

    def refuse(what: str, error: Exception) -> Any:
        def call(*_: object, **__: object) -> None:
            refused.append(what)
            raise error

        return call

    import _thread
    import threading

    for name in ABSENT & set(sys.modules):
        del sys.modules[name]
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
    no_thread = refuse("a thread", RuntimeError("can't start new thread"))
    for owner in (_thread, threading):
        for name in (
            "start_new_thread",
            "_start_new_thread",
            "_start_joinable_thread",
            "start_new",
            "start_joinable_thread",
        ):
            if hasattr(owner, name):
                setattr(owner, name, no_thread)
    no_process = refuse(
        "a process", OSError(errno.ENOSYS, "emscripten does not support processes.")
    )
    subprocess.Popen.__init__ = no_process
    for name in (
        "fork",
        "forkpty",
        "posix_spawn",
        "posix_spawnp",
        "execv",
        "execve",
        "system",
        "popen",
    ):
        setattr(os, name, no_process)
    return refused


def run(lesson: str) -> list[str]:
    """Run a solved lesson in this process, with the limits; return its faults."""
    refused = shut_in()
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    from ipu_course.checking.exercise import catalogue
    from ipu_course.checking.notebooks import find_lesson, work_path

    values: list[str] = []

    class Noted(DisplayHook):  # type: ignore[misc]
        def __call__(self, result: object = None) -> None:
            if result is not None:
                forms = shell.display_formatter.format(result)[0]
                values.extend([forms["text/plain"]] if forms else [])  # no form: it displays itself

    config = Config()
    config.HistoryManager.enabled = False  # it needs a thread; JupyterLite's kernel has no history
    shell = InteractiveShell.instance(config=config, displayhook_class=Noted)
    path = find_lesson(lesson, solved=True)
    os.chdir(path.parent)
    wrong = []
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        values.clear()
        with capture_output() as caught:
            done = shell.run_cell("".join(cell["source"]))
        if not done.success:
            wrong.append(f"cell {number}: {done.error_before_exec or done.error_in_exec!r}")
        said = [caught.stdout, *values]
        outputs = cell["outputs"]
        printed = "".join("".join(o["text"]) for o in outputs if o.get("name") == "stdout")
        results = [o["data"] for o in outputs if o["output_type"] == "execute_result"]
        stored = [printed, *("".join(data["text/plain"]) for data in results)]
        if said != stored:
            wrong.append(f"cell {number} says {said!r}, and stored is {stored!r}")
    records = json.loads((work_path() / "progress.json").read_text("utf-8"))["records"]
    (entry,) = [entry for entry in catalogue() if entry.number == lesson]
    names = [item.name for item in entry.exercises]
    solved = [name for name in names if records.get(name, {}).get("state") == "solved"]
    wrong += [f"{name} has not passed" for name in names if name not in solved]
    vain = f"; asked for in vain: {', '.join(sorted(set(refused)))}" if refused else ""
    print(f"{lesson}: {len(solved)} of {len(names)} exercises passed{vain}", flush=True)
    return wrong


def main(lessons: list[str]) -> int:
    """Run the lessons, each in a process and a work folder of its own; return the exit status."""
    failed = 0
    for lesson in lessons or LESSONS:
        with tempfile.TemporaryDirectory(prefix="ipu_teach-browser-") as work:
            env = dict(os.environ, IPU_TEACH_WORK=work, PYTHONPATH=str(ROOT), TERM="dumb")
            env.pop("IPU_TEACH_NUMBA", None)
            command = [sys.executable, __file__, "--one", lesson]
            failed += subprocess.run(command, env=env, timeout=600).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        faults = run(sys.argv[2])
        print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
        raise SystemExit(bool(faults))
    raise SystemExit(main(sys.argv[1:]))
