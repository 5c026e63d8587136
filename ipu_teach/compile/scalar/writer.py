"""The operations of a walk as they come, and what their straight pieces cost.

Prices belong to the target, and so to the room above: the walk writes down what it would price, in
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

from ipu_teach.compile.scalar.kinds import CODES, SLOT, ZERO, dtype_of, gives, held_dtype
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

Spot = tuple[str, int]  # file and line of a statement of the learner's
# (numpy's name of an operation, its type by numpy's letters, where it stands). No name: an
# instruction of one cycle.
Price = tuple[str, str, Spot]
PricedPiece = tuple[tuple[Price, int], ...]
PieceRate = tuple[str, str, Spot]  # an operation on whole regions; no name: one data path a cycle
WORD = "word"  # in place of its type: an instruction of a store of less than a word
# What is none of numpy's operations, and priced by who wrote the instructions:
FUSED = "a sum of a product"  # which may be one with the product
LOOP = "a loop"  # the start of one over vectors
AGAIN = "again"  # what is loaded once more in one loop,
OF_PRODUCT = "of a product"  # or beside a product
PRODUCT = "product"  # of a @ b
BEYOND = "beyond"  # what of an array that lasts the registers cannot hold
COLUMN = "a column"  # of what np.linalg solves for
TALL = "a row more"  # than a square has
WIDE = "a column more"

MOST_SHOWN = 40  # characters of a statement that a report names

Make = Callable[[list[str], list[str]], tuple[str, str]]


class Writer:
    """The state of a walk: the operations so far, what is known here, and where it stands.

    `live`: the text is reached from above. `control`: how many branches around this place data
    decide. `dry`: a name may be assigned by a later turn of a loop; `missed`: ways that were not
    gone for want of one.
    """

    # What the classes further up add: expressions, those that are numbers, branches, statements,
    # sums of many.
    value: Callable[[ast.expr], Any]
    num: Callable[[ast.expr], Num]
    nums: Callable[[list[ast.expr]], list[Num]]
    single: Callable[[Any, ast.expr], Num]
    operands: Callable[[list[ast.expr], Callable[[ast.expr], Any]], list[Any]]
    fork: Callable[[ast.expr, Callable[[], None], Callable[[], None]], None]
    branch: Callable[[Num, Callable[[], None], Callable[[], None]], None]
    block: Callable[[list[ast.stmt]], None]
    over_all: Callable[[Any, ast.Call, dict[str, ast.expr]], Num]

    def __init__(self, codelet: type[Vertex], lists: frozenset[str]) -> None:
        self.codelet, self.lists = codelet, lists
        self.multi = codelet.context == "multi"
        self.tagged: set[str] = set()  # tags of variables that hold several types somewhere
        self.slots: dict[str, str] = {}
        self.loops: list[tuple[Any, str]] = []  # numpy's own loops that are called by address
        self.tables: dict[str, ConstantTable] = {}
        self.boxes: dict[str, set[str]] = {}  # of lists and tables, which types their numbers have
        self.assigned: set[str] = set()  # what of the vertex some function of its class assigns
        # variables of the walk's own that are no data: whether a loop turns for the first time
        self.known: set[str] = set()
        self.summed: set[str] = set()  # calls of sum() that CPython's text makes at once
        self.answers = False  # compute() returns whether it is done
        self.endless = False  # it may take for ever, and so asks now and then if it is to end
        self.pieces: dict[PricedPiece, int] = {}
        self.rates: dict[PieceRate, int] = {}
        self.lines: dict[Spot, int] = {}
        # of loops: where, their variables' prefix, a name
        self.heads: dict[tuple[Spot, str, str], int] = {}
        self.vectors = False  # some work is on whole regions
        self.uncompiled = ""  # what CPython's text alone can do, with its line
        # of loops: what is known at their heads
        self.settled: dict[tuple[ast.AST, bool], list[tuple[State, State]]] = {}
        self.trees: dict[Any, ast.FunctionDef] = {}
        self.lambdas: dict[ast.Lambda, ast.FunctionDef] = {}
        # by who has it and its name: what was found outside the text
        self.seen: dict[tuple[Any, str], Any] = {}
        # of loops that count up by one: by the counter where they begin and end
        self.ranges: dict[str, tuple[str, str]] = {}
        self.ahead: dict[
            str, set[str]
        ] = {}  # by the counter of a loop: what is checked ahead of it
        self.reset()

    def reset(self) -> None:
        """Begin anew; what was learned of variables stays."""
        # the blocks that are open, from the whole to the one that grows
        self.open = [Block("compute():", "compute():")]
        self.alone = False  # what is emitted is for the compiled text alone
        self.count = self.control = self.line = self.missed = 0
        self.dry = False
        self.cost: Counter[Price] = Counter()
        self.loops_over = 0  # over vectors, those that end above this place
        self.loaded: set[str] = set()  # regions that the loop over vectors at hand has loaded
        # by temporary array: how many such loops were over when it was worked out
        self.temporaries: dict[str, int] = {}
        # by temporary array: where it is first taken by a later loop
        self.spilled: dict[str, ast.AST] = {}
        self.state: State = {}
        self.scopes: list[Scope] = []
        self.live = True

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @property
    def operations(self) -> list[Operation]:
        """Those of the block that grows."""
        return self.open[-1].body

    def emit(self, nb: str | None = None, py: str | None = None) -> None:
        """Add a line to the compiled text, to CPython's, or to both."""
        py = None if self.alone else py
        if nb is not None or py is not None:
            self.operations.append(Line(nb, py))

    @contextmanager
    def under(
        self, nb: str | None = None, py: str | None = None, counter: str = ""
    ) -> Iterator[None]:
        """What stands under a line of the compiled text, of CPython's, or of both."""
        self.begin(Block(nb, py, counter=counter))
        yield
        self.open.pop()

    def begin(self, block: Block) -> None:
        """What comes now stands under a line."""
        self.operations.append(block)
        self.open.append(block)

    @contextmanager
    def compiled_alone(self, alone: bool = True) -> Iterator[None]:
        """Lines of which CPython's text has none: it does the same otherwise."""
        before, self.alone = self.alone, alone
        try:
            yield
        finally:
            self.alone = before

    def both(self, line: str) -> None:
        self.emit(line, line)

    def tell(self, what: str) -> None:
        """Something that CPython's text tells who watches."""
        self.operations.append(Line(None, None, f"watch.{what}"))

    def new(self, what: str = "t") -> str:
        self.count += 1
        return f"{what}{self.count}"

    def named(self, text: str) -> str:
        """A name in the compiled text for what `text` gives there."""
        name = self.new()
        self.emit(f"{name} = {text}")
        return name

    @property
    def spot(self) -> Spot:
        """The statement that is being walked."""
        return self.scope.file, self.line

    def ran(self, node: ast.AST) -> None:
        """The statement runs here, if it is one of the learner's."""
        if "made" not in vars(node):
            number = self.lines.setdefault(self.spot, len(self.lines))
            self.tell(f"lines[{number}] += 1")

    def empty(self, name: str, count: str, t: str) -> None:
        """A local array of the compiled text."""
        self.emit(f"{name} = np.empty({count}, {held_dtype(t)})")

    def refuse(self, node: ast.AST, why: str, instead: str = "") -> NoReturn:
        raise Refused(why, getattr(node, "lineno", 0) or self.line, instead)

    def refuse_if(self, condition: Any, node: ast.AST, why: str, instead: str = "") -> None:
        if condition:
            self.refuse(node, why, instead)

    def type_of(self, f: Any, operands: Sequence[Any], node: ast.AST) -> str:
        """The type of `f` of some operands: see `gives`."""
        try:
            return gives(f, *operands)
        except Exception as error:
            self.refuse(node, str(error))

    def bail(self, condition: str, node: ast.AST) -> None:
        """The compiled text leaves here: what comes now is for the plain loop to do, or to complain
        of."""
        self.emit(f"if {condition}: return {getattr(node, 'lineno', 0) or self.line or 1}")

    def by_python(self, node: ast.AST) -> None:
        """Something that the compiled text cannot do with the same bits: CPython's runs alone."""
        if not self.uncompiled:
            text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
            if len(text) > MOST_SHOWN:
                text = text[: MOST_SHOWN - 1] + "…"
            self.uncompiled = f"line {getattr(node, 'lineno', 0) or self.line}, {text}"

    def reached(self, way: Callable[[], None]) -> bool:
        """Walk something. False if it reads what only an earlier turn of a loop assigns."""
        scope, at = (
            self.scope,
            (self.control, self.dry, len(self.open), len(self.scopes), len(self.scope.loops)),
        )
        try:
            way()
        except Unreached:
            self.missed += 1
            self.control, self.dry = at[:2]
            del self.open[at[2] :], self.scopes[at[3] :], scope.loops[at[4] :]
            return False
        return True

    # What it costs

    def spend(self, name: str = "", kind: str = "", times: int = 1, data: bool = True) -> None:
        """An operation at this place. What is no `data` is the compiler's work, and free."""
        if data:
            self.cost[name, kind, self.spot] += times

    def flush(self) -> None:
        """Write down what was spent on the way here and not yet counted."""
        self.operations.extend(self._counted(self.cost))
        self.cost = Counter()

    def _counted(self, cost: Counter[Price]) -> list[Operation]:
        piece = tuple(sorted(cost.items()))
        return [Count(self.pieces.setdefault(piece, len(self.pieces)))] if piece else []

    def meet(self, other: Counter[Price]) -> list[Operation]:
        """Two ways meet, one of which ends here and the other has `other` to count. What both spent
        is left for later.

        Writes down the rest of this one; returns that of the other.
        """
        common = self.cost & other
        self.operations.extend(self._counted(self.cost - common))
        self.cost = common
        return self._counted(other - common)

    def spend_on_all(
        self, counter: str, vec: Vec, name: str, kind: str, times: tuple[str, str] = ("", "")
    ) -> None:
        """Work on a whole region, `times` (a factor in the two texts) its length."""
        self.vectors = True
        number = self.rates.setdefault((name, dtype_of(kind).name, self.spot), len(self.rates))
        self.operations.append(CountRegion(counter, number, (vec.n, vec.size), times))

    # Numbers of several types

    def present(self, a: Num) -> Num:
        """A number that may have been None, where it must be none: else CPython's text goes wrong
        by itself."""
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
        """(slots, tag) of what `make(types, texts)` gives for every combination of types, None only
        where it may be one.

        It emits as it goes. Where all come to the same text there is nothing to choose, and that
        stands alone.
        """
        values = values if none else [self.present(v) for v in values]
        count, at = self.count, len(self.operations)
        outcomes = list[Any]()
        for chosen in (
            product(*(v.alts.items() for v in values))
            if any(len(v.alts) > 1 for v in values)
            else ()
        ):
            self.count = count
            made = make([t for t, _ in chosen], [x for _, x in chosen])
            outcome = made, self.operations[at:]
            if outcome not in outcomes:
                outcomes.append(outcome)
            del self.operations[at:]
        self.count = count
        if len(outcomes) < 2:
            t, text = make([v.only[0] for v in values], [v.only[1] for v in values])
            return {t: self.named(text)}, ""
        name = self.new("u")
        found = {t: f"{name}_{SLOT[t]}" for (t, _), _ in outcomes}
        tag = f"{name}_tag" if len(found) > 1 else ""
        if tag:
            for slot, t in {s: t for t, s in found.items()}.items():
                self.emit(f"{slot} = {ZERO[SLOT[t]]}")
            self.emit(f"{tag} = 0")
        self._choose(values, [], found, tag, make)
        return found, tag

    def _choose(
        self,
        values: Sequence[Num],
        done: list[tuple[str, str]],
        found: dict[str, str],
        tag: str,
        make: Make,
    ) -> None:
        """An `if` over the tag of the next value that has one."""
        if len(done) == len(values):
            t, text = make([t for t, _ in done], [x for _, x in done])
            self.emit(f"{found[t]} = {text}")
            if tag:
                self.emit(f"{tag} = {CODES[t]}")
            return
        value = values[len(done)]
        if len(value.alts) == 1:
            self._choose(values, [*done, value.only], found, tag, make)
            return
        for k, (t, text) in enumerate(value.alts.items()):
            last = k == len(value.alts) - 1
            with self.under(
                "else:" if last else f"{'el' if k else ''}if {value.tag} == {CODES[t]}:"
            ):
                self._choose(values, [*done, (t, text)], found, tag, make)
