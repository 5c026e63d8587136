"""Networks: layers that are connected between inputs and outputs, with their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ipu_teach.arguments import Natural, Numbers, check_calls
from ipu_teach.errors import ModelError, counted, shown
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.batches import Names
from ipu_teach.frontends.keras.layers.base import INPUT_DTYPES, Layer, Node
from ipu_teach.types import Array

Nodes = Node | Sequence[Node] | Mapping[str, Node]


class Network:
    """Layers that are connected between inputs and outputs.

    - `name`: the name of the network.
    - `inputs` and `outputs`: each is a node or a list of nodes.
    - `nodes`: the nodes, each after those on which it depends.
    - `layers`: the layers, each after those on which it depends.
    """

    def __init__(self, inputs: Nodes, outputs: Nodes, name: str) -> None:
        self.name = name
        self.inputs = _listed("inputs", inputs)
        self.outputs = _listed("outputs", outputs)
        self.nodes = _in_order(self.outputs)
        starts = [node for node in self.nodes if node.call is None]
        if any(node not in starts for node in self.inputs) or len(starts) > len(self.inputs):
            raise ModelError("""Model() was given an output that does not depend on its input, or
                also depends on another input.
                next:  pass the Input on which the layers were called: Model(inputs, outputs).""")
        self.layers = [*dict.fromkeys(node.layer for node in self.nodes if node.layer is not None)]
        self._name_layers()
        self.input_dtypes = {node: self._dtype_of(node) for node in self.inputs}

    def _name_layers(self) -> None:
        """Name each layer without a name after its class, with a number if the name is in use.

        :raises ModelError: if two layers have the same name.
        """
        taken_names = {layer.name for layer in self.layers}
        for layer in self.layers:
            candidates = [
                layer.kind,
                *(f"{layer.kind}_{number}" for number in range(1, len(self.layers))),
            ]
            layer.name = layer.name or next(
                candidate for candidate in candidates if candidate not in taken_names
            )
            taken_names.add(layer.name)
        if len(taken_names - {""}) < len(self.layers):
            raise ModelError(f"""Two layers of the model have the same name. The names are
                {", ".join(layer.name for layer in self.layers)}.
                next:  give each layer a different name, or leave out name=.""")

    def _dtype_of(self, node: Node) -> str:
        """Return the name of an input's dtype: an integer dtype if only Embedding layers read it.

        :raises ModelError: if an Embedding layer and another layer read an input without a dtype.
        """
        if node.is_declared:
            return next(name for name, dtype in INPUT_DTYPES.items() if dtype is node.dtype)
        readers = [n.layer for n in self.nodes if n.layer is not None and node in n.parents]
        if not any(layer.reads_indices for layer in readers):
            return "float32"
        if all(layer.reads_indices for layer in readers):
            return "int32"
        raise misuse(
            "An input without a dtype is read by an Embedding layer and by another layer.",
            "declare its dtype: Input(shape, dtype='int32').",
        )

    @property
    def names(self) -> Names:
        """The names of the inputs and outputs, which are the keys of data that are passed as dicts.

        An output has the name of its layer. An input without a name is "x", or "x_0" and so on.
        """
        several = len(self.inputs) > 1
        inputs = [
            node.name or (f"x_{number}" if several else "x")
            for number, node in enumerate(self.inputs)
        ]
        layers = [node.layer.name if node.layer else node.name or "x" for node in self.outputs]
        outputs = [
            f"{name}_{layers[:number].count(name)}" if name in layers[:number] else name
            for number, name in enumerate(layers)
        ]
        return Names(tuple(inputs), tuple(outputs))

    @property
    def input_keys(self) -> tuple[str, ...]:
        """The names of the inputs in a graph: "x", or "x_0" and so on if there are several."""
        count = len(self.inputs)
        return ("x",) if count == 1 else tuple(f"x_{number}" for number in range(count))

    def get_layer(self, name: str | None = None, index: Natural | None = None) -> Layer:
        """Return the layer with this name, or with this index.

        :raises ModelError: if there is no such layer.
        """
        for number, layer in enumerate(self.layers):
            if layer.name == name or number == index:
                return layer
        names = ", ".join(layer.name for layer in self.layers)
        raise misuse(
            f"get_layer() was given name={shown(name)} and index={shown(index)}.",
            f"use one of the names {names}, or an index from 0 to {len(self.layers) - 1}.",
        )

    def get_pipeline_stage_assignment(self) -> list[int]:
        """Return the number of the stage of each layer."""
        return [layer.stage for layer in self.layers]

    def walk(self) -> Iterator[tuple[str, Layer]]:
        """Yield (path, layer) for each layer of the network, and for their inner layers."""
        for layer in self.layers:
            yield from layer.walk(layer.name)

    def add_layers(self, graph: Ir, training: bool, batch: int) -> list[Value]:
        """Add the inputs and all layers to a graph, and return the outputs."""
        values = {
            node: graph.input((batch, *node.shape), key, INPUT_DTYPES[self.input_dtypes[node]])
            for node, key in zip(self.inputs, self.input_keys, strict=True)
        }
        for node in self.nodes:
            if node.call is not None and node not in values:
                results = node.call.layer.add_to(graph, training, node.call, values)
                same_call = [other for other in self.nodes if other.call is node.call]
                values |= {other: results[other.index] for other in same_call}
        return [values[node] for node in self.outputs]

    def learnable(self, graph: Ir) -> list[Value]:
        """Return the variables of `graph` that the optimiser changes."""
        return [
            graph.variables[f"{path}.{short}"]
            for top in self.layers
            if top.trainable
            for path, layer in top.walk(top.name)
            for short in layer.weights
            if layer.trainable and short not in layer.fixed and f"{path}.{short}" in graph.variables
        ]

    def named_weights(self) -> dict[str, Array]:
        """Return a dict of all weights; a key is a variable's name, such as "dense.kernel"."""
        return {
            f"{path}.{short}": weights
            for path, layer in self.walk()
            for short, weights in layer.weights.items()
        }

    def weight_places(self) -> list[tuple[Layer, str]]:
        """Return (layer, name of the weight) for all weights, in the order of `named_weights`."""
        return [(layer, short) for _, layer in self.walk() for short in layer.weights]

    def check_weights(self, weights: Sequence[Numbers]) -> list[Array]:
        """Return the weights as arrays of FLOAT. Raises `ModelError` if a shape differs."""
        shapes = [layer.weights[short].shape for layer, short in self.weight_places()]
        arrays = [np.asarray(array, np.float32) for array in weights]
        if [array.shape for array in arrays] != shapes:
            raise ModelError(f"""set_weights() was given arrays of shapes
                {shown([a.shape for a in arrays])}, but the model's weights have the shapes
                {shown(shapes)}.
                next:  pass the weights of a model with the same layers.""")
        return arrays

    def count_params(self) -> int:
        """Return the number of elements in all weights."""
        return sum(layer.count for layer in self.layers)

    def summary(self, print_fn: Callable[[str], object] = print) -> None:
        """Print the layers, with their output shapes, numbers of weights and stages.

        `print_fn` is called for each line.
        """
        num_fixed = sum(
            layer.weights[short].size
            for _, layer in self.walk()
            for short in layer.weights
            if short in layer.fixed
        )
        shapes = {node.layer: (None, *node.shape) for node in self.nodes if node.layer is not None}
        table_rows = [("Layer (type)", "Output Shape", "Param #", "Stage")]
        table_rows += [
            (
                f"{layer.name} ({type(layer).__name__})",
                str(shapes[layer]),
                f"{layer.count:,}",
                str(layer.stage),
            )
            for layer in self.layers
        ]
        column_widths = [max(map(len, column)) for column in zip(*table_rows, strict=True)]
        print_fn(f'Model: "{self.name}"')
        for row in table_rows:
            print_fn(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(row, column_widths, strict=True)
                ).rstrip()
            )
        num_params = self.count_params()
        print_fn(
            f"Total params: {num_params:,} (trainable {num_params - num_fixed:,}, others "
            f"{num_fixed:,})"
        )

    def check_stages(self, stages: Sequence[int]) -> None:
        """Raise `ModelError` unless there is a stage for each layer."""
        if len(stages) != len(self.layers):
            names = ", ".join(layer.name for layer in self.layers)
            raise ModelError(f"""set_pipeline_stage_assignment() was given
                {counted(len(stages), "stage")} for {counted(len(self.layers), "layer")}.
                next:  pass a list with the stage of each of these layers: {names}.""")


def _listed(role: str, nodes: Nodes) -> list[Node]:
    """Return a list of nodes. `role` is "inputs" or "outputs".

    :raises ModelError: if a dict or anything other than nodes was passed.
    """
    items = [nodes] if isinstance(nodes, Node) else nodes
    if (
        not isinstance(items, (list, tuple))
        or not all(isinstance(n, Node) for n in items)
        or not items
    ):
        raise misuse(
            f"Model() was given {shown(nodes)} as {role}.",
            "give the result of Input((64,)) or of a layer, or a list of these.",
        )
    return list(items)


def _in_order(outputs: Sequence[Node]) -> list[Node]:
    """Return the outputs and all nodes on which they depend, each after its parents."""
    ordered: dict[Node, None] = {}
    waiting = [*reversed(outputs)]
    while waiting:
        node = waiting[-1]
        missing = [parent for parent in node.parents if parent not in ordered]
        if missing:
            waiting += reversed(missing)
        else:
            ordered[node] = None
            waiting.pop()
    return list(ordered)


check_calls(globals(), misuse)
