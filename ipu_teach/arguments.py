"""Checks of arguments: read from the annotations, and run before the body of a call.

    check_calls(globals(), refuse)  # the last line of a module: its public functions and classes

    def pool(x: Value, kernel: Sequence[Count], kind: Annotated[str, Among(("max", "avg"))]): ...

The annotations of a function are read when it is first called. An annotation may be a class, `int`,
`float`, `bool`, `str`, `type[DType]`, a `Literal`, a union, a sequence, an iterable or a mapping of
those, or one of them with a marker of this module. Any other annotation, such as `Any`, is not
checked.

- `int` accepts Python's and numpy's integers below 2**63, but not True and False.
- `float` accepts real numbers that are finite in single precision; `Extended` also infinities.
- A sequence is a list, a tuple, a range or an array of one dimension. Sets, and objects that can be
  read only once, are not accepted.
- For `Iterable` and `Collection`, an iterator is read once, into a list.
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
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import numpy as np

from ipu_teach.errors import IPUTeachError, did_you_mean, shown

# An annotation, such as `int`, `list[int]` or `Annotated[...]`. They share no class but `object`.
Hint: TypeAlias = Any
# An argument of a call that is to be checked: any object, as the check decides what it may be.
Argument: TypeAlias = Any
Function: TypeAlias = Callable[..., Any]
Predicate: TypeAlias = Callable[[Argument], bool]
Kept = TypeVar("Kept", bound=type)
Call = TypeVar("Call", bound=Function)
Choice: TypeAlias = Callable[[str, Hint], bool]  # from a parameter and its annotation
Refusal: TypeAlias = Callable[[str, str], IPUTeachError]  # from a sentence and what to do next
FLAG = bool, np.bool_  # so 1 and "yes" are not accepted
WORDS = "give True or False."
WHOLE = (int, np.integer)
REAL = (int, float, np.integer, np.floating)
BEYOND = 2**63
LARGEST = float(np.finfo(np.float32).max)
SEVERAL = (list, tuple, range)
NONE = type(None)


class Between(NamedTuple):
    """A marker: a number from `least` to `most`.

    With `is_open`, the number must be less than `most`, and with `is_above`, more than `least`.
    """

    least: float
    most: float = float("inf")
    is_open: bool = False
    is_above: bool = False

    def accepts(self, value: float) -> bool:
        """Return whether a number is in the range."""
        lower = value > self.least if self.is_above else value >= self.least
        return bool(lower and (value < self.most if self.is_open else value <= self.most))

    @property
    def words(self) -> str:
        """The range as text that follows "a number", such as " from 0 to 1"."""
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
        """The accepted texts."""
        return self._names() if callable(self._names) else self._names


class Taken(NamedTuple):
    """A marker: a value for which `accepts` returns True. `advice` describes such values."""

    accepts: Predicate
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
    """The values that a parameter accepts.

    Values of the types in `quick` are accepted without a call of `accepts`. `advice(value)` says
    what to pass instead of a refused value. `listed` means that an iterator is read into a list.
    """

    quick: frozenset[type]
    accepts: Predicate
    advice: Callable[[Argument], str]
    listed: bool = False


def is_whole(value: Argument) -> bool:
    """Return whether a value is an integer below 2**63, and not True or False."""
    return (
        isinstance(value, WHOLE) and not isinstance(value, bool) and bool(-BEYOND < value < BEYOND)
    )


def _is_real(value: Argument) -> TypeGuard[float]:
    return isinstance(value, REAL) and not isinstance(value, bool)


def is_finite(value: Argument) -> bool:
    """Return whether a value is a real number, no bool, and finite in single precision."""
    return _is_real(value) and isfinite(value) and bool(abs(value) <= LARGEST)


def is_numeric(value: Argument) -> bool:
    """Return whether a value is a real number, or an array or nested lists of real numbers."""
    if isinstance(value, REAL):
        return True
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except Exception:  # a list of rows of different lengths, or an object that is not an array
        return False


Numbers = Annotated[Any, Taken(is_numeric, "give real numbers: one, or an array of them.")]


def _an(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def _plain(quick: type | tuple[type, ...], accepts: Predicate, advice: str) -> Kind:
    several = quick if isinstance(quick, tuple) else (quick,)
    return Kind(frozenset(several), accepts, lambda value: advice)


_PLAIN: dict[Hint, Kind] = {
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
    """Return a decorator of a class: `advice` says what to pass for an annotation that names it."""

    def known(kind: Kept) -> Kept:
        ADVICE[kind] = advice
        return kind

    return known


def kind_of(hint: Hint) -> Kind | None:
    """Return the kind of an annotation; None if the annotation cannot be checked."""
    try:
        return _kind_of(hint)
    except TypeError:  # the hint cannot be hashed, such as a Literal with a list in it
        return None


@cache
def _kind_of(hint: Hint) -> Kind | None:
    origin: Hint = get_origin(hint)
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


def _class(base: Hint) -> Kind | None:
    if not isinstance(base, type):
        return None
    advice = f"give a class of {base.__name__}."
    if base.__name__ == "DType":  # dtypes check arguments too, so this module cannot import them
        advice = "give a dtype of the kit, as FLOAT."
    return _plain((), lambda v: isinstance(v, type) and issubclass(v, base), advice)


def _texts(among: Among) -> Kind:
    def advise(value: Argument) -> str:
        return f"{did_you_mean(value, among.names)}give {' or '.join(map(repr, among.names))}."

    return Kind(frozenset(), lambda v: isinstance(v, (str, NONE)) and v in among.names, advise)


def _marked(kind: Kind | None, markers: tuple[Between | Among | Taken, ...]) -> Kind | None:
    for marker in markers:
        if isinstance(marker, Among):
            return _texts(marker)
        if isinstance(marker, Taken):
            return _plain((), marker.accepts, marker.advice)
        if isinstance(marker, Between) and kind is not None:
            noun = "a whole number" if kind is _PLAIN[int] else "a number"
            return _plain((), partial(_fits, kind, marker), f"give {noun}{marker.words}.")
    return kind


def _fits(kind: Kind, marker: Between, value: Argument) -> bool:
    return kind.accepts(value) and marker.accepts(value)


def _union(kinds: list[Kind | None]) -> Kind | None:
    several = [kind for kind in kinds if kind is not None]
    if len(several) < len(kinds):
        return None
    shown_kinds = [kind for kind in several if kind is not _PLAIN[NONE]] or several

    def advise(value: Argument) -> str:
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


def _elements(element: Hint) -> tuple[Predicate, str]:
    """Return the check of the elements of a series, and the words that describe several of them."""
    kind = kind_of(element)
    if kind is None:
        return (lambda v: True), "values"
    words = kind.advice(None).removeprefix("give ").removesuffix(".").split(": ")[-1]
    return kind.accepts, f"values, each {words}"


def _listed(value: Argument) -> Argument:
    """Return a one-dimensional array of real numbers as a list; anything else unchanged."""
    is_row = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
    return value.tolist() if is_row else value


def _series(element: Hint, classes: tuple[type, ...]) -> Kind:
    accepts, words = _elements(element)

    def fits(value: Argument) -> bool:
        value = _listed(value)
        return isinstance(value, classes) and all(map(accepts, value))  # type: ignore[call-overload]

    return _plain((), fits, f"give a list or tuple of {words}.")


def _tuple(elements: tuple[Hint, ...]) -> Kind:
    several = [_elements(element) for element in elements]

    def fits(value: Argument) -> bool:
        value = _listed(value)
        return (
            isinstance(value, SEVERAL)
            and len(value) == len(several)
            and all(accepts(v) for (accepts, _), v in zip(several, value, strict=True))
        )

    words = {words for _, words in several}
    expected = f" {words.pop()}" if len(words) == 1 else " values"
    return _plain((), fits, f"give a tuple of {len(several)}{expected}.")


def _iterable(element: Hint) -> Kind:
    accepts, words = _elements(element)

    def fits(value: Argument) -> bool:
        if isinstance(value, (str, bytes)) or not isinstance(value, abc.Iterable):
            return False
        if isinstance(value, abc.Iterator):
            return True  # an iterator is read into a list before this check
        value = _listed(value)
        return not isinstance(value, np.ndarray) and all(map(accepts, value))

    return _plain((), fits, f"give a list of {words}.")._replace(listed=True)


def _mapping(key: Hint, element: Hint) -> Kind:
    is_key, _ = _elements(key)
    accepts, words = _elements(element)

    def fits(value: Argument) -> bool:
        return isinstance(value, Mapping) and all(
            is_key(k) and accepts(v) for k, v in value.items()
        )

    return _plain((), fits, f"give a dict of {words}.")


# --- calls ----------------------------------------------------------------------------------------


def check(call: str, name: str, value: Argument, hint: Hint, refuse: Refusal) -> None:
    """Raise the error of `refuse` if the annotation `hint` does not accept `value`.

    `call` and `name` are the names of the function and the parameter.
    """
    kind = kind_of(hint)
    if kind is not None and type(value) not in kind.quick and not kind.accepts(value):
        raise refusal(call, name, value, kind=kind, refuse=refuse)


def refusal(call: str, name: str, value: Argument, kind: Kind, refuse: Refusal) -> IPUTeachError:
    """Return the error for an argument that its `kind` does not accept."""
    return refuse(f"{call}() was given {shown(value)} as {name}.", kind.advice(value))


def hints_of(function: Function) -> dict[str, Hint]:
    """Return the annotations of a function by parameter, without those that cannot be resolved."""
    resolved: dict[str, Hint] = {}
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
    """The kinds of the parameters of a signature.

    `places` has (place, name, kind) of the positional parameters, and `end` is their number. `rest`
    is the (name, kind) of `*args`, `names` the kinds of parameters that may be passed by name, and
    `others` the kind of `**kwargs`. With `is_listed`, some iterators are read into lists.
    """

    places: tuple[tuple[int, str, Kind], ...]
    end: int
    rest: tuple[str, Kind] | None
    names: Mapping[str, Kind]
    others: Kind | None
    is_listed: bool


def _plan(function: Function, only: Choice | None) -> _Plan:
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
        names={name: kind for name, kind in kinds.items() if name in named},
        others=others[0] if others else None,
        is_listed=any(kind.listed for kind in kinds.values()),
    )


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checked(refuse: Refusal, only: Choice | None = None) -> Callable[[Call], Call]:
    """Return a decorator whose functions check their arguments before the body runs.

    `refuse(sentence, advice)` builds the error. `only(parameter, annotation)` returns whether to
    check a parameter; by default all are checked.
    """

    def decorated(function: Call) -> Call:
        plan: _Plan | None = None

        @wraps(function)
        def call(*args: Argument, **kwargs: Argument) -> Argument:
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
                    raise refusal(_title(function, args), name, value, kind=kind, refuse=refuse)
            if rest is not None:
                for value in args[end:]:
                    if not rest[1].accepts(value):
                        raise refusal(
                            _title(function, args), rest[0], value, kind=rest[1], refuse=refuse
                        )
            for name, value in kwargs.items():
                known = names.get(name, others)
                if (
                    known is not None
                    and type(value) not in known.quick
                    and not known.accepts(value)
                ):
                    raise refusal(_title(function, args), name, value, kind=known, refuse=refuse)
            return function(*args, **kwargs)

        return cast("Call", call)

    return decorated


def is_flag(_: str, hint: Hint) -> bool:
    """Return whether an annotation is `bool`, so that the parameter must be True or False."""
    return hint is bool


def _title(function: Function, args: tuple[Argument, ...]) -> str:
    """Return the name of a call for an error; for a constructor, the name of the class."""
    name: str = function.__name__
    return type(args[0]).__name__ if name in ("__init__", "__call__") else name


def _read_iterators(
    plan: _Plan, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """Return the arguments with each iterator that the plan lists replaced by a list."""

    def read(kind: Kind | None, value: Argument) -> Argument:
        is_read = kind is not None and kind.listed and isinstance(value, abc.Iterator)
        return list(value) if is_read else value

    kinds = {place: kind for place, _, kind in plan.places}
    by_name = {name: read(plan.names.get(name), v) for name, v in kwargs.items()}
    return tuple(read(kinds.get(i), v) for i, v in enumerate(args)), by_name


def check_class(member: type, refuse: Refusal) -> None:
    """Check the arguments of a class's public methods, of its constructor and of `__call__`."""
    for name, method in list(vars(member).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if inspect.isfunction(method):
            setattr(member, name, checked(refuse)(method))
        elif isinstance(method, classmethod):
            setattr(member, name, classmethod(checked(refuse)(method.__func__)))


def check_calls(module: dict[str, Any], refuse: Refusal, without: Collection[str] = ()) -> None:
    """Check the arguments of a module's public functions and of its classes' public methods.

    `module` is `globals()`, and the call is the last line of the module. `without` has the names
    that are not checked.
    """
    for name, member in list(module.items()):
        if name in without or getattr(member, "__module__", "") != module["__name__"]:
            continue
        if inspect.isfunction(member) and not name.startswith("_"):
            module[name] = checked(refuse)(member)
        elif inspect.isclass(member) and not issubclass(member, (BaseException, Enum)):
            check_class(member, refuse)
