"""The values in a walk: their possible types, and their names in the two texts.

Types are numpy's, with two letters ("f4", "i2", "b1"), and three of Python's, which are weak: "wb",
"wi", "wf" (a bool, int or float takes the type of the value with which it is combined). There is no
table of result types: the type of `a op b` is that of `op(sample, sample)`. "no" is the type of
None, which a variable may have before its first number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeAlias

from ipu_teach.compile.scalar.kinds import Constant as Constant

LIMIT = 2**61  # In the compiled text, Python's integers are int64 up to this magnitude.
SMALL = 2**40  # A loop counter is at most this number.
LENGTH = 2**31  # A length is at most this number.
SHORT = 2**20  # A loop with fewer iterations need not check whether to stop.


class Fixed(str):
    """The compiled text's name for an integer that never changes.

    It is a field's length, or a constant of the vertex.
    """


class Known(Fixed):
    """An integer that is known in advance: the text is its digits."""


class Refused(Exception):
    """A construct that is not translated.

    `why` describes the construct. `line` is its line, or 0 if that is not known yet. `instead` is
    what a learner could write instead, or "".
    """

    def __init__(self, why: str, line: int = 0, instead: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.line = line
        self.instead = instead


class Unreached(Exception):
    """Raised in the first walk of a loop at a name that only an earlier iteration assigns.

    The first iteration cannot take this branch.
    """


@dataclass(frozen=True)
class Num:
    """A number.

    * `alts`: for each possible type, the compiled text of the number
    * `tag`: the name of the variable that contains the type, if there are several
    * `py`: CPython's text, which needs no types
    * `data`: whether the number depends on data, so that work on it costs cycles
    * `const`: its value, or None if that is not known in advance
    * `bound`: the largest magnitude as a Python integer, or None if unknown
    * `maybe`: whether it may be unassigned
    * `affine`: (loop counter, difference from that counter), or None
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
        """(type, text) of a number that has one type."""
        return next(iter(self.alts.items()))


@dataclass(frozen=True)
class Arr:
    """A field's region, a row or slice of it, a local array or list, or a table of constants.

    * `dims`: (length, stride) of each axis in the compiled text
    * `off`: the first element's offset
    * `mark`: CPython's text of the array that marks stores, or "" if they are not marked
    * `rows`: for a list of vectors, the index in `dims` at which their offsets and lengths begin
    * `box`: for a list, whose numbers may have several types, the place where it is made. For each
      type's slot it has a buffer, named `buf` with the slot, and another buffer contains the tags
    * `free`: whether its numbers are known in advance
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
    """Numbers that are known in advance: as CPython's text, and by name as compiled arrays."""

    py: str
    compiled: dict[str, str]
    values: list[Num]


@dataclass(frozen=True)
class StaticValue:
    """A value that is known in advance and is not a number.

    It is a module, a function, a dtype, a table or None.
    """

    value: Any


class Factors(list[Arr]):
    """The result of np.linalg.qr: Q and R."""


@dataclass(frozen=True)
class Vec:
    """An expression over complete regions.

    `item(k)` writes the code for element k and returns its text. `dims` contains the compiled text
    of the length of each axis; it is empty for a number. `size` is CPython's text of the number of
    elements. `product` is True if the expression is a product of two others, and `scaled` if one of
    those is a number.
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
        """The compiled text of the number of elements."""
        return " * ".join(self.dims)


@dataclass(frozen=True)
class LoopSequence:
    """A sequence over which a `for` iterates: `count` items, and `item(k)` for number k.

    `py` is CPython's text of the sequence, and `size` that of the number of items. `counted` is
    True if CPython's loop uses a counter, too, and gets its items by number. `bounds` is (first,
    end, step) of a plain range. `short` is True if there are few iterations.
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
    """A function that is being walked: compute() itself, or one that is inlined."""

    function: FunctionType | ast.FunctionDef
    me: str  # This is its name for the vertex, or "" if it does not get the vertex.
    names: dict[str, object]
    local: frozenset[str]
    prefix: str  # The names of its variables in the texts begin with this.
    file: str
    outer: Scope | None = None  # This is the scope of the function in which it is defined.
    # For each loop: ((states at breaks, states at continues), flag that a return sets).
    loops: list[tuple[tuple[list[State], ...], str]] = field(default_factory=list)
    returns: str = ""  # This is the variable for its return value, or "" for compute() itself.
    exits: list[State] = field(default_factory=list)
    # It is True if the number of completed iterations of a loop depends on data.
    parted: bool = False


@dataclass(frozen=True)
class Inner:
    """A function that is defined inside another function."""

    tree: ast.FunctionDef
    scope: Scope = field(compare=False)


# This is the value of an expression. A list contains the values of a tuple.
Value: TypeAlias = "Num | Arr | Vec | StaticValue | Inner | list[Value] | list[Num] | list[Arr]"

# These are replacements for functions and methods that beginners use.
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
    """Return (description of an untranslated construct, what to write instead or "")."""
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
