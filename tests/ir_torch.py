"""Gradients of the frontends' graph by torch's own operations, in float64."""

from __future__ import annotations

from typing import Any

import ir_numpy
import numpy as np
import pytest

from ipu_teach import BOOL
from ipu_teach.frontends.ir import Ir, Value


def torch_gradients(graph: Ir, loss: Value) -> dict[Value, Any]:
    """Return the gradients of all variables of `graph` that have one."""
    torch = pytest.importorskip("torch")
    f, env = torch.nn.functional, {}
    for v in graph.variables.values():
        env[v] = torch.tensor(np.asarray(v.initial, np.float64), requires_grad=True)

    def pads(lower: Any, upper: Any) -> list[int]:
        return [n for pair in zip(lower[::-1], upper[::-1], strict=True) for n in pair]

    def conv(
        x: Any, w: Any, stride: Any, lower: Any, upper: Any, dilation: Any, groups: int
    ) -> Any:
        call = f.conv1d if x.ndim == 3 else f.conv2d
        return call(f.pad(x, pads(lower, upper)), w, None, stride, 0, dilation, groups)

    def transposed(
        g: Any, w: Any, field: Any, stride: Any, lower: Any, upper: Any, dilation: Any, groups: int
    ) -> Any:
        return f.conv_transpose2d(g, w, None, stride, lower, 0, groups, dilation)

    def avg(x: Any, kernel: Any, stride: Any, lower: Any, upper: Any) -> Any:
        return f.avg_pool2d(x, kernel, stride, lower, count_include_pad=False)

    def norm(x: Any, gamma: Any, beta: Any, kind: str, eps: float, groups: int = 1) -> Any:
        if kind == "batch":
            y = f.batch_norm(x, None, None, gamma, beta, True, 0.1, eps)
        else:
            y = f.group_norm(
                x, {"layer": 1, "instance": x.shape[1]}.get(kind, groups), gamma, beta, eps
            )
        return y, y, torch.zeros(1), torch.zeros(1)

    def cut(x: Any, dim: int, begin: int, end: int, step: int = 1) -> Any:
        return x.movedim(dim, 0)[begin:end:step].movedim(0, dim)

    def extreme(call: Any) -> Any:
        return lambda x, dims: call(x, tuple(dims))

    def product(x: Any, dims: Any) -> Any:
        for d in sorted(dims, reverse=True):
            x = x.prod(d)
        return x

    def loss_of(x: Any, y: Any) -> Any:
        masked = torch.where(y == 2**32 - 1, -100, y)
        return f.cross_entropy(x, masked, reduction="none"), None

    by_name = "neg abs exp expm1 square sin cos erf floor ceil round trunc log log1p sqrt rsqrt relu sigmoid tanh add sub mul div pow atan2 eq lt gt matmul logical_and logical_or logical_not"
    table: dict[str, Any] = {k: getattr(torch, k) for k in by_name.split()} | {
        "inv": torch.reciprocal, "signum": torch.sign, "is_nan": torch.isnan, "is_finite": torch.isfinite, "gelu": f.gelu, "silu": f.silu,
        "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"), "hard_sigmoid": lambda x: f.relu6(1.2 * x + 3) / 6, "max": torch.maximum,
        "min": torch.minimum, "neq": torch.ne, "lteq": torch.le, "gteq": torch.ge, "select": torch.where, "copy": torch.clone,
        "clamp": lambda x, least, most: x.clamp(least, most), "reshape": lambda x, shape: x.reshape(shape), "permute": lambda x, dims: x.permute(dims),
        "expand": lambda x, shape: x.expand(shape), "slice": cut, "reverse": lambda x, dim: x.flip(dim), "concat": lambda *x, dim: torch.cat(x, dim),
        "pad": lambda x, lower, upper, value=0.0: f.pad(x, pads(lower, upper), value=value), "sum": lambda x, dims: x.sum(tuple(dims)) if dims else x,
        "reduce_max": extreme(torch.amax), "reduce_min": extreme(torch.amin), "reduce_prod": product, "arg_max": lambda x: x.argmax(-1),
        "arg_min": lambda x: x.argmin(-1), "top_k": torch.topk, "one_hot": lambda x, classes, dtype: f.one_hot(x, classes).double(), "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1), "softplus": f.softplus, "binary_cross_entropy": lambda x, y: f.binary_cross_entropy_with_logits(x, y, reduction="none"), "gather": lambda x, i: x[i], "scatter": lambda i, u, shape: torch.zeros(shape, dtype=u.dtype).index_add(0, i, u),
        "scatter_add": lambda x, i, u: x.index_add(0, i, u), "pick": lambda x, i: x.gather(1, i[:, None])[:, 0], "conv": conv, "conv_input_grad": transposed,
        "max_pool": lambda x, kernel, stride, lower, upper: f.max_pool2d(x, kernel, stride, lower), "avg_pool": avg, "norm": norm,
        "cross_entropy": loss_of, "cast": lambda x, dtype: x.double(), "to_variance": lambda x, eps: 1 / x**2 - eps,
        "to_inv_std_dev": lambda v, eps: (v.detach() + eps) ** -0.5, "blend": lambda *_, momentum: None, "stop": lambda x: x.detach(),
    }  # fmt: skip

    def replaced(x: Any, index: Any, updates: Any) -> Any:
        rows = list(x.unbind(0))
        for place in np.ndindex(tuple(index.shape)):
            rows[index[place]] = updates[place]
        return torch.stack(rows)

    def largest(x: Any, index: Any, updates: Any) -> Any:
        rest = x.shape[1:]
        places = index.reshape(-1, *(1,) * len(rest)).expand(-1, *rest)
        return x.scatter_reduce(0, places, updates.reshape(-1, *rest), "amax")

    table |= {"scatter_set": replaced, "scatter_max": largest, "nearby_int": torch.round}
    table |= {f"bitwise_{k}": getattr(torch, f"bitwise_{k}") for k in ("and", "or", "xor", "not")}
    table |= {"shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift}
    table["reinterpret"] = lambda x, dtype: x

    def run(ops: Any) -> None:
        for op in ops:
            assert op.kind in table, f"{op.kind!r} needs its name in torch, in by_name or table"
            made = table[op.kind](*map(of, op.inputs), **op.attrs)
            env.update(zip(op.outs, made if isinstance(made, tuple) else [made], strict=False))

    def of(v: Value) -> Any:
        constant = ir_numpy.constant(v) if v.kind == "constant" else None
        kind = torch.float64 if v.floating else torch.bool if v.dtype is BOOL else torch.int64
        return env[v] if constant is None else torch.tensor(constant.copy()).to(kind)

    def scan(*given: Any, body: Ir, steps: int, along: int, kept: int) -> Any:
        carried, rows = list(given[along : along + kept]), []
        for i in range(steps):
            now = (*(x[i] for x in given[:along]), *carried, *given[along + kept :])
            env.update(zip(body.inputs.values(), now, strict=True))
            run(body.ops)
            carried = [of(v) for v in [*body.outputs.values()][:kept]]
            rows.append([of(v) for v in [*body.outputs.values()][kept:]])
        return (*carried, *map(torch.stack, zip(*rows, strict=True)))

    def lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any) -> Any:
        weights, start = [w, r, b, torch.zeros_like(b)], (h[None], c[None])
        outs, _, last = torch.lstm(x, start, weights, True, 1, 0.0, True, False, False)
        return outs, last[0]

    table |= {"scan": scan, "lstm": lstm}
    run(graph.ops)
    env[loss].backward()
    return {v: env[v].grad.numpy() for v in graph.variables.values() if env[v].grad is not None}
