"""The same model from each face: the same program, and losses equal in every bit."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_teach import IPUModel, keras, popart
from ipu_teach.keras import ipu, layers

RNG = np.random.default_rng(6)
X = RNG.standard_normal((6, 4, 8, 8, 2)).astype(np.float32)
Y = RNG.integers(0, 5, (6, 4))
SHAPES = {
    "first": [(4, 2, 3, 3), (4,)],
    "norm": [(4,), (4,)],
    "second": [(4, 4, 3, 3), (4,)],
    "group": [(4,), (4,)],
    "last": [(5, 16), (5,)],
}
W = {n: [RNG.uniform(-0.4, 0.4, s).astype(np.float32) for s in v] for n, v in SHAPES.items()}
TILES, RATE = 13, 0.1
TORCH = all(find_spec(name) for name in ("torch", "ipu_teach.poptorch"))


@cache
def of_keras() -> tuple[Any, Any]:
    config = ipu.config.IPUConfig()
    config.ipu_model.tiles_per_ipu = TILES
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                layers.Conv2D(4, 3, padding="same", input_shape=(8, 8, 2), name="first"),
                layers.BatchNormalization(name="norm"),
                layers.Activation("relu"),
                layers.MaxPooling2D(),
                layers.Conv2D(4, 3, padding="same", name="second"),
                layers.GroupNormalization(2, name="group"),
                layers.Activation("gelu"),
                layers.AveragePooling2D(),
                layers.Flatten(),
                layers.Dense(5, name="last"),
            ]
        )
    for layer in model.layers:
        if layer.name in W:
            a, b = W[layer.name]
            turned = a.transpose(2, 3, 1, 0) if a.ndim == 4 else a.T
            layer.weights.update(zip(layer.weights, (turned, b), strict=False))
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(RATE), entropy)
    losses = [
        model.fit(x, y, 4, shuffle=False, verbose=0).history["loss"][0]
        for x, y in zip(X, Y, strict=True)
    ]
    return losses, model.report


def of_popart() -> tuple[Any, Any]:
    builder = popart.Builder()
    on = builder.aiOnnx
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 8, 8, 2]), "x")
    y = builder.addInputTensor(popart.TensorInfo("INT32", [4]), "y")
    w = {
        name: [builder.addInitializedInputTensor(a, f"{name}.{i}") for i, a in enumerate(both)]
        for name, both in W.items()
    }
    moving = [
        builder.addInitializedInputTensor(np.full(4, i, np.float32), f"norm.{i + 2}")
        for i in range(2)
    ]
    with builder.nameScope("first"):
        h = on.conv([on.transpose([x], perm=[0, 3, 1, 2]), *w["first"]], pads=[1, 1, 1, 1])
    with builder.nameScope("norm"):
        h = on.batchnormalization(
            [h, *w["norm"], *moving], num_outputs=5, epsilon=1e-3, momentum=0.99
        )
    with builder.nameScope("activation"):
        h = on.relu([h])
    with builder.nameScope("pool"):
        h = on.maxpool([h], kernel_shape=[2, 2], strides=[2, 2])
    with builder.nameScope("second"):
        h = on.conv([h, *w["second"]], pads=[1, 1, 1, 1])
    with builder.nameScope("group"):
        h = builder.aiGraphcore.groupnormalization([h, *w["group"]], num_groups=2, epsilon=1e-3)
    with builder.nameScope("activation2"):
        h = on.gelu([h])
    with builder.nameScope("pool2"):
        h = on.averagepool([h], kernel_shape=[2, 2], strides=[2, 2])
    with builder.nameScope("flat"):
        h = on.flatten([on.transpose([h], perm=[0, 2, 3, 1])])
    with builder.nameScope("last"):
        h = on.gemm([h, *w["last"]], transB=1)
    with builder.nameScope("loss"):
        loss = builder.aiGraphcore.nllloss([on.softmax([h]), y])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {loss: popart.AnchorReturnType("ALL")}),
        loss,
        popart.ConstSGD(RATE),
        popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": TILES}),
    )
    session.prepareDevice()
    losses = []
    for a, b in zip(X, Y, strict=True):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": a, "y": b}, anchors))
        losses.append(float(anchors[loss]))
    return losses, session.getReport()


def of_poptorch() -> tuple[Any, Any]:
    if not TORCH:
        pytest.skip("no PyTorch here")
    import torch

    poptorch: Any = import_module("ipu_teach.poptorch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (torch.nn.Conv2d(n, 4, 3, padding=1) for n in (2, 4))
            self.norm = torch.nn.BatchNorm2d(4, 1e-3, 0.01)
            self.relu, self.most = torch.nn.ReLU(), torch.nn.MaxPool2d(2)
            self.group = torch.nn.GroupNorm(2, 4, 1e-3)
            self.gelu, self.mean = torch.nn.GELU(), torch.nn.AvgPool2d(2)
            self.last, self.loss = torch.nn.Linear(16, 5), torch.nn.CrossEntropyLoss()

        def forward(self, x: Any, y: Any) -> Any:
            h = self.most(self.relu(self.norm(self.first(x.permute(0, 3, 1, 2)))))
            h = self.mean(self.gelu(self.group(self.second(h))))
            return self.loss(self.last(torch.flatten(h.permute(0, 2, 3, 1), 1)), y)

    net = Net()
    with torch.no_grad():
        for name, (weight, bias) in W.items():
            layer = getattr(net, name)
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))
    options = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=TILES))
    training = poptorch.trainingModel(net, options, poptorch.optim.SGD(net.parameters(), RATE))
    losses = [float(training(torch.tensor(a), torch.tensor(b))) for a, b in zip(X, Y, strict=True)]
    return losses, training.report


# The compute set that multiplies a batch's variance by n / (n - 1) for the moving variance. Keras
# and ONNX keep the variance without this factor.
CORRECTION = "norm/mul"


def tree(report: Any) -> list[tuple[int, str, int]]:
    """The program without names, sequences that hold nothing, and `CORRECTION`."""
    (program,) = report.compilation.programs
    return [
        (depth, node.kind, node.count)
        for depth, node in program.walk()
        if any(node.leaves()) and node.name != CORRECTION
    ]


def cycles_without_correction(report: Any, count: int) -> int:
    corrections = [step.cycles for step in report.steps() if step.name == CORRECTION]
    assert len(corrections) == count
    return int(report.total_cycles - sum(corrections))


@pytest.mark.parametrize("other", [of_popart, of_poptorch])
def test_one_network_is_one_program_from_every_face(other: Any) -> None:
    again, reported = other()
    losses, report = of_keras()
    assert losses == again
    assert losses[-1] < losses[0]
    assert tree(report) == tree(reported)
    count = len(X) if other is of_poptorch else 0
    assert report.total_cycles == cycles_without_correction(reported, count)


PAGE = Path(__file__).resolve().parents[1] / "docs" / "frameworks.md"
COLUMNS = ("own", "poptorch", "keras", "popart")


def test_the_page_says_what_its_code_does(capsys: pytest.CaptureFixture[str]) -> None:
    """From top to bottom; the block of PyTorch where that is."""
    text = PAGE.read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    names: dict[str, Any] = {"__name__": "frameworks"}
    for block in code:
        if TORCH or "import poptorch" not in block:
            exec(compile(block, str(PAGE), "exec"), names)
    printed = re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S)[:2]
    assert "".join(printed) == capsys.readouterr().out
    losses, reports = names["losses"], names["reports"]
    assert [*losses] == [n for n in COLUMNS if TORCH or n != "poptorch"]
    table = text[text.index("| | own calls |") :].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (\w.*?) \| (.*) \|$", table, re.M))
    cells = {row: dict(zip(COLUMNS, said.split(" | "), strict=True)) for row, said in rows.items()}
    for column in COLUMNS:
        block = next(block for block in code if f'losses["{column}"]' in block)
        lines = sum(bool(line.strip()) for line in block.splitlines())
        assert cells["lines of code"][column] == str(lines)
    for column, report in reports.items():
        (program,) = report.compilation.programs
        found = {
            "loss of the first batch": f"{losses[column][0]:.6f}",
            "loss of the last batch": f"{losses[column][-1]:.6f}",
            "compute sets of a step": str(sum(n.kind == "Execute" for n in program.leaves())),
            "modelled cycles of 40 steps": f"{report.total_cycles:,}",
        }
        assert {row: cells[row][column] for row in found} == found, column
        assert np.abs(losses[column] - losses["own"]).max() < 1e-6
        assert column == "own" or np.array_equal(losses[column], losses["keras"])


FUZZED = range(700, 712)  # some 80 cases


@pytest.mark.skipif(not TORCH, reason="no PyTorch here")
@pytest.mark.parametrize("seed", FUZZED)
def test_random_modules_are_right_or_refused(seed: int) -> None:
    fuzzed = import_module("fuzz.faces")
    fault = fuzzed.one_program(seed, Counter())
    assert fault is None, f"seed {seed}: {fault.text}"


@pytest.mark.skipif(not TORCH, reason="no PyTorch here")
def test_the_fuzzer_finds_a_wrong_gradient_and_makes_its_program_small(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch, fuzzed = import_module("torch"), import_module("fuzz.faces")
    programs = import_module("fuzz.torch_programs")
    body = ["h0 = x0 * self.w0", "h1 = torch.sin(x0)", "h2 = torch.tanh(h0)", "h3 = h1 + h2"]
    drawn = programs.Program(
        ["self.w0 = nn.Parameter(torch.tensor([0.5]))"],
        body,
        {"x0": ((2, 3), torch.float32), "x1": ((2,), torch.float32)},
        "h2.sum()",
        "torch.optim.SGD({p}, lr=1.0)",
    )
    monkeypatch.setattr(fuzzed, "program", lambda seed: drawn)
    plain = fuzzed.Torch.__call__

    def doubled(self: Any, call: Any) -> Any:  # the reference steps twice as far
        self.optimizer.param_groups[0]["lr"] = 2.0
        return plain(self, call)

    monkeypatch.setattr(fuzzed.Torch, "__call__", doubled)
    assert fuzzed.run(0, 1, 60) == 1
    out = capsys.readouterr().out
    assert "torch.tanh(h0)" in out and "torch.sin" not in out and "x1" not in out
    assert re.search(r"# w0 is .* in place of ", out)
    assert re.search(r"^training, plain +0 +0 +1$", out, re.M)
    code = out[out.index("import torch\n") : out.index("\n# w0 is")]
    exec(code, {})  # runs alone
    assert "'w0'" in capsys.readouterr().out


@pytest.mark.skipif(not TORCH, reason="no PyTorch here")
def test_a_model_is_equal_refused_or_differs() -> None:
    torch = import_module("torch")
    models = import_module("models.__main__")
    ends = models.tried("torch.nn.GRU")
    assert all(end.startswith("equal") for end in ends.values()), ends
    layer, x = torch.nn.Linear(3, 2), (torch.randn(4, 3),)

    def values(model: Any) -> str:
        end: str = models.judged(
            lambda: models.kit_values(model, x), lambda dtype: models.values_of(layer, x, dtype)
        )
        return end

    assert values(layer).startswith("equal")
    assert values(torch.nn.Linear(3, 2)).startswith("DIFFERS: values is off by")
    assert values(torch.nn.Linear(4, 2)).startswith("refused: ")
    assert set(map(len, models.BUILDERS.values())) == {2} and len(models.BUILDERS) > 100
