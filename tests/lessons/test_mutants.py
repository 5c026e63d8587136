"""The checks themselves are tried: small damage to a reference answer must not pass, unless it changes nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from answers import EXERCISES, Names, run_cell

from ipu_teach.lessons import check
from ipu_teach.lessons.exercise import Exercise
from ipu_teach.lessons.gaps import gaps_in, reference

SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip
TURNED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}

# Damage that leaves a right answer, by exercise and damaged line.
HARMLESS = {
    "01.2": {"load = [1] * tiles", "placed = [1] * len(jobs)"},
    # The next tile takes back what this one has too much of.
    "02.1": {
        "end = min((tile + 2) * grains // tiles * grain, tensor.num_elements)",
        "end = max((tile + 1) * grains // tiles * grain, tensor.num_elements)",
    },
    # Another tile is as good.
    "02.2": {"graph.set_tile_mapping(number, 1)", "graph.set_tile_mapping(total, 1)"},
    "02.5": {"graph.set_tile_mapping(target, 2)", "graph.set_tile_mapping(source, 1)"},
    # A number too many, and one that lies elsewhere: the vertices are on their tile.
    "04.2": {"most = graph.add_variable(FLOAT, (7,), 'most')", "graph.set_tile_mapping(most, 1)"},
    # Any tile will do.
    "04.3": {"graph.set_tile_mapping(vertex, i // TILES)"},
    # Other rows that find all faults.
    "04.4": {
        f"for row in ([0.5, {a}2.25, 0.75, 0.25, 3.5], [-7.5, {b}9.0, {c}3.25, {d}4.0]):"
        for a, b, c, d in (("", "-", "-", "-"), ("-", "", "-", "-"), ("-", "-", "", "-"), ("-", "-", "-", ""))
    },
    # A cycle of twelve more, which is near enough.
    "04.5": {"once = 6 + 1 + 1", "once = 5 + 2 + 1", "once = 5 + 1 + 2"},
    # The same number in every place of a row makes no difference to softmax.
    "07.1": {"powers = np.exp(scores + scores.max(axis=1, keepdims=True))"},
}


class Damage(ast.NodeTransformer):
    """Change what is at place number `place`, counted as they are met, and remember the line."""

    def __init__(self, place: int) -> None:
        self.left = place
        self.done = False

    def _here(self) -> bool:
        self.left -= 1
        self.done = self.done or self.left == -1
        return self.left == -1

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(node.value + 1) if type(node.value) is int and self._here() else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in SWAPPED and self._here():
            node.op = SWAPPED[type(node.op)]()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub) and self._here() else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        other = {"max": "min", "min": "max"}.get(node.id)
        return ast.Name(other, node.ctx) if other and self._here() else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if type(node.ops[0]) in TURNED and self._here():
            node.ops = [TURNED[type(node.ops[0])]()]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        return ast.Pass() if isinstance(node.value, ast.Call) and self._here() else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Pass() if self._here() else node


def damaged(source: str) -> Iterator[tuple[str, str]]:
    """(the line that was changed, the whole cell) for every single damage."""
    whole = ast.unparse(ast.parse(source)).splitlines()
    for place in range(100):
        damage = Damage(place)
        tree = ast.fix_missing_locations(damage.visit(ast.parse(source)))
        if not damage.done:
            return
        code = ast.unparse(tree)
        changed = [line for line, before in zip(code.splitlines(), whole, strict=False) if line != before]
        yield changed[0].strip() if changed else "", code
    raise AssertionError("too many places")


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_damage_does_not_pass(exercise: Exercise, names_of: Callable[[str], Names]) -> None:
    cell = reference(exercise.name).cell
    assert len(gaps_in(cell)) == 1
    tried, survived = 0, set()
    for line, code in damaged(cell):
        tried += 1
        answers: tuple[Any, ...] = run_cell(code, names_of(exercise.name[:2]), exercise.name)
        if check(exercise.name, *answers):
            survived.add(line)
    assert survived == HARMLESS.get(exercise.name, set())
    assert tried >= 2 or exercise.name in ("02.3", "07.2", "07.5")  # which have hardly anything of these kinds
