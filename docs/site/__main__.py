"""python3 run.py site [options of sphinx-build]: make the folder `site` anew, all of it as pages.

Links in it that lead nowhere, and whatever else Sphinx warns of, make it fail.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "site"
# options of sphinx-build that take the next word
VALUED = ("-A", "-D", "-b", "-c", "-d", "-j", "-t", "-w", "--builder", "--jobs", "--tag")
STRICT = ["-q", "-j", "auto", "-E", "-W", "--keep-going"]


def main(words: list[str], site: Path = SITE) -> int:
    """Return the command."""
    if words == ["--help"]:
        print((__doc__ or "").strip())
        return 0
    for before, word in zip(["", *words], words, strict=False):
        if not word.startswith("-") and before not in VALUED:
            print(
                f"site: {word!r} is not an option of sphinx-build; the site always has all pages.\n"
                "  next: python3 run.py site, or with options such as -v and -j 1.",
                file=sys.stderr,
            )
            return 2
    try:
        from sphinx.cmd.build import main as build
    except ImportError:
        print("site: the extra `docs` is missing: pip install -e .[docs]", file=sys.stderr)
        return 1
    if site.exists():  # so that no page stays whose source has gone
        shutil.rmtree(site)
    here = str(Path(__file__).resolve().parent)
    with tempfile.TemporaryDirectory() as trees:
        return build([*STRICT, "-d", trees, *words, "-c", here, str(ROOT), str(site)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
