"""Published figures next to the modelled ones: `ipu-teach golden`.

Compared with `tiny`, whose results arithmetic can check, the model of time needs published figures:
from chips, from Graphcore's own model and from papers. Each figure has its source, its error, its
tolerance and the reason for the difference. The programs behind the figures are built and costed
again each time. Figures that were used to fix a constant of the kit do not count as reproduced.

Each family of figures has a module; `printed` lists the families.
"""

from validation.printed import main

__all__ = ["main"]
