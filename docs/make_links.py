"""Write the links that need the public address of the repository: python docs/make_links.py

The address is `tool.ipu-teach.address` in pyproject.toml, and may be empty. Four things depend on
it:

* the links at the top of README: without an address, README's first commands build the site instead
* the address in CITATION.cff
* the project's links on a package index, which hatch_build.py takes from `project_urls`
* README on a package index: hatch_build.py makes its links absolute by `absolute`

hatch_build.py runs this file before any package is installed, so it imports only the standard
library.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README, CITATION = ROOT / "README.md", ROOT / "CITATION.cff"
OPENING, CLOSING = "<!-- links: docs/make_links.py -->\n", "<!-- end of links -->"
FIRST = "notebooks/00_meet_the_machine.ipynb"


def address() -> str:
    """Return the public address of the repository, as `https://github.com/OWNER/NAME`, or ""."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'\[tool\.ipu-teach\][^\[]*\naddress = "([^"]*)"', settings)
    return match[1].rstrip("/") if match else ""


def owner_and_name(public: str) -> tuple[str, str]:
    """Return the owner and the name of the repository with this public address.

    :raises SystemExit: if the address has another form than https://github.com/OWNER/NAME.
    """
    parts = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", public)
    if parts is None:
        raise SystemExit(
            f"tool.ipu-teach.address is {public!r}, but its form must be "
            "https://github.com/OWNER/NAME."
        )
    return parts[1], parts[2]


def website(public: str) -> str:
    """Return the address of the site that the workflow `site` publishes."""
    owner, name = owner_and_name(public)
    return f"https://{owner}.github.io/{name}/"


def project_urls(public: str) -> dict[str, str]:
    """Return {title: link} as a package index shows them; {} without a public address."""
    if not public:
        return {}
    return {
        "Documentation": website(public),
        "Source": public,
        "Changelog": f"{public}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{public}/issues",
    }


def absolute(public: str, version: str, text: str) -> str:
    """Return Markdown whose relative links lead to the files of version `version`.

    Links in the page, links to other sites and code stay as they are. So does everything if
    `public` is empty.
    """

    def target(match: re.Match[str]) -> str:
        before, path = match["before"], match["path"]
        if not public or path is None or re.match(r"[a-z]+:|#", path):
            return match[0]
        is_picture = before.endswith('"') or match[0].startswith("!")
        return f"{before}{public}/{'raw' if is_picture else 'blob'}/v{version}/{path}"

    code = r"```.*?```|`[^`\n]*`"
    link = r"(?P<before>!?\[[^\]]*\]\(|\b(?:src|srcset)=\")(?P<path>[^)\"\s]+)"
    return re.sub(f"{code}|{link}", target, text, flags=re.DOTALL)


def links(public: str) -> str:
    """Return a line of Markdown with the README's links; "" without a public address.

    The links lead to the website, and to services that open lesson 00 in a kernel.

    :raises SystemExit: if the address has another form than https://github.com/OWNER/NAME.
    """
    if not public:
        return ""
    owner, name = owner_and_name(public)
    return (
        f"[Look at the lessons]({website(public)}) · open lesson 00 in "
        f"[Binder](https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath=lab/tree/{FIRST}) or "
        f"[Colab](https://colab.research.google.com/github/{owner}/{name}/blob/HEAD/{FIRST}) · "
        f"[in a container](docs/one_click.md)\n"
    )


def page(public: str, text: str) -> str:
    """Return the text of README with the links for the public address."""
    before, rest = text.split(OPENING)
    return before + OPENING + links(public) + CLOSING + rest.split(CLOSING)[1]


def citation(public: str, text: str) -> str:
    """Return the text of CITATION.cff with the public address, or without one if it is empty."""
    text = re.sub(r"(?m)^repository-code: .*\n", "", text)
    line = f"repository-code: {public}\n" if public else ""
    return text.replace("type: software\n", "type: software\n" + line)


if __name__ == "__main__":
    for path, change in ((README, page), (CITATION, citation)):
        text = change(address(), path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8", newline="\n")
