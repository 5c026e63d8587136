"""Run compiled programs.

Compared with `tiny`, which runs a graph vertex by vertex, the engine runs all vertices of a group
by array calls (`batch`), or loops over elements in CPython or as compiled code (`scalar`). It uses
numpy or a CUDA GPU. With numpy and `exact=True`, all ways give the same bits; `loop.py` is the slow
reference. Reads of unwritten memory are found once per step. Stochastic rounding and floating-point
traps are added around these calls (`fp`). Remote buffers and executables are as in Poplar.
"""

from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable, compile_graph

__all__ = ["Engine", "Executable", "compile_graph"]
