"""Read the model for a session or a Builder from a file in the format of `ipu_teach` or ONNX.

The package `onnx` reads ONNX files. It is imported only for ONNX files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu_teach.errors import ModelError, ModelLoadError
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.ir.attributes import Attribute
from ipu_teach.frontends.ir.saved import MODEL, graph_from_bytes
from ipu_teach.frontends.popart_operations import TABLES, TYPES
from ipu_teach.saving.archive import read_whole
from ipu_teach.types import Array, DType

if TYPE_CHECKING:
    from types import ModuleType

OLDEST = 13  # The oldest version of ONNX's operations that is read.
EXPORT = "export the model again, for example with torch.onnx.export(model, args, path)."


@dataclass(frozen=True)
class Node:
    """An operation of an ONNX model.

    - `operation`: its lower-case name, such as "conv".
    - `inputs`, `outputs`: the names of its tensors; "" for an input or a result that is left out.
    - `attributes`: the attributes in the file.
    - `implied`: the values of attributes that the file may leave out, such as `num_outputs`.
    - `value`: the array of a constant, or None for other operations.
    - `proto`, `opset`: the node as `onnx` represents it, and the version of ONNX's operations.
    """

    operation: str
    domain: str
    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Attribute]
    implied: Mapping[str, Attribute]
    value: Array | None
    proto: Any = field(repr=False)
    opset: int

    def computed(self, arrays: Sequence[Array | None]) -> Sequence[Array]:
        """Return the results of the operation for arrays. The host computes these results."""
        from onnx.reference import ReferenceEvaluator

        feeds = {name: a for name, a in zip(self.inputs, arrays, strict=True) if a is not None}
        results = ReferenceEvaluator(self.proto, opsets={self.domain: self.opset}).run(None, feeds)
        return [np.asarray(array) for array in results]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Add the name of the node to errors that are raised in a `with` block."""
        try:
            yield
        except ModelError as error:
            raise ModelLoadError(
                error.tried,
                where=f"node {self.name or self.outputs[0]!r} ({self.proto.op_type})",
                next_step=error.next_step,
            ) from None


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model: its inputs as (name, dtype, shape), its initializers, nodes and outputs."""

    inputs: Sequence[tuple[str, type[DType], tuple[int, ...]]]
    initializers: Mapping[str, Array]
    nodes: Sequence[Node]
    outputs: Sequence[str]


def read_model(model: bytes | str | PathLike[str], call: str) -> Ir | OnnxModel:
    """Return the model in a file, which is passed as a path or as the contents of the file.

    `call` is the name of the caller in error messages.

    :raises ModelLoadError: if the file is damaged or not a model, or if it contains something that
        is not supported.
    """
    if isinstance(model, bytes):
        return _from_bytes(model, None)
    folder = Path(fspath(model)).parent
    return read_whole(model, call, MODEL, partial(_from_bytes, folder=folder))


def _from_bytes(data: bytes, folder: Path | None) -> Ir | OnnxModel:
    """Return the model in `data`, the contents of a file; `folder` is the file's folder, if any."""
    if data.startswith(b"PK"):
        return graph_from_bytes(data)
    if not data.startswith(b"\x08"):  # the first field of an ONNX model is its version
        is_text = data.isascii() and b"\0" not in data
        kind = ("a text file" if is_text else "another kind of file") if data else "empty"
        raise ModelLoadError(
            f"The file is {kind}, and not a model of ONNX or of this kit.",
            next_step="give a file that torch.onnx.export() or Builder.saveModelProto() wrote.",
        )
    try:
        import onnx.inliner
    except ImportError:
        raise ModelLoadError(
            "The file is an ONNX model, but reading it needs the package onnx, which is not "
            "installed.",
            next_step='python -m pip install "ipu-teach[onnx]"',
        ) from None
    return _checked(onnx, data, folder)


def _checked(onnx: ModuleType, data: bytes, folder: Path | None) -> OnnxModel:
    """Return the ONNX model with the contents `data`, after checks by `onnx`."""
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # It is protobuf's DecodeError, which this module does not import.
        raise _damaged(error) from None
    _load_external(onnx, model, folder)
    opset = {o.domain: o.version for o in model.opset_import}.get("", OLDEST)
    if opset < OLDEST:
        raise ModelLoadError(
            f"The ONNX model uses version {opset} of ONNX's operations (its opset), but only "
            f"version {OLDEST} and later ones are read.",
            next_step=f"onnx.version_converter.convert_version(onnx.load(path), {OLDEST}), or "
            f"torch.onnx.export(…, opset_version={OLDEST + 4}).",
        )
    try:
        onnx.checker.check_model(model)
        for _ in range(3):  # An operation may be a function whose operations are functions, too.
            functions = {(n.domain, n.op_type) for n in model.graph.node}
            unknown = [f for f in functions if f[1].lower() not in {"constant", *TABLES[""]}]
            model = onnx.inliner.inline_selected_functions(model, unknown, False, True)
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        raise _damaged(error) from None
    nodes = [_node(onnx, proto, opset) for proto in model.graph.node]
    return _contents(onnx, model.graph, nodes)


def _damaged(error: Exception) -> ModelLoadError:
    reason = " ".join(str(error).split())[:200]
    return ModelLoadError(f"The ONNX model is damaged or incomplete: {reason}.", next_step=EXPORT)


def _load_external(onnx: ModuleType, model: Any, folder: Path | None) -> None:
    """Load the initializers that are in files next to the model."""
    external = [
        tensor
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    ]
    if not external:
        return
    name = external[0].name
    if folder is None:
        raise ModelLoadError(
            f"The ONNX model has the elements of {name!r} in another file, whose folder is "
            "unknown.",
            next_step="give the path of the model instead of its contents.",
        )
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(folder))
    except (OSError, ValueError, onnx.checker.ValidationError):
        locations = {entry.key: entry.value for entry in external[0].external_data}
        raise ModelLoadError(
            f"The ONNX model has the elements of {name!r} in the file "
            f"{locations.get('location', '')!r}, which is missing or damaged.",
            next_step="copy this file to the folder of the model, or export the model with "
            "torch.onnx.export(…, external_data=False).",
        ) from None


def _node(onnx: ModuleType, proto: Any, opset: int) -> Node:
    """Return a node of an ONNX model as a `Node`."""
    operation = proto.op_type.lower()
    attributes = {
        a.name: _attribute(onnx, a)
        for a in proto.attribute
        if not _is_default(onnx, proto, a, opset)
    }
    implied: dict[str, Attribute] = {"num_outputs": len(proto.output)}
    if opset > OLDEST or operation == "dropout":
        implied["training_mode"] = 0
    value = None
    if operation == "constant":
        name, value = next(iter(attributes.items()))
        dtype = {"value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
        value = np.asarray(value, dtype.get(name))
    return Node(
        operation=operation,
        domain="" if proto.domain == "ai.onnx" else proto.domain,
        name=proto.name.strip("/"),
        inputs=list(proto.input),
        outputs=list(proto.output),
        attributes=attributes,
        implied=implied,
        value=value,
        proto=proto,
        opset=opset,
    )


def _is_default(onnx: ModuleType, node: Any, attribute: Any, opset: int) -> bool:
    """Return whether an attribute in the file has the value that ONNX uses if the file omits it."""
    if node.domain or not onnx.defs.has(node.op_type):
        return False
    known = onnx.defs.get_schema(node.op_type, opset).attributes
    default = known[attribute.name].default_value if attribute.name in known else None
    return default is not None and default.type > 0 and default == attribute


def _attribute(onnx: ModuleType, proto: Any) -> Attribute:
    """Return the value of an attribute: a number, a string, an array, or a list of these."""
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if proto.name == "to":
        return onnx.TensorProto.DataType.Name(value)
    values = [v.decode() if isinstance(v, bytes) else v for v in np.atleast_1d(value).tolist()]
    return values if proto.type >= proto.FLOATS else values[0]


def _contents(onnx: ModuleType, graph: Any, nodes: Sequence[Node]) -> OnnxModel:
    """Return the model that consists of `nodes` and the other parts of an ONNX graph.

    :raises ModelLoadError: for an input of a dtype that the device lacks, or of unknown lengths.
    """
    initializers = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    inputs = []
    for info in graph.input:
        if info.name in initializers:
            continue
        tensor = info.type.tensor_type
        type_name = onnx.TensorProto.DataType.Name(tensor.elem_type)
        if type_name not in TYPES:
            raise ModelLoadError(
                f"The ONNX model has the input {info.name!r} of the dtype {type_name}, which the "
                "device does not support.",
                next_step=f"export the model with one of {', '.join(TYPES)}.",
            )
        lengths = [d.dim_param or d.dim_value for d in tensor.shape.dim]
        unknown = [v for v in lengths if not isinstance(v, int)]
        if unknown or not tensor.HasField("shape"):
            raise ModelLoadError(
                f"The ONNX model has the input {info.name!r} of shape {lengths}, with lengths "
                "that are not numbers. A program has fixed shapes.",
                next_step="export the model without dynamic_shapes and dynamic_axes, or set the "
                "lengths with onnx.tools.update_model_dims.",
            )
        inputs.append((info.name, TYPES[type_name], tuple(lengths)))
    return OnnxModel(inputs, initializers, nodes, [info.name for info in graph.output])
