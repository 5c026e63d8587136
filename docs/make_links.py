"""Write the links at the top of README for the public address of the repository.

    python docs/make_links.py

The address is `tool.ipu-teach.address` in pyproject.toml. If it is empty, README has no links, and
its first commands include the command that builds the site.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
OPENING, CLOSING = "<!-- links: docs/make_links.py -->\n", "<!-- end of links -->"
FIRST = "notebooks/00_meet_the_machine.ipynb"


def address() -> str:
    """Return the public address of the repository, as `https://github.com/OWNER/NAME`, or ""."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'\[tool\.ipu-teach\][^\[]*\naddress = "([^"]*)"', settings)
    return match[1].rstrip("/") if match else ""


def links(public: str) -> str:
    """Return a line of Markdown with the README's links, for a public address; "" without one.

    The links lead to the website, and to services that open lesson 00 in a kernel.

    :raises SystemExit: if the address has another form than https://github.com/OWNER/NAME.
    """
    if not public:
        return ""
    parts = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", public)
    if parts is None:
        raise SystemExit(
            f"tool.ipu-teach.address is {public!r}, but its form must be "
            "https://github.com/OWNER/NAME."
        )
    owner, name = parts.groups()
    return (
        f"[Look at the lessons](https://{owner}.github.io/{name}/) · open lesson 00 in "
        f"[Binder](https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath=lab/tree/{FIRST}) or "
        f"[Colab](https://colab.research.google.com/github/{owner}/{name}/blob/HEAD/{FIRST}) · "
        f"[in a container](docs/one_click.md)\n"
    )


def page(public: str, text: str) -> str:
    """Return the text of README with the links for the public address."""
    before, rest = text.split(OPENING)
    return before + OPENING + links(public) + CLOSING + rest.split(CLOSING)[1]


if __name__ == "__main__":
    README.write_text(
        page(address(), README.read_text(encoding="utf-8")), encoding="utf-8", newline="\n"
    )
