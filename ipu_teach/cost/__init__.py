"""The cost of a program on silicon: cycles, exchanged bytes and memory, all of it modelled.

Compared with `tiny`, which counts bytes and races with a simple model of time, this package has the
cycles of a codelet from its trace, and those of a superstep on every tile. It models the exchange,
the rearrangement of copies, and the links between IPUs and to the host. It counts the bytes of
every tile at its peak, from the liveness of variables.

Each constant has a source. The package reads compiled programs and runs nothing.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
