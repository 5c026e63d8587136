"""`import ipu_teach` loads nothing until a name is used, and behaves as if it had."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import ipu_teach
from ipu_teach import _api


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


LOADED = "print(sorted(m for m in sys.modules if m.startswith(('ipu_', 'matplotlib', 'IPython'))))"


@pytest.mark.parametrize(
    ("line", "loaded"),
    [
        ("import ipu_teach", ["ipu_teach"]),
        ("from ipu_teach import tiny", ["ipu_teach", "ipu_teach.tiny"]),
        ("import ipu_teach.tiny", ["ipu_teach", "ipu_teach.tiny"]),
        ("import ipu_teach; ipu_teach.__version__", ["ipu_teach"]),
    ],
)
def test_what_is_not_used_is_not_loaded(line: str, loaded: list[str]) -> None:
    assert run(f"import sys; {line}; {LOADED}").strip() == str(loaded)


def test_tiny_needs_numpy_and_nothing_else() -> None:
    tiny = Path(ipu_teach.__file__).with_name("tiny.py").read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(tiny))
        for name in (
            [alias.name.split(".")[0] for alias in node.names]
            if isinstance(node, ast.Import)
            else [(node.module or "").split(".")[0]]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.parametrize("name", _api.__all__)
def test_a_name_is_there_in_every_way(name: str) -> None:
    assert getattr(ipu_teach, name) is getattr(_api, name) and name in dir(ipu_teach)


def test_a_star_takes_the_public_names_and_help_lists_them() -> None:
    names: dict[str, object] = {}
    exec("from ipu_teach import *", names)
    assert set(names) - {"__builtins__"} == set(_api.__all__)
    text = run("import ipu_teach; help(ipu_teach)")
    assert "class Engine(" in text and "sweep(" in text and "FLOAT" in text


def test_modules_are_attributes() -> None:
    code = "import ipu_teach; print(ipu_teach.report.__name__, ipu_teach.poplibs.popops.add)"
    assert run(code).startswith("ipu_teach.report <function add")


def test_names_complete_at_a_prompt() -> None:
    """What IPython and a plain prompt offer after a dot comes from dir()."""
    code = (
        "import ipu_teach, rlcompleter; c = rlcompleter.Completer({'ipu_teach': ipu_teach}); "
        "print(c.complete('ipu_teach.compile_g', 0))"
    )
    assert run(code).startswith("ipu_teach.compile_graph(")


def test_classes_are_pickled_by_the_modules_that_define_them() -> None:
    assert pickle.loads(pickle.dumps(ipu_teach.Engine)) is ipu_teach.Engine
    assert b"_api" not in pickle.dumps(ipu_teach.Graph)


def test_a_type_checker_knows_the_names(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "program.py"
    file.write_text("import ipu_teach\nreveal_type(ipu_teach.Graph)\nipu_teach.nonsense\n")
    command = [sys.executable, "-m", "mypy", "--strict", str(file)]
    root = Path(ipu_teach.__file__).parents[1]
    text = subprocess.run(command, capture_output=True, text=True, cwd=root).stdout
    assert "ipu_teach.graph.graph.Graph" in text and "has no attribute" in text, text


def test_an_unknown_name_is_an_error_with_the_next_step() -> None:
    with pytest.raises(AttributeError, match="help\\(ipu_teach\\) lists what it has"):
        ipu_teach.nonsense  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="no tile computes in 64 bits"):
        from ipu_teach import DOUBLE  # type: ignore[attr-defined]  # noqa: F401


def test_poptorch_is_no_attribute_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import ipu_teach; "
        "print(hasattr(ipu_teach, 'poptorch'))"
    )
    assert run(code).strip() == "False"
