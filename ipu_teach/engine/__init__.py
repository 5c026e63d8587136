"""What runs a compiled program."""

from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable, compile_graph
from ipu_teach.engine.streams import StreamCallback
from ipu_teach.engine.sweep import Sweep, sweep

__all__ = ["Engine", "Executable", "StreamCallback", "Sweep", "compile_graph", "sweep"]
