"""Implement `ipu-teach grade NOTEBOOK… [--csv]` and `ipu-teach assignment LESSON`."""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from ipu_course.checking.gaps import read_notebook
from ipu_course.checking.naming import lesson_meant
from ipu_course.checking.notebooks import need
from ipu_course.checking.verdict_panel import aligned
from ipu_course.classroom import assignment
from ipu_course.classroom.assignment import Test, tests_of_lesson, tests_of_notebook
from ipu_course.classroom.grading import MEMORY, SECONDS, Graded, Grader, graded, lesson_in
from ipu_course.classroom.roster import ASIDE, WORK, labelled, listed, one_line
from ipu_course.classroom.tables import cell_text, write_csv
from ipu_teach._support.places import program
from ipu_teach.errors import LessonError, LessonSourceError

Entry = tuple[str, Path | None, str]  # (learner, notebook file, lesson)


def grade(words: Sequence[str]) -> int:
    """Run `ipu-teach grade` with these words; return 0 if every notebook has all points, else 1.

    :raises LessonError: if there is nothing to grade, or the table cannot be written.
    """
    parser = _parser()
    options = parser.parse_args(words)
    # In `--csv FILE.ipynb`, the parser has read the notebook as the file name of --csv.
    if options.csv and (Path(options.csv).is_dir() or options.csv.endswith(".ipynb")):
        options.notebooks = [options.csv, *options.notebooks]
        options.csv = ""
    if not options.notebooks:
        parser.error("which notebooks? Name the files, or the folder with the learners' folders")
    need("IPython", "lab")
    lesson = lesson_meant(options.lesson) or options.lesson
    names = listed(Path(options.roster).expanduser()) if options.roster else {}
    entries = _entries(options, lesson, names)
    tests_for = _tests(options.assignment, lesson, entries)
    results: list[tuple[Graded, list[Test]]] = []
    with Grader(options.seconds, options.memory) as grader:
        for learner, file, known in entries:
            _say(f"{learner} ({len(results) + 1} of {len(entries)})")
            tests = tests_for(known)
            result = graded(grader, learner, file, tests, not options.assignment)
            if names and learner not in names:
                result.remarks.append("this id is not in the list of the class")
            results.append((result, tests))
    _say("")
    if options.csv is None:
        print(_table(results, names))
        if options.why:
            print(_reasons(results), end="")
    elif options.csv:
        write_csv(Path(options.csv), _csv(results, names))
    else:
        print(_csv(results, names), end="")
    full = all(result.total == sum(t.points for t in tests) for result, tests in results)
    return 0 if full else 1


def assign(words: Sequence[str]) -> int:
    """Run `ipu-teach assignment` with these words, and return 0.

    :raises LessonError: if there is no such lesson, or it has no tests.
    """
    parser = argparse.ArgumentParser(
        prog=f"{program()} assignment",
        description="Write a lesson as an assignment of nbgrader: the answers in solution cells, "
        "and each check in a test cell of its own.",
    )
    parser.add_argument(
        "lesson", metavar="LESSON", help="number (07), or a solved notebook of your own"
    )
    parser.add_argument(
        "--course", default=".", metavar="FOLDER", help="nbgrader's course; else this folder"
    )
    parser.add_argument(
        "--release", action="store_true", help="also write the learners' version, as nbgrader does"
    )
    options = parser.parse_args(words)
    for file in assignment.write(options.lesson, Path(options.course), options.release):
        print(f"wrote {file}")
    return 0


def _entries(options: argparse.Namespace, lesson: str, names: Mapping[str, str]) -> list[Entry]:
    """Return entries: first learners with a notebook or a folder, then those only in `names`.

    :raises LessonError: if there is nobody to grade.
    """
    entries = list(_found(options.notebooks, lesson, bool(options.assignment)))
    present = {learner for learner, _, _ in entries}
    entries += [(identity, None, lesson) for identity in names if identity not in present]
    if not entries:
        raise LessonError(
            f"There is no learner in {one_line(', '.join(options.notebooks))}.",
            next_step="give the folder that contains the learners' folders, or add --roster and a "
            "list of the class.",
        )
    return entries


def _found(words: Sequence[str], lesson: str, is_own: bool) -> Iterator[Entry]:
    """Yield the notebooks that `words` name, each with its learner and its lesson.

    :raises LessonError: if a file does not exist, or a lesson has to be chosen.
    """
    files = [Path(word).expanduser() for word in words]
    for path in files:
        if not path.exists():
            raise LessonError(
                f"There is no file or folder {str(path)!r}.",
                next_step="name the learners' notebooks, or the folder with their folders.",
            )
    named = [path for path in files if path.is_file()]
    for path, learner in zip(named, learners_of(named), strict=True):
        yield learner, path, _lesson_of(path)
    for folder in (path for path in files if path.is_dir()):
        yield from _in_folder(folder, lesson, is_own)


def _in_folder(folder: Path, lesson: str, is_own: bool) -> Iterator[Entry]:
    for file in sorted(folder.glob("*.ipynb")):
        yield one_line(file.stem), file, _lesson_of(file)
    inner = sorted(
        p for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", ASIDE))
    )
    for home in inner:
        files = [
            (file, _lesson_of(file))
            for file in sorted(home.rglob("*.ipynb"))
            if not any(part.startswith((".", ASIDE)) for part in file.relative_to(home).parts)
        ]
        chosen = [pair for pair in files if not lesson or is_own or pair[1] in (lesson, "")]
        known = {number for _, number in chosen if number and not is_own}
        if len(known) > 1:
            raise LessonError(
                f"{one_line(home)} has notebooks of several lessons: {', '.join(sorted(known))}.",
                next_step=f"choose one: {program()} grade {one_line(folder)} --lesson "
                f"{min(known)}.",
            )
        name = one_line(home.name)
        if not chosen:
            yield name, None, lesson
        else:
            # If there are several copies, the learner's last one counts.
            file, number = max(chosen, key=lambda pair: (bool(pair[1]), pair[0].stat().st_mtime))
            yield name, file, number


def _lesson_of(file: Path) -> str:
    """Return the lesson of a notebook file; "" if it is damaged, or belongs to no lesson."""
    try:
        return lesson_in(read_notebook(file), file.stem)
    except LessonSourceError:
        return ""


def learners_of(files: Sequence[Path]) -> list[str]:
    """Return each file's learner: the part of its path that differs between all files.

    For both `submitted/ada/lesson01/01_….ipynb` and `inbox/ada.ipynb`, the learner is "ada".
    """
    paths = [file.absolute().with_suffix("").parts for file in files]
    if len({path[-1] for path in paths}) == len(paths):
        return [one_line(path[-1]) for path in paths]
    depth = next(
        (
            place
            for place in range(min(map(len, paths)))
            if len({path[place] for path in paths}) == len(paths)
        ),
        None,
    )
    if depth is not None:
        return [one_line(path[depth]) for path in paths]
    return [one_line("/".join(part for part in path[-3:] if part != WORK)) for path in paths]


def _tests(file: str | None, lesson: str, entries: Sequence[Entry]) -> Callable[[str], list[Test]]:
    """Return a function that returns the tests for a notebook's lesson, which may be "" (unknown).

    If `file` is not None, the function always returns the tests of this assignment. Otherwise, it
    returns the tests of `lesson` or, if that is "", of the notebook's lesson. If both are "", it
    returns the tests of the most common lesson of all entries.
    """
    if file:
        exists = Path(file).is_file()
        assigned = tests_of_notebook(read_notebook(Path(file))) if exists else []
        if not assigned:
            raise LessonError(
                f"{file} has no test cells." if exists else f"There is no file {file!r}.",
                next_step=f"name a file that `{program()} assignment` wrote.",
            )
        return lambda lesson_known: assigned
    lessons = Counter(known for _, _, known in entries if known)
    usual = lesson or (lessons.most_common(1)[0][0] if lessons else "")
    if not usual:
        raise LessonError(
            "None of the notebooks belongs to a lesson: none calls check().",
            next_step="add --lesson 01, or --assignment and the file of the assignment.",
        )
    of_lesson = cache(tests_of_lesson)
    return lambda known: of_lesson(lesson or known or usual)


Results = Sequence[tuple[Graded, list[Test]]]


def _table(results: Results, names: Mapping[str, str]) -> str:
    rows = [("learner", "points", "of", "not all points for", "remarks")]
    for result, tests in results:
        lost = [
            f"{test.name} ({result.points[test.name]:g} of {test.points:g})"
            for test in tests
            if result.points[test.name] < test.points
        ]
        total = sum(test.points for test in tests)
        rows.append(
            (
                labelled(result.learner, names.get(result.learner)),
                f"{result.total:g}",
                f"{total:g}",
                "all of them" if len(lost) == len(tests) else ", ".join(lost),
                "; ".join(result.remarks),
            )
        )
    return "\n".join(aligned(rows))


def _reasons(results: Results) -> str:
    """Return an empty line, and a line for each test that ran and did not give all points."""
    return "".join(
        ["\n"]
        + [
            f"{result.learner}, {test.name}: {result.reasons[test.name]}\n"
            for result, tests in results
            for test in tests
            if result.points[test.name] < test.points and result.reasons.get(test.name)
        ]
    )


def _csv(results: Results, names: Mapping[str, str]) -> str:
    """Return CSV text: a row for each notebook, with a column for each test.

    If `names` is not empty, there is a column for the learners' names.
    """
    exercises = list(dict.fromkeys(test.name for _, tests in results for test in tests))
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    has_names = ("name",) if names else ()
    rows.writerow(("learner", *has_names, "points", "of", *exercises, "file", "date", "remarks"))
    for result, tests in results:
        total = sum(test.points for test in tests)
        date = ""
        if result.file is not None:
            date = time.strftime("%Y-%m-%d %H:%M", time.localtime(result.file.stat().st_mtime))
        numbers = [f"{result.points[n]:g}" if n in result.points else "" for n in exercises]
        name = [cell_text(names.get(result.learner, ""))] if names else []
        rows.writerow(
            (
                cell_text(result.learner),
                *name,
                f"{result.total:g}",
                f"{total:g}",
                *numbers,
                cell_text(one_line(result.file or "")),
                date,
                cell_text("; ".join(result.remarks)),
            )
        )
    return out.getvalue()


def _say(text: str) -> None:
    if sys.stderr.isatty():
        line = f"grading {text}" if text else ""
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program()} grade",
        description="Run learners' notebooks in processes with limits, and give points for their "
        "answers. Exit status 0 if every notebook has all points, otherwise 1.",
    )
    parser.add_argument(
        "notebooks",
        nargs="*",
        metavar="NOTEBOOK",
        help="notebook files, or a folder with the learners' folders",
    )
    parser.add_argument("--lesson", default="", help="the lesson to grade, such as 01")
    parser.add_argument(
        "--assignment", metavar="FILE", help="take the tests from this file of an assignment"
    )
    parser.add_argument(
        "--roster",
        metavar="FILE",
        help="a list of the class as CSV, with the columns id and name; those without a notebook "
        "get 0 points",
    )
    parser.add_argument(
        "--csv",
        nargs="?",
        const="",
        metavar="FILE",
        help="a row for each notebook, as comma-separated text; into a file if named",
    )
    parser.add_argument(
        "--why", action="store_true", help="below the table, why a test did not give all points"
    )
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help=f"processor time of a notebook; else {SECONDS}"
    )
    parser.add_argument(
        "--memory", type=float, default=MEMORY, help=f"memory limit in GB; else {MEMORY}"
    )
    return parser
