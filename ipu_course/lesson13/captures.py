"""Graphs of torch modules: two stored captures, and any module of the learner's.

The captures are stored next to the digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_teach._support.places import bundled
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends import ir

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

CAPTURES = ("perceptron", "cnn")


def captured(module: str | Module, *example: Tensor) -> ir.Ir:
    """Return the graph of a stored capture, "perceptron" or "cnn", or of a torch module.

    A module comes with an example of its inputs, and only a module needs torch.

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
