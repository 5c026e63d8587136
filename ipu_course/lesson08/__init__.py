"""Lesson 08: Recomputation and liveness."""
