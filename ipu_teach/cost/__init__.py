"""What a program would cost on silicon: cycles, exchanged bytes, memory. All of it is modelled.

Beside `tiny`, which counts bytes and races and knows no time: cycles of a codelet from its trace,
of a superstep on every tile and of its exchange, with sources for each constant; rearranging of
copies; links between IPUs and to the host; the bytes of every tile at its fullest moment, by
liveness. It reads what is compiled, and runs nothing.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
