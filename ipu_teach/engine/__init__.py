"""Run compiled programs.

Compared with `tiny`, which runs a graph vertex by vertex, the engine is fast: it runs all vertices
of a group together by array calls (`batch`), or by loops over elements in CPython or compiled code
(`scalar`). It uses numpy or a CUDA GPU. With numpy and `exact=True`, all ways of running a group
give the same bits; `loop.py` is the slow reference for them.

Each step is checked for reads of unwritten memory when it first runs (`definedness`). `fp` adds
stochastic rounding and floating-point traps. Remote buffers and executables are as in Poplar.
"""

from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable, compile_graph

__all__ = ["Engine", "Executable", "compile_graph"]
