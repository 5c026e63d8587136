"""The old name of the module `ipu_course.lesson15.beliefs`, for existing notebooks."""

from ipu_course.lesson15.beliefs import Belief, Robust, Spring, chain, grid, messages

__all__ = ["Belief", "Robust", "Spring", "chain", "grid", "messages"]
