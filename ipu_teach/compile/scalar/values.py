"""What a value is while a codelet's text is walked: which types it may have, and what stands for it
in the two texts.

Types are numpy's own by two letters ("f4", "i2", "b1") and three of Python's, which are weak: "wb",
"wi", "wf" (a bool, an int, a float take the type of what they meet). No table of types is written:
the type of `a op b` is that of `op(sample, sample)`. "no" is that of None, which a variable may
hold until it has a number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

LIMIT = 2**61  # Python's integers are int64 in the compiled text up to here
SMALL = 2**40  # no loop counter is larger
LENGTH = 2**31  # and no length
SHORT = 2**20  # turns of a loop during which nobody need be able to stop it


class Fixed(str):
    """The compiled text's name of a whole number that stays as it is: a field's length, or a
    constant of the vertex."""


class Known(Fixed):
    """A whole number that is known ahead: the text is its digits."""


class Refused(Exception):
    """A construct that is not translated, with the line where it stands (0: not known yet)."""

    def __init__(self, why: str, line: int = 0, instead: str = "") -> None:
        super().__init__(why)
        self.why, self.line, self.instead = why, line, instead


class Unreached(Exception):
    """In the first walk of a loop: a name that only an earlier turn assigns. This way is not gone
    in the first turn."""


@dataclass(frozen=True)
class Num:
    """A number.

    `alts`: for each type that it may have, the compiled text's name for it; `tag`: the name that
    tells which, where there are several. `py`: CPython's text, which needs no types. `data`: it
    depends on data, so work on it costs cycles. `bound`: no integer of Python's own here is larger.
    `maybe`: perhaps it was never assigned. `affine`: a loop's counter, and how much more than that
    it is.
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
        """(type, text) of a number of one type."""
        return next(iter(self.alts.items()))


@dataclass(frozen=True)
class Arr:
    """A field's region, a row or slice of it, a local array or list, or a table of constants.

    `dims`: (length, stride) of each axis, and `off`: where it begins, texts of the compiled one.
    `mark`: CPython's text for where stores are marked; empty where they are not. `rows`: of a list
    of vectors, the place in `dims` from which on it says where they lie. `box`: of a list, whose
    numbers may be of several types, where it is made; its buffers are `buf` with a slot each, and
    one of tags. `free`: its numbers are known ahead.
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
    """Numbers that are known ahead, as CPython's text and as those of the compiled one's arrays, by
    their names."""

    py: str
    compiled: dict[str, str]
    values: list[Num]


@dataclass(frozen=True)
class StaticValue:
    """What is known ahead and is no number: modules, functions, dtypes, tables, None."""

    value: Any


class Factors(list[Arr]):
    """What np.linalg.qr gives: Q and R."""


@dataclass(frozen=True)
class Vec:
    """An expression over whole regions: `item(k)` writes what gives element k, and returns the text
    of it.

    `dims`: the compiled text's length of each axis, none for a number; `size`: CPython's text for
    how many elements it has. `product`: it is the product of two others; `scaled`: one of those is
    a number.
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
        """The compiled text for how many elements it has."""
        return " * ".join(self.dims)


@dataclass(frozen=True)
class LoopSequence:
    """What a `for` runs over: how many items, `item(k)` for number k, and CPython's text.

    `size`: CPython's text for how many. `counted`: CPython's loop counts, too, and takes its items
    by number. `bounds`: first, end and step where it is a plain range of one counter. `short`: it
    is soon over.
    """

    count: str
    item: Callable[[str], Any]
    py: str
    size: str
    data: bool = False
    counted: bool = False
    bounds: tuple[str, str, str] | None = None
    short: bool = True


State = dict[str, Any]


@dataclass
class Scope:
    """A function that is being walked: compute() itself, or one that stands in place of its
    call."""

    function: FunctionType | ast.FunctionDef
    me: str  # what it calls the vertex; "" if it does not have it
    names: dict[str, Any]
    local: frozenset[str]
    prefix: str  # of its variables in the texts
    file: str
    outer: Scope | None = None  # in whose text it stands
    # ((breaks, continues), flag) of each
    loops: list[tuple[tuple[list[State], ...], str]] = field(default_factory=list)
    returns: str = ""  # the variable that takes what it returns; none for compute() itself
    exits: list[State] = field(default_factory=list)
    parted: bool = False  # data decide how far a loop of it comes


@dataclass(frozen=True)
class Inner:
    """A function that stands inside another one's text."""

    tree: ast.FunctionDef
    scope: Scope = field(compare=False)


# What to write in place of functions and methods that beginners reach for.
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
    """A piece of the text as a reason names it, and what to write instead, if there is
    something."""
    counted = "np.zeros(n), with the keys as indices,"
    found = {
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
    return found or (f"`{ast.unparse(node).splitlines()[0]}`", "")
