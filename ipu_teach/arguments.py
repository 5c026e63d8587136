"""What arguments must be: read from the annotations, and checked before the body of a call runs.

    check_calls(globals(), refuse)  # the last line of a module: its public functions and classes

    def pool(x: Value, kernel: Sequence[Count], kind: Annotated[str, Among(("max", "avg"))]): ...

An annotation is read at the first call of its function. It may be a class, `int`, `float`, `bool`,
`str`, `type[DType]`, a `Literal`, a union, a sequence, an iterable or a mapping of those, or one of
them with a marker of this module. A name that stands for something else, and `Any`, is not checked.

- `int` takes Python's and numpy's whole numbers below 2**63, and no flag.
- `float` takes real numbers that are finite in single precision; `Extended` also infinities.
- A sequence is a list, a tuple, a range or an array of one dimension: no set, and nothing that can
  be read only once.
- Where an annotation says `Iterable` or `Collection`, an iterator is read once, into a list.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections import abc
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import cache, partial, wraps
from math import isfinite, isnan
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np

from ipu_teach.errors import IPUTeachError, did_you_mean, shown

Kept = TypeVar("Kept", bound=type[Any])
Call = TypeVar("Call", bound=Callable[..., Any])
Refusal = Callable[[str, str], IPUTeachError]  # from a sentence and what to do next
FLAG = bool, np.bool_  # no 1 and no "yes"
WORDS = "give True or False."
WHOLE = (int, np.integer)
REAL = (int, float, np.integer, np.floating)
BEYOND = 2**63
LARGEST = float(np.finfo(np.float32).max)
SEVERAL = (list, tuple, range)
NONE = type(None)


class Between(NamedTuple):
    """A marker: a number from `least` to `most`; `is_open`: below `most`, `is_above`: above
    `least`."""

    least: float
    most: float = float("inf")
    is_open: bool = False
    is_above: bool = False

    def accepts(self, value: Any) -> bool:
        """Return whether a number lies within."""
        lower = value > self.least if self.is_above else value >= self.least
        return bool(lower and (value < self.most if self.is_open else value <= self.most))

    @property
    def words(self) -> str:
        """The range in words, to stand behind "a number"."""
        if self.most == float("inf"):
            return f" above {self.least:g}" if self.is_above else f" of {self.least:g} or more"
        start = f"above {self.least:g}" if self.is_above else f"from {self.least:g}"
        return f" {start} {'to below' if self.is_open else 'to'} {self.most:g}"


class Among:
    """A marker: one of these texts. `names` may be a function, for a table that grows."""

    def __init__(self, names: Collection[str] | Callable[[], Collection[str]]) -> None:
        self._names = names

    @property
    def names(self) -> Collection[str]:
        """The texts that are taken."""
        return self._names() if callable(self._names) else self._names


class Taken(NamedTuple):
    """A marker: what `accepts` is true of; `advice` says what that is."""

    accepts: Callable[[Any], bool]
    advice: str


Count = Annotated[int, Between(1)]
Natural = Annotated[int, Between(0)]
Positive = Annotated[float, Between(0, is_above=True)]
Share = Annotated[float, Between(0, 1)]
Fraction = Annotated[float, Between(0, 1, is_open=True)]
Extended = Annotated[
    float, Taken(lambda v: _is_real(v) and not isnan(v), "give a number that is not a NaN.")
]


class Kind(NamedTuple):
    """What a parameter takes: `quick` types that need no look, whether it `accepts` a value, what
    to give else, and whether an iterator is read into a list."""

    quick: frozenset[type]
    accepts: Callable[[Any], bool]
    advice: Callable[[Any], str]
    listed: bool = False


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number below 2**63, and no flag."""
    return (
        isinstance(value, WHOLE) and not isinstance(value, bool) and bool(-BEYOND < value < BEYOND)
    )


def _is_real(value: object) -> bool:
    return isinstance(value, REAL) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Return whether a value is a real number, and no flag, that single precision holds."""
    return _is_real(value) and isfinite(value) and bool(abs(value) <= LARGEST)


def is_numeric(value: Any) -> bool:
    """Return whether a value is a real number, or an array or nested lists of real numbers."""
    if isinstance(value, REAL):
        return True
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except Exception:  # a list of rows of several lengths, or an object that is not an array
        return False


Numbers = Annotated[Any, Taken(is_numeric, "give real numbers: one, or an array of them.")]


def _an(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def _plain(quick: type | tuple[type, ...], accepts: Callable[[Any], bool], advice: str) -> Kind:
    several = quick if isinstance(quick, tuple) else (quick,)
    return Kind(frozenset(several), accepts, lambda value: advice)


_PLAIN: dict[Any, Kind] = {
    bool: _plain(FLAG, lambda v: isinstance(v, FLAG), WORDS),
    int: _plain((), is_whole, "give a whole number below 2**63."),
    float: _plain((), is_finite, "give a finite number."),
    str: _plain(str, lambda v: isinstance(v, str), "give a text, in quotes."),
    bytes: _plain(bytes, lambda v: isinstance(v, bytes), "give bytes."),
    NONE: _plain(NONE, lambda v: v is None, "give None."),
    Callable: _plain(types.FunctionType, callable, "give a function."),
}
_PLAIN[abc.Callable] = _PLAIN[Callable]
ADVICE: dict[type, str] = {}


def advised(advice: str) -> Callable[[Kept], Kept]:
    """Return a decorator of a class: `advice` is what to give where an annotation names it."""

    def known(kind: Kept) -> Kept:
        ADVICE[kind] = advice
        return kind

    return known


def kind_of(hint: Any) -> Kind | None:
    """Return what an annotation takes; None if it says nothing that can be checked."""
    try:
        return _kind_of(hint)
    except TypeError:  # an unhashable hint, such as a Literal with a list in it
        return None


@cache
def _kind_of(hint: Any) -> Kind | None:
    origin = get_origin(hint)
    inside = get_args(hint)
    if origin is Annotated:
        return _marked(kind_of(inside[0]), hint.__metadata__)
    if origin is Literal:
        return _texts(Among(inside))
    if origin in (Union, types.UnionType):
        return _union([kind_of(part) for part in inside])
    if origin is type:
        return _class(inside[0])
    if origin is tuple and inside[-1:] != (...,):
        return _tuple(inside)
    if origin in (tuple, abc.Sequence):
        return _series(inside[0], SEVERAL)
    if origin is list:
        return _series(inside[0], (list,))
    if origin in (abc.Iterable, abc.Collection):
        return _iterable(inside[0])
    if origin in (abc.Mapping, dict):
        return _mapping(*inside)
    plain = _PLAIN.get(origin or hint)
    if plain is None and isinstance(origin, type):
        hint = origin  # np.ndarray of the item type
    if plain is None and isinstance(hint, type) and hint not in (object, Any):
        advice = ADVICE.get(hint, f"give {_an(hint.__name__)}.")
        if issubclass(hint, Enum):
            advice = f"give one of {', '.join(map(str, hint))}."
        plain = _plain(hint, lambda v: isinstance(v, hint), advice)
    return plain


def _class(base: Any) -> Kind | None:
    if not isinstance(base, type):
        return None
    advice = f"give a class of {base.__name__}."
    if base.__name__ == "DType":  # dtypes check arguments too, so this module cannot import them
        advice = "give a dtype of the kit, as FLOAT."
    return _plain((), lambda v: isinstance(v, type) and issubclass(v, base), advice)


def _texts(among: Among) -> Kind:
    def advise(value: object) -> str:
        return f"{did_you_mean(value, among.names)}give {' or '.join(map(repr, among.names))}."

    return Kind(frozenset(), lambda v: isinstance(v, (str, NONE)) and v in among.names, advise)


def _marked(kind: Kind | None, markers: tuple[Any, ...]) -> Kind | None:
    for marker in markers:
        if isinstance(marker, Among):
            return _texts(marker)
        if isinstance(marker, Taken):
            return _plain((), marker.accepts, marker.advice)
        if isinstance(marker, Between) and kind is not None:
            noun = "a whole number" if kind is _PLAIN[int] else "a number"
            return _plain((), partial(_fits, kind, marker), f"give {noun}{marker.words}.")
    return kind


def _fits(kind: Kind, marker: Between, value: Any) -> bool:
    return kind.accepts(value) and marker.accepts(value)


def _union(kinds: list[Kind | None]) -> Kind | None:
    several = [kind for kind in kinds if kind is not None]
    if len(several) < len(kinds):
        return None
    shown_kinds = [kind for kind in several if kind is not _PLAIN[NONE]] or several

    def advise(value: object) -> str:
        words = [kind.advice(value).removeprefix("give ").removesuffix(".") for kind in shown_kinds]
        if len(words) == 1:
            return shown_kinds[0].advice(value)
        return f"give {', or '.join(words)}."

    return Kind(
        frozenset().union(*(kind.quick for kind in several)),
        lambda v: any(kind.accepts(v) for kind in several),
        advise,
        any(kind.listed for kind in several),
    )


def _elements(element: Any) -> tuple[Callable[[Any], bool], str]:
    """Whether a value may stand in a series, and the words for several of them."""
    kind = kind_of(element)
    if kind is None:
        return (lambda v: True), "values"
    words = kind.advice(None).removeprefix("give ").removesuffix(".").split(": ")[-1]
    return kind.accepts, f"values, each {words}"


def _listed(value: Any) -> Any:
    """Return an array of one dimension of real numbers as a list; anything else as it is."""
    is_row = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
    return value.tolist() if is_row else value


def _series(element: Any, classes: tuple[type, ...]) -> Kind:
    accepts, words = _elements(element)

    def fits(value: Any) -> bool:
        value = _listed(value)
        return isinstance(value, classes) and all(map(accepts, value))  # type: ignore[call-overload]

    return _plain((), fits, f"give a list or tuple of {words}.")


def _tuple(elements: tuple[Any, ...]) -> Kind:
    several = [_elements(element) for element in elements]

    def fits(value: Any) -> bool:
        value = _listed(value)
        return (
            isinstance(value, SEVERAL)
            and len(value) == len(several)
            and all(accepts(v) for (accepts, _), v in zip(several, value, strict=True))
        )

    words = {words for _, words in several}
    expected = f" {words.pop()}" if len(words) == 1 else " values"
    return _plain((), fits, f"give a tuple of {len(several)}{expected}.")


def _iterable(element: Any) -> Kind:
    accepts, words = _elements(element)

    def fits(value: Any) -> bool:
        if isinstance(value, (str, bytes)) or not isinstance(value, abc.Iterable):
            return False
        if isinstance(value, abc.Iterator):
            return True  # it is listed first
        value = _listed(value)
        return not isinstance(value, np.ndarray) and all(map(accepts, value))

    return _plain((), fits, f"give a list of {words}.")._replace(listed=True)


def _mapping(key: Any, element: Any) -> Kind:
    is_key, _ = _elements(key)
    accepts, words = _elements(element)

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            is_key(k) and accepts(v) for k, v in value.items()
        )

    return _plain((), fits, f"give a dict of {words}.")


# --- calls ----------------------------------------------------------------------------------------


def check(call: str, name: str, value: Any, hint: Any, refuse: Refusal) -> None:
    """Raise what `refuse` makes unless an annotation takes a value."""
    kind = kind_of(hint)
    if kind is not None and type(value) not in kind.quick and not kind.accepts(value):
        raise refusal(call, name, value, kind, refuse)


def refusal(call: str, name: str, value: object, kind: Kind, refuse: Refusal) -> IPUTeachError:
    """Return the error of an argument of the wrong kind."""
    return refuse(f"{call}() was given {shown(value)} as {name}.", kind.advice(value))


def hints_of(function: Any) -> dict[str, Any]:
    """Return the annotations of a function by parameter; without those that cannot be resolved."""
    resolved: dict[str, Any] = {}
    function = inspect.unwrap(function)
    namespace = getattr(function, "__globals__", {})
    names = {**vars(sys.modules.get(function.__module__, types)), **namespace}
    for name, hint in getattr(function, "__annotations__", {}).items():
        try:
            resolved[name] = eval(hint, names) if isinstance(hint, str) else hint
        except Exception:  # a name that only type checkers see
            continue
    return resolved


class _Plan(NamedTuple):
    """The kinds of a signature: of the parameters by place, of `*args` from `end` on, of those by
    name, and of all others by name."""

    places: tuple[tuple[int, str, Kind], ...]
    end: int
    rest: tuple[str, Kind] | None
    names: Mapping[str, Kind]
    others: Kind | None
    is_listed: bool


def _plan(function: Any, only: Callable[[str, Any], bool] | None) -> _Plan:
    hints = {n: hint for n, hint in hints_of(function).items() if only is None or only(n, hint)}
    kinds = {name: kind for name, hint in hints.items() if (kind := kind_of(hint)) is not None}
    parameters = [*inspect.signature(function).parameters.values()]
    by_place = [p.name for p in parameters if p.kind in _BY_PLACE]
    rest = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL and p.name in kinds]
    others = [kinds.get(p.name) for p in parameters if p.kind is p.VAR_KEYWORD]
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return _Plan(
        tuple((i, name, kinds[name]) for i, name in enumerate(by_place) if name in kinds),
        len(by_place),
        (rest[0], kinds[rest[0]]) if rest else None,
        {name: kind for name, kind in kinds.items() if name in named},
        others[0] if others else None,
        any(kind.listed for kind in kinds.values()),
    )


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checked(
    refuse: Refusal, only: Callable[[str, Any], bool] | None = None
) -> Callable[[Call], Call]:
    """Return a decorator whose functions check their arguments before the body runs.

    `refuse(sentence, advice)` makes the error. `only(parameter, annotation)` returns whether to
    check a parameter; by default all are checked.
    """

    def decorated(function: Any) -> Any:
        plan: _Plan | None = None

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal plan
            if plan is None:
                plan = _plan(function, only)
            places, end, rest, names, others, is_listed = plan
            if is_listed:
                args, kwargs = _read_iterators(plan, args, kwargs)
            positional_count = len(args)
            for place, name, kind in places:
                if place >= positional_count:
                    break
                value = args[place]
                if type(value) not in kind.quick and not kind.accepts(value):
                    raise refusal(_title(function, args), name, value, kind, refuse)
            if rest is not None:
                for value in args[end:]:
                    if not rest[1].accepts(value):
                        raise refusal(_title(function, args), rest[0], value, rest[1], refuse)
            for name, value in kwargs.items():
                known = names.get(name, others)
                if (
                    known is not None
                    and type(value) not in known.quick
                    and not known.accepts(value)
                ):
                    raise refusal(_title(function, args), name, value, known, refuse)
            return function(*args, **kwargs)

        return call

    return decorated


def is_flag(_: str, hint: Any) -> bool:
    """Return whether an annotation says that a parameter is True or False."""
    return hint is bool


def _title(function: Any, args: Any) -> str:
    """Return the name of a call for an error; of a class, the name of what it makes."""
    name: str = function.__name__
    return type(args[0]).__name__ if name in ("__init__", "__call__") else name


def _read_iterators(
    plan: _Plan, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with a list in the place of each iterator that is read."""

    def read(kind: Kind | None, value: Any) -> Any:
        is_read = kind is not None and kind.listed and isinstance(value, abc.Iterator)
        return list(value) if is_read else value

    kinds = {place: kind for place, _, kind in plan.places}
    by_name = {name: read(plan.names.get(name), v) for name, v in kwargs.items()}
    return tuple(read(kinds.get(i), v) for i, v in enumerate(args)), by_name


def check_class(member: type[Any], refuse: Refusal) -> None:
    """Check the arguments of a class's public methods, and of what makes its objects."""
    for name, method in list(vars(member).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if inspect.isfunction(method):
            setattr(member, name, checked(refuse)(method))
        elif isinstance(method, classmethod):
            setattr(member, name, classmethod(checked(refuse)(method.__func__)))


def check_calls(module: dict[str, Any], refuse: Refusal, without: Collection[str] = ()) -> None:
    """Check the arguments of the public functions that a module defines, and of the public methods
    of its classes: its last line is `check_calls(globals(), …)`. `without`: names that stay as they
    are."""
    for name, member in list(module.items()):
        if name in without or getattr(member, "__module__", "") != module["__name__"]:
            continue
        if inspect.isfunction(member) and not name.startswith("_"):
            module[name] = checked(refuse)(member)
        elif inspect.isclass(member) and not issubclass(member, (BaseException, Enum)):
            check_class(member, refuse)
