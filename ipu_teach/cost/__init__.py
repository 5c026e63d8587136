"""The cost of a program on silicon: cycles, exchanged bytes, memory. All of it is modelled.

Compared with `tiny`, which counts bytes and races and has no notion of time, this package has the
cycles of a codelet from its trace, of a superstep on every tile and of its exchange, with a source
for each constant. It has the rearrangement of copies, the links between IPUs and to the host, and
the bytes of every tile at its peak, by liveness. It reads compiled programs and runs nothing.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
