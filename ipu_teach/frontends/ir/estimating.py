"""The function `estimate`, which calls the package `ipu_teach.estimate`.

`ipu_teach.estimate` imports `ipu_teach.frontends.ir`, so this module imports it only when
`estimate` runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_teach.arguments import check_calls
from ipu_teach.device import Device
from ipu_teach.frontends.ir.values import Ir, misuse
from ipu_teach.poplibs.options import Options
from ipu_teach.target import Target

if TYPE_CHECKING:
    from ipu_teach.estimate.result import Estimate


def estimate(
    step: Ir,
    target: Target | Device,
    options: Options | None = None,
    byte_inputs: bool = False,
) -> Estimate:
    """Return the modelled cycles, the memory and the throughput of a step, without building it.

    `step` is a graph, such as the result of `optimise` and of the transforms that follow it.
    `options` are the PopLibs options of matrix products and convolutions, as for `Lowering`. With
    `byte_inputs`, the host sends each element of a float input as one byte, and the device converts
    it. Print the result to see the cycles by layer. docs/estimate.md compares estimates with graphs
    that were built.

    :raises ModelError: if the machine has fewer IPUs than one for each stage of each replica.
    :raises InvalidOptionError: if there are too few micro-batches for the pipeline.
    """
    from ipu_teach.estimate.step import estimated

    return estimated(step, target, options, byte_inputs)


check_calls(globals(), misuse)
