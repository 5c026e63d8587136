"""Neurons that send spikes to each other, in integer arithmetic.

Each neuron has a charge, and an eighth of the charge leaks away in each step. Then the neuron's own
drive is added, and a weight for each neuron that spiked in the previous step. A neuron whose charge
is then at least `FULL` spikes, and its charge drops by `FULL`.

Paper: "Harnessing Manycore Processors with Distributed Memory for Accelerated Training of Sparse
and Recurrent Models", Jan Finkbeiner, Thomas Gmeinder, Mark Pupilli and others.

It is right, and slow. Where the time goes is for you to find.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import INT, Device, Engine, Graph, InOut, Input, Report, Target, Vector, Vertex
from ipu_teach.poplibs import poputil
from ipu_teach.program import Copy, Execute, Repeat, Sequence

Data = dict[str, np.ndarray]
FULL = 256
STEPS = 50


class Neuron(Vertex):
    """Computes one step of one neuron."""

    spikes: Input[Vector[INT]]  # 1 for each neuron that spiked, else 0
    weights: Input[Vector[INT]]  # the weights of connections from each neuron to this one
    drive: Input[INT]
    charge: InOut[INT]
    spike: InOut[INT]
    count: InOut[INT]

    def compute(self) -> None:
        charge = self.charge - (self.charge >> 3) + self.drive + self.weights @ self.spikes
        spike = np.where(charge >= FULL, 1, 0)
        self.spike = spike
        self.charge = charge - FULL * spike
        self.count += spike


def make(seed: int = 5, neurons: int = 156) -> Data:
    """Return `weights`, int32 [neurons, neurons], and `drive`, int32 [neurons].

    `weights[a, b]` is added to the charge of neuron b if neuron a spiked in the previous step.
    About nine of ten weights are 0. `drive[b]` is added to the charge of neuron b in each step.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(-40, 61, (neurons, neurons), np.int32)
    weights[rng.random(weights.shape) > 0.1] = 0
    return {"weights": weights, "drive": rng.integers(0, 60, neurons, np.int32)}


def run(target: Target, data: Data | None = None) -> tuple[Report, Data]:
    """Return the report of a run, and its results, `counts` and `charges`, both int32 [neurons].

    `counts` has the number of spikes of each neuron, and `charges` has its charge after the last
    step.
    """
    data = data or make()
    graph = Graph(target)
    many = len(data["drive"])
    names = ("spikes", "before", "drive", "charge", "count")
    spikes, before, drive, charge, count = (graph.add_variable(INT, (many,), n) for n in names)
    weights = graph.add_variable(INT, (many, many), "weights")
    for tensor in (weights, spikes, before, drive, charge, count):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 0)
    graph.set_initial_value(weights, data["weights"])
    graph.set_initial_value(drive, data["drive"])
    step = graph.add_compute_set("step")
    for k in range(many):
        edges = {"drive": drive[k], "charge": charge[k], "spike": spikes[k], "count": count[k]}
        vertex = graph.add_vertex(step, Neuron, edges, spikes=before, weights=weights[:, k])
        graph.set_tile_mapping(vertex, k * target.num_tiles // many)
    graph.create_host_read("counts", count)
    graph.create_host_read("charges", charge)
    engine = Engine(graph, Repeat(STEPS, Sequence(Copy(spikes, before), Execute(step))))
    engine.load_and_run(Device(target))
    return engine.report, {name: engine.read_tensor(name) for name in ("counts", "charges")}


def expected(data: Data) -> Data:
    """Return the results of `run`, computed by numpy, all neurons at once.

    The results of `run` must be equal to these.
    """
    charge, spikes, counts = np.zeros((3, len(data["drive"])), np.int32)
    for _ in range(STEPS):
        charge = charge - (charge >> 3) + data["drive"] + spikes @ data["weights"]
        spikes = (charge >= FULL).astype(np.int32)
        charge, counts = charge - FULL * spikes, counts + spikes
    return {"counts": counts, "charges": charge}
