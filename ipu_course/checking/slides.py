"""Make slides from a lesson's pictures: `ipu-teach slides 05` writes one HTML page.

The slides are derived from the solved notebook. Each picture becomes a slide, and so does the
output of the cell tagged `aha`. If a lesson has fewer than three pictures, the last printed output
of every other section becomes a slide, too.

* Title: the heading above the cell.
* Text: the first three sentences below the cell, up to a sentence that announces the next cell. If
  there are none, the last three sentences above the cell, or else the beginning of its section.
* Speaker's notes: from `docs/workshop.md`, from the text above the cell, and from the numbers in
  the description of the picture.

nbconvert's exporter for reveal.js writes the page. Our template replaces reveal.js, which the
exporter would download. The template scales each slide to its window, and opens a second window
with the speaker's notes and the next slide, which the audience does not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ipu_course.checking.naming import lesson_of
from ipu_course.checking.notebooks import PAGES, find_lesson, need
from ipu_teach._support.places import write_whole
from ipu_teach.errors import LessonError

if TYPE_CHECKING:
    from nbformat import NotebookNode

SENTENCES = 3  # The maximum number of sentences in a slide's text.
# The number of pictures in a lesson below which printed outputs also get slides.
FEW = 3
HEADING = r"(?m)^#+ (.*)"
# A sentence that begins with one of these words is about the cell below it, not about the picture
# above it.
AHEAD = r"\W*(Next|Below|(In )?[Tt]he next)\b"
FEWEST = 6  # The minimum number of words that must precede a sentence about the next cell.
# The tag of the cell with the lesson's key insight. docs/workshop.md discusses these insights.
AHA = "aha"
TEMPLATE = Path(__file__).with_name("slides.html")


def plain(markdown: str) -> str:
    """Return markdown with each link replaced by its text, because slides have no link targets."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", markdown)


def prose(markdown: str) -> list[str]:
    """Return the complete sentences of running text up to a heading or an exercise.

    Lists, tables, code, sentences that introduce them, and sentences in parentheses are left out.
    """
    sentences: list[str] = []
    for part in re.split(r"\n\s*\n", plain(markdown).strip()):
        if re.match(r"#|\*\*(Exercise|Second half)|\*A good place", part):
            break
        if not re.match(r"\s{4}|[*|>-] |\d+\. |\*\d", part):
            line = " ".join(part.split())
            sentences += re.sub(r"([.?!:)][*\"]*) (?=[\W\d]*[A-Z])", r"\1\n", line).split("\n")
    return [
        sentence
        for sentence in sentences
        if re.search(r"[.?!][*\"]*$", sentence) and sentence[0] != "("
    ]


def until_ahead(sentences: list[str]) -> list[str]:
    """Return the sentences before the first one that announces the next cell; all if none does.

    If they have fewer than `FEWEST` words, as in "Now the addition.", the list is empty.
    """
    ahead = [i for i, sentence in enumerate(sentences) if re.match(AHEAD, sentence)]
    if not ahead:
        return sentences
    before = sentences[: ahead[0]]
    return before if len(" ".join(before).split()) >= FEWEST else []


def shown(cell: NotebookNode, printed: bool) -> list[NotebookNode]:
    """Return the outputs of a cell that a slide shows: its pictures.

    If the cell has no picture and `printed` is True, return its printed text.
    """
    outputs = cell.get("outputs", [])
    bundles = [output.get("data", {}) for output in outputs]
    pictures = [
        output
        for output, data in zip(outputs, bundles, strict=True)
        if "image/png" in data or "<img" in data.get("text/html", "")
    ]
    return pictures or [output for output in outputs if printed and output.get("text")]


class Deck:
    """The texts and outputs of a solved lesson, keyed by the index of the cell.

    `texts` maps markdown cells to their text without code blocks. `chosen` maps cells to the
    outputs that become slides, and `said` maps the same cells to the sentences of their slides.
    `tagged` lists the indices of the cells with the tag `aha`.
    """

    def __init__(self, notebook: NotebookNode) -> None:
        cells = list(enumerate(notebook.cells))
        self.texts = {
            i: re.sub(r"(?ms)^```.*?^```\s*$", "", cell.source)
            for i, cell in cells
            if cell.cell_type == "markdown"
        }
        self.tagged = [i for i, cell in cells if AHA in cell.metadata.get("tags", [])]
        self.chosen = {
            i: outputs for i, cell in cells if (outputs := shown(cell, i in self.tagged))
        }
        if len(self.chosen) < FEW:
            headings = {self.heading(1), *map(self.heading, self.chosen)}
            last = {self.heading(i): i for i, cell in cells if i and shown(cell, True)}
            options = {
                i: shown(notebook.cells[i], True) for h, i in last.items() if h not in headings
            }
            self.chosen = dict(sorted({**self.chosen, **options}.items()))
        self.said: dict[int, list[str]] = {}
        used: set[str] = set()
        for i in reversed(self.chosen):  # A text is used once, for the last picture that it fits.
            ways = [fault for fault in self.near(i) if fault and not used.intersection(fault)]
            self.said[i] = [*ways, prose(of_itself(self.chosen[i]))][0][:SENTENCES]
            used.update(self.said[i])

    def near(self, i: int) -> Iterator[list[str]]:
        """Yield candidates for the text of the slide of cell `i`, best first.

        They are the text below the cell, the text above it unless another slide is between them,
        and the text that begins its section.
        """
        above = max((j for j in self.texts if j < i), default=0)
        below = min((j for j in self.texts if j > i), default=i)
        if below > i and not set(self.chosen) & set(range(i + 1, below)):
            yield until_ahead(prose(self.texts[below]))
        if not set(self.chosen) & set(range(above, i)):
            yield self.question(i)
        begins = max(j for j, text in self.texts.items() if j < i and re.search(HEADING, text))
        yield prose(re.split(HEADING, self.texts[begins])[-1])

    def question(self, i: int) -> list[str]:
        """Return the last sentences of the text above cell `i`, at most three.

        Only text below the last heading or exercise counts.
        """
        text = self.texts[max((j for j in self.texts if j < i), default=0)]
        return prose(re.split(rf"{HEADING}$|^\*\*Exercise.*(?:\n.+)*", text)[-1])[-SENTENCES:]

    def heading(self, i: int) -> str:
        """Return the heading above cell `i`."""
        texts = "\n".join(text for j, text in self.texts.items() if j < i)
        return plain(re.findall(HEADING, texts)[-1])


def of_itself(outputs: list[NotebookNode]) -> str:
    """Return the descriptions of pictures as one string; the descriptions contain numbers."""
    return " ".join(output.get("data", {}).get("text/plain", "") for output in outputs)


def workshop(lesson: str) -> tuple[list[str], str]:
    """Return `(lines of the timetables, text on the key insight)` for a lesson.

    Both are from `docs/workshop.md`. If the page has no text on the lesson's key insight, that text
    is "".
    """
    timetables, _, ahas = (PAGES / "workshop.md").read_text("utf-8").partition("## What to say at")
    row = rf"(?im)^\| (\d+) \| ([^|]*(?<![\w.]){re.escape(lesson)}(?!\w).*) \|$"
    lines = list[str]()
    for section in re.split(r"(?m)^## ", timetables):
        day = section.partition("\n")[0]
        moments = [(minute, note.replace(" | ", ": ")) for minute, note in re.findall(row, section)]
        lines += [f"{day}, minute {minute}: {note.strip(' |')}" for minute, note in moments]
    aha = re.search(rf"(?ims)^\* \*\*{re.escape(lesson)}, (.*?)(?=^\* \*\*|^## |\Z)", ahas)
    return lines, f"**Aha, {' '.join(aha[1].split())}" if aha else ""


def slides_of(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the slides as a notebook, with the cell metadata that nbconvert's exporter expects.

    `name` is the file name of the lesson without its suffix.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    def text(source: str, kind: str) -> NotebookNode:
        cell: NotebookNode = new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}})
        return cell

    lesson = Deck(notebook)
    first = lesson.texts[0]
    title = lesson.heading(1)
    number = lesson_of(name)
    lines, aha = workshop(number if number[0].isdigit() else title)
    about = re.findall(r"(?m)^\*(\d+ minutes\.)", first) + lines
    about += [] if set(lesson.tagged) & set(lesson.chosen) else [aha]
    opening = prose(first.partition("\n")[2])[:SENTENCES]
    cells = [
        text("\n\n".join([f"# {title}", *opening]), "slide"),
        text("\n\n".join(about), "notes"),
    ]
    for i, outputs in lesson.chosen.items():
        message = lesson.said[i]
        question = lesson.question(i)
        itself = of_itself(outputs)
        notes = [aha] if i in lesson.tagged else []
        notes += [" ".join(question)] if question and question != message else []
        notes += [f"```\n{itself}\n```"] if itself else []
        cells += [
            text("\n\n".join([f"## {lesson.heading(i)}", *message]), "slide"),
            new_code_cell(outputs=outputs),
            *([text("\n\n".join(notes), "notes")] if notes else []),
        ]
    deck: NotebookNode = new_notebook(cells=cells, metadata={"title": title})
    return deck


def page_of(notebook: NotebookNode, name: str) -> str:
    """Return a lesson's slides as one HTML page that works offline."""
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(
        raw_template=TEMPLATE.read_text("utf-8"), exclude_input=True, exclude_output_prompt=True
    )
    page: str = exporter.from_notebook_node(
        slides_of(notebook, name), resources={"metadata": {"name": name}}
    )[0]
    return page


def slides(word: str, html: str | None = None) -> int:
    """Write a lesson's slides as an HTML page to the file `html`, and return 0.

    If `html` is None, the file is in the current folder, and its name is that of the lesson.

    :raises LessonError: if no lesson fits `word`, or the file cannot be written.
    """
    need("nbconvert", "lab")
    import nbformat

    path = find_lesson(word, solved=True)
    target = Path(html or f"{path.stem}.slides.html").absolute()
    page = page_of(nbformat.read(path, as_version=4), path.stem)
    try:
        write_whole(target, page)
    except OSError as error:
        raise LessonError(
            f"The slides cannot be written to {target}: {error.strerror}.",
            next_step="name a file in a folder that you may write, such as --html slides.html",
        ) from error
    print(f"{target}: open it in a browser. Arrows turn slides, N opens a window with the notes.")
    return 0
