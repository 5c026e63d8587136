"""What the lessons' texts state is true of the outputs stored beside them.

Every number in a text is in the code or in an output of the same notebook, or in
`lessonNN/sources.txt` with its source. A line of that file has the numbers, a colon and the source:

    1,472 624: Graphcore, "IPU Programmer's Guide", chapter 2

A comparison in a text ("twice as many", "almost the same time") is a function in
`lessonNN/claims.py`. Its docstring quotes the sentence, and it asserts the comparison on what the
cells print. It gets a dictionary from the identifiers of the cells to the texts of their outputs.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from ipu_course.checking import notebooks
from ipu_course.checking.gaps import read_notebook, source_of
from ipu_course.checking.naming import lesson_of

HERE = Path(__file__).parent
SOLVED = {lesson_of(path.stem): path for path in notebooks.lessons(solved=True)}
NUMBER = re.compile(r"(?<![\w.,])(?<![A-Za-z]-)\d[\d,_]*(?:\.\d+)?(?!\w)")
# Links, headings of exercises, numbers of lessons, the minutes and a paper's year are not statements.
NOT_STATED = re.compile(
    r"\]\([^)]*\)|\*\*Exercise [^*]*\*\*|^\*\d+ minutes\b|\b[Ll]essons?\s\w+((,| to| and) \d\w+)*|^# .*"
    r"|arXiv:[\d.]+|\b\d\d\.w?\d\b|\b(19|20)\d\d(?=\))",
    re.MULTILINE,
)


def outputs_of(cell: dict) -> str:  # type: ignore[type-arg]
    """Return the texts of a cell's outputs."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        texts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    joined = "\n".join("".join(text) for text in texts)
    return re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", joined, flags=re.DOTALL)


@cache
def cells(lesson: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Return (the texts, the code, the outputs by the cell's identifier) of a solved lesson."""
    texts: list[str] = []
    code: list[str] = []
    outputs: dict[str, str] = {}
    for cell in read_notebook(SOLVED[lesson])["cells"]:
        if cell["cell_type"] == "markdown":
            texts.append(source_of(cell))
        else:
            code.append(source_of(cell))
            outputs[cell["id"]] = outputs_of(cell)
    return texts, code, outputs


def numbers(text: str) -> set[str]:
    """Return the numbers in a text, without separators of thousands."""
    return {re.sub("[,_]", "", number) for number in NUMBER.findall(text)}


def sources(lesson: str) -> dict[str, str]:
    """Return the source of each number in a lesson's `sources.txt`."""
    path = HERE / f"lesson{lesson}" / "sources.txt"
    rows = [line.partition(":") for line in path.read_text("utf-8").splitlines() if line.strip()]
    assert all(source.strip() for _, _, source in rows), f"{path}: a line has no source"
    return {re.sub(",", "", number): source for row, _, source in rows for number in row.split()}


@pytest.mark.parametrize(
    "lesson",
    [lesson for lesson in sorted(SOLVED) if (HERE / f"lesson{lesson}/sources.txt").exists()],
)
def test_every_number_in_a_text_is_shown_or_has_a_source(lesson: str) -> None:
    texts, code, outputs = cells(lesson)
    stated = set().union(*(numbers(NOT_STATED.sub(" ", text)) for text in texts))
    shown = numbers("\n".join([*code, *outputs.values()]))
    with_source = set(sources(lesson))
    unfounded = sorted(stated - shown - with_source, key=float)
    assert not unfounded, f"neither shown nor in sources.txt: {' '.join(unfounded)}"
    unneeded = sorted(with_source - (stated - shown), key=float)
    assert not unneeded, (
        f"shown, or not in a text, so without need of a source: {' '.join(unneeded)}"
    )


@cache
def module(path: Path) -> ModuleType:
    """Return a file of claims as a module."""
    spec = importlib.util.spec_from_file_location(f"claims_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


CLAIMS = [
    pytest.param(path, node.name, id=f"{path.parent.name.removeprefix('lesson')} {node.name}")
    for path in sorted(HERE.glob("lesson*/claims.py"))
    for node in ast.parse(path.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]


def squeezed(text: str) -> str:
    """Return a text with single spaces, without marks of emphasis."""
    return " ".join(re.sub(r"[*`>]|\]\([^)]*\)|\[", "", text).split())


@pytest.mark.parametrize(("path", "name"), CLAIMS)
def test_a_comparison_in_a_text_holds(path: Path, name: str) -> None:
    texts, _, outputs = cells(path.parent.name.removeprefix("lesson"))
    claim: Callable[[dict[str, str]], None] = getattr(module(path), name)
    quoted = squeezed(claim.__doc__ or "")
    assert quoted and any(quoted in squeezed(text) for text in texts), "no text has this sentence"
    claim(outputs)
