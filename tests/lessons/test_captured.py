"""The captured graphs of lesson 13: what lies beside the digits is what torch gives."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ipu_course.lesson13.captures import CAPTURES, captured
from ipu_course.lesson13.checks import graphs, kept_by
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir

DATASETS = Path(__file__).resolve().parents[2] / "datasets"


@pytest.mark.parametrize("name", CAPTURES)
def test_a_fresh_capture_is_the_stored_one(name: str) -> None:
    pytest.importorskip("torch")
    fresh = runpy.run_path(str(DATASETS / "make_captures.py"))["capture"](name)
    assert str(fresh) == str(captured(name))
    assert ir.saved.graph_to_bytes(fresh) == (DATASETS / f"{name}.model").read_bytes()


def test_another_name_is_refused() -> None:
    with pytest.raises(ModelError, match="did you mean 'cnn'"):
        captured("cn")


def test_a_module_is_captured() -> None:
    torch = pytest.importorskip("torch")
    graph = captured(torch.nn.Linear(3, 2), torch.zeros(4, 3))
    assert [op.kind for op in graph.ops] == ["permute", "matmul", "add"]


def test_what_is_kept_is_what_cannot_be_left_out() -> None:
    """Without an operation's forward its backward reads what nobody made: by taking each away."""
    graph = graphs()["the CNN"]
    before = [op for op in graph.ops if op.part == "forward"]
    views = {v: op.inputs[0] for op in graph.ops if ir.OPS[op.kind].view for v in op.outs}
    kept = set()
    for gone in (v for op in before for v in op.outs if not ir.OPS[op.kind].view):
        there = set[ir.Value]({gone})
        there |= {v for v in views if gone in _sources(v, views)}
        if any(there.intersection(op.inputs) for op in graph.ops if op.part == "backward"):
            kept.add(gone.name)
    assert kept == set(kept_by(graph)) and len(kept) == 5


def _sources(value: ir.Value, views: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    found = [value]
    while found[-1] in views:
        found.append(views[found[-1]])
    return found
