"""Optimisers: 20 steps beside torch, a stop between them, rates, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from libraries import torch

from ipu_teach import FLOAT, HALF, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import optim, poputil
from ipu_teach.program import Sequence
from ipu_teach.types import Array, DType

SHAPE, STEPS = (5, 7), 20
RANDOM = np.random.default_rng(3)
FIRST = RANDOM.standard_normal(SHAPE).astype(np.float32)
SLOPES = RANDOM.standard_normal((STEPS, *SHAPE)).astype(np.float32)
RATES = np.linspace(0.02, 0.001, STEPS, dtype=np.float32)

CASES: list[tuple[str, dict[str, float], str, dict[str, Any]]] = [
    ("sgd", {}, "SGD", {}),
    ("sgd", {"momentum": 0.9}, "SGD", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.8, "weight_decay": 0.1}, "SGD", {"momentum": 0.8, "weight_decay": 0.1}),
    ("adam", {}, "Adam", {}),
    (
        "adam",
        {"beta1": 0.0, "weight_decay": 0.1},
        "Adam",
        {"betas": (0.0, 0.999), "weight_decay": 0.1},
    ),
    ("adamw", {}, "AdamW", {}),
    (
        "adamw",
        {"beta2": 0.9, "weight_decay": 0.3},
        "AdamW",
        {"betas": (0.9, 0.9), "weight_decay": 0.3},
    ),
]


class Trained:
    """A parameter, its slope and its rate as the host writes them, and the optimiser's state."""

    def __init__(self, name: str, dtype: type[DType] = FLOAT, **numbers: float) -> None:
        graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device())
        prog, self.names = Sequence(), ["parameter", "slope", "rate"]
        tensors = [graph.add_variable(dtype, SHAPE, n) for n in self.names[:2]]
        tensors.append(graph.add_variable(FLOAT, (), "rate"))
        for tensor in tensors:
            poputil.map_tensor_linearly(graph, tensor, 1, 1)
        self.state = getattr(optim, name)(graph, *tensors, prog, **numbers)
        for key, tensor in [*zip(self.names, tensors, strict=True), *self.state.items()]:
            graph.create_host_read(f"read {key}", tensor)
            graph.create_host_write(f"write {key}", tensor)
        self.engine = Engine(graph, prog)
        self.engine.load(Device(graph.target))
        self.write("parameter", FIRST)

    def write(self, key: str, values: Any) -> None:
        self.engine.write_tensor(f"write {key}", values)

    def read(self, key: str) -> Array:
        return self.engine.read_tensor(f"read {key}")

    def go(self, first: int, last: int) -> Array:
        for i in range(first, last):
            self.write("slope", SLOPES[i])
            self.write("rate", RATES[i])
            self.engine.run()
        return self.read("parameter")


@pytest.mark.parametrize(("name", "numbers", "of_torch", "theirs"), CASES)
def test_twenty_steps_are_those_of_torch(
    name: str, numbers: dict[str, float], of_torch: str, theirs: dict[str, Any]
) -> None:
    library = torch()
    weights = library.tensor(FIRST, requires_grad=True)
    optimiser = getattr(library.optim, of_torch)([weights], lr=0.1, **theirs)
    for slope, rate in zip(SLOPES, RATES, strict=True):
        optimiser.param_groups[0]["lr"] = float(rate)
        weights.grad = library.tensor(slope)
        optimiser.step()
    trained = Trained(name, **numbers)
    np.testing.assert_allclose(trained.go(0, STEPS), weights.detach().numpy(), rtol=0, atol=1e-6)
    if len(numbers) == 2:  # of HALF the parameter is rounded in each step, the state is not
        half = Trained(name, HALF, **numbers).go(0, STEPS)
        np.testing.assert_allclose(half, weights.detach().numpy(), rtol=0, atol=STEPS * 2.0**-11)


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize(
    "numbers",
    [
        {"beta1": 0.0},
        {"beta2": 0.0},
        {"beta1": 0.0, "beta2": 0.0},
        {"beta1": 0.0, "eps_hat": True, "eps": 0.5},
        {"beta2": 0.0, "eps": 0.25, "weight_decay": 0.1},
        {"eps": 1e-3, "eps_hat": True},
    ],
)
@pytest.mark.parametrize("rate", [0.0, 0.125])
def test_a_rate_that_is_a_number_and_moments_without_memory(
    dtype: Any, name: str, numbers: dict[str, Any], rate: float
) -> None:
    """Slopes of 0, and such whose square is denormal, beside a loop in float64."""
    chosen = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "eps_hat": False, **numbers}
    decay = chosen.pop("weight_decay", 0.01 if name == "adamw" else 0.0)
    first = np.array([1, -2, 0, 0.5, 3]).astype(dtype.numpy)
    slopes = np.array([[0, 1, -1e-3, 1e-21, 4], [0, -1, 2, -1e-20, 0]]).astype(dtype.numpy)
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=3).create_device()), Sequence()
    w, slope = (graph.add_variable(dtype, (5,), n) for n in ("w", "slope"))
    for key, tensor in (("w", w), ("slope", slope)):
        poputil.map_tensor_linearly(graph, tensor, 1, 1)
        graph.create_host_write(f"write {key}", tensor)
    graph.create_host_read("w", w)
    getattr(optim, name)(graph, w, slope, rate, prog, **numbers)
    engine = Engine(graph, prog)
    engine.load(Device(graph.target))
    engine.write_tensor("write w", first)
    expected, m, v = first.astype(np.float64), np.zeros(5), np.zeros(5)
    for step, row in enumerate(slopes, 1):
        engine.write_tensor("write slope", row)
        engine.run()
        g = row.astype(np.float64)
        if name == "adamw":
            expected = expected * (1 - rate * decay)
        else:
            g = g + decay * expected
        m = chosen["beta1"] * m + (1 - chosen["beta1"]) * g
        v = chosen["beta2"] * v + (1 - chosen["beta2"]) * g * g
        left = 1 - chosen["beta1"] ** step, 1 - chosen["beta2"] ** step
        divisor = np.sqrt(v / left[1]) + chosen["eps"]
        if chosen["eps_hat"]:
            divisor = (np.sqrt(v) + chosen["eps"]) / np.sqrt(left[1])
        with np.errstate(over="ignore"):  # a step by a moment of 0 and eps = 1e-8
            expected = expected - rate * m / left[0] / divisor
            expected = expected.astype(dtype.numpy).astype(np.float64)
    tolerance = 2e-6 if dtype is FLOAT else 2**-9
    np.testing.assert_allclose(engine.read_tensor("w"), expected, tolerance, tolerance)


def test_lars_is_its_formula() -> None:
    momentum, decay, trust = 0.9, 0.05, 0.02
    w, v = FIRST.astype(np.float64), np.zeros(SHAPE)
    for slope, rate in zip(SLOPES.astype(np.float64), RATES, strict=True):
        length = np.linalg.norm(w)
        ratio = trust * length / (np.linalg.norm(slope) + decay * length + 1e-8)
        v = momentum * v + rate * ratio * (slope + decay * w)
        w = w - v
    trained = Trained("lars", momentum=momentum, weight_decay=decay, trust=trust)
    np.testing.assert_allclose(trained.go(0, STEPS), w, rtol=0, atol=1e-6)
    nothing = Trained("lars")
    nothing.write("parameter", np.zeros(SHAPE))
    np.testing.assert_allclose(nothing.go(0, 1), -RATES[0] * SLOPES[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam", "lars"])
def test_training_stops_and_goes_on_with_its_state(name: str) -> None:
    numbers = {"momentum": 0.9} if name == "sgd" else {}
    whole, before, after = (Trained(name, **numbers) for _ in range(3))
    before.go(0, 8)
    assert set(before.state) == ({"first", "second", "step"} if name == "adam" else {"velocity"})
    for key in ("parameter", *before.state):
        after.write(key, before.read(key))
    assert after.go(8, STEPS).tobytes() == whole.go(0, STEPS).tobytes()


@pytest.mark.parametrize("name", ["sgd", "adam", "lars"])
def test_two_calls_that_share_a_state_are_two_steps(name: str) -> None:
    more = {} if name == "adam" else {"momentum": 0.9}
    twice, call = Trained(name, **more), getattr(optim, name)
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device())
    prog, (w, g) = Sequence(), (graph.add_variable(FLOAT, SHAPE, n) for n in "wg")
    for tensor, values in ((w, FIRST), (g, SLOPES[0])):
        poputil.map_tensor_linearly(graph, tensor, 1, 1)
        graph.set_initial_value(tensor, values)
    state = call(graph, w, g, 0.02, prog, **more)
    again = call(graph, w, g, 0.02, prog, state=state, **more)
    assert again.keys() == state.keys() and all(again[n] is state[n] for n in state)
    graph.create_host_read("w", w)
    engine = Engine(graph, prog)
    engine.load(Device(graph.target))
    engine.run()
    for _ in range(2):
        twice.write("slope", SLOPES[0])
        twice.write("rate", 0.02)
        twice.engine.run()
    np.testing.assert_allclose(engine.read_tensor("w"), twice.read("parameter"), 1e-6)
    key = next(iter(state))
    for wrong in (graph.add_variable(FLOAT, (3,), "x"), graph.add_variable(HALF, SHAPE, "x")):
        with pytest.raises(PoplibsError, match=key):
            call(graph, w, g, 0.02, prog, state={**state, key: wrong}, **more)


def test_schedules_are_plain_functions_of_the_step() -> None:
    assert [optim.warm_up(i, 4, 0.8) for i in (0, 1, 3, 9)] == [0.2, 0.4, 0.8, 0.8]
    assert [round(optim.cosine(i, 4, 1.0, 0.2), 9) for i in (0, 2, 4, 7)] == [1, 0.6, 0.2, 0.2]
    assert [round(optim.stairs(i, 3, 1.0), 9) for i in (0, 2, 3, 6)] == [1, 1, 0.1, 0.01]
    with pytest.raises(PoplibsError) as caught:
        optim.cosine(3, 0, 0.1)
    assert str(caught.value) == (
        "cosine() was given step=3 and steps=0.\n"
        "  next:  give whole numbers: 0 or more as step, and 1 or more as steps."
    )


Call = Callable[[Graph, Tensor, Tensor, Sequence], object]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda g, w, d, p: optim.sgd(g, w, d, 0.1, p, momentum=1.0),
            "sgd() was given 1.0 as momentum.\n  next:  give a number from 0 to below 1.",
        ),
        (
            lambda g, w, d, p: optim.sgd(g, w, d, np.nan, p),
            "sgd() was given nan as rate.\n"
            "  next:  give a number that is neither NaN nor infinite.",
        ),
        (
            lambda g, w, d, p: optim.cosine(1, 3, 0.1, np.nan),
            "cosine() was given nan as a rate or factor.\n  next:  give a finite number.",
        ),
        (
            lambda g, w, d, p: optim.adam(g, w, d, 0.1, p, eps=-1e-8),
            "adam() was given -1e-08 as eps.\n  next:  give a number of 0 or more.",
        ),
        (
            lambda g, w, d, p: optim.lars(g, w, d[:3], 0.1, p),
            "lars() was given two shapes that differ: (4,) and (3,).\n"
            "  where: parameter Tensor('w', FLOAT, shape (4,)) and slope "
            "Tensor(a view of 'd', FLOAT, shape (3,))\n  next:  give a slope for each element "
            "of the parameter.",
        ),
        (
            lambda g, w, d, p: optim.adamw(g, w, d, w, p),
            "adamw() needs rate as a tensor of 1 element of FLOAT, but was given 4 of FLOAT.\n"
            "  where: Tensor('w', FLOAT, shape (4,))\n"
            "  next:  give a number, or a tensor of one element; for a factor per element, use popops.mul.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call: Call, text: str) -> None:
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device()), Sequence()
    w, d = (graph.add_variable(FLOAT, 4, n) for n in "wd")
    for tensor in (w, d):
        graph.set_tile_mapping(tensor, 0)
    with pytest.raises(PoplibsError) as caught:
        call(graph, w, d, prog)
    assert str(caught.value) == text
    assert not prog.children()
