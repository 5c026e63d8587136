"""Lesson 07b: A small CNN."""
