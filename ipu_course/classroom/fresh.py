"""Prepare the work folders for the next class: move the files of the last class into subfolders."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from ipu_course.classroom.roster import ASIDE, one_line, work_folders
from ipu_teach.errors import LessonError, counted


def begin_afresh(folders: Iterable[str], sure: bool) -> int:
    """Move the files in each learner's work folder into a new subfolder of it; return 0.

    The name of the subfolder has the time. Hidden files and earlier subfolders of this kind are not
    moved. If `sure` is False, nothing is moved, and the work folders are only listed.

    :raises LessonError: if there is nothing to move, or something cannot be moved. Files that were
        moved before the error stay in the subfolder.
    """
    works = [work for folder in folders for work in work_folders(Path(folder).expanduser())]
    if not works:
        raise LessonError(
            f"There is no progress of any learner in {one_line(', '.join(folders))}.",
            next_step="give the folder that contains the learners' folders.",
        )
    name = time.strftime(f"{ASIDE}%Y%m%d-%H%M%S")
    for work in works:
        print(f"{one_line(work)}: {'set aside in' if sure else 'would be set aside in'} {name}")
        if sure:
            _set_aside(work, work / name)
    if not sure:
        print(f"nothing was moved; --yes sets aside the work of {counted(len(works), 'learner')}")
    return 0


def _set_aside(work: Path, aside: Path) -> None:
    try:
        entries = [entry for entry in work.iterdir() if not entry.name.startswith((".", ASIDE))]
        aside.mkdir()
        for entry in entries:
            os.rename(entry, aside / entry.name)
    except OSError as error:
        raise LessonError(
            f"The work could not be set aside: {error.strerror}.", where=one_line(work)
        ) from error
