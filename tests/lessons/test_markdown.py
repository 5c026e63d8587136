"""The code in the texts of lessons: no script has joined its lines, and its Python can be parsed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
WORDS = sorted((ROOT / "ipu_course").glob("lesson*/words.md"))
# Fences of Python that are no complete statements: (the notebook, the first line of the fence).
FRAGMENTS: set[tuple[str, str]] = set()


def texts(path: Path) -> list[str]:
    """Return the markdown cells of a notebook, or the whole text of another file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [text]
    cells = json.loads(text)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def prose(text: str) -> Iterator[str]:
    """Yield the lines that are outside fences and outside indented blocks."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield line


@pytest.mark.parametrize(
    "path", [*NOTEBOOKS, *WORDS], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_no_line_of_code_was_joined_to_another(path: Path) -> None:
    """A run of four spaces within a line is where an indented line was joined to the one before."""
    joined = [line for text in texts(path) for line in prose(text) if re.search(r"\S {4,}\S", line)]
    assert not joined


def test_a_joined_line_is_noticed() -> None:
    """The line is one of lesson 13, as a script had joined it."""
    line = "for x, y in loader:         optimizer.zero_grad()         optimizer.step()"
    assert [*prose(f"Text.\n\n{line}\n\n    in = a    block\n```\na    b\n```")] == [
        "Text.",
        "",
        line,
        "",
    ]
    assert re.search(r"\S {4,}\S", line)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_fenced_python_can_be_parsed(path: Path) -> None:
    for text in texts(path):
        for code in re.findall(r"(?ms)^```python\n(.*?)^```", text):
            if (path.stem, code.partition("\n")[0]) in FRAGMENTS:
                continue
            ast.parse(code)
