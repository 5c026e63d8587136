"""A model of the cost of a program on silicon: cycles, exchanged bytes and memory.

The package reads compiled programs and never runs them. Each constant has a source.

Compared with `tiny`, which counts bytes, finds races and has a simple model of time, this package
models time and memory in detail. The cycles of a vertex come from the trace of its codelet. The
model includes the exchange, the copies within a tile that rearrange data for it, the links between
IPUs and to the host, and the peak memory of every tile.

These terms occur in many docstrings of the package:

* A tile has several worker threads (six), which issue instructions in turn. *Worker cycles* count
  the instructions of one worker, and *tile cycles* count the cycles of the tile's clock. A worker
  cycle takes as many tile cycles as a tile has workers (six).
* An *edge* is the connection between a field of a vertex and the tensor elements that the vertex
  reads or writes there.
* The *owner* of a byte is the tile that it is mapped to. A *piece* is a range of bytes that are
  contiguous in memory.
* A *group* of vertices has equal shapes, so that one trace of the codelet describes all of them.
* `Target.sets` lists the *sets*: groups of tiles, each with its own clock. Each IPU is a set. On a
  machine with I/O tiles, each IPU has two sets: its I/O tiles and its other tiles.
"""

from ipu_teach.cost.model import CostModel, Measured, StepCost

__all__ = ["CostModel", "Measured", "StepCost"]
