"""What runs a compiled program.

Beside `tiny`, which goes vertex by vertex: all vertices of a group in one array call (`batch`),
loops over elements in CPython or compiled (`scalar`), on numpy or a CUDA GPU, with equal bits;
`loop.py` is the slow way that referees them. Definedness is checked once a step; rounding and traps
wrap a way (`fp`); remote buffers and executables as Poplar has them.
"""

from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable, compile_graph

__all__ = ["Engine", "Executable", "compile_graph"]
