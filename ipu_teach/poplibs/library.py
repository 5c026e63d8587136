"""Library functions: what each call of one is checked for, and under whose name it is refused.

    @library
    def transpose(graph: Graph, x: Matrix, prog: Program, debug_context: str = OWN) -> Tensor: ...

The signature says what is checked before the body runs, in this order: the graph, the Sequence, the
name, the flags; that each Tensor is one of the graph's and has as many dimensions as it says
(`Row`, `Matrix`, …); that it lies on tiles (but for `Loose`); and that what a class says
something about (`advised`) is one of it. Where the body ends in an error of Python's own, the first
argument that is not what its annotation says is named. Within the call `calling()` is
the function's name, so no check and no error has to be told it. A call of another library function
has its own name, and gives this one back when it ends. All of a call's arguments are checked before
the graph is changed: a caught error leaves it as it was.
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
OWN = "the function's name"  # as debug_context: the default becomes the name of the function
NAMES = "name", "debug_context"
NAME = "give a name: text, in quotes."
MOST_SIZE = 2**63
_calling = ContextVar("calling", default="")


class Wants(NamedTuple):
    """What a tensor must be, beside one of the graph's."""

    ranks: tuple[int, ...] = ()
    mapped: bool = True


Row = Annotated[Tensor, Wants((1,))]
Matrix = Annotated[Tensor, Wants((2,))]
AnyNumber = float  # NaN and infinities are permitted
Rows = Annotated[Tensor, Wants(tuple(range(2, 10)))]  # and perhaps more dimensions
Loose = Annotated[Tensor, Wants(mapped=False)]  # need not lie on tiles
Free = Annotated[Tensor, None]  # the function checks it by itself
# what an argument of the wrong kind ends in where the body does not expect it
PYTHONS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def described(kind: C) -> C:
    """Check the fields of a class that describes a call, where a caller makes an object of it. A
    library function that makes one checks its own arguments, by its own names."""
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
    """The name of the library function that is being called."""
    return _calling.get()


def refused(says: str, where: object = "", next_step: str = "") -> PoplibsError:
    """The error of the call that is going on: `raise refused("wants …", x, "give …")`, or in
    several lines as it is printed."""
    return PoplibsError(
        f"{calling()}() {says}",
        where=where if isinstance(where, str) else repr(where),
        next_step=next_step,
    )


def as_given(value: object, argument: str, next_step: str) -> PoplibsError:
    """The error of an argument that is no use: `raise as_given(plan, "plan", "give what
    embedding_plan returns.")`."""
    return refused(f"was given {shown(value)} as {argument}.", next_step=next_step)


def library(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, of which every call is checked first. Its `debug_context`, where it is `OWN`, is
    its name."""
    name, signature = function.__qualname__, inspect.signature(function)
    parameters = [_as_seen(p, name) for p in signature.parameters.values()]
    signature = signature.replace(parameters=parameters)
    body: Callable[..., R] = function
    names, defaults = (
        signature.parameters.keys(),
        {p.name: p.default for p in parameters if p.default is not p.empty},
    )
    places = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    of_class = function.__name__.startswith("__")  # as `__init__`: called by the name of the class
    # at the first call: types may stand below
    wants = cache(lambda: _wants(get_type_hints(function, include_extras=True)))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # Not Signature.bind: it takes several times as long as all checks of an operation on a few
        # elements.
        given = {**defaults, **dict(zip(places, args, strict=False)), **kwargs}
        twice = kwargs and not kwargs.keys().isdisjoint(places[: len(args)])
        before = _calling.set(type(args[0]).__name__ if of_class else name)
        try:
            if twice or len(args) > len(places) or given.keys() != names:
                return function(*args, **kwargs)  # Python says what does not fit
            _check(given, *wants())
            with working(f"build {name}"):
                return body(**given)
        except (PoplibsError, *PYTHONS) as error:
            hints = get_type_hints(function, include_extras=True)
            is_kind = isinstance(error, (PoplibsError, TypeError)) and not of_class
            if is_kind and (line := in_order(name, signature, hints, args)):
                raise refused(
                    "was given its arguments in another order.",
                    str(error).splitlines()[0],
                    f"write {line}.",
                ) from None
            if not isinstance(error, IPUTeachError) and (misfit := _misfit_of(given, hints)):
                raise as_given(*misfit) from error
            raise
        finally:
            _calling.reset(before)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _misfit_of(given: dict[str, Any], hints: dict[str, Any]) -> tuple[Any, str, str] | None:
    """The first argument that is not what its annotation says, its name, and what to give."""
    for name, value in given.items():
        kind = None if hints.get(name) is Free else kind_of(hints.get(name, Any))
        if kind is not None and not kind.accepts(value):
            return value, name, kind.advice(value)
    return None


def _as_seen(parameter: inspect.Parameter, name: str) -> inspect.Parameter:
    """A parameter as help() shows it: what is checked is a Tensor to a caller, and `OWN` the
    function's name."""
    if parameter.annotation in ("Row", "Matrix", "Rows", "Loose", "Free"):
        parameter = parameter.replace(annotation="Tensor")
    return parameter.replace(default=name) if parameter.default is OWN else parameter


def variant(
    core: Callable[Concatenate[A, P], R], what: A, without: Sequence[str] = ()
) -> Callable[[Callable[[], None]], Callable[P, R]]:
    """`core` with its first argument settled, as a library function with the name and docstring of
    what is decorated; and `without` some that have defaults."""
    signature = inspect.signature(core)
    _, *others = signature.parameters.values()
    signature = signature.replace(parameters=[p for p in others if p.name not in without])

    def named(stub: Callable[[], None]) -> Callable[P, R]:
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            # a call that fits comes with all of them named
            if args or kwargs.keys() != signature.parameters.keys():
                _misfit(stub.__name__, signature, args, kwargs)
            return core(what, *args, **kwargs)

        update_wrapper(function, stub)
        function.__annotations__, function.__wrapped__ = core.__annotations__, core  # type: ignore[attr-defined]
        function.__signature__ = signature  # type: ignore[attr-defined]
        return library(function)

    return named


def _misfit(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
    """Raise what Python would, as nearly as may be: it would name the core, and count its first
    argument."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def _wants(hints: dict[str, Any]) -> tuple[bool, list[str], dict[str, Wants], dict[str, Any]]:
    """Whether a signature has a Sequence to append to, its flags, what it wants of which tensor,
    and which arguments are of a class that is advised."""
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
    """What to give where a hint says a class that is advised, or that or None."""
    classes = (one for one in (*get_args(hint), hint) if isinstance(one, type))
    return next((ADVICE[one] for one in classes if one in ADVICE), "")


def _check(
    given: dict[str, Any],
    appends: bool,
    flags: list[str],
    tensors: dict[str, Wants],
    kinds: dict[str, Any],
) -> None:
    """Raise `PoplibsError` unless the arguments are what the signature wants."""
    graph: Any = given.get("graph", getattr(given.get("self"), "_graph", given))
    if graph is not given:  # the function knows one
        check_graph(graph)
        if appends:
            check_prog(given["prog"])
            check_name(given.get("debug_context", ""))
    for name in flags:
        if not isinstance(given[name], FLAG):
            raise as_given(given[name], name, WORDS)
    if graph is not given:
        for name, wants in tensors.items():
            check_tensor(graph, name, given[name], wants.ranks)
        for name, wants in tensors.items():
            if wants.mapped:
                check_mapped(graph, name, given[name])
    for name, (kind, advice) in kinds.items():
        if not isinstance(given[name], kind):
            raise as_given(given[name], name, advice)


def check_dtype(argument: str, tensor: Tensor, *dtypes: type[DType]) -> None:
    """Raise `PoplibsError` unless `tensor` is of one of these dtypes."""
    if tensor.dtype not in dtypes:
        names = " and ".join(d.__name__ for d in dtypes)
        raise refused(
            f"works on {names}; {argument} is {tensor.dtype.__name__}.",
            tensor,
            "cast it with popops.cast.",
        )


def check_graph(graph: object) -> None:
    """Raise `PoplibsError` unless `graph` is a graph."""
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
        whole = len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1))
        wanted = f"{ranks[0]} to {ranks[-1]}" if whole else " or ".join(str(r) for r in ranks)
        raise refused(f"""wants {argument} with {wanted} dimension{"s" if wanted != "1" else ""}; it
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


def check_same(what: str, a: object, b: object, where: str, advice: str) -> None:
    """Raise `PoplibsError` unless two dtypes, or two shapes, are equal."""
    if a != b:
        raise refused(f"was given two {what} that differ: {a} and {b}.", where, advice)


def check_alike(
    shapes: str,
    dtypes: str = "cast one of them with popops.cast.",
    shape: Shape | None = None,
    **two: Tensor,
) -> None:
    """Raise `PoplibsError` unless two tensors, by their names, are of one shape and one dtype.

    `shapes` and `dtypes`: what to do else; without words dtypes may differ. `shape`: if it is not
    the first tensor's that is wanted.
    """
    (a, x), (b, y) = two.items()
    where = f"{a} {x!r} and {b} {y!r}"
    check_same("shapes", x.shape if shape is None else shape, y.shape, where, shapes)
    if dtypes:
        check_same("dtypes", x.dtype, y.dtype, where, dtypes)


def check_number(
    argument: str, value: object, dtype: type[DType], advice: str = "give a number."
) -> Any:
    """`value` as a number of `dtype`. Raises `PoplibsError` if it is no number,
    `TensorCreationError` if it does not fit."""
    numbers = (int, float, np.integer, np.floating, *((np.bool_,) if dtype is BOOL else ()))
    if not isinstance(value, numbers) or (isinstance(value, bool) and dtype is not BOOL):
        raise as_given(value, argument, advice)
    return to_host_array(value, dtype, f"{calling()}(), {argument}")[()]  # type: ignore[arg-type, unused-ignore]


def check_sizes(target: object, least: int, **sizes: object) -> None:
    """Raise `PoplibsError` unless `target` is a target and the sizes are whole numbers of at least
    `least`."""
    if not isinstance(target, Target):
        raise as_given(target, "its target", "give graph.target.")
    for name, size in sizes.items():
        if not is_count(size, least):
            raise as_given(size, name, f"give a whole number of {least} or more.")
        if int(size) >= MOST_SIZE:  # type: ignore[call-overload]
            raise as_given(size, name, "give a whole number below 2**63.")


def check_shape(given: object) -> Shape:
    """`given` as a shape. Raises `PoplibsError`."""
    shape = as_shape(given)
    if shape is None:
        raise refused(f"""was given the shape {shown(given)}.
            next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).""")
    return shape


def is_count(value: object, least: int) -> bool:
    return is_whole(value) and int(value) >= least
