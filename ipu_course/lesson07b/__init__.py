"""Lesson 07b: A small CNN."""

from ipu_course.lesson07b.network import Cnn, Counted, small, variable

__all__ = ["Cnn", "Counted", "small", "variable"]
