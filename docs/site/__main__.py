"""python3 run.py site [options of sphinx-build]: build the website in `site` from scratch.

The build fails if Sphinx reports a warning, such as a broken link.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "site"
# These options of sphinx-build have their value in the next argument.
VALUED = ("-A", "-D", "-b", "-c", "-d", "-j", "-t", "-w", "--builder", "--jobs", "--tag")
STRICT = ["-q", "-j", "auto", "-E", "-W", "--keep-going"]


def main(words: list[str], site: Path = SITE) -> int:
    """Build the website; return the exit status.

    `words` has further options of sphinx-build.
    """
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
    if site.exists():  # A page whose source was deleted must not remain.
        shutil.rmtree(site)
    here = str(Path(__file__).resolve().parent)
    with tempfile.TemporaryDirectory() as trees:
        return build([*STRICT, "-d", trees, *words, "-c", here, str(ROOT), str(site)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
