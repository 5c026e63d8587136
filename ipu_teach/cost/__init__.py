"""A model of the cost of a program on silicon: cycles, exchanged bytes and memory.

The package reads compiled programs and never runs them. Each constant has a source.

Compared with `tiny`, which counts bytes and races and has a simple model of time, it models:
* the cycles of a vertex, from the trace of its codelet, and those of a superstep on every tile;
* the exchange, and the copies within a tile that rearrange data for it;
* the links between IPUs and to the host;
* the peak memory of every tile, from the liveness of variables.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
