"""Published figures beside the modelled ones: `ipu-teach golden`.

Compared with `tiny`, which is judged by arithmetic, the model of time is judged here, by figures
from chips, from Graphcore's own model and from papers. Each has its source, its error, its
tolerance and the reason where the two differ. The programs behind the figures are built and costed
again each time. A figure that fixed a constant of the kit does not count as reproduced.

Each family of figures has a module; `table` lists the families.
"""

from validation.printed import main

__all__ = ["main"]
