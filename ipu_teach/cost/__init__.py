"""What a program would cost on silicon: cycles, exchanged bytes, memory. All of it is modelled."""

from ipu_teach.cost.model import CostModel, StepCost

__all__ = ["CostModel", "StepCost"]
