"""PopART's words: a model built and run as its users do, beside the same training in numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plain_training
import pytest

from ipu_teach import popart
from ipu_teach.errors import ModelError

RNG = np.random.default_rng(8)
WEIGHTS = [RNG.uniform(-0.3, 0.3, s).astype(np.float32) for s in ((64, 24), (24,), (24, 10), (10,))]
X = RNG.standard_normal((20, 8, 64)).astype(np.float32)
Y = RNG.integers(0, 10, (20, 8))
NAMES = "abcd"


def built() -> tuple[popart.Builder, str, str]:
    """A perceptron on two IPUs, each a phase, with its chances and its loss."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [8, 64]), "x")
    y = builder.addInputTensor(popart.TensorInfo("INT32", [8]), "y")
    w = [builder.addInitializedInputTensor(a, n) for a, n in zip(WEIGHTS, NAMES, strict=True)]
    with builder.virtualGraph(0), builder.pingPongPhase(0), builder.nameScope("first"):
        h = builder.aiOnnx.relu([builder.aiOnnx.gemm([x, w[0], w[1]])])
    with builder.virtualGraph(1), builder.pingPongPhase(1), builder.nameScope("second"):
        h = builder.aiOnnx.add([builder.aiOnnx.matmul([h, w[2]]), w[3]])
        out = builder.aiOnnx.softmax([h])
        loss = builder.aiGraphcore.nllloss([out, y], reduction="Mean")
    builder.addOutputTensor(out)
    return builder, out, loss


def training(
    builder: Any, loss: str, ipus: int, batches: int, returns: Any, options: dict[str, Any]
) -> Any:
    """A training, ready to run."""
    wanted = popart.SessionOptions()
    for name, value in options.items():
        setattr(wanted, name, value)
    made = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(
            batches, {name: popart.AnchorReturnType(*kind) for name, kind in returns.items()}
        ),
        loss=loss,
        optimizer=popart.ConstSGD(0.3),
        deviceInfo=popart.DeviceManager().createIpuModelDevice(
            {"numIPUs": ipus, "tilesPerIPU": 12}
        ),
        userOptions=wanted,
    )
    made.prepareDevice()
    made.weightsFromHost()
    return made


def session(ipus: int, batches: int, **options: Any) -> tuple[Any, str, str]:
    """A training of that model, all of whose losses come back."""
    builder, out, loss = built()
    return training(builder, loss, ipus, batches, {loss: ("ALL",)}, options), out, loss


def joined(count: int) -> Any:
    """Batches of which so many make an update, as one."""
    return [
        (X[i : i + count].reshape(-1, 64), Y[i : i + count].reshape(-1))
        for i in range(0, 20, count)
    ]


PHASES = popart.ExecutionPhaseSettings(phases=2)
WAYS: dict[str, tuple[int, int, dict[str, Any]]] = {  # IPUs, batches of an update, options
    "plain": (1, 1, {}),
    "two IPUs": (2, 1, {"virtualGraphMode": "Manual"}),
    "phases": (2, 1, {"virtualGraphMode": "ExecutionPhases", "executionPhaseSettings": PHASES}),
    "computed again": (1, 1, {"autoRecomputation": "Standard"}),
    "accumulated": (1, 4, {"enableGradientAccumulation": True, "accumulationFactor": 4}),
    "replicated": (2, 2, {"enableReplicatedGraphs": True, "replicatedGraphCount": 2}),
    "pipelined": (
        2,
        4,
        {
            "virtualGraphMode": "Manual",
            "enablePipelining": True,
            "enableGradientAccumulation": True,
            "accumulationFactor": 4,
        },
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_losses_and_weights_are_those_of_numpy(way: str) -> None:
    ipus, count, options = WAYS[way]
    expected, after = plain_training.perceptron(WEIGHTS, joined(count), 0.3)
    made, _, loss = session(ipus, 20 // count, **options)
    anchors = made.initAnchorArrays()
    assert anchors[loss].shape == ((20,) if count == 1 else (20 // count, count))
    made.run(popart.PyStepIO({"x": X, "y": Y}, anchors))
    means = anchors[loss].reshape(-1, count).mean(1)
    np.testing.assert_allclose(means, expected, 1e-5)
    made.weightsToHost()
    found = {n: np.empty_like(w) for n, w in zip(NAMES, WEIGHTS, strict=True)}
    made.readWeights(popart.PyWeightsIO(found))
    for name, theirs in zip(NAMES, after, strict=True):
        np.testing.assert_allclose(found[name], theirs, atol=1e-5)


def test_anchors_come_back_as_they_were_asked_for() -> None:
    """The losses of twenty updates, four batches each summed in two replicas of two."""
    options = {"enableGradientAccumulation": True, "accumulationFactor": 2}
    options |= {"enableReplicatedGraphs": True, "replicatedGraphCount": 2}
    builder, _, loss = built()
    ids = [loss, *(builder.aiOnnx.identity([loss]) for _ in range(3))]
    kinds = [("ALL",), ("FINAL",), ("SUM",), ("EVERYN", 2)]
    made = training(builder, loss, 2, 4, dict(zip(ids, kinds, strict=True)), options)
    anchors = made.initAnchorArrays()
    made.run(popart.PyStepIO({"x": X[:16], "y": Y[:16]}, anchors))
    every = {kind[0]: anchors[i] for i, kind in zip(ids, kinds, strict=True)}
    whole = every["ALL"]
    assert whole.shape == (4, 2, 2) and len(np.unique(whole)) == 16
    np.testing.assert_array_equal(every["FINAL"], whole[3])
    np.testing.assert_array_equal(every["EVERYN"], whole[1::2])
    np.testing.assert_allclose(every["SUM"], whole.sum(0), 1e-6)


def test_callbacks_are_asked_for_micro_batches_and_told_what_came_back() -> None:
    made, _, loss = session(1, 20)
    anchors = made.initAnchorArrays()
    made.run(popart.PyStepIO({"x": X, "y": Y}, anchors))
    made.weightsFromHost()  # from the beginning
    asked: list[tuple[str, bool]] = []
    done: list[str] = []
    found = np.zeros(20, np.float32)

    def feed(name: str, prefetch: bool) -> Any:
        asked.append((name, prefetch))
        return {"x": X, "y": Y}[name][sum(n == name for n, _ in asked) - 1]

    def take(name: str) -> Any:
        return found[done.count(name) :][:1].reshape(())

    made.run(popart.PyStepIOCallback(feed, done.append, take, done.append))
    np.testing.assert_array_equal(found, anchors[loss])
    assert asked[:4] == [("x", False), ("y", False), ("x", True), ("y", True)]
    assert done.count("x") == done.count("y") == done.count(loss) == 20


def test_what_was_trained_is_saved_and_asked(tmp_path: Path) -> None:
    made, out, _ = session(1, 20)
    made.run(popart.PyStepIO({"x": X, "y": Y}, made.initAnchorArrays()))
    slow = popart.ConstSGD(0.0)
    made.updateOptimizerFromHost(slow)
    made.run(popart.PyStepIO({"x": X, "y": Y}, made.initAnchorArrays()))  # changes nothing
    made.modelToHost(tmp_path / "net.ipumodel")
    flow = popart.DataFlow(20, {out: popart.AnchorReturnType("ALL")})
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 12})
    asked = popart.InferenceSession(tmp_path / "net.ipumodel", flow, device)
    asked.prepareDevice()
    asked.weightsFromHost()
    anchors = asked.initAnchorArrays()
    asked.run(popart.PyStepIO({"x": X}, anchors))
    _, (a, b, c, d) = plain_training.perceptron(WEIGHTS, joined(1), 0.3)
    z = np.maximum(X @ a + b, 0) @ c + d
    e = np.exp(z - z.max(-1, keepdims=True))
    np.testing.assert_allclose(anchors[out], e / e.sum(-1, keepdims=True), atol=1e-5)
    assert asked.getReport().total_cycles > 0
    with pytest.raises(ModelError, match="change only defaultLearningRate"):
        made.updateOptimizerFromHost(popart.Adam({"defaultLearningRate": (0.1, False)}))
    with pytest.raises(ModelError, match="change only defaultLearningRate"):
        made.updateOptimizerFromHost(popart.SGD({"lossScaling": (4.0, False)}))


def test_operations_are_those_of_onnx(tmp_path: Path) -> None:
    """Beside numpy, one model with what the others have not."""
    builder, rng = popart.Builder(), np.random.default_rng(2)
    x = rng.standard_normal((2, 3, 6, 6)).astype(np.float32)
    table = rng.standard_normal((5, 4)).astype(np.float32)
    on, g = builder.aiOnnx, builder.aiGraphcore
    a = builder.addInputTensor(popart.TensorInfo("FLOAT", x.shape))
    w = builder.addInitializedInputTensor(table)
    k = on.constant(np.ones((4, 3, 3, 3), np.float32))
    ids = {
        "conv": on.conv([a, k], pads=[1, 0, 1, 0], strides=[2, 1]),
        "max": on.maxpool([a], kernel_shape=[2, 3], strides=[2, 3]),
        "mean": on.averagepool([a], kernel_shape=[2, 2], strides=[2, 2]),
        "sum": on.reducesum([a], axes=[1], keepdims=0),
        "means": on.reducemean([a], axes=[2, 3]),
        "part": on.slice([a], axes=[2, 3], starts=[1, -3], ends=[4, 9]),
        "turned": on.transpose([a], perm=[0, 2, 3, 1]),
        "seen": on.reshape([a], shape=[2, -1]),
        "joined": on.concat([a, a], axis=1),
        "rows": on.gather([w, on.constant(np.array([4, 0, 4], np.uint32))]),
        "columns": on.gather([w, on.constant(np.array([3, 1], np.uint32))], axis=1),
        "product": on.gemm([w, w, on.constant(np.float32([1]))], alpha=2.0, beta=0.5, transB=1),
        "logs": on.logsoftmax([w], axis=0),
        "size": g.l1loss([w], scale=0.5),
        "whole": g.identityloss([w], reduction="Sum"),
    }
    assert builder.getTensorShape(ids["conv"]) == [2, 4, 3, 4]
    flow = popart.DataFlow(1, {i: popart.AnchorReturnType("FINAL") for i in ids.values()})
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 12})
    builder.saveModelProto(tmp_path / "model")
    asked = popart.InferenceSession(tmp_path / "model", flow, device)
    asked.prepareDevice()
    anchors = asked.initAnchorArrays()
    asked.run(popart.PyStepIO({a: x}, anchors))
    found = {name: anchors[i] for name, i in ids.items()}
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0))).sum(1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2].sum((3, 4))
    e = np.exp(table)
    expected = {
        "conv": np.broadcast_to(windows[:, None], (2, 4, 3, 4)),
        "max": x.reshape(2, 3, 3, 2, 2, 3).max((3, 5)),
        "mean": x.reshape(2, 3, 3, 2, 3, 2).mean((3, 5)),
        "sum": x.sum(1),
        "means": x.mean((2, 3), keepdims=True),
        "part": x[:, :, 1:4, -3:],
        "turned": x.transpose(0, 2, 3, 1),
        "seen": x.reshape(2, -1),
        "joined": np.concatenate([x, x], 1),
        "rows": table[[4, 0, 4]],
        "columns": table[:, [3, 1]],
        "product": 2 * table @ table.T + 0.5,
        "logs": np.log(e / e.sum(0)),
        "size": np.abs(table).sum() / 2,
        "whole": table.sum(),
    }
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5, err_msg=name)


def test_a_device_is_of_whole_ipus() -> None:
    target = popart.DeviceManager().acquireAvailableDevice(2).target
    assert (target.num_ipus, target.tiles_per_ipu) == (2, 1472)


def test_what_does_not_fit_is_said_by_name() -> None:
    builder, _, loss = built()
    on = builder.aiOnnx
    with pytest.raises(ModelError, match=r"pass a list: builder.aiOnnx.relu\(\['x'\]\)"):
        on.relu("x")
    with pytest.raises(
        ModelError, match="did you mean 'relu1'|not the id of a tensor of this Builder"
    ):
        on.relu(["relu99"])
    with pytest.raises(ModelError, match="did you mean 'softmax'"):
        on.softmaxx(["x"])
    with pytest.raises(
        ModelError, match="averagepool.* does not accept 1 tensor and no attributes"
    ):
        on.averagepool(["x"])
    deep, down = builder.nameScope("deep"), builder.nameScope("down")
    with deep, down, pytest.raises(ModelError, match="matmul is not possible") as error:
        on.matmul(["x", "x"])
    assert "in deep/down" in str(error.value) and "test_popart.py" in error.value.line
    with pytest.raises(ModelError, match="SessionOptions has no option 'enablePipelinin'"):
        popart.SessionOptions().enablePipelinin = True
    with pytest.raises(ModelError, match='options.virtualGraphMode = "Manual"'):
        session(2, 5, enablePipelining=True)
    made, _, _ = session(1, 20)
    with pytest.raises(ModelError, match="steps 20 . accumulation 1 . replicas 1 . batch 8"):
        made.run(popart.PyStepIO({"x": X[:19], "y": Y}, made.initAnchorArrays()))
    with pytest.raises(ModelError, match="was given the number 10, which is not from 0 to 9"):
        made.run(popart.PyStepIO({"x": X, "y": Y + (Y == 9)}, made.initAnchorArrays()))
    with pytest.raises(ModelError, match="The graph has no variable 'x'"):
        made.readWeights(popart.PyWeightsIO({"x": np.zeros((8, 4), np.float32)}))
    raw = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {"lost": popart.AnchorReturnType()}),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    with pytest.raises(ModelError, match="prepareDevice"):
        raw.run(popart.PyStepIO({}, {}))
    with pytest.raises(ModelError, match="'lost', which is not the id of a result of the model"):
        raw.prepareDevice()


SCORES = [[0, 100, -100], [0, 17, -17], [3, -11, 2], [0, 0, 0]]


def first_loss(
    outputs: Any, make: Callable[[Any, str, str], str], optimizer: Any = None
) -> tuple[float, Any]:
    """The loss of outputs, which are a variable of the model, and the step of the variable."""
    builder = popart.Builder()
    x = builder.addInitializedInputTensor(outputs, "x")
    y = builder.addInputTensor(popart.TensorInfo("UINT32", (len(outputs),)), "y")
    loss = make(builder, x, y)
    trained = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, {loss: popart.AnchorReturnType("ALL")}),
        loss=loss,
        optimizer=popart.ConstSGD(1.0) if optimizer is None else optimizer,
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 4}),
    )
    trained.prepareDevice()
    trained.weightsFromHost()
    anchors = trained.initAnchorArrays()
    trained.run(popart.PyStepIO({y: np.array([0, 0, 1, 2], np.uint32)}, anchors))
    after = np.zeros_like(outputs)
    trained.weightsToHost()
    trained.readWeights(popart.PyWeightsIO({x: after}))
    return float(np.ravel(anchors[loss])[0]), outputs.astype(np.float64) - after


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("has_logarithms", [False, True])
def test_the_loss_of_a_softmax_is_that_of_its_scores(dtype: Any, has_logarithms: bool) -> None:
    def make(builder: Any, x: str, y: str) -> str:
        onnx = builder.aiOnnx
        out = onnx.logsoftmax([x]) if has_logarithms else onnx.softmax([x])
        return builder.aiGraphcore.nllloss([out, y], inputIsLogProbability=has_logarithms)

    scores, hot = np.array(SCORES, dtype), np.eye(3)[[0, 0, 1, 2]]
    logarithms = scores.astype(np.float64) - scores.max(1, keepdims=True)
    logarithms -= np.log(np.exp(logarithms).sum(1, keepdims=True))
    value, step = first_loss(scores, make)
    assert value == pytest.approx(-(hot * logarithms).sum() / 4, rel=1e-6)
    # the step is of a weight, which is rounded: those of 100 and 17 by 2^-5 and 2^-7 of HALF
    expected = scores - (scores - (np.exp(logarithms) - hot) / 4).astype(dtype).astype(float)
    np.testing.assert_allclose(step, expected, 0, 1e-5 if dtype is np.float32 else 2**-10)


def test_the_loss_of_other_probabilities_is_bounded_as_in_popart() -> None:
    outputs = np.array([[0.5, 0, 1], [0, 1, 0], [1, 1e-8, 0.25], [0, 0, 0.125]], np.float32)
    value, step = first_loss(outputs, lambda b, x, y: b.aiGraphcore.nllloss([x, y]))
    labels = [0, 0, 1, 2]
    picked = outputs[range(4), labels].astype(np.float64)
    assert value == pytest.approx(-np.log(np.maximum(picked, 1e-7)).mean(), rel=1e-6)
    expected = np.zeros((4, 3))
    expected[range(4), labels] = -1 / np.maximum(picked, 1e-10) / 4
    np.testing.assert_allclose(step, expected, 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"defaultBeta1": 0.0},
        {"defaultBeta2": 0.0},
        {"defaultBeta1": 0.0, "defaultBeta2": 0.0, "defaultEps": 0.0},
        {"defaultWeightDecay": 0.5},
        {},
    ],
)
def test_adam_takes_zeros_and_popart_defaults(options: dict[str, float]) -> None:
    """The weights decay apart from the gradient, and the epsilon that none gives is 1e-6."""
    outputs = np.array([[1.0, -2, 0.5]] * 4, np.float32) * 1e-6
    pairs = {"defaultLearningRate": 0.25, **options}
    adam = popart.Adam({name: (number, True) for name, number in pairs.items()})

    def make(builder: Any, x: str, y: str) -> str:
        return builder.aiGraphcore.l1loss([builder.aiOnnx.mul([x, x])])

    _, step = first_loss(outputs, make, adam)
    gradient = 2 * outputs.astype(np.float64)
    eps, decay = options.get("defaultEps", 1e-6), options.get("defaultWeightDecay", 0.0)
    expected = 0.25 * (gradient / (np.abs(gradient) + eps) + decay * outputs)
    np.testing.assert_allclose(step, expected, 1e-5)
