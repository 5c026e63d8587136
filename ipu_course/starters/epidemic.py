"""Estimate how infectious an illness is, from simulations that resemble the observations.

Each simulation has its own rate, drawn at random: the number of people whom an ill person would
infect in 100 days if all others were healthy. Every day, a random number of healthy people fall
ill, and a random number of ill people recover. The simulated and the observed numbers of ill people
are compared, and their differences are added up over all days. A rate is kept if this sum is less
than `NEAR`. The method is called Approximate Bayesian Computation.

Paper: "Accelerating Simulation-based Inference with Emerging AI Hardware", Sourabh Kulkarni,
Alexander Tsyplikhin, Mario Michael Krell and Csaba Andras Moritz.

It is right, and slow. Where the time goes is for you to find.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach import INT, UNSIGNED_INT, Device, Engine, Graph, InOut, Input, Report, Target, Vertex
from ipu_teach.program import Copy, Execute, Sequence

Data = dict[str, np.ndarray]
PEOPLE = 1000
FIRST = 10
RECOVER = 0.1
NEAR = 1500


def a_day(
    rate: np.ndarray, ill: np.ndarray, healthy: np.ndarray, dice: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how many people fall ill, how many recover, and the next state of the generator.

    The arguments are the rate of infection, the numbers of ill and healthy people, and `dice`, the
    state of xorshift, a random number generator. Each argument is a number, or an array with an
    element for each simulation.
    """
    dice = dice ^ (dice << 13)
    dice = dice ^ (dice >> 17)
    dice = dice ^ (dice << 5)
    fall = by_chance(rate / 100 * ill * healthy / PEOPLE, dice >> 16, healthy)
    return fall, by_chance(RECOVER * ill, dice & 65535, ill), dice


def by_chance(average: np.ndarray, luck: np.ndarray, maximum: np.ndarray) -> Any:
    """Return a random whole number near `average`, from 0 to `maximum`.

    `luck` is 16 random bits, which change the number by up to 1.75 standard deviations.
    """
    number = np.floor(average + np.sqrt(average) * (luck / 65536 - 0.5) * 3.5 + 0.5)
    return np.minimum(np.maximum(number, 0), maximum)


class Day(Vertex):
    """Computes one day of one simulation."""

    rate: Input[INT]
    ill: InOut[INT]
    healthy: InOut[INT]
    dice: InOut[UNSIGNED_INT]

    def compute(self) -> None:
        fall, recover, self.dice = a_day(self.rate, self.ill, self.healthy, self.dice)
        self.ill += fall - recover
        self.healthy -= fall


def make(seed: int = 3, simulations: int = 156, days: int = 60) -> Data:
    """Return `rate` [simulations], `dice` [simulations] and `seen` [days].

    `rate` has the rate of infection of each simulation, and `dice` the first state of its random
    number generator. `seen` has the observed number of ill people on each day.
    """
    rng = np.random.default_rng(seed)
    dice = rng.integers(1, 2**32, simulations + 1, np.uint32)
    rate = rng.integers(10, 61, simulations, np.int32)
    observed = epidemics(np.array([30]), dice[-1:], days)[:, 0]
    return {"rate": rate, "dice": dice[:-1], "seen": observed}


def run(target: Target, data: Data | None = None) -> tuple[Report, Data]:
    """Return the report of a run, and its results, `distances` and `kept`, both int32.

    `distances` [simulations] has, for each simulation, the differences between its numbers of ill
    people and the observed ones, added up over all days. `kept` has the rates of the simulations
    whose distance is below `NEAR`.
    """
    data = data or make()
    graph = Graph(target)
    many = len(data["rate"])
    rate, ill, healthy = (graph.add_variable(INT, (many,), n) for n in ("rate", "ill", "healthy"))
    dice = graph.add_variable(UNSIGNED_INT, (many,), "dice")
    graph.set_initial_value(rate, data["rate"])
    graph.set_initial_value(ill, FIRST)
    graph.set_initial_value(healthy, PEOPLE - FIRST)
    graph.set_initial_value(dice, data["dice"])
    day = graph.add_compute_set("day")
    for k in range(many):
        edges = {"rate": rate[k], "ill": ill[k], "healthy": healthy[k], "dice": dice[k]}
        vertex = graph.add_vertex(day, Day, edges)
        for part in (vertex, rate[k], ill[k], healthy[k], dice[k]):
            graph.set_tile_mapping(part, k * target.num_tiles // many)
    to_host = graph.add_device_to_host_fifo("ill", INT, many)
    engine = Engine(graph, Sequence(Execute(day), Copy(ill, to_host)))
    engine.load(Device(target))
    now, distances = np.zeros((2, many), np.int32)
    engine.connect_stream("ill", now)
    for observed in data["seen"]:
        engine.run()
        distances += abs(now - observed)
    return engine.report, {"distances": distances, "kept": data["rate"][distances < NEAR]}


def epidemics(rate: np.ndarray, dice: np.ndarray, days: int) -> np.ndarray:
    """Return the number of ill people on each day by numpy, int32 [days, simulations]."""
    ill = np.full(len(rate), FIRST)
    ill_per_day = []
    healthy = PEOPLE - ill
    for _ in range(days):
        fall, recover, dice = a_day(rate, ill, healthy, dice)
        ill, healthy = ill + fall - recover, healthy - fall
        ill_per_day.append(ill)
    return np.array(ill_per_day, np.int32)


def expected(data: Data) -> Data:
    """Return the results of `run`, computed by numpy, all simulations at once.

    The results of `run` must be equal to these.
    """
    ill = epidemics(data["rate"], data["dice"], len(data["seen"]))
    distances = abs(ill - data["seen"][:, None]).sum(axis=0, dtype=np.int32)
    return {"distances": distances, "kept": data["rate"][distances < NEAR]}
