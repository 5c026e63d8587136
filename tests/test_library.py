"""Library functions of PopLibs: what stands in a signature is checked, and errors have the name of
the call they are of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, get_type_hints

import pytest

from ipu_teach import FLOAT, Graph, IPUModel, Tensor
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import (
    gcl,
    graphfn,
    library,
    poplin,
    popnn,
    popops,
    poprand,
    poputil,
    unit_scaling,
)
from ipu_teach.poplibs.library import OWN, Row, calling
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Sequence

DEVICE = IPUModel("ipu2", tiles_per_ipu=4).create_device()


def made(function: Callable[..., Any]) -> bool:
    return function.__code__.co_filename == library.__file__


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of all libraries, and the methods of their classes."""
    for module in (gcl, popops, poplin, popnn, poprand, poputil, graphfn, unit_scaling):
        for name, found in inspect.getmembers(module):
            if name.startswith(("_", "check_")) or not getattr(found, "__module__", "").startswith(
                "ipu_teach.poplibs."
            ):
                continue
            place = f"{module.__name__.split('.')[-1]}.{name}"
            if inspect.isfunction(found):
                yield place, found
            elif inspect.isclass(found):
                methods = inspect.getmembers(found, inspect.isfunction)
                yield from (
                    (f"{place}.{n}", f)
                    for n, f in methods
                    if not n.startswith("_") or n in ("__init__", "__call__")
                )


FUNCTIONS = {
    name: function for name, function in callables() if not function.__module__.endswith(".library")
}
LIBRARY = {name: function for name, function in FUNCTIONS.items() if made(function)}


def takes_a_graph(function: Callable[..., Any]) -> bool:
    return bool({"graph", "prog"} & inspect.signature(function).parameters.keys())


def graph_with(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    graph = Graph(DEVICE)
    tensors = [graph.add_variable(FLOAT, shape, f"t{i}") for i, shape in enumerate(shapes)]
    for tensor in tensors:
        poputil.map_tensor_linearly(graph, tensor)
    return graph, Sequence(), *tensors


def test_every_public_function_of_a_graph_is_a_library_function() -> None:
    assert len(LIBRARY) > 300
    plain = {
        function.__name__
        for function in FUNCTIONS.values()
        if takes_a_graph(function) and not made(function)
    }
    # for the libraries themselves, of what they have checked
    assert plain == {"tile_pieces", "like"}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_function_can_be_checked(name: str) -> None:
    function = LIBRARY[name]
    inner = function.__wrapped__  # type: ignore[attr-defined]
    assert not (inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner)), (
        "it would run after its name is gone"
    )
    get_type_hints(inner, include_extras=True)  # every name in the signature is there at run time
    parameters = inspect.signature(function).parameters
    assert {p.kind for p in parameters.values()} <= {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
    assert OWN not in [p.default for p in parameters.values()]
    assert not {"Row", "Matrix", "Rows", "Loose", "Free"} & {
        p.annotation for p in parameters.values()
    }, "a Tensor for a caller"
    assert (function.__doc__ or "").strip() or inner.__name__ == "__init__"


def test_what_is_wrong_with_a_call_is_said_by_python() -> None:
    graph, prog, x = graph_with((4,))

    def plain(
        graph: Graph, x: Row, prog: Sequence, debug_context: str = OWN, *, twice: bool = False
    ) -> None: ...

    checked: Any = library.library(plain)
    checked(graph, x, prog, "name", twice=True)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((graph, x), {}),
        ((graph, x, prog, "name", True), {}),
        ((graph, x, prog), {"x": x}),
        ((graph, x, prog), {"scale": 2}),
    ]
    for args, kwargs in calls:
        with pytest.raises(TypeError) as wanted:
            plain(*args, **kwargs)
        with pytest.raises(TypeError, match=r"plain\(\) ") as found:
            checked(*args, **kwargs)
        assert str(found.value) == str(wanted.value)
    with pytest.raises(
        TypeError, match=re.escape("fill() missing 1 required positional argument: 'value'")
    ):
        popops.fill(graph, x, prog)  # type: ignore[call-arg]


def test_a_variant_has_the_signature_of_its_core_and_a_name_of_its_own() -> None:
    graph, prog, a, b = graph_with((3, 4), (4, 2))
    names = list(inspect.signature(poplin.mat_mul).parameters)
    assert names[:5] == ["graph", "a", "b", "prog", "debug_context"]
    assert inspect.signature(poplin.mat_mul).return_annotation == "Tensor"
    assert inspect.signature(poplin.mat_mul).parameters["debug_context"].default == "mat_mul"
    assert poplin.mat_mul.__name__ == "mat_mul" and str(poplin.mat_mul.__doc__).startswith(
        "Return the matrix product [m, n]"
    )
    assert "def _mat_mul_of_rank(" in inspect.getsource(inspect.unwrap(poplin.mat_mul)), (
        "what it does is to be seen"
    )
    with pytest.raises(PoplibsError, match=r"^mat_mul_grouped\(\) needs a with 3 dimensions"):
        poplin.mat_mul_grouped(graph, a, b, prog)
    with pytest.raises(TypeError, match=r"^mat_mul\(\) missing a required argument: 'prog'"):
        poplin.mat_mul(graph, a, b)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^mat_mul\(\) got an unexpected keyword argument 'out'"):
        poplin.mat_mul(graph, a, b, prog, out=FLOAT)  # type: ignore[call-arg]


def test_a_call_within_a_call_has_its_own_name() -> None:
    graph, prog, x = graph_with((4,))

    def body(counter: Tensor) -> Any:
        assert calling() == "counted_loop"
        with pytest.raises(PoplibsError, match=r"^add\(\) was given None as prog"):
            popops.add(graph, x, x, None)  # type: ignore[arg-type]
        popops.add(graph, x, x, Sequence())
        assert calling() == "counted_loop"
        return None

    with pytest.raises(PoplibsError, match=r"^The body of counted_loop\(\)|^counted_loop\(\) "):
        popops.counted_loop(graph, 0, 3, 1, body)
    assert calling() == ""
    with pytest.raises(PoplibsError, match=r"^map_in_place\(\) "):
        popops.map_in_place(graph, expr._1 + 1, [None], prog)  # type: ignore[list-item]
    assert calling() == ""


def test_methods_have_the_name_of_their_class() -> None:
    graph, prog, x = graph_with((4,))
    buffer = popops.CircBuf(graph, FLOAT, 3, (4,))
    with pytest.raises(PoplibsError, match=r"^CircBuf\.add\(\) was given 1 as tensor"):
        buffer.add(1, prog)  # type: ignore[arg-type]
    with pytest.raises(PoplibsError, match=r"^CircBuf\(\) was given 7 as its graph"):
        popops.CircBuf(7, FLOAT, 3, (4,))  # type: ignore[arg-type]
    with pytest.raises(PoplibsError, match=r"^VoidFunction\(\) was given 7 as its graph"):
        graphfn.VoidFunction(7, [], lambda *_: None)  # type: ignore[arg-type]


def test_names_of_two_threads_do_not_mix() -> None:
    both = Barrier(2)

    def refused(function: Any) -> str:
        graph, prog, x = graph_with((4,))
        said: list[str] = []

        def body(counter: Tensor) -> Any:
            both.wait()
            with pytest.raises(PoplibsError) as caught:
                function(graph, x, 0, None)
            said.append(str(caught.value).split("(")[0])
            both.wait()
            return Sequence()

        popops.counted_loop(graph, 0, 3, 1, body)
        return said[0]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(refused, (popops.sort, popops.iota))) == ["sort", "iota"]


def test_a_margin_that_repeats_elements_may_be_of_a_tensor_on_no_tile() -> None:
    graph = Graph(DEVICE)
    x = graph.add_variable(FLOAT, (4,), "x")
    assert popops.pad(graph, x, [1], [1], popops.PaddingType.EDGE).shape == (6,)
