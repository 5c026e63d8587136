"""The cost of a program on silicon: cycles, exchanged bytes and memory, all of it modelled.

Compared with `tiny`, which counts bytes and races with a simple model of time, this package models
the cycles of a codelet (from its trace), of a superstep on every tile, of exchange, of the
rearrangement of copies, and of the links between IPUs and to the host. It also models the bytes of
every tile at its peak, from the liveness of variables. Each constant has a source.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
