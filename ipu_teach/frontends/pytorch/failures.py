"""Convert errors that torch raises during a capture to errors with the learner's line."""

from __future__ import annotations

import traceback

import torch

from ipu_teach.errors import IPUTeachError, ModelError
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.labels import is_own, is_torchs
from ipu_teach.graph.source import in_words

_VALUE_TEXTS = ("data-dependent", "get value out of a tracing tensor", "numpy() is not supported")


def error_to_raise(module: torch.nn.Module, error: Exception, path: str) -> Exception:
    """Return the error to raise in place of `error`, which the capture of a module has raised.

    `path` is the submodule that was running. Errors from the kit or from the learner's own code are
    returned unchanged.
    """
    frames = traceback.extract_tb(error.__traceback__)
    learner_lines = [(f.filename, f.lineno or 0) for f in frames if is_own(f.filename)]
    line = in_words(*learner_lines[-1:])
    name = type(module).__name__
    text = str(error)
    if isinstance(error, IPUTeachError):
        return error
    if isinstance(error, private.VALUE_NEEDED) or any(t in text for t in _VALUE_TEXTS):
        return ModelError(
            f"{name} uses an element of a tensor to choose the next operations, but a program of "
            "the device is written before it runs.",
            where=path or name,
            line=line,
            next_step="compute both and choose by torch.where(condition, a, b), or decide by "
            "shapes and by numbers of Python.",
        )
    if frames and not is_torchs(frames[-1].filename):
        return error
    first_text_line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return ModelError(
        f"torch could not capture {name}: {type(error).__name__}: {first_text_line}",
        where=path or name,
        line=line,
        next_step="make the module run on tensors of these shapes in plain torch, and use tensors "
        "only by torch's functions.",
    )
