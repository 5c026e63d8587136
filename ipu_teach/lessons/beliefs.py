"""The former place of `ipu_course.lesson15.beliefs`."""

from ipu_course.lesson15.beliefs import Belief, Robust, Spring, chain, grid, messages

__all__ = ["Belief", "Robust", "Spring", "chain", "grid", "messages"]
