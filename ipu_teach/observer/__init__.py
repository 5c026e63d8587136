"""Observe one vertex: the cost of each line of its `compute()`, and each iteration of its loops.

Compared with `tiny`, whose `compute()` returns values only, this package runs a vertex on host
arrays, without a graph or an engine. `compute()` runs once to get the values. If it can be
translated into a scalar loop, this loop runs too, as Python code that the compiler generates. The
loop reports the cycles of each line, the variables after every iteration, and which iteration
stored an element. For a traced codelet, the cost of the lines comes from its trace.
"""

from ipu_teach.observer.watch import observe, observed

__all__ = ["observe", "observed"]
