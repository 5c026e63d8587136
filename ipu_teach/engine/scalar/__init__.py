"""Run codelets as loops over their elements, as generated Python code or compiled by numba."""
