"""ONNX's own tests of its operations, read by popart: each is equal to the test's results, or refused.

`python3 run.py fuzz --onnx-nodes` runs the tests of the package `onnx` (`onnx.backend.test`) whose
operations, dtypes and version of operations popart reads. A test is a model, inputs and results. An
input that popart needs as a constant, such as the shape of a reshape, becomes an initializer. Tests
of random numbers are run, and only the shapes of their results are compared.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ipu_teach import popart
from ipu_teach.errors import IPUTeachError
from ipu_teach.frontends.popart_files import OLDEST
from ipu_teach.frontends.popart_operations import ONNX, STATIC, TYPES, parameters_of

LARGEST = 6_000  # elements of an input
DTYPES = {onnx.TensorProto.DataType.Value(name) for name in TYPES}
TOLERANCE = {np.dtype(np.float16): 2e-3}  # relative to the largest result; 2e-5 for other dtypes
# Tests whose results depend on numpy's random numbers.
RANDOM = "test_training_dropout", "test_training_dropout_default"


def node_tests(only: str = "") -> Iterator[Any]:
    """Yield the tests with `only` in their names that popart could read."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's own, from infinities in the tests
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in sorted(cases, key=lambda case: case.name):
        if only in case.name and case.model is not None and is_readable(case.model):
            yield case


def is_readable(model: Any) -> bool:
    """Return whether popart has the operations, dtypes and version of a model, and it is small."""
    infos = [*model.graph.input, *model.graph.output]
    types = [info.type.tensor_type for info in infos]
    lengths = [[d.dim_value for d in t.shape.dim] for t in types[: len(model.graph.input)]]
    return (
        {node.op_type.lower() for node in model.graph.node} <= {"constant", *ONNX}
        and {t.elem_type for t in types} <= DTYPES
        and max(o.version for o in model.opset_import) >= OLDEST
        and max(map(prod, lengths), default=0) <= LARGEST
    )


def static_inputs(model: Any) -> set[str]:
    """Return the names of the model's inputs that popart needs as constants or as variables."""
    names = set()
    for node in model.graph.node:
        operation = node.op_type.lower()
        if operation in STATIC:
            names |= set(node.input[parameters_of(ONNX[operation])[0] :])
        if operation == "batchnormalization":
            names |= set(node.input[1:])
    return names


def computed(model: Any, arrays: list[Any]) -> list[Any]:
    """Return the outputs of a model for arrays, in their order."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    static, inputs = static_inputs(model), {}
    for info, array in zip(model.graph.input, arrays, strict=False):
        if info.name in static:
            copy.graph.initializer.append(numpy_helper.from_array(array, info.name))
            copy.graph.input.remove(info)
        else:
            inputs[info.name] = array
    data = copy.SerializeToString()
    names = popart.Builder(data).getOutputTensorIds()
    flow = popart.DataFlow(1, {name: popart.AnchorReturnType("ALL") for name in names})
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 4})
    session = popart.InferenceSession(data, flow, device)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(inputs, anchors))
    return [anchors[name] for name in names]


def difference(actual: Any, expected: Any, is_random: bool = False) -> str:
    """Return how two arrays differ in shape, kind of dtype or values, or "" if they do not."""
    if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind:
        return f"{actual.dtype} {list(actual.shape)}, not {expected.dtype} {list(expected.shape)}"
    tolerance = TOLERANCE.get(expected.dtype, 2e-5)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    size = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    if is_random or np.allclose(a, b, 0, tolerance * size, equal_nan=True):
        return ""
    return f"{a.ravel()[:6].tolist()}, not {b.ravel()[:6].tolist()}"


def judged(case: Any) -> tuple[str, str]:
    """Return how a test ended, "equal", "refused" or "differs", and the message or difference."""
    arrays, expected = (
        [numpy_helper.to_array(a) if hasattr(a, "raw_data") else np.asarray(a) for a in tensors]
        for tensors in case.data_sets[0]
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actual = computed(case.model, arrays)
    except IPUTeachError as error:
        return "refused", " ".join(str(error).split())
    except Exception as error:
        return "differs", f"{type(error).__name__}: {error}"
    texts = [difference(a, b, case.name in RANDOM) for a, b in zip(actual, expected, strict=True)]
    text = "; ".join(filter(None, texts))
    return ("differs" if text else "equal"), text


def report(only: str = "") -> int:
    """Run the tests with `only` in their names, and print the counts; return the exit status.

    The status is 1 if any test differs.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    begin = time.monotonic()
    for case in node_tests(only):
        end, text = judged(case)
        counts[end] += 1
        if end == "differs":
            print(f"  DIFFERS {case.name}: {text}", flush=True)
        elif end == "refused":
            reasons[text] += 1
    for text, count in reasons.most_common():
        print(f"  {count} refused: {text}")
    print(
        f"{counts.total()} tests of onnx {onnx.__version__} in {time.monotonic() - begin:,.0f} s: "
        f"{counts['equal']} equal, {counts['refused']} refused, {counts['differs']} differ"
    )
    return 1 if counts["differs"] or not counts else 0
