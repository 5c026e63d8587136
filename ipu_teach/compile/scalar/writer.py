"""Collect the operations of a walk, and the costs of its straight-line pieces.

Prices depend on the target, and so belong to the layer above. The walk records what is to be priced
in `pieces` and `rates`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, NoReturn

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.kinds import CODES, SLOT, ZERO, dtype_of, gives, held_dtype
from ipu_teach.compile.scalar.operations import Block, Count, CountRegion, Line, Operation
from ipu_teach.compile.scalar.values import (
    Constant,
    ConstantTable,
    Known,
    Num,
    Refused,
    Scope,
    State,
    Unreached,
    Value,
    Vec,
)
from ipu_teach.graph.vertex import Vertex

Spot = tuple[str, int]  # (file, line) of a statement in the learner's code
# (numpy's name of an operation, its type in numpy's letters, its statement). An empty name is an
# instruction of one cycle.
Price = tuple[str, str, Spot]
PricedPiece = tuple[tuple[Price, int], ...]
# A Price of an operation on complete regions. An empty name takes one cycle per data path.
PieceRate = tuple[str, str, Spot]
WORD = "word"  # a type of price, for an instruction of a store of less than a word
# Names of prices that are not numpy operations; the layer above knows the instructions.
FUSED = "a sum of a product"  # a sum that may be fused with its product
LOOP = "a loop"  # the start of a loop over vectors
AGAIN = "again"  # a region that is loaded again in the same loop
OF_PRODUCT = "of a product"  # an operand of a @ b
PRODUCT = "product"  # a @ b itself
BEYOND = "beyond"  # the part of a local array that does not fit in registers
COLUMN = "a column"  # a column of the right side of np.linalg.solve, or of the identity for inv
TALL = "a row more"  # a row in excess of a square matrix
WIDE = "a column more"  # a column in excess of a square matrix

MOST_SHOWN = 40  # maximum number of characters of a statement in a report

Make = Callable[[list[str], list[str]], tuple[str, str]]


class Writer:
    """The state of a walk: the operations so far, and the knowledge at the current place.

    `live` is True if this place can be reached. `control` is the number of enclosing branches that
    depend on data. `dry` is True if a later iteration of a loop may still assign a name. `missed`
    is the number of branches that were not walked because a name was not assigned yet.
    """

    # Methods of the subclasses: expressions, numbers, branches, statements, reductions.
    value: Callable[[ast.expr], Any]
    num: Callable[[ast.expr], Num]
    nums: Callable[[list[ast.expr]], list[Num]]
    single: Callable[[Value, ast.expr], Num]
    operands: Callable[[list[ast.expr], Callable[[ast.expr], Any]], list[Any]]
    fork: Callable[[ast.expr, Callable[[], None], Callable[[], None]], None]
    branch: Callable[[Num, Callable[[], None], Callable[[], None]], None]
    block: Callable[[list[ast.stmt]], None]
    reduction_loop: Callable[[Function, ast.Call, dict[str, ast.expr]], Num]

    def __init__(self, codelet: type[Vertex], lists: frozenset[str]) -> None:
        self.codelet = codelet
        self.lists = lists
        self.multi = codelet.context == "multi"
        self.tagged: set[str] = set()  # the tags of variables that have several types at some place
        self.slots: dict[str, str] = {}
        self.loops: list[tuple[Function, str]] = []  # numpy's own loops, called by address
        self.tables: dict[str, ConstantTable] = {}
        self.boxes: dict[str, set[str]] = {}  # the types of numbers, by list or table
        # attributes of the vertex that a function of its class assigns
        self.assigned: set[str] = set()
        # generated variables that do not count as data, such as the flag of a loop's first
        # iteration
        self.known: set[str] = set()
        self.summed: set[str] = set()  # calls of sum() that CPython's text leaves to Python
        self.answers = False  # whether the return value of compute() matters
        # whether it may run forever, and therefore checks regularly whether to stop
        self.endless = False
        self.pieces: dict[PricedPiece, int] = {}
        self.rates: dict[PieceRate, int] = {}
        self.lines: dict[Spot, int] = {}
        # the number of each loop, by (place, prefix of its variables, name)
        self.heads: dict[tuple[Spot, str, str], int] = {}
        self.vectors = False  # whether there is work on complete regions
        # the line and the text of code that only CPython's text can run, or ""
        self.uncompiled = ""
        # (state before, state at its head) of each loop, by loop and whether it depends on data
        self.settled: dict[tuple[ast.AST, bool], list[tuple[State, State]]] = {}
        self.trees: dict[Hashable, ast.FunctionDef] = {}
        self.lambdas: dict[ast.Lambda, ast.FunctionDef] = {}
        # the values used from outside the source, by owner and name
        self.outer_values: dict[tuple[object, str], object] = {}
        # (first number, end) of each loop that counts up by one, by its counter
        self.ranges: dict[str, tuple[str, str]] = {}
        # the checks that are done before a loop, by its counter
        self.ahead: dict[str, set[str]] = {}
        self.reset()

    def reset(self) -> None:
        """Start a new walk, keeping the knowledge about variables."""
        # the open blocks, from compute() to the innermost
        self.open = [Block("compute():", "compute():")]
        self.is_compiled_only = False  # whether to emit only to the compiled text
        self.count = self.control = self.line = self.missed = 0
        self.dry = False
        self.cost: Counter[Price] = Counter()
        self.loops_over = 0  # the number of loops over vectors that have ended
        self.loaded: set[str] = set()  # regions that the current loop over vectors has loaded
        # by temporary array: the value of `loops_over` when it was computed
        self.temporaries: dict[str, int] = {}
        # the first use of a temporary array in a later loop, by array
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
        """Add a line to the compiled text (`nb`), to CPython's text (`py`), or to both."""
        py = None if self.is_compiled_only else py
        if nb is not None or py is not None:
            self.operations.append(Line(nb, py))

    @contextmanager
    def under(
        self, nb: str | None = None, py: str | None = None, counter: str = ""
    ) -> Iterator[None]:
        """Return a context that puts operations under a line of one of the texts, or of both."""
        self.begin(Block(nb, py, counter=counter))
        yield
        self.open.pop()

    def begin(self, block: Block) -> None:
        """Open a block, which receives the following operations."""
        self.operations.append(block)
        self.open.append(block)

    @contextmanager
    def compiled_alone(self, alone: bool = True) -> Iterator[None]:
        """Return a context in which, if `alone`, lines are emitted only to the compiled text.

        CPython's text then does the same in another way. Otherwise lines go to both texts.
        """
        before, self.is_compiled_only = self.is_compiled_only, alone
        try:
            yield
        finally:
            self.is_compiled_only = before

    def both(self, line: str) -> None:
        """Add the same line to both texts."""
        self.emit(line, line)

    def notify_watch(self, call: str) -> None:
        """Add a call that reports to `watch`, for a watched run of CPython's text."""
        self.operations.append(Line(None, None, f"watch.{call}"))

    def new(self, prefix: str = "t") -> str:
        """Return a new name that begins with `prefix`."""
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
        """Count an execution of a statement, if it is in the learner's source."""
        if "generated" not in vars(node):
            number = self.lines.setdefault(self.spot, len(self.lines))
            self.notify_watch(f"lines[{number}] += 1")

    def empty(self, name: str, count: str, t: str) -> None:
        """Add a local array of `count` elements to the compiled text."""
        self.emit(f"{name} = np.empty({count}, {held_dtype(t)})")

    def refuse(self, node: ast.AST, why: str, instead: str = "") -> NoReturn:
        """Raise `Refused` for a construct that is not translated."""
        raise Refused(why, getattr(node, "lineno", 0) or self.line, instead)

    def refuse_if(self, condition: object, node: ast.AST, why: str, instead: str = "") -> None:
        if condition:
            self.refuse(node, why, instead)

    def type_of(self, f: Function, operands: Sequence[str | Constant], node: ast.AST) -> str:
        """Return the type of `f` of some operands; see `gives`."""
        try:
            return gives(f, *operands)
        except Exception as error:
            self.refuse(node, str(error))

    def bail(self, condition: str, node: ast.AST) -> None:
        """Leave the compiled text here if `condition` is true.

        The vertex then runs in another way.
        """
        self.emit(f"if {condition}: return {getattr(node, 'lineno', 0) or self.line or 1}")

    def require_python(self, node: ast.AST) -> None:
        """Record that only CPython's text can run a construct with the same bits."""
        if not self.uncompiled:
            text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
            if len(text) > MOST_SHOWN:
                text = text[: MOST_SHOWN - 1] + "…"
            self.uncompiled = f"line {getattr(node, 'lineno', 0) or self.line}, {text}"

    def is_reached(self, way: Callable[[], None]) -> bool:
        """Call `way`, and return False if it reads a name that only an earlier iteration assigns.

        The state of the walk is then restored.
        """
        scope = self.scope
        control = self.control
        dry = self.dry
        num_open = len(self.open)
        num_scopes = len(self.scopes)
        num_loops = len(scope.loops)
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
        """Count an operation at this place.

        Without `data`, the compiler does it, and it is free.
        """
        if data:
            self.cost[name, kind, self.spot] += times

    def flush(self) -> None:
        """Write the operation that counts all costs at this place that are not yet counted."""
        self.operations.extend(self._counted(self.cost))
        self.cost = Counter()

    def _counted(self, cost: Counter[Price]) -> list[Operation]:
        """Return the operation that counts a cost, or [] if there is no cost."""
        piece = tuple(sorted(cost.items()))
        return [Count(self.pieces.setdefault(piece, len(self.pieces)))] if piece else []

    def join_costs(self, other: Counter[Price]) -> list[Operation]:
        """Join two branches: this one, and another with the uncounted cost `other`.

        The cost that both have in common is left to be counted after them. The rest of this
        branch's cost is written, and the rest of the other branch's is returned.
        """
        common = self.cost & other
        self.operations.extend(self._counted(self.cost - common))
        self.cost = common
        return self._counted(other - common)

    def spend_on_all(
        self, counter: str, vec: Vec, name: str, kind: str, times: tuple[str, str] = ("", "")
    ) -> None:
        """Count work on a complete region. `times` is a factor of its length, in the two texts."""
        self.vectors = True
        number = self.rates.setdefault((name, dtype_of(kind).name, self.spot), len(self.rates))
        self.operations.append(CountRegion(counter, number, (vec.n, vec.size), times))

    # Numbers of several types

    def not_none(self, number: Num) -> Num:
        """Return a number without the type None.

        If the number is None, CPython's text runs, and fails.
        """
        if "no" not in number.alts:
            return number
        other_types = {
            type_code: number_text
            for type_code, number_text in number.alts.items()
            if type_code != "no"
        }
        if not other_types and self.dry:
            raise Unreached
        self.bail(f"{number.tag} == {CODES['no']}" if other_types else "True", ast.Pass())
        return replace(
            number,
            alts=other_types or {"wi": Known("0")},
            tag=number.tag if len(other_types) > 1 else "",
        )

    def dispatch(
        self, values: Sequence[Num], make: Make, none: bool = False
    ) -> tuple[dict[str, str], str]:
        """Return (slots, tag) of `make(types, texts)` for every combination of types.

        The code that selects the combination is emitted. If all results have the same text, there
        is no selection. With `none`, a value may be None.
        """
        values = values if none else [self.not_none(value) for value in values]
        name_count = self.count
        num_operations = len(self.operations)
        outcomes = list[tuple[tuple[str, str], list[Operation]]]()
        for combination in (
            product(*(value.alts.items() for value in values))
            if any(len(value.alts) > 1 for value in values)
            else ()
        ):
            self.count = name_count
            result = make(
                [type_code for type_code, _ in combination],
                [number_text for _, number_text in combination],
            )
            outcome = result, self.operations[num_operations:]
            if outcome not in outcomes:
                outcomes.append(outcome)
            del self.operations[num_operations:]
        self.count = name_count
        if len(outcomes) < 2:
            type_code, text = make(
                [value.only[0] for value in values], [value.only[1] for value in values]
            )
            return {type_code: self.named(text)}, ""
        name = self.new("u")
        slots = {type_code: f"{name}_{SLOT[type_code]}" for (type_code, _), _ in outcomes}
        tag = f"{name}_tag" if len(slots) > 1 else ""
        if tag:
            for slot, type_code in {
                slot_name: type_code for type_code, slot_name in slots.items()
            }.items():
                self.emit(f"{slot} = {ZERO[SLOT[type_code]]}")
            self.emit(f"{tag} = 0")
        self._choose(values, [], slots, tag=tag, make=make)
        return slots, tag

    def _choose(
        self,
        values: Sequence[Num],
        chosen: list[tuple[str, str]],
        slots: dict[str, str],
        tag: str,
        make: Make,
    ) -> None:
        """Write an `if` over the tag of the next value that has a tag.

        `chosen` contains the (type, text) of the values before it.
        """
        if len(chosen) == len(values):
            type_code, text = make(
                [type_code for type_code, _ in chosen], [number_text for _, number_text in chosen]
            )
            self.emit(f"{slots[type_code]} = {text}")
            if tag:
                self.emit(f"{tag} = {CODES[type_code]}")
            return
        value = values[len(chosen)]
        if len(value.alts) == 1:
            self._choose(values, [*chosen, value.only], slots, tag=tag, make=make)
            return
        for position, (type_code, text) in enumerate(value.alts.items()):
            condition = f"{'el' if position else ''}if {value.tag} == {CODES[type_code]}:"
            if position == len(value.alts) - 1:
                condition = "else:"
            with self.under(condition):
                self._choose(values, [*chosen, (type_code, text)], slots, tag=tag, make=make)
