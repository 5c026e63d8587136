"""Lesson 00: Meet the machine."""
