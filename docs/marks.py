"""Replace the text between two marks of a page, for scripts that make parts of pages.

A part named `tables` is between the lines `<!-- tables -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path


def with_part(page_text: str, name: str, content: str) -> str:
    """Return the text of a page, with `content` as its part `name`."""
    part = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return part.sub(lambda match: f"{match[1]}{content}\n{match[2]}", page_text)


def write_between(page: Path, name: str, content: str) -> None:
    """Write `content` to the file `page`, as its part `name`."""
    text = page.read_text(encoding="utf-8")
    page.write_text(with_part(text, name, content), encoding="utf-8")
