"""Lesson 05: Matrix-vector and matmul optimisation."""
