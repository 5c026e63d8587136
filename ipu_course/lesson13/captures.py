"""Computation graphs of torch modules: two stored graphs, and graphs of the learner's modules.

The stored graphs are files in the package's folder `datasets`.
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
    """Return the computation graph of a torch module, or a stored graph: "perceptron" or "cnn".

    For a module, `example` contains an example of each input. Only capturing a module needs torch.

    :raises ModelError: if there is no such stored graph, or the module cannot be captured.
    """
    if example:
        from ipu_teach.frontends.pytorch.capture import capture_module

        return capture_module(module, example).graph
    if module not in CAPTURES:
        raise ModelError(f"""captured() was given {shown(module)}, which is not a stored graph.
            next:  {did_you_mean(str(module), CAPTURES)}The stored graphs are {", ".join(CAPTURES)}.
            For a module of torch, also give example inputs: captured(module, x, y).""")
    return ir.load(bundled("datasets") / f"{module}.model")
