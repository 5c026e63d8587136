"""The training runs of lesson 16: estimates for chosen settings."""

from __future__ import annotations

from functools import cache

from ipu_teach.device import IPUModel
from ipu_teach.errors import ModelError, shown
from ipu_teach.estimate import networks
from ipu_teach.estimate.result import Estimate
from ipu_teach.frontends import ir
from ipu_teach.frontends.session import Group, Training

# The blocks whose outputs Graphcore's run saved. It recomputed the other activations up to the last
# of them.
CHECKPOINTS = "groups.0.0", "groups.0.2", "groups.1.0", "groups.1.2", "groups.2.0", "groups.2.3"
RECOMPUTATION = None, "standard", "six checkpoints"


@cache
def resnet(
    micro_batch: int = 1,
    accumulation: int = 1,
    replicas: int = 16,
    recompute: str | None = None,
    partials: str = "half",
    proportion: float = 0.6,
    byte_inputs: bool = False,
    optimiser: str = "momentum",
) -> Estimate:
    """Return the estimate of an update of ResNet-50 on images of 224 x 224.

    - `micro_batch` is the number of images of a micro-batch on an IPU, `accumulation` the number of
      micro-batches in an update, and `replicas` the number of IPUs.
    - `recompute` is None, "standard" (the kit chooses the values to save), or "six checkpoints"
      (the outputs of six blocks are saved, and all results after the last of them).
    - `partials` is the dtype of the sums of products, "half" or "float".
    - `proportion` is the share of a tile's memory that a convolution may use for temporary data.
    - `byte_inputs` says whether the host sends a byte for each value of an image, instead of two.

    :raises ModelError: if `recompute` has another value.
    """
    if recompute not in RECOMPUTATION:
        raise ModelError(f"""resnet() was given recompute={shown(recompute)}.
            next:  use None, "standard" or "six checkpoints".""")
    graph = networks.network("resnet50", micro_batch)
    numbers = {"momentum": 0.9}
    if optimiser == "lars":
        numbers["weight_decay"] = 5e-5  # Graphcore used this number for its run.
    training = Training(
        "sgd" if optimiser == "momentum" else optimiser,
        groups=(Group(numbers=numbers),),
        recompute=_checkpoints(graph) if recompute == "six checkpoints" else recompute,
        accumulation=accumulation,
        replicas=replicas,
    )
    step = training.transform(graph, graph.outputs[networks.LOSS])
    target = IPUModel("ipu2", num_ipus=replicas).create_device().target
    products = {"partialsType": partials, "availableMemoryProportion": proportion}
    return ir.estimate(step, target, products, byte_inputs)


def _checkpoints(graph: ir.Ir) -> list[ir.Value]:
    """Return the values that are saved: the outputs of six blocks, and all results after them."""
    ends = [n for n, op in enumerate(graph.ops) if op.kind == "relu" and op.path in CHECKPOINTS]
    ops = [graph.ops[n] for n in ends] + graph.ops[ends[-1] + 1 :]
    return [value for op in ops for value in op.outs]
