"""Every exception a learner can meet.

Each says three things: what was tried, where it went wrong, and what to do next. The class names
are those of Poplar, in Python's spelling, so that a search for one finds the original's
documentation too.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ipu_teach._support.tracebacks import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LONGEST = 80  # characters of a value quoted in an error
_GOES_ON = re.compile(r"\n +(?! |where: |line: |next: )")
_LABEL = re.compile(r"\n +(where|line|next): +")


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its noun: 1 tile, 1,472 tiles. `several` is for nouns that take more than an
    s."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def shown(value: object) -> str:
    """`value` as an error quotes it: its repr on one line of at most 80 characters, without
    addresses."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr may fail, and that of a number of many thousand digits does
        text = f"<{type(value).__name__}>"
    if isinstance(value, type) and text.startswith("<class "):
        text = text[8:-2].replace("__main__.", "")
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def did_you_mean(name: object, known: Iterable[str], alike: float = 0.6) -> str:
    """The words "did you mean …? " with the closest of the `known` names, or nothing if none is
    `alike`, of 1."""
    folded = {k.replace("_", "").lower(): k for k in known}
    wanted = name.replace("_", "").lower() if isinstance(name, str) else ""
    near = get_close_matches(wanted, folded, 1, alike)
    return f"did you mean {folded[near[0]]!r}? " if near else ""


class IPUTeachError(Exception):
    '''The root of every error the kit raises.

    `tried` is the sentence that says what went wrong, `where` names the place (vertex, field,
    element, tile), `line` the line of the learner's program that made it, `next_step` is the
    advice. All of them appear in `str(error)`.

    An error of several lines is written as it is printed, indented as the code around it:

        raise PoplarIndexError(f"""sub_sample() was given the stride {shown(stride)}.
            where: {self!r}
            next:  use a whole number of 1 or more.""")

    A line that begins with none of the three words goes on with the one before. The keywords are
    for a text that is put together, or that quotes one of several lines: with one of them given,
    the text stays as it is.
    '''

    def __init__(self, tried: str, *, where: str = "", line: str = "", next_step: str = "") -> None:
        said = {"where": where, "line": line, "next": next_step}
        self.tried = tried
        if not any(said.values()):
            self.tried, *labelled = _LABEL.split(_GOES_ON.sub(" ", tried))
            said |= dict(zip(labelled[::2], labelled[1::2], strict=True))
        self.where, self.line, self.next_step = said.values()
        super().__init__(
            "\n".join(
                [
                    self.tried,
                    *(f"  {name + ':':<6} {words}" for name, words in said.items() if words),
                ]
            )
        )

    def _render_traceback_(self) -> list[str]:
        """What IPython shows, which calls this."""
        from IPython import get_ipython

        return shortened(self, get_ipython())


class PoplarError(IPUTeachError):
    """Something is wrong with a graph, a program or a run."""


class PoplibsError(IPUTeachError):
    """A PopLibs function was called with arguments it cannot use."""


class ModelError(IPUTeachError):
    """A model cannot be: tensors that an operation cannot take, or what the device does not
    have."""


class UnknownOperationError(ModelError):
    """A model asks for an operation that the table of them does not have."""


class ModelLoadError(ModelError):
    """A file is no graph of a model, or is damaged."""


class DatasetError(IPUTeachError):
    """A data file is missing, truncated, corrupt or not what its name says."""


class LessonError(IPUTeachError):
    """A lesson was asked for that does not exist, or could not be run to its end."""


class UnknownExerciseError(LessonError):
    """There is no exercise or prediction of that name."""


class AnswerKindError(LessonError):
    """check() or predict() was given another kind of thing than the exercise asks for."""


class LessonSourceError(LessonError):
    """A lesson's source cannot be used: a gap has no end, or names no exercise."""


class GraphObjectCreationError(PoplarError):
    """A call to a Graph was given arguments it cannot use."""


class TensorCreationError(PoplarError):
    """A variable or constant has a shape, type or value that cannot be."""


class PoplarIndexError(PoplarError, IndexError):
    """A tensor was indexed or sliced outside its bounds."""


class PoplarTypeError(PoplarError, TypeError):
    """Element types do not match, or something is no element type at all."""


class DeviceValueError(PoplarError, TypeError):
    """A tensor was used as if it were a number: what it holds is on the device, and not there while
    a program is written."""


class TensorMetadataError(PoplarError):
    """The metadata of an 8-bit float, its format and scale, is missing, superfluous or out of
    range."""


class UnknownVertexTypeError(PoplarError):
    """There is no codelet of that name."""


class GraphObjectLoadError(PoplarError):
    """Codelets could not be loaded: the module failed, holds none, or a name is taken."""


class FileLoadError(GraphObjectLoadError):
    """There is no such codelet file, or it is no Python file."""


class ParseError(GraphObjectLoadError):
    """A codelet file is not Python."""


class NoSizeSpecifiedError(PoplarError):
    """A Vector of state, or a list that is connected part by part, was given no size."""


class InvalidPerfEstimateError(PoplarError):
    """A perf estimator, or a codelet's own cycles(), failed or gave no whole number of cycles."""


class UnknownFieldError(PoplarError):
    """A vertex has no field of that name."""


class GraphConnectionError(PoplarError):
    """A field is unconnected, or what is connected does not fit it."""


class ComputeSetRaceError(GraphConnectionError):
    """Within one compute set an element is written twice, or written and read."""


class InvalidTileMappingError(PoplarError):
    """A tensor element or a vertex has no tile, or a tile that does not exist."""


class ControlProgramError(PoplarError):
    """A program is malformed: a copy whose sides do not match, a bad repeat count."""


class GraphMemoryAllocationError(PoplarError):
    """The variables of a tile do not fit into its memory, or those of all into this computer's.
    `bytes_per_tile` holds the modelled bytes of every tile.

    `report` is the report of the compiled program, where compiling came that far, else None.
    """

    bytes_per_tile: object = None
    report: Any = None

    def why(self) -> Any:
        """The chain of causes: `report.why(error)`. Raises `InvalidOptionError` where compiling did
        not come to a report."""
        if self.report is None:
            raise InvalidOptionError(
                "This error has no report: it stopped the compiler.",
                next_step="read its text: print(error).",
            )
        return self.report.why(self)


class HostMemoryWarning(IPUTeachError, UserWarning):
    """A program needs more of this computer's memory than is free. It is shown, and not raised."""


class MatrixWarning(IPUTeachError, UserWarning):
    """A codelet's function of np.linalg was given a matrix with a NaN in it, or `cholesky` one that
    is not symmetric. numpy goes on, so this is shown, and not raised."""


class GraphReplicationError(PoplarError):
    """A graph cannot be replicated so many times: the replicas have equal parts of the IPUs."""


class InvalidMachineModelError(PoplarError):
    """An IPUModel was given a field it does not have, or a value that no machine has."""


class UnknownMachineFieldError(InvalidMachineModelError, AttributeError):
    """A machine was asked for a field that it does not have."""


class InvalidOptionError(PoplarError):
    """An option was given a name or a value that does not exist."""


class MissingPerfEstimateError(PoplarError):
    """A codelet's cycles are unknown: what it does cannot be counted, and it carries no
    estimate."""


class StreamConnectionError(PoplarError):
    """A stream is not connected, has run dry, or was handed something of the wrong size."""


class TensorIOStateError(PoplarError):
    """The host asked for device memory at a time when there is none, or under an unknown handle."""


class VertexDefinitionError(PoplarError):
    """A vertex class declares fields that cannot be."""


class CodeletError(PoplarError):
    """A codelet's compute() failed, or did what its fields forbid."""


class UndeclaredNameError(CodeletError, AttributeError):
    """A codelet's compute() uses a name of `self` that its class does not declare."""


class ApplicationRuntimeError(PoplarError):
    """The program itself stopped the run: an Abort, a condition, or a Switch that no case fits."""


class FloatingPointTrapError(ApplicationRuntimeError):
    """An invalid operation, a division by zero or an overflow, where the engine's options make that
    stop the run."""


class UninitialisedReadError(PoplarError):
    """Something was read that nothing had written."""


class NoHardwareError(PoplarError):
    """Real hardware was asked for; there is none."""


class NotOfferedError(PoplarError, AttributeError):
    """Something of Poplar's that this kit does not have was asked for by its name."""


class UnknownNameError(PoplarError, AttributeError):
    """A graph, a tensor or an engine was asked for something by a name that it has not."""


class NotHereImportError(PoplarError, ImportError):
    """A module was asked for a name that it has not, by `from … import`."""


def missing(
    owner: str, name: str, instead: Mapping[str, str], known: Iterable[str]
) -> AttributeError:
    """The error for the attribute `name` that `owner` has not; `instead` advises on those that
    Poplar has there."""
    if name in instead:
        return NotOfferedError(
            f"{owner}.{name} is not offered by this kit.", next_step=f"use instead: {instead[name]}"
        )
    # Python and Jupyter ask for many of these, and expect this very answer
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    offered = [k for k in known if not k.startswith("_")]
    # Poplar's getters without arguments are properties here
    getter = re.sub("^get_?(?=.)", "", name)
    near = did_you_mean(name, offered, 0.7)  # among so many names, less would mislead
    if getter != name and not near.startswith("did you mean 'get"):
        plain = did_you_mean(getter, offered, 0.7)
        near = f"{plain}Most getters are properties here, without brackets." if plain else near
    return UnknownNameError(f"""{owner} has no attribute {name!r}.
        next:  {near.strip() or f"help({owner}) lists what it has."}""")


class WithoutSome:
    """A class whose counterpart in Poplar has more names: asking for one of those says what to use
    instead."""

    __slots__ = ()
    not_here: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # a type checker is to complain about unknown names

        def __getattr__(self, name: str) -> NoReturn:
            raise missing(
                type(self).__name__,
                name,
                type(self).not_here,
                () if name.startswith("_") else dir(self),
            )


class WithoutValue:
    """A class whose objects name memory of the device: what Python asks of a number is refused,
    with what to use instead."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers leave it to the methods below

    if TYPE_CHECKING:  # what such a class has

        def _same(self, other: Any) -> bool:
            """True if it names the same memory as another of its class."""

        @staticmethod
        def _line() -> str:
            """The learner's line."""

        def __hash__(self) -> int: ...

    def _refuse(self, what: str, advice: str, like: str = "a number") -> NoReturn:
        raise DeviceValueError(f"""A tensor was used as if it were {like}, in {what}. It is a name
            for memory on the device, and has no value while the program is written.
            where: {self!r}
            line:  {self._line()}
            next:  {advice}""")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WithoutValue):
            return self._same(other)
        if other is None:
            return False
        return self._refuse(f"tensor == {shown(other)}", _compared_by("eq"))

    def __ne__(self, other: object) -> bool:
        if isinstance(other, WithoutValue):
            return not self._same(other)
        if other is None:
            return True
        return self._refuse(f"tensor != {shown(other)}", _compared_by("neq"))


_READ = (
    "to see its value: graph.create_host_read(handle, tensor), then engine.read_tensor(handle) "
    "after a run."
)
_LOOK = (
    "let the device look: If(tensor, …) and RepeatWhileTrue(condition, tensor, body) take a tensor "
    "as it is."
)
_PARTS = (
    "name its parts by number, for i in range(len(tensor)): tensor[i]. Each is a view, and has no "
    "value either."
)
_COMPARED = {"lt": ("<", "lt"), "le": ("<=", "lteq"), "gt": (">", "gt"), "ge": (">=", "gteq")}
_COUNTED = {
    "add": ("+", "popops.add"),
    "sub": ("-", "popops.sub"),
    "mul": ("*", "popops.mul"),
    "truediv": ("/", "popops.div"),
    "floordiv": ("//", "popops.div"),
    "mod": ("%", "popops.rem"),
    "pow": ("**", "popops.pow"),
    "matmul": ("@", "poplin.mat_mul"),
    "and": ("&", "popops.bitwise_and"),
    "or": ("|", "popops.bitwise_or"),
    "xor": ("^", "popops.bitwise_xor"),
    "lshift": ("<<", "popops.shift_left"),
    "rshift": (">>", "popops.shift_right"),
}
_IN_PLACE = ("add", "sub", "mul", "truediv")
_ALONE = {"neg": ("-", "neg"), "invert": ("~", "bitwise_not"), "abs": ("abs of ", "abs")}


def _compared_by(call: str) -> str:
    return (
        f"let the device compare: popops.{call}(graph, a, b, program) gives a tensor for If. Or "
        f"{_READ}"
    )


def _refusing(what: str, advice: str, like: str = "a number") -> Callable[..., NoReturn]:
    def refuse(self: WithoutValue, *others: object) -> NoReturn:
        self._refuse(what.format(*map(shown, others)), advice, like)

    return refuse


def _refuse_numbers() -> None:
    def add(name: str, what: str, advice: str) -> None:
        setattr(WithoutValue, f"__{name}__", _refusing(what, advice))

    add("bool", "a condition: if, while, and, or, not, bool()", _LOOK)
    for name in ("iter", "reversed", "contains"):
        setattr(
            WithoutValue,
            f"__{name}__",
            _refusing("a for, in, list(), or a, b = tensor", _PARTS, "a list"),
        )
    for name in ("int", "float", "complex", "index", "round"):
        add(name, f"{name}()" if name != "index" else "place of a whole number", _READ)
    for name, (sign, call) in _COMPARED.items():
        add(name, f"tensor {sign} {{}}", _compared_by(call))
    for name, (sign, call) in _ALONE.items():
        add(
            name,
            f"{sign}tensor",
            f"let the device do it: popops.{call}(graph, tensor, program) returns a tensor.",
        )
    for name, (sign, call) in _COUNTED.items():
        made = f"let the device do it: {call}(graph, a, b, program) returns a tensor"
        add(name, f"tensor {sign} {{}}", f"{made}.")
        add(f"r{name}", f"{{}} {sign} tensor", f"{made}.")
        within = f"let the device do it: {call}_in_place(graph, tensor, other, program)."
        add(
            f"i{name}",
            f"tensor {sign}= {{}}",
            within if name in _IN_PLACE else f"{made}; then Copy.",
        )


_refuse_numbers()


class ProfilingDisabledError(PoplarError):
    """The execution was asked for of a run that was not recorded."""


class ExecutableLoadError(PoplarError):
    """A file is no executable of this kit, is damaged, or does not fit the codelets at hand."""


class ReportLoadError(PoplarError):
    """A file is no report of this kit, or is damaged."""


class ReportNotFoundError(ReportLoadError, FileNotFoundError):
    """There is no file of that name."""
