"""Run the tests: python3 run.py test [arguments of pytest]

Without arguments, or with -n and a number, the suite runs, and mypy at the same time; the output of
mypy comes last, and the exit status is that of both. The suite has all solved lessons, and all tests
but those with the marker `thorough`. With other arguments only pytest runs. They are arguments of
pytest, or one of:

  --quick              run the tests in tests/quick.txt: under a minute on two cores
  --browser-all        run only the tests in Chromium, with every view on every page, the slides of
                       all lessons, and the full site
  --thorough           run only the other files that have tests with the marker `thorough`, and
                       include these tests: rows of long tables, and tests that take many seconds
  --photos FOLDER      run only the photographs of every view, and store them in the folder
  --as-in-a-browser    run lessons 00 to 04, or those named, without numba, threads and processes,
                       as JupyterLite would
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
# From 3.12 on, the lock has a numpy whose annotations older Pythons cannot read.
NEWER = ["--python-version", f"3.{sys.version_info[1]}"] if sys.version_info >= (3, 12) else []
MYPY = [sys.executable, "-m", "mypy", *NEWER]
# In test files with tests that the suite leaves out.
THOROUGH = re.compile(r"mark\.thorough|one_in\(|def is_thorough")
INTERRUPTED = 2  # the exit status of pytest after Ctrl-C
STOPPED = 130  # the exit status of a shell after Ctrl-C


def for_pytest(words: list[str]) -> list[str]:
    """Return the arguments of pytest for the words after `test`."""
    if words == ["--browser-all"]:  # with other words it is an option of pytest
        return [*words, "--thorough", "tests/browser"]
    if words == ["--thorough"]:
        return [*words, *map(str, thorough_files())]
    if words[:1] == ["--photos"] and len(words) == 2:
        return [*words, "tests/browser/test_photos.py"]
    if "--quick" not in words:
        return words
    quick = (ROOT / "tests" / "quick.txt").read_text(encoding="utf-8")
    files = [f"tests/{name}" for line in quick.splitlines() if (name := line.split("#")[0].strip())]
    return ["-q", "-m", "not slow", *files, *(word for word in words if word != "--quick")]


def thorough_files() -> list[Path]:
    """Return the test files with tests that the suite leaves out, except those in a browser."""
    tests = ROOT / "tests"
    return [
        path.relative_to(ROOT)
        for folder in (tests, tests / "lessons")
        for path in sorted(folder.glob("test_*.py"))
        if THOROUGH.search(path.read_text(encoding="utf-8"))
    ]


def missing_files(words: list[str]) -> list[str]:
    """Return the test files and notebooks among the words that do not exist.

    pytest would only report that no tests ran.
    """
    named = [word.partition("::")[0] for word in words if not word.startswith("-")]
    return [name for name in named if name.endswith((".py", ".ipynb")) and not Path(name).exists()]


def all_tests(words: list[str]) -> bool:
    """Return whether all tests run, and mypy with them."""
    return re.fullmatch("(-n ?[0-9a-z]+)?", " ".join(words)) is not None


def with_mypy(words: list[str]) -> int:
    """Run pytest and mypy at the same time; return the first exit status that is not 0."""
    with tempfile.TemporaryFile() as output:
        mypy = subprocess.Popen(MYPY, stdout=output, stderr=subprocess.STDOUT)
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
        output.seek(0)
        print("mypy: " + output.read().decode("utf-8", "replace").rstrip())
    return status or second


def main(words: list[str]) -> int:
    """Run the command, and return its exit status."""
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
