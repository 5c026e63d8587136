"""python3 run.py test [arguments of pytest]: every test and every solved lesson, and mypy beside
them, whose words come last; the status is of both.

With arguments other than -n and a number pytest runs alone, and these are for it, or one of:

  --quick              those of tests/quick.txt: under a minute on two cores, the first thing after
                       a change
  --browser-all        every view on every page and the whole site, in Chromium, and nothing else
  --as-in-a-browser    lessons 00 to 04, or those named, without numba, threads and processes, as
                       JupyterLite would run them
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STOPPED = 130  # what a shell shows for a program that Ctrl-C ended


def command_of(words: Sequence[str]) -> list[str]:
    """The command that runs what the words after `test` ask for, in this folder."""
    if words[:1] == ["--as-in-a-browser"]:
        return [sys.executable, os.path.join("tests", "as_in_a_browser.py"), *words[1:]]
    if words == ["--browser-all"]:  # with anything else it is an option of pytest
        views = [f"tests/browser/test_{name}.py" for name in ("every_view", "site")]
        return [sys.executable, "-m", "pytest", *words, *views]
    chosen = list(words)
    if "--quick" in words:
        quick = (ROOT / "tests" / "quick.txt").read_text(encoding="utf-8")
        files = [
            f"tests/{name}"
            for line in quick.splitlines()
            if (name := line.partition("#")[0].strip())
        ]
        chosen = ["-q", "-m", "not slow", *files, *(word for word in words if word != "--quick")]
    return [sys.executable, "-m", "pytest", *chosen]


def all_tests(words: Sequence[str]) -> bool:
    """Whether every test runs: then mypy runs beside them."""
    return re.fullmatch("(-n ?[0-9a-z]+)?", " ".join(words)) is not None


def mypy_command() -> list[str]:
    """mypy as it runs beside the tests; from 3.12 on the lock has a numpy whose annotations no
    older Python reads."""
    minor = sys.version_info[1]
    newer = ["--python-version", f"3.{minor}"] if minor >= 12 else []
    return [sys.executable, "-m", "mypy", *newer]


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a process; Ctrl-C reaches it, too, and it decides."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            pass


def beside(command: list[str], other: list[str]) -> int:
    """Run a command, and another beside it, whose words follow when both are done; the first status
    that is not 0."""
    with tempfile.TemporaryFile() as said:
        second = subprocess.Popen(other, stdout=said, stderr=subprocess.STDOUT)
        try:
            status = wait_for(subprocess.Popen(command))
            # Ctrl-C, by pytest's word and by the signal's: nobody waits for the other
            if status in (2, -2):
                return STOPPED
            second_status = wait_for(second)
        finally:
            if second.poll() is None:
                second.terminate()
                second.wait()
        said.seek(0)
        print("mypy: " + said.read().decode("utf-8", "replace").rstrip())
    return STOPPED if second_status == -2 else status or second_status


def main(words: list[str]) -> int:
    """The command."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    os.chdir(ROOT)
    command = command_of(words)
    if all_tests(words):
        return beside(command, mypy_command())
    if os.name != "nt":
        sys.stdout.flush()
        os.execv(command[0], command)
    return wait_for(subprocess.Popen(command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
