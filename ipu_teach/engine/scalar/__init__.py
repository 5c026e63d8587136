"""Run codelets as loops over their elements, in CPython or as compiled code."""
