"""The decorator of library functions: it checks the arguments of every call, and names the call in
errors.

    @library
    def transpose(graph: Graph, x: Matrix, prog: Program, debug_context: str = OWN) -> Tensor: ...

The signature decides what is checked before the body runs, in this order:

* the graph, the Sequence, the name and the flags;
* each Tensor belongs to the graph and has the number of dimensions that its annotation allows
  (`Row`, `Matrix`, …);
* each Tensor is mapped to tiles (except for `Loose`);
* each argument annotated with an `advised` class is an instance of it.

If the body raises one of Python's own errors, the error names the first argument that does not fit
its annotation. During the call `calling()` returns the function's name, so that checks and errors
need not pass it on. A call of another library function sets its own name, and restores this one
when it ends. All arguments of a call are checked before the graph is changed: after a caught error
the graph is as it was.
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
OWN = "the function's name"  # as debug_context, whose default becomes the name of the function
NAMES = "name", "debug_context"
NAME = "give a name: text, in quotes."
MOST_SIZE = 2**63
_calling = ContextVar("calling", default="")


class Wants(NamedTuple):
    """Requirements on a tensor argument, in addition to being a tensor of the graph.

    `ranks` are the permitted numbers of dimensions, () for any; `mapped` is whether it must be
    mapped to tiles.
    """

    ranks: tuple[int, ...] = ()
    mapped: bool = True


Row = Annotated[Tensor, Wants((1,))]
Matrix = Annotated[Tensor, Wants((2,))]
AnyNumber = float  # NaN and infinities are permitted
Rows = Annotated[Tensor, Wants(tuple(range(2, 10)))]  # two dimensions or more
Loose = Annotated[Tensor, Wants(mapped=False)]  # need not be mapped to tiles
Free = Annotated[Tensor, None]  # checked by the function itself
# Python's errors that an argument of the wrong kind may cause in a body
PYTHONS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def described(kind: C) -> C:
    """Check the fields of a class that describes a call when a user creates an instance.

    An instance that a library function creates is not checked: the function checks its own
    arguments, under their own names.
    """
    unchecked = kind.__init__
    check_class(kind, lambda problem, advice: PoplibsError(problem, next_step=advice))
    checked_init = kind.__init__

    @wraps(unchecked)
    def initialise(self: object, *arguments: Any, **named: Any) -> None:
        (unchecked if calling() else checked_init)(self, *arguments, **named)

    vars_of: Any = kind
    vars_of.__init__ = initialise
    return kind


def calling() -> str:
    """Return the name of the library function that is being called."""
    return _calling.get()


def refused(says: str, where: object = "", next_step: str = "") -> PoplibsError:
    """Return the error of the current call: `raise refused("needs …", x, "give …")`.

    The text may also span several lines, with `where:` and `next:` as they are printed.
    """
    return PoplibsError(
        f"{calling()}() {says}",
        where=where if isinstance(where, str) else repr(where),
        next_step=next_step,
    )


def as_given(value: object, argument: str, next_step: str) -> PoplibsError:
    """Return the error for a wrong argument, with its value and name.

    raise as_given(plan, "plan", "give what embedding_plan returns.")
    """
    return refused(f"was given {shown(value)} as {argument}.", next_step=next_step)


def library(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with its arguments checked at every call.

    If the default of its `debug_context` is `OWN`, the default becomes the function's name.
    """
    name = function.__qualname__
    signature = inspect.signature(function)
    parameters = [_as_seen(p, name) for p in signature.parameters.values()]
    signature = signature.replace(parameters=parameters)
    body: Callable[..., R] = function
    names = signature.parameters.keys()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    places = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    of_class = function.__name__.startswith("__")  # such as `__init__`, called by the class's name
    # evaluated at the first call, because types may be defined further down in the module
    wants = cache(lambda: _wants(get_type_hints(function, include_extras=True)))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # Not Signature.bind: it takes several times as long as all checks of an operation on a few
        # elements.
        arguments = {**defaults, **dict(zip(places, args, strict=False)), **kwargs}
        twice = kwargs and not kwargs.keys().isdisjoint(places[: len(args)])
        before = _calling.set(type(args[0]).__name__ if of_class else name)
        try:
            if twice or len(args) > len(places) or arguments.keys() != names:
                return function(*args, **kwargs)  # Python's error names what does not fit
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


def _misfit_of(arguments: dict[str, Any], hints: dict[str, Any]) -> tuple[Any, str, str] | None:
    """Return (value, name, what to give) of the first argument that does not fit its annotation."""
    for name, value in arguments.items():
        kind = None if hints.get(name) is Free else kind_of(hints.get(name, Any))
        if kind is not None and not kind.accepts(value):
            return value, name, kind.advice(value)
    return None


def _as_seen(parameter: inspect.Parameter, name: str) -> inspect.Parameter:
    """Return a parameter as help() shows it: checked tensors as Tensor, and `OWN` as the name."""
    if parameter.annotation in ("Row", "Matrix", "Rows", "Loose", "Free"):
        parameter = parameter.replace(annotation="Tensor")
    return parameter.replace(default=name) if parameter.default is OWN else parameter


def variant(
    core: Callable[Concatenate[A, P], R], fixed: A, without: Sequence[str] = ()
) -> Callable[[Callable[[], None]], Callable[P, R]]:
    """Return a decorator that makes a library function from `core` with its first argument fixed.

    The result has the name and docstring of the decorated stub. The parameters in `without`, which
    need defaults, are left out of its signature.
    """
    signature = inspect.signature(core)
    _, *free = signature.parameters.values()
    signature = signature.replace(parameters=[p for p in free if p.name not in without])

    def named(stub: Callable[[], None]) -> Callable[P, R]:
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            # `library` passes the arguments of a fitting call by keyword
            if args or kwargs.keys() != signature.parameters.keys():
                _misfit(stub.__name__, signature, args, kwargs)
            return core(fixed, *args, **kwargs)

        update_wrapper(function, stub)
        function.__annotations__ = core.__annotations__
        function.__wrapped__ = core  # type: ignore[attr-defined]
        function.__signature__ = signature  # type: ignore[attr-defined]
        return library(function)

    return named


def _misfit(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
    """Raise nearly the error that Python would.

    Python's own error would name the core, and count its first argument.
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def _wants(hints: dict[str, Any]) -> tuple[bool, list[str], dict[str, Wants], dict[str, Any]]:
    """Return the requirements of a signature: (whether it has a Sequence to append to, its flags,
    the `Wants` of each tensor, the class and advice of each argument of an advised class)."""
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
    """Return the advice of an advised class, or of one that may be None; "" for other hints."""
    classes = (kind for kind in (*get_args(hint), hint) if isinstance(kind, type))
    return next((ADVICE[kind] for kind in classes if kind in ADVICE), "")


def _check(
    arguments: dict[str, Any],
    appends: bool,
    flags: list[str],
    tensors: dict[str, Wants],
    kinds: dict[str, Any],
) -> None:
    """Raise `PoplibsError` unless the arguments meet the requirements of the signature."""
    graph: Any = arguments.get("graph", getattr(arguments.get("self"), "_graph", arguments))
    if graph is not arguments:  # the function has a graph
        check_graph(graph)
        if appends:
            check_prog(arguments["prog"])
            check_name(arguments.get("debug_context", ""))
    for name in flags:
        if not isinstance(arguments[name], FLAG):
            raise as_given(arguments[name], name, WORDS)
    if graph is not arguments:
        for name, wants in tensors.items():
            check_tensor(graph, name, arguments[name], wants.ranks)
        for name, wants in tensors.items():
            if wants.mapped:
                check_mapped(graph, name, arguments[name])
    for name, (kind, advice) in kinds.items():
        if not isinstance(arguments[name], kind):
            raise as_given(arguments[name], name, advice)


def check_dtype(argument: str, tensor: Tensor, *dtypes: type[DType]) -> None:
    """Raise `PoplibsError` unless `tensor` has one of these dtypes."""
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
    """Raise `PoplibsError` unless `prog` is a Sequence, which library calls append to."""
    if not isinstance(prog, Program):
        raise as_given(prog, "prog", "give a Sequence; the call appends to it.")


def check_name(name: object, argument: str = "debug_context") -> None:
    """Raise `PoplibsError` unless `name` is text."""
    if not isinstance(name, str):
        raise as_given(name, argument, NAME)


def check_tensor(graph: Graph, argument: str, tensor: object, ranks: tuple[int, ...] = ()) -> None:
    """Raise `PoplibsError` unless `tensor` is a tensor of `graph` with one of the `ranks` (any if
    empty)."""
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
    """Raise `InvalidTileMappingError` unless every element of `tensor` is on a tile."""
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
    """Raise `PoplibsError` unless two dtypes, two shapes or the like are equal. `kinds` is their
    plural."""
    if a != b:
        raise refused(f"was given two {kinds} that differ: {a} and {b}.", where, advice)


def check_alike(
    shapes: str,
    dtypes: str = "cast one of them with popops.cast.",
    shape: Shape | None = None,
    **two: Tensor,
) -> None:
    """Raise `PoplibsError` unless two tensors, given by name, have the same shape and dtype.

    `shapes` and `dtypes` are the advice in the errors; if `dtypes` is empty, the dtypes may differ.
    `shape` is what the second tensor's shape must be, by default the first one's.
    """
    (a, x), (b, y) = two.items()
    where = f"{a} {x!r} and {b} {y!r}"
    check_same("shapes", x.shape if shape is None else shape, y.shape, where, shapes)
    if dtypes:
        check_same("dtypes", x.dtype, y.dtype, where, dtypes)


def check_number(
    argument: str, value: object, dtype: type[DType], advice: str = "give a number."
) -> Any:
    """Return `value` as a number of `dtype`.

    Raises `PoplibsError` if it is not a number, and `TensorCreationError` if it does not fit.
    """
    numbers = (int, float, np.integer, np.floating, *((np.bool_,) if dtype is BOOL else ()))
    if not isinstance(value, numbers) or (isinstance(value, bool) and dtype is not BOOL):
        raise as_given(value, argument, advice)
    return to_host_array(value, dtype, f"{calling()}(), {argument}")[()]  # type: ignore[arg-type, unused-ignore]


def check_sizes(target: object, minimum: int, **sizes: object) -> None:
    """Raise `PoplibsError` unless `target` is a Target and all sizes are integers of at least
    `minimum`."""
    if not isinstance(target, Target):
        raise as_given(target, "its target", "give graph.target.")
    for name, size in sizes.items():
        if not is_count(size, minimum):
            raise as_given(size, name, f"give a whole number of {minimum} or more.")
        if int(size) >= MOST_SIZE:  # type: ignore[call-overload]
            raise as_given(size, name, "give a whole number below 2**63.")


def check_shape(argument: object) -> Shape:
    """Return `argument` as a shape. Raises `PoplibsError`."""
    shape = as_shape(argument)
    if shape is None:
        raise refused(f"""was given the shape {shown(argument)}.
            next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).""")
    return shape


def is_count(value: object, minimum: int) -> bool:
    """Return whether `value` is an integer of at least `minimum`."""
    return is_whole(value) and int(value) >= minimum
