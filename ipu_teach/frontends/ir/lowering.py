"""Translate a graph into a program of PopLibs calls (`Lowering`), and run the program (`Run`)."""

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
from ipu_teach.frontends.ir.indices import parts_of_inputs
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
    named_variable,
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

    The returned operations are copies with the stage, part, phase and path of the scan.
    """
    body = op.attrs.get("body")
    if not isinstance(body, Ir):
        return []
    return [
        replace(inner, stage=op.stage, part=op.part, phase=op.phase, path=op.path)
        for inner in body.ops
    ]


class Lowering:
    """The program that runs `iterations` steps of a graph `ir`.

    The program belongs to the Poplar graph `whole`. Each stage of the model uses a virtual graph
    with the tiles of one IPU. A variable or an input gets the tile mapping that one of its readers
    prefers, such as a matrix product, a convolution or a look-up. If several readers have a
    preference, the first of them decides. Without a preference, the mapping is linear. `options`
    are the PopLibs options of matrix products and convolutions, and "stochasticRounding".

    The table `OPS` contains a `Row` for each kind of operation, whose function `lower` adds the
    PopLibs calls. This function may use `call`, `new`, `constant`, `replica`, `tensor_of`, `graph`,
    `prog`, `name`, `op`, `options` and `variable_name` of the `Lowering`.

    :raises ModelError: if the device cannot run the graph. Errors of PopLibs functions are not
        caught.
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
        self.copies: dict[tuple[Value, int], Tensor] = {}  # The tensor of each value in each stage.
        # Maps the handle of each stream to the input that the stream fills.
        self.streams: dict[str, Value] = {}
        self.per_step: set[str] = set()  # The names of the outputs that are sent once per step.
        self.buffers: dict[Value, RemoteBuffer] = {}
        self._fetched: dict[Value, Tensor] = {}
        self._replica: Tensor | None = None
        self._makers = ir.maker()
        self._homes = {value: op.stage for value, op in self._makers.items()}
        # Maps each value that is read to its readers: (operation, input number) pairs. An output
        # of the graph counts as read, even if it has no readers.
        self._readers: dict[Value, list[tuple[Op, int]]] = {v: [] for v in ir.outputs.values()}
        # Variables that a function `lays` has created in advance. It was called for one input of
        # an operation, and also created these variables for other inputs of the operation.
        self.prepared: dict[tuple[Op, int], Tensor] = {}
        for op in ir.ops:
            self._index(op)
        self._check()
        tiles_per_stage = self.whole.target.tiles_per_ipu
        num_ipus = self.whole.target.num_ipus
        if ir.stages > num_ipus:
            raise ModelError(f"""The graph has {ir.stages} stages, so each replica needs {ir.stages}
                IPUs, but the device has only {counted(num_ipus, "IPU")} for each of
                {counted(ir.replicas, "replica")}.
                next:  use a device with {ir.stages * ir.replicas} IPUs:
                IPUModel("ipu2", num_ipus={ir.stages * ir.replicas}).""")
        self.graphs = [
            self.whole.create_virtual_graph(stage * tiles_per_stage, (stage + 1) * tiles_per_stage)
            for stage in range(ir.stages)
        ]
        self.graph = self.graphs[0]
        self.program = self._program()

    def _index(self, op: Op) -> None:
        """Record `op` as a reader of its inputs, and record the stages of variables and results.

        - `_readers` maps a value to a list of `(operation, input number)`.
        - `_homes` maps a variable to the stage of its first reader. It maps a result in the body of
          a scan to the stage of the scan.
        """
        for input_number, value in enumerate(op.inputs):
            self._readers.setdefault(value, []).append((op, input_number))
            if value.kind == VARIABLE:
                self._homes.setdefault(value, op.stage)
        body = op.attrs.get("body")
        for value in body.outputs.values() if isinstance(body, Ir) else ():
            self._readers.setdefault(value, [])
        for body_op in body_ops(op):
            self._homes.update(dict.fromkeys(body_op.outs, op.stage))
            self._index(body_op)

    # --- functions for `Row.lower` ---

    def start(self, op: Op) -> None:
        """Make `op` the current operation: later calls use its name and the graph of its stage."""
        self.op = op
        self.name = op.name
        self.graph = self.graphs[op.stage]

    def call(self, function: Callable[..., Result], *operands: object, **options: object) -> Result:
        """Call a PopLibs function for the current operation, and return its result.

        The call is `function(graph, *operands, prog, debug_context=name of the operation,
        **options)`. `graph` and `prog` belong to the current operation.
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
        """Return an UNSIGNED_INT[1] tensor that contains the number of the replica."""
        if self._replica is None:
            self._replica = self.whole.add_replication_index_constant()
            self.whole.set_tile_mapping(self._replica, 0)
        return self._replica.reshape((1,))

    def is_read(self, value: Value) -> bool:
        """Return whether `value` is an output, or whether an operation reads it."""
        return value in self._readers

    def tensor_of(self, value: Value) -> Tensor | None:
        """Return the tensor of `value` in the program, or None if it has no tensor yet.

        The tensor of a remote variable is its current copy on the tiles.
        """
        return self._fetched.get(value, self.tensor.get(value))

    # --- the program ---

    def _check(self) -> None:
        """Raise `ModelError` if the device cannot run the graph.

        There are three cases:

        - The result of an operation other than a view is larger than the memory of an IPU.
        - One stage changes a variable with each micro-batch, and another stage uses the variable.
        - In a pipeline, a variable in streaming memory changes while another micro-batch uses it.
        """
        target = self.whole.target
        ipu_bytes = target.tiles_per_ipu * target.bytes_per_tile
        for op in self.ir.ops:
            row = row_of(op.kind, op.where)
            largest_bytes = (
                0
                if row.view
                else max((result.size * result.dtype.size for result in op.outs), default=0)
            )
            if largest_bytes > ipu_bytes:
                raise op.error(
                    f"The result of {op.kind} has {largest_bytes:,} bytes, but an IPU of the "
                    f"device has a memory of only {ipu_bytes:,} bytes.",
                    "use a smaller batch or a smaller tensor, or a device with more tiles.",
                )
            if not OPS[op.kind].in_place or op.part == UPDATE:
                continue
            if op.inputs[0].remote:
                self._check_stored(op)
                continue
            home = self._homes[op.inputs[0]]
            remote_readers = [
                reader for reader, _ in self._readers[op.inputs[0]] if reader.stage != home
            ]
            if remote_readers or op.stage != home:
                remote_op = remote_readers[0] if remote_readers else op
                raise remote_op.error(
                    f"Stage {remote_op.stage} uses the variable {op.inputs[0].name!r}. This "
                    f"variable is in stage {home}, and changes with each micro-batch, "
                    f"so its copy in stage {remote_op.stage} would be out of date.",
                    f"use the variable only in stage {home}.",
                )

    def _check_stored(self, op: Op) -> None:
        """Raise `ModelError` if a remote variable changes while another micro-batch uses it.

        This is possible in a pipeline whose stages work on different micro-batches at the same
        time. `op` is the operation that changes the variable.
        """
        for reader, _ in self._readers[op.inputs[0]]:
            is_same_section = (reader.stage, reader.part) == (op.stage, op.part)
            if self.ir.schedule in (GROUPED, INTERLEAVED) and not is_same_section:
                raise reader.error(
                    f"The {op.part} pass of stage {op.stage} changes the variable "
                    f"{op.inputs[0].name!r} in streaming memory with each micro-batch, so the "
                    f"{reader.part} pass of stage {reader.stage} would read the value of another "
                    "micro-batch.",
                    "use the schedule 'sequential', or a pipeline without phases.",
                )

    def _program(self) -> Program:
        """Return the complete program: `iterations` steps of micro-batches and an update."""
        ir = self.ir
        micro_batch_ops = [op for op in ir.ops if op.part != UPDATE]
        update_ops = [op for op in ir.ops if op.part == UPDATE]
        self.copies_program = Programs(name="copies")
        if self.options.pop("stochasticRounding", False):
            set_stochastic_rounding(self.whole, self.copies_program, True)
        if ir.schedule:
            micro_batches: Program = _Pipeline(self, micro_batch_ops).program()
        else:
            micro_batch = Programs(name="micro-batch")
            self._lower(micro_batch_ops, micro_batch)
            self._send(lambda output: self._part(output) != UPDATE, micro_batch)
            is_single = ir.accumulation == 1
            micro_batches = micro_batch if is_single else Repeat(ir.accumulation, micro_batch)
        update_program = Programs(name="update")
        self._lower(update_ops, update_program)
        self._send(lambda output: self._part(output) == UPDATE, update_program)
        self.per_step = {
            output_name
            for output_name, output in ir.outputs.items()
            if self._part(output) == UPDATE
        }
        step = Programs(self.copies_program, micro_batches, update_program, name="step")
        # Add the variables that no operation uses, because the host can read them, too.
        for value in ir.variables.values():
            if value not in self.tensor and value not in self.buffers:
                self._variable(value, 0)
        return step if self.iterations == 1 else Repeat(self.iterations, step)

    def _part(self, value: Value) -> str:
        """Return the part of the step in which `value` is computed, such as "backward".

        Return "forward" if no operation of the graph produces the value.
        """
        maker = self._makers.get(value)
        return maker.part if maker else FORWARD

    def _lower(self, ops: Iterable[Op], into: Programs) -> None:
        """Add the operations `ops` to the program `into`.

        Consecutive operations of a module become one Sequence, whose name is the module's path.
        Copies of inputs from the host come first.
        """
        self.feeds = Programs(name="inputs")
        into.add(self.feeds)
        section: tuple[str, int, int] | None = None
        for path, module_ops in groupby(ops, lambda op: op.path):
            self.prog = Programs(name=path)
            into.add(self.prog)
            for op in module_ops:
                op_section = (op.part, op.phase, op.stage)
                # The copies of remote variables on the tiles are used only within one part, phase
                # and stage. In the update, each operation makes its own copies.
                if op_section != section or op.part == UPDATE:
                    self._fetched.clear()
                section = op_section
                self.lower_op(op)

    def lower_op(self, op: Op) -> None:
        """Add an operation to the program with the function `lower` of its `Row`.

        :raises ModelError: if `lower` fails, or if the tensors that `lower` returns do not have the
            shapes of the operation's results.
        """
        row = OPS[op.kind]
        self.start(op)
        if op.kind == "assign" and op.inputs[0].remote:
            self._store(op.inputs[0], self.get(op.inputs[1], op, 1))
            # Later operations must read the new value.
            self._fetched.pop(op.inputs[0], None)
            return
        operands = [self._operand(op, row, input_number) for input_number in range(len(op.inputs))]
        try:
            lowered = row.lower(self, *operands, **op.attrs)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            if isinstance(error, IPUTeachError):
                raise
            raise op.error(
                f"The function lower of the operation {op.kind} failed for these inputs: {error}.",
                f"pass other inputs or attributes to {op.kind}, or correct its function lower: see "
                f"ir.OPS[{op.kind!r}].",
            ) from error
        tensors = lowered if isinstance(lowered, (list, tuple)) else [lowered]
        for value, tensor in zip(op.outs, tensors, strict=False):
            if not isinstance(tensor, Tensor) or tensor.shape != value.shape:
                raise op.error(
                    f"The function lower of the operation {op.kind} returned {shown(tensor)}, but "
                    f"according to its function shape, the result is {value!r}.",
                    "change lower so that it returns a tensor of this shape and dtype.",
                )
            self.tensor[value] = tensor
        if row.in_place:
            for value in op.inputs:
                if value in self._fetched:
                    self._store(value, self._fetched[value])

    def _operand(self, op: Op, row: Row, input_number: int) -> Tensor | float:
        """Return the tensor of an input of `op`, or a number if `op` accepts a number instead.

        A number is returned only for a constant whose elements are all equal, and only if another
        input has the constant's dtype and the shape of the result.
        """
        value = op.inputs[input_number]
        if row.numbers and value.number is not None:
            same_dtype = (
                operand
                for operand in op.inputs
                if operand.number is None and operand.dtype is value.dtype
            )
            if any(operand.shape == op.outs[0].shape for operand in same_dtype):
                return value.number
        return self.get(value, op, input_number)

    def get(self, value: Value, op: Op, place: int) -> Tensor:
        """Return the tensor of `value`, input number `place` of `op`, in the stage of `op`.

        If the stage has no tensor for the value yet, add a variable, a constant, a stream from the
        host, or a copy from another stage.

        :raises ModelError: if no earlier operation produces the value.
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
                    f"The operation {op.kind} reads {value.name!r}, which no earlier operation of "
                    "the graph computes.",
                    "add the operation that computes it before the operation that reads it.",
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
        """Return a new tensor for `value` with the tile mapping that an operation prefers, or None.

        The first operation in this stage that reads the value and prefers a mapping decides. If no
        operation does, return None. Operations that read a reshape or a permutation of the value
        count as readers of the value, too. Recursive calls pass this view as `seen_as`.
        """
        view = value if seen_as is None else seen_as
        for op, input_number in self._readers.get(view, ()):
            if op.stage != stage:
                continue
            row = OPS[op.kind]
            tensor: Tensor | None = row.lays(self, op, input_number) if row.lays else None
            if tensor is None and op.kind in ("reshape", "permute"):
                tensor = self.preferred(value, stage, op.outs[0])
                if tensor is not None and op.kind == "permute":
                    tensor = tensor.dim_shuffle([int(d) for d in np.argsort(op.attrs["dims"])])
            if tensor is not None:
                return tensor.reshape(view.shape)
        return None

    def new_for(self, value: Value, stage: int) -> Tensor:
        """Return a new variable for `value` in a stage.

        It has the tile mapping that an operation in this stage prefers, or a linear mapping if
        there is no such operation.
        """
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
        assert value.initial is not None, "a variable has an initial value"
        self.whole.set_initial_value(variable, value.initial)
        self.whole.create_host_read(value.name, variable)
        self.whole.create_host_write(f"write {value.name}", variable)

    def _from_remote(self, value: Value, op: Op) -> Tensor:
        """Return a variable on the tiles with the elements of the remote variable `value`.

        The program copies the elements from streaming memory when `op` needs them. Later operations
        with the same part, phase and stage use the same copy. In the update, each operation makes
        its own copy.
        """
        if value not in self._fetched:
            variable = self._fetched[value] = self.new_for(value, op.stage)
            self.prog.add(Copy(self._buffer(value), variable.flatten()))
        return self._fetched[value]

    def _store(self, value: Value, tensor: Tensor) -> None:
        """Add a copy of `tensor` to the remote buffer of `value`."""
        self.prog.add(Copy(tensor.flatten(), self._buffer(value)))

    def _buffer(self, value: Value) -> RemoteBuffer:
        """Return the remote buffer of a variable; the first call adds the buffer to the graph."""
        if value not in self.buffers:
            self.buffers[value] = self.whole.add_remote_buffer(value.name, value.dtype, value.size)
        return self.buffers[value]

    def _input(self, value: Value, stage: int) -> Tensor:
        """Return a variable for an input, which a stream from the host fills.

        Each stage that reads the input has its own stream with the same data.
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
    """The pipeline of a `Lowering`, whose operations `body` run in stages on different IPUs."""

    def __init__(self, low: Lowering, body: Body) -> None:
        self.low = low
        self.body = body

    def program(self) -> Program:
        """Return the program in which the stages work on different micro-batches."""
        ir = self.low.ir
        num_stages = ir.stages
        is_training = any(op.part == BACKWARD for op in self.body)
        sent_values = [self._crossing(stage_number, FORWARD) for stage_number in range(num_stages)]
        sent_gradients = [
            self._crossing(stage_number, BACKWARD) for stage_number in range(num_stages)
        ]
        forwards = []
        backwards = []
        received: list[Tensor | None] = [None] * num_stages
        sent: list[Tensor | None] = [None] * num_stages
        gradients_sent: list[Tensor | None] = [None] * num_stages
        gradients_received: list[Tensor | None] = [None] * num_stages
        for stage_number in range(num_stages):
            if stage_number and sent_values[stage_number - 1]:
                received[stage_number] = self._arrive(sent_values[stage_number - 1], stage_number)
            forwards.append(self._stage_program(stage_number, FORWARD))
            sent[stage_number] = self._packed(
                [self._at(v, stage_number) for v in sent_values[stage_number]],
                sent_values[stage_number],
            )
        for stage_number in reversed(range(num_stages)):
            if stage_number + 1 < num_stages and sent_gradients[stage_number + 1]:
                gradients_received[stage_number] = self._arrive(
                    sent_gradients[stage_number + 1], stage_number
                )
            backwards.append(self._stage_program(stage_number, BACKWARD))
            gradients_sent[stage_number] = self._packed(
                [self._at(v, stage_number) for v in sent_gradients[stage_number]],
                sent_gradients[stage_number],
            )
        backwards.reverse()
        pipeline_stages = []
        for stage_number in range(num_stages):
            stage = Stage(forwards[stage_number], received[stage_number], sent[stage_number])
            has_backward = any(op.part == BACKWARD and op.stage == stage_number for op in self.body)
            if has_backward or gradients_received[stage_number] is not None:
                stage = replace(
                    stage,
                    backward=backwards[stage_number],
                    keep=self._kept(stage_number, received[stage_number]),
                    grad_out=gradients_received[stage_number],
                    grad_into=gradients_sent[stage_number],
                )
            pipeline_stages.append(stage)
        ticks = pipeline_schedule(num_stages, ir.accumulation, ir.schedule, is_training)
        return pipeline(self.low.whole, pipeline_stages, ticks)

    def _stage_program(self, stage: int, part: str) -> Programs:
        """Return the program of a stage's forward or backward pass.

        The program also copies the outputs of this stage and pass to the host. `part` is "forward"
        or "backward".
        """
        program = Programs(name=f"stage {stage} {part}")
        ops = [op for op in self.body if op.part == part and op.stage == stage]
        self.low._lower(ops, program)
        self.low._send(partial(self._is_made_in, stage, part), program)
        return program

    def _is_made_in(self, stage: int, part: str, value: Value) -> bool:
        """Return whether `value` is computed by the pass `part` of a stage.

        `part` is "forward" or "backward". A variable belongs to the forward pass of the stage of
        its first reader. Other values that no operation computes belong to the forward pass of
        stage 0.
        """
        return self.low._homes.get(value, 0) == stage and self.low._part(value) == part

    def _crossing(self, stage: int, part: str) -> list[Value]:
        """Return the values that a stage sends to its neighbour in the pass `part`.

        In the forward pass, these are the results of this and earlier stages that a later stage
        reads, and the neighbour is the next stage. In the backward pass, they are the results of
        this and later stages that an earlier stage reads, and the neighbour is the previous stage.

        :raises ModelError: if a stage reads a value against the direction of the pipeline.
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
                        f"Stage {op.stage} reads {value.name!r} of stage {maker.stage}, but data "
                        "flow through a pipeline from lower to higher stages."
                        if part == FORWARD
                        else f"In the backward pass, stage {op.stage} reads {value.name!r} of "
                        f"stage {maker.stage}, but gradients flow from higher to lower stages.",
                        "number the stages in the order in which their layers run.",
                    )
        return list(values)

    def _at(self, value: Value, stage: int) -> Tensor:
        """Return the copy of `value` in a stage, or the tensor of `value` if there is no copy."""
        copy = self.low.copies.get((value, stage))
        return self.low.tensor[value] if copy is None else copy

    def _arrive(self, values: list[Value], stage: int) -> Tensor | None:
        """Add a variable in a stage for each of the `values` that the stage receives.

        Return the concatenation of these variables as a flat tensor, or None if there are no
        values.
        """
        for value in values:
            self.low.copies[value, stage] = poputil.clone_to_ipu(
                self.low.whole, self.low.tensor[value], stage, f"{value.name}/arrived"
            )
        return self._packed([self.low.copies[v, stage] for v in values], values)

    def _packed(self, tensors: list[Tensor], values: list[Value]) -> Tensor | None:
        """Return the concatenation of `tensors` as a flat tensor, or None if there are no tensors.

        If the dtypes differ, the bits of all elements are concatenated as UNSIGNED_INT. `values`
        are the values in the tensors; error messages name them.

        :raises ModelError: if the dtypes differ and do not all have 4 bytes.
        """
        if not tensors:
            return None
        flat_tensors = [tensor.flatten() for tensor in tensors]
        if len({tensor.dtype for tensor in flat_tensors}) > 1:
            if {tensor.dtype.size for tensor in flat_tensors} != {4}:
                value_names = ", ".join(map(repr, values))
                raise ModelError(f"""A stage sends {value_names} to another stage, but values that
                    are sent together must have dtypes of the same size.
                    next:  cast these values to one dtype in the stage that sends them, or end the
                    stage at another layer.""")
            flat_tensors = [tensor.reinterpret(UNSIGNED_INT) for tensor in flat_tensors]
        return concat(flat_tensors) if len(flat_tensors) > 1 else flat_tensors[0]

    def _kept(self, stage: int, into: Tensor | None) -> list[Tensor]:
        """Return the tensors of a stage's forward pass that the stage's backward pass reads.

        A view is replaced by the tensor whose memory it shares. Values from earlier stages are
        replaced by `into`, the flat tensor with all values that the stage receives.
        """
        saved: dict[Value, None] = {}

        def add(value: Value) -> None:
            """Add `value` to `saved` if it is an input or is computed in the forward pass.

            A view that is computed in this stage is replaced by the values whose memory it shares.
            """
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
    """A program on a device. The host can run it, and read and write its variables.

    `run(name=array, …)` runs the program with an array for each input. An array has the
    shape [micro-batches, …], or contains all micro-batches concatenated along the first dimension.
    The call returns an array for each output. Its shape is [micro-batches, …], or
    [steps * replicas, …] for an output of the update. Micro-batches are ordered by step, then by
    their number in the accumulation, then by replica.
    """

    def __init__(
        self, low: Lowering, device: Device, options: Mapping[str, Any] | None = None
    ) -> None:
        from ipu_teach.engine import Engine

        self.low = low
        self.ir = low.ir
        self._parts = parts_of_inputs(low.ir)
        self.engine = Engine(low.whole, low.program, dict(options or {}))
        self.engine.load(device)
        for value in low.buffers:
            shape = (self.ir.replicas, *value.shape) if value.sharded else value.shape
            self.write(value.name, np.broadcast_to(np.asarray(value.initial), shape))
        if "seed" in self.ir.variables:
            self.write("seed", self.ir.variables["seed"].initial)

    @property
    def factors(self) -> dict[str, int]:
        """The factors whose product is the number of micro-batches in a run.

        They are the steps of the run, the accumulated micro-batches of a step, and the replicas.
        """
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
        """Return the host's data for an input as a flat array in the input's dtype.

        :raises ModelError: if the array has another shape, or, for an input of integers, if the
            array does not contain integers or if an integer is outside of the input's range.
        """
        array = np.asarray(numbers)
        num_micro_batches = self.micro_batches
        shape = value.shape
        combined_shape = (
            (num_micro_batches * shape[0], *shape[1:]) if shape else (num_micro_batches,)
        )
        if array.shape not in (combined_shape, (num_micro_batches, *shape)):
            factor_text = " * ".join(
                f"{factor} {factor_value}" for factor, factor_value in self.factors.items()
            )
            batch_text = f" * batch {shape[0]}" if shape else ""
            raise ModelError(f"""The input {value.name!r} was given an array of shape
                {list(array.shape)}, but a run needs {list(combined_shape)}:
                {factor_text}{batch_text}.
                next:  pass all micro-batches of a run, concatenated along the first dimension.""")
        if np.dtype(value.dtype.numpy).kind in "iu":
            if array.dtype.kind not in "iu":
                raise ModelError(f"""The input {value.name!r} was given an array of the dtype
                    {array.dtype}, but its elements must be integers.
                    next:  pass an integer array.""")
            array = self._checked_integers(value, array)
        return np.ascontiguousarray(
            array.reshape((num_micro_batches, *shape)), value.dtype.numpy
        ).reshape(-1)

    def _checked_integers(self, value: Value, array: Array) -> Array:
        """Return the integers that the host passes for an input, as int64.

        If the input is UNSIGNED_INT and a loss ignores a label, this label is replaced by the
        device's code for ignored labels.

        :raises ModelError: if an integer is out of range.
        """
        wide = array.astype(np.int64)
        self._check_range(value.name, value, wide)
        for part, positions in self._parts.get(value, []):
            self._check_range(value.name, part, wide.reshape(-1, value.size)[:, positions])
        if value.ignored is not None and value.dtype is UNSIGNED_INT:
            wide = np.where(wide == value.ignored, popops.MASKED_LABEL_CODE, wide)
        return wide

    def _check_range(self, name: str, value: Value, wide: Array) -> None:
        """Raise `ModelError` if the integers for `value` are out of the range that `value` allows.

        `value` is an input or a part of an input, and `name` is the name of the input.
        """
        relevant = wide if value.ignored is None else wide[wide != value.ignored]
        info = np.iinfo(value.dtype.numpy)
        advice = "use integers of 32 bits, as the device has, or floats."
        lowest = int(info.min)
        highest = int(info.max)
        if value.below is not None:
            lowest = 0
            highest = value.below - 1
            advice = (
                f"use class numbers or indices from 0 to {highest:,}. A loss without class weights "
                "and label smoothing also accepts its ignored label."
            )
            if value.from_end:
                lowest = -value.below
                advice = f"use indices from {lowest:,} to {highest:,}; -1 is the last element."
            elif value.ignored is not None:
                advice = (
                    f"use class numbers from 0 to {highest:,}, or {value.ignored} for rows that do "
                    "not count in the loss."
                )
        if relevant.size and not lowest <= relevant.min() <= relevant.max() <= highest:
            wrong = relevant[(relevant < lowest) | (relevant > highest)][0]
            raise ModelError(
                f"The input {name!r} was given the number {wrong}, which is not from "
                f"{lowest:,} to {highest:,}.",
                next_step=advice,
            )

    def __call__(self, **fed: ArrayLike) -> dict[str, Array]:
        """Run the program once, and return a dict that maps the name of each output to its array.

        :raises ModelError: for missing or unknown inputs, and for arrays that do not fit.
        """
        for name, numbers in fed.items():
            check("a run", name, numbers, Numbers, refuse=misuse)
        streamed = {value.name for value in self.low.streams.values()}
        if streamed - set(fed) or set(fed) - set(self.ir.inputs):
            inputs = ", ".join(self.ir.inputs) or "nothing"
            raise ModelError(f"""A run was given {", ".join(fed) or "no inputs"}, but its inputs are
                {inputs}.
                next:  pass an array for each of these inputs: {inputs}.""")
        arrays = {
            input_name: self.fed(self.ir.inputs[input_name], numbers)
            for input_name, numbers in fed.items()
        }
        for handle, value in self.low.streams.items():
            self.engine.connect_stream(handle, arrays[value.name])
        outputs = {}
        for name, value in self.ir.outputs.items():
            num_rows = self.micro_batches
            if name in self.low.per_step:
                num_rows = self.low.iterations * self.ir.replicas
            outputs[name] = np.empty((num_rows, *value.shape), value.dtype.numpy)
            if value.size:
                self.engine.connect_stream(f"output {name}", outputs[name].reshape(-1))
        # Delay Ctrl-C until the end of the run, so that all steps are complete.
        with Interrupts():
            self.engine.run()
        return outputs

    def read(self, name: str) -> Array:
        """Return the elements of a variable in the first replica.

        For a sharded variable, return the parts of all replicas: [replicas, …].

        :raises ModelError: for an unknown name.
        """
        value = named_variable(self.ir, name)
        replicas = self.ir.replicas
        if value in self.low.buffers:
            replica_arrays = [
                self.engine.copy_from_remote_buffer(name, replica=replica)
                for replica in range(replicas)
            ]
            array = np.asarray(replica_arrays)
        else:
            array = np.array(self.engine.read_tensor(name))
        array = array.reshape((replicas, *value.shape))
        return array if value.sharded else array[0]

    def write(self, name: str, array: Numbers) -> None:
        """Set the elements of a variable in all replicas.

        `array` has the shape of the variable, or [replicas, …] for a sharded variable. The number
        of the replica is added to the second word of the variable "seed", so that each replica
        draws different random numbers.

        :raises ModelError: for an unknown name, or an array of another shape.
        """
        value = named_variable(self.ir, name)
        replicas = self.ir.replicas
        new_value = np.asarray(array, value.dtype.numpy)
        shape = (replicas, *value.shape) if value.sharded else value.shape
        if new_value.shape != shape:
            raise ModelError(f"""write() was given an array of shape {list(new_value.shape)} for
                the variable {name!r}, whose shape is {list(shape)}.
                next:  pass an array of shape {list(shape)}.""")
        by_replica = np.array(np.broadcast_to(new_value, (replicas, *value.shape)))
        if name == "seed":
            by_replica[:, 1] += np.arange(replicas, dtype=np.uint32)
        if value not in self.low.buffers:
            self.engine.write_tensor(f"write {name}", by_replica if replicas > 1 else by_replica[0])
            return
        for replica, replica_values in enumerate(by_replica.reshape(replicas, -1)):
            self.engine.copy_to_remote_buffer(replica_values, name, replica=replica)

    def state(self) -> dict[str, Array]:
        """Return a dict that maps the names of variables to arrays, as `restore` accepts it.

        The dict contains the parameters, the optimiser's state, running statistics and the random
        seed. It does not contain variables that every run overwrites before it reads them.
        """
        first_reader: dict[Value, str] = {}
        for op in self.ir.ops:
            for value in op.inputs:
                first_reader.setdefault(value, op.kind)
        variables = self.ir.variables.items()
        return {name: self.read(name) for name, v in variables if first_reader.get(v) != "assign"}

    def restore(self, state: Mapping[str, Numbers]) -> None:
        """Set the variables to the arrays in `state`, as `state()` returned them.

        Training then continues with the same results as without the interruption.
        """
        for name, array in state.items():
            self.write(name, array)


check_calls(globals(), misuse, without=("body_ops",))
