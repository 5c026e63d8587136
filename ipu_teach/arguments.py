"""Check the arguments of calls against their annotations, before the body of the function runs.

    check_calls(globals(), refuse)  # the last line of a module: its public functions and classes

    def pool(x: Value, kernel: Sequence[Count], kind: Annotated[str, Among(("max", "avg"))]): ...

The annotations of a function are read when it is first called. The following annotations are
checked: a class, `int`, `float`, `bool`, `str`, `type[DType]` and `Literal`; a union, sequence,
iterable or mapping of these; and `Annotated` with a marker from this module. Arguments with any
other annotation, such as `Any`, are not checked.

- `int` accepts Python's and numpy's integers below 2**63, but not True and False.
- `float` accepts real numbers that are finite in single precision. `Extended` also accepts
  infinities.
- A sequence is a list, a tuple, a range or an array of one dimension. Sets, and objects that can be
  read only once, are not accepted.
- If the annotation is `Iterable` or `Collection`, an iterator is accepted, and read once into a
  list.
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

# The annotation of a parameter, such as `int`, `list[int]` or `Annotated[...]`. Annotations have no
# common base class except `object`.
Hint: TypeAlias = Any
# Arguments are typed as `Any`, because a check at run time decides whether they are accepted.
Argument: TypeAlias = Any
Function: TypeAlias = Callable[..., Any]
Predicate: TypeAlias = Callable[[Argument], bool]
Kept = TypeVar("Kept", bound=type)
Call = TypeVar("Call", bound=Function)
# A function that returns whether to check a parameter, called with its name and annotation.
Choice: TypeAlias = Callable[[str, Hint], bool]
# A function that builds an error, called with a sentence and the advice.
Refusal: TypeAlias = Callable[[str, str], IPUTeachError]
FLAG = bool, np.bool_  # The types of a flag; values of other types, such as 1, are refused.
WORDS = "give True or False."
WHOLE = (int, np.integer)
REAL = (int, float, np.integer, np.floating)
BEYOND = 2**63
LARGEST = float(np.finfo(np.float32).max)
SEVERAL = (list, tuple, range)
NONE = type(None)


class Between(NamedTuple):
    """A marker in annotations: the number must be from `least` to `most`.

    With `is_open`, the number must be less than `most`. With `is_above`, it must be greater than
    `least`.
    """

    least: float
    most: float = float("inf")
    is_open: bool = False
    is_above: bool = False

    def accepts(self, value: float) -> bool:
        """Return whether the number `value` is in the range."""
        lower = value > self.least if self.is_above else value >= self.least
        return bool(lower and (value < self.most if self.is_open else value <= self.most))

    @property
    def words(self) -> str:
        """The range as text that follows "a number", such as " from 0 to 1"."""
        if self.most == float("inf"):
            return f" above {self.least:g}" if self.is_above else f" of {self.least:g} or more"
        lower_text = f"above {self.least:g}" if self.is_above else f"from {self.least:g}"
        return f" {lower_text} {'to below' if self.is_open else 'to'} {self.most:g}"


class Among:
    """A marker in annotations: the value must be one of the strings `names`.

    `names` may also be a function that returns the strings, for a table to which strings are added
    later.
    """

    def __init__(self, names: Collection[str] | Callable[[], Collection[str]]) -> None:
        self._names = names

    @property
    def names(self) -> Collection[str]:
        """The accepted strings."""
        return self._names() if callable(self._names) else self._names


class Taken(NamedTuple):
    """A marker in annotations: the value must be one for which `accepts` returns True.

    `advice` is the next step in the error about any other value, such as "give a finite number.".
    """

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
    """The check that belongs to an annotation: which values it accepts, and the advice for others.

    `accepts(value)` returns whether a value is accepted. A value whose type is in `quick` is
    accepted at once, without a call of `accepts`. `advice(value)` returns the next step for the
    error about a refused value. If `listed` is True, an iterator is read into a list before the
    check.
    """

    quick: frozenset[type]
    accepts: Predicate
    advice: Callable[[Argument], str]
    listed: bool = False


def is_whole(value: Argument) -> bool:
    """Return whether a value is an integer (not a bool) between -2**63 and 2**63, both excluded."""
    return (
        isinstance(value, WHOLE) and not isinstance(value, bool) and bool(-BEYOND < value < BEYOND)
    )


def _is_real(value: Argument) -> TypeGuard[float]:
    return isinstance(value, REAL) and not isinstance(value, bool)


def is_finite(value: Argument) -> bool:
    """Return whether a value is a real number (not a bool) that is finite in single precision."""
    return _is_real(value) and isfinite(value) and bool(abs(value) <= LARGEST)


def is_numeric(value: Argument) -> bool:
    """Return whether a value is a real number, or an array or nested lists of real numbers.

    True and False count as numbers.
    """
    if isinstance(value, REAL):
        return True
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except Exception:  # numpy cannot build an array from the value.
        return False


Numbers = Annotated[Any, Taken(is_numeric, "give real numbers: one, or an array of them.")]


def _an(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def _plain(quick: type | tuple[type, ...], accepts: Predicate, advice: str) -> Kind:
    quick_types = quick if isinstance(quick, tuple) else (quick,)
    return Kind(frozenset(quick_types), accepts, lambda value: advice)


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
    """Return a class decorator that sets the advice in errors about wrong arguments.

    If the annotation of a parameter is the decorated class, `advice` is the next step in errors
    about this parameter.
    """

    def known(kind: Kept) -> Kept:
        ADVICE[kind] = advice
        return kind

    return known


def kind_of(hint: Hint) -> Kind | None:
    """Return the check that belongs to an annotation; None if such annotations are not checked."""
    try:
        return _kind_of(hint)
    # Some annotations cannot be hashed, such as a Literal that contains a list.
    except TypeError:
        return None


@cache
def _kind_of(hint: Hint) -> Kind | None:
    origin: Hint = get_origin(hint)
    arguments = get_args(hint)
    if origin is Annotated:
        return _marked(kind_of(arguments[0]), hint.__metadata__)
    if origin is Literal:
        return _texts(Among(arguments))
    if origin in (Union, types.UnionType):
        return _union([kind_of(member) for member in arguments])
    if origin is type:
        return _class(arguments[0])
    if origin is tuple and arguments[-1:] != (...,):
        return _tuple(arguments)
    if origin in (tuple, abc.Sequence):
        return _series(arguments[0], SEVERAL)
    if origin is list:
        return _series(arguments[0], (list,))
    if origin in (abc.Iterable, abc.Collection):
        return _iterable(arguments[0])
    if origin in (abc.Mapping, dict):
        return _mapping(*arguments)
    kind = _PLAIN.get(origin or hint)
    if kind is None and isinstance(origin, type):
        hint = origin  # A generic alias such as NDArray[float32] is checked as its class.
    if kind is None and isinstance(hint, type) and hint not in (object, Any):
        advice = ADVICE.get(hint, f"give {_an(hint.__name__)}.")
        if issubclass(hint, Enum):
            advice = f"give one of {', '.join(map(str, hint))}."
        kind = _plain(hint, lambda v: isinstance(v, hint), advice)
    return kind


def _class(base: Hint) -> Kind | None:
    if not isinstance(base, type):
        return None
    advice = f"give a class of {base.__name__}."
    # The class is recognised by its name, because the module of DType imports this module.
    if base.__name__ == "DType":
        advice = "give a dtype of the kit, as FLOAT."
    return _plain((), lambda value: isinstance(value, type) and issubclass(value, base), advice)


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
    checkable = [kind for kind in kinds if kind is not None]
    if len(checkable) < len(kinds):
        return None
    shown_kinds = [kind for kind in checkable if kind is not _PLAIN[NONE]] or checkable

    def advise(value: Argument) -> str:
        texts = [kind.advice(value).removeprefix("give ").removesuffix(".") for kind in shown_kinds]
        if len(texts) == 1:
            return shown_kinds[0].advice(value)
        return f"give {', or '.join(texts)}."

    return Kind(
        frozenset().union(*(kind.quick for kind in checkable)),
        lambda v: any(kind.accepts(v) for kind in checkable),
        advise,
        any(kind.listed for kind in checkable),
    )


def _elements(element: Hint) -> tuple[Predicate, str]:
    """Return `(accepts, description)` for the elements of a list, tuple or dict.

    `accepts(value)` returns whether an element fits the annotation `element`. `description` is a
    noun phrase for all elements, used in error messages, such as "values, each a number".
    """
    kind = kind_of(element)
    if kind is None:
        return (lambda value: True), "values"
    description = kind.advice(None).removeprefix("give ").removesuffix(".").split(": ")[-1]
    return kind.accepts, f"values, each {description}"


def _listed(value: Argument) -> Argument:
    """Return a one-dimensional array of real numbers as a list, and any other value unchanged."""
    is_row = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
    return value.tolist() if is_row else value


def _series(element: Hint, classes: tuple[type, ...]) -> Kind:
    accepts, description = _elements(element)

    def fits(value: Argument) -> bool:
        value = _listed(value)
        return isinstance(value, classes) and all(map(accepts, value))  # type: ignore[call-overload]

    return _plain((), fits, f"give a list or tuple of {description}.")


def _tuple(elements: tuple[Hint, ...]) -> Kind:
    checks = [_elements(element) for element in elements]

    def fits(value: Argument) -> bool:
        value = _listed(value)
        return (
            isinstance(value, SEVERAL)
            and len(value) == len(checks)
            and all(accepts(item) for (accepts, _), item in zip(checks, value, strict=True))
        )

    descriptions = {description for _, description in checks}
    expected = f" {descriptions.pop()}" if len(descriptions) == 1 else " values"
    return _plain((), fits, f"give a tuple of {len(checks)}{expected}.")


def _iterable(element: Hint) -> Kind:
    accepts, description = _elements(element)

    def fits(value: Argument) -> bool:
        if isinstance(value, (str, bytes)) or not isinstance(value, abc.Iterable):
            return False
        if isinstance(value, abc.Iterator):
            # Checking the elements would use up the iterator. In a checked call, lists have already
            # replaced the iterators.
            return True
        value = _listed(value)
        return not isinstance(value, np.ndarray) and all(map(accepts, value))

    return _plain((), fits, f"give a list of {description}.")._replace(listed=True)


def _mapping(key: Hint, element: Hint) -> Kind:
    is_key, _ = _elements(key)
    accepts, description = _elements(element)

    def fits(value: Argument) -> bool:
        return isinstance(value, Mapping) and all(
            is_key(name) and accepts(item) for name, item in value.items()
        )

    return _plain((), fits, f"give a dict of {description}.")


# --- calls ----------------------------------------------------------------------------------------


def check(call: str, name: str, value: Argument, hint: Hint, refuse: Refusal) -> None:
    """Raise the error that `refuse` builds if the annotation `hint` does not accept `value`.

    `call` is the name of the function, and `name` is the name of the parameter.
    """
    kind = kind_of(hint)
    if kind is not None and type(value) not in kind.quick and not kind.accepts(value):
        raise refusal(call, name, value, kind=kind, refuse=refuse)


def refusal(call: str, name: str, value: Argument, kind: Kind, refuse: Refusal) -> IPUTeachError:
    """Return the error that `refuse` builds for an argument that the check `kind` refuses."""
    return refuse(f"{call}() was given {shown(value)} as {name}.", kind.advice(value))


def hints_of(function: Function) -> dict[str, Hint]:
    """Return a function's annotations by parameter; those that cannot be evaluated are left out."""
    resolved: dict[str, Hint] = {}
    function = inspect.unwrap(function)
    module_globals = getattr(function, "__globals__", {})
    namespace = {**vars(sys.modules.get(function.__module__, types)), **module_globals}
    for name, hint in getattr(function, "__annotations__", {}).items():
        try:
            resolved[name] = eval(hint, namespace) if isinstance(hint, str) else hint
        except Exception:  # The annotation contains a name that only type checkers see.
            continue
    return resolved


class _Plan(NamedTuple):
    """The rules for the arguments of one function, with a `Kind` for each checked parameter.

    - `places` has (position, name, kind) for each checked parameter that may be passed by position.
    - `end` is the number of all parameters that may be passed by position, checked or not.
    - `rest` is (name, kind) of `*args`, or None if `*args` is not checked.
    - `names` maps each checked parameter that may be passed by name to its kind.
    - `others` is the kind of the values of `**kwargs`, or None if they are not checked.
    - `is_listed` is True if any of these kinds has `listed`.
    """

    places: tuple[tuple[int, str, Kind], ...]
    end: int
    rest: tuple[str, Kind] | None
    names: Mapping[str, Kind]
    others: Kind | None
    is_listed: bool


def _plan(function: Function, only: Choice | None) -> _Plan:
    hints = {
        name: hint for name, hint in hints_of(function).items() if only is None or only(name, hint)
    }
    kinds = {name: kind for name, hint in hints.items() if (kind := kind_of(hint)) is not None}
    parameters = [*inspect.signature(function).parameters.values()]
    positional_names = [parameter.name for parameter in parameters if parameter.kind in _BY_PLACE]
    var_positional = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.VAR_POSITIONAL and parameter.name in kinds
    ]
    var_keyword = [
        kinds.get(parameter.name)
        for parameter in parameters
        if parameter.kind is parameter.VAR_KEYWORD
    ]
    names_by_keyword = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    return _Plan(
        tuple(
            (place, name, kinds[name])
            for place, name in enumerate(positional_names)
            if name in kinds
        ),
        len(positional_names),
        (var_positional[0], kinds[var_positional[0]]) if var_positional else None,
        names={name: kind for name, kind in kinds.items() if name in names_by_keyword},
        others=var_keyword[0] if var_keyword else None,
        is_listed=any(kind.listed for kind in kinds.values()),
    )


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checked(refuse: Refusal, only: Choice | None = None) -> Callable[[Call], Call]:
    """Return a decorator that makes a function check its arguments before its body runs.

    `refuse(sentence, advice)` builds the error. `only(parameter, annotation)` returns whether to
    check a parameter. If `only` is None, all parameters are checked.
    """

    def decorated(function: Call) -> Call:
        plan: _Plan | None = None

        @wraps(function)
        def call(*args: Argument, **kwargs: Argument) -> Argument:
            nonlocal plan
            if plan is None:
                plan = _plan(function, only)
            (
                positional_kinds,
                num_positional,
                kind_of_args,
                kinds_by_name,
                kind_of_kwargs,
                is_listed,
            ) = plan
            if is_listed:
                args, kwargs = _read_iterators(plan, args, kwargs)
            positional_count = len(args)
            for position, name, kind in positional_kinds:
                if position >= positional_count:
                    break
                value = args[position]
                if type(value) not in kind.quick and not kind.accepts(value):
                    raise refusal(_title(function, args), name, value, kind=kind, refuse=refuse)
            if kind_of_args is not None:
                for value in args[num_positional:]:
                    if not kind_of_args[1].accepts(value):
                        raise refusal(
                            _title(function, args),
                            kind_of_args[0],
                            value,
                            kind=kind_of_args[1],
                            refuse=refuse,
                        )
            for name, value in kwargs.items():
                keyword_kind = kinds_by_name.get(name, kind_of_kwargs)
                if (
                    keyword_kind is not None
                    and type(value) not in keyword_kind.quick
                    and not keyword_kind.accepts(value)
                ):
                    raise refusal(
                        _title(function, args), name, value, kind=keyword_kind, refuse=refuse
                    )
            return function(*args, **kwargs)

        return cast("Call", call)

    return decorated


def is_flag(_: str, hint: Hint) -> bool:
    """Return whether the annotation `hint` is `bool`."""
    return hint is bool


def _title(function: Function, args: tuple[Argument, ...]) -> str:
    """Return the name of a call, used in error messages.

    For a constructor or `__call__`, it is the name of the class.
    """
    name: str = function.__name__
    return type(args[0]).__name__ if name in ("__init__", "__call__") else name


def _read_iterators(
    plan: _Plan, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """Return `(args, kwargs)` with lists in place of iterators.

    An iterator is replaced only if the kind of its parameter has `listed`.
    """

    def read(kind: Kind | None, value: Argument) -> Argument:
        is_read = kind is not None and kind.listed and isinstance(value, abc.Iterator)
        return list(value) if is_read else value

    kind_by_place = {place: kind for place, _, kind in plan.places}
    new_kwargs = {name: read(plan.names.get(name), v) for name, v in kwargs.items()}
    return tuple(read(kind_by_place.get(i), v) for i, v in enumerate(args)), new_kwargs


def check_class(member: type, refuse: Refusal) -> None:
    """Make the public methods, the constructor and `__call__` of a class check their arguments."""
    for name, method in list(vars(member).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if inspect.isfunction(method):
            setattr(member, name, checked(refuse)(method))
        elif isinstance(method, classmethod):
            setattr(member, name, classmethod(checked(refuse)(method.__func__)))


def check_calls(module: dict[str, Any], refuse: Refusal, without: Collection[str] = ()) -> None:
    """Make the public functions and classes of a module check their arguments.

    `module` is `globals()`: the last line of a module calls this function. `without` has the names
    of functions and classes that are not checked.
    """
    for name, member in list(module.items()):
        if name in without or getattr(member, "__module__", "") != module["__name__"]:
            continue
        if inspect.isfunction(member) and not name.startswith("_"):
            module[name] = checked(refuse)(member)
        elif inspect.isclass(member) and not issubclass(member, (BaseException, Enum)):
            check_class(member, refuse)
