"""One program on machines of several sizes: many engines, where the room below knows one.

Beside `tiny`, which has as many tiles as it is given: a learner's function builds the program for
each number of tiles, and it runs on all of them, in turn or side by side on an executor. What comes
back is their reports and a table, with a row for what does not fit, a line for what fails, and what
was done when Ctrl-C came.
"""

from ipu_teach.sweeps.sweep import Sweep, sweep

__all__ = ["Sweep", "sweep"]
