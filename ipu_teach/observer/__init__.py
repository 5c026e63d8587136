"""Observe one vertex: the cost of each line of its `compute()`, and each iteration of its loops.

Compared with `tiny`, whose `compute()` returns values only, this package runs a vertex on host
arrays, without a graph or an engine. The first run computes the values. A second run executes the
scalar loop, which is Python code that the compiler generates from `compute()`. It reports the
cycles of each line, the variables after every iteration, and which iteration stored an element.
"""

from ipu_teach.observer.watch import observe, observed

__all__ = ["observe", "observed"]
