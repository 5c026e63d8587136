"""docs/troubleshooting.md: whatever it quotes is printed somewhere, and what stops a set-up has a row
there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from tools_said import SAID

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
RUN = ast.parse((ROOT / "run.py").read_text(encoding="utf-8"))
OTHERS = {  # who else prints what
    "CERTIFICATE_VERIFY_FAILED": "pip",
    "externally-managed-environment": "pip of Debian",
    "No module named 'ipu_teach'": "Python",
    "NameError": "Python",
    "MemoryError": "Python",
    "Your server is starting up": "JupyterHub",
    "/services/class/": "the browser",
}
DRAWN = {  # put together from parts
    "run 0: 12%\\|…",
    "build: 00:01, 20,000 vertices so far",
    "note home",
    "no result: after 8 seconds it was stopped",
    "IPU_TEACH_HUB_PASSWORD is not set",
}


def texts(nodes: Iterable[ast.AST]) -> list[str]:
    """The strings of a program that are not docstrings, each on one line."""
    nodes = list(nodes)
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        " ".join(node.value.split())
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in statements
    ]


@cache
def printed() -> list[str]:
    found = texts(ast.walk(RUN))
    for folder in ("ipu_teach", "ipu_course", "deploy"):
        for path in (ROOT / folder).rglob("*.py"):
            found += texts(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    # run.py passes it on, as tests/test_setup.py sees
    return [*found, *(" ".join(said.split()) for _, said in SAID.values())]


def quoted() -> list[str]:
    """What the page quotes under "you see", but for its last table, which is of classes."""
    rows = re.findall(r"^\| ((?:\\\||[^|])+) \|", PAGE.split("## In a program")[0], re.MULTILINE)
    found = [
        word for row in rows for pair in re.findall(r"`([^`]+)`|\"([^\"]+)\"", row) for word in pair
    ]
    return [" ".join(word.split()) for word in found if word]


@pytest.mark.parametrize("words", [word for word in quoted() if word not in DRAWN])
def test_what_the_page_quotes_is_printed(words: str) -> None:
    if words not in OTHERS:
        for piece in words.strip("…").split("…"):
            assert any(piece.strip(" )") in text for text in printed()), piece


def test_what_others_print_and_what_is_drawn_is_quoted() -> None:
    assert len(quoted()) > 40
    assert {*OTHERS, *DRAWN} <= set(quoted())


def has_a_row(said: list[str]) -> bool:
    pieces = [piece.strip() for word in quoted() for piece in word.split("…")]
    return any(len(piece) > 9 and piece in text for piece in pieces for text in said)


def calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in names
    ]


def test_whatever_stops_a_set_up_has_a_row() -> None:
    """But for what only begins or ends with what another call says."""
    ends = [texts(ast.walk(call)) for call in calls(RUN, "stop", "SetupFailed")]
    known = (
        "then run the same",
        "is as it was",
        "These are there",
        "taken up",
        "Run this with",
        "is mended",
        "this job needs the extra",
    )
    whole = [said for said in ends if any(len(text) > 25 for text in said)]
    assert len(whole) >= 9
    left = [said for said in whole if not has_a_row(said)]
    assert [said for said in left if not any(word in text for word in known for text in said)] == [
        ["set-up stopped; the next run takes it up again"]
    ]
    (kinds,) = (
        node.value
        for node in RUN.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "UNREACHED"
    )
    assert isinstance(kinds, ast.Tuple) and len(kinds.elts) == 5
    for kind in kinds.elts:
        assert isinstance(kind, ast.Tuple) and has_a_row(texts([kind.elts[1]])), ast.unparse(kind)


def test_whatever_cannot_be_kept_has_a_row() -> None:
    found = [
        texts(ast.walk(call.args[0]))
        for folder in ("ipu_teach", "ipu_course")
        for path in (ROOT / folder).rglob("*.py")
        for call in calls(ast.parse(path.read_text(encoding="utf-8")), "not_kept")
    ]
    assert len(found) == 6 and [said for said in found if not has_a_row(said)] == []
