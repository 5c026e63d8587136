"""The graph that all front ends use: a model as data, its gradients and its translation to PopLibs.

- A graph (`Ir`) contains operations (`Op`) in execution order. Their inputs and results are values
  (`Value`): tensors with a shape and a dtype, but without elements.
- The table `OPS` contains a definition (`Row`) for each kind of operation, such as "matmul".
- A transform takes a graph and returns another graph, for example with a backward pass.
- `Lowering` translates a graph into a program of PopLibs calls, and `Run` executes the program.

A front end builds an `Ir`. It contains no rules for operations:

    graph = ir.Ir()
    x = graph.input((16, 64), "x")                         # one micro-batch from the host
    y = graph.input((16,), "y", UNSIGNED_INT)
    w = graph.variable(array, "first.weight")              # stays on the device; float32 or float16
    with graph.at(path="first", stage=0):                  # module, IPU; also phase=, line=
        h = graph.op("relu", ir.linear(graph, x, w, b))    # `op` adds an operation of `OPS`
    loss = ir.cross_entropy(graph, h, y)                   # several operations: see `composed`
    graph.output("loss", loss)                             # a run returns it under this name

    step, grads = ir.autodiff(graph, loss)                 # transforms: `loss` and `w` are also
    step = ir.optimise(step, grads, "adam", rate=1e-3)     # values of the new graphs
    run = ir.Run(ir.Lowering(step, device, iterations=4), device)
    run(x=images, y=labels)["loss"]                        # [4]: one loss per micro-batch
    run.write("rate", 1e-4)                                # changes a variable without compiling
    run.read("first.weight"), run.state(), run.restore(state), run.engine.report

* `graph.op(kind, *values, **attributes)` adds an operation and returns its first result.
  `graph.emit` returns a tuple of all results. Some kinds have several results ("norm",
  "cross_entropy"). Kinds that change a variable in place ("assign", "blend", "adam") have none.
  Numbers among the inputs become constants.
* Unsuitable inputs raise a `ModelError`, which names the shapes, the module's path and the line of
  the user's code. An unknown kind raises an `UnknownOperationError`, which names the most similar
  kind.
* Dtypes are never converted implicitly: use `graph.op("cast", x, dtype=HALF)`. Class numbers and
  indices are UNSIGNED_INT. `Run` checks the range of those that come from the host.
* Each value has a `name`. The name of an operation, `Op.name`, is `path/kind`, such as
  `encoder.layer1/matmul`. It appears in the program tree, in reports and in pictures.
* To scale the loss, use `autodiff(graph, loss, scale=1024)` and `optimise(…, scale=1024)`.
* `register("leaky", Row(shape, lower, grad))` adds an operation of your own: see `Row`. The
  function `lower` gets the `Lowering` (`low.graph`, `low.prog` and `low.name`) and the input
  tensors.
* An operation that draws random numbers needs the seed, `ir.seed(graph)`, as an input. The seed is
  a copy of the variable "seed", which increases by one with each micro-batch. `ir.dropout` adds
  this input for you.
* Call `staged` before `autodiff`, and `recompute` after it. After `optimise`, call `accumulate`,
  `replicate`, `sharded`, `pipelined`, `off_chip` and `phased`, in this order. These transforms do
  not change any result, except that sums over micro-batches and replicas are rounded differently.
* `estimate(step, device)` returns the modelled cycles and memory of a step, without building it.
* `save(graph, path)` and `load(path)` use a versioned file format of JSON and arrays.
* A run takes exactly `run.micro_batches` micro-batches. This number is steps times accumulation
  times replicas (`run.factors`), and any other number raises an error that shows the product.
* The package needs only numpy and the rest of `ipu_teach`.
"""

from __future__ import annotations

from ipu_teach.frontends.ir import composed, indices, rows, rows_lstm, rows_nn, transforms
from ipu_teach.frontends.ir.autodiff import STATE, autodiff, optimise
from ipu_teach.frontends.ir.composed import *
from ipu_teach.frontends.ir.estimating import estimate
from ipu_teach.frontends.ir.lowering import Lowering, Run
from ipu_teach.frontends.ir.rows_nn import turned
from ipu_teach.frontends.ir.saved import load, save
from ipu_teach.frontends.ir.transforms import *
from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Unfit, Value, register

__all__ = [
    *composed.__all__, *transforms.__all__, "OPS", "STATE", "Ir", "Lowering", "Op", "Out", "Row",
    "Run", "Unfit", "Value", "autodiff", "estimate", "indices", "load", "optimise", "register",
    "rows", "rows_lstm", "rows_nn", "save", "turned",
]  # fmt: skip
