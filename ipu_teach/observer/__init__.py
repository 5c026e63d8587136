"""One vertex at a time, under a glass: what each line of its `compute()` costs, and what each turn
of its loops did.

Beside `tiny`, whose `compute()` gives back values alone: the vertex runs on host arrays, with no
graph and no engine, plainly for the values and once more by the text that its scalar loop has,
which tells of itself: cycles by line, the variables at the end of every turn, and which turn stored
an element.
"""

from ipu_teach.observer.watch import observe, observed

__all__ = ["observe", "observed"]
