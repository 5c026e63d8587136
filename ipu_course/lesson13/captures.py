"""Graphs of torch modules: two stored captures next to the digits, and any module of the
learner's."""

from __future__ import annotations

from typing import Any

from ipu_teach._support.places import bundled
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends import ir

CAPTURES = ("perceptron", "cnn")


def captured(module: Any, *example: Any) -> ir.Ir:
    """Return the graph of a stored capture, "perceptron" or "cnn", or of a torch module with an
    example of its inputs.

    Only a module needs torch.

    :raises ModelError: if there is no such capture, or the module cannot be captured.
    """
    if example:
        from ipu_teach.frontends.pytorch.capture import capture_module

        return capture_module(module, example).graph
    if module not in CAPTURES:
        raise ModelError(f"""captured() was given {shown(module)}.
            next:  {did_you_mean(str(module), CAPTURES)}there are {", ".join(CAPTURES)}; a module of
            torch comes with an example: captured(module, x, y).""")
    return ir.load(bundled("datasets") / f"{module}.model")
