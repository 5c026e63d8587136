"""Define which exercises a class is expected to solve: a timetable, lessons or exercises."""

from __future__ import annotations

from collections.abc import Collection

from ipu_course.checking.exercise import catalogue
from ipu_course.checking.naming import exercise_meant, lesson_meant
from ipu_teach.errors import LessonError

# {timetable: {lesson: its exercises}} for the timetables in docs/workshop.md.
PLANS = {
    "ninety-minutes": {
        "00": ("00.1", "00.3"),
        "01": ("01.1", "01.2", "01.3", "01.4"),
    },
    "half-day": {
        "00": ("00.1", "00.3"),
        "01": ("01.1", "01.2", "01.3", "01.4"),
        "02": ("02.1", "02.3"),
        "04": ("04.1", "04.2", "04.3"),
        "07": ("07.2", "07.3"),
    },
}
Plan = Collection[str]  # The names of the exercises that a class is expected to solve.


def plan_of(word: str) -> Plan:
    """Return the exercises of a timetable, or of lessons and exercises such as "00,01,04.1".

    :raises LessonError: if there is no such timetable, lesson or exercise.
    """
    if word in PLANS:
        return {name for names in PLANS[word].values() for name in names}
    chosen: set[str] = set()
    for part in (part.strip() for part in word.split(",")):
        names = {
            item.name
            for lesson in catalogue()
            for item in lesson.exercises
            if lesson.number == lesson_meant(part) or item.name in (part, exercise_meant(part))
        }
        if not names:
            raise LessonError(
                f"--plan was given {part!r}, which is no timetable, lesson or exercise.",
                next_step=f"give {', '.join(PLANS)}, or lessons and exercises: 00,01,04.1.",
            )
        chosen |= names
    return chosen
