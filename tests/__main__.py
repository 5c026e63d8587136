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
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# from 3.12 on the lock has a numpy whose annotations no older Python reads
NEWER = ["--python-version", f"3.{sys.version_info[1]}"] if sys.version_info >= (3, 12) else []
MYPY = [sys.executable, "-m", "mypy", *NEWER]
INTERRUPTED = 2  # pytest's word for Ctrl-C
STOPPED = 130  # a shell's


def for_pytest(words: list[str]) -> list[str]:
    """The arguments of pytest for the words after `test`."""
    if words == ["--browser-all"]:  # with anything else it is an option of pytest
        return [*words, *(f"tests/browser/test_{name}.py" for name in ("every_view", "site"))]
    if "--quick" not in words:
        return words
    quick = (ROOT / "tests" / "quick.txt").read_text(encoding="utf-8")
    files = [f"tests/{name}" for line in quick.splitlines() if (name := line.split("#")[0].strip())]
    return ["-q", "-m", "not slow", *files, *(word for word in words if word != "--quick")]


def missing_files(words: list[str]) -> list[str]:
    """The test files and notebooks among the words that are not there; pytest only says that no
    tests ran."""
    named = [word.partition("::")[0] for word in words if not word.startswith("-")]
    return [name for name in named if name.endswith((".py", ".ipynb")) and not Path(name).exists()]


def all_tests(words: list[str]) -> bool:
    """Whether every test runs: then mypy runs beside them."""
    return re.fullmatch("(-n ?[0-9a-z]+)?", " ".join(words)) is not None


def with_mypy(words: list[str]) -> int:
    """Run pytest, and mypy beside it; the first status that is not 0."""
    with tempfile.TemporaryFile() as said:
        mypy = subprocess.Popen(MYPY, stdout=said, stderr=subprocess.STDOUT)
        try:
            status = int(pytest.main(words))
            if status == INTERRUPTED:
                return STOPPED
            second = mypy.wait()
        except KeyboardInterrupt:
            return STOPPED
        finally:
            mypy.terminate()
            mypy.wait()
        said.seek(0)
        print("mypy: " + said.read().decode("utf-8", "replace").rstrip())
    return status or second


def main(words: list[str]) -> int:
    """The command."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    if words[:1] == ["--as-in-a-browser"]:
        import as_in_a_browser

        return as_in_a_browser.main(words[1:])
    if missing := missing_files(words):
        print(f"test: there is no file {', '.join(missing)}", file=sys.stderr)
        return 2
    return with_mypy(words) if all_tests(words) else int(pytest.main(for_pytest(words)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
