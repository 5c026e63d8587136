"""popart reads ONNX files: models of torch and of ONNX's helpers, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_teach import popart
from ipu_teach.errors import ModelError, ModelLoadError

RNG = np.random.default_rng(6)
BAD_FILES = {
    "text.onnx": (b"# a model\nlayers: 3\n", "The file is a text file, and not a model of ONNX"),
    "empty.onnx": (b"", "The file is empty, and not a model of ONNX"),
    "other.onnx": (b"\x89PNG\r\n\x1a\n\0", "The file is another kind of file, and not a model"),
    "zip.onnx": (b"PK\x03\x04 and no more", "not a valid model, or it is damaged"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_model_is_named_for_what_it_is(name: str, tmp_path: Path) -> None:
    content, text = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelLoadError, match=text) as error:
        popart.Builder(tmp_path / name)
    assert name in str(error.value) and error.value.next_step
    with pytest.raises(ModelLoadError, match="give the path of a file"):
        popart.Builder(tmp_path / "missing.onnx")


def test_without_the_package_onnx_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ModelLoadError, match="needs the package onnx") as error:
        popart.Builder(b"\x08\x08\x12\x00")
    assert error.value.next_step == 'python -m pip install "ipu-teach[onnx]"'


def test_a_saved_model_of_the_kit_can_be_extended(tmp_path: Path) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", (2, 3)), "x")
    y = builder.aiOnnx.relu([x])
    builder.addOutputTensor(y)
    builder.saveModelProto(tmp_path / "net")
    again = popart.Builder(tmp_path / "net")
    assert again.getInputTensorIds() == ["x"] and y in again.getOutputTensorIds()
    z = again.aiOnnx.neg([y])
    a = RNG.standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(again.getModelProto(), {"x": a}, [z])[0], -np.maximum(a, 0))


def run(model: Any, arrays: dict[str, Any], outputs: list[str] | None = None) -> list[Any]:
    """The outputs of a model for arrays."""
    names = popart.Builder(model).getOutputTensorIds() if outputs is None else outputs
    flow = popart.DataFlow(1, {name: popart.AnchorReturnType("ALL") for name in names})
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 8})
    session = popart.InferenceSession(model, flow, device)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(arrays, anchors))
    return [anchors[name] for name in names]


# --- ONNX's own helpers ---------------------------------------------------------------------------


@pytest.fixture
def onnx() -> Any:
    return pytest.importorskip("onnx", reason="onnx is not installed: the extra `onnx` adds it")


def model_of(
    onnx: Any, *nodes: Any, weights: dict[str, Any] | None = None, shape: Any = (2, 3), opset: int = 17,
    outputs: tuple[str, ...] = ("y",), dtype: int = 1,
) -> Any:  # fmt: skip
    """A model with the input x, and these nodes and initializers."""
    h = onnx.helper
    graph = h.make_graph(
        nodes,
        "graph",
        [h.make_tensor_value_info("x", dtype, shape)],
        [h.make_tensor_value_info(name, 1, ("rows", "columns")) for name in outputs],
        [onnx.numpy_helper.from_array(a, name) for name, a in (weights or {}).items()],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])


def test_a_model_is_computed_and_trained_as_numpy_does(onnx: Any, tmp_path: Path) -> None:
    """Shapes are computed by the host, initializers are trained, and a selu is a function."""
    node = onnx.helper.make_node
    w, b = RNG.standard_normal((3, 4)).astype(np.float32), np.ones(4, np.float32)
    model = model_of(
        onnx,
        node("Gemm", ["x", "w", "b"], ["h"], name="layer/gemm"),
        node("Selu", ["h"], ["s"]),
        node("Shape", ["s"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"]),
        node("Concat", ["rows", "rest"], ["sizes"], axis=0),
        node("Reshape", ["s", "sizes"], ["r"]),
        node("ReduceMean", ["r"], ["y"], axes=[1], keepdims=0),
        weights={"w": w, "b": b, "zero": np.int64([0]), "rest": np.int64([-1])},
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    h = x.astype(np.float64) @ w + b
    alpha, gamma = 1.6732632423543772, 1.0507009873554805
    expected = (gamma * np.where(h > 0, h, alpha * np.expm1(h))).mean(1)
    for given in (path, str(path), path.read_bytes()):
        np.testing.assert_allclose(run(given, {"x": x})[0], expected, 1e-5)
    builder = popart.Builder(path)
    assert builder.getInputTensorIds() == ["x"] and builder.getOutputTensorIds() == ["y"]
    loss = builder.aiGraphcore.identityloss(["y"], reduction="Sum")
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 8})
    flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("ALL")})
    proto = builder.getModelProto()
    session = popart.TrainingSession(proto, flow, loss, popart.ConstSGD(0.5), device)
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({"x": x}, session.initAnchorArrays()))
    session.weightsToHost()
    after = {"w": np.zeros_like(w), "b": np.zeros_like(b)}
    session.readWeights(popart.PyWeightsIO(after))
    slope = gamma * np.where(h > 0, 1, alpha * np.exp(h)) / 4
    np.testing.assert_allclose(after["b"], b - 0.5 * slope.sum(0), 1e-5)
    np.testing.assert_allclose(after["w"], w - 0.5 * x.T.astype(float) @ slope, 1e-4, 1e-6)


def test_an_operation_that_is_a_function_of_others_is_read(onnx: Any) -> None:
    model = model_of(onnx, onnx.helper.make_node("Mish", ["x"], ["y"]), opset=18)
    x = np.float32([[-3, 0, 2], [1, -0.5, 9]])
    (y,) = run(model.SerializeToString(), {"x": x})
    np.testing.assert_allclose(y, x * np.tanh(np.log1p(np.exp(x.astype(float)))), 1e-5)


def test_the_outputs_of_a_split_have_the_names_of_the_file(onnx: Any) -> None:
    model = model_of(
        onnx, onnx.helper.make_node("Split", ["x"], ["a", "b"], axis=1), outputs=("b", "a"), shape=(2, 4)
    )  # fmt: skip
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    b, a = run(model.SerializeToString(), {"x": x})
    np.testing.assert_array_equal(np.concatenate([a, b], 1), x)


def test_outputs_may_be_empty_or_computed_by_the_host(onnx: Any) -> None:
    """A session returns them like others: empty parts, a shape, and a filled constant."""
    node = onnx.helper.make_node
    model = model_of(
        onnx,
        node("Split", ["x", "sizes"], ["none", "all"], axis=1),
        node("Shape", ["x"], ["shape"]),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("ReduceSum", ["none", "axes"], ["sum"], keepdims=0),
        weights={"sizes": np.int64([0, 3]), "axes": np.int64([1])},
        outputs=("none", "all", "shape", "zeros", "sum"),
    )
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    none, everything, shape, zeros, total = run(model.SerializeToString(), {"x": x})
    assert none.shape == (2, 0) and shape.tolist() == [2, 3] and shape.dtype.kind == "i"
    np.testing.assert_array_equal(everything, x)
    np.testing.assert_array_equal(zeros, np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(total, np.zeros(2))


def test_a_layer_norm_returns_its_mean_and_inverse_deviation(onnx: Any) -> None:
    names = ("y", "mean", "inverse")
    layer = onnx.helper.make_node("LayerNormalization", ["x", "w"], names, axis=1, epsilon=0.1)
    weights = {"w": np.ones((3, 4), np.float32)}
    model = model_of(onnx, layer, weights=weights, outputs=names, shape=(2, 3, 4))
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    y, mean, inverse = run(model.SerializeToString(), {"x": x})
    wide = x.astype(np.float64)
    m, v = (f(wide, axis=(1, 2), keepdims=True) for f in (np.mean, np.var))
    assert mean.shape == inverse.shape == (2, 1, 1)
    np.testing.assert_allclose(mean, m, 1e-5, 1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(v + 0.1), 1e-5)
    np.testing.assert_allclose(y, (wide - m) / np.sqrt(v + 0.1), 1e-5, 1e-6)


def test_a_result_that_is_not_supported_is_named(onnx: Any, tmp_path: Path) -> None:
    """The next step, the part of the model without the result, is read."""
    node = onnx.helper.make_node
    drop = node("Dropout", ["x"], ["y", "mask"])
    text = "The ONNX model uses 'mask', which is result 2 of Dropout. This result is not supported."
    output = model_of(onnx, drop, outputs=("y", "mask"))
    used = model_of(onnx, drop, node("Not", ["mask"], ["z"]), outputs=("y", "z"))
    for model in (output, used):
        for info in model.graph.output[1:]:
            info.type.tensor_type.elem_type = onnx.TensorProto.BOOL
        path, part = tmp_path / "net.onnx", tmp_path / "part.onnx"
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelLoadError) as error:
            popart.Builder(path)
        assert text in str(error.value)
        assert error.value.next_step == (
            "write only the part of the model that does not use this result: "
            "onnx.utils.extract_model(path, new_path, input_names, output_names)."
        )
        onnx.utils.extract_model(path, part, ["x"], ["y"])
        np.testing.assert_array_equal(run(part, {"x": np.ones((2, 3), "f")})[0], np.ones((2, 3)))


def test_a_file_that_cannot_be_read_names_the_node_and_the_next_step(onnx: Any) -> None:
    node = onnx.helper.make_node
    relu = node("Relu", ["x"], ["y"], name="first")
    whole = model_of(onnx, relu)
    cases = [
        (model_of(onnx, relu, opset=12), "version 12 of ONNX's operations", "convert_version"),
        (model_of(onnx, node("NonZero", ["x"], ["y"], name="places")), "no operation 'nonzero'", "where"),
        (model_of(onnx, node("Conv", ["x", "w"], ["y"]), weights={"w": np.ones((1, 3), "f")}), "Conv", ""),
        (model_of(onnx, relu, shape=("batch", 3)), "lengths that are not numbers", "dynamic_axes"),
        (model_of(onnx, relu, dtype=11), "dtype DOUBLE", "FLOAT16"),
        (model_of(onnx, node("Relu", ["lost"], ["y"])), "damaged or incomplete", "export the model again"),
        (model_of(onnx, node("Add", ["x", "w"], ["y"]), weights={"w": np.float64([1])}), "float64", "float32"),
    ]  # fmt: skip
    for model, text, advice in cases:
        with pytest.raises(ModelError) as error:
            popart.Builder(model.SerializeToString()).getModelProto()
        assert text in str(error.value) and advice in error.value.next_step, str(error.value)
    custom = model_of(onnx, node("Fast", ["x"], ["y"], name="mine", domain="com.other"))
    custom.opset_import.append(onnx.helper.make_opsetid("com.other", 1))
    with pytest.raises(
        ModelLoadError, match="no operation 'fast' in the domain com.other"
    ) as error:
        popart.Builder(custom.SerializeToString())
    assert error.value.where == "node 'mine' (Fast)"
    data = whole.SerializeToString()
    for length in (1, len(data) // 3, len(data) // 2, len(data) - 1):
        with pytest.raises(ModelLoadError, match="damaged or incomplete"):
            popart.Builder(data[:length])


def test_weights_in_another_file_are_read_or_named(onnx: Any, tmp_path: Path) -> None:
    w = RNG.standard_normal((3, 400)).astype(np.float32)
    model = model_of(onnx, onnx.helper.make_node("MatMul", ["x", "w"], ["y"]), weights={"w": w})
    path = tmp_path / "net.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_allclose(run(path, {"x": x})[0], x @ w, 1e-4, 1e-5)
    with pytest.raises(ModelLoadError, match="give the path of the model"):
        popart.Builder(path.read_bytes())
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelLoadError, match="in the file 'w.bin', which is missing"):
        popart.Builder(path)


# --- models that torch has exported ---------------------------------------------------------------


def exported(name: str, torch: Any) -> tuple[Any, Any]:
    """A module of torch, and an input."""
    nn = torch.nn
    torch.manual_seed(0)
    if name == "MLP":
        return nn.Sequential(
            nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5), nn.Softmax(-1)
        ), torch.randn(4, 12)
    if name == "CNN":
        layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(8, 8, 3, groups=8, stride=2), nn.GELU(), nn.AdaptiveAvgPool2d(1)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 4)), torch.randn(2, 3, 16, 16)
    block = nn.TransformerEncoderLayer(
        16, 4, 32, batch_first=True, activation="gelu", norm_first=True
    )
    return nn.Sequential(nn.Embedding(11, 16), block, nn.Linear(16, 11)), torch.randint(
        0, 11, (2, 7)
    )


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("name", ["MLP", "CNN", "transformer"])
def test_models_of_torch_have_the_outputs_of_torch(
    onnx: Any, name: str, dynamo: bool, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the extra `torch` adds it")
    if dynamo:
        pytest.importorskip(
            "onnxscript", reason="onnxscript is not installed: torch exports with it"
        )
    module, x = exported(name, torch)
    path = tmp_path / "net.onnx"
    torch.onnx.export(module.eval(), (x,), path, opset_version=18 if dynamo else 17, dynamo=dynamo)
    expected = module(x).detach().numpy()
    (input_name,) = popart.Builder(path).getInputTensorIds()
    (found,) = run(path, {input_name: x.numpy()})
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
