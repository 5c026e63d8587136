"""Lower a graph to PopLibs calls: `Lowering` builds the program, and `Run` executes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ipu_teach._support.interrupts import Interrupts
from ipu_teach.arguments import Count, Natural, Numbers, check, check_calls
from ipu_teach.device import Device
from ipu_teach.errors import IPUTeachError, ModelError, counted, shown
from ipu_teach.frontends.ir.snapshots import with_snapshots
from ipu_teach.frontends.ir.values import (
    BACKWARD,
    CONSTANT,
    FORWARD,
    INPUT,
    MADE,
    OPS,
    UPDATE,
    VARIABLE,
    Ir,
    Op,
    Row,
    Value,
    misuse,
    row_of,
)
from ipu_teach.graph import Graph, RemoteBuffer, Tensor, concat
from ipu_teach.poplibs import popops, poputil
from ipu_teach.poplibs.options import Options
from ipu_teach.program import Copy, Program, Repeat, Sequence as Programs
from ipu_teach.register_steps import set_stochastic_rounding
from ipu_teach.schedules import GROUPED, INTERLEAVED, Stage, pipeline, pipeline_schedule
from ipu_teach.types import UNSIGNED_INT, Array, DType

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Body = list[Op]
Result = TypeVar("Result")


def body_ops(op: Op) -> Body:
    """Return the operations in the body of a scan, or [] for any other operation.

    They get the stage, part, phase and path of the scan.
    """
    body = op.attrs.get("body")
    if not isinstance(body, Ir):
        return []
    return [
        replace(inner, stage=op.stage, part=op.part, phase=op.phase, path=op.path)
        for inner in body.ops
    ]


class Lowering:
    """The program that runs `iterations` steps of a graph, on the Poplar graph `whole`.

    Each stage has a virtual graph, with the tiles of one IPU. A variable gets the tile mapping that
    the first matrix product, convolution or look-up that reads it prefers. `options` are the
    options of matrix products and convolutions.

    The `lower` functions of rows use `call`, `new`, `constant`, `replica`, `tensor_of`, `graph`,
    `prog`, `name`, `op`, `options` and `variable_name`. Raises `ModelError` for a graph that the
    device cannot run, and the errors of the libraries.
    """

    def __init__(
        self,
        ir: Ir,
        target: Device,
        iterations: Count = 1,
        options: Options | None = None,
    ) -> None:
        self.ir = ir = with_snapshots(ir)
        self.iterations = iterations
        self.options = dict(options or {})
        self.whole = Graph(target, ir.replicas)
        popops.add_codelets(self.whole)
        self.tensor: dict[Value, Tensor] = {}
        self.copies: dict[tuple[Value, int], Tensor] = {}  # copies by value and stage
        self.streams: dict[str, Value] = {}  # inputs by the handle of their stream
        self.per_step: set[str] = set()  # outputs that are sent once a step
        self.buffers: dict[Value, RemoteBuffer] = {}
        self._fetched: dict[Value, Tensor] = {}
        self._replica: Tensor | None = None
        self._makers = ir.maker()
        self._homes = {v: op.stage for v, op in self._makers.items()}
        self._readers: dict[Value, list[tuple[Op, int]]] = {}
        for op in ir.ops:
            self._index(op)
        self._check()
        tiles = self.whole.target.tiles_per_ipu
        ipus = self.whole.target.num_ipus
        if ir.stages > ipus:
            raise ModelError(f"""The graph has {ir.stages} stages for each of
                {counted(ir.replicas, "replica")}, but the device has only {counted(ipus, "IPU")}
                for each replica.
                next:  give the device more IPUs: num_ipus={ir.stages * ir.replicas} or more.""")
        self.graphs = [
            self.whole.create_virtual_graph(s * tiles, (s + 1) * tiles) for s in range(ir.stages)
        ]
        self.graph = self.graphs[0]
        self.program = self._program()

    def _index(self, op: Op) -> None:
        """Record which operations read each value, and the stages of variables and results."""
        for place, value in enumerate(op.inputs):
            self._readers.setdefault(value, []).append((op, place))
            if value.kind == VARIABLE:
                self._homes.setdefault(value, op.stage)
        for inner in body_ops(op):
            self._homes.update(dict.fromkeys(inner.outs, op.stage))
            self._index(inner)

    # --- what rows use ---

    def start(self, op: Op) -> None:
        """Make `op` the current operation: later calls use its name and the graph of its stage."""
        self.op = op
        self.name = op.name
        self.graph = self.graphs[op.stage]

    def call(self, function: Callable[..., Result], *operands: object, **options: object) -> Result:
        """Call a library function with the graph and the program, under the operation's name.

        `function` gets the operands between these two, and the `options` by name.
        """
        return function(self.graph, *operands, self.prog, debug_context=self.name, **options)

    def new(self, dtype: type[DType], shape: Sequence[Natural], name: str = "out") -> Tensor:
        """Return a new variable for the current operation, mapped linearly over the tiles."""
        variable = self.graph.add_variable(dtype, tuple(shape), f"{self.name}/{name}")
        poputil.map_tensor_linearly(self.graph, variable)
        return variable

    def constant(self, dtype: type[DType], shape: Sequence[Natural], value: Numbers) -> Tensor:
        """Return a new constant, mapped linearly over the tiles."""
        constant = self.graph.add_constant(dtype, tuple(shape), value, f"{self.name}/constant")
        poputil.map_tensor_linearly(self.graph, constant)
        return constant

    def replica(self) -> Tensor:
        """Return the number of the replica as a tensor, UNSIGNED_INT[1]."""
        if self._replica is None:
            self._replica = self.whole.add_replication_index_constant()
            self.whole.set_tile_mapping(self._replica, 0)
        return self._replica.reshape((1,))

    def tensor_of(self, value: Value) -> Tensor | None:
        """Return the tensor of `value` at this point of the program, or None if it has none yet."""
        return self._fetched.get(value, self.tensor.get(value))

    # --- the program ---

    def _check(self) -> None:
        """Raise `ModelError` for a graph that the device cannot run.

        Such a graph has a tensor that is larger than the memory of an IPU, or a variable that one
        stage changes with each micro-batch while another stage reads it.
        """
        target = self.whole.target
        ipu_bytes = target.tiles_per_ipu * target.bytes_per_tile
        for op in self.ir.ops:
            row = row_of(op.kind, op.where)
            size = 0 if row.view else max((v.size * v.dtype.size for v in op.outs), default=0)
            if size > ipu_bytes:
                raise op.error(
                    f"{op.kind} makes a tensor of {size:,} bytes, but an IPU of the device has "
                    f"{ipu_bytes:,}.",
                    "make the tensor smaller, or give the device more tiles.",
                )
            if not OPS[op.kind].in_place or op.part == UPDATE:
                continue
            if op.inputs[0].remote:
                self._check_stored(op)
                continue
            home = self._homes[op.inputs[0]]
            far = [o for o, _ in self._readers[op.inputs[0]] if o.stage != home]
            if far or op.stage != home:
                remote_op = far[0] if far else op
                raise remote_op.error(
                    f"{op.inputs[0].name!r} is in stage {home} and changes with each "
                    f"micro-batch; the copy in stage {remote_op.stage} would not change.",
                    f"read it in stage {home} only.",
                )

    def _check_stored(self, op: Op) -> None:
        """Raise `ModelError` if a remote variable changes while another micro-batch uses it.

        This is possible in a pipeline whose stages run different micro-batches at the same time.
        `op` is the operation that changes the variable.
        """
        for reader, _ in self._readers[op.inputs[0]]:
            is_same_section = (reader.stage, reader.part) == (op.stage, op.part)
            if self.ir.schedule in (GROUPED, INTERLEAVED) and not is_same_section:
                raise reader.error(
                    f"{op.inputs[0].name!r} in streaming memory changes with each micro-batch in "
                    f"stage {op.stage} ({op.part}); stage {reader.stage} ({reader.part}) would "
                    "read the value of another micro-batch.",
                    "use the schedule 'sequential', or a pipeline without phases.",
                )

    def _program(self) -> Program:
        """Return the complete program: `iterations` steps of micro-batches and one update each."""
        ir = self.ir
        body = [op for op in ir.ops if op.part != UPDATE]
        update = [op for op in ir.ops if op.part == UPDATE]
        self.copies_program = Programs(name="copies")
        if self.options.pop("stochasticRounding", False):
            set_stochastic_rounding(self.whole, self.copies_program, True)
        if ir.schedule:
            micro_batches: Program = _Pipeline(self, body).program()
        else:
            micro_batch = Programs(name="micro-batch")
            self._lower(body, micro_batch)
            self._send(lambda v: self._part(v) != UPDATE, micro_batch)
            is_single = ir.accumulation == 1
            micro_batches = micro_batch if is_single else Repeat(ir.accumulation, micro_batch)
        last = Programs(name="update")
        self._lower(update, last)
        self._send(lambda v: self._part(v) == UPDATE, last)
        self.per_step = {n for n, v in ir.outputs.items() if self._part(v) == UPDATE}
        step = Programs(self.copies_program, micro_batches, last, name="step")
        for value in ir.variables.values():  # add the variables that no operation reads
            if value not in self.tensor and value not in self.buffers:
                self._variable(value, 0)
        return step if self.iterations == 1 else Repeat(self.iterations, step)

    def _part(self, value: Value) -> str:
        """Return the part of the operation that produces `value`, by default "forward"."""
        maker = self._makers.get(value)
        return maker.part if maker else FORWARD

    def _lower(self, ops: Iterable[Op], into: Programs) -> None:
        """Add `ops` to the program `into`, in one Sequence per module, named after its path."""
        self.feeds = Programs(name="inputs")
        into.add(self.feeds)
        section: tuple[str, int, int] | None = None
        for path, module_ops in groupby(ops, lambda op: op.path):
            self.prog = Programs(name=path)
            into.add(self.prog)
            for op in module_ops:
                op_section = (op.part, op.phase, op.stage)
                if op_section != section or op.part == UPDATE:
                    self._fetched.clear()  # each section fetches remote variables again
                section = op_section
                self.lower_op(op)

    def lower_op(self, op: Op) -> None:
        """Add an operation to the program.

        Raises `ModelError` if its row cannot lower it, or returns tensors of other shapes than
        declared.
        """
        row = OPS[op.kind]
        self.start(op)
        if op.kind == "assign" and op.inputs[0].remote:
            self._store(op.inputs[0], self.get(op.inputs[1], op, 1))
            self._fetched.pop(op.inputs[0], None)  # later readers fetch the new value
            return
        operands = [self._operand(op, row, place) for place in range(len(op.inputs))]
        try:
            result = row.lower(self, *operands, **op.attrs)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            if isinstance(error, IPUTeachError):
                raise
            raise op.error(
                f"{op.kind} cannot be lowered with these tensors and attributes: {error}.",
                "see its row in the table of operations for what it takes.",
            ) from error
        tensors = result if isinstance(result, (list, tuple)) else [result]
        for value, tensor in zip(op.outs, tensors, strict=False):
            if not isinstance(tensor, Tensor) or tensor.shape != value.shape:
                raise op.error(
                    f"{op.kind} returns {value!r} by its row's shape, but its row's lower returned "
                    f"{shown(tensor)}.",
                    "return a tensor of the shape that the row's shape gives, or a list of them.",
                )
            self.tensor[value] = tensor
        if row.in_place:
            for value in op.inputs:
                if value in self._fetched:
                    self._store(value, self._fetched[value])

    def _operand(self, op: Op, row: Row, place: int) -> Tensor | float:
        """Return the tensor of an input of `op`, or its number if the row accepts one.

        A number is only possible if another input has the same dtype and the shape of the result.
        """
        value = op.inputs[place]
        if row.numbers and value.number is not None:
            beside = (v for v in op.inputs if v.number is None and v.dtype is value.dtype)
            if any(v.shape == op.outs[0].shape for v in beside):
                return value.number
        return self.get(value, op, place)

    def get(self, value: Value, op: Op, place: int) -> Tensor:
        """Return the tensor of `value` in the stage of `op`, which reads it as input `place`.

        If the stage has no such tensor yet, this adds a variable, constant, stream or copy. Raises
        `ModelError` if no earlier operation produces the value.
        """
        key = value, op.stage
        if key in self.copies:
            return self.copies[key]
        if value.kind == CONSTANT:
            self.copies[key] = self.constant(value.dtype, value.shape, value.initial)
            return self.copies[key]
        if value.kind == INPUT:
            self.copies[key] = self._input(value, op.stage)
            return self.copies[key]
        if value.remote:
            return self._from_remote(value, op)
        if value not in self.tensor:
            if value.kind == MADE:
                raise op.error(
                    f"{op.kind} reads {value.name!r}, which no earlier operation makes.",
                    "use values of this graph, and compute them before they are read.",
                )
            self._variable(value, self._homes[value])
        if self._homes[value] == op.stage:
            return self.tensor[value]
        program = self.copies_program if value.kind == VARIABLE else self.prog
        copied = poputil.copy_to_ipu(
            self.whole,
            self.tensor[value],
            op.stage,
            program,
            debug_context=f"{value.name}/copy",
        )
        self.copies[key] = copied
        return copied

    # --- variables, inputs, outputs ---

    def preferred(self, value: Value, stage: int, seen_as: Value | None = None) -> Tensor | None:
        """Return a new tensor with the tile mapping that a reader of `value` prefers, or None.

        The first reader in this stage that has a preference decides. Readers of reshapes and
        permutations of the value count too; `seen_as` is such a view in a recursive call.
        """
        view = value if seen_as is None else seen_as
        for op, place in self._readers.get(view, ()):
            if op.stage != stage:
                continue
            row = OPS[op.kind]
            tensor: Tensor | None = row.lays(self, op, place) if row.lays else None
            if tensor is None and op.kind in ("reshape", "permute"):
                tensor = self.preferred(value, stage, op.outs[0])
                if tensor is not None and op.kind == "permute":
                    tensor = tensor.dim_shuffle([int(d) for d in np.argsort(op.attrs["dims"])])
            if tensor is not None:
                return tensor.reshape(view.shape)
        return None

    def new_for(self, value: Value, stage: int) -> Tensor:
        """Return a new variable for `value` in a stage, with the preferred or a linear mapping."""
        graph_before = self.graph
        self.graph = self.graphs[stage]
        self.variable_name = value.name
        variable = self.preferred(value, stage)
        if variable is None:
            variable = self.graph.add_variable(value.dtype, value.shape, value.name)
            poputil.map_tensor_linearly(self.graph, variable)
        self.graph = graph_before
        return variable

    def _variable(self, value: Value, stage: int) -> None:
        """Add a variable with its initial value, which the host can read and write."""
        variable = self.tensor[value] = self.new_for(value, stage)
        assert value.initial is not None, "a variable has one"
        self.whole.set_initial_value(variable, value.initial)
        self.whole.create_host_read(value.name, variable)
        self.whole.create_host_write(f"write {value.name}", variable)

    def _from_remote(self, value: Value, op: Op) -> Tensor:
        """Return a variable on the tiles, filled from streaming memory once per section."""
        if value not in self._fetched:
            variable = self._fetched[value] = self.new_for(value, op.stage)
            self.prog.add(Copy(self._buffer(value), variable.flatten()))
        return self._fetched[value]

    def _store(self, value: Value, tensor: Tensor) -> None:
        """Add a copy of `tensor` to the remote buffer of `value`."""
        self.prog.add(Copy(tensor.flatten(), self._buffer(value)))

    def _buffer(self, value: Value) -> RemoteBuffer:
        """Return the remote buffer of a variable; the first call adds it to the graph."""
        if value not in self.buffers:
            self.buffers[value] = self.whole.add_remote_buffer(value.name, value.dtype, value.size)
        return self.buffers[value]

    def _input(self, value: Value, stage: int) -> Tensor:
        """Return a variable for an input, which a stream from the host fills.

        Each stage that reads the input has its own stream, with the same data.
        """
        if not value.size:
            return self.new_for(value, stage)
        handle = value.name if value.name not in self.streams else f"{value.name} {stage}"
        self.streams[handle] = value
        stream = self.whole.add_host_to_device_fifo(handle, value.dtype, value.size)
        variable = self.new_for(value, stage)
        self.feeds.add(Copy(stream, variable.flatten()))
        return variable

    def _send(self, is_sent: Callable[[Value], bool], into: Programs) -> None:
        """Add a copy to the host for each output for which `is_sent` is true."""
        for name, value in self.ir.outputs.items():
            if value.size and is_sent(value):
                stage = self._homes.get(value, 0)
                op = Op("output", (value,), outs=(), attrs={}, stage=stage)
                self.start(op)
                self.prog = Programs(name="outputs")
                tensor = self.get(value, op, 0)
                stream = self.whole.add_device_to_host_fifo(
                    f"output {name}", value.dtype, value.size
                )
                into.add(self.prog.add(Copy(tensor.flatten(), stream)))


class _Pipeline:
    """The pipeline of a lowering: the operations `body` run in stages, each on its own IPU."""

    def __init__(self, low: Lowering, body: Body) -> None:
        self.low = low
        self.body = body

    def program(self) -> Program:
        """Return the program of the pipeline, in which stages work on different micro-batches."""
        ir = self.low.ir
        stages = ir.stages
        is_training = any(op.part == BACKWARD for op in self.body)
        crossing = [self._crossing(s, FORWARD) for s in range(stages)]
        grad_crossing = [self._crossing(s, BACKWARD) for s in range(stages)]
        forwards = []
        backwards = []
        into: list[Tensor | None] = [None] * stages
        out: list[Tensor | None] = [None] * stages
        grad_into: list[Tensor | None] = [None] * stages
        grad_out: list[Tensor | None] = [None] * stages
        for s in range(stages):
            if s and crossing[s - 1]:
                into[s] = self._arrive(crossing[s - 1], s)
            forwards.append(self._stage_program(s, FORWARD))
            out[s] = self._packed([self._at(v, s) for v in crossing[s]], crossing[s])
        for s in reversed(range(stages)):
            if s + 1 < stages and grad_crossing[s + 1]:
                grad_out[s] = self._arrive(grad_crossing[s + 1], s)
            backwards.append(self._stage_program(s, BACKWARD))
            grad_into[s] = self._packed(
                [self._at(v, s) for v in grad_crossing[s]], grad_crossing[s]
            )
        backwards.reverse()
        pipeline_stages = []
        for s in range(stages):
            stage = Stage(forwards[s], into[s], out[s])
            has_backward = any(op.part == BACKWARD and op.stage == s for op in self.body)
            if has_backward or grad_out[s] is not None:
                stage = replace(
                    stage,
                    backward=backwards[s],
                    keep=self._kept(s, into[s]),
                    grad_out=grad_out[s],
                    grad_into=grad_into[s],
                )
            pipeline_stages.append(stage)
        ticks = pipeline_schedule(stages, ir.accumulation, ir.schedule, is_training)
        return pipeline(self.low.whole, pipeline_stages, ticks)

    def _stage_program(self, stage: int, part: str) -> Programs:
        """Return the forward or the backward pass of a stage, with its outputs to the host."""
        program = Programs(name=f"stage {stage} {part}")
        ops = [op for op in self.body if op.part == part and op.stage == stage]
        self.low._lower(ops, program)
        self.low._send(partial(self._is_made_in, stage, part), program)
        return program

    def _is_made_in(self, stage: int, part: str, value: Value) -> bool:
        """Return whether an operation of this part and stage produces `value`."""
        return self.low._homes.get(value, 0) == stage and self.low._part(value) == part

    def _crossing(self, stage: int, part: str) -> list[Value]:
        """Return the values that stage `stage` sends to its neighbour.

        In the forward pass, these are results of this stage and earlier ones that a later stage
        reads; they are sent to stage + 1. In the backward pass, they are gradients, sent to stage -
        1. Raises `ModelError` if a stage reads a value against the direction of the pipeline.
        """
        sign = 1 if part == FORWARD else -1
        values: dict[Value, None] = {}
        for op in self.body:
            for value in op.inputs:
                maker = self.low._makers.get(value)
                if maker is None or maker.part != part:
                    continue
                if maker.stage * sign <= stage * sign < op.stage * sign:
                    values[value] = None
                elif op.stage != maker.stage and op.stage * sign < maker.stage * sign:
                    raise op.error(
                        f"Stage {op.stage} reads {value.name!r} of stage {maker.stage}, against "
                        "the direction of the pipeline.",
                        "number the stages in the order in which they run.",
                    )
        return list(values)

    def _at(self, value: Value, stage: int) -> Tensor:
        """Return the tensor of `value` in a stage: the copy there, if the stage has one."""
        copy = self.low.copies.get((value, stage))
        return self.low.tensor[value] if copy is None else copy

    def _arrive(self, values: list[Value], stage: int) -> Tensor | None:
        """Add a variable in a stage for each value that it receives, and return them packed.

        The result is one flat tensor, as from `_packed`.
        """
        for value in values:
            self.low.copies[value, stage] = poputil.clone_to_ipu(
                self.low.whole, self.low.tensor[value], stage, f"{value.name}/arrived"
            )
        return self._packed([self.low.copies[v, stage] for v in values], values)

    def _packed(self, tensors: list[Tensor], values: list[Value]) -> Tensor | None:
        """Return `tensors`, those of `values`, as one flat tensor; None if there are none.

        Raises `ModelError` if the dtypes have different sizes.
        """
        if not tensors:
            return None
        flat = [t.flatten() for t in tensors]
        if len({t.dtype for t in flat}) > 1:
            if {t.dtype.size for t in flat} != {4}:
                names = ", ".join(map(repr, values))
                raise ModelError(f"""{names} cross from one stage to another, but their dtypes have
                    different sizes.
                    next:  end the stage elsewhere, or cast them to one dtype before its end.""")
            flat = [t.reinterpret(UNSIGNED_INT) for t in flat]
        return concat(flat) if len(flat) > 1 else flat[0]

    def _kept(self, stage: int, into: Tensor | None) -> list[Tensor]:
        """Return the tensors of a stage's forward pass that its backward pass reads.

        A view is replaced by the tensor that it is a view of. Values of earlier stages are parts of
        `into`, the tensor that the stage receives, which is returned instead of them.
        """
        saved: dict[Value, None] = {}

        def add(value: Value) -> None:
            """Add a value to `saved`; a view is replaced by its sources in the same stage."""
            maker = self.low._makers.get(value)
            if maker is not None and maker.stage == stage and OPS[maker.kind].view:
                for source in maker.inputs:
                    add(source)
            elif value.kind == INPUT or (maker is not None and maker.part == FORWARD):
                saved[value] = None

        for op in self.body:
            if op.part == BACKWARD and op.stage == stage:
                for value in op.inputs:
                    maker = self.low._makers.get(value)
                    if value.kind == INPUT or (maker and maker.part == FORWARD):
                        add(value)
        received = [v for v in saved if v.kind == MADE and self.low._homes[v] != stage]
        local = [self._at(v, stage) for v in saved if v not in received]
        return ([into] if received and into is not None else []) + local


class Run:
    """A lowered graph on a device, which can run, and whose variables the host can read and write.

    `run(name=array, …)` takes arrays of the shape [micro-batches, …], or with all batches
    concatenated along the first dimension. It returns an array for each output: [micro-batches, …],
    or [steps * replicas, …] for an output of the update. Micro-batches are ordered by step, then by
    accumulation, then by replica.
    """

    def __init__(
        self, low: Lowering, device: Device, options: Mapping[str, Any] | None = None
    ) -> None:
        from ipu_teach.engine import Engine

        self.low = low
        self.ir = low.ir
        self.engine = Engine(low.whole, low.program, dict(options or {}))
        self.engine.load(device)
        for value in low.buffers:
            shape = (self.ir.replicas, *value.shape) if value.sharded else value.shape
            self.write(value.name, np.broadcast_to(np.asarray(value.initial), shape))
        if "seed" in self.ir.variables:
            self.write("seed", self.ir.variables["seed"].initial)

    @property
    def factors(self) -> dict[str, int]:
        """The micro-batches of a run, as factors: the steps, the accumulation and the replicas."""
        ir = self.ir
        return {
            "steps": self.low.iterations,
            "accumulation": ir.accumulation,
            "replicas": ir.replicas,
        }

    @property
    def micro_batches(self) -> int:
        """The number of micro-batches in a run: the product of `factors`."""
        return int(np.prod(list(self.factors.values())))

    def fed(self, value: Value, numbers: ArrayLike) -> Array:
        """Return the host's data for an input as a flat array of its dtype, for the stream.

        Raises `ModelError` for another shape, for floats where the input has integers, and for
        integers out of its range.
        """
        array = np.asarray(numbers)
        n = self.micro_batches
        shape = value.shape
        combined = (n * shape[0], *shape[1:]) if shape else (n,)
        if array.shape not in (combined, (n, *shape)):
            product = " * ".join(f"{k} {v}" for k, v in self.factors.items())
            batch = f" * batch {shape[0]}" if shape else ""
            raise ModelError(f"""{value.name!r} was fed {list(array.shape)}, but a run takes
                {list(combined)}: {product}{batch}.
                next:  feed all micro-batches of a run, concatenated along the first dimension.""")
        if np.dtype(value.dtype.numpy).kind in "iu":
            if array.dtype.kind not in "iu":
                raise ModelError(f"""{value.name!r} was fed {array.dtype}, but takes integers.
                    next:  give an integer array.""")
            array = self._checked_integers(value, array)
        return np.ascontiguousarray(array.reshape((n, *shape)), value.dtype.numpy).reshape(-1)

    def _checked_integers(self, value: Value, array: Array) -> Array:
        """Return the integers of an input as int64.

        The label that a loss ignores becomes the device's code for such labels. Raises `ModelError`
        for integers out of range.
        """
        wide = array.astype(np.int64)
        relevant = wide if value.ignored is None else wide[wide != value.ignored]
        info = np.iinfo(value.dtype.numpy)
        advice = "integers of the device have 32 bits: give smaller ones, or floats."
        lowest = int(info.min)
        highest = int(info.max)
        if value.below is not None:
            lowest = 0
            highest = value.below - 1
            advice = (
                "number the classes from 0; a loss without weights and smoothing leaves out rows "
                "whose label is its ignored number."
            )
            if value.from_end:
                lowest = -value.below
                advice = f"give indices into {value.below:,} elements; those from the end count "
                advice += "from -1."
        if relevant.size and not lowest <= relevant.min() <= relevant.max() <= highest:
            wrong = relevant[(relevant < lowest) | (relevant > highest)][0]
            raise ModelError(
                f"{value.name!r} was fed the number {wrong}, but takes {lowest:,} to {highest:,}.",
                next_step=advice,
            )
        if value.ignored is not None and value.dtype is UNSIGNED_INT:
            wide = np.where(wide == value.ignored, popops.MASKED_LABEL_CODE, wide)
        return wide

    def __call__(self, **fed: ArrayLike) -> dict[str, Array]:
        """Run the program once, and return the outputs by name.

        Raises `ModelError` for missing and unknown inputs, and for arrays that do not fit.
        """
        for name, numbers in fed.items():
            check("a run", name, numbers, Numbers, refuse=misuse)
        streamed = {value.name for value in self.low.streams.values()}
        if streamed - set(fed) or set(fed) - set(self.ir.inputs):
            inputs = ", ".join(self.ir.inputs) or "nothing"
            raise ModelError(f"""A run was fed {", ".join(fed) or "nothing"}, but takes {inputs}.
                next:  feed {inputs}.""")
        arrays = {n: self.fed(self.ir.inputs[n], numbers) for n, numbers in fed.items()}
        for handle, value in self.low.streams.items():
            self.engine.connect_stream(handle, arrays[value.name])
        outs = {}
        for name, value in self.ir.outputs.items():
            count = self.micro_batches
            if name in self.low.per_step:
                count = self.low.iterations * self.ir.replicas
            outs[name] = np.empty((count, *value.shape), value.dtype.numpy)
            if value.size:
                self.engine.connect_stream(f"output {name}", outs[name].reshape(-1))
        with Interrupts():  # Ctrl-C waits for the end of the run, so that all steps are complete
            self.engine.run()
        return outs

    def _named(self, name: str) -> Value:
        """Return the variable or input with this name."""
        from ipu_teach.frontends.ir.values import named_value

        return named_value(self.ir, name)

    def read(self, name: str) -> Array:
        """Return the value of a variable, as it is in the first replica.

        For a sharded variable, return the shares of all replicas: [replicas, …].
        """
        value = self._named(name)
        replicas = self.ir.replicas
        if value in self.low.buffers:
            rows = [self.engine.copy_from_remote_buffer(name, replica=r) for r in range(replicas)]
            array = np.asarray(rows)
        else:
            array = np.array(self.engine.read_tensor(name))
        array = array.reshape((replicas, *value.shape))
        return array if value.sharded else array[0]

    def write(self, name: str, array: Numbers) -> None:
        """Set a variable in all replicas. Raises `ModelError` for an array of another shape.

        The variable "seed" is increased by the number of the replica, so that each replica draws
        different random numbers.
        """
        value = self._named(name)
        replicas = self.ir.replicas
        numbers = np.asarray(array, value.dtype.numpy)
        shape = (replicas, *value.shape) if value.sharded else value.shape
        if numbers.shape != shape:
            raise ModelError(f"""{name!r} was given {list(numbers.shape)}, but is {list(shape)}.
                next:  give an array of its shape.""")
        by_replica = np.array(np.broadcast_to(numbers, (replicas, *value.shape)))
        if name == "seed":
            by_replica[:, 1] += np.arange(replicas, dtype=np.uint32)
        if value not in self.low.buffers:
            self.engine.write_tensor(f"write {name}", by_replica if replicas > 1 else by_replica[0])
            return
        for replica, row in enumerate(by_replica.reshape(replicas, -1)):
            self.engine.copy_to_remote_buffer(row, name, replica=replica)

    def state(self) -> dict[str, Array]:
        """Return all variables by name: parameters, optimiser state, running statistics, the seed.

        Variables that each run writes before it reads them are left out.
        """
        first_reader: dict[Value, str] = {}
        for op in self.ir.ops:
            for value in op.inputs:
                first_reader.setdefault(value, op.kind)
        variables = self.ir.variables.items()
        return {name: self.read(name) for name, v in variables if first_reader.get(v) != "assign"}

    def restore(self, state: Mapping[str, Numbers]) -> None:
        """Set the variables to values from `state`, so that training continues with equal bits."""
        for name, array in state.items():
            self.write(name, array)


check_calls(globals(), misuse, without=("body_ops",))
