"""The published figures that we know, beside the modelled ones: `ipu-teach golden`.

Beside `tiny`, which is judged by arithmetic: the model of time is judged here, by figures from
chips, Graphcore's own model and papers, each with source, error, tolerance and the reason where the
two differ. Their programs are built and costed anew each time, and a figure that fixed a constant
does not count.

A module for each family of figures; `table` puts them together.
"""

from validation.printed import main

__all__ = ["main"]
