"""Which functions of the kit no test and no lesson enters: python3 run.py entered [arguments of
pytest]

It runs the tests, all of them if nothing else is said, as fast as they always run, in every process
that they start, and ends with 1 if one failed or a function was left out. It needs Python 3.12,
whose `sys.monitoring` tells of a function once.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ipu_teach"
# numba runs what stands there, and Python does not enter it
COMPILED = ("engine/scalar/native.py",)


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """(first line, name) of the functions of a file that have a body of their own."""
    waiting: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text(encoding="utf-8")), "")]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name, decorators = f"{around}{node.name}", {ast.unparse(d) for d in node.decorator_list}
            *_, last = node.body
            # a docstring or ... alone
            bare = isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)
            if not bare and not decorators & {"overload", "abstractmethod"}:
                yield min([node.lineno, *(d.lineno for d in node.decorator_list)]), name
            around = f"{name}."
        elif isinstance(node, ast.ClassDef):
            around = f"{around}{node.name}."
        waiting += ((child, around) for child in ast.iter_child_nodes(node))


def left_out(folder: Path) -> list[str]:
    """The functions that none of the notes in `folder` name."""
    entered = {
        line
        for notes in folder.iterdir()
        for line in notes.read_text(encoding="utf-8").splitlines()
    }
    return [
        f"{path.relative_to(ROOT).as_posix()}:{line} {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.as_posix().endswith(COMPILED)
        for line, name in sorted(functions(path))
        if f"{line} {path}" not in entered
    ]


def main(words: list[str]) -> int:
    """Run pytest with `words`, and say what it left out."""
    if words in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if sys.version_info < (3, 12):
        sys.exit(f"entered: this needs Python 3.12 or newer, and this is {sys.version.split()[0]}.")
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(
            filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
        )
        env = dict(
            os.environ, IPU_TEACH_ENTERED=folder, IPU_TEACH_PACKAGE=str(PACKAGE), PYTHONPATH=path
        )
        status = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=env
        ).returncode
        found = left_out(Path(folder))
    print("\n".join([*found, f"{len(found):,} functions were entered by no test that ran."]))
    return int(bool(status or found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
