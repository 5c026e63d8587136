"""Scalar loops: one walk over the text of `compute()` gives a typed loop over elements, which the
room above prints for CPython and for a compiler.

    code = scalar_code(DotProduct)        # a `ScalarCode`, or why there is none

`values` says what a value is while the text is walked, and `operations` what the walk gives;
`writer` holds those so far; `arithmetic`, `variable_walk`, `arrays`, `calls`, `expressions` and
`statements` each add the pieces of language that they are named after. Both texts count cycles,
mark what is stored and check indices at the same places. Where the compiled one cannot go on (an
index beyond the end, an integer beyond 61 bits, a number that does not fit) it returns the line,
and CPython's text runs that vertex; where that fails, the plain loop does, and says what is wrong.

A number is *free* if it is made of constants, lengths, worker ids, counters of loops and state that
nothing assigns: what is done with it costs nothing, as in a trace. It is *data* if it comes from
memory, or was assigned where data decide. What is data costs: an element's load or store 1, an
operation its price, a decision 1, a turn of a range with ends from data 2.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from operator import is_
from types import FunctionType
from typing import Any

from ipu_teach.compile.scalar.calls import outside, scope_of, tree_of
from ipu_teach.compile.scalar.operations import Operation
from ipu_teach.compile.scalar.statements import Statements
from ipu_teach.compile.scalar.values import ConstantTable, Num, Refused
from ipu_teach.compile.scalar.writer import PieceRate, PricedPiece, Spot
from ipu_teach.compile.trace import place
from ipu_teach.graph.vertex import Field, Vertex
from ipu_teach.types import DType

MOST_WALKS = 6  # of the whole text, until it is known what types lists hold


@dataclass(frozen=True, eq=False)
class ScalarCode:
    """What the walk of a codelet's text gives.

    `operations`: see there; `pieces`, `rates`: what they cost (see `writer`). `loops`: numpy's own
    loops that the compiled text calls by address, (function, its types); `tables`: lists of
    numbers; `slots`: variables of the compiled text, with what they begin as. `vectors`: some work
    is on whole regions. `answers`: compute() returns whether it is done. `endless`: a vertex may
    take for ever, and so asks now and then if it is to end. `lists`: the fields that
    are lists of vectors. `lines`, `heads`: statements, and loops with what their variables begin
    with (see `writer`). `uncompiled`: what cannot be compiled with the same bits, and its line;
    CPython's text runs alone then.
    """

    codelet: type[Vertex]
    fields: Mapping[str, Field]
    operations: list[Operation]
    pieces: tuple[PricedPiece, ...]
    rates: tuple[PieceRate, ...]
    loops: tuple[tuple[Any, str], ...]
    tables: Mapping[str, ConstantTable]
    slots: Mapping[str, str]
    vectors: bool
    answers: bool
    endless: bool
    lists: frozenset[str]
    lines: tuple[Spot, ...]
    heads: tuple[tuple[Spot, str], ...]
    uncompiled: str = ""

    @property
    def multi(self) -> bool:
        """True if every worker of a tile runs it."""
        return self.codelet.context == "multi"

    @property
    def marked(self) -> tuple[str, ...]:
        """Fields of which stores are marked."""
        return tuple(
            n for n, f in self.fields.items() if f.kind == "output" or (self.multi and f.written)
        )


WalkedCode = tuple[ScalarCode | str, dict[tuple[Any, str], Any]]
_known: dict[tuple[type[Vertex], frozenset[str]], WalkedCode] = {}
MOST_KNOWN = 1024  # codelets whose walk is remembered


def scalar_code(codelet: type[Vertex], lists: frozenset[str] = frozenset()) -> ScalarCode | str:
    """The scalar loop of `codelet`, or the line and the reason why it is not translated. `lists`:
    its fields that are lists.

    A walk is remembered as long as all that it found outside the text is still the same.
    """
    known = _known.pop((codelet, lists), None)
    if known is None or not all(_holds(*who, before) for who, before in known[1].items()):
        known = _walked(codelet, lists)
    _known[codelet, lists] = known  # the latest at the end
    if len(_known) > MOST_KNOWN:
        del _known[next(iter(_known))]
    return known[0]


def _holds(owner: Any, name: str, before: tuple[Any, tuple[Any, ...]]) -> bool:
    """True if a name means what it meant, and a list holds what it held."""
    now = (
        outside(owner).get(name)
        if isinstance(owner, FunctionType)
        else inspect.getattr_static(owner, name, None)
    )
    value, held = before
    return now is value and (
        not isinstance(now, list) or len(now) == len(held) and all(map(is_, now, held))
    )


def _walked(codelet: type[Vertex], lists: frozenset[str]) -> WalkedCode:
    """What a walk gives, and what it saw: by owner and name the value, and what a list holds."""
    compute, walk = codelet.compute, _Walk(codelet, lists)
    found = _code(codelet, compute, walk)
    walk.seen[codelet, "compute"] = compute
    return found, {
        who: (value, tuple(value) if isinstance(value, list) else ())
        for who, value in walk.seen.items()
    }


def _code(codelet: type[Vertex], compute: Any, walk: _Walk) -> ScalarCode | str:
    if not isinstance(compute, FunctionType):
        return (
            f"{codelet.__name__}: compute(), which is no plain function, does not run as a scalar "
            "loop"
        )
    if not all(
        isinstance(f.dtype, type) and issubclass(f.dtype, DType) for f in codelet.fields.values()
    ):
        return f"{codelet.__name__}: a template does not run as a scalar loop"
    try:
        return walk.run(compute)
    except Refused as refused:
        reason, line, instead = refused.why, refused.line or walk.line, refused.instead
    except RecursionError:
        reason, line, instead = "this depth", walk.line, ""
    advice = f" (write {instead} instead)" if instead else ""
    return f"{place(codelet, line)}: {reason} does not run as a scalar loop{advice}"


class _Walk(Statements):
    """The whole."""

    def run(self, compute: FunctionType) -> ScalarCode:
        tree = self.trees[compute] = tree_of(compute)
        own = [
            f
            for c in self.codelet.__mro__
            if c.__module__ != Vertex.__module__
            for f in vars(c).values()
        ]
        self.trees |= {
            f: tree_of(f) for f in own if isinstance(f, FunctionType) and f is not compute
        }
        parts = (n for f in self.trees.values() for n in ast.walk(f))
        self.assigned = {
            n.attr
            for n in parts
            if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
        }
        names = [a.arg for a in tree.args.args]
        for _ in range(MOST_WALKS):
            boxes, summed = {box: set(types) for box, types in self.boxes.items()}, set(self.summed)
            self.reset()
            scope = scope_of(compute, names[0], self.codelet, "v_")
            self.scopes.append(scope)
            for name in (
                n for n, f in self.codelet.fields.items() if not f.depth and not f.written
            ):
                self.emit(
                    f"f_{name}_v = "
                    f"{self._held(self.region(name, self.codelet.fields[name]), f'f_{name}_o')}"
                )
            if self.multi:
                self.state["v_" + names[1]] = Num(
                    {"wi": "worker"}, "worker", f"v_{names[1]}_tag", bound=64
                )
            self.block(tree.body)
            if self.live:
                self.finish()
            if boxes == self.boxes and summed == self.summed:
                break
            self.settled.clear()
        else:
            self.refuse(tree, "a list whose types do not settle")
        tags, heads = dict.fromkeys(sorted(self.tagged), "-1"), [head[:2] for head in self.heads]
        return ScalarCode(
            self.codelet,
            self.codelet.fields,
            self.operations,
            tuple(self.pieces),
            tuple(self.rates),
            tuple(self.loops),
            self.tables,
            {**self.slots, **tags},
            self.vectors,
            self.answers,
            self.endless,
            self.lists,
            tuple(self.lines),
            tuple(heads),
            self.uncompiled,
        )
