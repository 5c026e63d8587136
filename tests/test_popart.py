"""PopART's words: a model built and run as its users do, beside the same training in numpy."""

from __future__ import annotations

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


def built(parts: bool = True) -> tuple[popart.Builder, str, str]:
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


def session(ipus: int, batches: int, returns: Any = None, **options: Any) -> tuple[Any, str, str]:
    """A training of that model, ready to run."""
    builder, out, loss = built()
    wanted = popart.SessionOptions()
    for name, value in options.items():
        setattr(wanted, name, value)
    anchors = {loss: returns or popart.AnchorReturnType("ALL")}
    made = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(batches, anchors),
        loss=loss,
        optimizer=popart.ConstSGD(0.3),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus, "tilesPerIPU": 12}),
        userOptions=wanted,
    )
    made.prepareDevice()
    made.weightsFromHost()
    return made, out, loss


def joined(count: int) -> Any:
    """Batches of which so many make an update, as one."""
    return [
        (X[i : i + count].reshape(-1, 64), Y[i : i + count].reshape(-1))
        for i in range(0, 20, count)
    ]


PHASES = popart.SessionOptions().executionPhaseSettings.__class__(phases=2)
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
