from ipu_teach.engine.engine import Engine

"""What runs a compiled program."""

__all__ = ["Engine"]
