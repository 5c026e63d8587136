"""A lesson's slides: its pictures, its own sentences, and the workshop's notes; nothing fetched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
from ipu_course.checking.notebooks import PAGES, lessons  # noqa: E402
from ipu_course.checking.slides import plain, slides_of  # noqa: E402
from ipu_course.cli import main  # noqa: E402


def squeezed(text: str) -> str:
    return " ".join(plain(text).split())


def is_code(cell: Any) -> bool:
    return bool(cell.cell_type == "code")


def set_of(cell: Any) -> set[str]:
    return {str(output) for output in cell.get("outputs", ())}


@pytest.mark.parametrize("path", lessons(solved=True), ids=lambda path: path.stem)
def test_slides_are_the_lessons_own_pictures_and_sentences(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    slides = slides_of(notebook, path.stem).cells
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pictures = [o for o in outputs if "<img" in o.get("data", {}).get("text/html", "")]
    drawn = [output for cell in slides for output in cell.get("outputs", ())]
    assert [output for output in drawn if "<img" in str(output.get("data"))] == pictures
    assert len(drawn) > 1, "a lesson has two pictures or more"
    assert all(output in outputs for output in drawn)

    kinds = [cell.metadata.get("slideshow", {}).get("slide_type", "picture") for cell in slides]
    assert kinds[:2] == ["slide", "notes"] and kinds.count("slide") == 1 + kinds.count("picture")
    own = squeezed("\n\n".join(cell.source for cell in notebook.cells))
    own += squeezed(" ".join(output.get("data", {}).get("text/plain", "") for output in outputs))
    shown = [cell.source for cell, kind in zip(slides, kinds, strict=True) if kind == "slide"]
    for source in shown:
        heading, *sentences = source.split("\n\n")
        assert re.match("##? ", heading) and 1 <= len(sentences) <= 3, source
        assert all(sentence in own for sentence in (heading, *sentences)), source
        assert re.search(r"[.?!][*\"]*$", source) and source.count("**") % 2 == 0, source

    # Only words above a picture may announce "the next picture"; below it, they are about another.
    for cell, source in zip((c for c in slides if c.cell_type == "code"), shown[1:], strict=True):
        place = next(i for i, c in enumerate(notebook.cells) if set_of(cell) <= set_of(c))
        below = squeezed(
            next((c.source for c in notebook.cells[place + 1 :] if not is_code(c)), "")
        )
        announced = re.findall(r"(?m)^(?:Next|Below|(?:In )?[Tt]he next)\b.*", source)
        assert not [line for line in announced if line in below], source

    # What the workshop's page says stands there once, and beside a picture where a cell is tagged.
    told = squeezed((PAGES / "workshop.md").read_text("utf-8"))
    notes = [cell.source for cell, kind in zip(slides, kinds, strict=True) if kind == "notes"]
    (aha,) = [note for note in notes if "**Aha, " in note]
    assert re.findall(r"\*\*Aha, (.*)", aha)[0] in told
    tags = [cell for cell in notebook.cells if "aha" in cell.metadata.get("tags", [])]
    assert len(tags) <= 1 and (aha == notes[0]) == (not tags)
    assert any(re.match(r".*, minute \d+: ", line) for line in notes[0].splitlines())


def test_a_page_of_slides_fetches_nothing_and_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["slides", "05"]) == 0
    target = tmp_path / "05_matmul_optimisation.slides.html"
    page = target.read_text("utf-8")
    assert f"{target}: open it in a browser." in capsys.readouterr().out
    assert page.count("<section") == 2 * 8 and page.count('<aside class="notes">') == 8
    assert not re.search(
        r"<link|<script[^>]*\ssrc|(src|href)=.?(https?:|//)|@import|url\(.?http", page
    )
    assert main(["slides", "05", "--html", str(tmp_path / "none" / "x.html")]) == 2
    said = capsys.readouterr().err
    assert "x.html: No such file or directory." in said and "such as --html slides.html" in said
