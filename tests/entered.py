"""Which functions of the kit no test and no lesson enters: python3 run.py entered [arguments of
pytest]

It runs the tests, all of them if nothing else is said, in every process that they start, and ends
with 1 if one failed or a function was left out: one none of whose lines ran. coverage.py counts
them; `tool.coverage` in pyproject.toml says what it looks at.

Python 3.10 has an older coverage.py, which knows of functions of one name in a file only one.
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
    """The functions of a report, as coverage.py writes it in JSON, none of whose lines ran."""
    return [
        f"{Path(path).as_posix()}:{function['start_line']} {name}"
        for path, file in sorted(report["files"].items())
        for name, function in file["functions"].items()
        if name and function["missing_lines"] and not function["executed_lines"]
    ]


def main(words: list[str]) -> int:
    """Run pytest with `words`, and say what it left out."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        env, report = dict(os.environ, COVERAGE_FILE=f"{folder}/data"), Path(folder, "report")

        def coverage(*words: str) -> int:
            command = [sys.executable, "-m", "coverage", *words]
            return subprocess.run(command, cwd=ROOT, env=env).returncode

        status = coverage("run", "-m", "pytest", *words)
        if status > 1:  # stopped, or words that pytest does not take: the tests did not run
            return status
        # one file for each process
        if coverage("combine", "-q") or coverage("json", "-q", "-o", str(report)):
            return 1
        found = left_out(json.loads(report.read_text(encoding="utf-8")))
    print("\n".join([*found, f"{len(found):,} functions were entered by no test that ran."]))
    return int(bool(status or found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
