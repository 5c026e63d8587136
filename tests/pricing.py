"""An independent counter of cycles: it runs `compute()` on numbers that count their operations.

Only the prices of single operations come from the kit. A value is "data" if it depends on what the
vertex reads; constants are free. Whether a variable is data depends on all paths of the code and not
on a single run. So the vertices run again until nothing changes: `Pricer.joins` has, for each place
where paths join, the variables that were data there in some run.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np

from ipu_teach import Vertex
from ipu_teach.cost.traced import VERTEX_OVERHEAD, single_cycles
from ipu_teach.target import Target, make_target

WORKERS = make_target().num_worker_contexts
START = 11  # cycles in which a tile's supervisor starts six workers
OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
MATH = {"atan": "arctan", "atan2": "arctan2", "fabs": "absolute"}
COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

SINGLE = (float, np.float32, np.float64)
NUMBERS = (bool, int, float, np.generic, type(None))


class Number:
    """A number that is data. `product`: it is the result of a multiplication."""

    def __init__(self, pricer: Pricer, value: Any, product: bool = False) -> None:
        self.p, self.v, self.product = pricer, value, product

    def __pow__(self, n: Any) -> Any:
        name = (
            {2: "square", 0.5: "sqrt", -1: "reciprocal"}.get(n, "power")
            if not isinstance(n, Number)
            else "power"
        )
        return self.p.made(name, self.v ** plain(n))

    def __neg__(self) -> Any:
        return self.p.made("negative", -self.v)

    def __invert__(self) -> Any:
        return self.p.made("invert", ~self.v)

    def __abs__(self) -> Any:
        return self.p.made("absolute", abs(self.v))


def _operator(short: str) -> None:
    fn = getattr(operator, {"and": "and_", "or": "or_"}.get(short, short))

    def forward(self: Number, other: Any) -> Any:
        return self.p.made(OPERATORS[short], fn(self.v, plain(other)), (self, other))

    def backward(self: Number, other: Any) -> Any:
        return self.p.made(OPERATORS[short], fn(plain(other), self.v), (other, self))

    setattr(Number, f"__{short}__", forward)
    if short not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Number, f"__r{short}__", backward)


for _short in OPERATORS:
    _operator(_short)


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(plain(v) for v in value)
    return value.v if isinstance(value, Number) else value


class Region:
    """A field, a row or a slice of one, or a local array."""

    def __init__(self, pricer: Pricer, array: Any) -> None:
        self.p, self.array, self.shape = pricer, array, array.shape

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> Any:
        found = self.array[plain(key)]
        if isinstance(found, np.ndarray):
            return Region(self.p, found)
        self.p.cycles += 1
        return Number(self.p, found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[plain(key)] = plain(value)
        narrow = isinstance(self.array, np.ndarray) and self.array.itemsize < 4
        self.p.cycles += 3 if narrow else 1  # a narrow store reads, changes and writes a word

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class List(Region):
    """A list that the codelet builds; it is in memory."""

    def __init__(self, pricer: Pricer, items: list[Any]) -> None:
        self.p, self.array = pricer, items

    def __getitem__(self, key: Any) -> Any:
        found = self.array[plain(key)]
        if isinstance(found, List):
            return found
        self.p.cycles += 1
        return Number(self.p, plain(found))


class Table:
    """A list of constants: an item is free unless its index is data."""

    def __init__(self, pricer: Pricer, items: Any) -> None:
        self.p, self.items = pricer, items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Any:
        found = self.items[plain(key)]
        if np.ndim(found):
            return List(self.p, list(found)) if isinstance(key, Number) else Table(self.p, found)
        self.p.cycles += isinstance(key, Number)
        return Number(self.p, found) if isinstance(key, Number) else found

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class Pricer:
    """The state of a run: the cycles so far, and whether data decides that this line is reached."""

    def __init__(self, codelet: type[Vertex], target: Target) -> None:
        self.codelet, self.target = codelet, target
        text = inspect.getsource(codelet)
        state = [name for name, f in codelet.fields.items() if f.kind == "state" and not f.depth]
        self.constants = {
            name for name in state if not re.search(rf"self\.{name} ?[^ =]?=[^=]", text)
        }
        self.joins: set[tuple[Any, str]] = set()
        self.parted: set[Any] = set()
        self.functions: dict[FunctionType, Any] = {}
        self.lines: Counter[int] = Counter()  # cycles by line, in 16ths
        self.line, self.total, self.control, self.decided = 0, 0.0, 0, False
        self.turns: dict[Any, int] = {}
        self.over_data: dict[Any, bool] = {}

    @property
    def cycles(self) -> float:
        """All cycles so far. An addition to them belongs to the current line, too."""
        return self.total

    @cycles.setter
    def cycles(self, total: float) -> None:
        self.lines[self.line] += round(16 * (total - self.total))
        self.total = total

    def at(self, line: int) -> bool:
        self.line = line
        return True

    def worker_cycles(self, regions: dict[str, Any], *worker: int) -> int:
        self.lines, self.line, self.total, self.control = Counter(), 0, float(VERTEX_OVERHEAD), 0
        self.counted(self.codelet.compute)(Fields(self, regions), *worker)
        return math.ceil(self.cycles)

    def made(self, name: str, value: Any, of: tuple[Any, ...] = ()) -> Number:
        dtype = (
            value.dtype
            if isinstance(value, np.generic)
            else np.dtype({bool: "?", int: "i8", float: "f8"}[type(value)])
        )
        products = [
            x for x in of if isinstance(x, Number) and x.product and isinstance(x.v, SINGLE)
        ]
        by_hand = self.target.codelet_prices == "by hand"
        # By hand, f32mac multiplies and adds in one instruction.
        if not (by_hand and isinstance(value, SINGLE) and name in ("add", "subtract") and products):
            self.cycles += single_cycles(name, dtype, self.target)
        return Number(self, value, product=name == "multiply")

    # Called by the code of the codelet, where _Telling inserts the calls

    def test(self, value: Any, loop: Any = None) -> bool:
        self.decided = isinstance(value, Number)
        self.cycles += self.decided
        if loop is not None and (self.decided or self.control):
            self.parted.add(loop)
        return bool(plain(value))

    @contextmanager
    def inside(self, data: bool | None = None) -> Iterator[None]:
        more = self.decided if data is None else data
        self.control += more
        try:
            yield
        finally:
            self.control -= more

    def named(self, value: Any) -> Any:
        """Return the value for a name; it is no product any more, as the name may be read twice."""
        found = self.given(value)
        return Number(self, found.v) if isinstance(found, Number) else found

    def given(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.given, value))
        number = isinstance(value, NUMBERS)
        return Number(self, value) if number and self.control else value

    def join(self, place: Any, name: str, read: Callable[[], Any], force: Any = None) -> Any:
        try:
            value = read()
        except NameError:
            return None
        if isinstance(value, Number):
            self.joins.add((place, name))
        elif ((place, name) in self.joins or force in self.parted) and isinstance(value, NUMBERS):
            return Number(self, value)
        return value

    def note(self, place: Any, names: list[str], local: dict[str, Any]) -> bool:
        """Begin an iteration: variables that are data now were data in the first one, too."""
        self.turns[place] = self.turns.get(place, 0) + 1
        for name in names if self.turns[place] > 1 else ():
            if isinstance(local.get(name), Number):
                self.joins.add((place, name))
        return True

    def over(self, place: Any, line: int, items: Any) -> Iterator[Any]:
        self.over_data[place] = isinstance(items, DataRange)
        items = iter(items)
        while True:
            self.line = line
            try:
                item = next(items)
            except StopIteration:
                return
            yield item

    def logic(self, place: Any, both: bool, parts: list[Callable[[], Any]]) -> Any:
        value, data = parts[0](), False
        for part in parts[1:]:
            data = data or isinstance(value, Number)
            self.cycles += isinstance(value, Number)
            if bool(plain(value)) is not both:
                break
            with self.inside(data):
                value = self.given(part())
        return self.join(place, "", lambda: value)

    def negated(self, value: Any) -> Any:
        return Number(self, not value.v) if isinstance(value, Number) else not value

    def choose(self, place: Any, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        way = yes if self.test(test) else no
        with self.inside():
            value = self.given(way())
        return self.join(place, "", lambda: value)

    def chain(self, place: Any, parts: list[Callable[[], Any]], ops: list[Any]) -> Any:
        held = [parts[0]()]

        def compared(k: int) -> Callable[[], Any]:
            def compare() -> Any:
                held.append(parts[k + 1]())
                return ops[k](held[k], held[k + 1])

            return compare

        return self.logic(place, True, [compared(k) for k in range(len(ops))])

    def listed(self, items: Any, stored: bool = True) -> List:
        """Return a new list; storing each item takes a cycle."""
        found = List(self, list(items))
        self.cycles += len(found) if stored else 0
        return found

    def copied(self, items: Any) -> Any:
        """Return a copy of nested lists, as `List` at each level."""
        return (
            self.listed(map(self.copied, items), not np.ndim(items[0]))
            if isinstance(items, list)
            else items
        )

    def is_none(self, value: Any, wanted: bool) -> Any:
        self.cycles += isinstance(value, Number)
        found = (plain(value) is None) is wanted
        return Number(self, found) if isinstance(value, Number) else found

    def within(self, place: Any, value: Any, items: Any, wanted: bool) -> Any:
        found = self.logic(place, False, [lambda item=item: value == item for item in items])  # type: ignore[misc]
        return found if wanted else self.negated(found)

    def many(self, kind: str, place: Any, pairs: Any, key: Any = None, start: Any = 0) -> Any:
        """Return sum, any, all, max or min of a comprehension.

        `pairs` has for each item its condition (or None) and a function that returns the item.
        """
        found, least, first, better = (
            {"any": False, "all": True}.get(kind, start),
            None,
            True,
            self.names().get(kind),
        )
        for test, item in pairs:
            found = self.join(place, "", lambda: found) if kind == "sum" or not first else found  # noqa: B023
            taken = test is None or self.test(test())
            with self.inside(test is not None and self.decided):
                if not taken:
                    continue
                value = self.given(item())
                if kind in ("any", "all"):
                    hit = self.test(value)
                    found = Number(self, bool(found)) if self.decided or self.control else found
                    if hit is (kind == "any"):
                        return Number(self, hit) if isinstance(found, Number) else hit
                elif kind == "sum":
                    found = self.given(found + value)
                elif key is None:
                    found = value if first else better(found, value)  # type: ignore[misc]
                else:
                    rank = key(value)
                    wins = first or (operator.gt if kind == "max" else operator.lt)(rank, least)
                    with self.inside(not first and isinstance(wins, Number)):
                        if first or self.test(wins):
                            found, least = self.given(value), self.given(rank)
                first = False
        return self.join(place, "", lambda: found)

    # Functions of Python and numpy

    def names(self) -> dict[str, Any]:
        def cast(kind: Any) -> Callable[[Any], Any]:
            def call(value: Any) -> Any:
                if not isinstance(value, Number):
                    return kind(value)
                self.cycles += kind is not bool
                return Number(self, kind(value.v))

            return call

        def best(wins: Any) -> Callable[..., Any]:
            def call(*values: Any) -> Any:
                found = values[0]
                for value in values[1:]:
                    better = wins(value, found)
                    data = isinstance(better, Number)
                    found = value if plain(better) else found
                    if data:
                        found = self.made("where", plain(found))
                        self.cycles += 1
                return found

            return call

        def span(*args: Any) -> Any:
            found = range(*plain(args))
            return DataRange(self, found) if any(isinstance(a, Number) for a in args) else found

        def rounded(value: Any, *digits: int) -> Any:
            found = round(plain(value), *digits)
            if isinstance(value, Number):
                self.cycles += single_cycles("rint", np.dtype(np.float32), self.target)
            return Number(self, found) if isinstance(value, Number) else found

        return {
            "round": rounded,
            "max": best(operator.gt),
            "min": best(operator.lt),
            "int": cast(int),
            "float": cast(float),
            "bool": cast(bool),
            "range": span,
            "np": Numpy(self),
            "math": Math(self),
        }

    def counted(self, f: FunctionType) -> Any:
        """Return the function with calls of this pricer at its decisions, assignments and loops."""
        if f not in self.functions:
            tree = ast.parse(dedent(inspect.getsource(f)))
            ast.increment_lineno(tree, f.__code__.co_firstlineno - 1)
            tree.body[0].decorator_list = []  # type: ignore[attr-defined]
            tree = ast.fix_missing_locations(_Telling(f.__qualname__, tree).visit(tree))
            space = {
                **vars(builtins),
                **f.__globals__,
                **self.names(),
                "P_": self,
                "Table_": Table,
                "O_": {k.__name__: v for k, v in COMPARE.items()},
            }
            exec(compile(tree, f"<{f.__qualname__}, priced>", "exec"), space)
            self.functions[f] = self.called(space[f.__name__])
        return self.functions[f]

    def called(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function; after a call, the caller's line is the current one again."""

        def call(*args: Any, **named: Any) -> Any:
            line = self.line
            found = f(*args, **named)
            self.line = line
            return found

        return call


class DataRange:
    """A range whose ends are data: it takes two cycles for each item, and two for its end."""

    def __init__(self, pricer: Pricer, numbers: range) -> None:
        self.p, self.numbers = pricer, numbers

    def __iter__(self) -> Iterator[int]:
        for number in self.numbers:
            self.p.cycles += 2
            yield number
        self.p.cycles += 2


class Fields:
    """The object that `compute()` gets as `self`."""

    def __init__(self, pricer: Pricer, regions: dict[str, Any]) -> None:
        vars(self).update(p_=pricer, regions_=regions, num_workers=WORKERS)

    def __getattr__(self, name: str) -> Any:
        if name in self.regions_:
            region = Region(self.p_, self.regions_[name])
            if name in self.p_.constants:
                return self.regions_[name][()]
            return region if region.shape else region[()]
        found = inspect.getattr_static(self.p_.codelet, name)
        if isinstance(found, staticmethod):
            return self.p_.counted(found.__func__)
        if isinstance(found, FunctionType):
            return lambda *args: self.p_.counted(found)(self, *args)
        return Table(self.p_, found) if np.ndim(found) else found

    def __setattr__(self, name: str, value: Any) -> None:
        Region(self.p_, self.regions_[name])[()] = value


class Numpy:
    def __init__(self, pricer: Pricer) -> None:
        self.p = pricer

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in ("zeros", "ones"):
            return lambda *args: Region(self.p, found(*(getattr(a, "numpys", a) for a in args)))
        if not callable(found) or isinstance(found, type) and not issubclass(found, np.number):
            return found

        def call(*args: Any) -> Any:
            value = found(*plain(args))
            if not any(isinstance(a, Number) for a in args):
                return value
            if isinstance(found, type):
                self.p.cycles += 1
                return Number(self.p, value)
            return self.p.made(name, value)

        call.numpys = found  # type: ignore[attr-defined]
        return call


class Math:
    def __init__(self, pricer: Pricer) -> None:
        self.p = pricer

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            value = getattr(math, name)(*plain(args))
            if any(isinstance(a, Number) for a in args):
                self.p.cycles += single_cycles(
                    MATH.get(name, name), np.dtype(np.float32), self.p.target
                )
                return Number(self.p, value)
            return value

        return call


class _Telling(ast.NodeTransformer):
    """Inserts calls of `Pricer` into the code of a function."""

    def __init__(self, name: str, tree: ast.AST) -> None:
        self.name, self.loop, self.count, self.inner = name, "", 0, False
        stored = {
            n.value.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Subscript)
            and isinstance(n.ctx, ast.Store)
            and isinstance(n.value, ast.Name)
        }
        # Lists of constants that the code stores to; they are lists, not tables.
        self.changed = [
            ast.unparse(n.value)
            for n in ast.walk(tree)
            if isinstance(n, ast.Assign)
            and isinstance(n.targets[0], ast.Name)
            and n.targets[0].id in stored
        ]

    def place(self) -> str:
        self.count += 1
        return f"{self.name} {self.count}"

    @staticmethod
    def stored(*nodes: ast.AST) -> list[str]:
        return sorted(
            {
                n.id
                for node in nodes
                for n in ast.walk(node)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
        )

    def visit(self, node: ast.AST) -> Any:
        """Rewrite a node; a statement that is not a loop also sets the current line."""
        inner, self.inner = self.inner, self.inner or isinstance(node, ast.FunctionDef)
        found, self.inner = super().visit(node), inner
        if isinstance(node, ast.FunctionDef) and inner:
            return [found, *self.text(f"{node.name} = P_.called({node.name})")]
        if not isinstance(node, ast.stmt) or isinstance(
            node, (ast.For, ast.While, ast.FunctionDef)
        ):
            return found
        return [*self.text(f"P_.at({node.lineno})"), *_list(found)]

    @staticmethod
    def text(code: str) -> list[ast.stmt]:
        return ast.parse(code).body

    def within(self, body: list[ast.stmt], how: str = "P_.inside()") -> list[ast.stmt]:
        (block,) = self.text(f"with {how}: pass")
        block.body = body or [ast.Pass()]  # type: ignore[attr-defined]
        return [block]

    def joined(self, place: str, names: list[str], force: str = "None") -> list[ast.stmt]:
        return [
            line
            for n in names
            for line in self.text(f"{n} = P_.join({place!r}, {n!r}, lambda: {n}, {force})")
        ]

    def visit_If(self, node: ast.If) -> Any:
        place, names = self.place(), self.stored(*node.body, *node.orelse)
        leaves = any(
            isinstance(n, ast.Break) for part in [*node.body, *node.orelse] for n in _own(part)
        )
        test = ast.unparse(self.visit(node.test))
        loop = repr(self.loop) if leaves else "None"
        (made,) = self.text(f"if P_.test({test}, {loop}): pass")
        made.body = self.within([x for s in node.body for x in _list(self.visit(s))])  # type: ignore[attr-defined]
        made.orelse = self.within([x for s in node.orelse for x in _list(self.visit(s))])  # type: ignore[attr-defined]
        return [made, *self.joined(place, names)]

    def visit_While(self, node: ast.While) -> Any:
        place, names = self.place(), self.stored(node)
        outer, self.loop = self.loop, place
        test = ast.unparse(self.visit(node.test))
        (made,) = self.text(
            f"while P_.at({node.lineno}) and P_.note({place!r}, {names!r}, locals()) and "
            f"P_.test({test}): pass"
        )
        made.body = self.within([x for s in node.body for x in _list(self.visit(s))])  # type: ignore[attr-defined]
        self.loop = outer
        begin = [*self.text(f"P_.turns[{place!r}] = 0"), *self.joined(place, names)]
        return [*begin, made, *self.joined(place + " end", names, repr(place))]

    def visit_For(self, node: ast.For) -> Any:
        place, names = self.place(), self.stored(*node.body)
        outer, self.loop = self.loop, place
        if isinstance(node.iter, ast.Tuple) and any(
            isinstance(n, ast.Name) for n in ast.walk(node.iter)
        ):
            node.iter = ast.List(node.iter.elts, ast.Load())
        target, items = ast.unparse(node.target), ast.unparse(self.visit(node.iter))
        (made,) = self.text(f"for {target} in P_.over({place!r}, {node.lineno}, {items}): pass")
        made.body = [  # type: ignore[attr-defined]
            *self.text(f"P_.note({place!r}, {names!r}, locals())"),
            *self.within(
                [x for s in node.body for x in _list(self.visit(s))],
                f"P_.inside(P_.over_data[{place!r}])",
            ),
        ]
        self.loop = outer
        begin = [
            *self.text(f"P_.at({node.lineno}); P_.turns[{place!r}] = 0"),
            *self.joined(place, names),
        ]
        return [*begin, made, *self.joined(place + " end", self.stored(node), repr(place))]

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        node.value = ast.parse(f"P_.named({ast.unparse(node.value)})", mode="eval").body
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if node.value is not None:
            text = (
                f"P_.join({self.name + ' returns'!r}, '', lambda: "
                f"P_.given({ast.unparse(node.value)}))"
            )
            node.value = ast.parse(text, mode="eval").body
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        sign = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[2:-2]
        value, target = ast.unparse(node.value), ast.unparse(node.target)
        if not isinstance(node.target, ast.Subscript):
            return self.text(f"{target} = P_.given({target} {sign} ({value}))")
        owner, key = ast.unparse(node.target.value), ast.unparse(node.target.slice)
        return self.text(f"o_, k_ = {owner}, {key}\no_[k_] = o_[k_] {sign} ({value})")

    def visit_List(self, node: ast.List) -> Any:
        text = ast.unparse(node)
        constant = not any(isinstance(n, (ast.Name, ast.Call)) for n in ast.walk(node))
        self.generic_visit(node)
        form = (
            "Table_(P_, {})"
            if constant and f"{text}" not in self.changed
            else "P_.copied({})"
            if constant
            else "P_.listed({})"
        )
        return ast.parse(form.format(ast.unparse(node)), mode="eval").body

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
            return ast.parse(f"P_.listed({ast.unparse(node)}, False)", mode="eval").body
        self.generic_visit(node)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        self.generic_visit(node)
        inner = "P_.listed" in ast.unparse(node.elt)
        return ast.parse(f"P_.listed({ast.unparse(node)}, {not inner})", mode="eval").body

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name not in ("sum", "any", "all", "max", "min") or len(node.args) != 1:
            return node
        (over,), pairs = node.args, "((None, lambda x_=x_: x_) for x_ in {})"
        if isinstance(over, ast.GeneratorExp):
            (part,), element = over.generators, ast.unparse(over.elt)
            test = "lambda: " + " and ".join(map(ast.unparse, part.ifs)) if part.ifs else "None"
            pairs = f"(({test}, lambda: {element}) for {ast.unparse(part.target)} in {{}})"
            over = part.iter  # type: ignore[assignment]
        named = "".join(f", {k.arg}={ast.unparse(k.value)}" for k in node.keywords)
        text = f"P_.many({name!r}, {self.place()!r}, {pairs.format(ast.unparse(over))}{named})"
        return ast.parse(text, mode="eval").body

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        place = self.place()
        self.generic_visit(node)
        parts = ", ".join(f"lambda: {ast.unparse(v)}" for v in node.values)
        return ast.parse(
            f"P_.logic({place!r}, {isinstance(node.op, ast.And)}, [{parts}])", mode="eval"
        ).body

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        place = self.place()
        self.generic_visit(node)
        test, yes, no = (ast.unparse(v) for v in (node.test, node.body, node.orelse))
        return ast.parse(
            f"P_.choose({place!r}, {test}, lambda: {yes}, lambda: {no})", mode="eval"
        ).body

    def visit_Compare(self, node: ast.Compare) -> Any:
        place = self.place()
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            items, wanted = ast.unparse(node.comparators[0]), isinstance(node.ops[0], ast.In)
            value = ast.unparse(self.visit(node.left))
            return ast.parse(f"P_.within({place!r}, {value}, {items}, {wanted})", mode="eval").body
        self.generic_visit(node)
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            value = ast.unparse(node.left)
            return ast.parse(
                f"P_.is_none({value}, {isinstance(node.ops[0], ast.Is)})", mode="eval"
            ).body
        if len(node.ops) == 1:
            return node
        parts = ", ".join(f"lambda: {ast.unparse(v)}" for v in [node.left, *node.comparators])
        ops = ", ".join(f"O_[{type(op).__name__!r}]" for op in node.ops)
        return ast.parse(f"P_.chain({place!r}, [{parts}], [{ops}])", mode="eval").body

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.parse(f"P_.negated({ast.unparse(node.operand)})", mode="eval").body
        return node


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its descendants, except those within loops."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.For, ast.While)):
            yield from _own(child)


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def priced(codelet: type[Vertex], values: dict[str, Any], prices: str) -> list[int]:
    """Return the worker cycles of each vertex at these prices; for a MultiVertex, its tile's."""
    return [cycles for cycles, _ in priced_by_line(codelet, values, prices)]


def priced_by_line(
    codelet: type[Vertex], values: dict[str, Any], prices: str
) -> list[tuple[int, dict[int, float]]]:
    """Return the same cycles, and for each vertex the cycles by line of the file.

    The lines are those of the slowest worker, times the number of workers.
    """
    pricer, multi = Pricer(codelet, make_target(codelet_prices=prices)), codelet.context == "multi"
    workers = WORKERS if multi else 1
    while True:
        before, found = (set(pricer.joins), set(pricer.parted)), []
        for row in range(len(next(iter(values.values())))):
            regions = {
                n: np.array(v[row], codelet.fields[n].dtype.numpy) for n, v in values.items()
            }
            arguments = [(w,) for w in range(workers)] if multi else [()]
            counts = [(pricer.worker_cycles(regions, *a), pricer.lines) for a in arguments]
            cycles, lines = max(counts, key=lambda one: one[0])
            found.append(
                (
                    workers * cycles + START * multi,
                    {line: workers * n / 16 for line, n in lines.items() if n},
                )
            )
        if before == (pricer.joins, pricer.parted):
            return found
