"""Store the learner's progress in one file: `progress.json` in the work folder.

Each change reads the file again, changes one record and replaces the whole file atomically. So two
kernels can write to the file, and fields that this package does not know are kept. A file in a
newer format is read, but never written. A damaged file is renamed, and a new file is started. If
the file cannot be written, changes stay in memory and are written with the next change.

A record has these fields:

* `state`: "solved", "with help", "given" or "not yet".
* `attempts`: the number of attempts, and `kinds`: the number of verdicts of each kind.
* `said`: how often each reason for a refusal was shown.
* `shared`: the line of share() and the code that it describes.
* `built`: the text of the last answer that passed.
* `hints`: the number of hints shown, and `prediction`: the values of the prediction.

In addition to the records, the file may have the learner's `name`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from stat import S_ISCHR, S_ISFIFO
from typing import Any

from ipu_course.checking.notebooks import read_json, set_aside, work_folder, work_path
from ipu_teach._support.places import write_whole
from ipu_teach.errors import LessonError
from ipu_teach.graph.layouts import is_whole

FORMAT = 1
FILE = "progress.json"
# The maximum size of a progress file, in bytes. A complete course needs a twentieth of this size.
LARGEST = 1 << 20
MOST_COUNTED = 10**6  # The largest count of attempts that is stored, so that the file stays small.

Record = dict[str, Any]


class NoProgress(ValueError):
    """The error for a file that is not a progress file; the message is a short reason."""


def whole(value: object) -> int:
    """Return a count that was read from a file; 0 if it is not a valid count."""
    return min(value, MOST_COUNTED) if is_whole(value) and value >= 0 else 0


def read(file: Path) -> Record:
    """Return the content of a progress file.

    :raises OSError: if the file cannot be read.

    :raises NoProgress: if it is not a progress file.
    """
    about = file.stat()
    # Reading a pipe could block forever, and reading a device may never end.
    if S_ISFIFO(about.st_mode) or S_ISCHR(about.st_mode):
        raise NoProgress("not an ordinary file")
    if about.st_size > LARGEST:
        raise NoProgress("far too large")
    try:
        data = read_json(file)
    except ValueError:  # The content is not JSON or not UTF-8.
        raise NoProgress("damaged") from None
    if not isinstance(data, dict) or not isinstance(data.get("records"), dict):
        raise NoProgress("damaged")
    if not is_whole(data.get("format")) or data["format"] < 1:
        raise NoProgress("damaged")
    return data


class Progress:
    """The learner's progress in one work folder: a record for each exercise or prediction."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        # The changes that are not yet written to the file.
        self._pending: list[Callable[[Record], None]] = []
        self._said: set[str] = set()

    def records(self) -> dict[str, Record]:
        """Return all records as {name of the exercise or prediction: record}."""
        return {
            name: record
            for name, record in self._current()["records"].items()
            if isinstance(record, dict)
        }

    def record(self, name: str) -> Record:
        """Return the record of an exercise or prediction; {} if there is none."""
        return self.records().get(name, {})

    def change(self, name: str, change: Callable[[Record], None]) -> None:
        """Apply the function `change` to the record of `name`, and store the record.

        If the file cannot be written, the change stays in memory.
        """

        def of_one(data: Record) -> None:
            if not isinstance(data["records"].get(name), dict):
                data["records"][name] = {}
            change(data["records"][name])

        self._keep(of_one)

    def call(self, name: str) -> None:
        """Store the name by which the learner's class knows the learner."""
        self._keep(lambda data: data.update(name=name))

    def _keep(self, change: Callable[[Record], None]) -> None:
        self._pending.append(change)
        try:
            work_folder()
            with _locked(self.file.parent):
                data = self._current()
                if data["format"] == FORMAT:  # A file of a newer version is not written.
                    write_whole(self.file, json.dumps(data, indent=1, allow_nan=False) + "\n")
                    self._pending.clear()
        except (LessonError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            self._say(
                f"Your progress cannot be stored ({self.file}: {reason}). You can continue, but it "
                "is lost when the kernel ends."
            )

    def forget(self, lesson: str) -> None:
        """Empty the learner's records of a lesson, including predictions."""
        for name in self.records():
            if name.startswith(f"{lesson}."):
                self.change(name, dict.clear)

    def _current(self) -> Record:
        data = self._load()
        for change in self._pending:
            change(data)
        return data

    def _load(self) -> Record:
        try:
            data = read(self.file)
        except FileNotFoundError:
            return _new()
        except OSError as error:
            self._say(
                f"Your progress cannot be read ({self.file}: {error.strerror}). You can continue "
                "without it."
            )
            return _new()
        except NoProgress as why:
            return self._begin_anew(str(why))
        if data["format"] > FORMAT:
            self._say(
                f"{self.file} was written by a newer version of this kit. It is read, but not "
                "changed."
            )
        return data

    def _begin_anew(self, why: str) -> Record:
        try:
            backup = set_aside(self.file, "damaged")
        except OSError:
            self._say(f"{self.file} is {why}. You can continue without it.")
        else:
            self._say(
                f"{self.file} was {why}: it was renamed to {backup.name}, and a new file "
                "was started."
            )
        return _new()

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            print(text)


def _new() -> Record:
    return {"format": FORMAT, "records": {}}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Context manager: lock the folder, so that only one process writes to it.

    Some systems cannot lock folders. There, the last of two concurrent writes replaces the other.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):  # Some network folders cannot be locked.
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


_kept = cache(Progress)


def learned() -> Progress:
    """Return the learner's progress in the current work folder."""
    return _kept(work_path())
