"""Makes the scripts as they travel, NAME.js.gz of every NAME.js here: python ipu_teach/show/static/make_scripts.py [--check]

A page carries them without comments and indentation, and compressed. Compressors differ from build to build, so what they
made is kept: equal views are equal bytes everywhere. With `--check` nothing is written, and the exit status is 1 if one is old.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def stripped(source: str) -> str:
    """A script without lines of comment, blank lines and indentation."""
    lines = (line.strip() for line in source.splitlines())
    return re.sub(r"\n+", "\n", "\n".join(line for line in lines if not line.startswith("//"))).strip()


def stale() -> list[Path]:
    """The scripts whose compressed form is missing or unpacks to something else."""
    found = []
    for path in sorted(HERE.glob("*.js")):
        packed = path.with_name(f"{path.name}.gz")
        if not packed.is_file() or gzip.decompress(packed.read_bytes()).decode("utf-8") != stripped(path.read_text("utf-8")):
            found.append(path)
    return found


def main() -> int:
    """Make what is missing or old."""
    found = stale()
    for path in found:
        print(path.name)
        if "--check" not in sys.argv[1:]:
            text = stripped(path.read_text(encoding="utf-8"))
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))
    return int(bool(found) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
