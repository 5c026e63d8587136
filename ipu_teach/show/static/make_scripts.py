"""Makes the scripts as they travel: python ipu_teach/show/static/make_scripts.py [--check]

NAME.js.gz is what the page of a view NAME needs: layout.js, player.js, what it shares with few others and its own NAME.js,
without comments and indentation, compressed together. Views without a script of their own take player.js.gz, the widget's own
part is widget.js.gz, and puzzle.js.gz is that of the lessons' puzzles. Compressors differ from build to build, so what they
made is kept: equal views are equal bytes everywhere.
With `--check` nothing is written, and the exit status is 1 if one is old.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = ("layout.js", "player.js")  # what every page has
ALONE = ("widget.js", "puzzle.js")
ALSO = {"tape.js": ("bsp.js", "balance.js")}  # by file: who needs it


def stripped(name: str) -> str:
    """A script without lines of comment, blank lines and indentation."""
    lines = (line.strip() for line in (HERE / name).read_text(encoding="utf-8").splitlines())
    return re.sub(r"\n+", "\n", "\n".join(line for line in lines if not line.startswith("//"))).strip()


def scripts() -> dict[str, str]:
    """The text of every file that is made."""
    own = sorted(path.name for path in HERE.glob("*.js") if path.name not in (*SHARED, *ALONE, *ALSO))
    parts: dict[str, tuple[str, ...]] = {"player.js": SHARED, **{name: (name,) for name in ALONE}}
    parts |= {name: (*SHARED, *(also for also, needed in ALSO.items() if name in needed), name) for name in own}
    return {f"{name}.gz": "\n".join(map(stripped, files)) for name, files in parts.items()}


def main() -> int:
    """Make what is missing or old."""
    made = scripts()
    old = [
        p for p in HERE.glob("*.gz") if p.name not in made or gzip.decompress(p.read_bytes()).decode("utf-8") != made[p.name]
    ]
    stale = sorted({p.name for p in old} | {name for name in made if not (HERE / name).is_file()})
    for name in stale:
        print(name)
        if "--check" in sys.argv[1:]:
            continue
        if name in made:
            (HERE / name).write_bytes(gzip.compress(made[name].encode("utf-8"), 9, mtime=0))
        else:
            (HERE / name).unlink()
    return int(bool(stale) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
