"""Floating point beyond rounding to nearest: stochastic rounding, and exceptions that stop a
run."""
