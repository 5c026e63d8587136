"""Read the texts of a lesson's exercises and predictions from its `words.md`.

    # Matrix-vector and matmul optimisation
    minutes: 110

    ## check 05.1: A vertex for each row
    hint: Two things to write: a codelet with two Inputs …
    thought: …
    decoy: return self.a @ self.b
    for: self.out = self.a @ self.b

A heading with `##` begins a section. A line `label: text` is an entry, and a label may occur
several times in a section. An indented line continues the entry above it. Any other line is an
error, so that no text is lost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from ipu_course.checking.naming import EXERCISE, folder_of
from ipu_teach.errors import LessonSourceError, shown

# Maps each label to its texts, in order.
Entries = dict[str, list[str]]

HEADING = re.compile(rf"## (check|predict) ({EXERCISE}(?: again)?): (.+)")
ENTRY = re.compile(r"([a-z]+): (.+)")
# Maps the kind of a section's heading to the labels that the section may have.
LABELS = {
    "lesson": ("minutes",),
    "check": ("hint", "thought", "decoy", "for", "because", "further"),
    "predict": ("why",),
}


@cache
def words(lesson: str) -> dict[str, Entries]:
    """Return {key: entries} for all sections; a key is "lesson", "check 05.1" or "predict 05.0"."""
    return parsed(folder_of(lesson) / "words.md")


def parsed(path: Path) -> dict[str, Entries]:
    """Return {key: entries} for the sections of a file `words.md`.

    The title of a section is one of its entries.

    :raises LessonSourceError: if a line is not a heading, entry or continuation, or a section
        occurs twice.
    """
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    kind = "lesson"
    entries = _section(first.removeprefix("# "))
    sections = {kind: entries}
    label = ""
    for number, line in enumerate(lines, start=2):
        if heading := HEADING.fullmatch(line):
            kind = heading[1]
            label = ""
            entries = _section(heading[3])
            key = f"{kind} {heading[2]}"
            if key in sections:
                raise _fault(path, number, f"The section {shown(key)} occurs twice")
            sections[key] = entries
        elif (entry := ENTRY.fullmatch(line)) and entry[1] in LABELS[kind]:
            label = entry[1]
            entries[label].append(entry[2])
        elif line.startswith("  ") and label:
            entries[label][-1] += " " + line.strip()
        elif line:
            raise _fault(path, number, f"{shown(line)} is not a heading, entry or continuation")
    return sections


def section(lesson: str, key: str) -> Entries:
    """Return the entries of one section of a lesson's `words.md`, such as "check 05.1".

    :raises LessonSourceError: if the file has no such section.
    """
    sections = words(lesson)
    if key not in sections:
        raise LessonSourceError(f"""The words of lesson {lesson} have no section {shown(key)}.
            where: ipu_course/lesson{lesson}/words.md
            next:  add the heading "## {key}: TITLE" there, and below it the entries.""")
    return sections[key]


def text(entries: Entries, label: str) -> str:
    """Return the first text with this label, or "" if there is none."""
    return entries.get(label, [""])[0]


def _section(title: str) -> Entries:
    return defaultdict(list, title=[title])


def _fault(path: Path, number: int, problem: str) -> LessonSourceError:
    labels = ", ".join(f"{label}:" for group in LABELS.values() for label in group)
    return LessonSourceError(f"""{problem}.
        where: {path.parent.name}/{path.name}, line {number}
        next:  begin an entry with one of {labels} and indent the lines that continue it.""")
