"""The decorator of library functions: it checks every call's arguments and names them in errors.

    @library
    def transpose(graph: Graph, x: Matrix, prog: Program, debug_context: str = OWN) -> Tensor: ...

The annotations in the signature decide what is checked before the body runs, in this order:

* the graph, the Sequence, the name and the flags have the right type;
* each Tensor belongs to the graph and has the number of dimensions that its annotation allows
  (`Row`, `Matrix`, …);
* each Tensor is mapped to tiles (except for `Loose`);
* each argument annotated with an `advised` class is an instance of this class.

If the body raises a built-in exception, the error names the first argument that does not fit its
annotation. During a call, `calling()` returns the function's name for checks and errors. During an
inner call of another library function, it returns the name of the inner function. All arguments are
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
# Maps each parameter to its annotation. Annotations have no common type, hence Any.
Hints = dict[str, Any]
# Maps the parameters' names to the arguments of a call, whose types are not checked yet.
Arguments = dict[str, Any]
# `library` replaces the default `OWN` of a parameter `debug_context` by the function's name.
OWN = "the function's name"
NAMES = "name", "debug_context"
NAME = "give a name: text, in quotes."
MOST_SIZE = 2**63
_calling = ContextVar("calling", default="")


class Wants(NamedTuple):
    """The requirements on a tensor argument, which must also be a tensor of the call's graph.

    `ranks` contains the permitted numbers of dimensions; if it is empty, any number is permitted.
    `mapped` is true if every element must be mapped to a tile.
    """

    ranks: tuple[int, ...] = ()
    mapped: bool = True


Row = Annotated[Tensor, Wants((1,))]
Matrix = Annotated[Tensor, Wants((2,))]
AnyNumber = float  # a number; NaN and the infinities are permitted
Rows = Annotated[Tensor, Wants(tuple(range(2, 10)))]  # a tensor of 2 to 9 dimensions
Loose = Annotated[Tensor, Wants(mapped=False)]  # a tensor that need not be mapped to tiles
Free = Annotated[Tensor, None]  # a tensor that the function checks itself

# The built-in exceptions that a function's body may raise for an argument of the wrong type.
PYTHONS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def _error_of(problem: str, advice: str) -> PoplibsError:
    return PoplibsError(problem, next_step=advice)


def described(kind: C) -> C:
    """Decorate a class of parameters: its fields are checked when a user creates an instance.

    If a library function creates an instance, its fields are not checked, because the function
    checks its own arguments and names them in errors.
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
    """Return the name of the library function that is running, or "" outside of library calls."""
    return _calling.get()


def refused(says: str, where: object = "", next_step: str = "") -> PoplibsError:
    """Return an error whose text begins with the name of the current call, for example "reduce()".

    Raise it: `raise refused("needs …", x, "give …")`. `says` continues the sentence after the
    function's name. It may also contain the lines that begin with `where:` and `next:`. `where` is
    a tensor or a string.
    """
    return PoplibsError(
        f"{calling()}() {says}",
        where=where if isinstance(where, str) else repr(where),
        next_step=next_step,
    )


def as_given(value: object, argument: str, next_step: str) -> PoplibsError:
    """Return an error that names a wrong argument of the current call and its value.

    Example: `raise as_given(plan, "plan", "give what embedding_plan returns.")`.
    """
    return refused(f"was given {shown(value)} as {argument}.", next_step=next_step)


def library(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that checks its arguments and then calls `function`.

    If the default of `debug_context` is `OWN`, the default becomes the function's name.
    """
    name = function.__qualname__
    signature = inspect.signature(function)
    parameters = [_as_seen(parameter, name) for parameter in signature.parameters.values()]
    signature = signature.replace(parameters=parameters)
    body: Callable[..., R] = function
    parameter_names = signature.parameters.keys()
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not parameter.empty
    }
    positional_names = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    # Errors of an `__init__` name the class instead of the function.
    is_special = function.__name__.startswith("__")
    # The hints are evaluated at the first call, because a module may define a type after a function
    # that uses it.
    requirements = cache(lambda: _wants(get_type_hints(function, include_extras=True)))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # `Signature.bind` is not used, because it takes several times as long as all other checks.
        arguments = {**defaults, **dict(zip(positional_names, args, strict=False)), **kwargs}
        has_overlap = kwargs and not kwargs.keys().isdisjoint(positional_names[: len(args)])
        previous_name = _calling.set(type(args[0]).__name__ if is_special else name)
        try:
            if (
                has_overlap
                or len(args) > len(positional_names)
                or arguments.keys() != parameter_names
            ):
                # The call raises Python's own TypeError. Its message names the wrong argument.
                return function(*args, **kwargs)
            _check(arguments, *requirements())
            with working(f"build {name}"):
                return body(**arguments)
        except (PoplibsError, *PYTHONS) as error:
            hints = get_type_hints(function, include_extras=True)
            may_be_reordered = isinstance(error, (PoplibsError, TypeError)) and not is_special
            if may_be_reordered and (reordered_call := in_order(name, signature, hints, args)):
                raise refused(
                    "was given its arguments in another order.",
                    str(error).splitlines()[0],
                    f"write {reordered_call}.",
                ) from None
            if not isinstance(error, IPUTeachError) and (misfit := _misfit_of(arguments, hints)):
                raise as_given(*misfit) from error
            raise
        finally:
            _calling.reset(previous_name)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _misfit_of(arguments: Arguments, hints: Hints) -> tuple[object, str, str] | None:
    """Return `(value, name, advice)` for the first argument that does not fit its annotation.

    The three members are the argument, the name of its parameter and what to give instead. If all
    arguments fit, return None.
    """
    for name, value in arguments.items():
        argument_kind = None if hints.get(name) is Free else kind_of(hints.get(name, Any))
        if argument_kind is not None and not argument_kind.accepts(value):
            return value, name, argument_kind.advice(value)
    return None


def _as_seen(parameter: inspect.Parameter, name: str) -> inspect.Parameter:
    """Return `parameter` as help() should show it to users.

    Annotations for checked tensors, such as `Row`, become `Tensor`. The default `OWN` becomes
    `name`, the name of the function.
    """
    if parameter.annotation in ("Row", "Matrix", "Rows", "Loose", "Free"):
        parameter = parameter.replace(annotation="Tensor")
    return parameter.replace(default=name) if parameter.default is OWN else parameter


def variant(
    core: Callable[Concatenate[A, P], R], fixed: A, without: Sequence[str] = ()
) -> Callable[[Callable[[], None]], Callable[P, R]]:
    """Return a decorator that creates a library function: `core` with its first argument `fixed`.

    The new function has the name and docstring of the decorated stub. Its signature lacks the first
    parameter of `core` and the parameters listed in `without`, which must have defaults.
    """
    signature = inspect.signature(core)
    _, *other_parameters = signature.parameters.values()
    signature = signature.replace(
        parameters=[parameter for parameter in other_parameters if parameter.name not in without]
    )

    def named(stub: Callable[[], None]) -> Callable[P, R]:
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            # If the arguments fit the signature, `library` passes all of them by keyword.
            if args or kwargs.keys() != signature.parameters.keys():
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:  # Python's error would name `core`, not the stub.
                    raise TypeError(f"{stub.__name__}() {error}") from None
            return core(fixed, *args, **kwargs)

        update_wrapper(function, stub)
        function.__annotations__ = core.__annotations__
        function.__wrapped__ = core  # type: ignore[attr-defined]
        function.__signature__ = signature  # type: ignore[attr-defined]
        return library(function)

    return named


def _wants(hints: Hints) -> tuple[bool, list[str], dict[str, Wants], Arguments]:
    """Return the requirements `(appends, flags, tensors, classes)` in a signature's annotations.

    `appends` is whether the function has a parameter `prog`, a Sequence. `flags` contains the names
    of the parameters that are flags. `tensors` maps the name of each parameter that is a checked
    tensor to its `Wants`. `classes` maps the name of each parameter whose argument must be an
    instance of a class to `(class, advice)`: these are the parameters annotated with an `advised`
    class, and the parameters for names, which must be strings.
    """
    hints = {parameter: hint for parameter, hint in hints.items() if parameter != "return"}
    wants_of_tensors = {
        parameter: next(iter(getattr(hint, "__metadata__", ())), None)
        if hint is not Tensor
        else Wants()
        for parameter, hint in hints.items()
    }
    return (
        hints.get("prog") is Program,
        [parameter for parameter, hint in hints.items() if hint is bool],
        {
            parameter: wants
            for parameter, wants in wants_of_tensors.items()
            if isinstance(wants, Wants)
        },
        {
            parameter: (hint, advice)
            for parameter, hint in hints.items()
            if (advice := _advice(hint))
        }
        | {
            parameter: (hint, NAME)
            for parameter, hint in hints.items()
            if parameter in ("name", "debug_context") and hint in (str, str | None)
        },
    )


def _advice(hint: Any) -> str:
    """Return the advice for errors about the class in `hint`, or "" if there is none.

    The decorator `advised` stores the advice for a class. The class may be part of a union, such as
    `Kind | None`.
    """
    classes = (kind for kind in (*get_args(hint), hint) if isinstance(kind, type))
    return next((ADVICE[kind] for kind in classes if kind in ADVICE), "")


def _check(
    arguments: Arguments,
    appends: bool,
    flags: list[str],
    tensors: dict[str, Wants],
    advised_classes: Arguments,
) -> None:
    """Check that the arguments meet the requirements of a library function.

    The requirements are those that `_wants` returns. If `appends` is true, `prog` must be a
    Sequence. The arguments in `flags` must be flags. `tensors` and `advised_classes` map names of
    arguments to the requirements on tensors and on instances of classes.

    :raises PoplibsError: if an argument does not meet the requirements.
    :raises InvalidTileMappingError: if a tensor that must be mapped has unmapped elements.
    """
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
    for name, (advised_class, advice) in advised_classes.items():
        if not isinstance(arguments[name], advised_class):
            raise as_given(arguments[name], name, advice)


def check_dtype(argument: str, tensor: Tensor, *dtypes: type[DType]) -> None:
    """Raise `PoplibsError` unless `tensor`, the argument named `argument`, has one of `dtypes`."""
    if tensor.dtype not in dtypes:
        dtype_names = " and ".join(dtype.__name__ for dtype in dtypes)
        raise refused(
            f"works on {dtype_names}, but {argument} is {tensor.dtype.__name__}.",
            tensor,
            "cast it with popops.cast.",
        )


def check_graph(graph: object) -> None:
    """Raise `PoplibsError` unless `graph` is a Graph."""
    if not isinstance(graph, Graph):
        raise as_given(graph, "its graph", "give a Graph as the first argument.")


def check_prog(prog: object) -> None:
    """Raise `PoplibsError` unless `prog` is a Sequence."""
    if not isinstance(prog, Program):
        raise as_given(prog, "prog", "give a Sequence; the call appends to it.")


def check_name(name: object, argument: str = "debug_context") -> None:
    """Raise `PoplibsError` unless `name` is a string. The error calls it `argument`."""
    if not isinstance(name, str):
        raise as_given(name, argument, NAME)


def check_tensor(graph: Graph, argument: str, tensor: object, ranks: tuple[int, ...] = ()) -> None:
    """Raise `PoplibsError` unless `tensor` is a tensor of `graph` with a permitted rank.

    `ranks` contains the permitted numbers of dimensions; if it is empty, any number is permitted.
    `argument` is the tensor's name in the error.
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
        rank_text = (
            f"{ranks[0]} to {ranks[-1]}" if is_range else " or ".join(str(rank) for rank in ranks)
        )
        plural = "" if rank_text == "1" else "s"
        raise refused(f"""needs {argument} with {rank_text} dimension{plural}; it has {tensor.rank}.
            where: {tensor!r}
            next:  reshape, flatten or index the tensor.""")


def check_mapped(graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `InvalidTileMappingError` unless every element of `tensor` is mapped to a tile."""
    tile_map = graph.tile_map()
    if np.any(tile_map.split(*tensor.byte_extent())[3] == UNMAPPED):
        _, piece_lengths, piece_tiles = pieces_by_tile(tensor, tile_map)
        num_unmapped = int(piece_lengths[piece_tiles == UNMAPPED].sum())
        raise InvalidTileMappingError(f"""{calling()}() was given {argument} with
            {num_unmapped:,} of its {tensor.num_elements:,} elements not mapped to any tile.
            where: {tensor!r}
            next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph,
            tensor).""")


def check_same(kinds: str, a: object, b: object, where: str, advice: str) -> None:
    """Raise `PoplibsError` unless `a` and `b`, such as two dtypes or two shapes, are equal.

    `kinds` is the word for them in the error, in the plural, such as "shapes". `where` and `advice`
    are the texts of the error's other two lines.
    """
    if a != b:
        raise refused(f"was given two {kinds} that differ: {a} and {b}.", where, advice)


def check_alike(
    shapes: str,
    dtypes: str = "cast one of them with popops.cast.",
    shape: Shape | None = None,
    **two: Tensor,
) -> None:
    """Raise `PoplibsError` unless two tensors have the same shape and dtype.

    The two tensors are passed as keywords, whose names the error uses. `shapes` is the advice in
    the error for different shapes, and `dtypes` the advice for different dtypes. If `dtypes` is "",
    the dtypes may differ. `shape` is the required shape of the second tensor, by default the shape
    of the first.
    """
    (first_name, first_tensor), (second_name, second_tensor) = two.items()
    context = f"{first_name} {first_tensor!r} and {second_name} {second_tensor!r}"
    check_same(
        "shapes",
        first_tensor.shape if shape is None else shape,
        second_tensor.shape,
        context,
        advice=shapes,
    )
    if dtypes:
        check_same("dtypes", first_tensor.dtype, second_tensor.dtype, context, advice=dtypes)


def check_number(
    argument: str, value: object, dtype: type[DType], advice: str = "give a number."
) -> Any:
    """Return `value` as a numpy number of `dtype`; `argument` is its name in errors.

    :raises PoplibsError: if `value` is not a number.
    :raises TensorCreationError: if `value` is out of range.
    """
    numbers = (int, float, np.integer, np.floating, *((np.bool_,) if dtype is BOOL else ()))
    if not isinstance(value, numbers) or (isinstance(value, bool) and dtype is not BOOL):
        raise as_given(value, argument, advice)
    return to_host_array(value, dtype, f"{calling()}(), {argument}")[()]  # type: ignore[arg-type, unused-ignore]


def check_sizes(target: object, minimum: int, **sizes: object) -> None:
    """Raise `PoplibsError` unless `target` is a Target and all `sizes` are valid.

    A valid size is an integer of at least `minimum` and below 2**63. The keywords are the names
    that the errors use for the sizes.
    """
    if not isinstance(target, Target):
        raise as_given(target, "its target", "give graph.target.")
    for name, size in sizes.items():
        if not is_count(size, minimum):
            raise as_given(size, name, f"give a whole number of {minimum} or more.")
        if int(size) >= MOST_SIZE:  # type: ignore[call-overload]
            raise as_given(size, name, "give a whole number below 2**63.")


def check_shape(argument: object) -> Shape:
    """Return `argument`, which must be a shape, as a tuple of sizes.

    :raises PoplibsError: if it is not a shape.
    """
    shape = as_shape(argument)
    if shape is None:
        raise refused(f"""was given the shape {shown(argument)}.
            next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).""")
    return shape


def is_count(value: object, minimum: int) -> bool:
    """Return whether `value` is an integer of at least `minimum`."""
    return is_whole(value) and int(value) >= minimum
