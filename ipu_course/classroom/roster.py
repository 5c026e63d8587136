"""Find the learners of a class and read their progress files.

A file may have been edited, may be incomplete, and may come from anywhere. Files that cannot be
read are reported and left unchanged.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ipu_course.checking.exercise import REFUSALS, Exercise, catalogue
from ipu_course.checking.learner_calls import DONE, refusals
from ipu_course.checking.overview import LONGEST_NAME
from ipu_course.checking.state import FILE, NoProgress, Record, read, whole
from ipu_teach.errors import LessonError

DEPTH = 4  # The number of folder levels that are searched, as in class/ada/kit/work.
ASIDE = "before-"  # The prefix of the names of folders with the work of an earlier class.
# The name of a work folder, unless the environment variable IPU_TEACH_WORK sets another folder.
WORK = "work"


@dataclass(frozen=True)
class Learner:
    """One learner: name, progress file, and the record of each exercise and prediction.

    `idle` is the number of seconds since the file was written. `id` is the name of the learner's
    folder or file, which no other learner of the class has.
    """

    name: str
    file: Path
    idle: float
    records: Mapping[str, Record] = field(repr=False)
    id: str = ""

    def state(self, exercise: str) -> str:
        """Return the state of an exercise: "solved", "with help", "given" or "not yet".

        Return "" if the exercise was not tried, or the file has any other value.
        """
        state = self.records.get(exercise, {}).get("state")
        return state if state in (*DONE, "not yet") else ""

    def done(self, exercises: Iterable[Exercise]) -> int:
        """Return how many of these exercises the learner solved, with or without help."""
        return sum(self.state(exercise.name) in DONE[:2] for exercise in exercises)

    @property
    def at(self) -> str:
        """The exercise or prediction at which the learner is now.

        This is the last item in the course that the learner has tried or, if that item is done, the
        next item. It is "" if the learner has tried nothing, or has done the last item of the
        course.
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
        """The exercises that the learner has not solved after at least `REFUSALS` refusals."""
        return [
            item.name
            for item in exercises()
            if self.state(item.name) not in DONE
            and refusals(self.records.get(item.name, {})) >= REFUSALS
        ]

    def reasons(self, exercise: str) -> Counter[str]:
        """Return {reason: count} for the refused answers of the learner to an exercise."""
        messages = self.records.get(exercise, {}).get("said")
        return (
            Counter({one_line(why): whole(n) for why, n in messages.items()})
            if isinstance(messages, dict)
            else Counter()
        )

    def shared(self, exercise: str) -> tuple[str, str] | None:
        """Return `(line, code)`: the line of share() and the code that it describes.

        Return None if the learner has not shared the exercise.
        """
        shared = self.records.get(exercise, {}).get("shared")
        line, code = (
            (shared.get("line"), shared.get("code")) if isinstance(shared, dict) else (None, None)
        )
        return (line, code) if isinstance(line, str) and isinstance(code, str) else None


@dataclass(frozen=True)
class Roster:
    """A class: its learners, sorted by name, and the unreadable files as pairs (path, reason).

    `absent` has the learners without a readable progress file, as triples (id, name, reason).
    """

    learners: tuple[Learner, ...]
    unread: tuple[tuple[Path, str], ...] = ()
    absent: tuple[tuple[str, str, str], ...] = ()


def exercises() -> list[Exercise]:
    """Return all exercises in the order of the lessons."""
    return [exercise for lesson in catalogue() for exercise in lesson.exercises]


def called(folders: Iterable[str], names: Mapping[str, str] | None = None) -> Roster:
    """Return the class whose progress files are in `folders`.

    `names` maps the ids on a class list to the learners' names, which replace the names that the
    learners chose themselves. A learner on the list who has no folder is absent.

    :raises LessonError: if a folder does not exist, or there is neither a learner nor a list.
    """
    now = time.time()
    names = names or {}
    learners = []
    unread: list[tuple[Path, str]] = []
    others: list[tuple[Path, str]] = []
    absent: dict[str, str] = {}
    folders = [*folders]
    for identity, file in _identified(folders):
        try:
            data = read(file)
            idle = max(now - file.stat().st_mtime, 0.0)
        except (NoProgress, OSError) as error:
            why = getattr(error, "strerror", None) or str(error) or "cannot be read"
            # A file with another name need not be a progress file.
            is_progress = file.name == FILE or isinstance(error, OSError)
            (unread if is_progress else others).append((file, why))
            if is_progress:
                absent[identity] = why
            continue
        name = one_line(data["name"])[:LONGEST_NAME] if isinstance(data.get("name"), str) else ""
        records = {k: r for k, r in data["records"].items() if isinstance(r, dict)}
        name = names.get(identity) or name or identity
        learners.append(Learner(name, file, idle, records, identity))
    homes = [home for folder in folders for home in _homes(Path(folder).expanduser())]
    if not (learners or unread or names or homes):
        searched = ", ".join(str(Path(folder).expanduser().resolve()) for folder in folders)
        raise LessonError(f"""There is no learner's folder and no progress in {one_line(searched)}.
            where: {"; ".join(f"{one_line(file)} is {why}" for file, why in others[:3])}
            next:  give the folder that contains the learners' folders.""")
    # An id may be "given folder/learner's folder" (see _identified), so compare the last part, too.
    present = {name for learner in learners for name in (learner.id, Path(learner.id).name)}
    for identity in homes:
        if identity not in present:
            absent.setdefault(identity, "not begun")
    for identity in names:
        if identity not in present:
            absent.setdefault(identity, "no folder")
    return Roster(
        tuple(sorted(_distinct(learners), key=lambda learner: learner.name.casefold())),
        tuple(unread),
        tuple((identity, names.get(identity, identity), absent[identity]) for identity in absent),
    )


def _identified(folders: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield `(id, progress file)` for each file; every id is different."""
    triples = [
        (folder, name, file)
        for folder in folders
        for name, file in files_of(Path(folder).expanduser())
    ]
    once = {file.resolve(): (folder, name, file) for folder, name, file in triples}
    counts = Counter(name for _, name, _ in once.values())
    longer = Counter(f"{one_line(Path(folder).name)}/{name}" for folder, name, _ in once.values())
    for folder, name, file in once.values():
        long_name = f"{one_line(Path(folder).name)}/{name}"
        if counts[name] == 1:
            yield name, file
        else:
            yield (long_name if longer[long_name] == 1 else one_line(file)), file


def _distinct(learners: Sequence[Learner]) -> Iterator[Learner]:
    """Yield the learners; if several have the same name, the id is added to each of their names."""
    counts = Counter(learner.name for learner in learners)
    for learner in learners:
        shared = counts[learner.name] > 1
        yield replace(learner, name=f"{learner.name} ({learner.id})") if shared else learner


def _homes(folder: Path) -> Iterator[str]:
    """Yield the names of learners' folders in a folder; none if it is a learner's own folder."""
    if not folder.is_dir() or (folder / FILE).exists() or (folder / WORK).exists():
        return
    for home in sorted(folder.iterdir()):
        if home.is_dir() and not home.is_symlink() and not home.name.startswith((".", ASIDE)):
            yield one_line(home.name)


def listed(file: Path) -> dict[str, str]:
    """Return `{id: name}` from a list of the class: CSV text with the columns `id` and `name`.

    :raises LessonError: if the file cannot be read, or lacks a column.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LessonError(
            f"The list of the class cannot be read: {getattr(error, 'strerror', 'not UTF-8')}.",
            where=one_line(file),
            next_step="save the list as CSV in UTF-8, and give its path.",
        ) from None
    separator = ";" if ";" in text.partition("\n")[0] else ","
    rows = list(csv.DictReader(io.StringIO(text), delimiter=separator))
    if not rows or not {"id", "name"} <= rows[0].keys():
        raise LessonError(
            "The list of the class lacks the columns id and name, or has no rows.",
            where=one_line(file),
            next_step="begin the first line with id,name; an id is the name of a learner's folder.",
        )
    names = ((one_line(row["id"] or ""), one_line(row["name"] or "")) for row in rows)
    return {identity: name[:LONGEST_NAME] for identity, name in names if identity}


def labelled(identity: str, name: str | None) -> str:
    """Return the text for a learner in a table: the name with the id after it, or only the id."""
    return f"{name} ({identity})" if name and name != identity else identity


def files_of(folder_given: Path) -> Iterator[tuple[str, Path]]:
    """Yield `(name, progress file)` for each learner in a folder.

    The folder may contain the learners' folders, or progress files that learners sent in.
    `folder_given` may also be such a file.

    :raises LessonError: if the folder does not exist.
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
    """Yield the folders that contain a progress file, `folder_given` included.

    Links, hidden folders and folders whose name begins with `ASIDE` are skipped.
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

    Control characters are left out, because a terminal would execute them. Bytes of a path that the
    system's locale cannot decode are read as UTF-8.
    """
    text = str(text)
    with contextlib.suppress(UnicodeEncodeError):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
