"""Estimate the states of particles, from their measured positions on the planes of a detector.

Each track is a straight line that is slightly bent by matter. A Kalman filter follows the track: it
predicts the position and slope at the next plane, and corrects both with the measurement on that
plane. The more certain the prediction is, the smaller the correction is.

Paper: "Studying the potential of Graphcore IPUs for applications in Particle Physics", Lakshan Ram
Madhan Mohan, Alexander Marshall, Samuel Maddrell-Mander and others.

It is right, and slow. Where the time goes is for you to find.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, Device, Engine, Graph, Input, Output, Report, Target, Vector, Vertex
from ipu_teach.program import Execute

Data = dict[str, np.ndarray]
# WIDE and STEEP are the variances of the position and slope before the first measurement. BENT is
# the variance that is added to the slope's variance from each plane to the next.
WIDE = 100
STEEP = 1
BENT = 0.01


class Filter(Vertex):
    """Computes the state (position, slope) at the last plane, for each track on a tile."""

    seen: Input[Vector[Vector[FLOAT]]]  # a row for each track
    blur: Input[Vector[FLOAT]]  # the variance of each plane's measurement
    state: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        # This matrix maps (position, slope) to (position + slope, slope), the state at the next
        # plane.
        step = np.array([[1, 1], [0, 1]], np.float32)
        bent = np.array([[0, 0], [0, BENT]], np.float32)
        for track in range(len(self.seen)):
            state = np.zeros(2, np.float32)
            spread = np.array([[WIDE, 0], [0, STEEP]], np.float32)
            for plane in range(len(self.blur)):
                if plane > 0:
                    state = step @ state
                    spread = step @ spread @ step.T + bent
                gain = spread[:, 0] / (spread[0, 0] + self.blur[plane])
                state = state + gain * (self.seen[track, plane] - state[0])
                spread = spread - gain.reshape(2, 1) @ spread[:1]
            self.state[track] = state


def make(seed: int = 2, tracks: int = 234, planes: int = 8) -> Data:
    """Return `seen`, float32 [tracks, planes], and `blur`, float32 [planes].

    `seen` has the measured position of each track on each plane. `blur` has the variance of the
    measurements of each plane.
    """
    rng = np.random.default_rng(seed)
    slope = rng.normal(0, 1, (tracks, 1)) + rng.normal(0, 0.1, (tracks, planes)).cumsum(axis=1)
    place = rng.normal(0, 10, (tracks, 1)) + slope.cumsum(axis=1)
    blur = rng.uniform(0.1, 0.5, planes)
    seen = place + rng.normal(0, np.sqrt(blur), place.shape)
    return {"seen": seen.astype(np.float32), "blur": blur.astype(np.float32)}


def run(target: Target, data: Data | None = None) -> tuple[Report, Data]:
    """Return the report of a run, and its results: `states`, float32 [tracks, 2].

    Each row has the state of one track, as `Filter` computed it.
    """
    data = data or make()
    graph = Graph(target)
    tracks = len(data["seen"])
    seen = graph.add_variable(FLOAT, data["seen"].shape, "seen")
    blur = graph.add_constant(FLOAT, data["blur"].shape, data["blur"], "blur")
    graph.set_tile_mapping(blur, 0)
    states = graph.add_variable(FLOAT, (tracks, 2), "states")
    filtering = graph.add_compute_set("filter")
    for tile in range(target.num_tiles):
        rows = slice(tile * tracks // target.num_tiles, (tile + 1) * tracks // target.num_tiles)
        vertex = graph.add_vertex(filtering, Filter, seen=seen[rows], blur=blur, state=states[rows])
        for part in (seen[rows], states[rows], vertex):
            graph.set_tile_mapping(part, tile)
    graph.create_host_write("seen", seen)
    graph.create_host_read("states", states)
    engine = Engine(graph, Execute(filtering))
    engine.load(Device(target))
    engine.write_tensor("seen", data["seen"])
    engine.run()
    return engine.report, {"states": engine.read_tensor("states")}


def expected(data: Data) -> Data:
    """Return the results of `run`, computed by numpy, all tracks at once in float64.

    The results of `run` may differ from these by 1e-4.
    """
    state = np.zeros((len(data["seen"]), 2))
    spread = np.diag([WIDE, STEEP])
    step = np.array([[1, 1], [0, 1]])
    for plane, blur in enumerate(data["blur"]):
        if plane:
            state, spread = state @ step.T, step @ spread @ step.T + np.diag([0, BENT])
        gain = spread[:, 0] / (spread[0, 0] + blur)
        state += np.outer(data["seen"][:, plane] - state[:, 0], gain)
        spread = spread - np.outer(gain, spread[0])
    return {"states": state.astype(np.float32)}
