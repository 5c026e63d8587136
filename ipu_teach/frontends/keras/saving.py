"""Saved Keras models: JSON with the layers and their arguments, and arrays of weights and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ipu_teach.arguments import Argument, check_calls
from ipu_teach.errors import ModelError, ModelLoadError, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras import losses, metrics, optimizers
from ipu_teach.frontends.keras.layers import LAYERS
from ipu_teach.frontends.keras.layers.base import INPUT_DTYPES, Call, Node, mapped
from ipu_teach.frontends.keras.layers.initializers import unset_weights
from ipu_teach.frontends.keras.losses import FunctionLoss, Loss
from ipu_teach.frontends.keras.metrics import FunctionMetric, Metric
from ipu_teach.frontends.keras.model import Model, Sequential
from ipu_teach.frontends.keras.recorded import Recorded
from ipu_teach.saving import schema as s
from ipu_teach.saving.archive import Format, path_of, read_whole, write_whole
from ipu_teach.types import Array

KERAS = Format("Keras model", 1, "model.save()", error=ModelLoadError, missing=ModelLoadError)
MAX_DEPTH = 6  # The maximum depth of nested lists and objects in an argument.
MAX_SIZE = 2**24  # The maximum length of a dimension.
DTYPES = {"float32": np.float32, "uint32": np.uint32, "int32": np.int32, "float16": np.float16}
Json = Any
CLASSES: dict[str, type[Recorded]] = {
    **LAYERS,
    **{
        f"losses.{name}": kind
        for name, kind in vars(losses).items()
        if isinstance(kind, type) and issubclass(kind, Loss) and kind is not FunctionLoss
    },
    **{
        f"metrics.{name}": kind
        for name, kind in vars(metrics).items()
        if isinstance(kind, type) and issubclass(kind, Metric) and kind is not FunctionMetric
    },
    **{
        f"optimizers.{kind.__name__}": kind
        for kind in (optimizers.SGD, optimizers.Adam, optimizers.AdamW)
    },
}


class _Loaded(NamedTuple):
    """The contents of a file: the JSON of the network and of `compile`, and two dicts of arrays."""

    network: Json
    compiled: Json
    weights: dict[str, Array]
    state: dict[str, Array]


# --- writing --------------------------------------------------------------------------------------


def _class_name(kind: type) -> str:
    """Return the name of a class in a file: the name in `CLASSES`, or else the class's own name."""
    return next((name for name, known in CLASSES.items() if known is kind), kind.__name__)


def _as_json(value: Argument, owner: str) -> Json:
    """Return an argument of `owner` as JSON.

    :raises ModelError: for anything except numbers, strings, lists, dicts, and objects of the kit.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_as_json(item, owner) for item in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _as_json(item, owner) for name, item in value.items()}}
    if isinstance(value, Recorded) and not isinstance(value, (FunctionLoss, FunctionMetric)):
        return _object(value)
    raise misuse(
        f"save() cannot write {shown(value)}, an argument of {owner}.",
        "use a name instead, such as kernel_initializer='he_normal', or save the weights alone: "
        "model.save_weights(path).",
    )


def _object(value: Recorded) -> Json:
    """Return an object as JSON: its class and the arguments of its constructor."""
    name = _class_name(type(value))
    arguments = {key: _as_json(item, name) for key, item in value.arguments.items()}
    return {"class": name, "arguments": arguments}


def _network(model: Model) -> Json:
    """Return the layers of a model and their calls as JSON."""
    nodes = model.nodes
    numbers = {node: number for number, node in enumerate(nodes)}
    calls = [*dict.fromkeys(node.call for node in nodes if node.call is not None)]
    layer_numbers = {layer: number for number, layer in enumerate(model.layers)}

    def call_json(call: Call) -> Json:
        args = mapped(call.args, Node, lambda node: {"node": numbers[node]})
        named = {
            n: mapped(v, Node, lambda node: {"node": numbers[node]}) for n, v in call.named.items()
        }
        return {"layer": layer_numbers[call.layer], "args": list(args), "named": named}

    return {
        "kind": "Sequential" if isinstance(model, Sequential) else "Model",
        "name": model.name,
        "layers": [
            {
                **_object(layer),
                "name": layer.name,
                "trainable": layer.trainable,
                "stage": layer.stage,
                "policy": layer.dtype,
            }
            for layer in model.layers
        ],
        "nodes": [
            {
                "shape": list(node.shape),
                "dtype": model.input_dtypes[node],
                "name": node.name,
                "is_declared": node.is_declared,
            }
            if node.call is None
            else {"call": calls.index(node.call), "result": node.index}
            for node in nodes
        ],
        "calls": [call_json(call) for call in calls],
        "inputs": [numbers[node] for node in model.inputs],
        "outputs": [numbers[node] for node in model.outputs],
    }


def _compiled(model: Model) -> Json:
    """Return the `compile` arguments and the options of a model as JSON; None if not compiled."""
    if not model.objectives:
        return None
    optimizer = model.optimizer
    return {
        "optimizer": _object(optimizer),
        "learning_rate": optimizer.learning_rate,
        "scale": optimizer.scale,
        "arguments": {n: _as_json(v, "compile") for n, v in model.compile_arguments.items()},
        "options": dict(model.training_options),
    }


def save_model(model: Model, path: str | PathLike[str], overwrite: bool = True) -> None:
    """Write a model to the file `path`, with its weights and the state of its optimiser.

    :raises ModelError: for an argument that a file cannot contain, such as a function, and if the
        file exists and `overwrite` is False.
    """
    _check_overwrite("save", path, overwrite)
    weights = {name: np.asarray(array) for name, array in model.current_weights().items()}
    out = s.Columns()
    header = {
        "network": _network(model),
        "compile": _compiled(model),
        "weights": _write_arrays(weights, out),
        "state": _write_arrays(model.other_state, out),
    }
    write_whole(path, KERAS.pack(header, out.arrays()), "save()", "model")


def _write_arrays(arrays: Mapping[str, Array], out: s.Columns) -> Json:
    """Return arrays as JSON: [name, dtype, shape, column]. The arrays' bits are added to `out`."""
    return [
        [name, array.dtype.name, list(array.shape), out.add(_bits(array))]
        for name, array in arrays.items()
    ]


def _bits(array: Array) -> Array:
    """Return the elements of an array as unsigned integers of the same size and bits."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


def _check_overwrite(call: str, path: str | PathLike[str], overwrite: bool) -> None:
    """Raise `ModelError` if the file exists and must not be overwritten."""
    if not overwrite and path_of(path, f"{call}()").exists():
        raise misuse(
            f"{call}() was given overwrite=False, but the file {shown(str(path))} exists.",
            "use another path, or leave overwrite out.",
        )


def save_weights(model: Model, path: str | PathLike[str], overwrite: bool = True) -> None:
    """Write the weights of a model to the file `path`, as a graph that has only variables.

    :raises ModelError: if the file exists and `overwrite` is False.
    """
    _check_overwrite("save_weights", path, overwrite)
    file = Ir()
    for name, array in model.current_weights().items():
        file.variable(array, name)
    ir.save(file, path)


# --- reading --------------------------------------------------------------------------------------


def _plain(part: s.HeaderValue, depth: int = MAX_DEPTH) -> Json:
    """Return the JSON from a file; its lists and objects are nested at most `depth` levels deep."""
    value = part.value
    if isinstance(value, (list, dict)) and not depth:
        part.fail(f"a value of at most {MAX_DEPTH} levels")
    if isinstance(value, list):
        return [_plain(item, depth - 1) for item in part.items()]
    if isinstance(value, dict):
        return {name: _plain(item, depth - 1) for name, item in part.entries()}
    return value


def _array(part: s.HeaderValue) -> tuple[str, Array]:
    """Return (name, array) for an array in a file."""
    name, dtype = s.TEXT.read(part[0]), s.TEXT.read(part[1])
    if dtype not in DTYPES:
        part[1].fail(f"one of {', '.join(DTYPES)}")
    kind = np.dtype(DTYPES[dtype])
    shape = tuple(item.whole(0, MAX_SIZE) for item in part[2].items())
    bits = s.column(below=2 ** (8 * kind.itemsize)).read(part[3])
    if bits.size != np.prod(shape, dtype=object):
        part[3].fail(f"a column of shape {list(shape)}")
    return name, bits.astype(f"u{kind.itemsize}").view(kind).reshape(shape)


def _read(header: s.HeaderValue) -> _Loaded:
    """Return the contents of a file, or raise `ModelLoadError`."""
    return _Loaded(
        _plain(header["network"], 9),
        _plain(header["compile"], 9),
        dict(_array(part) for part in header["weights"].items()),
        dict(_array(part) for part in header["state"].items()),
    )


def _value(value: Json, custom: Mapping[str, Argument]) -> Argument:
    """Return an argument of a constructor or of `compile` from its description in JSON."""
    if isinstance(value, list):
        return [_value(item, custom) for item in value]
    if isinstance(value, dict) and "dict" in value:
        return {name: _value(item, custom) for name, item in value["dict"].items()}
    if isinstance(value, dict):
        return _new(value, custom)
    return value


def _new(value: Json, custom: Mapping[str, Argument]) -> Any:
    """Return a new object of a class of the kit, or of `custom`.

    :raises ModelLoadError: for any other class.
    """
    name = value["class"]
    kind = CLASSES.get(name) or custom.get(name)
    if not isinstance(kind, type) or not issubclass(kind, Recorded):
        raise ModelLoadError(
            f"The model contains {shown(name)}, which is not a class of the kit.",
            next_step=f"pass your class: load_model(path, custom_objects={{{name!r}: {name}}}).",
        )
    return kind(**{key: _value(item, custom) for key, item in value["arguments"].items()})


def _rebuilt(network: Json, custom: Mapping[str, Argument]) -> Model:
    """Return the model that `_network` wrote as JSON. The weights of the model are not set yet."""
    layers = []
    for stored in network["layers"]:
        layer = _new(stored, custom)
        layer.name, layer.trainable = stored["name"], stored["trainable"]
        layer.dtype = stored["policy"]
        for _, inner in layer.walk(""):
            inner.stage = int(stored["stage"])
        layers.append(layer)
    nodes: list[Node] = []
    results: dict[int, Sequence[Node]] = {}

    def argument(value: Json) -> Argument:
        if isinstance(value, dict):
            return nodes[value["node"]]
        return [argument(item) for item in value] if isinstance(value, list) else value

    for stored in network["nodes"]:
        if "shape" in stored:
            dtype = INPUT_DTYPES[stored["dtype"]]
            shape = tuple(int(size) for size in stored["shape"])
            is_declared = bool(stored["is_declared"])
            dtype = dtype if is_declared else INPUT_DTYPES["float32"]
            nodes.append(Node(shape, dtype, name=stored["name"], is_declared=is_declared))
            continue
        number = stored["call"]
        if number not in results:
            call = network["calls"][number]
            args = [argument(item) for item in call["args"]]
            named = {name: argument(item) for name, item in call["named"].items()}
            result = layers[call["layer"]](*args, **named)
            results[number] = result if isinstance(result, tuple) else (result,)
        nodes.append(results[number][stored["result"]])
    inputs, outputs = ([nodes[n] for n in network[role]] for role in ("inputs", "outputs"))
    if network["kind"] == "Sequential":
        return Sequential([inputs[0], *layers], name=network["name"])
    return Model(inputs, outputs, name=network["name"])


def _compile_again(
    model: Model, stored: Json, state: dict[str, Array], custom: Mapping[str, Argument]
) -> None:
    """Call `compile` with the arguments of a file, and restore the state of the optimiser."""
    optimizer = _new(stored["optimizer"], custom)
    optimizer.learning_rate, optimizer.scale = stored["learning_rate"], float(stored["scale"])
    options = stored["options"]
    model.set_gradient_accumulation_options(options["accumulation"], options["off_chip"])
    if options["schedule"]:
        model.set_pipelining_options(
            options["accumulation"], options["schedule"], options["off_chip"]
        )
    arguments = {name: _value(item, custom) for name, item in stored["arguments"].items()}
    model.compile(optimizer, **arguments)
    model.other_state.update(state)


def load_model(
    filepath: str | PathLike[str],
    custom_objects: Mapping[str, Argument] | None = None,
    compile: bool = True,
) -> Model:
    """Return the model that `Model.save` has written to a file.

    It runs on the machine of the current strategy's scope. With `compile`, the model also has the
    saved losses and metrics, and the optimiser with its state. `custom_objects` contains the
    classes of the model's layers, losses and metrics that are not part of the kit, by name.

    :raises ModelLoadError: if the file is damaged or was not written by `Model.save`, and for an
        unknown class.
    """
    custom = custom_objects or {}

    def read(header: s.HeaderValue) -> Model:
        loaded = _read(header)
        with unset_weights():
            model = _rebuilt(loaded.network, custom)
        if [*loaded.weights] != [*model.named_weights()]:
            header["weights"].fail("a weight for each weight of the layers")
        model.set_weights([*loaded.weights.values()])
        if compile and loaded.compiled is not None:
            _compile_again(model, loaded.compiled, loaded.state, custom)
        return model

    return read_whole(filepath, "load_model()", KERAS, lambda data: s.load(data, KERAS, read))


def load_weights(model: Model, path: str | PathLike[str]) -> None:
    """Set the weights of a model to those in a file of `save_weights` or `Model.save`.

    :raises ModelLoadError: if the file is damaged, or if a weight has another shape.
    """
    if _is_model(path):
        loaded = read_whole(path, "load_weights()", KERAS, lambda data: s.load(data, KERAS, _read))
        weights = [*loaded.weights.values()]
    else:
        weights = [np.asarray(v.initial) for v in ir.load(path).variables.values()]
    try:
        model.set_weights(weights)
    except ModelError as error:
        raise ModelLoadError(error.tried, where=str(path), next_step=error.next_step) from None


def _is_model(path: str | PathLike[str]) -> bool:
    """Return whether the first 256 bytes of a file contain the name of `Model.save`'s format."""
    try:
        with Path(path_of(path, "load_weights()")).open("rb") as file:
            return f'"{KERAS.name}"'.encode() in file.read(256)
    except OSError:
        return False


check_calls(globals(), misuse)
