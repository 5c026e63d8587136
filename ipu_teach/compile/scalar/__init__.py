"""Translate the source of `compute()` into a typed loop over elements.

    code = scalar_code(DotProduct)        # a `ScalarCode`, or the reason why there is none

The source is translated once, into a list of operations. The engine prints these operations as two
functions: Python code, and code that numba compiles ("numba code"). Both functions count cycles,
mark stores and check indices at the same places. The numba code stops at an index out of range, an
integer of more than 61 bits, or a number that does not fit into its element. It then returns the
number of the line, and the Python code runs this vertex again. If the Python code fails too, the
plain vertex loop (`engine.loop`) calls the learner's own compute() and raises its error.

`values` defines the values that the translation handles, and `operations` the operations that it
produces; `writer` collects the operations. Each of the other modules translates the part of Python
after which it is named, such as `arithmetic`, `loops` and `comprehensions`.

A number is *free* if it is computed only from constants, lengths, worker ids, loop counters, and
state that is never assigned. Operations on free numbers cost nothing, as in a trace. A number is
*data* if it comes from memory, or was assigned in a branch that depends on data. Operations on data
cost cycles. A load and a decision cost 1 each. A store costs 1, or 3 if it is less than a word. An
operation costs its price, and an iteration of a range whose ends are data costs 2.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from operator import is_
from types import FunctionType

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.calls import outside, scope_of, tree_of
from ipu_teach.compile.scalar.comprehensions import Comprehensions
from ipu_teach.compile.scalar.operations import Operation
from ipu_teach.compile.scalar.values import ConstantTable, Num, Refused
from ipu_teach.compile.scalar.writer import PieceRate, PricedPiece, Spot
from ipu_teach.compile.trace import place
from ipu_teach.graph.vertex import Field, Vertex
from ipu_teach.types import DType

# The maximum number of translations of the complete source. They are repeated until the types of
# the numbers in lists are known.
MOST_WALKS = 6


@dataclass(frozen=True, eq=False)
class ScalarCode:
    """The translation of one codelet's compute() into operations.

    * `operations`: the operations in order (see the module `operations`)
    * `pieces`, `rates`: the operations whose cycles are counted, as the cost model needs them (see
      `writer`)
    * `loops`: the inner loops of numpy that the numba code calls by their addresses, each as
      (function, letters of its types)
    * `tables`: maps names to tables of constants
    * `slots`: maps the variables of the numba code to their initial values
    * `vectors`: whether the code computes whole fields or arrays at once
    * `answers`: whether compute() can return a false value
    * `endless`: whether a loop may run forever, so that it must check whether to stop
    * `lists`: the fields that are lists of vectors
    * `lines`, `heads`: the learner's statements and loops (see `writer`)
    * `uncompiled`: the line and text of the first code for which numba would give other bits than
      Python, or "". If there is such code, only the Python code may run
    """

    codelet: type[Vertex]
    fields: Mapping[str, Field]
    operations: list[Operation]
    pieces: tuple[PricedPiece, ...]
    rates: tuple[PieceRate, ...]
    loops: tuple[tuple[Function, str], ...]
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
        """Whether every worker of a tile runs the code."""
        return self.codelet.context == "multi"

    @property
    def marked(self) -> tuple[str, ...]:
        """The names of the fields whose stored elements the code records."""
        return tuple(
            n
            for n, function in self.fields.items()
            if function.kind == "output" or (self.multi and function.written)
        )


WalkedCode = tuple[ScalarCode | str, dict[tuple[object, str], tuple[object, tuple[object, ...]]]]
_known: dict[tuple[type[Vertex], frozenset[str]], WalkedCode] = {}
MOST_KNOWN = 1024  # The maximum number of codelets whose translations are cached.


def scalar_code(codelet: type[Vertex], lists: frozenset[str] = frozenset()) -> ScalarCode | str:
    """Return the scalar loop of `codelet`, or the line and the reason why it is not translated.

    `lists` are the names of the codelet's fields that are lists of vectors. The result is cached as
    long as all values that compute() uses from outside its own source stay the same.
    """
    cached = _known.pop((codelet, lists), None)
    if cached is None or not all(
        _is_unchanged(owner, name, before) for (owner, name), before in cached[1].items()
    ):
        cached = _walk(codelet, lists)
    # Move the entry to the end of the cache, where the most recently used entry is.
    _known[codelet, lists] = cached
    if len(_known) > MOST_KNOWN:
        del _known[next(iter(_known))]
    return cached[0]


def _is_unchanged(owner: object, name: str, before: tuple[object, tuple[object, ...]]) -> bool:
    """Return whether an attribute of `owner` is still the same object, with the same list items.

    `before` is (the object at the time of the translation, a copy of its items if it was a list).
    """
    now = (
        outside(owner).get(name)
        if isinstance(owner, FunctionType)
        else inspect.getattr_static(owner, name, None)
    )
    value, items = before
    return now is value and (
        not isinstance(now, list) or len(now) == len(items) and all(map(is_, now, items))
    )


def _walk(codelet: type[Vertex], lists: frozenset[str]) -> WalkedCode:
    """Translate a codelet; return (its scalar code, the outside values that the code depends on).

    An outside value is a global or an attribute of the class. The second result maps (owner, name)
    to (value, items). `items` is a copy of the items if the value is a list, and () otherwise.
    """
    compute = codelet.compute
    walk = _Walk(codelet, lists)
    code = _code(codelet, compute, walk)
    walk.outer_values[codelet, "compute"] = compute
    return code, {
        key: (value, tuple(value) if isinstance(value, list) else ())
        for key, value in walk.outer_values.items()
    }


def _code(codelet: type[Vertex], compute: Function, walk: _Walk) -> ScalarCode | str:
    """Return the code into which `walk` translates `compute`, or the reason why it cannot."""
    if not isinstance(compute, FunctionType):
        return (
            f"{codelet.__name__}: compute(), which is not a plain function, does not run as a "
            "scalar "
            "loop"
        )
    if not all(
        isinstance(function.dtype, type) and issubclass(function.dtype, DType)
        for function in codelet.fields.values()
    ):
        return f"{codelet.__name__}: a template does not run as a scalar loop"
    try:
        return walk.run(compute)
    except Refused as refused:
        reason = refused.why
        line = refused.line or walk.line
        instead = refused.instead
    except RecursionError:
        reason = "code that is nested so deeply"
        line = walk.line
        instead = ""
    advice = f" (write {instead} instead)" if instead else ""
    return f"{place(codelet, line)}: {reason} does not run as a scalar loop{advice}"


class _Walk(Comprehensions):
    """Translates a complete codelet."""

    def run(self, compute: FunctionType) -> ScalarCode:
        """Return the translation of `compute`.

        The source is translated repeatedly, until the types of the numbers in its lists no longer
        change.
        """
        tree = self.trees[compute] = tree_of(compute)
        members = [
            member
            for base in self.codelet.__mro__
            if base.__module__ != Vertex.__module__
            for member in vars(base).values()
        ]
        self.trees |= {
            function: tree_of(function)
            for function in members
            if isinstance(function, FunctionType) and function is not compute
        }
        nodes = (node for function in self.trees.values() for node in ast.walk(function))
        self.assigned = {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
        names = [argument.arg for argument in tree.args.args]
        for _ in range(MOST_WALKS):
            boxes = {box: set(types) for box, types in self.boxes.items()}
            summed = set(self.summed)
            self.reset()
            scope = scope_of(compute, names[0], self.codelet, "v_")
            self.scopes.append(scope)
            for name, declared in self.codelet.fields.items():
                if not declared.depth and not declared.written:
                    element = self._element_text(self.region(name, declared), f"f_{name}_o")
                    self.emit(f"f_{name}_v = {element}")
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
        tags = dict.fromkeys(sorted(self.tagged), "-1")
        return ScalarCode(
            codelet=self.codelet,
            fields=self.codelet.fields,
            operations=self.operations,
            pieces=tuple(self.pieces),
            rates=tuple(self.rates),
            loops=tuple(self.loops),
            tables=self.tables,
            slots={**self.slots, **tags},
            vectors=self.vectors,
            answers=self.answers,
            endless=self.endless,
            lists=self.lists,
            lines=tuple(self.lines),
            heads=tuple(head[:2] for head in self.heads),
            uncompiled=self.uncompiled,
        )
