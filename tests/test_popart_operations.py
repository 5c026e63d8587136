"""PopART's Builder: ONNX's operations compared with numpy in float64 and with plain loops."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest

from ipu_teach import popart
from ipu_teach.errors import ModelError

RNG = np.random.default_rng(4)
EDGES = np.float32([[-100.0, -2.5, -1.0, -0.5], [-0.0, 0.0, 0.5, 1.5], [2.5, 7.0, 100.0, 1e-3]])
X = RNG.standard_normal((3, 4)).astype(np.float32)
CUBE = RNG.standard_normal((2, 3, 4)).astype(np.float32)
IMAGES = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
INTS = np.int32([[-7, -3, 0, 4], [5, -5, 2, 7], [1, -1, 9, -9]])
TRUTHS = INTS > 0
TYPES = {"f": "FLOAT", "i": "INT32", "b": "BOOL", "u": "UINT32"}
on: Any = None  # the operations of the Builder, in the functions of the cases


def results(arrays: list[Any], make: Callable[..., Any]) -> list[Any]:
    """The results of `make(operations, *ids)`, where the ids are those of inputs with `arrays`."""
    builder = popart.Builder()
    ids = [builder.addInputTensor(popart.TensorInfo(TYPES[a.dtype.kind], a.shape)) for a in arrays]
    made = make(builder.aiOnnx, *ids)
    names = made if isinstance(made, list) else [made]
    flow = popart.DataFlow(1, {name: popart.AnchorReturnType("ALL") for name in names})
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 4})
    session = popart.InferenceSession(builder.getModelProto(), flow, device)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(zip(ids, arrays, strict=True)), anchors))
    for name, array in zip(names, (anchors[n] for n in names), strict=True):
        assert list(array.shape) in (s := builder.getTensorShape(name), [1, *s])
    return [anchors[n].reshape(builder.getTensorShape(n)) for n in names]


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def constant(o: Any, *numbers: int) -> str:
    return str(o.constant(ints(*numbers)))


def wide(x: Any) -> Any:
    return x.astype(np.float64)


def gelu(x: Any) -> Any:
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


ONE: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {  # input, ONNX, numpy
    "elu": (EDGES, lambda o, x: o.elu([x], alpha=0.5), lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)) / 2)),
    "leakyrelu": (EDGES, lambda o, x: o.leakyrelu([x]), lambda x: np.where(x < 0, 0.01 * x, x)),
    "hardsigmoid": (EDGES, lambda o, x: o.hardsigmoid([x]), lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "hardswish": (EDGES, lambda o, x: o.hardswish([x]), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "gelu": (EDGES, lambda o, x: o.gelu([x]), gelu),
    "erf": (EDGES, lambda o, x: o.erf([x]), np.vectorize(erf)),
    "softplus": (EDGES, lambda o, x: o.softplus([x]), lambda x: np.logaddexp(x, 0)),
    "round": (EDGES, lambda o, x: o.round([x]), np.round),
    "sign": (EDGES, lambda o, x: o.sign([x]), np.sign),
    "reciprocal": (X, lambda o, x: o.reciprocal([x]), lambda x: 1 / x),
    "clip": (EDGES, lambda o, x: o.clip([x, o.constant(np.float32(-1)), o.constant(np.float32(2))]), lambda x: np.clip(x, -1, 2)),
    "clip above": (EDGES, lambda o, x: o.clip([x, "", o.constant(np.float32(2))]), lambda x: np.minimum(x, 2)),
    "clip integers": (INTS, lambda o, x: o.clip([x], min=-4), lambda x: np.maximum(x, -4)),
    "isinf": (np.float32([np.inf, -np.inf, np.nan, 1]), lambda o, x: o.isinf([x]), np.isinf),
    "isinf above": (np.float32([np.inf, -np.inf, np.nan, 1]), lambda o, x: o.isinf([x], detect_negative=0), np.isposinf),
    "isinf below": (np.float32([np.inf, -np.inf, np.nan, 1]), lambda o, x: o.isinf([x], detect_positive=0), np.isneginf),
    "isinf never": (np.float32([np.inf, -np.inf, np.nan, 1]), lambda o, x: o.isinf([x], detect_positive=0, detect_negative=0), np.zeros_like),
    "selu": (EDGES, lambda o, x: o.selu([x], alpha=2.0, gamma=3.0), lambda x: 3 * np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0)))),
    "isnan": (np.float32([np.inf, -np.inf, np.nan, 1]), lambda o, x: o.isnan([x]), np.isnan),
    "not": (TRUTHS, lambda o, x: o.xor([o.__getattr__("not")([x]), x]), lambda x: x == x),
    "cast to bool": (EDGES, lambda o, x: o.cast([x], to="BOOL"), lambda x: x != 0),
    "cast to integers": (EDGES, lambda o, x: o.cast([x], to="INT64"), np.trunc),
    "square": (EDGES, lambda o, x: o.pow([x, o.constant(np.float32(2))]), lambda x: x**2),
    "cube": (EDGES, lambda o, x: o.pow([x, o.constant(np.int64(3))]), lambda x: x**3),
    "reshape": (CUBE, lambda o, x: o.reshape([x, constant(o, 0, -1)]), lambda x: x.reshape(2, 12)),
    "flatten": (CUBE, lambda o, x: o.flatten([x], axis=2), lambda x: x.reshape(6, 4)),
    "flatten all": (CUBE, lambda o, x: o.flatten([x], axis=0), lambda x: x.reshape(1, 24)),
    "squeeze": (CUBE[:, :1], lambda o, x: o.squeeze([x, constant(o, -2)]), lambda x: x[:, 0]),
    "squeeze all": (CUBE[:1, :1], lambda o, x: o.squeeze([x]), lambda x: x[0, 0]),
    "unsqueeze": (X, lambda o, x: o.unsqueeze([x, constant(o, -1, 0)]), lambda x: x[None, :, :, None]),
    "transpose": (CUBE, lambda o, x: o.transpose([x]), lambda x: x.transpose()),
    "slice": (CUBE, lambda o, x: o.slice([x, constant(o, -1, -1), constant(o, -99, 1), constant(o, 1, 2), constant(o, -1, -2)]), lambda x: x[:, ::-1, -1:1:-2]),
    "slice to the end": (CUBE, lambda o, x: o.slice([x], starts=[1], ends=[2**63 - 1], axes=[-1]), lambda x: x[..., 1:]),
    "expand": (X, lambda o, x: o.expand([x, constant(o, 2, 1, 4)]), lambda x: np.broadcast_to(x, (2, 3, 4))),
    "tile": (X, lambda o, x: o.tile([x, constant(o, 2, 3)]), lambda x: np.tile(x, (2, 3))),
    "pad": (X, lambda o, x: o.pad([x, constant(o, 1, 0, 0, 2), o.constant(np.float32(7))]), lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7)),
    "reflect": (X, lambda o, x: o.pad([x], pads=[2, 1], axes=[-1], mode="reflect"), lambda x: np.pad(x, ((0, 0), (2, 1)), "reflect")),
    "edge": (X, lambda o, x: o.pad([x], pads=[1, 0, 0, 3], mode="edge"), lambda x: np.pad(x, ((1, 0), (0, 3)), "edge")),
    "size": (CUBE, lambda o, x: o.add([x, o.cast([o.size([x])], to="FLOAT")]), lambda x: x.size + x),
    "constantofshape": (X, lambda o, x: o.add([x, o.constantofshape([o.shape([x])], value=np.float32([2]))]), lambda x: x + 2),
    "reducesum": (CUBE, lambda o, x: o.reducesum([x, constant(o, -1, 0)]), lambda x: x.sum((0, 2), keepdims=True)),
    "reducesum all": (CUBE, lambda o, x: o.reducesum([x], axes=[], keepdims=0), lambda x: x.sum()),
    "no reduction": (CUBE, lambda o, x: o.identity([o.reducesum([x], noop_with_empty_axes=1)]), lambda x: x),
    "reducel2": (CUBE, lambda o, x: o.reducel2([x], axes=[1]), lambda x: np.sqrt((x**2).sum(1, keepdims=True))),
    "reducemax": (CUBE, lambda o, x: o.reducemax([x], axes=[1], keepdims=0), lambda x: x.max(1)),
    "reduceprod": (CUBE, lambda o, x: o.reduceprod([x], axes=[1], keepdims=0), lambda x: x.prod(1)),
    "argmax": (INTS, lambda o, x: o.argmax([x]), lambda x: x.argmax(0)[None]),
    "argmin": (CUBE, lambda o, x: o.argmin([x], axis=-2, keepdims=0), lambda x: x.argmin(1)),
    "last argmax": (INTS // 4, lambda o, x: o.argmax([x], axis=1, keepdims=0, select_last_index=1), lambda x: 3 - x[:, ::-1].argmax(1)),
    "cumsum": (CUBE, lambda o, x: o.cumsum([x, o.constant(np.int64(1))]), lambda x: x.cumsum(1)),
    "cumsum back": (CUBE, lambda o, x: o.cumsum([x], axis=-2, reverse=1, exclusive=1), lambda x: x[:, ::-1].cumsum(1)[:, ::-1] - x),
    "gather": (CUBE, lambda o, x: o.gather([x, o.constant(np.int64([[2, 0], [-1, 1]]))], axis=1), lambda x: x[:, [[2, 0], [-1, 1]]]),
    "gather one": (CUBE, lambda o, x: o.gather([x, o.constant(np.int64(-1))], axis=-1), lambda x: x[..., -1]),
    "nearest": (IMAGES, lambda o, x: o.resize([x], scales=[1, 1, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor"), lambda x: x.repeat(2, 2).repeat(2, 3)),
    "nearest, some axes": (IMAGES, lambda o, x: o.resize([x], scales=[3, 2], axes=[-1, 1], coordinate_transformation_mode="asymmetric", nearest_mode="floor"), lambda x: x.repeat(2, 1).repeat(3, 3)),
    "linear": (X, lambda o, x: o.resize([x], sizes=[3, 7], mode="linear", coordinate_transformation_mode="align_corners"), lambda x: np.stack([np.interp(np.linspace(0, 3, 7), range(4), r) for r in x])),
    "globalmaxpool": (IMAGES, lambda o, x: o.globalmaxpool([x]), lambda x: x.max((2, 3), keepdims=True)),
    "globalaveragepool": (IMAGES, lambda o, x: o.globalaveragepool([x]), lambda x: x.mean((2, 3), keepdims=True)),
    "dropout": (X, lambda o, x: o.dropout([x], training_mode=0), lambda x: x),
    "onehot": (np.int32([0, -1, 5, 2]), lambda o, x: o.onehot([x, constant(o, 3), o.constant(np.float32([2, 9]))], axis=0), lambda x: np.where(np.arange(3)[:, None] == np.where(x < 0, x + 3, x), 9, 2)),
}  # fmt: skip


@pytest.mark.parametrize("case", ONE)
def test_operations_of_one_tensor_are_those_of_onnx(case: str) -> None:
    x, make, expected = ONE[case]
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected(wide(x) if x.dtype.kind == "f" else x))
    (found,) = results([x], make)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 2e-6, 2e-6)


B, C = RNG.standard_normal((2, 3, 4)).astype(np.float32)
TWO: dict[str, tuple[list[Any], Callable[..., Any], Callable[..., Any]]] = {
    "sum": ([X, B, C], lambda o, *x: o.sum([*x]), lambda a, b, c: a + b + c),
    "mean": ([X, B, C], lambda o, *x: o.mean([*x]), lambda a, b, c: (a + b + c) / 3),
    "max": ([X, B, C], lambda o, *x: o.max([*x]), lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "integers": ([INTS, INTS.T.reshape(3, 4)], lambda o, *x: o.sub([*x]), lambda a, b: a - b),
    "mod": ([INTS, np.int32([[3, -4, 5, -6]])], lambda o, *x: o.mod([*x]), lambda a, b: a % b),
    "fmod": ([X * 9, B], lambda o, *x: o.mod([*x], fmod=1), np.fmod),
    "prelu": ([X, B], lambda o, *x: o.prelu([*x]), lambda x, s: np.where(x < 0, s * x, x)),
    "where": ([TRUTHS, X, B], lambda o, *x: o.where([*x]), np.where),
    "equal": ([INTS, np.abs(INTS)], lambda o, *x: o.equal([*x]), np.equal),
    "lessorequal": ([INTS, np.abs(INTS)], lambda o, *x: o.lessorequal([*x]), np.less_equal),
    "or": ([TRUTHS, ~TRUTHS], lambda o, *x: getattr(o, "or")([*x]), np.logical_or),
    "vector and matrix": ([X[0], X.T], lambda o, *x: o.matmul([*x]), np.matmul),
    "vectors": ([X[0], X[1]], lambda o, *x: o.matmul([*x]), np.matmul),
    "gather": ([X, np.int32([[-1, 0], [2, -3]])], lambda o, *x: o.gather([*x]), lambda x, i: x[i]),
    "gatherelements": ([X, np.int32([[-1, 0], [2, 1]])], lambda o, *x: o.gatherelements([*x], axis=1), lambda x, i: np.take_along_axis(x[:2], i, 1)),
    "gathernd": ([CUBE, np.int32([[[0, 1]], [[-1, 2]]])], lambda o, *x: o.gathernd([*x]), lambda x, i: x[tuple(np.moveaxis(i, -1, 0))]),
}  # fmt: skip


@pytest.mark.parametrize("case", TWO)
def test_operations_of_several_tensors_are_those_of_onnx(case: str) -> None:
    arrays, make, expected = TWO[case]
    wanted = expected(*(wide(a) if a.dtype.kind == "f" else a for a in arrays))
    (found,) = results(arrays, make)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scatters_write_to_the_positions_of_the_indices(reduction: str) -> None:
    index = np.int32([[0, -1, 2, 0], [1, 0, -3, 2]])
    combine = {"none": lambda a, b: b, "add": lambda a, b: a + b, "max": max}[reduction]
    wanted, rows = wide(X), wide(X)
    for i, j in np.ndindex(2, 4):
        wanted[index[i, j], j] = combine(wanted[index[i, j], j], B[i, j])
    for row, source in ((2, B[0]), (0, B[1])):
        rows[row] = np.array([combine(a, b) for a, b in zip(rows[row], source, strict=True)])
    (found,) = results(
        [X, index, B[:2]], lambda o, *x: o.scatterelements([*x], reduction=reduction)
    )
    np.testing.assert_allclose(found, wanted, 1e-6)
    places = np.int32([[-1], [0]])
    (found,) = results([X, places, B[:2]], lambda o, *x: o.scatternd([*x], reduction=reduction))
    np.testing.assert_allclose(found, rows, 1e-6)


def test_operations_with_several_results_return_a_list() -> None:
    def make(o: Any, x: str) -> list[str]:
        values, places = o.topk([x, constant(o, 2)], axis=0, largest=0)
        return [values, places, *o.split([x], axis=1, num_outputs=3), *o.split([x], split=[1, 2])]

    values, places, *parts = results([INTS // 4], make)
    order = np.argsort(INTS // 4, 0, kind="stable")[:2]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(INTS // 4, order, 0))
    assert [p.shape for p in parts] == [(3, 2), (3, 2), (1, 4), (2, 4)]
    np.testing.assert_array_equal(np.concatenate(parts[2:]), INTS // 4)


def convolved(x: Any, w: Any, stride: int, lower: int, upper: int, dilation: int) -> Any:
    """A convolution of one dimension, as a plain loop."""
    x = np.pad(wide(x), ((0, 0), (0, 0), (lower, upper)))
    reach = (w.shape[2] - 1) * dilation + 1
    y = np.zeros((len(x), len(w), (x.shape[2] - reach) // stride + 1))
    for i in range(y.shape[2]):
        window = x[:, :, i * stride : i * stride + reach : dilation]
        y[:, :, i] = np.einsum("bck,ock->bo", window, wide(w))
    return y


SIGNAL = RNG.standard_normal((2, 3, 11)).astype(np.float32)
WEIGHTS = RNG.standard_normal((4, 3, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"auto_pad": "SAME_UPPER", "strides": [2]}, (2, 1, 1, 1)),
        ({"auto_pad": "SAME_LOWER", "dilations": [2]}, (1, 2, 2, 2)),
        ({"auto_pad": "SAME_UPPER", "strides": [4]}, (4, 0, 0, 1)),
        ({"auto_pad": "VALID"}, (1, 0, 0, 1)),
        ({"pads": [0, 2], "strides": [3]}, (3, 0, 2, 1)),
    ],
)
def test_a_convolution_pads_as_onnx_says(options: Any, sizes: Any) -> None:
    (found,) = results([SIGNAL, WEIGHTS], lambda o, *x: o.conv([*x], **options))
    np.testing.assert_allclose(found, convolved(SIGNAL, WEIGHTS, *sizes), 1e-4, 1e-5)


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("pads", [(0, 0), (1, 2), (2, 0)])
def test_a_transposed_convolution_adds_each_element_times_the_weights(
    extra: int, pads: Any
) -> None:
    stride, dilation = 3, 2
    reach = (SIGNAL.shape[2] - 1) * stride + 2 * dilation + 1
    whole = np.zeros((2, 2, reach + 9))
    weights = WEIGHTS[:3, :2]
    for i, k in np.ndindex(SIGNAL.shape[2], 3):
        place = i * stride + k * dilation
        whole[:, :, place] += wide(SIGNAL)[:, :, i] @ wide(weights)[:, :, k]
    options = {
        "strides": [stride],
        "dilations": [dilation],
        "output_padding": [extra],
        "pads": pads,
    }
    (found,) = results([SIGNAL, weights], lambda o, *x: o.convtranspose([*x], **options))
    wanted = whole[:, :, pads[0] : reach - pads[1] + extra]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


def test_a_pool_with_ceil_mode_has_a_last_window_that_is_not_complete() -> None:
    options = {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}

    def make(o: Any, x: str) -> list[str]:
        return [o.maxpool([x], **options), o.averagepool([x], **options)]

    x = SIGNAL[:, :, :10]
    windows = [range(max(2 * i - 1, 0), min(2 * i + 2, 10)) for i in range(6)]
    for found, kind in zip(results([x], make), (np.max, np.mean), strict=True):
        wanted = np.stack([kind(wide(x)[:, :, w], axis=2) for w in windows if len(w)], 2)
        np.testing.assert_allclose(found, wanted[:, :, : found.shape[2]], 1e-6)
        assert found.shape[2] == 6


def test_norms_have_the_mean_0_and_the_variance_1() -> None:
    gamma, beta = RNG.standard_normal((2, 3)).astype(np.float32)

    def make(o: Any, x: str, g: str, b: str, field: str) -> list[str]:
        return [
            o.instancenormalization([x, g, b], epsilon=0.1),
            o.groupnormalization([x, g, b], num_groups=1),
            o.layernormalization([x, field], axis=2),
        ]

    field = RNG.standard_normal((5, 6)).astype(np.float32)
    found = results([IMAGES, gamma, beta, field], make)
    x = wide(IMAGES)
    for y, axes, eps in zip(found, ((2, 3), (1, 2, 3), (2, 3)), (0.1, 1e-5, 1e-5), strict=True):
        z = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
        column = gamma[:, None, None], beta[:, None, None]
        wanted = z * field if y is found[2] else z * column[0] + column[1]
        np.testing.assert_allclose(y, wanted, 1e-4, 1e-5)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm_step(i: Any, h: Any, c: Any) -> Any:
    input_gate, output, forget, cell = np.split(i, 4, -1)  # ONNX's order
    c = sigmoid(forget) * c + sigmoid(input_gate) * np.tanh(cell)
    return sigmoid(output) * np.tanh(c), c


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_lstm_is_onnx_s(direction: str) -> None:
    directions, hidden = 1 + (direction == "bidirectional"), 3
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    w = RNG.standard_normal((directions, 12, 4)).astype(np.float32)
    r = RNG.standard_normal((directions, 12, hidden)).astype(np.float32)
    b = RNG.standard_normal((directions, 24)).astype(np.float32)
    h0 = RNG.standard_normal((directions, 2, hidden)).astype(np.float32)
    y = np.zeros((5, directions, 2, hidden))
    last = np.zeros((2, directions, 2, hidden))
    for d in range(directions):
        h, c = wide(h0[d]), np.zeros((2, hidden))
        steps = range(5)[:: -1 if d or direction == "reverse" else 1]
        for t in steps:
            h, c = lstm_step(wide(x[t]) @ w[d].T + h @ r[d].T + b[d, :12] + b[d, 12:], h, c)
            y[t, d] = h
        last[:, d] = h, c

    def make(o: Any, *ids: str) -> list[str]:
        names = [*ids[:4], "", ids[4]]
        return list(o.lstm(names, hidden_size=hidden, direction=direction))

    found = results([x, w, r, b, h0], make)
    for array, wanted in zip(found, (y, *last), strict=True):
        np.testing.assert_allclose(array, wanted, 1e-4, 1e-5)


def test_a_gru_and_a_plain_cell_are_onnx_s() -> None:
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    w = RNG.standard_normal((1, 9, 4)).astype(np.float32)
    r = RNG.standard_normal((1, 9, 3)).astype(np.float32)
    h, plain, all_h, all_plain = np.zeros((2, 3)), np.zeros((2, 3)), [], []
    for t in range(5):
        (z, s, n), (z2, s2, n2) = (
            np.split(v, 3, -1) for v in (wide(x[t]) @ w[0].T, h @ wide(r[0]).T)
        )
        update = sigmoid(z + z2)
        h = (1 - update) * np.tanh(n + sigmoid(s + s2) * n2) + update * h
        plain = np.maximum(wide(x[t]) @ w[0, :3].T + plain @ r[0, :3].T, 0)
        all_h.append(h)
        all_plain.append(plain)

    def make(o: Any, x: str, w: str, r: str) -> list[str]:
        w3, r3 = (o.slice([v], axes=[1], starts=[0], ends=[3]) for v in (w, r))
        gru = o.gru([x, w, r], hidden_size=3, linear_before_reset=1)
        return [gru[0], o.rnn([x, w3, r3], activations=["Relu"])[0]]

    for found, wanted in zip(results([x, w, r], make), (all_h, all_plain), strict=True):
        np.testing.assert_allclose(found[:, 0], wanted, 1e-4, 1e-5)


REFUSED = {
    "nonzero": (lambda o, x: o.nonzero([x]), "set the others to 0 with where"),
    "unknown": (lambda o, x: o.softmaxx([x]), "did you mean 'softmax'"),
    "not a constant": (lambda o, x: o.reshape([x, x]), "as its input 'shape', which is not a constant"),
    "lengths": (lambda o, x: o.split([x], split=[1, 1]), r"the lengths \[1, 1\] do not have the sum 3"),
    "axis": (lambda o, x: o.cumsum([x], axis=2), "use dimensions from -2 to 1"),
    "index": (lambda o, x: o.gather([x, constant(o, 3)]), "the index 3 is out of range"),
    "remainder": (lambda o, x: o.mod([x, x]), "pass fmod=1"),
    "gru": (lambda o, x: o.gru([x, x, x]), "linear_before_reset=1"),
    "mode": (lambda o, x: o.resize([x], sizes=[3, 9], mode="cubic"), "give 'nearest' or 'linear'"),
    "dtype": (lambda o, x: o.cast([x], to="DOUBLE"), "'DOUBLE' as to"),
    "pool": (lambda o, x: o.maxpool([x], kernel_shape=[2], dilations=[2]), "use a dilation of 1"),
    "attribute": (lambda o, x: o.relu([x], alpha=1.0), "relu.. has no attribute 'alpha'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_device_cannot_do_is_refused_by_name(case: str) -> None:
    make, text = REFUSED[case]
    with pytest.raises(ModelError, match=text) as error:
        results([X], make)
    assert error.value.next_step


def test_a_step_of_training_has_the_gradients_of_the_operations() -> None:
    """The weights pass elu, reducel2 (with a row of zeros), gather and clip."""
    weights = np.float32([[0.5, -2, 1.5], [0, 0, 0], [-0.25, 3, 1]])
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(weights, "w")
    o = builder.aiOnnx
    norms = o.reducel2([o.gather([w, constant(o, 0, -2)])], axes=[1])
    parts = [norms, o.elu([w]), o.clip([w], min=-1.0, max=1.25)]
    loss = o.sum([builder.aiGraphcore.identityloss([p], reduction="Sum") for p in parts])
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 4})
    flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("ALL")})
    proto = builder.getModelProto()
    session = popart.TrainingSession(proto, flow, loss, popart.ConstSGD(1.0), device)
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({}, session.initAnchorArrays()))
    session.weightsToHost()
    after = np.zeros_like(weights)
    session.readWeights(popart.PyWeightsIO({"w": after}))
    row = np.zeros((3, 3))
    row[0] = weights[0] / np.sqrt((wide(weights[0]) ** 2).sum())
    inside = (weights >= -1) & (weights <= 1.25)
    gradient = row + np.where(weights > 0, 1, np.exp(np.minimum(weights, 0))) + inside
    np.testing.assert_allclose(weights - after, gradient, 1e-5, 1e-6)
