"""What arguments must be: kinds that annotations say, the words of errors, and calls of the front
ends, each with one argument spoiled."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from fuzz.arguments import Attacker, Ended
from ir_cases import GROUPS, graph_of

from ipu_teach import FLOAT, UNSIGNED_CHAR, Graph, IPUModel, keras, popart
from ipu_teach.arguments import (
    ADVICE,
    Among,
    Count,
    Extended,
    Fraction,
    Natural,
    Numbers,
    Positive,
    check,
    checked,
    kind_of,
)
from ipu_teach.errors import IPUTeachError, ModelError
from ipu_teach.frontends import ir
from ipu_teach.poplibs import optim, popnn
from ipu_teach.program import Sequence as Program
from ipu_teach.schedules import pipeline_schedule
from ipu_teach.types import DType

Words = Annotated[str, Among(("mean", "sum"))]
Call = Callable[[], object]


def refuse(problem: str, advice: str) -> ModelError:
    return ModelError(problem, next_step=advice)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int, [0, -3, np.int64(4)], [True, 3.0, "3", None, 1j, 10**30, np.zeros(1)]),
        (Count, [1, np.int32(4)], [0, -1, True, 1.0]),
        (Natural, [0, 7], [-1, None]),
        (float, [0, -2.5, np.float32(2)], [True, "1", 1j, np.nan, np.inf, 1e300, np.zeros(2)]),
        (Positive, [1e-9, 3], [0, -1, np.nan]),
        (Fraction, [0, 0.5], [1.0, -0.1, 2]),
        (Extended, [np.inf, -np.inf, 1], [np.nan, "inf"]),
        (bool, [True, np.False_], [0, 1, "yes", None]),
        (str, ["", "x"], [b"x", None, 3]),
        (Words, ["sum"], ["Sum", "", 3, ["sum"], np.array(["sum"])]),
        (Literal["mean", "sum"], ["mean"], ["max", None]),
        (int | None, [None, 3], ["x", 2.5]),
        (type[DType], [FLOAT, UNSIGNED_CHAR], ["FLOAT", np.float32, FLOAT.numpy, None]),
        (Sequence[int], [[], (1, 2), range(3), np.arange(3)], [3, {1}, "12", [1.5], iter([1])]),
        (Sequence[Count], [[1, 2]], [[0], [True], [None], np.ones((2, 2), int)]),
        (tuple[int, int], [(1, 2), [3, 4]], [(1,), (1, 2, 3), 5]),
        (Iterable[int], [[1], {2}, range(3)], [5, "12", b"1", ["a"], np.zeros((2, 2))]),
        (Mapping[str, float], [{}, {"a": 1.0}], [[], {"a": None}, {1: 2.0}]),
        (Numbers, [1, 2.5, True, [1, 2], np.zeros((2, 3))], [None, "x", 1j, [None], {1}, object()]),
        (Callable[..., Any], [len, print], [3, None, "f"]),
        (Any, [None, 1j, object()], []),
    ],
    ids=lambda value: re.sub(r" at 0x[0-9a-f]+", "", str(value)),
)
def test_an_annotation_says_what_is_taken(hint: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        check("f", "x", value, hint, refuse)
    for value in bad:
        with pytest.raises(ModelError) as caught:
            check("f", "x", value, hint, refuse)
        assert str(caught.value).startswith("f() was given ")
        assert caught.value.next_step


def test_an_unknown_word_names_the_nearest_and_all() -> None:
    with pytest.raises(ModelError) as caught:
        check("loss", "reduction", "men", Words, refuse)
    assert str(caught.value) == (
        "loss() was given 'men' as reduction.\n  next:  did you mean 'mean'? give 'mean' or 'sum'."
    )


def test_an_iterator_is_read_once_and_handed_on_as_a_list() -> None:
    @checked(refuse)
    def total(numbers: Iterable[int], *more: int, **named: float) -> Any:
        return numbers, more, named

    assert total(iter([1, 2]), 3, x=4.0) == ([1, 2], (3,), {"x": 4.0})
    assert total(numbers=(i for i in (5,))) == ([5], (), {})
    calls: list[Call] = [
        lambda: total(iter(["a"])),  # type: ignore[arg-type]
        lambda: total([1], "x"),  # type: ignore[arg-type]
        lambda: total([1], x="y"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(ModelError, match=r"^total\(\) was given "):
            call()


def test_what_python_says_of_a_signature_stays() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        ir.mean(ir.Ir())  # type: ignore[call-arg]
    assert list(inspect.signature(ir.mean).parameters) == ["ir", "x", "dims", "keep"]


def test_a_hint_that_says_nothing_is_not_checked() -> None:
    assert kind_of(Any) is None
    assert kind_of(object) is None
    assert kind_of("a name of type checkers alone") is None


untyped: Any = ir  # a type checker finds some of these, too
keras_untyped: Any = keras
GRAPH: Any = ir.Ir()
X, W = GRAPH.input((4, 3), "x"), GRAPH.variable(np.ones((2, 3), np.float32), "w")
LOSS = ir.mean(GRAPH, untyped.linear(GRAPH, X, W))
FOREIGN = ir.Ir().input((4, 3), "foreign")
BUILDER = popart.Builder()
ID = BUILDER.addInputTensor(popart.TensorInfo("FLOAT", (4, 3)), "x")


def train(**how: Any) -> object:
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph, program = Graph(device), Program()
    w, slope = (graph.add_variable(FLOAT, (4,), name) for name in ("w", "slope"))
    for tensor in (w, slope):
        graph.set_tile_mapping(tensor, 0)
    return optim.sgd(graph, w, slope, 0.1, program, momentum=0.9, **how)


def pooled(kernel: Any, padding: Any = (0, 0)) -> object:
    field = (10**9, 10**9)
    return popnn.pooling.PoolParams("MAX", field, kernel, (1, 1), padding, padding, 1, 1, FLOAT)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: untyped.linear(GRAPH, X, None), "linear() was given None as w."),
        (lambda: untyped.recompute(None), "recompute() was given None as ir."),
        (lambda: untyped.seed(GRAPH, None), "seed() was given None as number."),
        (
            lambda: ir.mean(GRAPH, X, (5,)),
            "mean() is not possible: [5] contains a dimension that a tensor of 2 dimensions "
            "does not have.",
        ),
        (lambda: ir.cross_entropy(GRAPH, X, X, "nonsense"), "was given 'nonsense' as reduction."),
        (
            lambda: untyped.linear(GRAPH, FOREIGN, W),
            "matmul() was given foreign: FLOAT[4, 3], which",
        ),
        (lambda: ir.attention(GRAPH, X, X, X, X, True), "attention() was given both a mask and "),
        (lambda: untyped.optimise(GRAPH, {}, rate=None), "optimise() was given None as rate."),
        (
            lambda: untyped.optimise(GRAPH, {}, "adam", beta3=1.0),
            "optimise() was given the setting 'beta3', which",
        ),
        (lambda: ir.autodiff(GRAPH, LOSS, scale=0.0), "autodiff() was given 0.0 as scale."),
        (lambda: ir.pool(GRAPH, "max_pool", X, 2, lower=-1), "pool() was given -1 as lower."),
        (lambda: GRAPH.op("add", X, None), "The operation add was given None as input 1, "),
        (lambda: GRAPH.op("add", X, "y"), "The operation add was given 'y' as input 1, "),
        (lambda: GRAPH.op("mul", X, 2 + 1j), "The operation mul was given (2+1j) as input 1, "),
        (lambda: GRAPH.op("sum", X, dims={0}), "sum was given {0} as dims."),
        (lambda: GRAPH.op("reshape", X, form=(12,)), "reshape has no attribute 'form'."),
        (lambda: GRAPH.op("cast", X, dtype=np.float32), "cast was given numpy.float32 as dtype."),
        (lambda: GRAPH.op("expand", X, shape=(2**31, 4, 3)), "expand of [2147483648, 4, 3] has "),
        (lambda: GRAPH.input((2, "3"), "y"), "input() was given (2, '3') as shape."),
        (lambda: GRAPH.at(stage=-1).__enter__(), "at() was given -1 as stage."),
        (lambda: GRAPH.at(stages=1).__enter__(), "at() has no argument 'stages'."),
        (lambda: keras.layers.Dense(True), "Dense() was given True as units."),
        (lambda: keras_untyped.Sequential([3]), "Sequential() was given [3] as layers."),
        (lambda: keras.optimizers.SGD(float("nan")), "SGD() was given nan as learning_rate."),
        (lambda: keras.callbacks.EarlyStopping(mode="up"), "EarlyStopping() was given 'up' as "),
        (lambda: keras.ipu.config.IPUConfig(auto_select_ipus=0), "IPUConfig() was given 0 as "),
        (lambda: BUILDER.aiOnnx.softmax([ID], axis=7), "along() is not possible: [7] contains a "),
        (lambda: BUILDER.aiOnnx.softmax([ID], axes=1), "softmax() has no attribute 'axes'."),
        (lambda: BUILDER.aiOnnx.relu(ID), "relu() was given the id "),
        (lambda: popart.SGD({"lossScaling": (0.0, True)}), "SGD() was given 0.0 as lossScaling."),
        (lambda: popart.TensorInfo("FLOT", (1,)), "TensorInfo() was given 'FLOT' as dtype."),
        (
            lambda: train(state={"velocty": X}),
            "sgd() was given a state with the unknown entry 'velocty'.",
        ),
        (lambda: train(state=[X]), "sgd() was given [x: FLOAT[4, 3]] as state."),
        (
            lambda: pooled((2, 2)),
            "PoolParams() was given a kernel of 2 in dimension 0 of the field",
        ),
        (
            lambda: pipeline_schedule(2, 10**9),
            "pipeline_schedule() was given 1000000000 as the number of micro",
        ),
    ],
)
def test_a_bad_argument_is_named(call: Call, text: str) -> None:
    with pytest.raises(IPUTeachError) as caught:
        call()
    assert text in str(caught.value).splitlines()[0]
    assert caught.value.next_step


def test_a_tensor_larger_than_an_ipu_is_refused_before_anything_is_allocated() -> None:
    graph = ir.Ir()
    row = graph.op("reshape", graph.input((4, 3), "x"), shape=(1, 12))
    wide = graph.op("expand", row, shape=(10**8, 12))
    graph.output("y", graph.op("sum", graph.op("add", wide, 1.0), dims=[0]))
    device = IPUModel(tiles_per_ipu=2).create_device()
    with pytest.raises(ModelError) as caught:
        ir.Lowering(graph, device)
    assert str(caught.value).startswith(
        "The result of add has 4,800,000,000 bytes, but an IPU of the device has a memory of only "
        "1,277,952 bytes.\n"
    )
    assert "line:  test_arguments.py, line " in str(caught.value) and caught.value.next_step


def test_options_are_checked_when_they_are_set() -> None:
    options = popart.SessionOptions()
    with pytest.raises(ModelError, match=r"was given 'x' as accumulationFactor\."):
        options.accumulationFactor = "x"  # type: ignore[assignment]
    with pytest.raises(ModelError, match=r"(?s)'Of' as virtualGraphMode.*did you mean 'Off'\?"):
        options.virtualGraphMode = "Of"
    options.accumulationFactor = 4
    assert options.accumulationFactor == 4


def test_a_row_of_ones_own_says_what_its_attributes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def shape(x: ir.Value, kind: Count) -> ir.Out:  # not the text that "kind" is in the kit's rows
        return ir.Out((*x.shape, kind), x.dtype)

    monkeypatch.setitem(ir.OPS, "mine", ir.Row(shape, lambda low, x, kind: x))
    assert GRAPH.op("mine", X, kind=2).shape == (4, 3, 2)
    with pytest.raises(ModelError, match=r"mine was given 0 as kind\."):
        GRAPH.op("mine", X, kind=0)
    with pytest.raises(ModelError, match=r"(?s)mine has no attribute 'knd'.*did you mean 'kind'"):
        GRAPH.op("mine", X, kind=2, knd=3)


# --- the attacker ---------------------------------------------------------------------------------


def spoiled(function: Callable[..., Any], *args: Any) -> Ended:
    """How calls of a function end, each with one of its arguments spoiled."""
    attacker, ended = Attacker(limit=1000, seconds=0.2), Ended()
    attacker.attack(function, function.__name__, args, {}, ended, 0)
    return ended


def test_the_attacker_finds_what_is_not_checked() -> None:
    def careless(count: int) -> object:
        if count == 1:
            while True:
                pass
        if isinstance(count, dict):
            raise ModelError("It was given a dict.")
        return [0] * count

    ended = spoiled(careless, 3)
    kinds = {fault.split(":")[0] for fault in ended.faults}
    assert kinds == {"memory", "silent", "hang", "without next"}
    inside = spoiled(ir.rows.axes, X, [0])  # which the kit calls, and does not check
    assert "traceback" in {fault.split(":")[0] for fault in inside.faults}
    assert any("careless(count=None)" in fault for fault in ended.faults)


def test_the_attacker_is_content_with_what_is_checked() -> None:
    @checked(refuse)
    def careful(count: Natural, name: str | None = None) -> object:
        return count, name

    ended = spoiled(careful, 3)
    assert not ended.faults
    assert ended.count["refused"] > 80 and ended.count["accepted"] > 5


def test_spoiled_calls_of_the_front_ends_are_refused() -> None:
    attacker = Attacker(limit=4000, share=0.04)
    attacker.install(["ir", "keras", "popart"])
    try:
        for cases in GROUPS.values():
            graph, loss = graph_of(cases)
            step, grads = ir.autodiff(graph, loss)
            ir.replicate(ir.optimise(step, grads, "adam"), 2)
        with keras.ipu.ipu_strategy.IPUStrategy().scope():
            layers = [keras.layers.Flatten(input_shape=(4, 2)), keras.layers.Dense(3, "relu")]
            model = keras.Sequential([*layers, keras.layers.Dropout(0.5)])
            model.compile(keras.optimizers.Adam(), "mse", steps_per_execution=2)
            model.set_gradient_accumulation_options(2)
            model.set_weights(model.get_weights())
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", (4, 3)), "x")
        w = builder.addInitializedInputTensor(np.ones((3, 2), np.float32), "w")
        y = builder.aiOnnx.softmax([builder.aiOnnx.gemm([x, w], alpha=2.0)], axis=1)
        builder.addOutputTensor(builder.aiOnnx.reducesum([y], axes=[0], keepdims=1))
    finally:
        attacker.remove()
    faults = [fault for ended in attacker.groups.values() for fault in ended.faults]
    assert not faults
    assert attacker.done > 800
    assert ir.linear.__code__.co_name == "call"  # the hooks are gone


def test_what_replaces_a_wrong_argument_is_said_for_every_public_class_that_is_advised() -> None:
    """A decorator that slips to the class above it takes the advice away from its own class."""
    assert {ir.Ir, ir.Value, keras.layers.Layer, keras.callbacks.Callback} <= ADVICE.keys()
    assert [kind.__name__ for kind in ADVICE if kind.__name__.startswith("_")] == []
    device = IPUModel().create_device()
    for call, name in (
        (lambda: ir.replicate(3, 2), "replicate() was given 3 as ir."),  # type: ignore[arg-type]
        (lambda: ir.estimate(None, device), "estimate() was given None as step."),  # type: ignore[arg-type]
    ):
        with pytest.raises(ModelError) as caught:
            call()
        assert caught.value.tried == name
        assert caught.value.next_step == (
            "give a graph as the first argument: ir.Ir(), or the result of a transform."
        )
