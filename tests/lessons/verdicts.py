"""Record the verdict on every known answer, and compare two records.

    python3 run.py verdicts FILE                     judge all answers, write a line of JSON for each
    python3 run.py verdicts FILE 05 12.1             only these lessons and exercises
    python3 run.py verdicts FILE --against OTHER     print what differs between two records

The answers are the blanks, the references, the known mistakes and the attempts of every exercise.
To see that a change keeps the verdicts, make a record before it and another after it. --against
compares kind, text and HTML. With --against, the exit status is 1 if any verdict differs or is
missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

# (exercise, source of the answer, its description, its cell, names beside the lesson's)
Answer = tuple[str, str, str, str, dict[str, Any]]


def answers() -> Iterator[Answer]:
    """Yield every answer that the tests have, by exercise."""
    from answers import EXERCISES, blank_cell
    from attempts import REFUSED, RIGHT, VARIANTS, WRONG

    from ipu_course.checking import mistakes
    from ipu_course.checking.gaps import reference

    sources = {"mistake": WRONG, "variant": VARIANTS, "right": RIGHT, "wrong": REFUSED}
    for name in (exercise.name for exercise in EXERCISES):
        yield name, "blank", "", blank_cell(name), {}
        yield name, "reference", "", reference(name).cell, {}
        for source, known in sources.items():
            for answer in (a for a in known if a.exercise == name):
                given = mistakes.given(answer.path) if source == "variant" else {}
                yield name, source, answer.about, answer.code, given


def judged(answer: Answer) -> dict[str, str]:
    """Return the verdict on one answer, on a fresh desk."""
    from answers import definitions, run_cell

    from ipu_course import check
    from ipu_course.checking import learner_calls
    from ipu_course.checking.naming import lesson_of

    name, source, about, code, given = answer
    for passed in (learner_calls._passed, learner_calls._handed_out, learner_calls._shared):
        passed.clear()
    names = dict(definitions(lesson_of(name))) | given
    with tempfile.TemporaryDirectory() as desk, redirect_stdout(StringIO()):
        os.environ["IPU_TEACH_WORK"] = desk
        with redirect_stderr(StringIO()):
            verdict = check(name, *run_cell(code, names, name))
        html = verdict._repr_html_() if hasattr(verdict, "_repr_html_") else ""
    return {
        "exercise": name,
        "source": source,
        "about": about,
        "kind": verdict.kind.value,
        "text": _steady(repr(verdict)),
        "html": _steady(html),
    }


def _steady(text: str) -> str:
    """Return a text without addresses, folders, seconds and lines of this file."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", text)
    text = re.sub(r"/\S*/(?=[\w.]+\.py)", "…/", text)
    text = re.sub(rf"{Path(__file__).name}, line \d+: verdict = .*?name\)\)", "the cell", text)
    return re.sub(r"\d+(?:\.\d+)? (?:ms|seconds?|s)\b", "… s", text)


def read(file: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    """Return the verdicts of a record by exercise, source and description."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {(row["exercise"], row["source"], row["about"]): row for row in rows}


def differences(
    before: dict[tuple[str, str, str], dict[str, str]],
    after: dict[tuple[str, str, str], dict[str, str]],
) -> Iterator[str]:
    """Yield a line for each answer whose verdicts differ, or that only one record has."""
    for key in before.keys() | after.keys():
        if key not in before or key not in after:
            yield f"{' '.join(key)}: only in the {'first' if key in before else 'second'} record"
            continue
        for part in ("kind", "text", "html"):
            if (old := before[key][part]) != (new := after[key][part]):
                place = next(
                    (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
                    min(len(old), len(new)),
                )
                start = max(0, place - 40)
                yield (
                    f"{' '.join(key)}: {part}\n"
                    f"  {old[start : place + 80]!r}\n  {new[start : place + 80]!r}"
                )
                break


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py verdicts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the record")
    # With a default, argparse does not name these words among the missing ones.
    parser.add_argument(
        "only", nargs="*", default=[], metavar="05 12.1", help="lessons or exercises; else all"
    )
    parser.add_argument("--against", type=Path, metavar="OTHER", help="compare two records")
    words = parser.parse_args()
    if words.against:
        for file in (words.file, words.against):
            if not file.is_file():
                parser.error(f"there is no record {file}")
        lines = sorted(differences(read(words.against), read(words.file)))
        print(*lines, f"{len(lines)} of {len(read(words.file))} verdicts differ", sep="\n")
        return bool(lines)
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    todo = [
        answer
        for answer in answers()
        if not words.only or answer[0] in words.only or answer[0].split(".")[0] in words.only
    ]
    if not todo:
        parser.error(f"no exercise is called {' or '.join(words.only)}")
    with words.file.open("w", encoding="utf-8") as out:
        for number, answer in enumerate(todo, 1):
            if sys.stderr.isatty():
                print(f"\r{number} of {len(todo)}: {answer[0]} ", end="", file=sys.stderr)
            out.write(json.dumps(judged(answer), ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(todo)} verdicts in {words.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
