"""Calls of this kit to use instead of the numpy functions that people try on tensors.

A tensor has no values while the program is written, so numpy cannot compute with a tensor. The
error messages name the call that does the same on the device, with tensors `a` and `b`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Maps a numpy function, or an array method with the same name, to the kit's call.
CALLS: Mapping[str, str] = {
    # These functions return views, and views cost nothing.
    "concatenate": "concat([a, b], 0)",
    "vstack": "concat([a, b], 0)",
    "hstack": "concat([a, b], 1)",
    "append": "concat([a.flatten(), b.flatten()])",
    "stack": "concat([a.expand(0), b.expand(0)])",
    "reshape": "a.reshape((a.num_elements,))",
    "ravel": "a.flatten()",
    "transpose": "a.transpose()",
    "swapaxes": "a.dim_shuffle((1, 0))",
    "moveaxis": "a.dim_shuffle((1, 0))",
    "expand_dims": "a.expand(0)",
    "squeeze": "a.squeeze()",
    "broadcast_to": "a.expand(0).broadcast(3, 0)",
    "tile": "a.broadcast(3, 0)",
    "repeat": "a.upsample(3, 0)",
    "flip": "a.reverse(0)",
    "split": "a.slices([(0, 2), (2, 4)])",
    "take": "a.index(2)",
    # These functions compute, so programs on the device have to do their work.
    "sum": 'popops.reduce(graph, a, (0,), program, "ADD")',
    "prod": 'popops.reduce(graph, a, (0,), program, "MUL")',
    "max": 'popops.reduce(graph, a, (0,), program, "MAX")',
    "min": 'popops.reduce(graph, a, (0,), program, "MIN")',
    "any": 'popops.reduce(graph, popops.neq(graph, a, 0, program), (0,), program, "LOGICAL_OR")',
    "all": 'popops.reduce(graph, popops.neq(graph, a, 0, program), (0,), program, "LOGICAL_AND")',
    "mean": (
        'popops.mul(graph, popops.reduce(graph, a, (0,), program, "ADD"), 1 / len(a), program)'
    ),
    "argmax": "popops.arg_max(graph, a, program)",
    "argmin": "popops.arg_min(graph, a, program)",
    "sort": "popops.sort(graph, a, 1, program)",
    "where": "popops.select(graph, a, b, popops.gt(graph, a, 0, program), program)",
    "clip": "popops.clamp(graph, a, -1, 1, program)",
    "astype": "popops.cast(graph, a, HALF, program)",
    "dot": "poplin.mat_mul(graph, a, b.transpose(), program)",
    "zeros_like": "graph.clone(a)",
    "copy": "graph.clone(a)",
}
# Maps each elementwise function of numpy to its name in popops.
POPOPS: Mapping[str, str] = {
    **{name: name for name in ("cbrt", "ceil", "cos", "exp", "exp2", "expm1", "floor", "log")},
    **{name: name for name in ("log1p", "logical_and", "logical_not", "logical_or", "sin")},
    **{name: name for name in ("sqrt", "square", "tan", "tanh", "trunc")},
    "maximum": "max",
    "minimum": "min",
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "sign": "signum",
    "rint": "nearby_int",
    "reciprocal": "inv",
    "isnan": "is_nan",
    "isinf": "is_inf",
    "isfinite": "is_finite",
    "invert": "bitwise_not",
    "arcsin": "asin",
    "arctan2": "atan2",
}
# Maps each function that numpy calls for an operator such as `+` to two special methods: the method
# of the left operand, and the method of the right operand.
OPERATORS: Mapping[str, tuple[str, str]] = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "true_divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "left_shift": ("__lshift__", "__rlshift__"),
    "right_shift": ("__rshift__", "__rrshift__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
}
_FURTHER: Mapping[str, str] = {
    "zeros_like": " Then popops.zero(graph, copy, program).",
    "copy": " Then Copy(a, copy) copies the values.",
}
_ALIASES: Mapping[str, str] = {"amax": "max", "amin": "min"}


def call_for(name: str) -> str:
    """Return the kit's call for the function or method `name` of numpy, or "" if none is known."""
    name = _ALIASES.get(name, name)
    if name not in CALLS:
        return ""
    operands = "tensors a and b" if re.search(r"\bb\b", CALLS[name]) else "a tensor a"
    return f"{CALLS[name]}, for {operands}.{_FURTHER.get(name, '')}"


def call_for_numbers(name: str, operands: int) -> str:
    """Return advice for the elementwise function `name` of numpy, with one or two operands."""
    if name not in POPOPS:
        return "let the device do it: popops.map computes expressions of several operations."
    tensors = "a, b" if operands == 2 else "tensor"
    return (
        f"let the device do it: popops.{POPOPS[name]}(graph, {tensors}, program) returns a tensor."
    )
