"""Find the lessons, and manage the learner's copies of them.

A lesson has two notebooks: one with answers and outputs in `notebooks/solutions`, and one with
gaps, as learners get it, in `notebooks`. The learner's copies are in the work folder. That is the
folder in the environment variable `IPU_TEACH_WORK`. By default, it is `work` in a checkout, and
`./work` if the package was installed from a wheel.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ipu_course.checking.naming import Key, lesson_meant, lesson_of, sort_key
from ipu_teach._support.places import bundled, checkout, not_kept, try_writing, write_whole
from ipu_teach.errors import LessonError

COURSE = Path(__file__).resolve().parents[1]
NOTEBOOKS = bundled("notebooks", COURSE)
PAGES = bundled("docs", COURSE)
INDEX = "index.ipynb"  # The notebook with the map of the lessons.
# The numbered lessons, and the lesson that builds the machine in one file.
PATTERNS = ("[0-9][0-9]_*.ipynb", "[0-9][0-9][a-z]_*.ipynb", "tiny.ipynb")
ALIASES = {"mnist": "07", "cnn": "07b"}
DEEPEST = 50  # The maximum nesting depth of a JSON file. A notebook has about ten levels.


def lessons(solved: bool = False) -> list[Path]:
    """Return the notebooks of all lessons, in order.

    If a lesson has both notebooks, the result contains only one of them: the solved notebook if
    `solved` is True, and the notebook with gaps if it is False.
    """
    folders = [NOTEBOOKS / "solutions", NOTEBOOKS]
    by_number: dict[str, Path] = {}
    for folder in reversed(folders) if solved else folders:
        by_number.update((path.stem, path) for path in lessons_in(folder))
    return sorted(by_number.values(), key=_in_order)


def lessons_in(folder: Path) -> list[Path]:
    """Return the notebooks in `folder` that are lessons.

    The numbered lessons come first, then `tiny.ipynb`, which builds the machine in one file.
    """
    return sorted((path for pattern in PATTERNS for path in folder.glob(pattern)), key=_in_order)


def _in_order(path: Path) -> tuple[Key, str]:
    return sort_key(lesson_of(path.stem)), path.stem


def find_lesson(word: str | None, solved: bool = False) -> Path:
    """Return the notebook of the lesson that `word` names; the first lesson if `word` is None.

    `word` is a number, the beginning of a name, `mnist`, `cnn` or `index`. If `solved` is True,
    return the solved notebook.

    :raises LessonError: if no lesson fits, or several do.
    """
    known = lessons(solved)
    if not known:
        raise LessonError(f"""There are no lessons here.
            where: {NOTEBOOKS}
            next:  run this from a whole copy of the repository, installed with `python -m pip
            install -e .[lab]`""")
    if word is None:
        return known[0]
    index = NOTEBOOKS / INDEX
    if word.lower().removesuffix(".ipynb") == index.stem and index.exists():
        return index
    wanted = ALIASES.get(word.lower(), word.lower())
    if meant := lesson_meant(wanted):
        hits = [path for path in known if lesson_of(path.stem) == meant]
    else:
        wanted = wanted.removesuffix(".ipynb")
        names = {
            path: (path.stem.lower(), path.stem.lower().partition("_")[2] or path.stem.lower())
            for path in known
        }
        hits = [path for path in known if any(name.startswith(wanted) for name in names[path])]
        hits = [path for path in hits if wanted in names[path]] or hits
    if len(hits) == 1:
        return hits[0]
    listed = "".join(f"\n    {path.stem}" for path in hits or known)
    many = (
        f"{word!r} is the beginning of several lessons."
        if hits
        else f"There is no lesson {word!r}."
    )
    raise LessonError(many, next_step=f"choose one by number or name:{listed}")


def work_path() -> Path:
    """Return the path of the work folder, which has the learner's copies and progress.

    The folder may not exist.
    """
    folder = Path.cwd()
    usual = (checkout() or (folder.parent if folder.name == "work" else folder)) / "work"
    return Path(os.environ.get("IPU_TEACH_WORK") or usual).expanduser().absolute()


def work_folder() -> Path:
    """Return the path of the work folder, and create it if it does not exist.

    :raises LessonError: if it cannot be created.
    """
    folder = work_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_kept("The work folder cannot be created", folder, error) from error
    return folder


def writable_work_path() -> Path:
    """Return the path of the work folder without creating it.

    :raises LessonError: if files cannot be stored in it.
    """
    folder = work_path()
    try:
        try_writing(folder)
    except OSError as error:
        raise not_kept("The work folder cannot be written", folder, error) from error
    return folder


def kept_work() -> Path:
    """Return the path of the work folder, and create it if it does not exist.

    :raises LessonError: if files cannot be stored in it.
    """
    folder = work_folder()
    writable_work_path()
    return folder


def set_aside(file: Path, word: str) -> Path:
    """Rename `file` by adding `word` and the time to its name, and return the new path."""
    stamp = time.strftime(f"{word}-%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        copy = file.with_name(
            f"{file.stem}.{stamp}{f'-{number}' if number > 1 else ''}{file.suffix}"
        )
        if not copy.exists():
            break
    os.replace(file, copy)
    return copy


def as_copied(lesson: Path) -> str:
    """Return the text of a lesson's notebook with links that are valid in the work folder.

    In the work folder, `docs` is next to the notebook, not one level above it.
    """
    return lesson.read_text(encoding="utf-8").replace("](../", "](")


def learners_copy(lesson: Path) -> Path:
    """Return the path of the copy of `lesson` in the work folder; write the copy if it is missing.

    An existing copy is never overwritten.
    """
    copy = work_folder() / lesson.name
    if _copied(copy, as_copied(lesson)):
        _trust(copy)
    return copy


def learners_copies(lesson: Path) -> Path:
    """Copy `lesson` and the notebooks and pages that its links lead to into the work folder.

    They are all lessons, the index, and the pages of `docs` that a lesson or the index links to.
    Return the path of the copy of `lesson`.
    """
    copy = learners_copy(lesson)
    others = [notebook for notebook in (*lessons(), NOTEBOOKS / INDEX) if notebook.exists()]
    for notebook in others:
        learners_copy(notebook)
    named = {
        name
        for notebook in others
        for name in re.findall(r"\]\(docs/([\w-]+\.md)", as_copied(notebook))
    }
    for page in (page for page in PAGES.glob("*.md") if page.name in named):
        _copied(copy.parent / "docs" / page.name, page.read_text(encoding="utf-8"))
    return copy


def _copied(copy: Path, text: str) -> bool:
    """Write `text` to the file `copy` unless it exists, and return whether it was written.

    :raises LessonError: if the file cannot be written.
    """
    if copy.exists():
        return False
    try:
        copy.parent.mkdir(exist_ok=True)
        write_whole(copy, text)
    except OSError as error:
        raise not_kept("The lesson could not be copied", copy, error) from error
    return True


def _trust(notebook: Path) -> None:
    """Sign a notebook, so that JupyterLab animates its stored pictures before the first run.

    JupyterLab shows the stored pictures of an unsigned notebook without animation.
    """
    try:
        import nbformat
        from nbformat.sign import NotebookNotary

        NotebookNotary().sign(nbformat.read(notebook, as_version=nbformat.NO_CONVERT))
    # The lesson opens even if the signature cannot be stored, so a failure is only reported.
    except Exception as error:
        _say_once(f"a copy could not be marked as trusted ({error}); its pictures move after a run")


@cache
def _say_once(text: str) -> None:
    print(text, file=sys.stderr)


def need_checkout(job: str) -> None:
    """Raise `LessonError` if this package was installed from a wheel.

    The notebooks of a wheel must not be changed. `job` names the refused operation in the error.
    """
    if checkout() is None:
        raise LessonError(f"""{job} needs a checkout, but this kit was installed from a wheel.
            where: {NOTEBOOKS}
            next:  run it in a copy of the repository, where notebooks/solutions can be edited""")


def need(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise LessonError(
            f"{module} is not installed.", next_step=install_line(f"ipu_teach[{extra}]")
        )


def install_line(requirement: str) -> str:
    return f"{sys.executable} -m pip install '{requirement}'"


def read_json(file: Path) -> Any:
    """Return the content of a JSON file.

    :raises OSError: if the file cannot be read.

    :raises ValueError: if it is not valid JSON, is null, or is nested more than `DEEPEST` levels
        deep.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        # json.dumps raises a ValueError for NaN and 1e999.
        json.dumps(content, allow_nan=False)
    except RecursionError:
        content = None
    if content is None or not _is_within(content, DEEPEST):
        raise ValueError("the file contains only `null`, or its values are nested too deeply")
    return content


def _is_within(value: object, depth: int) -> bool:
    """Return whether a JSON value is nested at most `depth` levels deep."""
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    return depth > 0 and all(_is_within(part, depth - 1) for part in inner)
