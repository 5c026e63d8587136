"""Collect the operations of a walk, and the costs of its straight pieces.

Prices depend on the target, and so on the layer above. The walk records what it would price, in
`pieces` and `rates`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, NoReturn

from ipu_teach.compile.scalar.kinds import CODES, SLOT, ZERO, Function, dtype_of, gives, held_dtype
from ipu_teach.compile.scalar.operations import Block, Count, CountRegion, Line, Operation
from ipu_teach.compile.scalar.values import (
    ConstantTable,
    Known,
    Num,
    Refused,
    Scope,
    State,
    Unreached,
    Vec,
)
from ipu_teach.graph.vertex import Vertex

Spot = tuple[str, int]  # (file, line) of a statement in the learner's code
# (numpy's name of an operation, its type by numpy's letters, its statement). No name: an
# instruction of one cycle.
Price = tuple[str, str, Spot]
PricedPiece = tuple[tuple[Price, int], ...]
# a Price of an operation on whole regions; no name: one data path per cycle
PieceRate = tuple[str, str, Spot]
WORD = "word"  # in place of a type: an instruction of a store of less than a word
# Names of prices that are not numpy operations; the layer above knows the instructions:
FUSED = "a sum of a product"  # a sum that may be fused with its product
LOOP = "a loop"  # the start of a loop over vectors
AGAIN = "again"  # a region that is loaded again in the same loop
OF_PRODUCT = "of a product"  # an operand of a @ b
PRODUCT = "product"  # a @ b itself
BEYOND = "beyond"  # the part of a local array that does not fit in registers
COLUMN = "a column"  # of the right side of np.linalg.solve, or of the identity for inv
TALL = "a row more"  # a row more than a square matrix has
WIDE = "a column more"  # than a square matrix has

MOST_SHOWN = 40  # characters of a statement, in a report

Make = Callable[[list[str], list[str]], tuple[str, str]]


class Writer:
    """The state of a walk: the operations so far, the knowledge at this place, and the place.

    `live`: this place can be reached. `control`: the number of enclosing branches that depend on
    data. `dry`: a later iteration of a loop may still assign a name. `missed`: the number of
    branches that were not walked because a name was not assigned yet.
    """

    # Methods of the subclasses: expressions, numbers, branches, statements, reductions.
    value: Callable[[ast.expr], Any]
    num: Callable[[ast.expr], Num]
    nums: Callable[[list[ast.expr]], list[Num]]
    single: Callable[[Any, ast.expr], Num]
    operands: Callable[[list[ast.expr], Callable[[ast.expr], Any]], list[Any]]
    fork: Callable[[ast.expr, Callable[[], None], Callable[[], None]], None]
    branch: Callable[[Num, Callable[[], None], Callable[[], None]], None]
    block: Callable[[list[ast.stmt]], None]
    reduction_loop: Callable[[Function, ast.Call, dict[str, ast.expr]], Num]

    def __init__(self, codelet: type[Vertex], lists: frozenset[str]) -> None:
        self.codelet = codelet
        self.lists = lists
        self.multi = codelet.context == "multi"
        self.tagged: set[str] = set()  # tags of variables that have several types somewhere
        self.slots: dict[str, str] = {}
        self.loops: list[tuple[Function, str]] = []  # numpy's own loops, called by address
        self.tables: dict[str, ConstantTable] = {}
        self.boxes: dict[str, set[str]] = {}  # the types of numbers, by list or table
        # attributes of the vertex that a function of its class assigns
        self.assigned: set[str] = set()
        # Generated variables that are no data: whether a loop is in its first iteration
        self.known: set[str] = set()
        self.summed: set[str] = set()  # calls of sum() that CPython's text leaves to Python
        self.answers = False  # compute() returns whether it is done
        self.endless = False  # it may run forever, so it asks now and then whether to stop
        self.pieces: dict[PricedPiece, int] = {}
        self.rates: dict[PieceRate, int] = {}
        self.lines: dict[Spot, int] = {}
        # numbers of loops, by (place, prefix of its variables, name)
        self.heads: dict[tuple[Spot, str, str], int] = {}
        self.vectors = False  # there is work on whole regions
        self.uncompiled = ""  # the line and the text of what only CPython's text can do
        # by loop, and whether data decide: (state before, state at its head)
        self.settled: dict[tuple[ast.AST, bool], list[tuple[State, State]]] = {}
        self.trees: dict[Any, ast.FunctionDef] = {}
        self.lambdas: dict[ast.Lambda, ast.FunctionDef] = {}
        # the used values from outside the text, by owner and name
        self.outer_values: dict[tuple[Any, str], Any] = {}
        # (first number, end) of loops that count up by one, by counter
        self.ranges: dict[str, tuple[str, str]] = {}
        # the checks that are done ahead of a loop, by its counter
        self.ahead: dict[str, set[str]] = {}
        self.reset()

    def reset(self) -> None:
        """Start again, and keep the knowledge of variables."""
        # the open blocks, from compute() to the innermost
        self.open = [Block("compute():", "compute():")]
        self.is_compiled_only = False  # emit only to the compiled text
        self.count = self.control = self.line = self.missed = 0
        self.dry = False
        self.cost: Counter[Price] = Counter()
        self.loops_over = 0  # the number of loops over vectors that have ended
        self.loaded: set[str] = set()  # regions that the current loop over vectors has loaded
        # by temporary array: `loops_over` when it was computed
        self.temporaries: dict[str, int] = {}
        # the first use in a later loop, by temporary array
        self.spilled: dict[str, ast.AST] = {}
        self.state: State = {}
        self.scopes: list[Scope] = []
        self.live = True

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @property
    def operations(self) -> list[Operation]:
        """The operations of the innermost open block."""
        return self.open[-1].body

    def emit(self, nb: str | None = None, py: str | None = None) -> None:
        """Add a line to the compiled text, to CPython's, or to both."""
        py = None if self.is_compiled_only else py
        if nb is not None or py is not None:
            self.operations.append(Line(nb, py))

    @contextmanager
    def under(
        self, nb: str | None = None, py: str | None = None, counter: str = ""
    ) -> Iterator[None]:
        """Put the operations of the `with` under a line of one of the texts, or of both."""
        self.begin(Block(nb, py, counter=counter))
        yield
        self.open.pop()

    def begin(self, block: Block) -> None:
        """Open a block, which receives the following operations."""
        self.operations.append(block)
        self.open.append(block)

    @contextmanager
    def compiled_alone(self, alone: bool = True) -> Iterator[None]:
        """Emit only to the compiled text; CPython's does the same in another way."""
        before, self.is_compiled_only = self.is_compiled_only, alone
        try:
            yield
        finally:
            self.is_compiled_only = before

    def both(self, line: str) -> None:
        """Add the same line to both texts."""
        self.emit(line, line)

    def notify_watch(self, call: str) -> None:
        """Add a call that reports to `watch`, for CPython's text when it is watched."""
        self.operations.append(Line(None, None, f"watch.{call}"))

    def new(self, prefix: str = "t") -> str:
        """Return a new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def named(self, text: str) -> str:
        """Return a new name in the compiled text for the value of `text`."""
        name = self.new()
        self.emit(f"{name} = {text}")
        return name

    @property
    def spot(self) -> Spot:
        """The file and line of the statement that is being walked."""
        return self.scope.file, self.line

    def count_statement(self, node: ast.AST) -> None:
        """Count an execution of a statement, if it is one of the learner's."""
        if "generated" not in vars(node):
            number = self.lines.setdefault(self.spot, len(self.lines))
            self.notify_watch(f"lines[{number}] += 1")

    def empty(self, name: str, count: str, t: str) -> None:
        """Add a local array to the compiled text."""
        self.emit(f"{name} = np.empty({count}, {held_dtype(t)})")

    def refuse(self, node: ast.AST, why: str, instead: str = "") -> NoReturn:
        """Raise `Refused` for a construct that is not translated."""
        raise Refused(why, getattr(node, "lineno", 0) or self.line, instead)

    def refuse_if(self, condition: Any, node: ast.AST, why: str, instead: str = "") -> None:
        if condition:
            self.refuse(node, why, instead)

    def type_of(self, f: Function, operands: Sequence[Any], node: ast.AST) -> str:
        """Return the type of `f` of some operands: see `gives`."""
        try:
            return gives(f, *operands)
        except Exception as error:
            self.refuse(node, str(error))

    def bail(self, condition: str, node: ast.AST) -> None:
        """Leave the compiled text here under a condition; another way then runs the vertex."""
        self.emit(f"if {condition}: return {getattr(node, 'lineno', 0) or self.line or 1}")

    def require_python(self, node: ast.AST) -> None:
        """Note that only CPython's text can do something with the same bits."""
        if not self.uncompiled:
            text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
            if len(text) > MOST_SHOWN:
                text = text[: MOST_SHOWN - 1] + "…"
            self.uncompiled = f"line {getattr(node, 'lineno', 0) or self.line}, {text}"

    def is_reached(self, way: Callable[[], None]) -> bool:
        """Walk something; return False if it reads a name that only an earlier iteration assigns.

        The walk's state is then as before.
        """
        scope = self.scope
        control = self.control
        dry = self.dry
        num_open, num_scopes, num_loops = len(self.open), len(self.scopes), len(scope.loops)
        try:
            way()
        except Unreached:
            self.missed += 1
            self.control = control
            self.dry = dry
            del self.open[num_open:], self.scopes[num_scopes:], scope.loops[num_loops:]
            return False
        return True

    # Costs

    def spend(self, name: str = "", kind: str = "", times: int = 1, data: bool = True) -> None:
        """Count an operation at this place. Without `data`, it is done by the compiler and free."""
        if data:
            self.cost[name, kind, self.spot] += times

    def flush(self) -> None:
        """Write the costs on the way here that are not yet counted."""
        self.operations.extend(self._counted(self.cost))
        self.cost = Counter()

    def _counted(self, cost: Counter[Price]) -> list[Operation]:
        """Return the operation that counts a cost, or [] if there is none."""
        piece = tuple(sorted(cost.items()))
        return [Count(self.pieces.setdefault(piece, len(self.pieces)))] if piece else []

    def join_costs(self, other: Counter[Price]) -> list[Operation]:
        """Join two branches: this one, and one that has the cost `other` to count.

        The cost that both have is left to be counted after them. The rest of this branch is
        written, and that of the other branch is returned.
        """
        common = self.cost & other
        self.operations.extend(self._counted(self.cost - common))
        self.cost = common
        return self._counted(other - common)

    def spend_on_all(
        self, counter: str, vec: Vec, name: str, kind: str, times: tuple[str, str] = ("", "")
    ) -> None:
        """Count work on a whole region. `times` is a factor of its length, in the two texts."""
        self.vectors = True
        number = self.rates.setdefault((name, dtype_of(kind).name, self.spot), len(self.rates))
        self.operations.append(CountRegion(counter, number, (vec.n, vec.size), times))

    # Numbers of several types

    def not_none(self, a: Num) -> Num:
        """Return a number without the type None.

        Where it is None, CPython's text runs, and fails.
        """
        if "no" not in a.alts:
            return a
        rest = {t: x for t, x in a.alts.items() if t != "no"}
        if not rest and self.dry:
            raise Unreached
        self.bail(f"{a.tag} == {CODES['no']}" if rest else "True", ast.Pass())
        return replace(a, alts=rest or {"wi": Known("0")}, tag=a.tag if len(rest) > 1 else "")

    def dispatch(
        self, values: Sequence[Num], make: Make, none: bool = False
    ) -> tuple[dict[str, str], str]:
        """Return (slots, tag) of `make(types, texts)` for every combination of types.

        The code that chooses is emitted. If all results have the same text, there is no choice.
        With `none`, a value may be None.
        """
        values = values if none else [self.not_none(v) for v in values]
        count = self.count
        at = len(self.operations)
        outcomes = list[Any]()
        for chosen in (
            product(*(v.alts.items() for v in values))
            if any(len(v.alts) > 1 for v in values)
            else ()
        ):
            self.count = count
            result = make([t for t, _ in chosen], [x for _, x in chosen])
            outcome = result, self.operations[at:]
            if outcome not in outcomes:
                outcomes.append(outcome)
            del self.operations[at:]
        self.count = count
        if len(outcomes) < 2:
            t, text = make([v.only[0] for v in values], [v.only[1] for v in values])
            return {t: self.named(text)}, ""
        name = self.new("u")
        slots = {t: f"{name}_{SLOT[t]}" for (t, _), _ in outcomes}
        tag = f"{name}_tag" if len(slots) > 1 else ""
        if tag:
            for slot, t in {s: t for t, s in slots.items()}.items():
                self.emit(f"{slot} = {ZERO[SLOT[t]]}")
            self.emit(f"{tag} = 0")
        self._choose(values, [], slots, tag=tag, make=make)
        return slots, tag

    def _choose(
        self,
        values: Sequence[Num],
        done: list[tuple[str, str]],
        slots: dict[str, str],
        tag: str,
        make: Make,
    ) -> None:
        """Write an `if` over the tag of the next value that has one."""
        if len(done) == len(values):
            t, text = make([t for t, _ in done], [x for _, x in done])
            self.emit(f"{slots[t]} = {text}")
            if tag:
                self.emit(f"{tag} = {CODES[t]}")
            return
        value = values[len(done)]
        if len(value.alts) == 1:
            self._choose(values, [*done, value.only], slots, tag=tag, make=make)
            return
        for k, (t, text) in enumerate(value.alts.items()):
            line = f"{'el' if k else ''}if {value.tag} == {CODES[t]}:"
            if k == len(value.alts) - 1:
                line = "else:"
            with self.under(line):
                self._choose(values, [*done, (t, text)], slots, tag=tag, make=make)
