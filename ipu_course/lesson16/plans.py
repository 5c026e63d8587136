"""Estimates of the training runs of lesson 16, for the settings that a learner chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ipu_teach.device import IPUModel
from ipu_teach.errors import ModelError, shown
from ipu_teach.estimate import networks
from ipu_teach.estimate.result import BACKWARD, FORWARD, Estimate
from ipu_teach.frontends import ir
from ipu_teach.frontends.session import Group, Training

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

    - `micro_batch` is the number of images in a micro-batch on one IPU, `accumulation` the number
      of micro-batches in an update, and `replicas` the number of IPUs.
    - `recompute` is None, "standard" (the kit chooses the values to save), or "six checkpoints"
      (the outputs of six blocks are saved, and also all results after the last of these blocks).
    - `partials` is the dtype of the sums of products, "half" or "float".
    - `proportion` is the fraction of a tile's memory that a convolution may use for temporary data.
    - `byte_inputs` is True if the host sends one byte for each value of an image, and False if it
      sends two.

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
        recompute=networks.checkpoints(graph) if recompute == "six checkpoints" else recompute,
        accumulation=accumulation,
        replicas=replicas,
    )
    step = training.transform(graph, graph.outputs[networks.LOSS])
    target = IPUModel("ipu2", num_ipus=replicas).create_device().target
    products = {"partialsType": partials, "availableMemoryProportion": proportion}
    return ir.estimate(step, target, products, byte_inputs)


# --- a pipeline -----------------------------------------------------------------------------------

STAGES, LAYERS = 4, 12
HEAD = LAYERS + 1  # The last part of BERT-Base; 0 is the embedding, 1 to 12 are layers.


def bert(starts: Sequence[int]) -> Estimate:
    """Return the estimate of an update of BERT-Base in a pipeline of four stages, one per IPU.

    `starts` has the number of the first part in each stage. Part 0 is the embedding, parts 1 to 12
    are the layers, and part 13 is the head. An update has 64 micro-batches of 8 sequences. The
    schedule is grouped, and the activations are recomputed. With the sync pattern of a single
    pipeline, only the stage that receives data from the host waits for the host.

    :raises ModelError: if `starts` is not a division into four stages.
    """
    if fault := fault_of(starts):
        raise ModelError(f"""bert() was given starts={shown(starts)}: {fault[0]}
            next:  {fault[1]}""")
    return _bert(tuple(int(start) for start in starts))


@cache
def _bert(starts: tuple[int, ...]) -> Estimate:
    graph = networks.network("bert-base", 8)
    ops, part = [], 0
    for op in graph.ops:
        names = op.path.split(".")
        if names[0] == "layers":
            part = int(names[1]) + 1
        elif part:  # After the first layer, all operations outside the layers belong to the head.
            part = HEAD
        ops.append(replace(op, stage=sum(start <= part for start in starts) - 1))
    training = Training(
        "sgd",
        groups=(Group(numbers={"momentum": 0.9}),),
        recompute="standard",
        accumulation=64,
        schedule="grouped",
    )
    step = training.transform(graph.but(ops=ops), graph.outputs[networks.LOSS])
    machine = IPUModel("ipu2", num_ipus=STAGES, sync_pattern="SINGLE_PIPELINE")
    return ir.estimate(step, machine.create_device().target, {"partialsType": "half"})


def fault_of(starts: Any) -> tuple[str, str] | None:
    """Return (reason, advice) if `starts` is not a division into four stages, otherwise None."""
    form = "write a list of four whole numbers, such as [0, 4, 7, 10]."
    is_array = isinstance(starts, np.ndarray) and starts.ndim > 0
    if not is_array and not isinstance(starts, (list, tuple)):
        return "the starts should be a list.", form
    numbers = list(starts)
    if any(type(n) is bool or not isinstance(n, (int, np.integer)) for n in numbers):
        return "not all starts are whole numbers.", form
    if len(numbers) != STAGES:
        return f"the pipeline has {STAGES} stages, and this has {len(numbers)}.", form
    if max(numbers) > HEAD or min(numbers) < 0:
        return f"the parts are 0 to {HEAD}.", f"choose starts from 0 to {HEAD}."
    if numbers[0] != 0 and sum(numbers) == HEAD + 1:
        first = [sum(numbers[:stage]) for stage in range(STAGES)]
        advice = f"write the first part of each stage: {first} for these numbers of parts."
        return "these are numbers of parts, and not first parts.", advice
    if numbers[0] != 0:
        return "no stage has the parts before the first start.", "let stage 0 start with part 0."
    for stage, (first, following) in enumerate(zip(numbers, numbers[1:], strict=False)):
        if following <= first:
            advice = f"let stage {stage + 1} start after part {first}."
            return f"stage {stage} has no part, because the starts do not increase.", advice
    return None


def stages_of(estimate: Estimate) -> list[tuple[float, float]]:
    """Return (forward cycles, backward cycles) of a micro-batch, for each stage."""
    cycles = [[0.0, 0.0] for _ in estimate.memory]
    for line in estimate.lines:
        if line.part in (FORWARD, BACKWARD):
            cycles[line.stage][line.part == BACKWARD] += line.cycles
    return [(forward, backward) for forward, backward in cycles]
