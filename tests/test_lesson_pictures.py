"""The table of all pictures of all lessons, docs/gallery/lessons.md, against the notebooks as they
are stored."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from html import unescape
from itertools import zip_longest
from pathlib import Path
from urllib.parse import unquote

import pytest

from ipu_course.checking.naming import lesson_of

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = {
    lesson_of(p.name): p for p in sorted((ROOT / "notebooks/solutions").glob("[0-9]*.ipynb"))
}
PICTURE = re.compile(r'<img src="data:image/svg\+xml(;base64)?,([^"]+)" alt="([^"]*)"')
ROW = re.compile(r"\| (\w+) \| (.+) \| `(.+)` \| (.+) \|")

# by lesson: the words above a picture, the code that shows it, the words in it
Picture = tuple[str, str, str]


def plain(text: str) -> str:
    """Words without the marks of Markdown, on one line."""
    return " ".join(
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("*", "").replace("`", "").split()
    )


def pictures(path: Path) -> list[Picture]:
    found, above = list[Picture](), ""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        above = plain(source) if cell["cell_type"] == "markdown" else above
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))
            for packed, drawn, said in PICTURE.findall(page):
                drawing = base64.b64decode(drawn).decode("utf-8") if packed else unquote(drawn)
                lines = re.findall(r"<text[^>]*>(.*?)</text>", drawing)
                words = " ".join(re.sub("<[^>]*>", "", line) for line in lines)
                # a space before a percent sign may be one at which no line breaks
                found.append((above, source, " ".join(unescape(f"{words} {said}").split())))
    return found


def table() -> dict[str, list[tuple[str, str, str]]]:
    """By lesson its rows: sentence, picture and answer."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for line in (ROOT / "docs/gallery/lessons.md").read_text(encoding="utf-8").splitlines():
        if (row := ROW.fullmatch(line)) and row[1] in NOTEBOOKS:
            found.setdefault(row[1], []).append((row[2], row[3], row[4]))
    return found


def test_the_table_has_every_picture_of_every_lesson() -> None:
    have = Counter({lesson: len(pictures(path)) for lesson, path in NOTEBOOKS.items()})
    assert Counter({lesson: len(rows) for lesson, rows in table().items()}) == +have
    assert have.total() > 30


@pytest.mark.parametrize("lesson", NOTEBOOKS)
def test_what_the_table_says_of_a_picture_stands_there(lesson: str) -> None:
    rows, shown = table().get(lesson, []), pictures(NOTEBOOKS[lesson])
    for (sentence, call, answer), (above, source, words) in zip_longest(rows, shown):
        assert plain(sentence) in above and call in source
        quoted = re.findall(r'"([^"]+)"', answer)
        assert quoted and [text for text in quoted if text not in words] == []
