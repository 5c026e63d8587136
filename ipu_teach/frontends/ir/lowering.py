"""A graph as PopLibs calls: one program of a step, and `Run`, which feeds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

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
    Value,
    misuse,
    row_of,
)
from ipu_teach.graph import Graph, RemoteBuffer, Tensor, concat
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Program, Repeat, Sequence as Programs
from ipu_teach.register_steps import set_stochastic_rounding
from ipu_teach.schedules import GROUPED, INTERLEAVED, Stage, pipeline, pipeline_schedule
from ipu_teach.types import UNSIGNED_INT, DType

Body = list[Op]


def inner(op: Op) -> Body:
    """The operations of a step of a scan, where that stands."""
    here = {name: value for name, value in op.here.items() if name != "line"}
    body = op.attrs.get("body")
    return [replace(each, **here) for each in body.ops] if isinstance(body, Ir) else []


class Lowering:
    """The program of `iterations` steps of a graph, on `whole`: a virtual graph for each stage, and
    variables laid out for the first product, convolution or look-up that has them.

    `options`: of products and convolutions. Rows use `call`, `new` and `constant`, `graph`,
    `prog`, `name`, `op`, `options` and `seen`. Raises `ModelError`, and what the libraries raise.
    """

    def __init__(
        self,
        ir: Ir,
        target: Device,
        iterations: Count = 1,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.ir = ir = with_snapshots(ir)
        self.iterations, self.options = iterations, dict(options or {})
        self.whole = Graph(target, ir.replicas)
        popops.add_codelets(self.whole)
        self.tensor: dict[Value, Tensor] = {}
        self.there: dict[tuple[Value, int], Tensor] = {}  # what another stage has, on this one
        self.streams: dict[str, Value] = {}  # those to the device
        self.each_step: set[str] = set()  # outputs that come once a step, not a micro-batch
        self.buffers: dict[Value, RemoteBuffer] = {}
        self._fetched: dict[Value, Tensor] = {}
        self._replica: Tensor | None = None
        self._makers = ir.maker()
        self._homes = {v: op.stage for v, op in self._makers.items()}
        self._readers: dict[Value, list[tuple[Op, int]]] = {}
        for op in ir.ops:
            self._note(op)
        self._check()
        tiles, ipus = self.whole.target.tiles_per_ipu, self.whole.target.num_ipus
        if ir.stages > ipus:
            raise ModelError(f"""The graph has {ir.stages} stages for each of
                {counted(ir.replicas, "replica")}, and the device has {counted(ipus, "IPU")} for it.
                next:  give the device more IPUs: num_ipus={ir.stages * ir.replicas} or more.""")
        self.graphs = [
            self.whole.create_virtual_graph(s * tiles, (s + 1) * tiles) for s in range(ir.stages)
        ]
        self.graph = self.graphs[0]
        self.program = self._program()

    def _note(self, op: Op) -> None:
        """Who reads what, and where it lies."""
        for place, value in enumerate(op.inputs):
            self._readers.setdefault(value, []).append((op, place))
            if value.kind == VARIABLE:
                self._homes.setdefault(value, op.stage)
        for each in inner(op):
            self._homes.update(dict.fromkeys(each.outs, op.stage))
            self._note(each)

    # --- what rows use ---

    def place(self, op: Op) -> None:
        """What follows is for this operation."""
        self.op, self.name, self.graph = op, op.name, self.graphs[op.stage]

    def call(self, function: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """A library's function in the program, under the operation's name."""
        return function(self.graph, *given, self.prog, debug_context=self.name, **more)

    def new(self, dtype: type[DType], shape: Sequence[Natural], name: str = "out") -> Tensor:
        """A variable, spread over the tiles."""
        made = self.graph.add_variable(dtype, tuple(shape), f"{self.name}/{name}")
        poputil.map_tensor_linearly(self.graph, made)
        return made

    def constant(self, dtype: type[DType], shape: Sequence[Natural], value: Numbers) -> Tensor:
        """A constant, spread over the tiles."""
        made = self.graph.add_constant(dtype, tuple(shape), value, f"{self.name}/constant")
        poputil.map_tensor_linearly(self.graph, made)
        return made

    def replica(self) -> Tensor:
        """[1], UNSIGNED_INT: the number of the replica."""
        if self._replica is None:
            self._replica = self.whole.add_replication_index_constant()
            self.whole.set_tile_mapping(self._replica, 0)
        return self._replica.reshape((1,))

    def seen(self, value: Value) -> Tensor | None:
        """The tensor that a value has by now."""
        return self._fetched.get(value, self.tensor.get(value))

    # --- the program ---

    def _check(self) -> None:
        """Raise `ModelError` for what would be read in one stage while another changes it, and for
        a tensor that is larger than all of an IPU's memory."""
        target = self.whole.target
        room = target.tiles_per_ipu * target.bytes_per_tile
        for op in self.ir.ops:
            row = row_of(op.kind, op.where)
            size = 0 if row.view else max((v.size * v.dtype.size for v in op.outs), default=0)
            if size > room:
                raise op.error(
                    f"{op.kind} makes a tensor of {size:,} bytes, and an IPU of the device has "
                    f"{room:,}.",
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
                raise (far[0] if far else op).error(
                    f"{op.inputs[0].name!r} lies in stage {home} and changes with each "
                    f"micro-batch; stage {(far[0] if far else op).stage} would have a copy that "
                    "does not.",
                    "read it in the stage where it lies.",
                )

    def _check_stored(self, op: Op) -> None:
        """Raise `ModelError` if stages at work on other micro-batches share a remote variable."""
        for reader, _ in self._readers[op.inputs[0]]:
            here = reader.stage, reader.part
            if self.ir.schedule in (GROUPED, INTERLEAVED) and here != (op.stage, op.part):
                raise reader.error(
                    f"{op.inputs[0].name!r} in streaming memory changes with each micro-batch in "
                    f"stage {op.stage} ({op.part}); stage {reader.stage} ({reader.part}) would "
                    "read the one of another micro-batch.",
                    "use the schedule 'sequential', or a pipeline without phases.",
                )

    def _program(self) -> Program:
        ir = self.ir
        body = [op for op in ir.ops if op.part != UPDATE]
        update = [op for op in ir.ops if op.part == UPDATE]
        self.head = Programs(name="copies")
        if self.options.pop("stochasticRounding", False):
            set_stochastic_rounding(self.whole, self.head, True)
        if ir.schedule:
            inner: Program = self._pipelined(body)
        else:
            one = Programs(name="micro-batch")
            self._lower(body, one)
            self._send(lambda v: self._part(v) != UPDATE, one)
            inner = one if ir.accumulation == 1 else Repeat(ir.accumulation, one)
        last = Programs(name="update")
        self._lower(update, last)
        self._send(lambda v: self._part(v) == UPDATE, last)
        self.each_step = {n for n, v in ir.outputs.items() if self._part(v) == UPDATE}
        step = Programs(self.head, inner, last, name="step")
        for value in ir.variables.values():  # what no operation has
            if value not in self.tensor and value not in self.buffers:
                self._variable(value, 0)
        return step if self.iterations == 1 else Repeat(self.iterations, step)

    def _part(self, value: Value) -> str:
        maker = self._makers.get(value)
        return maker.part if maker else FORWARD

    def _lower(self, ops: Iterable[Op], into: Programs) -> None:
        """The operations, those of a module in a Sequence of its name."""
        self.feeds = Programs(name="inputs")
        into.add(self.feeds)
        section: Any = None
        for path, several in groupby(ops, lambda op: op.path):
            self.prog = Programs(name=path)
            into.add(self.prog)
            for op in several:
                now = (op.part, op.phase, op.stage)
                if now != section or op.part == UPDATE:
                    self._fetched.clear()  # what lies in streaming memory, for this section
                section = now
                self.one(op)

    def one(self, op: Op) -> None:
        """An operation in the program."""
        row = OPS[op.kind]
        self.place(op)
        if op.kind == "assign" and op.inputs[0].remote:
            self._store(op.inputs[0], self.get(op.inputs[1], op, 1))
            self._fetched.pop(op.inputs[0], None)  # what follows fetches the new value
            return
        given: list[Any] = []
        for place, value in enumerate(op.inputs):
            beside = [v for v in op.inputs if v.number is None and v.dtype is value.dtype]
            plain = row.numbers and any(v.shape == op.outs[0].shape for v in beside)
            number = value.number if plain else None
            given.append(self.get(value, op, place) if number is None else number)
        try:
            made = row.lower(self, *given, **op.attrs)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            if isinstance(error, IPUTeachError):
                raise
            raise op.error(
                f"{op.kind} cannot be lowered with these tensors and attributes: {error}.",
                "see its row in the table of operations for what it takes.",
            ) from error
        for value, tensor in zip(
            op.outs, made if isinstance(made, (list, tuple)) else [made], strict=False
        ):
            if not isinstance(tensor, Tensor) or tensor.shape != value.shape:
                raise op.error(
                    f"{op.kind} was to make {value!r}, and its row's lower made {shown(tensor)}.",
                    "return a tensor of the shape that the row says, or a list of them.",
                )
            self.tensor[value] = tensor
        if row.in_place:
            for value in op.inputs:
                if value in self._fetched:
                    self._store(value, self._fetched[value])

    def get(self, value: Value, op: Op, place: int) -> Tensor:
        """A value's tensor in the stage of `op`, which has it as input number `place`."""
        key = value, op.stage
        if key in self.there:
            return self.there[key]
        if value.kind == CONSTANT:
            self.there[key] = self.constant(value.dtype, value.shape, value.initial)
            return self.there[key]
        if value.kind == INPUT:
            self.there[key] = self._input(value, op.stage)
            return self.there[key]
        if value.remote:
            return self._from_remote(value, op)
        if value not in self.tensor:
            if value.kind == MADE:
                raise op.error(
                    f"{op.kind} reads {value.name!r}, which nothing has made.",
                    "values belong to the graph that made them, before they are read.",
                )
            self._variable(value, self._homes[value])
        if self._homes[value] == op.stage:
            return self.tensor[value]
        where = self.head if value.kind == VARIABLE else self.prog
        copied = poputil.copy_to_ipu(
            self.whole, self.tensor[value], op.stage, where, f"{value.name}/copy"
        )
        self.there[key] = copied
        return copied

    # --- variables, inputs, outputs ---

    def laid(self, value: Value, stage: int, seen: Value | None = None) -> Tensor | None:
        """A variable that lies where the first operation of the stage that cares wants it, through
        transposes and reshapes; None if none cares."""
        asked = value if seen is None else seen
        for op, place in self._readers.get(asked, ()):
            if op.stage != stage:
                continue
            row = OPS[op.kind]
            made: Tensor | None = row.lays(self, op, place) if row.lays else None
            if made is None and op.kind in ("reshape", "permute"):
                made = self.laid(value, stage, op.outs[0])
                if made is not None and op.kind == "permute":
                    made = made.dim_shuffle([int(d) for d in np.argsort(op.attrs["dims"])])
            if made is not None:
                return made.reshape(asked.shape)
        return None

    def make(self, value: Value, stage: int) -> Tensor:
        """A variable for a value, in a stage."""
        before, self.graph, self.called = self.graph, self.graphs[stage], value.name
        made = self.laid(value, stage)
        if made is None:
            made = self.graph.add_variable(value.dtype, value.shape, value.name)
            poputil.map_tensor_linearly(self.graph, made)
        self.graph = before
        return made

    def _variable(self, value: Value, stage: int) -> None:
        made = self.tensor[value] = self.make(value, stage)
        assert value.initial is not None, "a variable has one"
        self.whole.set_initial_value(made, value.initial)
        self.whole.create_host_read(value.name, made)
        self.whole.create_host_write(f"write {value.name}", made)

    def _from_remote(self, value: Value, op: Op) -> Tensor:
        """A new variable for this section, with what streaming memory has."""
        if value not in self._fetched:
            made = self._fetched[value] = self.make(value, op.stage)
            self.prog.add(Copy(self._buffer(value), made.flatten()))
        return self._fetched[value]

    def _store(self, value: Value, tensor: Tensor) -> None:
        self.prog.add(Copy(tensor.flatten(), self._buffer(value)))

    def _buffer(self, value: Value) -> RemoteBuffer:
        if value not in self.buffers:
            self.buffers[value] = self.whole.add_remote_buffer(value.name, value.dtype, value.size)
        return self.buffers[value]

    def _input(self, value: Value, stage: int) -> Tensor:
        """What the host feeds a stage; several stages are fed the same."""
        if not value.size:
            return self.make(value, stage)
        handle = value.name if value.name not in self.streams else f"{value.name} {stage}"
        self.streams[handle] = value
        stream = self.whole.add_host_to_device_fifo(handle, value.dtype, value.size)
        made = self.make(value, stage)
        self.feeds.add(Copy(stream, made.flatten()))
        return made

    def _send(self, wanted: Callable[[Value], bool], into: Programs) -> None:
        """The outputs that are wanted here go to the host."""
        for name, value in self.ir.outputs.items():
            if value.size and wanted(value):
                stage = self._homes.get(value, 0)
                op = Op("output", (value,), (), {}, stage)
                self.place(op)
                self.prog = Programs(name="outputs")
                tensor = self.get(value, op, 0)
                stream = self.whole.add_device_to_host_fifo(
                    f"output {name}", value.dtype, value.size
                )
                into.add(self.prog.add(Copy(tensor.flatten(), stream)))

    # --- pipelines ---

    def _pipelined(self, body: Body) -> Program:
        """Stages on IPUs of their own, each at work on another micro-batch."""
        ir, stages = self.ir, self.ir.stages
        training = any(op.part == BACKWARD for op in body)
        ahead = [self._crossing(body, s, FORWARD) for s in range(stages)]
        back = [self._crossing(body, s, BACKWARD) for s in range(stages)]
        forwards, backwards = [], []
        into: list[Any] = [None] * stages
        out: list[Any] = [None] * stages
        grad_into: list[Any] = [None] * stages
        grad_out: list[Any] = [None] * stages
        for s in range(stages):
            if s and ahead[s - 1]:
                into[s] = self._arrive(ahead[s - 1], s)
            forwards.append(Programs(name=f"stage {s} forward"))
            self._lower([o for o in body if o.part == FORWARD and o.stage == s], forwards[s])
            self._send(partial(self._made_in, s, FORWARD), forwards[s])
            out[s] = self._packed([self._at(v, s) for v in ahead[s]], ahead[s])
        for s in reversed(range(stages)):
            if s + 1 < stages and back[s + 1]:
                grad_out[s] = self._arrive(back[s + 1], s)
            backwards.append(Programs(name=f"stage {s} backward"))
            self._lower([o for o in body if o.part == BACKWARD and o.stage == s], backwards[-1])
            self._send(partial(self._made_in, s, BACKWARD), backwards[-1])
            grad_into[s] = self._packed([self._at(v, s) for v in back[s]], back[s])
        backwards.reverse()
        made = []
        for s in range(stages):
            more: dict[str, Any] = {}
            has_backward = any(op.part == BACKWARD and op.stage == s for op in body)
            if has_backward or grad_out[s] is not None:
                more = {"backward": backwards[s], "keep": self._kept(body, s, into[s])}
                more |= {"grad_out": grad_out[s], "grad_into": grad_into[s]}
            made.append(Stage(forwards[s], into[s], out[s], **more))
        ticks = pipeline_schedule(stages, ir.accumulation, ir.schedule, training)
        return pipeline(self.whole, made, ticks)

    def _made_in(self, stage: int, part: str, value: Value) -> bool:
        return self._homes.get(value, 0) == stage and self._part(value) == part

    def _crossing(self, body: Body, s: int, part: str) -> list[Value]:
        """What goes from stage s to its neighbour: onwards what is made up to it and read after it,
        and of the gradients backwards."""
        sign = 1 if part == FORWARD else -1
        found: dict[Value, None] = {}
        for op in body:
            for value in op.inputs:
                maker = self._makers.get(value)
                if maker is None or maker.part != part:
                    continue
                if maker.stage * sign <= s * sign < op.stage * sign:
                    found[value] = None
                elif op.stage != maker.stage and op.stage * sign < maker.stage * sign:
                    raise op.error(
                        f"Stage {op.stage} reads {value.name!r} of stage {maker.stage}, against "
                        "the way of the pipeline.",
                        "number the stages in the order in which they run.",
                    )
        return list(found)

    def _at(self, value: Value, stage: int) -> Tensor:
        return self.there[value, stage] if (value, stage) in self.there else self.tensor[value]

    def _arrive(self, values: list[Value], stage: int) -> Tensor | None:
        """A variable for each value that comes to a stage, and all of them as one."""
        for value in values:
            self.there[value, stage] = poputil.clone_to_ipu(
                self.whole, self.tensor[value], stage, f"{value.name}/arrived"
            )
        return self._packed([self.there[v, stage] for v in values], values)

    def _packed(self, tensors: list[Tensor], values: list[Value]) -> Tensor | None:
        """Several tensors seen as one."""
        if not tensors:
            return None
        flat = [t.flatten() for t in tensors]
        if len({t.dtype for t in flat}) > 1:
            if {t.dtype.size for t in flat} != {4}:
                names = ", ".join(map(repr, values))
                raise ModelError(f"""Between two stages go {names}, of dtypes of several sizes.
                    next:  cut elsewhere, or cast them to one dtype before.""")
            flat = [t.reinterpret(UNSIGNED_INT) for t in flat]
        return concat(flat) if len(flat) > 1 else flat[0]

    def _kept(self, body: Body, stage: int, into: Tensor | None) -> list[Tensor]:
        """What a stage's backward reads of its forward: not views, but what they are views of."""
        found: dict[Value, None] = {}

        def note(value: Value) -> None:
            maker = self._makers.get(value)
            if maker is not None and maker.stage == stage and OPS[maker.kind].view:
                for each in maker.inputs:
                    note(each)
            elif value.kind == INPUT or (maker is not None and maker.part == FORWARD):
                found[value] = None

        for op in body:
            if op.part == BACKWARD and op.stage == stage:
                for value in op.inputs:
                    maker = self._makers.get(value)
                    if value.kind == INPUT or (maker and maker.part == FORWARD):
                        note(value)
        arrived = [v for v in found if v.kind == MADE and self._homes[v] != stage]
        kept = [self._at(v, stage) for v in found if v not in arrived]
        return ([into] if arrived and into is not None else []) + kept


class Run:
    """A lowered graph on a device: feed it, read and write its variables.

    `run(name=array, …)` of arrays [micro-batches, …] or with the batches one behind the other; what
    comes back has [micro-batches, …] in front, or [steps, …]. Micro-batches are counted by steps,
    then accumulation, then replicas. Raises `ModelError`.
    """

    def __init__(
        self, low: Lowering, device: Device, options: Mapping[str, Any] | None = None
    ) -> None:
        from ipu_teach.engine import Engine

        self.low, self.ir = low, low.ir
        self.engine = Engine(low.whole, low.program, dict(options or {}))
        self.engine.load(device)
        for value in low.buffers:
            shape = (self.ir.replicas,) * value.sharded + value.shape
            self.write(value.name, np.broadcast_to(np.asarray(value.initial), shape))
        if "seed" in self.ir.variables:
            self.write("seed", self.ir.variables["seed"].initial)

    @property
    def factors(self) -> dict[str, int]:
        """How many micro-batches a run takes, as factors."""
        ir = self.ir
        return {
            "steps": self.low.iterations,
            "accumulation": ir.accumulation,
            "replicas": ir.replicas,
        }

    @property
    def micro_batches(self) -> int:
        """Their product."""
        return int(np.prod(list(self.factors.values())))

    def fed(self, value: Value, given: Any) -> Any:
        """What the host gave for an input, checked, as the stream wants it."""
        array = np.asarray(given)
        n, shape = self.micro_batches, value.shape
        combined = (n * shape[0], *shape[1:]) if shape else (n,)
        if array.shape not in (combined, (n, *shape)):
            by = " * ".join(f"{k} {v}" for k, v in self.factors.items())
            batch = f" * batch {shape[0]}" if shape else ""
            raise ModelError(f"""{value.name!r} was fed {list(array.shape)}, and a run takes
                {list(combined)}: {by}{batch}.
                next:  feed all micro-batches of a run, one behind the other.""")
        whole = np.dtype(value.dtype.numpy).kind in "iu"
        if whole and array.dtype.kind in "iu":
            array = self._numbers(value, array)
        elif whole:
            raise ModelError(f"""{value.name!r} was fed {array.dtype}, and takes whole numbers.
                next:  give an integer array.""")
        return np.ascontiguousarray(array.reshape((n, *shape)), value.dtype.numpy).reshape(-1)

    def _numbers(self, value: Value, array: Any) -> Any:
        wide = array.astype(np.int64)
        counted = wide if value.ignored is None else wide[wide != value.ignored]
        info = np.iinfo(value.dtype.numpy)
        most = info.max if value.below is None else value.below - 1
        least = info.min if value.below is None else -value.below if value.from_end else 0
        if counted.size and not least <= counted.min() <= counted.max() <= most:
            wrong = counted[(counted < least) | (counted > most)][0]
            advice = (
                "number the classes from 0; a loss without weights and smoothing leaves out rows "
                "of the number that it ignores."
            )
            if value.below is None:
                advice = "integers of the device have 32 bits: give smaller ones, or floats."
            elif value.from_end:
                advice = f"give indices into {value.below:,} elements; those from the end count "
                advice += "from -1."
            raise ModelError(
                f"{value.name!r} was fed the number {wrong}, and takes {least:,} to {most:,}.",
                next_step=advice,
            )
        if value.ignored is not None and value.dtype is UNSIGNED_INT:
            wide = np.where(wide == value.ignored, popops.MASKED_LABEL_CODE, wide)
        return wide

    def __call__(self, **fed: Any) -> dict[str, Any]:
        """One run: the outputs by name."""
        for name, value in fed.items():
            check("a run", name, value, Numbers, misuse)
        wanted = {value.name for value in self.low.streams.values()}
        if wanted - set(fed) or set(fed) - set(self.ir.inputs):
            raise ModelError(f"""A run was fed {", ".join(fed) or "nothing"}.
                next:  feed {", ".join(self.ir.inputs) or "nothing"}.""")
        arrays = {n: self.fed(self.ir.inputs[n], v) for n, v in fed.items()}
        for handle, value in self.low.streams.items():
            self.engine.connect_stream(handle, arrays[value.name])
        outs = {}
        for name, value in self.ir.outputs.items():
            count = self.micro_batches
            if name in self.low.each_step:
                count = self.low.iterations * self.ir.replicas
            outs[name] = np.empty((count, *value.shape), value.dtype.numpy)
            if value.size:
                self.engine.connect_stream(f"output {name}", outs[name].reshape(-1))
        with Interrupts():  # Ctrl-C waits for the end of the run: no weight is half of a step
            self.engine.run()
        return outs

    def _named(self, name: str) -> Value:
        from ipu_teach.frontends.ir.values import named_value

        return named_value(self.ir, name)

    def read(self, name: str) -> Any:
        """What a variable holds: of the first replica, or [replicas, …] where each has a share."""
        value, every = self._named(name), self.ir.replicas
        if value in self.low.buffers:
            rows = [self.engine.copy_from_remote_buffer(name, replica=r) for r in range(every)]
            found = np.asarray(rows)
        else:
            found = np.array(self.engine.read_tensor(name))
        found = found.reshape((every, *value.shape))
        return found if value.sharded else found[0]

    def write(self, name: str, array: Numbers) -> None:
        """Set a variable, in all replicas. Each has another "seed", to draw other numbers."""
        value, every = self._named(name), self.ir.replicas
        given = np.asarray(array, value.dtype.numpy)
        shape = (every, *value.shape) if value.sharded else value.shape
        if given.shape != shape:
            raise ModelError(f"""{name!r} was given {list(given.shape)}, and is {list(shape)}.
                next:  give an array of its shape.""")
        whole = np.array(np.broadcast_to(given, (every, *value.shape)))
        if name == "seed":
            whole[:, 1] += np.arange(every, dtype=np.uint32)
        if value not in self.low.buffers:
            self.engine.write_tensor(f"write {name}", whole if every > 1 else whole[0])
            return
        for replica, row in enumerate(whole.reshape(every, -1)):
            self.engine.copy_to_remote_buffer(row, name, replica=replica)

    def state(self) -> dict[str, Any]:
        """All variables by name: parameters, the optimiser's, running statistics, the seed; but for
        those that are written before they are read."""
        first: dict[Value, str] = {}
        for op in self.ir.ops:
            for value in op.inputs:
                first.setdefault(value, op.kind)
        return {n: self.read(n) for n, v in self.ir.variables.items() if first.get(v) != "assign"}

    def restore(self, state: Mapping[str, Numbers]) -> None:
        """Go on from what `state` returned, in every bit."""
        for name, array in state.items():
            self.write(name, array)


check_calls(globals(), misuse, without=("inner",))
