"""Known mistakes: wrong answers as learners write them. Each lesson has them in its `mistakes.py`.

The file consists of cells in the form of a notebook exported as a script:

    # %% given
    import numpy as np

    # %% 01.3: the busy share
    # why:  this is the share of the time in which tiles work. The rest is waiting.
    # next: subtract it from 1.
    def waiting_share(work):
        ...

The first cell has the definitions that the mistakes share: imports, codelets and helpers of the
lesson. In any other cell, the last name that the cell defines is the answer. The comments below the
title of the cell are one of these:

* `why` and `next`: the check runs the mistake and the learner's answer. If both give the same
  result, the verdict shows these texts. `{figure}` in them is replaced by a value of the case.
* `not yet` or `error in the answer`: the check finds the reason without this mistake. The comment
  quotes words of the verdict on it.

The tests judge every mistake as an answer, and docs/mistakes.md is generated from the files. The
tests also have files of attempts in the same form, with two more comments. `like: the busy share`
means that the cell is another way to write the mistake with that title. `passed: words of the
verdict` means that the answer is right.

A wrong answer in either kind of file may also have the comment `clause`. It quotes the words of the
exercise's text that the answer breaks. `python3 run.py clauses 01.3` lists these comments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter, thread_time
from types import CodeType
from typing import Any

import numpy as np

from ipu_course.checking.naming import folder_of
from ipu_course.checking.shared import last_name

CELL = re.compile(r"^# %% (.+)\n((?:# .+\n)*)", re.MULTILINE)
HEAD = re.compile(
    r"# (why|next|clause|not yet|error in the answer|passed|like): +(.+\n(?:#   .+\n)*)"
)
# After this many seconds of processor time, no further mistake is tried, so that the verdict is not
# delayed. The limit of wall-clock time is ten times as long, because the reason that a learner gets
# must not depend on how busy the machine is.
PATIENCE = 2.0

Reason = tuple[str, str]  # Why an answer is wrong, and what to do next; "" if there is no text.


@dataclass(frozen=True)
class Mistake:
    """One answer from a file of mistakes, or from a file of attempts of the tests.

    The verdict shows `why` and `next_step` to learners whose answer gives the same result. `kind`
    is the kind of the verdict on this answer, and `says` is a text that this verdict contains. If
    the answer is another way to write a mistake, `kind` is "like" and `says` is the title of that
    mistake. `clause` has the words of the exercise's text that a wrong answer breaks; "" if there
    are none.
    """

    exercise: str
    about: str
    why: str
    next_step: str
    kind: str
    says: str
    code: str
    path: Path
    line: int
    clause: str = ""

    @cached_property
    def answer(self) -> Any:
        """The answer as a Python object: the last name that the cell defines."""
        names = dict(given(self.path))
        exec(_compiled(self.code, self.path, self.line), names)
        return names[last_name(ast.parse(self.code))]

    def reason(self, **figures: object) -> Reason:
        """Return `(why, next step)`; each name in braces is replaced by its value in `figures`."""
        return self.why.format(**figures), self.next_step.format(**figures)


@cache
def read(path: Path) -> tuple[Mistake, ...]:
    """Return the answers in a file, in order, without the first cell of shared definitions."""
    text = path.read_text(encoding="utf-8")
    cells = list(CELL.finditer(text))
    ends = [*(cell.start() for cell in cells[2:]), len(text)]
    return tuple(_mistake(path, text, cell, end) for cell, end in zip(cells[1:], ends, strict=True))


def _mistake(path: Path, text: str, cell: re.Match[str], end: int) -> Mistake:
    """Build the answer of one cell.

    `text` is the text of the file, `cell` matches the title and comments of the cell, and `end` is
    the offset in `text` at which the cell ends.
    """
    exercise, about = cell[1].split(": ", 1)
    comments = {
        key: " ".join(words.replace("\n#", " ").split()) for key, words in HEAD.findall(cell[2])
    }
    why = comments.get("why", "")
    kind = next((key for key in comments if key not in ("why", "next", "clause")), "not yet")
    return Mistake(
        exercise=exercise,
        about=about,
        why=why,
        next_step=comments.get("next", ""),
        kind=kind,
        says=comments.get(kind, why),
        code=text[cell.end() : end].rstrip() + "\n",
        path=path,
        line=text.count("\n", 0, cell.end()),
        clause=comments.get("clause", ""),
    )


@cache
def given(path: Path) -> dict[str, Any]:
    """Run the first cell of a file of mistakes and return its names and their objects."""
    text = path.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": f"{path.parent.name}_{path.stem}"}
    second_cell = [cell.start() for cell in CELL.finditer(text)][1]
    exec(_compiled(text[:second_cell], path, 0), names)
    return names


def given_to(exercise: str) -> dict[str, Any]:
    """Return the names that the first cell of the lesson's file of mistakes defines.

    The result is {} if the lesson has no such file.
    """
    path = _file(exercise)
    return given(path) if path.exists() else {}


def _file(exercise: str) -> Path:
    return folder_of(exercise) / "mistakes.py"


def _compiled(code: str, path: Path, line: int) -> CodeType:
    """Compile code that begins below line `line` of a file.

    The compiled code has the line numbers of the file, so tracebacks and codelets can read its
    source.
    """
    return compile("\n" * line + code, str(path), "exec", dont_inherit=True)


def suspects(*exercises: str) -> Iterator[Mistake]:
    """Yield the mistakes of each of `exercises` that have a `why`, in the order of their file."""
    for exercise in exercises:
        yield from (
            mistake
            for mistake in read(_file(exercise))
            if mistake.exercise == exercise and mistake.why
        )


def alike(mistakes: Iterable[Mistake], fits: Callable[[Any], bool]) -> Iterator[Mistake]:
    """Yield the mistakes whose answer has the learner's result: `fits(answer)` is True.

    A mistake whose answer raises an error is left out. After `PATIENCE` seconds, the remaining
    mistakes are not tried.
    """
    worked = thread_time()
    waited = perf_counter()
    for mistake in mistakes:
        fitting = False
        with suppress(Exception), np.errstate(all="ignore"):
            fitting = fits(mistake.answer)
        if fitting:
            yield mistake
        if thread_time() - worked > PATIENCE or perf_counter() - waited > 10 * PATIENCE:
            return


def first(mistakes: Iterable[Mistake], fits: Callable[[Any], bool], **figures: object) -> Reason:
    """Return `(why, next step)` of the first mistake whose answer `fits`; ("", "") if none does.

    Names in braces in both texts are replaced by the values in `figures`.
    """
    match = next(alike(mistakes, fits), None)
    return match.reason(**figures) if match else ("", "")


def same(result: Any, reference: Any) -> bool:
    """Return whether two results are equal: values, arrays, or lists and tuples of them.

    In arrays of equal shape, NaN equals NaN.
    """
    if isinstance(result, (list, tuple)):
        return len(result) == len(reference) and all(map(same, result, reference))
    if isinstance(result, np.ndarray):
        return bool(np.array_equal(result, reference, equal_nan=True))
    return bool(result == reference)


def all_mistakes() -> Iterator[Mistake]:
    """Yield the mistakes of every lesson, lesson by lesson."""
    for path in sorted(Path(__file__).resolve().parents[1].glob("lesson*/mistakes.py")):
        yield from read(path)
