"""Replace the generated parts of Markdown pages.

The part `tables` is between the lines `<!-- tables -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path


def with_part(page_text: str, name: str, content: str) -> str:
    """Return the text of a page with its part `name` replaced by `content`."""
    part = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return part.sub(lambda match: f"{match[1]}{content}\n{match[2]}", page_text)


def write_between(page: Path, name: str, content: str) -> None:
    """Replace the part `name` of the file `page` with `content`."""
    text = page.read_text(encoding="utf-8")
    page.write_text(with_part(text, name, content), encoding="utf-8")
