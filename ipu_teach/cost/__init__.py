"""A model of what a program costs on silicon: cycles, exchanged bytes and memory.

The package models:

* the cycles of a vertex, from the trace of its codelet;
* the cycles of a superstep on every tile;
* the exchange, and the copies within a tile that rearrange data for it;
* the links between IPUs, and the link to the host;
* the peak memory of every tile, from the liveness of variables.

In comparison, `tiny` counts bytes and races, and has a simple model of time. Each constant has a
source. The package reads compiled programs and never runs them.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
