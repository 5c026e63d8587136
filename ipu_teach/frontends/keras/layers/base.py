"""The base class of layers, and the nodes that connect them.

Images are [rows, columns, channels], and sequences are [steps, features].
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np

from ipu_teach.arguments import Among, Argument, Between, advised, check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.ipu import current_stage
from ipu_teach.frontends.keras.layers.initializers import Initializer, sampled
from ipu_teach.frontends.keras.recorded import Recorded, refuse_options
from ipu_teach.frontends.keras.tensors import Tensor, Weight, building, raw
from ipu_teach.graph.source import caller
from ipu_teach.types import FLOAT, HALF, INT, Array, DType

if TYPE_CHECKING:
    pass

Shape = tuple[int, ...]
Size = Annotated[int, Between(1, 2**24)]
# Maps the name of each policy to the dtype in which layers compute.
POLICIES = {"float32": FLOAT, "mixed_float16": HALF}
_policy = ["float32"]
Policy = Annotated[str, Among(POLICIES)]
# Maps each dtype of a model's input to the dtype on the device.
INPUT_DTYPES: dict[str, type[DType]] = {"float32": FLOAT, "int32": INT, "int64": INT, "uint8": INT}
InputDtype = Annotated[str, Among(INPUT_DTYPES)]


def set_global_policy(name: Policy) -> None:
    """Set the dtype in which layers that are created from now on compute.

    The policy "float32" means FLOAT, and "mixed_float16" means HALF. Weights are FLOAT in both
    cases.
    """
    _policy[0] = name


@dataclass(eq=False, frozen=True)
class Call:
    """A call of a layer. Its arguments contain nodes in place of tensors, also within lists."""

    layer: Layer
    args: tuple[Argument, ...]
    named: Mapping[str, Argument]

    @property
    def parents(self) -> tuple[Node, ...]:
        """The nodes among the arguments, in order."""
        return tuple(nodes_in((self.args, [*self.named.values()])))


@advised("give the result of a layer, or of Input((64,)).")
@dataclass(eq=False, frozen=True)
class Node:
    """A result of a call of a layer, or an input of a model, which has no call.

    - `shape`: the shape without the batch dimension.
    - `dtype`: the device's dtype.
    - `index`: the number of the result among the results of the call.
    - `name`: the name of an input, or "".
    - `is_declared`: whether the user's program has set the dtype of an input.
    """

    shape: Shape
    dtype: type[DType] = FLOAT
    call: Call | None = None
    index: int = 0
    name: str = ""
    is_declared: bool = False

    @property
    def layer(self) -> Layer | None:
        """The layer that was called, or None for an input."""
        return self.call.layer if self.call else None

    @property
    def parents(self) -> tuple[Node, ...]:
        """The nodes that were passed to the call of the layer."""
        return self.call.parents if self.call else ()


def nodes_in(structure: Argument) -> Iterator[Node]:
    """Yield the nodes of nested lists and tuples, in order."""
    if isinstance(structure, Node):
        yield structure
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            yield from nodes_in(item)


def mapped(structure: Argument, kind: type, function: Callable[[Any], Argument]) -> Argument:
    """Return nested lists and tuples with `function(item)` in place of each item of type `kind`."""
    if isinstance(structure, kind):
        return function(structure)
    if isinstance(structure, (list, tuple)):
        items = [mapped(item, kind, function) for item in structure]
        return items if isinstance(structure, list) else tuple(items)
    return structure


def Input(
    shape: Sequence[Size],
    batch_size: None = None,
    dtype: InputDtype | None = None,
    *,
    name: str | None = None,
    **others: object,
) -> Node:
    """Return an input of a model. `shape` is the shape of one sample, without the batch.

    If `dtype` is None, the input is FLOAT, or INT if only Embedding layers read it.
    """
    refuse_options("Input", others, ("shape", "batch_size", "dtype", "name"))
    device_dtype = INPUT_DTYPES[dtype or "float32"]
    return Node(tuple(shape), device_dtype, name=name or "", is_declared=dtype is not None)


class CommonOptions(TypedDict, total=False):
    """The arguments that all layers accept."""

    name: str | None
    trainable: bool
    dtype: str | None


class LayerOptions(CommonOptions, total=False):
    """The arguments of most layers: `input_shape`, and the arguments that all layers accept."""

    input_shape: Sequence[int] | None


KNOWN = ("name", "trainable", "dtype", "input_shape")


@advised("give a layer, such as Dense(10).")
class Layer(Recorded):
    """A layer. A user-defined layer defines `call`, and also `build` if it has weights.

    `build(input_shape)` creates the weights with `add_weight`; `input_shape` begins with None, for
    the batch. `call(inputs)` computes the result with operators and the functions of `keras.ops`.

    - `name`: the name of the layer. If it is "", the model names the layer.
    - `trainable`: whether the optimiser changes the weights.
    - `dtype`: the policy, which is "float32" or "mixed_float16". The layer computes in FLOAT or
      HALF. The default is the global policy.
    - `stage`: the number of the IPU that the layer runs on.
    """

    # Whether the input contains indices. Indices stay integers.
    reads_indices = False

    def __init__(
        self,
        *,
        name: str | None = None,
        input_shape: Sequence[Size] | None = None,
        trainable: bool = True,
        dtype: Policy | None = None,
        **others: object,
    ) -> None:
        own = tuple(inspect.signature(type(self).__init__).parameters)[1:]
        known = tuple(dict.fromkeys((*own, *KNOWN)))
        refuse_options(type(self).__name__, others, tuple(n for n in known if n != "layer_options"))
        self.name = name or ""
        self.trainable = trainable
        self.dtype = dtype or _policy[0]
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self.stage = current_stage()
        self.line = caller()
        self.weights: dict[str, Array] = {}
        # The weights that the optimiser does not change. They are always FLOAT.
        self.fixed: tuple[str, ...] = ()
        self.built = False
        # The weights in the graph to which the layer is added.
        self._in_graph: dict[str, Value] = {}

    @property
    def kind(self) -> str:
        """The name of the class in snake case, such as "batch_normalization"."""
        name = type(self).__name__
        for word in ("1D", "2D", "RNN", "LSTM", "GRU"):
            name = name.replace(word, word.lower() if word[0].isdigit() else word.capitalize())
        name = name.replace("ReLU", "Relu").replace("LeakyRelu", "LeakyReLu")
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

    @property
    def count(self) -> int:
        """The number of elements of all weights, including the weights of inner layers."""
        return sum(w.size for _, layer in self.walk("") for w in layer.weights.values())

    @property
    def inner_layers(self) -> dict[str, Layer]:
        """A dict that maps names to the inner layers.

        An inner layer is an attribute of this layer, or an item of a list or tuple that is an
        attribute.
        """
        named: dict[str, Layer] = {}
        for attribute, value in vars(self).items():
            if isinstance(value, Layer):
                named[value.name or attribute] = value
            elif isinstance(value, (list, tuple)):
                for number, item in enumerate(value):
                    if isinstance(item, Layer):
                        named[item.name or f"{attribute}_{number}"] = item
        return named

    def walk(self, path: str) -> Iterator[tuple[str, Layer]]:
        """Yield (path, layer) for this layer, whose path is `path`, and for all inner layers."""
        yield path, self
        for name, inner in self.inner_layers.items():
            yield from inner.walk(f"{path}.{name}")

    def add_weight(
        self,
        shape: Sequence[int] | int | None = None,
        initializer: Initializer | None = None,
        dtype: Annotated[str, Among(("float32",))] | None = None,
        trainable: bool = True,
        *,
        name: str | None = None,
        **others: object,
    ) -> Weight:
        """Add a weight with the shape `shape`, and return it, for use in `call`.

        The initialiser is a name in `INITIALIZERS`, or a function that takes the shape. The default
        is "glorot_uniform". The optimiser changes the weight if `trainable`.

        :raises ModelError: for a negative size, or a name that the layer already uses.
        """
        known = ("shape", "initializer", "dtype", "trainable", "name")
        refuse_options("add_weight", others, known)
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape or ())
        if any(size is None or size < 0 for size in sizes):
            raise misuse(
                f"add_weight() was given the shape {shown(sizes)}.",
                "use sizes of 0 or more; input_shape[-1] is the size of the last dimension.",
            )
        number = len(self.weights)
        short = name or ("variable" if not number else f"variable_{number}")
        if short in self.weights:
            raise misuse(
                f"add_weight() was given the name {short!r}, which the layer already uses.",
                "give each weight of a layer a different name, or leave out name=.",
            )
        self.weights[short] = sampled(initializer or "glorot_uniform", tuple(map(int, sizes)))
        if not trainable:
            self.fixed = (*self.fixed, short)
        return Weight(self, short)

    def in_graph(self, short: str) -> Value:
        """Return a weight in the graph to which the layer is being added.

        :raises ModelError: if the layer's `call` is not running.
        """
        if short not in self._in_graph:
            raise misuse(
                f"The weight {short!r} of {self.kind} was used outside of call().",
                "use the weight in call(). To read its elements, call get_weights() of the model.",
            )
        return self._in_graph[short]

    def build(self, input_shape: Argument) -> None:
        """Create the weights for inputs of shape `input_shape`, which begins with None."""

    def create(self, shape: Shape) -> None:
        """Create the weights for inputs of shape `shape`, which does not include the batch."""

    def call(self, *inputs: Argument, **named: Argument) -> Argument:
        """Return the layer's result for its inputs. User-defined layers override this method."""
        raise misuse(
            f"The layer {self.kind} has no method call().",
            "define call(self, inputs), which returns the result of the layer.",
        )

    def lower(
        self, g: Ir, w: dict[str, Value], training: bool, /, *x: Argument, **named: Argument
    ) -> Value | tuple[Value, ...]:
        """Add the layer's operations on the inputs `x` to the graph `g`, and return the result.

        `w` contains the weights by name, in the dtype of the inputs. The weights in `fixed` are
        FLOAT. This method calls `call`; the kit's own layers override this method instead.
        """
        parameters = inspect.signature(self.call).parameters
        if "training" in parameters:
            named.setdefault("training", training)
        options = {n: mapped(v, Value, lambda v: Tensor(g, v, training)) for n, v in named.items()}
        _owners.append(self)
        try:
            with building(g, training):
                result = self.call(*mapped(x, Value, lambda v: Tensor(g, v, training)), **options)
        finally:
            _owners.pop()
        values = tuple(raw(g, item) for item in _flat(result))
        return values[0] if len(values) == 1 else values

    def prepared(self, g: Ir, value: Value, dtype: type[DType]) -> Value:
        """Return an input in the dtype in which the layer computes."""
        return value if self.reads_indices else g.cast(value, dtype)

    def add_to(
        self, graph: Ir, training: bool, call: Call, values: Mapping[Node, Value]
    ) -> tuple[Value, ...]:
        """Add a call of the layer to a graph, and return its results.

        `values` maps the nodes on which the layer was called to their values.
        """
        args = mapped(call.args, Node, values.__getitem__)
        named = {name: mapped(v, Node, values.__getitem__) for name, v in call.named.items()}
        return self.lowered(graph, training, self.name or self.kind, args, named)

    def lowered(
        self,
        graph: Ir,
        training: bool,
        path: str,
        args: tuple[Argument, ...],
        named: Mapping[str, Argument],
    ) -> tuple[Value, ...]:
        """Add the layer to a graph, with its weights as variables, and return its results.

        `path` is the path of the layer. The inputs and weights are first cast to the dtype in which
        the layer computes.
        """
        dtype = POLICIES[self.dtype]
        options = dict(named)
        requested = options.pop("training", None)
        training = training if requested is None else bool(requested)
        with graph.at(path=path, stage=self.stage, line=self.line):
            weights = {}
            for short, array in self.weights.items():
                name = f"{path}.{short}"
                known = graph.variables.get(name)
                weights[short] = graph.variable(array, name) if known is None else known
            weights |= {n: graph.cast(v, dtype) for n, v in weights.items() if n not in self.fixed}
            before, self._in_graph = self._in_graph, weights
            inputs = mapped(args, Value, lambda v: self.prepared(graph, v, dtype))
            others = {
                n: mapped(v, Value, lambda v: graph.cast(v, dtype)) for n, v in options.items()
            }
            try:
                result = self._lower(graph, weights, training, inputs, others)
            finally:
                self._in_graph = before
        return result if isinstance(result, tuple) else (result,)

    def _lower(
        self,
        graph: Ir,
        weights: dict[str, Value],
        training: bool,
        args: tuple[Argument, ...],
        named: dict[str, Argument],
    ) -> Value | tuple[Value, ...]:
        """Call `lower` with the inputs of the layer.

        If the only input is a list, its items are passed as separate arguments.
        """
        if type(self).lower is not Layer.lower and len(args) == 1 and isinstance(args[0], list):
            args = tuple(args[0])
        return self.lower(graph, weights, training, *args, **named)

    def _check_call(self, args: tuple[Argument, ...], named: Mapping[str, Argument]) -> None:
        """Raise `ModelError` for an argument of a call that the layer does not have."""
        own = self.call if type(self).lower is Layer.lower else self.lower
        parameters = inspect.signature(own).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for name, value in named.items():
            if name == "training" or name in parameters or takes_all or value is None:
                continue
            raise misuse(
                f"The layer {self.kind} was called with {name}={shown(value)}, which the device "
                "does not implement.",
                f"leave {name} out.",
            )
        if not any(True for _ in nodes_in((args, [*named.values()]))):
            raise misuse(
                f"The layer {self.kind} was called on {shown(args[0] if args else 'nothing')}.",
                "call it on the result of a layer or of Input((64,)), or on a list of these.",
            )

    def ensure_built(self, shapes: list[Shape]) -> None:
        """Create the weights at the first call.

        `shapes` are the shapes of the inputs without the batch dimension.
        """
        if self.built:
            return
        if type(self).build is not Layer.build:
            with_batch = [(None, *shape) for shape in shapes]
            self.build(with_batch[0] if len(shapes) == 1 else with_batch)
        else:
            self.create(shapes[0])
        self.built = True

    def __call__(self, *args: Argument, **named: Argument) -> Argument:
        """Return the node of the layer's result, or a tuple of nodes if it has several results.

        The arguments are nodes, or lists of nodes for layers with several inputs. Inside `call` of
        a user-defined layer, other layers are called on tensors and return tensors.

        :raises ModelError: if there is no input, or if the inputs do not fit the layer.
        """
        if any(isinstance(item, Tensor) for item in _flat(args)):
            return self._on_tensors(args, named)
        call_args = tuple(list(item) if isinstance(item, tuple) else item for item in args)
        self._check_call(call_args, named)
        call = Call(self, call_args, {n: v for n, v in named.items() if v is not None})
        self.ensure_built([node.shape for node in nodes_in(call_args)])
        # This temporary graph only computes the shape of the result.
        shape_graph = Ir()
        values = {
            node: shape_graph.input((1, *node.shape), f"x{i}", self._input_dtype(node))
            for i, node in enumerate(dict.fromkeys(call.parents))
        }
        results = self.add_to(shape_graph, False, call, values)
        nodes = tuple(Node(v.shape[1:], v.dtype, call, i) for i, v in enumerate(results))
        return nodes[0] if len(nodes) == 1 else nodes

    def _input_dtype(self, node: Node) -> type[DType]:
        """Return the dtype of an input of the layer. Undeclared inputs of indices are INT."""
        if self.reads_indices and node.call is None and not node.is_declared:
            return INT
        return node.dtype

    def _on_tensors(self, args: tuple[Argument, ...], named: Mapping[str, Argument]) -> Argument:
        """Return the result of the layer for tensors, when `call` of another layer calls it."""
        tensors = [item for item in _flat(args) if isinstance(item, Tensor)]
        graph = tensors[0].graph
        self.ensure_built([tensor.shape[1:] for tensor in tensors])
        owner_path = graph.context.get("path", "")
        path = f"{owner_path}.{self._inner_name()}"
        values = mapped(args, Tensor, lambda t: t.value)
        others = {n: mapped(v, Tensor, lambda t: t.value) for n, v in named.items()}
        results = self.lowered(graph, tensors[0].training, path, values, others)
        wrapped = tuple(Tensor(graph, value) for value in results)
        return wrapped[0] if len(wrapped) == 1 else wrapped

    def _inner_name(self) -> str:
        """Return this layer's name as an inner layer of the layer whose `call` is running."""
        owners = _owners[-1].inner_layers if _owners else {}
        return next(
            (name for name, layer in owners.items() if layer is self), self.name or self.kind
        )


# The user-defined layers whose `call` is running, innermost last.
_owners: list[Layer] = []


def _flat(structure: Argument) -> Iterator[Argument]:
    """Yield the items of nested lists and tuples."""
    if isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _flat(item)
    else:
        yield structure


check_calls(globals(), misuse)
