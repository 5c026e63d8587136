"""Make docs/mistakes.md from the lessons' files of known mistakes: `python docs/make_mistakes.py`.

It also names the exercises that no timetable of docs/workshop.md has.
"""

from __future__ import annotations

import re
from pathlib import Path

from ipu_course.checking.exercise import Exercise, catalogue
from ipu_course.checking.mistakes import Mistake, all_mistakes

PAGE = Path(__file__).with_name("mistakes.md")
WORKSHOP = Path(__file__).with_name("workshop.md")

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


def left_for_home(workshop: str) -> str:
    """Return the sentence that names the exercises which no timetable of the page's text names.

    Warm-ups are left out: they belong to the exercise that follows them.
    """
    timetables = "\n".join(re.findall(r"^\| \d+ \|.*", workshop, re.MULTILINE))
    missing = [
        exercise.name
        for lesson in catalogue()
        for exercise in lesson.exercises
        if ".w" not in exercise.name
        and not re.search(rf"\b{re.escape(exercise.name)}\b", timetables)
    ]
    if not missing:
        return "Every exercise is in one of these timetables."
    return f"For home, because no timetable has them: {', '.join(missing)}."


def _write_between(page: Path, begin: str, text: str) -> None:
    """Replace what is between the marks `<!-- begin -->` and `<!-- end -->` of a page."""
    whole = page.read_text(encoding="utf-8")
    between = re.compile(rf"(<!-- {begin} -->\n).*?(<!-- end -->)", re.DOTALL)
    page.write_text(between.sub(lambda m: f"{m[1]}{text}\n{m[2]}", whole), encoding="utf-8")


def main() -> None:
    _write_between(PAGE, "mistakes", table())
    _write_between(WORKSHOP, "home", left_for_home(WORKSHOP.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
