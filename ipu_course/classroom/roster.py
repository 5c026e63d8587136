"""Find the learners of a class and read their progress files, wherever the files are.

A file may have been edited, cut short, or come from anywhere. Files that cannot be read are
reported and left unchanged.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipu_course.checking.exercise import REFUSALS, Exercise, Lesson, catalogue
from ipu_course.checking.learner_calls import DONE, refusals
from ipu_course.checking.overview import LONGEST_NAME
from ipu_course.checking.state import FILE, NoProgress, Record, read, whole
from ipu_teach.errors import LessonError

DEPTH = 4  # The levels of folders that are searched, such as class/ada/kit/work.
ASIDE = "before-"  # The folders with an earlier group's work have this prefix.
WORK = "work"  # The name of a work folder, unless IPU_TEACH_WORK sets another.


@dataclass(frozen=True)
class Learner:
    """One learner: name, progress file, and the record of each exercise and prediction.

    `idle`: seconds since the file was written.
    """

    name: str
    file: Path
    idle: float
    records: Mapping[str, Record] = field(repr=False)

    def state(self, exercise: str) -> str:
        """Return "solved", "with help", "given" or "not yet".

        It is "" if the exercise was not tried, or the file has another value.
        """
        state = self.records.get(exercise, {}).get("state")
        return state if state in (*DONE, "not yet") else ""

    def done(self, lesson: Lesson) -> int:
        """Return how many exercises of a lesson the learner solved, with or without help."""
        return sum(self.state(exercise.name) in DONE[:2] for exercise in lesson.exercises)

    @property
    def at(self) -> str:
        """The current exercise: the furthest that was tried, or the next one if that is done.

        It is "" before the first exercise and after the last.
        """
        items = [item.name for lesson in catalogue() for item in lesson.items]
        furthest = max((n for n, name in enumerate(items) if self.records.get(name)), default=None)
        if furthest is None:
            return ""
        record = self.records[items[furthest]]
        done = record.get("state") in DONE or "prediction" in record
        return next(iter(items[furthest + done :]), "")

    @property
    def stuck(self) -> list[str]:
        """Unsolved exercises with enough refusals for a puzzle to be offered."""
        return [
            item.name
            for item in exercises()
            if self.state(item.name) not in DONE
            and refusals(self.records.get(item.name, {})) >= REFUSALS
        ]

    def reasons(self, exercise: str) -> Counter[str]:
        """Return the reasons for the learner's refusals, and how often each was given."""
        messages = self.records.get(exercise, {}).get("said")
        return (
            Counter({one_line(why): whole(n) for why, n in messages.items()})
            if isinstance(messages, dict)
            else Counter()
        )

    def shared(self, exercise: str) -> tuple[str, str] | None:
        """Return the line that the learner shared, and the code that it describes."""
        shared = self.records.get(exercise, {}).get("shared")
        line, code = (
            (shared.get("line"), shared.get("code")) if isinstance(shared, dict) else (None, None)
        )
        return (line, code) if isinstance(line, str) and isinstance(code, str) else None


@dataclass(frozen=True)
class Roster:
    """A class: its learners by name, and the files that could not be read, each with the reason."""

    learners: tuple[Learner, ...]
    unread: tuple[tuple[Path, str], ...] = ()


def exercises() -> list[Exercise]:
    """Return every exercise, in the order of the lessons."""
    return [exercise for lesson in catalogue() for exercise in lesson.exercises]


def called(folders: Iterable[str]) -> Roster:
    """Return the class whose progress files are in `folders`.

    :raises LessonError: if a folder does not exist, or no folder has a progress file.
    """
    now = time.time()
    learners = []
    names = Counter[str]()
    unread: list[tuple[Path, str]] = []
    others: list[tuple[Path, str]] = []
    paths = [
        (name, file) for folder in folders for name, file in files_of(Path(folder).expanduser())
    ]
    for name, file in {file.resolve(): (name, file) for name, file in paths}.values():
        try:
            data = read(file)
            idle = max(now - file.stat().st_mtime, 0.0)
        except NoProgress as why:
            # other files are expected to be unreadable
            (unread if file.name == FILE else others).append((file, str(why)))
            continue
        except OSError as error:
            unread.append((file, error.strerror or "cannot be read"))
            continue
        name = one_line(data["name"])[:LONGEST_NAME] if isinstance(data.get("name"), str) else name
        names[name] += 1
        name = f"{name} ({names[name]})" if names[name] > 1 else name
        learners.append(
            Learner(
                name, file, idle, {k: r for k, r in data["records"].items() if isinstance(r, dict)}
            )
        )
    if not learners and not unread:
        searched = ", ".join(str(Path(folder).expanduser().resolve()) for folder in folders)
        raise LessonError(f"""There is no progress of any learner in {one_line(searched)}.
            where: {"; ".join(f"{one_line(file)} is {why}" for file, why in others[:3])}
            next:  give the folder that holds the learners' folders; each has a {FILE} once its
            owner has tried an exercise.""")
    return Roster(
        tuple(sorted(learners, key=lambda learner: learner.name.casefold())), tuple(unread)
    )


def files_of(folder_given: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the progress file of each learner in a folder.

    Files that were sent in are directly in the folder.

    :raises LessonError: if the folder cannot be read.
    """
    if folder_given.is_file():
        yield one_line(folder_given.stem), folder_given
        return
    if not folder_given.is_dir():
        raise LessonError(
            f"There is no folder {str(folder_given)!r}.",
            next_step="give existing folders or progress files.",
        )
    for file in sorted(folder_given.glob("*.json")):
        if file.name != FILE:
            yield one_line(file.stem), file
    for folder in work_folders(folder_given):
        parts = [part for part in folder.relative_to(folder_given).parts if part != WORK]
        path_parts = [part for part in folder.absolute().parts if part != WORK]
        yield one_line(parts[0] if parts else path_parts[-1]), folder / FILE


def work_folders(folder_given: Path) -> Iterator[Path]:
    """Yield the folders with a progress file, including the given one.

    Links, hidden folders and folders set aside are skipped.
    """
    for folder, inner, files in os.walk(folder_given):
        path = Path(folder)
        deep = len(path.relative_to(folder_given).parts) >= DEPTH
        inner[:] = (
            [] if deep else sorted(name for name in inner if not name.startswith((".", ASIDE)))
        )
        if FILE in files:
            yield path


def one_line(text: Any) -> str:
    """Return a text from a file as one printable line.

    Control characters, which a terminal would obey, are left out. Bytes of a path that the system's
    locale cannot decode are read as UTF-8.
    """
    text = str(text)
    with contextlib.suppress(UnicodeEncodeError):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
