"""The decorator of library functions: it checks every call's arguments and names it in errors.

    @library
    def transpose(graph: Graph, x: Matrix, prog: Program, debug_context: str = OWN) -> Tensor: ...

The annotations in the signature decide what is checked before the body runs, in this order:

* the graph, the Sequence, the name and the flags have the right type;
* each Tensor belongs to the graph and has the number of dimensions that its annotation allows
  (`Row`, `Matrix`, …);
* each Tensor is mapped to tiles (except for `Loose`);
* each argument annotated with an `advised` class is an instance of it.

If the body raises one of Python's own errors, the error names the first argument that does not fit
its annotation. During a call, `calling()` returns the function's name for checks and errors. A
nested call of another library function replaces this name until it returns. All arguments are
checked before the call changes the graph, so a caught error leaves the graph unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache, update_wrapper, wraps
from typing import (
    Annotated,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
)

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import ADVICE, FLAG, WORDS, advised as advised, check_class, kind_of
from ipu_teach.errors import InvalidTileMappingError, IPUTeachError, PoplibsError, shown
from ipu_teach.graph import Graph, Shape, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.mapping import pieces_by_tile
from ipu_teach.graph.tensor import as_shape
from ipu_teach.graph.tile_map import UNMAPPED
from ipu_teach.poplibs.orders import in_order
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import BOOL, DType, to_host_array

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
C = TypeVar("C", bound=type[Any])
Hints = dict[str, Any]  # annotations by parameter; typing has no common type for annotations
Arguments = dict[str, Any]  # arguments by parameter, not yet checked
OWN = "the function's name"  # a default of `debug_context` that stands for the function's name
NAMES = "name", "debug_context"
NAME = "give a name: text, in quotes."
MOST_SIZE = 2**63
_calling = ContextVar("calling", default="")


class Wants(NamedTuple):
    """The requirements on a tensor argument, in addition to being a tensor of the graph.

    `ranks` are the permitted numbers of dimensions (empty: any number). `mapped` is whether every
    element must be mapped to a tile.
    """

    ranks: tuple[int, ...] = ()
    mapped: bool = True


Row = Annotated[Tensor, Wants((1,))]
Matrix = Annotated[Tensor, Wants((2,))]
AnyNumber = float  # NaN and infinities are permitted
Rows = Annotated[Tensor, Wants(tuple(range(2, 10)))]  # two dimensions or more
Loose = Annotated[Tensor, Wants(mapped=False)]  # not necessarily mapped to tiles
Free = Annotated[Tensor, None]  # checked by the function itself
# Python's own errors that the body of a function may raise for an argument of the wrong type
PYTHONS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def _error_of(problem: str, advice: str) -> PoplibsError:
    return PoplibsError(problem, next_step=advice)


def described(kind: C) -> C:
    """Decorate a parameter class so that its fields are checked when a user creates an instance.

    Instances that a library function creates are not checked: the function checks its own arguments
    and names them in errors.
    """
    unchecked = kind.__init__
    check_class(kind, _error_of)
    checked_init = kind.__init__

    @wraps(unchecked)
    def initialise(self: object, *arguments: Any, **named: Any) -> None:
        (unchecked if calling() else checked_init)(self, *arguments, **named)

    vars_of: Any = kind
    vars_of.__init__ = initialise
    return kind


def calling() -> str:
    """Return the name of the library function that is being called, or "" outside of calls."""
    return _calling.get()


def refused(says: str, where: object = "", next_step: str = "") -> PoplibsError:
    """Return the error of the current call, to be raised: `raise refused("needs …", x, "give …")`.

    `says` continues the sentence that begins with the function's name. `where` is a tensor or text.
    `says` may also be the full message, with lines that begin with `where:` and `next:`.
    """
    return PoplibsError(
        f"{calling()}() {says}",
        where=where if isinstance(where, str) else repr(where),
        next_step=next_step,
    )


def as_given(value: object, argument: str, next_step: str) -> PoplibsError:
    """Return the error for a wrong argument; it contains the argument's value and name.

    raise as_given(plan, "plan", "give what embedding_plan returns.")
    """
    return refused(f"was given {shown(value)} as {argument}.", next_step=next_step)


def library(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with its arguments checked at every call.

    A default of `OWN` for `debug_context` becomes the function's name.
    """
    name = function.__qualname__
    signature = inspect.signature(function)
    parameters = [_as_seen(p, name) for p in signature.parameters.values()]
    signature = signature.replace(parameters=parameters)
    body: Callable[..., R] = function
    names = signature.parameters.keys()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    places = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    # an `__init__` is reported under the name of its class
    of_class = function.__name__.startswith("__")
    # evaluated at the first call: types may be defined further down in the module
    wants = cache(lambda: _wants(get_type_hints(function, include_extras=True)))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # Signature.bind would take several times as long as all checks of an operation on a few
        # elements.
        arguments = {**defaults, **dict(zip(places, args, strict=False)), **kwargs}
        twice = kwargs and not kwargs.keys().isdisjoint(places[: len(args)])
        before = _calling.set(type(args[0]).__name__ if of_class else name)
        try:
            if twice or len(args) > len(places) or arguments.keys() != names:
                # Python's own error names the argument that does not fit
                return function(*args, **kwargs)
            _check(arguments, *wants())
            with working(f"build {name}"):
                return body(**arguments)
        except (PoplibsError, *PYTHONS) as error:
            hints = get_type_hints(function, include_extras=True)
            is_kind = isinstance(error, (PoplibsError, TypeError)) and not of_class
            if is_kind and (line := in_order(name, signature, hints, args)):
                raise refused(
                    "was given its arguments in another order.",
                    str(error).splitlines()[0],
                    f"write {line}.",
                ) from None
            if not isinstance(error, IPUTeachError) and (misfit := _misfit_of(arguments, hints)):
                raise as_given(*misfit) from error
            raise
        finally:
            _calling.reset(before)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _misfit_of(arguments: Arguments, hints: Hints) -> tuple[object, str, str] | None:
    """Return (value, name, advice) of the first argument that does not fit its annotation.

    None means that all arguments fit.
    """
    for name, value in arguments.items():
        kind = None if hints.get(name) is Free else kind_of(hints.get(name, Any))
        if kind is not None and not kind.accepts(value):
            return value, name, kind.advice(value)
    return None


def _as_seen(parameter: inspect.Parameter, name: str) -> inspect.Parameter:
    """Return a parameter as help() shows it.

    Annotations of checked tensors become Tensor, and the default `OWN` becomes `name`.
    """
    if parameter.annotation in ("Row", "Matrix", "Rows", "Loose", "Free"):
        parameter = parameter.replace(annotation="Tensor")
    return parameter.replace(default=name) if parameter.default is OWN else parameter


def variant(
    core: Callable[Concatenate[A, P], R], fixed: A, without: Sequence[str] = ()
) -> Callable[[Callable[[], None]], Callable[P, R]]:
    """Return a decorator that creates a library function: `core` with its first argument `fixed`.

    The function has the name and docstring of the decorated stub. Its signature lacks the first
    parameter of `core` and the parameters listed in `without`, which must have defaults.
    """
    signature = inspect.signature(core)
    _, *free = signature.parameters.values()
    signature = signature.replace(parameters=[p for p in free if p.name not in without])

    def named(stub: Callable[[], None]) -> Callable[P, R]:
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            # `library` passes all arguments by keyword if they fit the signature
            if args or kwargs.keys() != signature.parameters.keys():
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:  # Python's own error would name `core`
                    raise TypeError(f"{stub.__name__}() {error}") from None
            return core(fixed, *args, **kwargs)

        update_wrapper(function, stub)
        function.__annotations__ = core.__annotations__
        function.__wrapped__ = core  # type: ignore[attr-defined]
        function.__signature__ = signature  # type: ignore[attr-defined]
        return library(function)

    return named


def _wants(hints: Hints) -> tuple[bool, list[str], dict[str, Wants], Arguments]:
    """Return the requirements of a signature, from its annotations.

    The requirements are whether the function appends to a Sequence, the names of its flags, the
    `Wants` of each tensor, and (class, advice) for each argument of an advised class and each name.
    """
    hints = {n: h for n, h in hints.items() if n != "return"}
    of_tensors = {
        n: next(iter(getattr(h, "__metadata__", ())), None) if h is not Tensor else Wants()
        for n, h in hints.items()
    }
    return (
        hints.get("prog") is Program,
        [n for n, h in hints.items() if h is bool],
        {n: w for n, w in of_tensors.items() if isinstance(w, Wants)},
        {n: (h, advice) for n, h in hints.items() if (advice := _advice(h))}
        | {
            n: (h, NAME)
            for n, h in hints.items()
            if n in ("name", "debug_context") and h in (str, str | None)
        },
    )


def _advice(hint: Any) -> str:
    """Return the advice of the advised class in a hint, or "" if there is none.

    The class may be part of a union, such as `Kind | None`.
    """
    classes = (kind for kind in (*get_args(hint), hint) if isinstance(kind, type))
    return next((ADVICE[kind] for kind in classes if kind in ADVICE), "")


def _check(
    arguments: Arguments,
    appends: bool,
    flags: list[str],
    tensors: dict[str, Wants],
    kinds: Arguments,
) -> None:
    """Raise `PoplibsError` unless the arguments meet the requirements, as returned by `_wants`."""
    has_graph = "graph" in arguments or hasattr(arguments.get("self"), "_graph")
    if has_graph:
        graph = arguments["graph"] if "graph" in arguments else arguments["self"]._graph
        check_graph(graph)
        if appends:
            check_prog(arguments["prog"])
            check_name(arguments.get("debug_context", ""))
    for name in flags:
        if not isinstance(arguments[name], FLAG):
            raise as_given(arguments[name], name, WORDS)
    if has_graph:
        for name, wants in tensors.items():
            check_tensor(graph, name, arguments[name], wants.ranks)
        for name, wants in tensors.items():
            if wants.mapped:
                check_mapped(graph, name, arguments[name])
    for name, (kind, advice) in kinds.items():
        if not isinstance(arguments[name], kind):
            raise as_given(arguments[name], name, advice)


def check_dtype(argument: str, tensor: Tensor, *dtypes: type[DType]) -> None:
    """Raise `PoplibsError` unless `tensor`, the argument of that name, has one of the `dtypes`."""
    if tensor.dtype not in dtypes:
        names = " and ".join(d.__name__ for d in dtypes)
        raise refused(
            f"works on {names}, but {argument} is {tensor.dtype.__name__}.",
            tensor,
            "cast it with popops.cast.",
        )


def check_graph(graph: object) -> None:
    """Raise `PoplibsError` unless `graph` is a Graph."""
    if not isinstance(graph, Graph):
        raise as_given(graph, "its graph", "give the Graph first.")


def check_prog(prog: object) -> None:
    """Raise `PoplibsError` unless `prog` is a Sequence, to which library calls append."""
    if not isinstance(prog, Program):
        raise as_given(prog, "prog", "give a Sequence; the call appends to it.")


def check_name(name: object, argument: str = "debug_context") -> None:
    """Raise `PoplibsError` unless `name` is text."""
    if not isinstance(name, str):
        raise as_given(name, argument, NAME)


def check_tensor(graph: Graph, argument: str, tensor: object, ranks: tuple[int, ...] = ()) -> None:
    """Raise `PoplibsError` unless `tensor` is a tensor of `graph` with one of the `ranks`.

    An empty tuple of `ranks` permits any number of dimensions.
    """
    if not isinstance(tensor, Tensor):
        raise as_given(tensor, argument, "give a tensor.")
    if not graph.owns(tensor):
        raise refused(
            f"was given a tensor of another graph as {argument}.",
            tensor,
            "use one graph throughout.",
        )
    if ranks and tensor.rank not in ranks:
        is_range = len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1))
        wanted = f"{ranks[0]} to {ranks[-1]}" if is_range else " or ".join(str(r) for r in ranks)
        raise refused(f"""needs {argument} with {wanted} dimension{"s" if wanted != "1" else ""}; it
            has {tensor.rank}.
            where: {tensor!r}
            next:  reshape, flatten or index the tensor.""")


def check_mapped(graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `InvalidTileMappingError` unless every element of `tensor` is mapped to a tile."""
    tile_map = graph.tile_map()
    if np.any(tile_map.split(*tensor.byte_extent())[3] == UNMAPPED):
        _, count, tile = pieces_by_tile(tensor, tile_map)
        missing = int(count[tile == UNMAPPED].sum())
        raise InvalidTileMappingError(f"""{calling()}() was given {argument} with {missing:,} of its
            {tensor.num_elements:,} elements on no tile.
            where: {tensor!r}
            next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph,
            tensor).""")


def check_same(kinds: str, a: object, b: object, where: str, advice: str) -> None:
    """Raise `PoplibsError` unless `a` and `b`, such as two dtypes or two shapes, are equal.

    `kinds` is their plural in the message, such as "shapes".
    """
    if a != b:
        raise refused(f"was given two {kinds} that differ: {a} and {b}.", where, advice)


def check_alike(
    shapes: str,
    dtypes: str = "cast one of them with popops.cast.",
    shape: Shape | None = None,
    **two: Tensor,
) -> None:
    """Raise `PoplibsError` unless two tensors, passed as keywords, have the same shape and dtype.

    `shapes` and `dtypes` are the advice in the errors. Without advice in `dtypes`, the dtypes may
    differ. `shape` is the required shape of the second tensor, by default that of the first.
    """
    (a, x), (b, y) = two.items()
    where = f"{a} {x!r} and {b} {y!r}"
    check_same("shapes", x.shape if shape is None else shape, y.shape, where, advice=shapes)
    if dtypes:
        check_same("dtypes", x.dtype, y.dtype, where, advice=dtypes)


def check_number(
    argument: str, value: object, dtype: type[DType], advice: str = "give a number."
) -> Any:
    """Return `value` as a numpy number of `dtype`.

    Raises `PoplibsError` if `value` is not a number, and `TensorCreationError` if it is out of
    range.
    """
    numbers = (int, float, np.integer, np.floating, *((np.bool_,) if dtype is BOOL else ()))
    if not isinstance(value, numbers) or (isinstance(value, bool) and dtype is not BOOL):
        raise as_given(value, argument, advice)
    return to_host_array(value, dtype, f"{calling()}(), {argument}")[()]  # type: ignore[arg-type, unused-ignore]


def check_sizes(target: object, minimum: int, **sizes: object) -> None:
    """Raise `PoplibsError` unless `target` is a Target and all `sizes` are large enough.

    A size is an integer of at least `minimum` and below 2**63.
    """
    if not isinstance(target, Target):
        raise as_given(target, "its target", "give graph.target.")
    for name, size in sizes.items():
        if not is_count(size, minimum):
            raise as_given(size, name, f"give a whole number of {minimum} or more.")
        if int(size) >= MOST_SIZE:  # type: ignore[call-overload]
            raise as_given(size, name, "give a whole number below 2**63.")


def check_shape(argument: object) -> Shape:
    """Return `argument` as a tuple of sizes. Raises `PoplibsError` if it is not a shape."""
    shape = as_shape(argument)
    if shape is None:
        raise refused(f"""was given the shape {shown(argument)}.
            next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).""")
    return shape


def is_count(value: object, minimum: int) -> bool:
    """Return whether `value` is an integer of at least `minimum`."""
    return is_whole(value) and int(value) >= minimum
