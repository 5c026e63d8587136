"""One graph for every front end: operations as data, their gradients, their lowering to PopLibs.

A face builds an `Ir`, and has no rule of any operation:

    graph = ir.Ir()
    x = graph.input((16, 64), "x")                         # what the host feeds, a micro-batch
    y = graph.input((16,), "y", UNSIGNED_INT)
    w = graph.variable(array, "first.weight")              # stays on the device; float32 or float16
    with graph.at(path="first", stage=0):                  # module, IPU; also phase=, line=
        h = graph.op("relu", ir.linear(graph, x, w, b))    # `op`: a row of OPS, by its name
    loss = ir.cross_entropy(graph, h, y)                   # what is made of several: `composed`
    graph.output("loss", loss)                             # comes back by this name

    step, grads = ir.autodiff(graph, loss)                 # transforms: graph in, graph out; the
    step = ir.optimise(step, grads, "adam", rate=1e-3)     # values (`loss`, `w`) stay the same
    run = ir.Run(ir.Lowering(step, device, iterations=4), device)
    run(x=images, y=labels)["loss"]                        # [4]: one for each micro-batch
    run.write("rate", 1e-4)                                # the variable "rate": nothing compiles
    run.read("first.weight"), run.state(), run.restore(state), run.engine.report

* `graph.op(kind, *values, **attributes)` makes one value; `graph.emit` a tuple, of the rows that
  make several ("norm", "cross_entropy") or none, as they change a variable in place ("assign",
  "blend", "adam"). Numbers among the values become constants. What does not fit is a `ModelError`
  with the shapes, the module's path and the learner's line; an operation that is not in the table
  an `UnknownOperationError`, which names the nearest.
* Two dtypes never mix by themselves: `graph.op("cast", x, dtype=HALF)`. Class numbers and indices
  are UNSIGNED_INT; where the host feeds them, `Run` refuses those that are no class.
* A value in an `Op` has a `name`; `Op.name` is `path/kind`, as in `encoder.layer1/matmul`, and
  stands in the program tree, in reports and in pictures.
* Loss scaling: `autodiff(graph, loss, scale=1024)`, and `optimise(…, scale=1024)`.
* `register("leaky", Row(shape, lower, grad))` adds an operation of one's own: see `Row`. Its
  `lower` is given the `Lowering` (`low.graph`, `low.prog`, `low.name`) and tensors.
* An operation draws random numbers by a seed that is its input, `ir.seed(graph)`: a variable "seed"
  that goes on by one with each micro-batch. `ir.dropout` does it all.
* Transforms, each from graph to graph, in this order: `staged` before `autodiff`; `recompute`
  behind it; after `optimise` `accumulate`, `replicate`, `sharded`, `pipelined`, `off_chip`,
  `phased`. Each keeps every value; sums over micro-batches and replicas are rounded elsewhere.
* `save(graph, path)` and `load(path)`: a versioned file of JSON and numbers.
* A run takes `run.micro_batches` batches: iterations times accumulation times replicas, whose
  numbers are `run.factors`. `Run.fed` refuses another shape, with the product spelt out.
* Numpy and the kit are all that it needs.
"""

from __future__ import annotations

from ipu_teach.frontends.ir import composed, rows, rows_nn, transforms
from ipu_teach.frontends.ir.autodiff import STATE, autodiff, optimise
from ipu_teach.frontends.ir.composed import *
from ipu_teach.frontends.ir.lowering import Lowering, Run
from ipu_teach.frontends.ir.rows_nn import turned
from ipu_teach.frontends.ir.saved import load, save
from ipu_teach.frontends.ir.transforms import *
from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Unfit, Value, register

__all__ = [
    *composed.__all__, *transforms.__all__, "OPS", "STATE", "Ir", "Lowering", "Op", "Out", "Row",
    "Run", "Unfit", "Value", "autodiff", "load", "optimise", "register", "rows", "rows_nn", "save",
    "turned",
]  # fmt: skip
