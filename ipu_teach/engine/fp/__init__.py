"""Floating point beyond rounding to nearest: stochastic rounding, and traps that stop a run."""
