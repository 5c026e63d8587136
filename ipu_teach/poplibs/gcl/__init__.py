"""Graphcore's communication library, as far as it is here."""

from ipu_teach.poplibs.gcl.io_tiles import (
    get_min_io_tiles as get_min_io_tiles,
    per_ipu_tiles as per_ipu_tiles,
)

__all__ = ["get_min_io_tiles", "per_ipu_tiles"]
