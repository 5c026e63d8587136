"""Collect the operations of a translation, and the costs that must be counted in it.

The cost of an operation depends on the target, which the translation does not know. So it only
lists the operations to be priced, in `pieces` and `rates`. The cost model computes their prices
later.
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

Spot = tuple[str, int]  # The (file, line) of a statement in the learner's code.
# An operation to price: (numpy's name of the operation, numpy's name of the dtype, its statement).
# An empty name stands for an instruction of one cycle.
Price = tuple[str, str, Spot]
PricedPiece = tuple[tuple[Price, int], ...]
# An operation on whole fields or arrays to price, with the members of `Price`. If the name is
# empty, the operation processes one vector of the data path per cycle.
PieceRate = tuple[str, str, Spot]
# In the price of a store of less than a word, this string takes the place of the dtype.
WORD = "word"
# The following names in prices are not operations of numpy. The cost model knows their
# instructions.
FUSED = "a sum of a product"  # The price of a sum that may be fused with its product.
LOOP = "a loop"  # The price of the start of a loop over vectors.
AGAIN = "again"  # The price of a region that is loaded again in the same loop.
OF_PRODUCT = "of a product"  # The price of an operand of a @ b.
PRODUCT = "product"  # The price of a @ b itself.
BEYOND = "beyond"  # The price of the part of a local array that does not fit in registers.
# The price of a column of the right side of np.linalg.solve, or of the identity for inv.
COLUMN = "a column"
TALL = "a row more"  # The price of each row of a tall matrix beyond the number of its columns.
WIDE = "a column more"  # The price of each column of a wide matrix beyond the number of its rows.

MOST_SHOWN = 40  # The maximum length of a statement in a report, in characters.

Make = Callable[[list[str], list[str]], tuple[str, str]]


class Writer:
    """The state of a translation: the operations so far and the variables' current values.

    `state` maps each variable to its value: its expressions, possible types and bounds. `live` is
    True if the current statement can be reached. `control` is the number of enclosing branches that
    depend on data. `dry` is True if a later iteration of a loop may still assign a name. `missed`
    is the number of branches that were not translated because a name was not assigned yet.
    """

    # These methods are defined in the subclasses for expressions, numbers, branches, statements and
    # reductions.
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
        # The tags of all variables that may have several types.
        self.tagged: set[str] = set()
        self.slots: dict[str, str] = {}
        # numpy's own loops that the numba code calls by address.
        self.loops: list[tuple[Function, str]] = []
        self.tables: dict[str, ConstantTable] = {}
        # For each list or table: the types that its numbers may have.
        self.boxes: dict[str, set[str]] = {}
        # The attributes of the vertex that a function of its class assigns.
        self.assigned: set[str] = set()
        # The generated variables that do not depend on data, such as a flag that is True in the
        # first iteration of a loop.
        self.known: set[str] = set()
        # The positions in the source at which the Python code calls sum().
        self.summed: set[str] = set()
        # Whether compute() can return a false value.
        self.answers = False
        # Whether the vertex may run forever. If so, it checks regularly whether to stop.
        self.endless = False
        self.pieces: dict[PricedPiece, int] = {}
        self.rates: dict[PieceRate, int] = {}
        self.lines: dict[Spot, int] = {}
        # Maps each loop to its index. The key is (position in the source, prefix of the scope's
        # variables, the loop's flag).
        self.heads: dict[tuple[Spot, str, str], int] = {}
        # Whether the code computes whole fields or arrays at once.
        self.vectors = False
        # The line and the text of source code that only the Python code can run, or "".
        self.uncompiled = ""
        # Maps (loop, whether it is in a branch that depends on data) to pairs (state before the
        # loop, state at the start of every iteration). If the loop is translated again, the
        # translation begins with these states.
        self.settled: dict[tuple[ast.AST, bool], list[tuple[State, State]]] = {}
        self.trees: dict[Hashable, ast.FunctionDef] = {}
        self.lambdas: dict[ast.Lambda, ast.FunctionDef] = {}
        # The values from outside the function that the code uses, keyed by (owner, name).
        self.outer_values: dict[tuple[object, str], object] = {}
        # Maps the counter of each loop that counts up by one to (first number, end).
        self.ranges: dict[str, tuple[str, str]] = {}
        # Maps the counter of each loop to the index checks that are done once, before the loop.
        self.ahead: dict[str, set[str]] = {}
        self.reset()

    def reset(self) -> None:
        """Start the translation again, but keep the types of lists and the states of loops."""
        # The open blocks, from compute() to the innermost.
        self.open = [Block("compute():", "compute():")]
        # Whether lines are emitted only to the numba code.
        self.is_compiled_only = False
        self.count = self.control = self.line = self.missed = 0
        self.dry = False
        self.cost: Counter[Price] = Counter()
        # The number of loops over vectors that have ended.
        self.loops_over = 0
        # The regions that the current loop over vectors has loaded.
        self.loaded: set[str] = set()
        # Maps each temporary array to the value of `loops_over` when the array was computed.
        self.temporaries: dict[str, int] = {}
        # Maps each temporary array to its first use in a later loop.
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
        """Add a line to the numba code (`nb`), to the Python code (`py`), or to both."""
        py = None if self.is_compiled_only else py
        if nb is not None or py is not None:
            self.operations.append(Line(nb, py))

    @contextmanager
    def under(
        self, nb: str | None = None, py: str | None = None, counter: str = ""
    ) -> Iterator[None]:
        """Return a context in which new operations become the body of a line such as "if x:".

        The line is written to the numba code (`nb`), to the Python code (`py`), or to both. If it
        is a `for` in the numba code, `counter` is its variable.
        """
        self.begin(Block(nb, py, counter=counter))
        yield
        self.open.pop()

    def begin(self, block: Block) -> None:
        """Open a block, which receives the following operations."""
        self.operations.append(block)
        self.open.append(block)

    @contextmanager
    def compiled_alone(self, alone: bool = True) -> Iterator[None]:
        """Return a context in which lines are emitted only to the numba code, if `alone` is True.

        The caller then writes different Python code with the same effect. If `alone` is False,
        lines are emitted to both.
        """
        before, self.is_compiled_only = self.is_compiled_only, alone
        try:
            yield
        finally:
            self.is_compiled_only = before

    def both(self, line: str) -> None:
        """Add the same line to the Python code and to the numba code."""
        self.emit(line, line)

    def notify_watch(self, call: str) -> None:
        """Add a call of a method of `watch`, which is executed only in a watched run."""
        self.operations.append(Line(None, None, f"watch.{call}"))

    def new(self, prefix: str = "t") -> str:
        """Return a new name that begins with `prefix`."""
        self.count += 1
        return f"{prefix}{self.count}"

    def named(self, text: str) -> str:
        """Assign a numba expression to a new variable of the numba code, and return its name."""
        name = self.new()
        self.emit(f"{name} = {text}")
        return name

    @property
    def spot(self) -> Spot:
        """The file and line of the statement that is being translated."""
        return self.scope.file, self.line

    def count_statement(self, node: ast.AST) -> None:
        """Write code that counts an execution of a statement, if it is in the learner's source."""
        if "generated" not in vars(node):
            number = self.lines.setdefault(self.spot, len(self.lines))
            self.notify_watch(f"lines[{number}] += 1")

    def empty(self, name: str, count: str, type_code: str) -> None:
        """Add a local array of `count` elements, which have no values yet, to the numba code."""
        self.emit(f"{name} = np.empty({count}, {held_dtype(type_code)})")

    def refuse(self, node: ast.AST, why: str, instead: str = "") -> NoReturn:
        """Raise `Refused` for a construct that is not translated."""
        raise Refused(why, getattr(node, "lineno", 0) or self.line, instead)

    def refuse_if(self, condition: object, node: ast.AST, why: str, instead: str = "") -> None:
        if condition:
            self.refuse(node, why, instead)

    def type_of(self, function: Function, operands: Sequence[str | Constant], node: ast.AST) -> str:
        """Return the type of the result of `function`, for operands of these types or values.

        :raises Refused: if the function raises an error for these operands.
        """
        try:
            return gives(function, *operands)
        except Exception as error:
            self.refuse(node, str(error))

    def bail(self, condition: str, node: ast.AST) -> None:
        """Write numba code that returns the current line if `condition` is true.

        This stops the numba code of the vertex, and the Python code runs the vertex again.
        """
        self.emit(f"if {condition}: return {getattr(node, 'lineno', 0) or self.line or 1}")

    def require_python(self, node: ast.AST) -> None:
        """Record that only the Python code may run, because the numba code would give other bits.

        `node` is the construct whose result would have other bits in the numba code.
        """
        if not self.uncompiled:
            text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
            if len(text) > MOST_SHOWN:
                text = text[: MOST_SHOWN - 1] + "…"
            self.uncompiled = f"line {getattr(node, 'lineno', 0) or self.line}, {text}"

    def is_reached(self, way: Callable[[], None]) -> bool:
        """Call `way`, which translates a branch, and return whether it reached the branch's end.

        If the branch reads a name that is assigned only later in an enclosing loop, its translation
        is abandoned, and the result is False.
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

    # Methods that count costs

    def spend(self, name: str = "", kind: str = "", times: int = 1, data: bool = True) -> None:
        """Count that the current statement executes an operation `times` times.

        `name` is numpy's name of the operation, and `kind` is numpy's name of its dtype. If `data`
        is False, nothing is counted, because a compiler would compute the result.
        """
        if data:
            self.cost[name, kind, self.spot] += times

    def flush(self) -> None:
        """Write one operation that counts all costs since the last call of `flush`."""
        self.operations.extend(self._counted(self.cost))
        self.cost = Counter()

    def _counted(self, cost: Counter[Price]) -> list[Operation]:
        """Return the operation that counts a cost, or [] if there is no cost."""
        piece = tuple(sorted(cost.items()))
        return [Count(self.pieces.setdefault(piece, len(self.pieces)))] if piece else []

    def join_costs(self, other: Counter[Price]) -> list[Operation]:
        """Write the part of the current branch's cost that the other branch does not have.

        `other` is the cost of the other branch of the `if`. The cost that both branches have in
        common is counted once after the `if`. Return the operations that count the remaining part
        of `other`.
        """
        common = self.cost & other
        self.operations.extend(self._counted(self.cost - common))
        self.cost = common
        return self._counted(other - common)

    def spend_on_all(
        self, counter: str, vec: Vec, name: str, kind: str, times: tuple[str, str] = ("", "")
    ) -> None:
        """Count an operation on all elements of a field or array, and add its cycles to `counter`.

        `counter` is a variable of the generated code. `name` and `kind` are numpy's names of the
        operation and of its dtype. `times` is a factor of the cycles, as (numba code, Python code).
        Each of both is "" or an expression that ends with " * ".
        """
        self.vectors = True
        number = self.rates.setdefault((name, dtype_of(kind).name, self.spot), len(self.rates))
        self.operations.append(CountRegion(counter, number, (vec.n, vec.size), times))

    # Methods for numbers of several types

    def not_none(self, number: Num) -> Num:
        """Return a number without the type None among its possible types.

        If the number is None at run time, the numba code stops, and the Python code raises the
        error.
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
        """Write the numba code of an operation for each combination of its operands' types.

        `make(types, texts)` gets the type and the numba expression of each operand, and returns the
        type and the numba expression of the result. The numba code selects the combination by the
        operands' tags. A tag is a variable that contains the code of a number's type. Return (numba
        variables of the result, keyed by its type; the tag of the result or ""). If `none` is True,
        an operand may be None.
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
        """Write nested `if` statements over the operands' possible types.

        `make` writes the code inside the innermost `if` statements. `chosen` contains the (type,
        numba expression) of the operands whose types are already selected.
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
