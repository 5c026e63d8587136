"""Run notebooks and their tests, each in a process of its own.

`grading` starts this program, which loads the kit once. It reads one request as JSON from each line
of standard input, and forks a process for it. The process writes a line for each event to the file
of the request: the token of the request, a space, and a JSON object. Lines without the token are
not read. Output of the notebook is discarded. After the process has ended, a line is written to
standard output. Without fork, as on Windows, this program runs one notebook itself and ends.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from textwrap import shorten
from typing import Any

import numpy as np

from ipu_course.checking.learner_calls import check
from ipu_course.checking.time_limit import TooLong, within
from ipu_course.checking.verdicts import Kind
from ipu_course.classroom.guard import Original, fence, limit
from ipu_course.classroom.points import share_of

WAIT = 3  # The maximum wall-clock time of a notebook, as a multiple of its processor time limit.
CALLS = ("check", "points")
LONGEST = 200  # The maximum number of characters of a reason.
SHOWN_PLACES = 3  # The maximum number of changed functions that a remark names.
Request = dict[str, Any]


class Worker:
    """One notebook: its cells, its tests, and the namespace in which they run."""

    def __init__(
        self,
        request: Request,
        send: Callable[[dict[str, object]], None],
        shell: Any,
        original: Original,
    ) -> None:
        self.request = request
        self.send = send
        self.shell = shell
        self.names = shell.user_ns
        self.original = original
        self.cell_seconds: float = request["cell_seconds"]
        self.tests = {test["name"]: test for test in request["tests"]}
        self.done: set[str] = set()  # The tests that earned all their points.
        self.tried: set[str] = set()

    def run(self) -> None:
        """Run the cells in order, with each test at its place or, if it has none, at the end."""
        by_id = {test["id"]: name for name, test in self.tests.items() if test["id"]}
        for number, cell in enumerate(self.request["cells"], start=1):
            self.send({"cell": number})
            if cell["grade_id"] in by_id:
                self.judge(by_id[cell["grade_id"]])
            else:
                self._run_cell(cell["source"], number)
        for name in self.tests:
            if name not in self.tried:
                self.judge(name)
        self.send({"done": True})

    def _run_cell(self, source: str, number: int) -> None:
        """Run a learner's cell, and judge the exercises that it checks."""
        code, calls = _split(source, self.shell.transform_cell)
        try:
            within(self.cell_seconds, lambda: self.shell.run_cell(code, store_history=False))
        except TooLong:
            self.send({"remark": f"cell {number} was stopped after {self.cell_seconds:g} s"})
        except BaseException as error:
            self.send({"remark": f"cell {number} raised {type(error).__name__}"})
        self._restore(f"cell {number}")
        for name, arguments in calls:
            if name in self.tests and self.tests[name]["arguments"]:
                has_own = self.request["own_arguments"]
                self.judge(name, arguments if has_own else None)

    def _restore(self, place: str) -> bool:
        """Undo changes to the kit, and report them; return whether there were any."""
        changed = self.original.restore()
        if changed:
            listed = ", ".join(changed[:SHOWN_PLACES])
            self.send({"remark": f"{place} changed {listed}, which was undone"})
        return bool(changed)

    def judge(self, name: str, arguments: list[str] | None = None) -> None:
        """Run one test, and send its points."""
        if name in self.done:
            return
        self.tried.add(name)
        test = self.tests[name]
        try:
            if test["arguments"]:
                share, why = self._check(name, arguments or test["arguments"])
                number = share * test["points"]
            else:
                number, why = self._own_test(test)
        except BaseException as error:
            number, why = 0.0, _in_words(error)
        if self._restore(f"the answer to {name}"):
            number, why = 0.0, "the answer changes the kit while it is checked"
        if number == test["points"]:
            self.done.add(name)
        self.send({"test": name, "points": number, "why": shorten(why, LONGEST, placeholder=" …")})

    def _check(self, name: str, arguments: list[str]) -> tuple[float, str]:
        answers = within(self.cell_seconds, lambda: [eval(text, self.names) for text in arguments])
        self.original.restore()
        verdict = check(name, *answers)
        rows = dict(verdict.rows)
        why = "" if verdict.kind is Kind.PASSED else rows.get("why") or rows.get("came", "")
        return share_of(name, verdict), why or ("" if verdict else verdict.kind.value)

    def _own_test(self, test: Request) -> tuple[float, str]:
        """Run a test that an instructor wrote; return its points and a reason.

        If its last line is a number, this is the number of points. If it is False, there are no
        points. Otherwise, the test gives all points unless it raises an error.
        """
        tree = ast.parse(test["source"])
        last = tree.body[-1] if tree.body else None
        value: object = None

        def run() -> object:
            head = ast.Module(tree.body[:-1] if isinstance(last, ast.Expr) else tree.body, [])
            exec(compile(head, "<test>", "exec"), self.names)
            if not isinstance(last, ast.Expr):
                return None
            return eval(compile(ast.Expression(last.value), "<test>", "eval"), self.names)

        value = within(self.cell_seconds, run)
        if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
            value = value.item()
        if value is False:
            return 0.0, "the last line of the test is False"
        if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return test["points"], ""
        number = min(max(float(value), 0.0), test["points"])
        is_full = number == test["points"]
        return number, "" if is_full else f"the test gave {number:g} of {test['points']:g} points"


def _in_words(error: BaseException) -> str:
    if isinstance(error, TooLong):
        return "stopped, because it took too long"
    text = str(error).splitlines()[:1]
    return f"{type(error).__name__}{': ' if text else ''}{''.join(text)}"


def _split(source: str, transform: Callable[[str], str]) -> tuple[str, list[tuple[str, list[str]]]]:
    """Return (cell without a final check, the checks of the cell).

    A check is a pair `(exercise, expressions of the arguments)`.
    """
    if not any(f"{call}(" in source for call in CALLS):
        return source, []
    try:
        tree = ast.parse(transform(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source, []
    calls = list(_calls(tree))
    last = tree.body[-1] if tree.body else None
    if calls and isinstance(last, ast.Expr) and _is_call(last.value):
        source = ast.unparse(ast.Module(tree.body[:-1], []))
    return source, [(name, arguments) for name, arguments in calls]


def _is_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in CALLS
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
    )


def _calls(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        if _is_call(node):
            assert isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant)
            yield str(node.args[0].value), [ast.unparse(argument) for argument in node.args[1:]]


def _shell() -> Any:
    """Return an interactive shell without history, which displays objects as text only."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.display_formatter.active_types = ["text/plain"]
    return shell


def _run(request: Request, shell: Any, original: Original) -> None:
    """Run one request in this process, whose rights are limited from then on."""
    with open(request["events"], "w", encoding="utf-8") as channel:
        dumps, token = json.dumps, request["token"]

        def send(event: dict[str, object]) -> None:
            channel.write(f"{token} {dumps(event)}\n")
            channel.flush()

        try:
            os.environ.update(request["environment"])
            os.chdir(request["folder"])
            _be_quiet()
            worker = Worker(request, send, shell, original)
            limit(request["memory"], request["seconds"])
            fence(request["folder"])
            worker.run()
        except BaseException as error:
            send({"remark": f"the notebook could not be run: {_in_words(error)}"})


def _be_quiet() -> None:
    """Let this process read nothing from standard input, and discard its output."""
    void = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(void, number)


def _in_a_fork(request: Request, shell: Any, original: Original) -> None:
    """Run one request in a forked process, and kill the process when its time is over."""
    process = os.fork()
    if process == 0:
        try:
            _run(request, shell, original)
        finally:
            os._exit(0)
    # The process limits itself to `seconds` of processor time. On a busy machine, or if the
    # notebook sleeps, this takes longer, so wall-clock time has a larger limit.
    end = time.monotonic() + WAIT * request["seconds"]
    while os.waitpid(process, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return
        time.sleep(0.02)


def main() -> None:
    """Run the notebooks of the requests, until standard input ends."""
    shell = _shell()
    original = Original()
    for line in sys.stdin:
        if hasattr(os, "fork"):
            _in_a_fork(json.loads(line), shell, original)
            print("ended", flush=True)
        else:
            _run(json.loads(line), shell, original)
            return


if __name__ == "__main__":
    main()
