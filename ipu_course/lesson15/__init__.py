"""Lesson 15: Belief propagation and capstone."""
