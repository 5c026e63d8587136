"""Implement `ipu-teach handout LESSON`: a page with the reference answers of a lesson."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from ipu_course.checking.afterwards import words as words_of
from ipu_course.checking.exercise import Lesson, catalogue
from ipu_course.checking.gaps import MARK, gaps_in, reference
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.notebooks import find_lesson
from ipu_teach._support.places import program, write_whole
from ipu_teach.errors import LessonError

HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto }}
pre {{ overflow-x: auto; padding: .6rem .8rem; border: 1px solid #8886; border-radius: 6px }}
section {{ break-inside: avoid }}
</style>
<h1>{title}</h1>
"""


def main(words: Sequence[str]) -> int:
    """Run `ipu-teach handout` with these words, and return 0.

    :raises LessonError: if there is no such lesson, it has no exercises, or the page cannot be
        written.
    """
    parser = argparse.ArgumentParser(
        prog=f"{program()} handout",
        description="Write the reference answers of a lesson as a page to hand out afterwards.",
    )
    parser.add_argument("lesson", metavar="LESSON", help="number (07) or beginning of the name")
    parser.add_argument("--html", metavar="FILE", help="where to; else into this folder")
    options = parser.parse_args(words)
    path = find_lesson(options.lesson, solved=True)
    lesson = next((known for known in catalogue() if known.number == lesson_of(path.stem)), None)
    if lesson is None:
        raise LessonError(
            f"{path.stem} has no exercises, so there are no answers to hand out.",
            next_step=f"choose one of the lessons {', '.join(k.number for k in catalogue())}.",
        )
    target = Path(options.html or f"{path.stem}.answers.html").absolute()
    try:
        write_whole(target, page_of(lesson))
    except OSError as error:
        raise LessonError(
            f"The answers cannot be written to {target}: {error.strerror}.",
            next_step="name a file in a folder that you may write, such as --html answers.html.",
        ) from error
    print(f"{target}: open it in a browser, or print it.")
    return 0


def page_of(lesson: Lesson) -> str:
    """Return the answers of a lesson as one HTML page, which works offline."""
    title = f"Answers to lesson {lesson.number}: {lesson.title}"
    return HEAD.format(title=escape(title)) + "".join(_sections(lesson))


def _sections(lesson: Lesson) -> Iterator[str]:
    remarks = words_of(lesson.number)
    for item in lesson.exercises:
        cell = reference(item.name).cell
        tasks = [gap.todo for gap in gaps_in(cell) if gap.exercise == item.name]
        code = "\n".join(line for line in cell.strip().splitlines() if not MARK.search(line))
        yield f"<section><h2>{escape(f'{item.name} {item.title}')}</h2>\n"
        yield "".join(f"<p>Task: {escape(task)}</p>\n" for task in tasks)
        yield f"<pre><code>{escape(code)}</code></pre>\n"
        yield "".join(f"<p>{escape(text)}</p>\n" for text in remarks.get(item.name, ()) if text)
        yield "</section>\n"
