"""Name the functions of the kit that no test and no lesson calls.

    python3 run.py entered [arguments of pytest]

This runs the tests (all of them, without arguments) with coverage.py, which also measures the
processes that they start. The exit status is 1 if a test failed, or if none of the lines of some
function ran. `tool.coverage` in pyproject.toml has the settings.

On Python 3.10, coverage.py is older: of functions with equal names in a file it sees only one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def left_out(report: dict[str, Any]) -> list[str]:
    """Return the functions without any executed line, from a JSON report of coverage.py."""
    return [
        f"{Path(path).as_posix()}:{function['start_line']} {name}"
        for path, file in sorted(report["files"].items())
        for name, function in file["functions"].items()
        if name and function["missing_lines"] and not function["executed_lines"]
    ]


def main(words: list[str]) -> int:
    """Run pytest with the arguments `words`, and print the functions that it did not call."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, COVERAGE_FILE=f"{folder}/data")
        report = Path(folder, "report")

        def coverage(*words: str) -> int:
            command = [sys.executable, "-m", "coverage", *words]
            return subprocess.run(command, cwd=ROOT, env=env).returncode

        status = coverage("run", "-m", "pytest", *words)
        if status > 1:  # interrupted, or wrong arguments: the tests did not run
            return status
        # Each process wrote a file of its own.
        if coverage("combine", "-q") or coverage("json", "-q", "-o", str(report)):
            return 1
        missing = left_out(json.loads(report.read_text(encoding="utf-8")))
    print("\n".join([*missing, f"{len(missing):,} functions were entered by no test that ran."]))
    return int(bool(status or missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
