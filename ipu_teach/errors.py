"""All exceptions of the kit.

The message of an exception says what happened, where, and what to do next. If Poplar has an
exception for the same problem, the class has the name of Poplar's exception, so that a search for
the name also finds Poplar's documentation. Only the spelling is adapted to Python.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ipu_teach._support.tracebacks import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    import numpy.typing as npt

LONGEST = 80  # The maximum number of characters of a value that an error quotes.
# A pattern for a line break in an error message after which the same sentence continues.
_GOES_ON = re.compile(r"\n +(?! |where: |line: |next: )")
_LABEL = re.compile(r"\n +(where|line|next): +")


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 tile", "1,472 tiles".

    `plural` is the plural of the noun; by default, it is `singular` followed by an s.
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def shown(value: object) -> str:
    """Return the repr of `value` as errors quote it: one line of at most 80 characters.

    Addresses of Python objects are removed.
    """
    try:
        text = " ".join(repr(value).split())
    # A repr may raise an error, for example for an integer of many thousand digits.
    except Exception:
        text = f"<{type(value).__name__}>"
    if isinstance(value, type) and text.startswith("<class "):
        text = text[8:-2].replace("__main__.", "")
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean …? " with the most similar of the `known` names, or "".

    Names whose similarity to `name` is below `cutoff` are ignored. difflib computes the
    similarities, from 0 to 1, without regard to case and underscores.
    """
    known_by_key = {known_name.replace("_", "").lower(): known_name for known_name in known}
    key = name.replace("_", "").lower() if isinstance(name, str) else ""
    close_keys = get_close_matches(key, known_by_key, 1, cutoff)
    return f"did you mean {known_by_key[close_keys[0]]!r}? " if close_keys else ""


class IPUTeachError(Exception):
    '''The base class of all errors that the kit raises.

    `tried` is a sentence that says what went wrong, `where` names the place (vertex, field,
    element, tile), `line` is the line of the user's program, and `next_step` is the advice. All of
    them appear in `str(error)`.

    Write an error of several lines as one string, in the form in which it is printed, with the
    indentation of the code around it:

        raise PoplarIndexError(f"""sub_sample() was given the stride {shown(stride)}.
            where: {self!r}
            next:  use a whole number of 1 or more.""")

    A line that does not begin with `where:`, `line:` or `next:` continues the line before it. Use
    the keyword arguments for a string that is computed, or that quotes several lines. If any
    keyword argument is used, `tried` is not split at `where:`, `line:` and `next:`.
    '''

    def __init__(self, tried: str, *, where: str = "", line: str = "", next_step: str = "") -> None:
        labels = {"where": where, "line": line, "next": next_step}
        self.tried = tried
        if not any(labels.values()):
            self.tried, *labels_and_texts = _LABEL.split(_GOES_ON.sub(" ", tried))
            labels |= dict(zip(labels_and_texts[::2], labels_and_texts[1::2], strict=True))
        self.where, self.line, self.next_step = labels.values()
        super().__init__(
            "\n".join(
                [
                    self.tried,
                    *(f"  {name + ':':<6} {text}" for name, text in labels.items() if text),
                ]
            )
        )

    def _render_traceback_(self) -> list[str]:
        """Return the lines of the traceback that a notebook shows. IPython calls this method."""
        from IPython import get_ipython

        return shortened(self, get_ipython())


class PoplarError(IPUTeachError):
    """An error in a graph, a program or a run."""


class PoplibsError(IPUTeachError):
    """A PopLibs function was called with arguments that it cannot use."""


class ModelError(IPUTeachError):
    """A model cannot be built.

    An operation does not accept its tensors, or the device does not have the operation.
    """


class UnknownOperationError(ModelError):
    """A model uses an operation that is not in the table of operations."""


class ModelLoadError(ModelError):
    """A file does not contain the graph of a model, or is damaged."""


class DatasetError(IPUTeachError):
    """A data file is missing or damaged, has unexpected contents, or could not be downloaded."""


class LessonError(IPUTeachError):
    """A lesson does not exist, or could not be run to its end."""


class UnknownExerciseError(LessonError):
    """There is no exercise or prediction with the given name."""


class AnswerKindError(LessonError):
    """check() or predict() got an object of the wrong kind for the exercise."""


class LessonSourceError(LessonError):
    """The source of a lesson is invalid: a gap for an answer has no end, or names no exercise."""


class GraphObjectCreationError(PoplarError):
    """A method of Graph got arguments that it cannot use."""


class TensorCreationError(PoplarError):
    """A variable, a constant or a view has an impossible shape, type or value."""


class PoplarIndexError(PoplarError, IndexError):
    """An index is out of bounds, for example of a tensor, a table or the tiles."""


class PoplarTypeError(PoplarError, TypeError):
    """An argument has the wrong type, or element types do not match."""


class DeviceValueError(PoplarError, TypeError):
    """A tensor was used as a number, but its elements are on the device and have no value yet."""


class TensorMetadataError(PoplarError):
    """The metadata (format and scale) of an 8-bit float is missing, not needed or out of range."""


class UnknownVertexTypeError(PoplarError):
    """There is no codelet of the given name."""


class GraphObjectLoadError(PoplarError):
    """Codelets could not be loaded: their module failed or has no codelets, or a name is in use."""


class FileLoadError(GraphObjectLoadError):
    """A codelet file does not exist, or is not a Python file."""


class ParseError(GraphObjectLoadError):
    """A codelet file is not valid Python."""


class NoSizeSpecifiedError(PoplarError):
    """The length of a Vector field was needed, but nothing has set it yet.

    The field is a Vector of the vertex's state, or a list whose regions are connected one by one.
    """


class InvalidPerfEstimateError(PoplarError):
    """A perf estimator or a codelet's cycles() failed, or did not return a number of cycles."""


class UnknownFieldError(PoplarError):
    """A vertex has no field of the given name."""


class GraphConnectionError(PoplarError):
    """A field is not connected, or is connected to a tensor that does not fit."""


class ComputeSetRaceError(GraphConnectionError):
    """Two vertices or workers write the same element, or one writes what the other reads."""


class InvalidTileMappingError(PoplarError):
    """An element or vertex is not mapped to a tile, or is mapped to a tile that does not exist."""


class ControlProgramError(PoplarError):
    """A program is malformed: the sides of a copy do not match, or a count is impossible."""


class GraphMemoryAllocationError(PoplarError):
    """The data exceed the memory of a tile, the streaming memory, or this computer's memory.

    `bytes_per_tile` contains the modelled bytes of each tile (int64[tiles]), or is None if they are
    not known. `report` is the report of the compiled program, or None if the compiler stopped
    before there was a report.
    """

    bytes_per_tile: npt.NDArray[np.int64] | None = None
    report: Any = None

    def why(self) -> Any:
        """Return `report.why(error)`: the chain of causes of this error.

        Raises `InvalidOptionError` if there is no report.
        """
        if self.report is None:
            raise InvalidOptionError(
                "This error has no report, because it stopped the compiler.",
                next_step="read its text: print(error).",
            )
        return self.report.why(self)


class HostMemoryWarning(IPUTeachError, UserWarning):
    """A program needs more of this computer's memory than is free: a warning, not an error."""


class MatrixWarning(IPUTeachError, UserWarning):
    """A codelet passed a matrix with a NaN to np.linalg, or an asymmetric matrix to `cholesky`.

    This is a warning rather than an error, because numpy returns a result in both cases.
    """


class GraphReplicationError(PoplarError):
    """The IPUs cannot be divided equally between the replicas of a graph."""


class InvalidMachineModelError(PoplarError):
    """An IPUModel has no field of the given name, or no machine has the given value for a field."""


class UnknownMachineFieldError(InvalidMachineModelError, AttributeError):
    """A machine has no field of the given name."""


class InvalidOptionError(PoplarError):
    """An option does not exist, or does not accept the given value."""


class MissingPerfEstimateError(PoplarError):
    """A vertex has no estimate of its cycles, or its cycles cannot be counted."""


class StreamConnectionError(PoplarError):
    """A stream is not connected, has no more data, or got data of the wrong size."""


class TensorIOStateError(PoplarError):
    """The host cannot access device memory: no engine is loaded, or an array does not fit."""


class VertexDefinitionError(PoplarError):
    """A vertex class is declared or used in a way that is not possible."""


class CodeletError(PoplarError):
    """A codelet's compute() failed, or used its fields in a forbidden way."""


class UndeclaredNameError(CodeletError, AttributeError):
    """A codelet's compute() uses an attribute of `self` that its class does not declare."""


class ApplicationRuntimeError(PoplarError):
    """The program stopped the run, for example by an Abort or a Switch without a matching case."""


class FloatingPointTrapError(ApplicationRuntimeError):
    """An invalid operation, a division by zero or an overflow stopped the run.

    The engine's options select which of these three stop a run.
    """


class UninitialisedReadError(PoplarError):
    """The program or the host read an element that nothing had written."""


class NoHardwareError(PoplarError):
    """The program asked for real hardware, and there is none."""


class NotOfferedError(PoplarError, AttributeError):
    """The program asked for something that this kit does not have, such as a name of Poplar."""


class UnknownNameError(PoplarError, AttributeError):
    """A module, a graph, a tensor or another object has no attribute of the given name."""


class NotHereImportError(PoplarError, ImportError):
    """A module does not have the name that `from … import` asked for."""


def missing(
    owner: str, name: str, instead: Mapping[str, str], known: Iterable[str]
) -> AttributeError:
    """Return the error for an attribute `name` that `owner` does not have.

    `instead` maps each name that exists only in Poplar to advice, and `known` lists the attributes
    of `owner`.
    """
    if name in instead:
        return NotOfferedError(
            f"{owner}.{name} is not offered by this kit.", next_step=f"use instead: {instead[name]}"
        )
    # Python and Jupyter look up many private names, and expect a plain AttributeError if there is
    # none.
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    public_names = [known_name for known_name in known if not known_name.startswith("_")]
    # Methods of Poplar such as getShape() are properties in this kit, such as `shape`.
    getter = re.sub("^get_?(?=.)", "", name)
    # With a lower cutoff than 0.7, many unrelated names would match.
    suggestion = did_you_mean(name, public_names, 0.7)
    if getter != name and not suggestion.startswith("did you mean 'get"):
        suggestion_for_getter = did_you_mean(getter, public_names, 0.7)
        suggestion = (
            f"{suggestion_for_getter}Most getters are properties here, without brackets."
            if suggestion_for_getter
            else suggestion
        )
    return UnknownNameError(f"""{owner} has no attribute {name!r}.
        next:  {suggestion.strip() or f"help({owner}) lists what it has."}""")


class WithoutSome:
    """A base class for classes that lack some names which Poplar's classes have.

    Using such a name raises a `NotOfferedError`, whose advice comes from the dict `not_here`.
    """

    __slots__ = ()
    not_here: ClassVar[Mapping[str, str]] = {}

    # Type checkers must still report unknown names, so the methods are hidden from them.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise missing(
                type(self).__name__,
                name,
                type(self).not_here,
                () if name.startswith("_") else dir(self),
            )


class WithoutValue:
    """A base class for objects that stand for device memory, and have no value on the host.

    Using such an object as a number raises a `DeviceValueError`, whose advice is the call that
    does the same on the device.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # The classes that inherit from this class define these methods.

        def _same(self, other: Any) -> bool:
            """Return whether this object and `other`, of its class, stand for the same memory."""

        @staticmethod
        def _line() -> str:
            """Return the line of the user's program, such as "lesson.py, line 12: y = x + 1"."""

        def __hash__(self) -> int: ...

    def _refuse(self, operation: str, advice: str, like: str = "a number") -> NoReturn:
        raise DeviceValueError(f"""A tensor was used as if it were {like}, in {operation}. It is a
            name for memory on the device, and has no value while the program is written.
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
    "let the device read it: If(tensor, …) and RepeatWhileTrue(condition, tensor, body) accept a "
    "tensor as the condition."
)
_PARTS = (
    "index the tensor: for i in range(len(tensor)): tensor[i]. Each tensor[i] is a view, and has "
    "no value either."
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


def _refusing(operation: str, advice: str, like: str = "a number") -> Callable[..., NoReturn]:
    def refuse(self: WithoutValue, *others: object) -> NoReturn:
        self._refuse(operation.format(*map(shown, others)), advice, like)

    return refuse


def _refuse_numbers() -> None:
    def add(name: str, operation: str, advice: str) -> None:
        setattr(WithoutValue, f"__{name}__", _refusing(operation, advice))

    add("bool", "a condition: if, while, and, or, not, bool()", _LOOK)
    for name in ("iter", "reversed", "contains"):
        setattr(
            WithoutValue,
            f"__{name}__",
            _refusing("a for, in, list(), or a, b = tensor", _PARTS, "a list"),
        )
    for name in ("int", "float", "complex", "index", "round"):
        add(name, f"{name}()" if name != "index" else "place of a whole number", _READ)
    for name, (operator, call) in _COMPARED.items():
        add(name, f"tensor {operator} {{}}", _compared_by(call))
    for name, (operator, call) in _ALONE.items():
        add(
            name,
            f"{operator}tensor",
            f"let the device do it: popops.{call}(graph, tensor, program) returns a tensor.",
        )
    for name, (operator, call) in _COUNTED.items():
        device_advice = f"let the device do it: {call}(graph, a, b, program) returns a tensor"
        add(name, f"tensor {operator} {{}}", f"{device_advice}.")
        add(f"r{name}", f"{{}} {operator} tensor", f"{device_advice}.")
        in_place_advice = f"let the device do it: {call}_in_place(graph, tensor, other, program)."
        add(
            f"i{name}",
            f"tensor {operator}= {{}}",
            in_place_advice if name in _IN_PLACE else f"{device_advice}; then Copy.",
        )


_refuse_numbers()


class ProfilingDisabledError(PoplarError):
    """The program asked for the profile of a run that was not profiled."""


class ExecutableLoadError(PoplarError):
    """A file is not an executable of this kit, is damaged, or needs different codelets."""


class ReportLoadError(PoplarError):
    """A file is not a report of this kit, or is damaged."""


class ReportNotFoundError(ReportLoadError, FileNotFoundError):
    """The file of a report does not exist."""
