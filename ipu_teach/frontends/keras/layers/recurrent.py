"""Recurrent layers: a cell that runs step by step over a sequence [steps, features]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.arguments import check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.activations import Activated, activate
from ipu_teach.frontends.keras.layers.base import Layer, LayerOptions, Shape, Size
from ipu_teach.frontends.keras.layers.initializers import Initializer, sampled
from ipu_teach.types import Array

if TYPE_CHECKING:
    from typing_extensions import Unpack


MAX_UNROLLED = 4096  # More steps would take minutes to compile.


class _Recurrent(Layer):
    """The base class of recurrent layers.

    The kernel is [features, gates * units] and the recurrent kernel [units, gates * units]. The
    result is the output of the last step, or of all steps with `return_sequences`. With
    `return_state`, the result is a tuple of this output and the states after the last step. With
    `go_backwards`, the steps run from last to first, and the outputs are in this reversed order.
    With `unroll`, the program contains each step; otherwise it contains one step in a loop.

    - `gates`: the number of gates.
    - `num_states`: the number of states, each [batch, units].
    """

    gates = 1
    num_states = 1

    def __init__(
        self,
        units: Size,
        activation: Activated | None = "tanh",
        recurrent_activation: Activated | None = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.units = units
        self.activation = activation or "linear"
        self.recurrent_activation = recurrent_activation or "linear"
        self.use_bias = use_bias
        self.initializers = kernel_initializer, recurrent_initializer, bias_initializer
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.unroll = unroll

    @property
    def bias_shape(self) -> Shape:
        """The shape of the bias."""
        return (self.gates * self.units,)

    def bias(self, shape: Shape) -> Array:
        """Return the initial bias."""
        return sampled(self.initializers[2], shape)

    def create(self, shape: Shape) -> None:
        if len(shape) != 2:
            raise misuse(
                f"{type(self).__name__}() was called on samples of shape {list(shape)}, but it "
                "needs [steps, features].",
                "call it on sequences, for example after an Embedding or a Reshape layer.",
            )
        kernel, recurrent, _ = self.initializers
        width = self.gates * self.units
        self.add_weight((shape[-1], width), kernel, name="kernel")
        self.add_weight((self.units, width), recurrent, name="recurrent_kernel")
        if self.use_bias:
            self.add_weight(self.bias_shape, self.bias, name="bias")

    def step(self, g: Ir, w: dict[str, Value], gates: Value, states: list[Value]) -> list[Value]:
        """Return the states after a step; the first state is the step's output.

        `gates` [batch, gates * units] is the product of the step's input and the kernel, plus the
        bias.
        """
        raise NotImplementedError

    @property
    def is_standard(self) -> bool:
        """Whether the LSTM of PopLibs computes this layer."""
        return False

    def input_bias(self, g: Ir, w: dict[str, Value]) -> Value | None:
        """Return the bias that is added to the product of the input and the kernel."""
        return w.get("bias")

    def lower(
        self,
        g: Ir,
        w: dict[str, Value],
        training: bool,
        /,
        x: Value,
        initial_state: Value | list[Value] | None = None,
    ) -> Value | tuple[Value, ...]:
        states = self._initial(g, x, initial_state)
        steps = g.op("permute", x, dims=(1, 0, 2))
        if self.go_backwards:
            steps = g.op("reverse", steps, dim=0)
        kernel = ir.turned(g, w["kernel"])
        if self.is_standard and not self.unroll:
            recurrent = ir.turned(g, w["recurrent_kernel"])
            outs, states = ir.recurrent(g, "lstm", steps, states, kernel, recurrent, w.get("bias"))
            sequence = outs if self.return_sequences else states[0]
            return self._results(g, sequence, states)
        gates = ir.linear(g, steps, kernel, self.input_bias(g, w))
        if self.unroll:
            if gates.shape[0] > MAX_UNROLLED:
                raise misuse(
                    f"{type(self).__name__}() was given unroll=True for {gates.shape[0]:,} steps.",
                    "leave unroll out: the program then contains one step in a loop.",
                )
            outputs = []
            for number in range(gates.shape[0]):
                part = g.op("slice", gates, dim=0, begin=number, end=number + 1)
                states = self.step(g, w, g.op("reshape", part, shape=gates.shape[1:]), states)
                outputs.append(g.op("reshape", states[0], shape=(1, *states[0].shape)))
            sequence = g.op("concat", *outputs, dim=0) if self.return_sequences else states[0]
        else:

            def body(
                inner: Ir, now: list[Value], before: list[Value]
            ) -> tuple[list[Value], list[Value]]:
                after = self.step(inner, w, now[0], before)
                return after, after[:1] if self.return_sequences else []

            states, stacked = ir.scan(g, body, [gates], states)
            sequence = stacked[0] if self.return_sequences else states[0]
        return self._results(g, sequence, states)

    def _results(self, g: Ir, sequence: Value, states: list[Value]) -> Value | tuple[Value, ...]:
        """Return the result of the layer; `sequence` contains the outputs of the steps."""
        if self.return_sequences:
            sequence = g.op("permute", sequence, dims=(1, 0, 2))
        return (sequence, *states) if self.return_state else sequence

    def _initial(self, g: Ir, x: Value, initial: Value | list[Value] | None) -> list[Value]:
        """Return the states before the first step, which are 0 by default."""
        shape = (x.shape[0], self.units)
        if initial is None:
            return [g.constant(0.0, x.dtype, shape) for _ in range(self.num_states)]
        states = list(initial) if isinstance(initial, (list, tuple)) else [initial]
        shapes = [getattr(state, "shape", None) for state in states]
        if shapes != [shape] * self.num_states:
            raise misuse(
                f"{type(self).__name__}() was given initial states whose shapes, without "
                f"the batch, are {shown([list(s[1:]) if s else s for s in shapes])}.",
                f"pass {self.num_states} of shape [{self.units}], in a list.",
            )
        return states


class SimpleRNN(_Recurrent):
    """A recurrent layer without gates: its output is activation(x kernel + h recurrent + bias)."""

    def __init__(
        self,
        units: Size,
        activation: Activated | None = "tanh",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        *,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            units,
            activation,
            None,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            return_sequences,
            return_state,
            go_backwards,
            unroll,
            **layer_options,
        )

    def step(self, g: Ir, w: dict[str, Value], gates: Value, states: list[Value]) -> list[Value]:
        product = g.op("matmul", states[0], w["recurrent_kernel"])
        return [activate(g, self.activation, g.op("add", gates, product))]


class LSTM(_Recurrent):
    """A long short-term memory layer. The gates are input, forget, cell and output.

    The states are the output and the cell. With `unit_forget_bias`, the initial bias of the forget
    gate is 1.
    """

    gates = 4
    num_states = 2

    def __init__(
        self,
        units: Size,
        activation: Activated | None = "tanh",
        recurrent_activation: Activated | None = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        *,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            units,
            activation,
            recurrent_activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            return_sequences,
            return_state,
            go_backwards,
            unroll,
            **layer_options,
        )
        self.unit_forget_bias = unit_forget_bias

    @property
    def is_standard(self) -> bool:
        """Whether the layer has the standard activations, so that PopLibs' LSTM computes it."""
        return (self.activation, self.recurrent_activation) == ("tanh", "sigmoid")

    def bias(self, shape: Shape) -> Array:
        bias = np.array(super().bias(shape))
        if self.unit_forget_bias:
            bias[self.units : 2 * self.units] = 1
        return bias

    def step(self, g: Ir, w: dict[str, Value], gates: Value, states: list[Value]) -> list[Value]:
        h, c = states
        total = g.op("add", gates, g.op("matmul", h, w["recurrent_kernel"]))
        i, f, new, o = ir.split(g, total, [self.units] * 4, -1)
        i, f, o = (activate(g, self.recurrent_activation, gate) for gate in (i, f, o))
        new = activate(g, self.activation, new)
        c = g.op("add", g.op("mul", f, c), g.op("mul", i, new))
        return [g.op("mul", o, activate(g, self.activation, c)), c]


class GRU(_Recurrent):
    """A gated recurrent unit. The gates are update, reset and new.

    With `reset_after`, the reset gate multiplies the product of the state and the recurrent kernel,
    and the bias is [2, 3 * units]. Otherwise, the reset gate multiplies the state.
    """

    gates = 3

    def __init__(
        self,
        units: Size,
        activation: Activated | None = "tanh",
        recurrent_activation: Activated | None = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        *,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            units,
            activation,
            recurrent_activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            return_sequences,
            return_state,
            go_backwards,
            unroll,
            **layer_options,
        )
        self.reset_after = reset_after

    @property
    def bias_shape(self) -> Shape:
        width = self.gates * self.units
        return (2, width) if self.reset_after else (width,)

    def _bias_row(self, g: Ir, w: dict[str, Value], row: int) -> Value | None:
        """Return row 0 of the bias, which is for the input, or row 1, which is for the state."""
        bias = w.get("bias")
        if bias is None or not self.reset_after:
            return bias if not row else None
        part = g.op("slice", bias, dim=0, begin=row, end=row + 1)
        return g.op("reshape", part, shape=bias.shape[1:])

    def input_bias(self, g: Ir, w: dict[str, Value]) -> Value | None:
        return self._bias_row(g, w, 0)

    def step(self, g: Ir, w: dict[str, Value], gates: Value, states: list[Value]) -> list[Value]:
        (h,) = states
        n = self.units
        update, reset, new = ir.split(g, gates, [n] * 3, -1)
        kernel = w["recurrent_kernel"]
        if self.reset_after:
            product = g.op("matmul", h, kernel)
            bias = self._bias_row(g, w, 1)
            product = product if bias is None else g.op("add", product, bias)
            update_h, reset_h, new_h = ir.split(g, product, [n] * 3, -1)
        else:
            update_h, reset_h = ir.split(
                g, g.op("matmul", h, g.op("slice", kernel, dim=1, begin=0, end=2 * n)), [n] * 2, -1
            )
        z = activate(g, self.recurrent_activation, g.op("add", update, update_h))
        r = activate(g, self.recurrent_activation, g.op("add", reset, reset_h))
        if self.reset_after:
            new_h = g.op("mul", r, new_h)
        else:
            columns = g.op("slice", kernel, dim=1, begin=2 * n, end=3 * n)
            new_h = g.op("matmul", g.op("mul", r, h), columns)
        new = activate(g, self.activation, g.op("add", new, new_h))
        return [g.op("add", new, g.op("mul", z, g.op("sub", h, new)))]


check_calls(globals(), misuse)
