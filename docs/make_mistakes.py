"""Write docs/mistakes.md from the lessons' files of known mistakes: `python docs/make_mistakes.py`.

It also writes a sentence to docs/workshop.md, which lists the exercises that no timetable includes.
"""

from __future__ import annotations

import re
from pathlib import Path

from marks import write_between

from ipu_course.checking.exercise import Exercise, catalogue
from ipu_course.checking.mistakes import Mistake, all_mistakes

PAGE = Path(__file__).with_name("mistakes.md")
WORKSHOP = Path(__file__).with_name("workshop.md")

SHOWN = 5  # The page shows at most this many mistakes of an exercise.


def section(exercise: Exercise, known: list[Mistake]) -> str:
    """Return the Markdown section of an exercise: hints, and mistakes with verdicts."""
    # The tests compare a verdict across its lines, but the page shows only the first line.
    first_lines = [wrong.says.split(" next:")[0] for wrong in known[:SHOWN]]
    # In a verdict, "…" replaces a figure that depends on the case.
    verdicts = [re.sub(r"\{\w+\}", "…", line).replace("|", chr(92) + "|") for line in first_lines]
    rows = [f"| {wrong.about} | {text} |" for wrong, text in zip(known, verdicts, strict=False)]
    hints = [f"{number}. {hint}" for number, hint in enumerate(exercise.hints, start=1)]
    head = "| the mistake | the verdict says |\n|---|---|"
    return "\n".join([f"### {exercise.name} {exercise.title}", "", *hints, "", head, *rows])


def table() -> str:
    """Return the Markdown sections of all exercises, lesson by lesson."""
    sections = []
    for lesson in catalogue():
        sections.append(f"## {lesson.number} {lesson.title}")
        sections += [
            section(exercise, [m for m in all_mistakes() if m.exercise == exercise.name])
            for exercise in lesson.exercises
        ]
    return "\n\n".join(sections)


def left_for_home(workshop: str) -> str:
    """Return a sentence that lists the exercises in no timetable; `workshop` is the page's text.

    Warm-ups are left out, because they belong to the exercise that follows them.
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


def main() -> None:
    write_between(PAGE, "mistakes", table())
    write_between(WORKSHOP, "home", left_for_home(WORKSHOP.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
