"""Observe one vertex: the cost of each line of its `compute()`, and each iteration of its loops.

In `tiny`, `compute()` returns values only. Here the vertex runs on host arrays, without a graph or
an engine: once plainly, for the values, and once more by the text of its scalar loop, which reports
cycles by line, the variables at the end of every iteration, and the iteration that stored an
element.
"""

from ipu_teach.observer.watch import observe, observed

__all__ = ["observe", "observed"]
