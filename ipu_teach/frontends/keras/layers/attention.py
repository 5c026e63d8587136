"""Attention with several heads."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.arguments import Fraction, check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.base import Layer, LayerOptions, Shape, Size
from ipu_teach.frontends.keras.layers.initializers import Initializer

if TYPE_CHECKING:
    from typing_extensions import Unpack


class MultiHeadAttention(Layer):
    """A layer in which each position of `query` attends to the positions of `value`.

    `layer(query, value)` or `layer(query, value, key)` takes sequences [steps, features]; the
    default key is the value. With `use_causal_mask=True`, a position attends only to itself and to
    earlier positions. With `return_attention_scores=True`, the result is (output, scores), and the
    scores are [heads, query steps, value steps] for each sample. `dropout` is the dropout
    probability of the scores in training. The output has `output_shape` features, by default the
    same number of features as the query.
    """

    def __init__(
        self,
        num_heads: Size,
        key_dim: Size,
        value_dim: Size | None = None,
        dropout: Fraction = 0.0,
        use_bias: bool = True,
        output_shape: Size | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_shape = output_shape
        self.initializers = kernel_initializer, bias_initializer

    def ensure_built(self, shapes: list[Shape]) -> None:
        if self.built:
            return
        if len(shapes) < 2 or any(len(shape) != 2 for shape in shapes):
            raise misuse(
                f"MultiHeadAttention() was called on samples of shapes {shown(shapes)}.",
                "call it on sequences [steps, features]: layer(query, value), or layer(x, x).",
            )
        query, value, key = (
            shape[-1] for shape in (*shapes[:2], shapes[-1] if len(shapes) > 2 else shapes[1])
        )
        heads = self.num_heads
        out = query if self.output_shape is None else self.output_shape
        for name, kernel, bias in (
            ("query", (query, heads, self.key_dim), (heads, self.key_dim)),
            ("key", (key, heads, self.key_dim), (heads, self.key_dim)),
            ("value", (value, heads, self.value_dim), (heads, self.value_dim)),
            ("attention_output", (heads, self.value_dim, out), (out,)),
        ):
            self.add_weight(kernel, self.initializers[0], name=f"{name}_kernel")
            if self.use_bias:
                self.add_weight(bias, self.initializers[1], name=f"{name}_bias")
        self.built = True

    def _projected(self, g: Ir, w: dict[str, Value], name: str, x: Value) -> Value:
        """Return a projection [batch, heads, steps, n] of x [batch, steps, features]."""
        kernel, bias = w[f"{name}_kernel"], w.get(f"{name}_bias")
        rows = g.op("reshape", kernel, shape=(kernel.shape[0], prod(kernel.shape[1:])))
        flat = None if bias is None else g.op("reshape", bias, shape=(bias.size,))
        y = ir.linear(g, x, ir.turned(g, rows), flat)
        y = g.op("reshape", y, shape=(*x.shape[:2], *kernel.shape[1:]))
        return g.op("permute", y, dims=(0, 2, 1, 3))

    def lower(
        self,
        g: Ir,
        w: dict[str, Value],
        training: bool,
        /,
        query: Value,
        value: Value,
        key: Value | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Value | tuple[Value, ...]:
        q = self._projected(g, w, "query", query)
        k = self._projected(g, w, "key", value if key is None else key)
        v = self._projected(g, w, "value", value)
        q = g.op("mul", q, 1 / sqrt(self.key_dim))
        scores = g.op("matmul", q, ir.turned(g, k))
        if use_causal_mask:
            lowest = float(np.finfo(q.dtype.numpy).min)
            visible = np.tri(scores.shape[-2], scores.shape[-1]) > 0
            scores = g.op("add", scores, g.constant(np.where(visible, 0.0, lowest), q.dtype))
        weights = g.op("softmax", scores)
        dropped = ir.dropout(g, weights, self.dropout) if training else weights
        y = g.op("permute", g.op("matmul", dropped, v), dims=(0, 2, 1, 3))
        kernel = w["attention_output_kernel"]
        y = g.op("reshape", y, shape=(*y.shape[:2], prod(y.shape[2:])))
        rows = g.op("reshape", kernel, shape=(prod(kernel.shape[:2]), kernel.shape[2]))
        y = ir.linear(g, y, ir.turned(g, rows), w.get("attention_output_bias"))
        return (y, dropped) if return_attention_scores else y


check_calls(globals(), misuse)
