"""The training of complete networks on 16 to 256 IPUs: measured and estimated throughput.

The set-ups are those of the published configurations. ResNet-50 (MLPerf Training 1.1) has a
micro-batch of 20 images, which the host sends as bytes. Recomputation starts from the outputs of
six blocks, which `pipeline_splits` in configs.yml lists. TensorFlow does not recompute the layers
after the last of these blocks (graphcore/tensorflow, passes/pipeline_recomputation.cc). The
throughput is that of epochs without validation, according to the logs. Each replica of BERT is a
pipeline of four IPUs. The first one has the embedding and the product with the vocabulary
(graphcore/examples, nlp/bert/popart/configs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ipu_teach.estimate.networks import LOSS, checkpoints, network
from ipu_teach.estimate.result import Estimate
from ipu_teach.frontends import ir
from ipu_teach.frontends.session import Group, Training
from ipu_teach.poplibs.options import Options
from validation.programs import machine
from validation.row import PROGRAMS, SILICON, TOLERANCES, Row, Source

MLPERF = Source(
    SILICON, "mlcommons/training_results_v1.1, Graphcore, ResNet-50, logs and configs.yml"
)
POSTER = Source(SILICON, "Graphcore, Performance at scale (2021)")
TABLE = Source(SILICON, "Graphcore, performance results; set-up from graphcore/examples")
IMAGES = 1_281_167  # The number of training images in ImageNet.
EPOCHS = 38  # The epochs of training on 16 IPUs (configs.yml).
MINUTES = 28.3
RACK = 64  # The number of IPUs that links join. In larger machines, gateways join racks of IPUs.
LACKS = "the estimate has no batch norm across replicas and no time of the host"
GATEWAYS = ", and one ladder of links instead of racks that are joined by gateways"


class Images(NamedTuple):
    """A published throughput of ResNet-50, in images per second, and its set-up."""

    name: str
    version: str
    replicas: int
    accumulation: int
    optimiser: str
    proportion: float
    published: int


class Sequences(NamedTuple):
    """A published throughput of BERT, in sequences per second, and its set-up."""

    name: str
    stored: str
    micro_batch: int
    accumulation: int
    layers: tuple[int, ...]
    proportion: float
    published: int


RESNETS = (
    Images("MLPerf 1.1, IPU-POD16", "ipu2", 16, 10, "lars", 0.15, 29_646),
    Images("MLPerf 1.1, IPU-POD64", "ipu2", 64, 3, "lars", 0.15, 108_140),
    Images("MLPerf 1.1, IPU-POD128", "ipu2", 128, 2, "lars", 0.15, 185_500),
    Images("MLPerf 1.1, IPU-POD256", "ipu2", 256, 2, "lars", 0.15, 348_100),
    Images("Bow Pod16", "bow", 16, 6, "momentum", 0.15, 42_029),
    Images("Bow Pod64", "bow", 64, 2, "momentum", 0.14, 145_287),
)
BERTS = (
    Sequences("BERT-Base", "bert-base", 32, 512, (0, 4, 4, 4), 0.28, 16_391),
    Sequences("BERT-Large", "bert-large", 8, 2048, (3, 7, 7, 7), 0.25, 5_179),
)


def resnet(run: Images) -> Estimate:
    """Return the estimate of ResNet-50 in a published set-up."""
    graph = network("resnet50", 20)
    is_lars = run.optimiser == "lars"
    numbers = {"momentum": 0.9, "weight_decay": 5e-5 if is_lars else 2.5e-5}
    training = Training(
        "lars" if is_lars else "sgd",
        groups=(Group(numbers=numbers),),
        recompute=checkpoints(graph),
        accumulation=run.accumulation,
        replicas=run.replicas,
    )
    step = training.transform(graph, graph.outputs[LOSS])
    target = machine(run.version, num_ipus=run.replicas)
    return ir.estimate(step, target, _products(run.proportion), byte_inputs=True)


def _products(proportion: float) -> Options:
    return {"partialsType": "half", "availableMemoryProportion": proportion}


def bert(run: Sequences) -> Estimate:
    """Return the estimate of BERT in a published set-up, on 16 IPUs.

    LAMB is replaced by Adam, because the kit has no LAMB.
    """
    graph = network(run.stored, run.micro_batch)
    stage_of_layer = [stage for stage, count in enumerate(run.layers) for _ in range(count)]
    ops = []
    for op in graph.ops:
        module, *path = op.path.split(".")
        stage = stage_of_layer[int(path[0])] if module == "layers" else 0
        ops.append(replace(op, stage=stage))
    training = Training(
        "adam",
        groups=(Group(),),
        recompute="standard",
        accumulation=run.accumulation,
        replicas=4,
        sharded=True,
        off_chip=True,
        schedule="grouped",
    )
    step = training.transform(graph.but(ops=ops), graph.outputs[LOSS])
    return ir.estimate(step, machine("bow", num_ipus=16), _products(run.proportion))


def rows(resnets: Sequence[Images] = RESNETS, berts: Sequence[Sequences] = BERTS) -> list[Row]:
    """Return a row for each published throughput of training, and for the minutes of MLPerf 1.1."""
    return [*_resnets(resnets), *_berts(berts)]


def _resnets(runs: Sequence[Images]) -> Iterator[Row]:
    for run in runs:
        estimate = resnet(run)
        name = f"ResNet-50 training, {run.name} (images a second)"
        millions = f"{estimate.update / 1e6:.1f} of {estimate.cycles / 1e6:.1f} million cycles"
        why = f"{millions} of a step are the update; {LACKS}" + GATEWAYS * (run.replicas > RACK)
        source = MLPERF if "MLPerf" in run.name else TABLE
        tolerance = TOLERANCES[PROGRAMS]
        yield source.row(name, run.published, estimate.throughput, tolerance, why)
        if run is RESNETS[0]:
            minutes = EPOCHS * IMAGES / estimate.throughput / 60
            yield POSTER.row(
                "ResNet-50 on IPU-POD16, MLPerf 1.1 (minutes)",
                MINUTES,
                minutes,
                tolerance,
                f"{EPOCHS} epochs at the estimated throughput; the published time includes "
                "validation and checkpoints",
            )


def _berts(runs: Sequence[Sequences]) -> Iterator[Row]:
    for run in runs:
        estimate = bert(run)
        layers = " + ".join(map(str, run.layers))
        why = (
            f"a pipeline of four IPUs with {layers} layers, without packed sequences; "
            f"{estimate.update / estimate.cycles:.1%} of a step are the update, with Adam for LAMB"
        )
        name = f"{run.name} training, phase 1, Bow Pod16, PopART (sequences a second)"
        yield TABLE.row(name, run.published, estimate.throughput, TOLERANCES[PROGRAMS], why)
