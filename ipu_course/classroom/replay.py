"""Run one shared answer again, in a process of its own, to confirm the line that was shared.

The process reads `[line, code]` as JSON from standard input. It writes the reason why the answer
was not confirmed to standard output as a JSON string; "" if it was. The answer can use the names
that the cells of its solved lesson define.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import sys
from pathlib import Path
from typing import Any

from ipu_course.checking.built import built
from ipu_course.checking.gaps import (
    names_needed,
    read_notebook,
    reference,
    source_of,
    without_check,
)
from ipu_course.checking.learner_calls import verify
from ipu_course.checking.shared import parsed
from ipu_teach.errors import IPUTeachError

SHOWING = ("show.", "check(", "predict(", "given(", "progress(", "puzzle(", "share(", "hint(")
FILE = "<a shared answer>"


def replay(line: str, code: str) -> str:
    """Run a shared answer; return the reason why it does not confirm its line, or "" if it does.

    `line` is the line of share(), and `code` is the answer that it describes.
    """
    exercise = parsed(line).name
    reference_found = reference(exercise)
    names = definitions(reference_found.path)
    codes = [
        node.name
        for node in ast.parse(code).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    missing = sorted(names_needed(code) - names.keys())
    if missing:
        return f"its code needs {', '.join(missing)}, of another cell"
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    if codes:
        exec(compile(code, FILE, "exec"), names)
    answer = names[codes[-1]] if codes else eval(compile(code, FILE, "eval"), names)
    beside = [eval(source, names) for source in reference_found.answers[1:]]
    verdict = verify(line, answer, *beside)
    return (
        ""
        if verdict.mark == "✓"
        else "; ".join(f"{label}: {text}" for label, text in verdict.rows[:2])
    )


def definitions(path: Path) -> dict[str, Any]:
    """Return the names that the cells of a solved lesson define, with their objects.

    Cells that display or check something are not run, and neither are cells that use names from
    such cells.
    """
    # Lessons import `built` in a cell with display functions. That cell is skipped below.
    names: dict[str, Any] = {"__name__": "__main__", "built": built}
    for number, cell in enumerate(read_notebook(path)["cells"]):
        if cell["cell_type"] != "code":
            continue
        source = without_check(source_of(cell))
        if any(word in source for word in SHOWING) or names_needed(source) - names.keys():
            continue
        file = f"<cell {number} of {path.stem}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), names)
    return names


def main() -> None:
    """Read the request, run the answer, and write the reason why it was not confirmed.

    Text that the answer itself prints is dropped.
    """
    line, code = json.load(sys.stdin)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            why = replay(line, code)
    except IPUTeachError as error:
        why = error.tried
    except BaseException as error:  # A shared answer may raise any exception.
        why = f"{type(error).__name__} when it was run"
    print(json.dumps(why))


if __name__ == "__main__":
    main()
