"""What runs a compiled program."""

from ipu_teach.engine.engine import Engine
from ipu_teach.engine.executable import Executable, compile_graph
from ipu_teach.engine.streams import StreamCallback

__all__ = ["Engine", "Executable", "StreamCallback", "compile_graph"]
