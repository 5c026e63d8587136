"""Control programs, which define what runs in which order.

A program is a tree of programs. Building it runs nothing: an Engine compiles it, and `Engine.run`
runs it. Most wrong arguments raise `ControlProgramError`.
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

# The maximum of a Repeat's count. An iteration takes some microseconds, so a longer loop would run
# for weeks.
MOST_REPEATS = 10**12


class Program(WithoutSome):
    """The base class of all control programs."""

    name = ""  # The program's name in reports and pictures. Poplar calls it the debug context.

    _said: ClassVar[tuple[str, ...]] = ()  # The names of the attributes that `_title` shows.
    _inside: ClassVar[tuple[str, ...]] = ()  # The names of the attributes that contain programs.

    def children(self) -> tuple[Program, ...]:
        """Return the programs inside this one, in order."""
        return tuple(getattr(self, name) for name in self._inside)

    def to_string(self) -> str:
        """Return the tree of the program as indented text, with a line for each program."""
        child_lines = [line for child in self.children() for line in child.to_string().split("\n")]
        return "\n".join([self._title(), *("  " + line for line in child_lines)])

    def _title(self, *programs: Program) -> str:
        """Return this program as one line, such as `Repeat(10, Sequence(2 programs))`.

        The string consists of the class's name and, in parentheses, the attributes named in
        `_said`, followed by `programs`.
        """
        values = (*(getattr(self, name) for name in self._said), *programs)
        texts = (
            value.graph.describe(value) if isinstance(value, Tensor) else repr(value)
            for value in values
        )
        return f"{type(self).__name__}({', '.join(texts)})"

    def __repr__(self) -> str:
        return self._title(*self.children())


def _debug_name(name: object, where: str) -> str:
    """Return `name`; if it is not a string, raise a `ControlProgramError` that names `where`."""
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
            next:  create an instance: {argument.__name__}(…).""")
    raise ControlProgramError(f"""{where} was given {shown(argument)}, which is not a program.
        next:  give Execute, Copy, Repeat or Sequence.""")


# Objects of these types are iterable, but they are not lists of programs.
_NO_LISTS = (str, bytes, dict, Tensor, np.ndarray)


def _check_ordered(value: object, where: str, instead: str) -> None:
    """Raise `ControlProgramError` if `value` is a set, whose order differs between processes.

    This is a likely mistake: in C++, a list is written in braces, which make a set in Python.
    `where` is the name of the program in the error, and `instead` is the advice that it gives.
    """
    if isinstance(value, (set, frozenset)):
        raise ControlProgramError(f"""{where} got a set of {counted(len(value), "item")}, but a set
            has no order.
            next:  {instead}.""")


class Sequence(Program):
    """A list of programs that run one after another: `Sequence(a, b)` or `Sequence([a, b])`.

    `add` appends a program. Raises `ControlProgramError` if an item is not a program.
    """

    def __init__(self, *programs: Program | Iterable[Program], name: str = "") -> None:
        self.name = str(name)
        self.programs: list[Program] = []
        for argument in programs:
            _check_ordered(argument, "Sequence", "write Sequence(first, second), without braces")
            is_list_of_programs = isinstance(argument, Iterable) and not isinstance(
                argument, (Program, *_NO_LISTS)
            )
            for item in cast("Iterable[Program]", argument if is_list_of_programs else [argument]):
                self.add(item)

    def add(self, program: Program) -> Sequence:
        """Append one program and return this Sequence."""
        _check_ordered(program, "Sequence", "add one program at a time: .add(first).add(second)")
        self.programs.append(_program(program, "Sequence"))
        return self

    append = add  # Lists in Python call this method `append`.

    def children(self) -> tuple[Program, ...]:
        return tuple(self.programs)

    def _title(self, *inside: Program) -> str:
        return f"Sequence({self.name})"

    def __repr__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        return f"Sequence({name}{counted(len(self.programs), 'program')})"


class Execute(Program):
    """Run a compute set: one superstep of sync, exchange and compute.

    If `out` is given, it is a BOOL tensor of one element, which becomes false if `compute()` of any
    vertex returns false, and true otherwise.

    :raises ControlProgramError: if `compute_set` is not a compute set, or if `out` does not fit.
    """

    def __init__(self, compute_set: ComputeSet, out: Tensor | None = None, name: str = "") -> None:
        self.name = _debug_name(name, "Execute")
        if not isinstance(compute_set, ComputeSet):
            raise ControlProgramError(f"""Execute was given {shown(compute_set)}, which is
                not a compute set.
                next:  give a compute set made with graph.add_compute_set.""")
        self.compute_set = compute_set
        self.out = None if out is None else _single(out, "Execute", "out", (BOOL,))

    def _title(self, *inside: Program) -> str:
        return f"Execute({self.compute_set.name})"


Side = Tensor | DataStream | RemoteBuffer


class Copy(Program):
    """Copy elements between tensors, or between a tensor and a stream or remote buffer.

    Elements are copied in the order of the two flattened views. Both sides must have the same
    number of elements and the same dtype; their shapes may differ.

    A copy from or to a remote buffer moves rows of the buffer. `offset` is a tensor with the number
    of each row (UNSIGNED_INT or INT), which the device reads each time the copy runs. The tensor on
    the other side of the copy contains these rows, one after another. Without `offset`, the copy
    moves row 0. If the buffer does not have a row with such a number, the run stops with an
    `ApplicationRuntimeError`.

    Raises `PoplarTypeError` if the dtypes differ, and `ControlProgramError` if the two sides do not
    fit each other in any other way.
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
                raise ControlProgramError(f"""Copy was given {shown(side)}, which is
                    neither a tensor nor a stream nor a remote buffer.
                    next:  copy between tensors, streams and remote buffers.""")
        num_rows = _check_rows(source, destination, offset)
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
        if num_rows is None and source.num_elements != destination.num_elements:
            raise ControlProgramError(f"""Copy was given a source of {source.num_elements:,}
                elements and a destination of {destination.num_elements:,}.
                where: {source!r} to {destination!r}
                next:  make both sides equally long: slice the longer one, or change the size of the
                stream.""")
        self.source = source
        self.destination = destination
        self.offset = offset
        self.line = caller()

    def _title(self, *inside: Program) -> str:
        def name_of(side: Side) -> str:
            return side.graph.describe(side) if isinstance(side, Tensor) else side.handle

        rows_text = "" if self.offset is None else f", rows {name_of(self.offset)}"
        return (
            f"{type(self).__name__}({name_of(self.source)} to "
            f"{name_of(self.destination)}{rows_text})"
        )


class CrossReplicaCopy(Copy):
    """Copy `source` of each replica to `destination` of this or another replica, in one step.

    `replica_map` maps each sending replica to the replica that receives its data. It must be a
    permutation of all replicas: {0: 1, 1: 0} swaps the data of two replicas.

    :raises ControlProgramError: if `replica_map` is not such a permutation, or if the two sides are
        not tensors that fit each other.
    :raises PoplarTypeError: if the dtypes differ.
    """

    source: Tensor
    destination: Tensor

    def __init__(self, source: Tensor, destination: Tensor, replica_map: Mapping[int, int]) -> None:
        if not isinstance(source, Tensor) or not isinstance(destination, Tensor):
            raise ControlProgramError(f"""CrossReplicaCopy was given
                {shown(destination if isinstance(source, Tensor) else source)}, which is not a
                tensor.
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
        self.replica_map = {
            int(sender): int(receiver) for sender, receiver in sorted(replica_of.items())
        }

    @property
    def sources(self) -> list[int]:
        """A list with, for each replica, the number of the replica from which it receives."""
        return sorted(self.replica_map, key=self.replica_map.__getitem__)

    def _title(self, *inside: Program) -> str:
        pair_texts = [f"{sender} to {receiver}" for sender, receiver in self.replica_map.items()]
        ellipsis = ", …" if len(pair_texts) > 4 else ""
        return f"{super()._title()[:-1]}, replicas {', '.join(pair_texts[:4])}{ellipsis})"


def _check_rows(source: Side, destination: Side, offset: object) -> int | None:
    """Return the number of rows that a copy with a remote buffer moves; None for any other copy.

    Raises `ControlProgramError` if the tensor, `offset` and the buffer do not fit each other.
    """
    both_sides = f"{source!r} to {destination!r}"
    buffers = [side for side in (source, destination) if isinstance(side, RemoteBuffer)]
    if not buffers:
        if offset is not None:
            raise ControlProgramError(f"""Copy was given the offset {shown(offset)}, but no remote
                buffer.
                where: {both_sides}
                next:  leave out the offset. To copy a part of a tensor, slice the tensor.""")
        return None
    tensor = destination if buffers[0] is source else source
    if not isinstance(tensor, Tensor):
        raise ControlProgramError(f"""Copy was given a remote buffer but no tensor.
            where: {both_sides}
            next:  copy from the first into a tensor, and from the tensor into the second.""")
    if offset is not None:
        if not isinstance(offset, Tensor) or offset.dtype not in CONTROLS:
            raise ControlProgramError(f"""Copy was given the offset {shown(offset)}, which
                is not a tensor of row numbers.
                where: {both_sides}
                next:  give a tensor of UNSIGNED_INT or INT, such as a constant that
                graph.add_constant returned.""")
        if offset.graph is not tensor.graph:
            raise ControlProgramError(f"""Copy was given tensors of two graphs.
                where: {tensor!r}, and the offset {offset!r}
                next:  use one graph throughout.""")
    _check_replicas(buffers[0], tensor, both_sides)
    rows_without_offset = 1 if tensor.graph.replicas == 1 else buffers[0].replicas
    num_rows = rows_without_offset if offset is None else offset.num_elements
    num_elements = num_rows * buffers[0].num_elements
    if tensor.dtype is buffers[0].dtype and tensor.num_elements != num_elements:
        raise ControlProgramError(f"""Copy moves {counted(num_rows, "row")} of
            {counted(buffers[0].num_elements, "element")}, {num_elements:,} in all, but was given a
            tensor of {counted(tensor.num_elements, "element")}.
            where: {both_sides}
            next:  slice the tensor, or give an offset with one number for each row: Copy(tensor,
            buffer, offset).""")
    return num_rows


def _check_replicas(side: DataStream | RemoteBuffer, tensor: Side, both_sides: str) -> None:
    """Raise `ControlProgramError` if `side` and `tensor` have different numbers of replicas.

    `both_sides` describes the two sides of the copy in the error.
    """
    replication = tensor.graph.replication if isinstance(tensor, Tensor) else None
    if replication is not None and not replication.fits(side.replicas):
        raise ControlProgramError(f"""Copy was given a tensor of
            {counted(replication.count, "replica")}, but {side.handle!r} has
            {counted(side.replicas, "replica")}.
            where: {both_sides}
            next:  create both with the same graph: the replicated graph or its top-level graph.""")


class Repeat(Program):
    """Run `body` `count` times.

    `count` is fixed when the program is compiled, and may be 0. `name` is the loop's name in
    reports and in `show.program`.

    :raises ControlProgramError: if `count` is not an integer from 0 to 10**12, or `body` is not a
        program.
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

    `predicate` is a tensor of one element, BOOL or integer. If `predicate` is zero and there is no
    `otherwise`, nothing runs.
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
    """Run the case whose number equals `control`; if there is none, run `default`.

    `control` is a tensor of one element, INT or UNSIGNED_INT. `cases` is a dict or an iterable of
    (number, program) pairs; `add` appends a case. If no case has the number and there is no
    default, nothing runs. In this situation, a Switch that `switch_with_bounds_checking` built
    stops the run with an `ApplicationRuntimeError`.
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
            case_list = [(number, program) for number, program in pairs]
        except (TypeError, ValueError):
            raise ControlProgramError(f"""Switch was given the cases {shown(cases)}, which
                are not pairs of a number and a program.
                next:  give pairs: [(0, first), (1, second)].""") from None
        for number, program in case_list:
            self.add(number, program)

    @classmethod
    def switch_with_bounds_checking(
        cls, control: Tensor, cases: Mapping[int, Program] | Iterable[tuple[int, Program]] = ()
    ) -> Switch:
        """Return a Switch that stops the run with `ApplicationRuntimeError` if no case fits."""
        switch = cls(control, cases)
        switch.checked = True
        return switch

    @classmethod
    def switch_with_unreachable_default(
        cls, control: Tensor, cases: Mapping[int, Program] | Iterable[tuple[int, Program]] = ()
    ) -> Switch:
        """Return a Switch for a `control` that is guaranteed to equal the number of a case.

        The engine checks the guarantee: if no case fits, the run stops with an
        `ApplicationRuntimeError`.
        """
        return cls.switch_with_bounds_checking(control, cases)

    def add(self, number: int, program: Program) -> Switch:
        """Append the case `number` and return this Switch.

        :raises ControlProgramError: if `number` is not an integer, if the Switch already has a case
            with this number, or if `program` is not a program.
        """
        if not is_whole(number) or int(number) in self.cases:
            fault = " twice" if is_whole(number) else ", which is not a whole number"
            raise ControlProgramError(
                f"Switch was given the case {shown(number)}{fault}.",
                next_step="give each case a whole number of its own.",
            )
        self.cases[int(number)] = _program(program, "Switch")
        return self

    def children(self) -> tuple[Program, ...]:
        return (*self.cases.values(), self.default)

    def _title(self, *inside: Program) -> str:
        return f"Switch({self.control.graph.describe(self.control)}, cases {sorted(self.cases)})"


class Call(Program):
    """Run a function that `graph.add_function(program)` returned.

    The tiles store the code of the function only once, even if there are many calls.
    """

    _inside = ("body",)

    def __init__(self, function: Function, name: str = "") -> None:
        self.name = _debug_name(name, "Call")
        if not isinstance(function, Function):
            raise ControlProgramError(f"""Call was given {shown(function)}, which is not a
                function of a graph.
                next:  give the function that graph.add_function(program) returned.""")
        self.function = function
        self.body = _program(function.program, "Call")

    def _title(self, *inside: Program) -> str:
        return f"Call({self.function.name})"


class Block(Program):
    """A program with a name in reports; `report.execution.blocks(tile)` lists its executions."""

    _said = ("name",)
    _inside = ("body",)

    def __init__(self, body: Program, name: str) -> None:
        self.body = _program(body, "Block")
        self.name = str(name)


@dataclass(frozen=True)
class PrintTensorFmt:
    """The format in which `PrintTensor` writes numbers, with Poplar's field names in snake case."""

    summarise_threshold: int = 1000
    edge_items: int = 3
    max_line_width: int = 75
    digits: int = 7
    separator: str = " "
    open_bracket: str = "["
    close_bracket: str = "]"


class PrintTensor(Program):
    """Print a tensor during the run: `PrintTensor(tensor)` or `PrintTensor("title", tensor)`.

    The output goes to standard error, or to the file given to `Engine.set_print_tensor_stream`.
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
    """Mark a tensor as unwritten, so that reading it before the next write is an error."""

    _said = ("tensor",)

    def __init__(self, tensor: Tensor, name: str = "") -> None:
        self.name = _debug_name(name, "WriteUndef")
        if not isinstance(tensor, Tensor):
            raise ControlProgramError(
                f"WriteUndef was given {shown(tensor)}, which is not a tensor.",
                next_step="give a tensor.",
            )
        self.tensor = tensor


class SyncType(Enum):
    """The participants of a sync.

    - `INTERNAL`: the tiles of each IPU.
    - `EXTERNAL`: all IPUs.
    - `GLOBAL`: all IPUs and the host.
    """

    INTERNAL = "INTERNAL"
    EXTERNAL = "EXTERNAL"
    GLOBAL = "GLOBAL"


class Sync(Program):
    """Make all participants of `sync_type` wait for each other."""

    def __init__(self, sync_type: SyncType = SyncType.INTERNAL, name: str = "") -> None:
        self.name = _debug_name(name, "Sync")
        if not isinstance(sync_type, SyncType):
            raise ControlProgramError(f"""Sync was given {shown(sync_type)}, which is not a
                SyncType.
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

    If the elements differ, the run stops with an `ApplicationRuntimeError`. `tensor` is a tensor of
    a replicated graph, not of its top-level graph.
    """

    _said = ("tensor",)

    def __init__(self, tensor: Tensor, name: str = "") -> None:
        if not isinstance(tensor, Tensor) or tensor.graph.replication.part is not None:
            raise ControlProgramError(
                f"AssumeEqualAcrossReplicas was given {shown(tensor)}, which is not a tensor of a "
                "replicated graph.",
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
    """Write the modelled cycles since load into `tensor`, as (low word, high word).

    If `since` is the tensor of an earlier stamp, the program writes the number of cycles between
    the two stamps instead. On several IPUs, the stamp is the time of the IPU on which `tensor` is
    mapped. `cycle_count` and `cycle_stamp` build such programs.
    """

    _said = ("tensor",)

    def __init__(self, tensor: Tensor, since: Tensor | None = None) -> None:
        self.tensor = tensor
        self.since = since


def cycle_stamp(
    graph: Graph, sequence: Sequence, tile: int, sync_type: SyncType = SyncType.INTERNAL
) -> Tensor:
    """Append a sync and a time stamp to `sequence`, and return the tensor of the stamp.

    The tensor is UNSIGNED_INT[2] on `tile`. The stamp is the low and the high 32 bits of the number
    of modelled cycles since load.
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
    """Put the programs in `sequence` between two time stamps, and return a tensor for the cycles.

    The tensor is UNSIGNED_INT[2] on `tile`. It gets the low and the high 32 bits of the modelled
    cycles between the stamps. The sync before the first stamp is not counted. `debug_context` is
    the name of the tensor. If `sync_type` is a string, this string is the name instead, and the
    sync is INTERNAL.

    :raises ControlProgramError: if `graph` is not a Graph, or `sequence` is not a Sequence.
    """
    if not isinstance(sequence, Sequence):
        raise ControlProgramError(
            f"cycle_count was given {shown(sequence)}, which is not a Sequence.",
            next_step="give a Sequence, which gets the time stamps.",
        )
    sync = SyncType.INTERNAL if isinstance(sync_type, str) else sync_type
    name = sync_type if isinstance(sync_type, str) else debug_context
    begin_stamp = _stamp(graph, tile, f"{name}/begin")
    count_tensor = _stamp(graph, tile, name)
    sequence.programs[:] = [
        Sync(sync),
        CycleStamp(begin_stamp),
        *sequence.programs,
        CycleStamp(count_tensor, begin_stamp),
    ]
    return count_tensor


def _stamp(graph: Graph, tile: int, name: str) -> Tensor:
    if not isinstance(graph, Graph):
        raise ControlProgramError(
            f"A time stamp was given {shown(graph)}, which is not a Graph.",
            next_step="give the graph as the first argument.",
        )
    tensor = graph.add_variable(UNSIGNED_INT, (2,), name)
    graph.set_tile_mapping(tensor, tile)
    return tensor


def _single(tensor: object, program: str, role: str, dtypes: tuple[type[DType], ...]) -> Tensor:
    """Return `tensor` if it has one element (or one for each replica) and a dtype in `dtypes`.

    Otherwise, raise a `ControlProgramError` that names `program`, such as "If", and `role`, such as
    "predicate".
    """
    dtype_names = ", ".join(dtype.__name__ for dtype in dtypes)
    if not isinstance(tensor, Tensor):
        raise ControlProgramError(f"""{program} was given {shown(tensor)} as its {role}, which is
            not a tensor.
            next:  give a tensor of one element ({dtype_names}).""")
    is_single = tensor.num_elements in (1, tensor.graph.replicas)
    if not is_single or tensor.dtype not in dtypes:
        advice = "select one element, such as tensor[0]"
        if is_single:
            advice = "use a tensor of another dtype"
            if role == "predicate":
                advice = "compare the tensor with a number, for example with popops.gt"
        raise ControlProgramError(f"""{program} was given
            {counted(tensor.num_elements, "element")} of {tensor.dtype.__name__} as its {role}.
            where: {tensor!r}
            next:  {advice}. The dtype must be one of {dtype_names}.""")
    return tensor


NOT_HERE = {
    **dict.fromkeys(("Loop", "While"), "Repeat, RepeatWhileTrue or RepeatWhileFalse."),
}


def __getattr__(name: str) -> NoReturn:
    public_names = [
        name_in_module
        for name_in_module, member in globals().items()
        if getattr(member, "__module__", "") == __name__
    ]
    raise not_in(__name__, name, NOT_HERE, public_names)
