"""Convert errors that torch raises during a capture to errors with the line of the user's code."""

from __future__ import annotations

import traceback

import torch

from ipu_teach.errors import IPUTeachError, ModelError
from ipu_teach.frontends.pytorch import advice, private
from ipu_teach.frontends.pytorch.labels import is_own, is_torchs
from ipu_teach.graph.source import in_words

_KEPT = (
    "keep all elements, and set the others to 0: torch.where(mask, x, 0). Divide their sum by "
    "mask.sum() for a mean, and write x = torch.where(mask, y, x) instead of x[mask] = y[mask]."
)
_COUNTED = (
    "count into a tensor of a fixed size: torch.zeros(n).scatter_add(0, x, torch.ones_like(x))."
)
# Operations of torch whose results have a size that depends on elements of tensors. Each name is
# mapped to the call that users write and the next step that the error suggests.
_SIZED = {
    "aten::index": ("x[mask]", _KEPT),
    "aten::masked_select": ("masked_select", _KEPT),
    "aten::nonzero": ("x[mask] or nonzero()", _KEPT),
    "aten::bincount": ("bincount", _COUNTED),
    "aten::_ctc_loss": (
        "ctc_loss",
        "pad all labels to a fixed length, and write the recursion over time with torch.logaddexp, "
        "or use ipu_teach.poplibs.popnn.ctc_loss.",
    ),
    "aten::_unique2": (
        "unique",
        "compute the unique elements on the host, and pass them as an input.",
    ),
    "aten::repeat_interleave": (
        "repeat_interleave with a tensor of repeats",
        "compute the positions on the host, pass them as an input, and take x[positions].",
    ),
}
_CONTROL_FLOW = "no rule registered for HigherOrderOperator "
_VALUE_TEXTS = ("data-dependent", "get value out of a tracing tensor", "numpy() is not supported")


def error_to_raise(module: torch.nn.Module, error: Exception, path: str) -> Exception:
    """Return the error to raise in place of `error`, which was raised while `module` was captured.

    `path` is the path of the submodule that was running. An `IPUTeachError`, and an error that was
    not raised inside torch, are returned unchanged.
    """
    frames = traceback.extract_tb(error.__traceback__)
    learner_lines = [(f.filename, f.lineno or 0) for f in frames if is_own(f.filename)]
    line = in_words(*learner_lines[-1:])
    name = type(module).__name__
    text = str(error)
    if isinstance(error, IPUTeachError):
        return error
    if isinstance(error, private.VALUE_NEEDED) or any(t in text for t in _VALUE_TEXTS):
        if isinstance(error, private.SHAPE_NEEDED):
            operation = private.operation_name(error.func)
            call, next_step = _SIZED.get(operation, _SIZED["aten::index"])
            return ModelError(
                f"{name} uses the result of {call}, whose size depends on the values of a tensor's "
                "elements. But the device's program is compiled before the elements are known.",
                where=path or name,
                line=line,
                next_step=f"{next_step}{advice.hint(operation)}",
            )
        if distribution := _checked_distribution(error):
            return ModelError(
                f"torch checks the arguments of {distribution}, but the device's program is "
                "compiled before their elements are known.",
                where=path or name,
                line=line,
                next_step=f"turn the check off: {distribution}(…, validate_args=False), or for all "
                "distributions torch.distributions.Distribution.set_default_validate_args(False).",
            )
        learner_sources = [f.line or "" for f in frames if is_own(f.filename)]
        uses_item = ".item()" in "".join(learner_sources[-1:])
        tensor_advice = "leave out .item(), and use the tensor. For an if, " if uses_item else ""
        return ModelError(
            f"{name} uses the value of a tensor's element in Python, for example in an if. But the "
            "device's program is compiled before the elements are known.",
            where=path or name,
            line=line,
            next_step=f"{tensor_advice}compute both results and select with torch.where(condition, "
            "a, b), or let the if depend only on shapes and Python numbers.",
        )
    if _CONTROL_FLOW in text:
        operation = text.partition(_CONTROL_FLOW)[2].split()[0]
        return ModelError(
            f"{name} calls torch's operation {operation} for control flow, which the device does "
            "not implement.",
            where=path or name,
            line=line,
            next_step="write a loop with a fixed number of steps: for step in range(10). Write a "
            "branch as torch.cond(…), instead of importing cond.",
        )
    if frames and not is_torchs(frames[-1].filename):
        return error
    first_text_line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return ModelError(
        f"torch could not capture {name}: {type(error).__name__}: {first_text_line}",
        where=path or name,
        line=line,
        next_step="check that the module runs in plain torch with these arguments, and that it "
        "uses tensors only in torch's functions.",
    )


def _checked_distribution(error: Exception) -> str:
    """Return the class of the torch.distributions object that raised an error, or ""."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        is_inside = frame.f_globals.get("__name__", "").startswith("torch.distributions.")
        if is_inside and isinstance(frame.f_locals.get("self"), torch.distributions.Distribution):
            return type(frame.f_locals["self"]).__name__
    return ""
