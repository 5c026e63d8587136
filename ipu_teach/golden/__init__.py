"""The published figures that we know, beside what the kit models: `ipu-teach golden`.

A module for each family of figures; `table` puts them together.
"""

from ipu_teach.golden.table import main

__all__ = ["main"]
