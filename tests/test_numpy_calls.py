"""Functions and methods of numpy that people try on tensors: each is answered by a call of the kit that
does the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ipu_teach
from ipu_teach import FLOAT, HALF, Engine, Graph, IPUModel, Tensor, concat
from ipu_teach.errors import (
    DeviceValueError,
    NotOfferedError,
    PoplarTypeError,
    TensorCreationError,
)
from ipu_teach.graph.numpy_calls import CALLS, POPOPS
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.types import Array

A = np.array([[3, -1, 0.5], [2, 2, 0], [-4, 1, 7], [0, 0.25, -2]], np.float32)
B = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
# What numpy makes of A and B, by the name of the function.
NUMPY: dict[str, Callable[[], Any]] = {
    "concatenate": lambda: np.concatenate([A, B]),
    "vstack": lambda: np.vstack([A, B]),
    "hstack": lambda: np.hstack([A, B]),
    "append": lambda: np.append(A, B),
    "stack": lambda: np.stack([A, B]),
    "reshape": lambda: np.reshape(A, (12,)),
    "ravel": lambda: np.ravel(A),
    "transpose": lambda: np.transpose(A),
    "swapaxes": lambda: np.swapaxes(A, 0, 1),
    "moveaxis": lambda: np.moveaxis(A, 0, 1),
    "expand_dims": lambda: np.expand_dims(A, 0),
    "squeeze": lambda: np.squeeze(A),
    "broadcast_to": lambda: np.broadcast_to(A, (3, 4, 3)),
    "tile": lambda: np.tile(A, (3, 1)),
    "repeat": lambda: np.repeat(A, 3, axis=0),
    "flip": lambda: np.flip(A, 0),
    "split": lambda: np.split(A, 2)[1],
    "take": lambda: np.take(A, 2, axis=0),
    "sum": lambda: A.sum(axis=0),
    "prod": lambda: A.prod(axis=0),
    "max": lambda: A.max(axis=0),
    "min": lambda: A.min(axis=0),
    "any": lambda: A.any(axis=0),
    "all": lambda: A.all(axis=0),
    "mean": lambda: A.mean(axis=0),
    "argmax": lambda: A.argmax(axis=1),
    "argmin": lambda: A.argmin(axis=1),
    "sort": lambda: np.sort(A, axis=1),
    "where": lambda: np.where(A > 0, A, B),
    "clip": lambda: np.clip(A, -1, 1),
    "astype": lambda: A.astype(np.float16),
    "dot": lambda: np.dot(A, B.T),
    "zeros_like": lambda: np.zeros_like(A),
    "copy": lambda: np.copy(A),
}


DEVICE = IPUModel("ipu2", tiles_per_ipu=4).create_device()


def two_tensors() -> tuple[Graph, Tensor, Tensor]:
    graph = Graph(DEVICE)
    tensors = [graph.add_variable(FLOAT, A.shape, name) for name in "ab"]
    for tensor, values in zip(tensors, (A, B), strict=True):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, values)
    return graph, tensors[0], tensors[1]


def test_the_functions_are_those_of_the_table() -> None:
    assert NUMPY.keys() == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_the_call_that_an_error_names_gives_what_numpy_gives(name: str) -> None:
    graph, a, b = two_tensors()
    program = Sequence()
    names = (
        vars(ipu_teach)
        | locals()
        | {"popops": popops, "poplin": poplin, "HALF": HALF, "concat": concat}
    )
    result = eval(CALLS[name], names)
    if name == "copy":
        program.add(Copy(a, result))
    if name == "zeros_like":
        popops.zero(graph, result, program)
    tensor = result[1] if name == "split" else result
    graph.create_host_read("result", tensor)
    engine = Engine(graph, program)
    engine.load(DEVICE)
    engine.run()
    expected = NUMPY[name]()
    computed: Array = engine.read_tensor("result")
    assert computed.shape == expected.shape
    np.testing.assert_allclose(computed.astype(np.float64), expected.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("name", sorted({*CALLS} - {"astype", "copy"}))
def test_a_function_of_numpy_is_answered_by_its_call(name: str) -> None:
    _, a, b = two_tensors()
    call = {
        "concatenate": lambda: np.concatenate([a, b]),
        "vstack": lambda: np.vstack([a, b]),
        "hstack": lambda: np.hstack([a, b]),
        "stack": lambda: np.stack([a, b]),
        "append": lambda: np.append(a, b),
        "broadcast_to": lambda: np.broadcast_to(a, (3, 4, 3)),
        "moveaxis": lambda: np.moveaxis(a, 0, 1),
        "where": lambda: np.where(a, a, b),
        "reshape": lambda: np.reshape(a, (12,)),
        "swapaxes": lambda: np.swapaxes(a, 0, 1),
        "expand_dims": lambda: np.expand_dims(a, 0),
        "tile": lambda: np.tile(a, 3),
        "repeat": lambda: np.repeat(a, 3),
        "split": lambda: np.split(a, 2),
        "take": lambda: np.take(a, 2),
        "clip": lambda: np.clip(a, -1, 1),
        "dot": lambda: np.dot(a, b),
    }.get(name, lambda: getattr(np, name)(a))
    with pytest.raises(PoplarTypeError) as refused:
        call()
    assert str(refused.value).startswith(f"np.{name}() was called with a tensor") or name in (
        "max",
        "min",
    )
    assert f"next:  use the kit's call: {CALLS[name]}, for" in str(refused.value)


@pytest.mark.parametrize("name", ["sum", "mean", "any", "copy", "astype", "max"])
def test_a_method_of_numpy_is_answered_by_its_call(name: str) -> None:
    _, a, _ = two_tensors()
    assert not hasattr(a, name)
    with pytest.raises(NotOfferedError) as refused:
        getattr(a, name)
    assert f"next:  use instead: {CALLS[name]}, for" in str(refused.value)


@pytest.mark.parametrize("name", POPOPS)
def test_a_function_of_single_numbers_is_answered_by_that_of_popops(name: str) -> None:
    _, a, b = two_tensors()
    function = getattr(np, name)
    with pytest.raises(DeviceValueError) as refused:
        function(*(a, b)[: function.nin])
    (call,) = re.findall(r"popops\.(\w+)\(", str(refused.value))
    assert f"in np.{function.__name__}()." in str(refused.value) and callable(getattr(popops, call))


def test_a_function_that_popops_lacks_is_answered_by_map() -> None:
    _, a, _ = two_tensors()
    with pytest.raises(DeviceValueError, match=r"in np\.sinh\(\)(.|\n)*popops\.map computes"):
        np.sinh(a)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: np.float32(2) * a, r"in np\.float32\(2\.0\) \* tensor"),
        (lambda a: np.multiply(a, 2), r"in tensor \* 2"),
        (lambda a: np.float32(2) - a, r"in np\.float32\(2\.0\) - tensor"),
        (lambda a: np.ones(3) < a, "in tensor > array"),
        (lambda a: np.float32(2) == a, "in tensor == "),
        (lambda a: np.ones((4, 3)) @ a, "tensor"),
    ],
)
def test_operators_with_numbers_of_numpy_name_the_operator(call: Any, words: str) -> None:
    _, a, _ = two_tensors()
    with pytest.raises(DeviceValueError, match=words):
        call(a)


@pytest.mark.parametrize(
    ("call", "error", "next_step"),
    [
        (
            lambda a: a.reshape(2, 6),
            PoplarTypeError,
            "write the sizes in brackets: reshape((2, 6)).",
        ),
        (lambda a: a.reshape((-1, 6)), TensorCreationError, "for in numpy: reshape((2, 6))."),
        (lambda a: a.reshape(-1), TensorCreationError, "for in numpy: reshape((12,))."),
        (lambda a: a.reshape((-1, 5)), TensorCreationError, "whole numbers, none negative"),
        (lambda a: a.reshape((-1, -1)), TensorCreationError, "whole numbers, none negative"),
        (lambda a: a.reshape((-1, 0)), TensorCreationError, "whole numbers, none negative"),
        (lambda a: a.transpose(1, 0), PoplarTypeError, "dim_shuffle((1, 0))."),
        (lambda a: a.transpose((1, 0)), PoplarTypeError, "dim_shuffle((1, 0))."),
        (lambda a: a.expand(0).transpose(0, 2, 1), PoplarTypeError, "dim_shuffle((0, 2, 1))."),
    ],
)
def test_shapes_in_the_form_of_numpy(call: Any, error: type[Exception], next_step: str) -> None:
    _, a, _ = two_tensors()
    with pytest.raises(error) as refused:
        call(a)
    assert next_step in str(refused.value)
