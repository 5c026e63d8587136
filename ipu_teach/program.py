"""Control programs, which say which work runs in which order.

A program is a tree. Building it runs nothing: an Engine compiles it, and `Engine.run` runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NoReturn, cast

import numpy as np

from ipu_teach._support.elsewhere import not_in
from ipu_teach.errors import (
    ControlProgramError,
    PoplarTypeError,
    WithoutSome,
    counted,
    shown,
)
from ipu_teach.graph import ComputeSet, DataStream, Graph, RemoteBuffer, Tensor
from ipu_teach.graph.compute_set import Function
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.source import caller
from ipu_teach.types import (
    BOOL,
    CHAR,
    INT,
    SHORT,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_SHORT,
    DType,
)

PREDICATES = (BOOL, INT, UNSIGNED_INT, SHORT, UNSIGNED_SHORT, CHAR, UNSIGNED_CHAR)
CONTROLS = (INT, UNSIGNED_INT)

MOST_REPEATS = 10**12  # a step takes a few microseconds, so a longer loop would never end


class Program(WithoutSome):
    """The base class of all control programs."""

    name = ""  # Poplar's debug context: the program's name in reports and pictures

    # the names of the attributes that `_title` shows, and of those that contain programs
    _said: ClassVar[tuple[str, ...]] = ()
    _inside: ClassVar[tuple[str, ...]] = ()

    def children(self) -> tuple[Program, ...]:
        """Return the programs inside this one, in order."""
        return tuple(getattr(self, name) for name in self._inside)

    def to_string(self) -> str:
        """Return the program as indented text, with one line for each program in the tree."""
        inner = [line for child in self.children() for line in child.to_string().split("\n")]
        return "\n".join([self._title(), *("  " + line for line in inner)])

    def _title(self, *inside: Program) -> str:
        """Return this program as one line of text, which also shows the programs `inside`."""
        values = (*(getattr(self, name) for name in self._said), *inside)
        words = (v.graph.describe(v) if isinstance(v, Tensor) else repr(v) for v in values)
        return f"{type(self).__name__}({', '.join(words)})"

    def __repr__(self) -> str:
        return self._title(*self.children())


def _debug_name(name: object, where: str) -> str:
    """Return `name`, or raise a `ControlProgramError` that names `where` if it is not a str."""
    if not isinstance(name, str):
        raise ControlProgramError(f"""{where} got the name {shown(name)}, which is not text.
            next:  give a name in quotes, as in Repeat(10, body, "training"), or leave it out.""")
    return str(name)


def _program(argument: object, where: str) -> Program:
    if isinstance(argument, Program):
        return argument
    if isinstance(argument, ComputeSet):
        raise ControlProgramError(f"""{where} was given the compute set {argument.name!r}.
            next:  wrap it: Execute(compute_set).""")
    if isinstance(argument, type) and issubclass(argument, Program):
        raise ControlProgramError(f"""{where} was given the class {argument.__name__} instead
            of a program.
            next:  make one: {argument.__name__}(…).""")
    raise ControlProgramError(f"""{where} was given {shown(argument)}, which is not a program.
        next:  give Execute, Copy, Repeat or Sequence.""")


# iterable types that must not be read as lists of programs
_NO_LISTS = (str, bytes, dict, Tensor, np.ndarray)


def _check_ordered(value: object, where: str, instead: str) -> None:
    """Raise `ControlProgramError` if `value` is a set, whose order differs between processes.

    Users of C++ type a list in braces, which is a set in Python. `instead` is the advice of the
    error.
    """
    if isinstance(value, (set, frozenset)):
        raise ControlProgramError(f"""{where} got a set of {counted(len(value), "item")}, and a set
            has no order.
            next:  {instead}.""")


class Sequence(Program):
    """A list of programs that run one after another: `Sequence(a, b)` or `Sequence([a, b])`.

    `add` appends a program.
    """

    def __init__(self, *programs: Program | Iterable[Program], name: str = "") -> None:
        self.name = str(name)
        self.programs: list[Program] = []
        for argument in programs:
            _check_ordered(argument, "Sequence", "write Sequence(first, second), without braces")
            several = isinstance(argument, Iterable) and not isinstance(
                argument, (Program, *_NO_LISTS)
            )
            for item in cast("Iterable[Program]", argument if several else [argument]):
                self.add(item)

    def add(self, program: Program) -> Sequence:
        """Append one program and return this Sequence."""
        _check_ordered(program, "Sequence", "add one program at a time: .add(first).add(second)")
        self.programs.append(_program(program, "Sequence"))
        return self

    append = add  # the name that Python's lists use

    def children(self) -> tuple[Program, ...]:
        return tuple(self.programs)

    def _title(self, *inside: Program) -> str:
        return f"Sequence({self.name})"

    def __repr__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        return f"Sequence({name}{counted(len(self.programs), 'program')})"


class Execute(Program):
    """Run a compute set: one superstep of sync, exchange and compute.

    `out` is a BOOL tensor of one element. It becomes true if `compute()` of every vertex returned
    true or nothing, and false otherwise.
    """

    def __init__(self, compute_set: ComputeSet, out: Tensor | None = None, name: str = "") -> None:
        self.name = _debug_name(name, "Execute")
        if not isinstance(compute_set, ComputeSet):
            raise ControlProgramError(f"""Execute was given {shown(compute_set)}.
                next:  give a compute set made with graph.add_compute_set.""")
        self.compute_set = compute_set
        self.out = None if out is None else _single(out, "Execute", "out", (BOOL,))

    def _title(self, *inside: Program) -> str:
        return f"Execute({self.compute_set.name})"


Side = Tensor | DataStream | RemoteBuffer


class Copy(Program):
    """Copy elements between tensors, or between a tensor and a stream or remote buffer.

    Elements are copied in the order of the two views. Both sides have the same number of elements
    and the same dtype; their shapes may differ. Raises `ControlProgramError` and
    `PoplarTypeError`.

    With a remote buffer, `offset` is a tensor of row numbers (UNSIGNED_INT or INT), which the
    device reads each time the copy runs. The tensor on the other side holds one row for each
    number, one after another. Without `offset` the copy moves row 0. A row number that the buffer
    does not have stops the run with an `ApplicationRuntimeError`.
    """

    def __init__(
        self,
        source: Side,
        destination: Side,
        offset: Tensor | None = None,
        name: str = "",
    ) -> None:
        self.name = _debug_name(name, "Copy")
        for side in (source, destination):
            if not isinstance(side, (Tensor, DataStream, RemoteBuffer)):
                raise ControlProgramError(f"""Copy was given {shown(side)}.
                    next:  copy between tensors, streams and remote buffers.""")
        rows = _check_rows(source, destination, offset)
        if isinstance(source, DataStream) and isinstance(destination, DataStream):
            raise ControlProgramError(f"""Copy was given two streams.
                where: {source!r} to {destination!r}
                next:  copy from the first into a tensor, and from the tensor into the second.""")
        if isinstance(source, DataStream) and not source.to_device:
            raise ControlProgramError(f"""Copy reads from the stream {source.handle!r}, which runs
                from device to host.
                where: {source!r}
                next:  write Copy(tensor, stream), or make the stream with
                graph.add_host_to_device_fifo.""")
        if isinstance(destination, DataStream) and destination.to_device:
            raise ControlProgramError(f"""Copy writes to the stream {destination.handle!r}, which
                runs from host to device.
                where: {destination!r}
                next:  write Copy(stream, tensor), or make the stream with
                graph.add_device_to_host_fifo.""")
        if (
            isinstance(source, Tensor)
            and isinstance(destination, Tensor)
            and source.graph is not destination.graph
        ):
            raise ControlProgramError(f"""Copy was given tensors of two graphs.
                where: {source!r} to {destination!r}
                next:  use one graph throughout.""")
        for stream, tensor in ((source, destination), (destination, source)):
            if isinstance(stream, DataStream):
                _check_replicas(stream, tensor, f"{source!r} to {destination!r}")
        if source.dtype is not destination.dtype:
            raise PoplarTypeError(f"""Copy was given a source of {source.dtype.__name__} and a
                destination of {destination.dtype.__name__}.
                where: {source!r} to {destination!r}
                next:  use one dtype for both, or convert with popops.cast first: a copy moves bits
                as they are.""")
        if rows is None and source.num_elements != destination.num_elements:
            raise ControlProgramError(f"""Copy was given a source of {source.num_elements:,}
                elements and a destination of {destination.num_elements:,}.
                where: {source!r} to {destination!r}
                next:  make both sides equal: slice the longer one, or change the size of the
                stream.""")
        self.source = source
        self.destination = destination
        self.offset = offset
        self.line = caller()

    def _title(self, *inside: Program) -> str:
        def name(side: Side) -> str:
            return side.graph.describe(side) if isinstance(side, Tensor) else side.handle

        rows = "" if self.offset is None else f", rows {name(self.offset)}"
        return f"{type(self).__name__}({name(self.source)} to {name(self.destination)}{rows})"


class CrossReplicaCopy(Copy):
    """Copy `source` of each replica to `destination` of another replica, in one step.

    `replica_map` maps each replica that sends to the replica that receives, and is a permutation:
    {0: 1, 1: 0} swaps two. Raises `ControlProgramError` and `PoplarTypeError`.
    """

    source: Tensor
    destination: Tensor

    def __init__(self, source: Tensor, destination: Tensor, replica_map: Mapping[int, int]) -> None:
        if not isinstance(source, Tensor) or not isinstance(destination, Tensor):
            raise ControlProgramError(f"""CrossReplicaCopy was given
                {shown(destination if isinstance(source, Tensor) else source)}.
                next:  give two tensors of a replicated graph.""")
        super().__init__(source, destination)
        replicas = range(source.graph.get_replication_factor())
        replica_of = dict(replica_map) if isinstance(replica_map, Mapping) else {}
        if not all(map(is_whole, (*replica_of, *replica_of.values()))) or not (
            sorted(replica_of) == sorted(replica_of.values()) == list(replicas)
        ):
            raise ControlProgramError(f"""CrossReplicaCopy was given the map {shown(replica_map)},
                which is not a permutation of {counted(len(replicas), "replica")}.
                where: {source!r} to {destination!r}
                next:  give each of the replicas 0 to {len(replicas) - 1} once as a source and once
                as a destination: {{r: (r + 1) % {len(replicas)} for r in
                range({len(replicas)})}}.""")
        self.replica_map = {int(i): int(j) for i, j in sorted(replica_of.items())}

    @property
    def sources(self) -> list[int]:
        """The replica that each replica receives from: list[replicas]."""
        return sorted(self.replica_map, key=self.replica_map.__getitem__)

    def _title(self, *inside: Program) -> str:
        pairs = [f"{i} to {j}" for i, j in self.replica_map.items()]
        ellipsis = ", …" if len(pairs) > 4 else ""
        return f"{super()._title()[:-1]}, replicas {', '.join(pairs[:4])}{ellipsis})"


def _check_rows(source: Side, destination: Side, offset: object) -> int | None:
    """Return the number of rows that a copy with a remote buffer moves; None for other copies.

    Raises `ControlProgramError` if a side or `offset` does not fit the buffer.
    """
    both = f"{source!r} to {destination!r}"
    sides = [side for side in (source, destination) if isinstance(side, RemoteBuffer)]
    if not sides:
        if offset is not None:
            raise ControlProgramError(f"""Copy was given the offset {shown(offset)}, but no remote
                buffer.
                where: {both}
                next:  leave it out; to move a part of a tensor, slice the tensor.""")
        return None
    tensor = destination if sides[0] is source else source
    if not isinstance(tensor, Tensor):
        raise ControlProgramError(f"""Copy was given a remote buffer but no tensor.
            where: {both}
            next:  copy from the first into a tensor, and from the tensor into the second.""")
    if offset is not None:
        if not isinstance(offset, Tensor) or offset.dtype not in CONTROLS:
            raise ControlProgramError(f"""Copy was given the offset {shown(offset)}.
                where: {both}
                next:  give a tensor of row numbers, UNSIGNED_INT or INT; a constant will do:
                graph.add_constant.""")
        if offset.graph is not tensor.graph:
            raise ControlProgramError(f"""Copy was given tensors of two graphs.
                where: {tensor!r}, and the offset {offset!r}
                next:  use one graph throughout.""")
    _check_replicas(sides[0], tensor, both)
    alone = 1 if tensor.graph.replicas == 1 else sides[0].replicas
    rows = alone if offset is None else offset.num_elements
    wanted = rows * sides[0].num_elements
    if tensor.dtype is sides[0].dtype and tensor.num_elements != wanted:
        raise ControlProgramError(f"""Copy moves {counted(rows, "row")} of
            {counted(sides[0].num_elements, "element")}, {wanted:,} in all, and was given a tensor
            of {tensor.num_elements:,}.
            where: {both}
            next:  slice the tensor, or give an offset with one number for each row: Copy(tensor,
            buffer, offset).""")
    return rows


def _check_replicas(side: DataStream | RemoteBuffer, tensor: Side, both: str) -> None:
    """Raise `ControlProgramError` if only one of the two belongs to a replicated graph.

    `both` describes the two sides in the error.
    """
    replication = tensor.graph.replication if isinstance(tensor, Tensor) else None
    if replication is not None and not replication.fits(side.replicas):
        raise ControlProgramError(f"""Copy was given a tensor of
            {counted(replication.count, "replica")}, and {side.handle!r}, which has
            {side.replicas:,}.
            where: {both}
            next:  make both with one graph: the replicated one, or its top-level graph.""")


class Repeat(Program):
    """Run `body` `count` times; the count is fixed when the program is compiled and may be 0.

    `name` is the loop's name in reports and in `show.program`.
    """

    _said = ("count",)
    _inside = ("body",)

    def __init__(self, count: int, body: Program, name: str = "") -> None:
        if not is_whole(count) or not 0 <= count <= MOST_REPEATS:
            raise ControlProgramError(f"""Repeat was given the count {shown(count)}.
                next:  give a whole number from 0 to {MOST_REPEATS:,}, and then the program:
                Repeat(10, body).""")
        self.count = int(count)
        self.body = _program(body, "Repeat")
        self.name = _debug_name(name, "Repeat")


class _While(Program):
    _said = ("predicate",)
    _inside = ("condition", "body")

    def __init__(
        self, condition: Program, predicate: Tensor, body: Program, name: str = ""
    ) -> None:
        kind = type(self).__name__
        self.condition = _program(condition, kind)
        self.predicate = _single(predicate, kind, "predicate", PREDICATES)
        self.body = _program(body, kind)
        self.name = _debug_name(name, kind)

    def __repr__(self) -> str:
        return self._title(self.body)


class RepeatWhileTrue(_While):
    """Run `condition`; while `predicate` is not zero, run `body` and `condition` again.

    `predicate` is a tensor of one element, BOOL or integer, which the device reads after
    `condition` has run.
    """


class RepeatWhileFalse(_While):
    """Run `condition`; while `predicate` is zero, run `body` and `condition` again.

    `predicate` is a tensor of one element, BOOL or integer, which the device reads after
    `condition` has run.
    """


class If(Program):
    """Run `then` if `predicate` is not zero, else `otherwise`.

    `predicate` is a tensor of one element, BOOL or integer. Without `otherwise`, nothing runs if it
    is zero.
    """

    _said = ("predicate",)
    _inside = ("then", "otherwise")

    def __init__(
        self,
        predicate: Tensor,
        then: Program,
        otherwise: Program | None = None,
        name: str = "",
    ) -> None:
        self.name = _debug_name(name, "If")
        self.predicate = _single(predicate, "If", "predicate", PREDICATES)
        self.then = _program(then, "If")
        self.otherwise = Sequence() if otherwise is None else _program(otherwise, "If")


class Switch(Program):
    """Run the case whose number equals `control`, or else `default`.

    `control` is a tensor of one element, INT or UNSIGNED_INT. `cases` is a dict or an iterable of
    (number, program) pairs; `add` appends one. If no case fits and there is no default, nothing
    runs; a Switch from `switch_with_bounds_checking` stops the run with an
    `ApplicationRuntimeError` instead.
    """

    def __init__(
        self,
        control: Tensor,
        cases: Mapping[int, Program] | Iterable[tuple[int, Program]] = (),
        default: Program | None = None,
        name: str = "",
    ) -> None:
        self.name = _debug_name(name, "Switch")
        self.control = _single(control, "Switch", "control", CONTROLS)
        self.cases: dict[int, Program] = {}
        self.default = Sequence() if default is None else _program(default, "Switch")
        self.checked = False
        _check_ordered(cases, "Switch", "give a list of pairs: [(0, first), (1, second)]")
        pairs = cases.items() if isinstance(cases, Mapping) else cases
        try:
            listed = [(number, program) for number, program in pairs]
        except (TypeError, ValueError):
            raise ControlProgramError(f"""Switch was given the cases {shown(cases)}.
                next:  give pairs: [(0, first), (1, second)].""") from None
        for number, program in listed:
            self.add(number, program)

    @classmethod
    def switch_with_bounds_checking(
        cls, control: Tensor, cases: Mapping[int, Program] | Iterable[tuple[int, Program]] = ()
    ) -> Switch:
        """Return a Switch that stops the run with an `ApplicationRuntimeError` if no case fits."""
        switch = cls(control, cases)
        switch.checked = True
        return switch

    @classmethod
    def switch_with_unreachable_default(
        cls, control: Tensor, cases: Mapping[int, Program] | Iterable[tuple[int, Program]] = ()
    ) -> Switch:
        """Return a Switch for a `control` that always equals the number of a case.

        The engine checks that, as for `switch_with_bounds_checking`: if no case fits, the run stops
        with an `ApplicationRuntimeError`.
        """
        return cls.switch_with_bounds_checking(control, cases)

    def add(self, number: int, program: Program) -> Switch:
        """Append the case `number` and return this Switch."""
        if not is_whole(number) or int(number) in self.cases:
            raise ControlProgramError(
                f"Switch was given the case {shown(number)}.",
                next_step="give whole numbers, each once.",
            )
        self.cases[int(number)] = _program(program, "Switch")
        return self

    def children(self) -> tuple[Program, ...]:
        return (*self.cases.values(), self.default)

    def _title(self, *inside: Program) -> str:
        return f"Switch({self.control.graph.describe(self.control)}, cases {sorted(self.cases)})"


class Call(Program):
    """Run a function that `graph.add_function(program)` returned.

    The tiles store the code of the function once, however many calls there are.
    """

    _inside = ("body",)

    def __init__(self, function: Function, name: str = "") -> None:
        self.name = _debug_name(name, "Call")
        if not isinstance(function, Function):
            raise ControlProgramError(f"""Call was given {shown(function)}.
                next:  give what graph.add_function(program) returned.""")
        self.function = function
        self.body = _program(function.program, "Call")

    def _title(self, *inside: Program) -> str:
        return f"Call({self.function.name})"


class Block(Program):
    """A program with a name in the profile; `report.execution.blocks(tile)` lists when it ran."""

    _said = ("name",)
    _inside = ("body",)

    def __init__(self, body: Program, name: str) -> None:
        self.body = _program(body, "Block")
        self.name = str(name)


@dataclass(frozen=True)
class PrintTensorFmt:
    """The format in which PrintTensor writes numbers: Poplar's fields, in snake_case."""

    summarise_threshold: int = 1000
    edge_items: int = 3
    max_line_width: int = 75
    digits: int = 7
    separator: str = " "
    open_bracket: str = "["
    close_bracket: str = "]"


class PrintTensor(Program):
    """Print a tensor during the run: `PrintTensor(tensor)` or `PrintTensor("title", tensor)`.

    The text goes to standard error, or to the file given to `Engine.set_print_tensor_stream`.
    """

    _said = ("title",)

    def __init__(
        self, title: str | Tensor, tensor: Tensor | None = None, fmt: PrintTensorFmt | None = None
    ) -> None:
        shown_title = title if tensor is None else tensor
        if not isinstance(shown_title, Tensor) or (
            tensor is not None and not isinstance(title, str)
        ):
            raise ControlProgramError(
                f"PrintTensor was given {shown(title)}"
                + (f" and {shown(tensor)}." if tensor is not None else "."),
                next_step='write PrintTensor(tensor) or PrintTensor("title", tensor).',
            )
        self.tensor = shown_title
        self.title = (
            title if isinstance(title, str) else shown_title.graph.describe(shown_title).strip("'")
        )
        self.fmt = fmt if fmt is not None else PrintTensorFmt()


class WriteUndef(Program):
    """Mark a tensor as unwritten. Reading it before it is written again is an error."""

    _said = ("tensor",)

    def __init__(self, tensor: Tensor, name: str = "") -> None:
        self.name = _debug_name(name, "WriteUndef")
        if not isinstance(tensor, Tensor):
            raise ControlProgramError(
                f"WriteUndef was given {shown(tensor)}.", next_step="give a tensor."
            )
        self.tensor = tensor


class SyncType(Enum):
    """The participants of a sync: the tiles of each IPU, all IPUs, or all IPUs and the host."""

    INTERNAL = "INTERNAL"
    EXTERNAL = "EXTERNAL"
    GLOBAL = "GLOBAL"


class Sync(Program):
    """Make all tiles wait for each other."""

    def __init__(self, sync_type: SyncType = SyncType.INTERNAL, name: str = "") -> None:
        self.name = _debug_name(name, "Sync")
        if not isinstance(sync_type, SyncType):
            raise ControlProgramError(f"""Sync was given {shown(sync_type)}.
                next:  give SyncType.INTERNAL, EXTERNAL or GLOBAL.""")
        self.sync_type = sync_type

    def _title(self, *inside: Program) -> str:
        return f"Sync({self.sync_type.value})"


class Abort(Program):
    """Stop the run with an `ApplicationRuntimeError` that carries `message`."""

    _said = ("message",)

    def __init__(self, message: str = "") -> None:
        self.message = str(message)


class AbortOnCondition(Program):
    """Stop the run with an `ApplicationRuntimeError` if `predicate` is not zero.

    `predicate` is a tensor of one element, BOOL or integer.
    """

    _said = ("predicate", "message")

    def __init__(self, predicate: Tensor, message: str = "") -> None:
        self.predicate = _single(predicate, "AbortOnCondition", "predicate", PREDICATES)
        self.message = str(message)


class AssumeEqualAcrossReplicas(Program):
    """Check that `tensor` has equal elements in all replicas.

    If it does not, the run stops with an `ApplicationRuntimeError`.
    """

    _said = ("tensor",)

    def __init__(self, tensor: Tensor, name: str = "") -> None:
        if not isinstance(tensor, Tensor) or tensor.graph.replication.part is not None:
            raise ControlProgramError(
                f"AssumeEqualAcrossReplicas was given {shown(tensor)}.",
                next_step="give a tensor of a replicated graph.",
            )
        self.tensor = tensor
        self.name = str(name)


class ErrorProgram(Program):
    """Run `program`, then stop with an `ApplicationRuntimeError` that carries `message`.

    `program` can, for example, print the tensors that caused the error.
    """

    _said = ("message",)
    _inside = ("body",)

    def __init__(self, message: str, program: Program) -> None:
        self.message = str(message)
        self.body = _program(program, "ErrorProgram")

    def __repr__(self) -> str:
        return self._title()


class CycleStamp(Program):
    """Write the modelled time in cycles into `tensor`, as (low word, high word).

    The time is the number of cycles since load. With `since`, the tensor of an earlier stamp, it is
    the number of cycles between the two stamps. With several IPUs, the clock is that of the IPU on
    which `tensor` is mapped. `cycle_count` and `cycle_stamp` build such programs.
    """

    _said = ("tensor",)

    def __init__(self, tensor: Tensor, since: Tensor | None = None) -> None:
        self.tensor = tensor
        self.since = since


def cycle_stamp(
    graph: Graph, sequence: Sequence, tile: int, sync_type: SyncType = SyncType.INTERNAL
) -> Tensor:
    """Append a sync and a time stamp to `sequence`, and return the tensor of the stamp.

    The tensor is UNSIGNED_INT[2] on `tile`: the low and the high 32 bits of the modelled cycles
    since load.
    """
    stamp = _stamp(graph, tile, "cycle_stamp")
    _program(sequence, "cycle_stamp")
    sequence.add(Sync(sync_type)).add(CycleStamp(stamp))
    return stamp


def cycle_count(
    graph: Graph,
    sequence: Sequence,
    tile: int,
    sync_type: SyncType | str = SyncType.INTERNAL,
    debug_context: str = "cycle_count",
) -> Tensor:
    """Put the programs of `sequence` between two time stamps, and return the cycles between them.

    The tensor is UNSIGNED_INT[2] on `tile`: the low and the high 32 bits of the modelled cycles.
    The sync before the first stamp is not counted. `debug_context`, the name of the tensor, may
    take the place of `sync_type`.
    """
    if not isinstance(sequence, Sequence):
        raise ControlProgramError(
            f"cycle_count was given {shown(sequence)}.", next_step="give a Sequence; it is changed."
        )
    sync = SyncType.INTERNAL if isinstance(sync_type, str) else sync_type
    name = sync_type if isinstance(sync_type, str) else debug_context
    begin = _stamp(graph, tile, f"{name}/begin")
    count = _stamp(graph, tile, name)
    sequence.programs[:] = [
        Sync(sync),
        CycleStamp(begin),
        *sequence.programs,
        CycleStamp(count, begin),
    ]
    return count


def _stamp(graph: Graph, tile: int, name: str) -> Tensor:
    if not isinstance(graph, Graph):
        raise ControlProgramError(
            f"The time stamp was given {shown(graph)} as its graph.",
            next_step="give the graph first.",
        )
    tensor = graph.add_variable(UNSIGNED_INT, (2,), name)
    graph.set_tile_mapping(tensor, tile)
    return tensor


def _single(tensor: object, program: str, role: str, dtypes: tuple[type[DType], ...]) -> Tensor:
    """Return `tensor` if it has one element, of one of `dtypes`; otherwise raise an error.

    The error names the program and the role of the tensor in it.
    """
    names = ", ".join(d.__name__ for d in dtypes)
    if not isinstance(tensor, Tensor):
        raise ControlProgramError(f"""{program} was given {shown(tensor)} as its {role}.
            next:  give a tensor of one element ({names}).""")
    is_single = tensor.num_elements in (1, tensor.graph.replicas)
    if not is_single or tensor.dtype not in dtypes:
        compared = is_single and role == "predicate"
        advice = "compare it, as popops.gt does" if compared else "index the tensor"
        raise ControlProgramError(f"""{program} takes a {role} of one element and was given
            {tensor.num_elements:,} of {tensor.dtype.__name__}.
            where: {tensor!r}
            next:  {advice}; its element type is one of {names}.""")
    return tensor


NOT_HERE = {
    **dict.fromkeys(("Loop", "While"), "Repeat, RepeatWhileTrue or RepeatWhileFalse."),
}


def __getattr__(name: str) -> NoReturn:
    public_names = [n for n, v in globals().items() if getattr(v, "__module__", "") == __name__]
    raise not_in(__name__, name, NOT_HERE, public_names)
