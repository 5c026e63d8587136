"""Run codelets as loops over their elements, in generated Python code that numba may compile."""
