"""Make docs/mistakes.md from the lessons' files of known mistakes.

python docs/make_mistakes.py
"""

from __future__ import annotations

import re
from pathlib import Path

from ipu_course.checking.exercise import Exercise, catalogue
from ipu_course.checking.mistakes import Mistake, all_mistakes

PAGE = Path(__file__).with_name("mistakes.md")

SHOWN = 5  # mistakes shown per exercise


def section(exercise: Exercise, known: list[Mistake]) -> str:
    """Return an exercise's section: its hints, and its first mistakes with their verdicts."""
    # The tests compare a verdict across its lines, but the page shows only the first line.
    firsts = [wrong.says.split(" next:")[0] for wrong in known[:SHOWN]]
    # "…" replaces a figure of the case
    said = [re.sub(r"\{\w+\}", "…", words).replace("|", chr(92) + "|") for words in firsts]
    rows = [f"| {wrong.about} | {words} |" for wrong, words in zip(known, said, strict=False)]
    ask = [f"{number}. {hint}" for number, hint in enumerate(exercise.hints, start=1)]
    head = "| the mistake | the verdict says |\n|---|---|"
    return "\n".join([f"### {exercise.name} {exercise.title}", "", *ask, "", head, *rows])


def table() -> str:
    """Return the sections of all lessons."""
    parts = []
    for lesson in catalogue():
        parts.append(f"## {lesson.number} {lesson.title}")
        parts += [
            section(one, [wrong for wrong in all_mistakes() if wrong.exercise == one.name])
            for one in lesson.exercises
        ]
    return "\n\n".join(parts)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = re.sub(
        r"(<!-- mistakes -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}{table()}\n{m[2]}",
        text,
        flags=re.DOTALL,
    )
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
