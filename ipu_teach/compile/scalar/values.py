"""The values that the translation handles: their possible types, and their expressions.

A value has two expressions: one for the Python code and one for the numba code.

Types are written with two letters. There are numpy's types, such as "f4", "i2" and "b1", and three
Python types: "wb" (bool), "wi" (int) and "wf" (float). The Python types are weak: such a number
takes the type of the numpy value with which it is combined. There is no table of result types: the
type of `a op b` is found by computing `op(sample, sample)`. "no" is the type of None, which a
variable may contain before its first number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeAlias

from ipu_teach.compile.scalar.kinds import Constant as Constant

LIMIT = 2**61  # The largest magnitude of Python's integers, which are int64 in the numba code.
SMALL = 2**40  # The largest loop counter.
LENGTH = 2**31  # The largest length.
# A loop with fewer than SHORT iterations need not check whether it must stop.
SHORT = 2**20


class Fixed(str):
    """The name, in the numba code, of an integer that never changes.

    The integer is a field's length, or a constant of the vertex.
    """


class Known(Fixed):
    """The decimal digits of an integer whose value the translation knows."""


class Refused(Exception):
    """Raised for a construct of Python that is not translated.

    `why` describes the construct. `line` is its line, or 0 if the line is not known yet. `instead`
    describes what a learner could write instead, or is "".
    """

    def __init__(self, why: str, line: int = 0, instead: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.line = line
        self.instead = instead


class Unreached(Exception):
    """Raised when a loop's first translation reads a name that only a later statement assigns.

    So the code that reads the name cannot be executed in the first iteration.
    """


@dataclass(frozen=True)
class Num:
    """A number, as the translation knows it.

    * `alts`: the numba expression of the number, for each of its possible types
    * `tag`: the numba variable that contains the code of the present type, if there are several
      possible types
    * `py`: the Python expression of the number, for all types
    * `data`: whether the number depends on data, so that work on it costs cycles
    * `const`: the value, or None if the translation does not know it
    * `bound`: the largest magnitude as a Python integer, or None if it is unknown
    * `maybe`: whether the variable with this number may be unassigned
    * `affine`: (loop counter, constant) if the number is their sum, or None
    """

    alts: dict[str, str]
    py: str
    tag: str = ""
    data: bool = False
    const: Any = None
    bound: int | None = None
    maybe: bool = False
    affine: tuple[str, int] | None = None

    @property
    def only(self) -> tuple[str, str]:
        """The pair (type, numba expression) of a number that has one type."""
        return next(iter(self.alts.items()))


@dataclass(frozen=True)
class Arr:
    """An array: a field's region, a row or slice of it, a local array or list, or a table.

    * `dims`: the (length, stride) of each axis, as numba expressions
    * `off`: the offset of the first element in the buffer `buf`, as a numba expression
    * `mark`: the Python expression of the array in which stores are marked, or "" if they are not
      marked
    * `rows`: for a list of vectors, the index in the numba array `dims` at which the offsets and
      lengths of the vectors begin
    * `box`: for a list whose numbers may have several types, the place in the source where the list
      is created. The numba code then has a buffer for each slot (see `kinds.SLOT`) of these types,
      and a buffer of type codes
    * `free`: whether operations on its numbers cost nothing, as for a table or a constant of the
      vertex
    """

    buf: str
    type: str
    dims: tuple[tuple[str, str], ...]
    off: str
    py: str
    mark: str = ""
    readable: bool = True
    writable: bool = True
    local: bool = False
    sized: bool = True
    rows: str = ""
    box: str = ""
    free: bool = False


@dataclass(frozen=True)
class ConstantTable:
    """A table of constants.

    * `py`: the Python expression of the table
    * `compiled`: maps the name of each array of the table to its numba expression
    * `values`: its numbers
    """

    py: str
    compiled: dict[str, str]
    values: list[Num]


@dataclass(frozen=True)
class StaticValue:
    """A value that the translation knows and that is not a number.

    It is a module, a class, a function, a string, a list or tuple of constants, or a plain array.
    For a method of an array, it is the pair (function, array).
    """

    value: Any


class Factors(list[Arr]):
    """The result of np.linalg.qr: Q and R."""


@dataclass(frozen=True)
class Vec:
    """An expression over whole fields or arrays.

    `item(k)` writes the numba code that computes element k, and returns the numba expression of the
    element. `dims` contains the numba expression of the length of each axis; it is empty for a
    number. `size` is the Python expression of the number of elements. `product` is True if the
    expression is a product of two operands, of type HALF or FLOAT. `scaled` is True if, in
    addition, one of the operands is a number.
    """

    dims: tuple[str, ...]
    type: str
    item: Callable[[str], str]
    py: str
    bufs: frozenset[str] = frozenset()
    size: str = ""
    product: bool = False
    scaled: bool = False

    @property
    def n(self) -> str:
        """The numba expression of the number of elements."""
        return " * ".join(self.dims)


@dataclass(frozen=True)
class LoopSequence:
    """A sequence over which a `for` loop iterates.

    `count` is the number of items, and `item(k)` returns item k. `py` is the Python expression of
    the sequence, and `size` is the Python expression of the number of items. `data` is True if the
    number of items depends on data. `counted` is True if the loop has a counter and gets the items
    by index not only in the numba code, but also in the Python code. `bounds` is (first, end, step)
    of a plain range. `short` is True if there are few iterations.
    """

    count: str
    item: Callable[[str], Value]
    py: str
    size: str
    data: bool = False
    counted: bool = False
    bounds: tuple[str, str, str] | None = None
    short: bool = True


State = dict[str, Any]


@dataclass
class Scope:
    """A function that is being translated: compute() itself, or an inlined function."""

    function: FunctionType | ast.FunctionDef
    me: str  # The function's parameter for the vertex, such as "self", or "".
    names: dict[str, object]
    local: frozenset[str]
    prefix: str  # The prefix of the generated names of the function's variables.
    file: str
    outer: Scope | None = None  # The scope of the enclosing function.
    # For each open loop: ((states at its breaks, states at its continues), the flag that a return
    # sets).
    loops: list[tuple[tuple[list[State], ...], str]] = field(default_factory=list)
    returns: str = ""  # The variable for the function's return value, or "" for compute().
    exits: list[State] = field(default_factory=list)
    # Whether the number of iterations that the present loop completes depends on data.
    parted: bool = False


@dataclass(frozen=True)
class Inner:
    """A function that is defined inside another function."""

    tree: ast.FunctionDef
    scope: Scope = field(compare=False)


# The value of an expression. A tuple is represented by a list of values.
Value: TypeAlias = "Num | Arr | Vec | StaticValue | Inner | list[Value] | list[Num] | list[Arr]"

# Advice for some functions and methods: code that beginners can write instead.
INSTEAD = {
    "sorted": "np.sort(…)",
    "sort": "np.sort(…)",
    "flip": "x[::-1]",
    "count_nonzero": "(…).sum()",
    "fill": "x[:] = …",
    "item": "x[k]",
    "tolist": "a loop over the elements",
    "histogram": "a loop that counts into np.zeros(n)",
    "repeat": "a loop over the elements",
    "average": "(x * w).sum() / w.sum()",
    "vectorize": "a loop over the elements",
}


def in_words(node: ast.AST) -> tuple[str, str]:
    """Return (name of a construct that is not translated, what to write instead or "")."""
    counted = "np.zeros(n), with the keys as indices,"
    description = {
        ast.Try: ("a try", "an if before what may fail"),
        ast.With: ("a with", ""),
        ast.GeneratorExp: ("a generator", "a loop"),
        ast.JoinedStr: ("a formatted text", ""),
        ast.SetComp: ("a set", counted),
        ast.DictComp: ("a dict", counted),
        ast.Dict: ("a dict", counted),
        ast.Set: ("a set", counted),
        ast.Match: ("a match", "if and elif"),
        ast.Delete: ("a del", ""),
        ast.Global: ("a global", "a state field"),
        ast.Nonlocal: ("a nonlocal", "an argument"),
        ast.Import: ("an import", "it at the head of the file"),
    }.get(type(node))
    return description or (f"`{ast.unparse(node).splitlines()[0]}`", "")
