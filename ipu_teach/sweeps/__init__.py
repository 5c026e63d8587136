"""Sweeps: one program on machines of several sizes.

Compared with `tiny`, which runs a program on one machine, this package runs it on machines of
several sizes. A function of the user builds the program for each number of tiles or IPUs. The
program runs on each machine, one after another or in parallel on an executor. The result has the
reports and a table, which also shows machines that are too small, and runs that failed or were
interrupted.
"""

from ipu_teach.sweeps.sweep import Sweep, sweep

__all__ = ["Sweep", "sweep"]
