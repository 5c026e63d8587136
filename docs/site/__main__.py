"""python3 run.py site [options of sphinx-build]: build the website in `site` from scratch.

The build fails if Sphinx reports a warning, such as a broken link.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "site"
# These options of sphinx-build have their value in the next argument.
VALUED = ("-A", "-D", "-b", "-c", "-d", "-j", "-t", "-w", "--builder", "--jobs", "--tag")
STRICT = ["-q", "-j", "auto", "-E", "-W", "--keep-going"]


def main(words: list[str], site: Path = SITE) -> int:
    """Build the website; return the exit status.

    `words` has further options of sphinx-build.
    """
    if {"-h", "--help"} & {*words}:
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
        from sphinx.cmd.build import get_parser, main as build
    except ImportError:
        print("site: the extra `docs` is missing: pip install -e .[docs]", file=sys.stderr)
        return 1
    if problem := refused(get_parser(), words):
        print(
            f"site: {problem}.\n"
            f"  next: see the options of sphinx-build: {sys.executable} -m sphinx --help",
            file=sys.stderr,
        )
        return 2
    if site.exists():  # A page whose source was deleted must not remain.
        shutil.rmtree(site)
    here = str(Path(__file__).resolve().parent)
    with tempfile.TemporaryDirectory() as trees:
        return build([*STRICT, "-d", trees, *words, "-c", here, str(ROOT), str(site)])


def refused(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """Return why sphinx-build refuses these options; "" if it takes them."""

    def stop(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = stop  # type: ignore[method-assign]  # Sphinx's usage has arguments that are ours
    try:
        _, unknown = parser.parse_known_args(["source", "output", *words])
    except ValueError as error:
        return str(error)
    return f"sphinx-build has no option {' '.join(unknown)}" if unknown else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
