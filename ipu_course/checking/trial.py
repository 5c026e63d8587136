"""A trial: the conditions under which checks run an answer that is a program, or builds a program.

An exercise declares the tensors of a trial, with their tile mappings, the values that are written
before each run and the values that are expected after it. It also declares the streams with their
data, and the form of the answer, which says how the answer becomes a program: `builds`, `appends`,
`codelet`, or a function of the exercise.

`trial.of(answer)` builds, loads and runs the program in a graph and engine of its own. It refuses
faults that any program can have: a gap that is still blank, an exception, a result that is not a
program. The returned run has the values of each tensor and the traced cost. It can also be compared
with runs of known mistakes.
"""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import CodeType
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from ipu_course.checking.calling import Answer, Broken, answering, call_made, is_blank
from ipu_course.checking.mistakes import Mistake, Reason, alike, same, suspects
from ipu_course.checking.programs import TILES, all_of, device_of, graph_of, program_of, tiles_of
from ipu_course.checking.quoting import quoted, returned, said_by
from ipu_course.checking.verdicts import Draws, NotAttempted, NotYet
from ipu_teach import INT, DataStream, Engine, Graph, Report, Tensor, Vertex
from ipu_teach._support.own_code import is_own_module
from ipu_teach.errors import (
    AnswerKindError,
    IPUTeachError,
    MissingPerfEstimateError,
    counted,
    shown,
)
from ipu_teach.graph.vertex_table import VertexTable
from ipu_teach.poplibs import poputil
from ipu_teach.program import (
    Copy,
    Execute,
    Program,
    RepeatWhileFalse,
    RepeatWhileTrue,
    Sequence as Steps,
)
from ipu_teach.report import Recording
from ipu_teach.types import Array, DType, poison

# The opcodes that load a name which the function itself does not bind.
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
UNWRITTEN = "nothing was written"
COMPUTED = "the answer wrote NaN here ('not a number'), which is the result of 0 / 0, for example."
Place = Callable[[Graph, Tensor], None]
Built = tuple[Program, list[Tensor]]  # The program of an answer, and its result tensors.
# `Parts` has the tensors of a trial and then its streams. Their number depends on the trial, so no
# single type fits all trials.
Parts: TypeAlias = list[Any]
Answers = Callable[[Answer, "Trial", Graph, Parts], Built]


class EngineOptions(TypedDict, total=False):
    """The arguments of `Engine` that a trial may set."""

    strict: Mapping[str, bool]
    shuffle: int | None


def linearly(graph: Graph, tensor: Tensor) -> None:
    """Map the tensor linearly over all tiles, with `poputil.map_tensor_linearly`."""
    poputil.map_tensor_linearly(graph, tensor)


def by_rows(graph: Graph, tensor: Tensor) -> None:
    """Map row i to tile i; after the last tile, start again at tile 0."""
    for row in range(len(tensor)):
        graph.set_tile_mapping(tensor[row], row % graph.target.num_tiles)


def on_ipu(ipu: int) -> Callable[[Graph, Tensor], None]:
    """Return a function that maps a tensor linearly over the tiles of the IPU with index `ipu`."""
    first_tile = ipu * TILES

    def place(graph: Graph, tensor: Tensor) -> None:
        linearly(graph.create_virtual_graph(first_tile, first_tile + TILES), tensor)

    return place


@dataclass(frozen=True)
class Var:
    """A tensor of a trial.

    - `lies` is its tile mapping: a tile, a function that maps the tensor, or None for an unmapped
      tensor.
    - `given[i]` is the value that is written before run i, and `right[i]` is the value that is
      expected after run i. There may be fewer values than runs.
    - If `kept` is True, the program must not change the given value.
    """

    dtype: type[DType]
    shape: int | Sequence[int]
    lies: int | Place | None = None
    given: Sequence[Array] = ()
    right: Sequence[Array] = ()
    kept: bool = False

    @property
    def after(self) -> Sequence[Array]:
        """The expected values after runs 0, 1, …; empty if the tensor is not checked."""
        return self.given if self.kept else self.right

    def place(self, graph: Graph, tensor: Tensor) -> None:
        """Map the tensor to tiles, or leave it unmapped."""
        if callable(self.lies):
            self.lies(graph, tensor)
        elif self.lies is not None:
            graph.set_tile_mapping(tensor, self.lies)


@dataclass(frozen=True)
class StreamIn:
    """A stream to the device, with its data.

    `brings` is the data, element by element; the data is not repeated at its end. `size` is the
    number of values in an element. If `hers` is True, the answer itself creates the stream.
    """

    dtype: type[DType]
    brings: ArrayLike
    size: int = 1
    hers: bool = False

    def made(self, graph: Graph, name: str) -> DataStream:
        """Add a stream called `name` to the graph, and return it."""
        return graph.add_host_to_device_fifo(name, self.dtype, self.size)


@dataclass(frozen=True)
class StreamOut:
    """A stream to the host.

    `size` is the number of values in an element. If `hers` is True, the answer itself creates the
    stream.
    """

    dtype: type[DType]
    size: int = 1
    hers: bool = False

    def made(self, graph: Graph, name: str) -> DataStream:
        """Add a stream called `name` to the graph, and return it."""
        return graph.add_device_to_host_fifo(name, self.dtype, self.size)


def builds(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program of an answer that is a function and returns a program.

    The answer is called as answer(graph, *tensors, *streams, *more). Return `(program, [])`; the
    empty list means that the answer returns no tensors.
    """
    return program_of(answer, trial.tried, graph, *parts, *trial.more), []


def appends(
    *shapes: tuple[int, ...],
    together: int = 0,
    asks: str = "a tensor",
    step: str = "return the tensor that the last call returned.",
    message: Callable[[object], str] = returned,
    expected: str = "shape {}",
    why: str = "",
    advice: str = "print the shape of the tensor after each call.",
) -> Answers:
    """Return a function that builds the program of an answer that appends to a program.

    The answer must return tensors of these `shapes`. Without shapes, the returned value is ignored.
    If `together` is positive, the answer gets the tensors in lists of `together` tensors each, for
    example one list per IPU.

    If the answer does not return tensors, the verdict shows `message(returned value)`, `asks` as
    the expected result, and the advice `step`. If a tensor has another shape, the verdict shows
    `expected`, `why` and `advice`.
    """

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        program = Steps()
        many = together
        arguments = [parts[i : i + many] for i in range(0, len(parts), many)] if many else parts
        returned_value = call_made(answer, trial.tried, graph, *arguments, *trial.more, program)
        if not shapes:
            return program, []
        results = (
            list(returned_value) if isinstance(returned_value, (tuple, list)) else [returned_value]
        )
        if len(results) != len(shapes) or not all(isinstance(result, Tensor) for result in results):
            raise NotYet(trial.tried, message(returned_value), expected=asks, next_step=step)
        for result, shape in zip(results, shapes, strict=True):
            if result.shape != shape:
                raise NotYet(
                    trial.tried,
                    f"a tensor of shape {result.shape}",
                    expected=expected.format(shape),
                    why=why,
                    next_step=advice,
                )
        return program, results

    return form


def codelet(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Build the program for an answer that is a codelet: one vertex on tile 0.

    The fields of the vertex are connected to the tensors of the same names.
    """
    cls = codelet_of(answer, "a check")
    compute_set = graph.add_compute_set("check")
    with answering(trial.tried):
        vertex = graph.add_vertex(compute_set, cls, dict(zip(trial.tensors, parts, strict=False)))
    graph.set_tile_mapping(vertex, 0)
    return Execute(compute_set), []


def codelet_of(answer: object, call: str) -> type[Vertex]:
    """Return the answer if it is a codelet with its own compute().

    `call` is the learner's call, which error messages quote.

    :raises AnswerKindError: if the answer is not a codelet.

    :raises NotAttempted: if compute() is missing or still blank.
    """
    if not isinstance(answer, type) or not issubclass(answer, Vertex):
        advice = "give the class itself, which derives from Vertex, without brackets."
        raise AnswerKindError(
            f"{call} takes a codelet, but was given {shown(answer)}.", next_step=advice
        )
    if answer.compute is Vertex.compute or is_blank(answer.compute):
        raise NotAttempted
    return answer


def lost(graph: Graph, stored: bool) -> Reason:
    """Return `(why, next step)` if the results of an answer's codelet are lost; else ("", "").

    Results are lost if compute() uses a field's name without `self.`. They are also lost if
    compute() returns a value and the run stored nothing (`stored` is False). Codelets of the kit
    are skipped.
    """
    tables = (table for compute_set in graph.compute_sets for table in compute_set.tables.values())
    for cls in {table.codelet: None for table in tables}:
        code = getattr(cls.compute, "__code__", None)
        if code is None or _kits(cls):
            continue
        steps = list(_steps_of(code))
        named = {step.argval for step in steps if step.opname in GLOBAL} & cls.fields.keys()
        if named:
            name = min(named)
            why = (
                f"{name} is a field of {cls.__name__}, but without self. compute() uses another "
                f"{name}."
            )
            return why, (
                f"write self.{name}: compute() reaches the fields of a vertex only through self."
            )
        has_values = any(
            (end.opname == "RETURN_CONST" and end.argval is not None)
            or (end.opname == "RETURN_VALUE" and (step.opname, step.argval) != ("LOAD_CONST", None))
            for step, end in pairwise(steps)
        )
        if has_values and not stored:
            why = (
                "compute() returns its result, but the returned value is lost: a vertex stores its "
                "results in its fields."
            )
            return why, "store the result in the output, as self.out[i] = …, and return nothing."
    return "", ""


def sizes_of(graph: Graph, table: VertexTable) -> dict[str, list[int]]:
    """Return {field: [number of elements in each vertex]} for the fields of `table`."""
    return {
        name: [sum(part.size for _, part in graph.layouts[i].parts) for i in table.layouts[name]]
        for name in table.edges
    }


def _kits(cls: type[Vertex]) -> bool:
    return is_own_module(cls.__module__)


def _steps_of(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the bytecode instructions of a function.

    For functions defined inside it, yield only the instructions that load global names.
    """
    yield from dis.get_instructions(code)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from (step for step in _steps_of(part) if step.opname in GLOBAL)


def recorded(answer: Answer, trial: Trial, name: str, runs: int) -> tuple[Ran, Recording]:
    """Run an answer `runs` times; return the run and a recording of the tensor `name`."""
    recordings: list[Recording] = []

    def watch(run: Ran) -> None:
        recordings.append(run.engine.record(run.tensors[name]))

    trial_run = replace(trial, ready=watch, runs=runs).of(answer)
    return trial_run, recordings[0]


def equal(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether two programs give the same results.

    The comparison covers as many runs as the trial of the reference has.
    """
    runs = reference_run.trial.runs
    return same(reference_run.outcome(runs), learner_run.outcome(runs))


@dataclass(frozen=True)
class Trial:
    """The conditions under which answers run.

    * `tried` describes the conditions in words.
    * `tensors` and `streams` are the variables and streams of the graph, by name. An answer is
      called with them, and then with the arguments in `more`.
    * `form` is the function that builds the program of an answer.
    * `runs` is the number of consecutive runs of one loaded engine.
    * `ready(run)` is called once the program is loaded, before the streams are connected. It may
      refuse the program, or prepare the run.
    """

    tried: str
    tensors: Mapping[str, Var]
    streams: Mapping[str, StreamIn | StreamOut] = field(default_factory=dict)
    more: tuple[Any, ...] = ()
    form: Answers = builds
    runs: int = 1
    tiles: int = TILES
    ipus: int = 1
    # The number of replicas of the graph. Each replica has its own copy of a tensor.
    replicas: int = 1
    options: EngineOptions = field(default_factory=EngineOptions)
    # The maximum number of rounds of loops whose end the device decides. A run with more rounds is
    # stopped as endless. 0 means that rounds are not counted.
    most_rounds: int = 0
    ready: Callable[[Ran], None] = lambda run: None
    # A function that returns whether two runs have equal results.
    agree: Callable[[Ran, Ran], bool] = equal
    # A function that returns all trials of the exercise, including this one.
    beside: Callable[[], Sequence[Trial]] = tuple

    def build(self, answer: Answer) -> Ran:
        """Build the answer's program in a graph of its own, without running it.

        :raises NotAttempted: if the gap is still blank.

        :raises Broken: if the answer raises an error.

        :raises NotYet: if the result is not a program.
        """
        graph = graph_of(self.tiles, self.ipus, self.replicas)
        tensors = {
            name: graph.add_variable(var.dtype, var.shape, name)
            for name, var in self.tensors.items()
        }
        for name, var in self.tensors.items():
            var.place(graph, tensors[name])
        streams = [kind.made(graph, name) for name, kind in self.streams.items() if not kind.hers]
        program, results = self.form(answer, self, graph, [*tensors.values(), *streams])
        return Ran(
            trial=self,
            answer=answer,
            graph=graph,
            tensors=tensors,
            program=program,
            results=results,
        )

    def of(self, answer: Answer) -> Ran:
        """Build and run the answer's program, and return the completed run.

        :raises NotAttempted: if the gap is still blank.

        :raises Broken: if the answer, or its program, raises an error.

        :raises NotYet: if the result is not a program.
        """
        run = self.build(answer)
        run.run()
        return run

    def outcome(self, answer: Answer) -> Ran:
        """Build and run the answer's program for a comparison with other answers.

        If the program raises an error, the returned run stores that error.
        """
        run = self.build(answer)
        with suppress(Broken):
            run.run()
        return run

    def reason(
        self,
        learner_run: Ran,
        *exercises: str,
        runs: int = 0,
        advice: str = "",
        nearest: bool = False,
        **figures: str | float,
    ) -> Reason:
        """Return `(why, next step)` of the first known mistake that gives the learner's results.

        Only the known mistakes of `exercises` are compared. The results must also be the same in a
        second trial with other values, if there is one (see `another`). `runs` is the number of
        runs to compare; 0 means all. If several mistakes match and `nearest` is True, the mistake
        whose program has the steps most similar to the learner's is chosen. `figures` are filled
        into the texts.

        Two causes are reported even if no known mistake matches: lost results (see `lost`), and a
        later run that continues from the state of the first run. If nothing explains the results,
        return `("", advice)`.
        """
        if any(words := lost(learner_run.graph, not learner_run.blank)):
            return words
        few = replace(self, runs=runs or self.runs)
        last: list[Ran] = []

        def fits(like: Answer) -> bool:
            last[:] = [few.outcome(like)]
            return self.agree(learner_run, last[0]) and few.agree_again(learner_run, like)

        def apart(_: Mistake) -> int:
            return (last[0].steps - learner_run.steps).total() + (
                learner_run.steps - last[0].steps
            ).total()

        fitting = alike(suspects(*exercises), fits)
        known = min(fitting, key=apart, default=None) if nearest else next(fitting, None)
        if known is None and learner_run.goes_on:
            why = (
                "the first run is right, but the next one continues from it: state keeps its value "
                "between runs."
            )
            return why, "use a local variable in compute(), which starts again in each run."
        return known.reason(**figures) if known else ("", advice)

    def another(self) -> Trial | None:
        """Return a trial of the same exercise with other values; None if there is none.

        The result is the first of the exercise's other trials, if there are any. Otherwise, it is
        this trial with the values of its floating-point tensors in another order. There is no such
        trial if the runs have different values, if there is a stream to the device, or if another
        order does not change the values.
        """
        for trial in self.beside():
            if trial.tried != self.tried:
                return trial
        if any(isinstance(kind, StreamIn) for kind in self.streams.values()):
            return None
        given = {
            name: [np.asarray(value) for value in var.given[: self.runs]]
            for name, var in self.tensors.items()
            if len(var.given)
        }
        if any(not np.array_equal(values[0], v) for values in given.values() for v in values):
            return None
        tensors = dict(self.tensors)
        for name, values in given.items():
            if values[0].dtype.kind == "f":
                moved = [np.roll(v.ravel()[::-1], 1).reshape(v.shape) for v in values]
                tensors[name] = replace(tensors[name], given=moved)
        others = (np.asarray(tensors[name].given[0]) for name in given)
        if all(np.array_equal(a, b[0]) for a, b in zip(others, given.values(), strict=True)):
            return None
        return replace(self, tensors=tensors)

    def agree_again(self, learner_run: Ran, like: Answer) -> bool:
        """Return whether a known mistake gives the learner's results in a second trial, too.

        `like` is the mistake as an answer. The result is True if there is no second trial.
        """
        there = replace(learner_run.trial, runs=self.runs).another()
        here = self.another()
        if there is None or here is None:
            return True
        if learner_run.again is None:
            learner_run.again = there.outcome(learner_run.answer)
        return self.agree(learner_run.again, here.outcome(like))

    def explained(self, learner_run: Ran, broken: Broken, *exercises: str) -> Exception:
        """Return a `NotYet` error if `self.reason` explains the run; else the error `broken`.

        The explanation may be a known mistake of one of the `exercises`. `broken` is the error of
        the answer, and is returned unchanged.
        """
        why, advice = self.reason(learner_run, *exercises)
        message = f"{type(broken.error).__name__}: {getattr(broken.error, 'tried', broken.error)}"
        return NotYet(self.tried, message, why=why, next_step=advice) if why else broken

    def through(self, answer: Answer, *exercises: str) -> Ran:
        """Build and run the answer's program, and return the completed run.

        :raises NotYet: if a known mistake of `exercises` fails in the same way.

        :raises Broken: if the answer fails in another way.
        """
        run = self.build(answer)
        try:
            run.run()
        except Broken as broken:
            raise self.explained(run, broken, *exercises) from None
        return run

    def twice(self) -> Trial:
        """Return a trial with two runs, before each of which the same values are written.

        The expected values apply to the first run only. `Ran.refuse_unrepeatable` compares the
        second run with the first.
        """
        tensors = {
            name: replace(var, given=[*var.given, *var.given]) for name, var in self.tensors.items()
        }
        return replace(self, tensors=tensors, runs=2)

    def elsewhere(self, tiles: int) -> Trial:
        """Return a copy of this trial for a machine with `tiles` tiles."""
        return replace(self, tiles=tiles, tried=f"{self.tried}, on {counted(tiles, 'tile')}")


@dataclass(frozen=True)
class Wrong:
    """The first wrong element of a tensor.

    `run` is the index of the run in which the element is wrong. `came` is a text with the name of
    the element and its actual value. `expected` is the expected value of the element, and `right`
    has the expected values of the whole tensor in that run.
    """

    run: int
    came: str
    expected: np.generic
    right: Array

    @property
    def words(self) -> str:
        return f"{self.came}, not {quoted(self.expected)}"


@dataclass
class Ran:
    """An answer's program in its graph and, after `run`, its results.

    * `results`: the tensors that the answer returned.
    * `came`: for each run, a dict from the name of a tensor to its values.
    * `blanks`: for each run, a dict from the name of a tensor to a bool array, which is True for
      each element that nothing has written. A fully written tensor may be missing from the dict.
    * `sent`: a dict from the name of a stream to the host to the values that it sent.
    * `error`: the error with which the program ended, or None.
    * `endless`: for each run, whether it was stopped as endless.
    * `again`: a run of the same answer with other values. It is None until a known mistake has
      given the same results as the answer with the values of this trial.
    """

    trial: Trial
    answer: Answer
    graph: Graph
    tensors: dict[str, Tensor]
    program: Program
    results: list[Tensor]
    engine: Engine = field(init=False)
    report: Report = field(init=False)  # The report of the first run.
    error: BaseException | None = None
    endless: list[bool] = field(default_factory=list)
    came: list[dict[str, Array]] = field(default_factory=list)
    blanks: list[dict[str, Array]] = field(default_factory=list)
    sent: dict[str, Array] = field(default_factory=dict)
    _received: dict[str, list[float]] = field(default_factory=dict)
    loaded: bool = False
    again: Ran | None = None
    # The number of iterations in the current run, over all loops whose end the device decides.
    rounds: int = 0

    def run(self) -> None:
        """Load the program unless it is loaded, and run it as often as the trial requires.

        :raises Broken: if the program raises an error; the cause is then in the learner's answer.

        :raises NotYet: if the error has a known cause, such as a field's name without `self.`.
        """
        try:
            if not self.loaded:
                self.load()
            self._run()
        except Broken as broken:
            self.error = broken.error
            why, advice = lost(self.graph, not isinstance(self.error, MissingPerfEstimateError))
            if why:
                raise NotYet(
                    self.trial.tried, said_by(self.error), why=why, next_step=advice
                ) from None
            raise

    @property
    def blank(self) -> bool:
        """Whether the program wrote nothing into at least one of the checked tensors."""
        return any(self.unwritten(name) for name in self.trial.tensors)

    @property
    def goes_on(self) -> bool:
        """Whether a later run seems to continue from the state that the first run left.

        This is assumed if the first run is right, a later run is wrong, and a vertex of the learner
        has state.
        """
        wrong = [difference for name in self.trial.tensors if (difference := self.wrong(name))]
        tables = (
            table
            for compute_set in self.graph.compute_sets
            for table in compute_set.tables.values()
        )
        return (
            bool(wrong)
            and all(difference.run for difference in wrong)
            and any(t.state and not _kits(t.codelet) for t in tables)
        )

    def load(self) -> None:
        """Load the program into an engine, and connect its streams."""
        trial = self.trial
        graph = self.graph

        def pulse(_: Array) -> None:
            self.rounds += 1
            if self.rounds > trial.most_rounds:
                raise Endless

        with answering(trial.tried):
            for name, var in trial.tensors.items():
                if len(var.given):
                    graph.create_host_write(f"check write {name}", self.tensors[name])
            for name, tensor in self._read.items():
                graph.create_host_read(f"check read {name}", tensor)
            if trial.most_rounds:
                _report_rounds(graph, self.program)
            self.engine = engine = Engine(graph, self.program, **trial.options)
            engine.load(device_of(trial.tiles, trial.ipus))
            for stream in engine.list_streams() if trial.most_rounds else ():
                # The trial declares all streams, except those that report the rounds of a loop.
                if stream.handle not in trial.streams:
                    engine.connect_stream_to_callback(stream.handle, pulse)
            trial.ready(self)
            for name, kind in trial.streams.items():
                # The stream gets an iterator, because it would repeat an array at its end.
                if isinstance(kind, StreamIn):
                    engine.connect_stream(
                        name, iter(np.asarray(kind.brings).reshape(-1, kind.size))
                    )
                else:
                    engine.connect_stream(name, self._received.setdefault(name, []))
        self.loaded = True

    @property
    def _read(self) -> dict[str, Tensor]:
        """The tensors that are read after each run, by name."""
        reads = {
            name: self.tensors[name] for name, var in self.trial.tensors.items() if len(var.after)
        }
        return reads | {f"result {k}": tensor for k, tensor in enumerate(self.results)}

    def _run(self) -> None:
        trial = self.trial
        maximum = self.trial.most_rounds
        try:
            for run in range(trial.runs):
                self.rounds = 0
                try:
                    with answering(trial.tried):
                        for name, var in trial.tensors.items():
                            if run < len(var.given):
                                self.engine.write_tensor(f"check write {name}", var.given[run])
                        self.engine.run()
                except Broken:
                    if not 0 < maximum < self.rounds:
                        raise
                if not run:
                    self.report = self.engine.report
                self.endless.append(0 < maximum < self.rounds)
                self._look()
        finally:
            self.sent = {name: np.array(values, float) for name, values in self._received.items()}

    def _look(self) -> None:
        """Append the values of the tensors to `came`, and their unwritten elements to `blanks`."""
        values = {name: self.engine._peek(f"check read {name}") for name in self._read}
        self.came.append(values)
        self.blanks.append(
            {
                name: ~self.engine._written(f"check read {name}")
                for name, tensor in self._read.items()
                # An unwritten element has the value poison(dtype) or NaN. A program may also write
                # such a value, so ask the engine.
                if ((values[name] == poison(tensor.dtype)) | (values[name] != values[name])).any()
            }
        )

    def outcome(self, runs: int) -> list[Array | list[bool] | type[BaseException | None]]:
        """Return the results of the first `runs` runs as a list.

        The list contains the values of the tensors that are read after each run, and the numbers
        sent to each stream. Then come a list that tells for each run whether it was endless, and
        the type of the error.
        """
        values = (value for run in self.came[:runs] for value in run.values())
        sent = (numbers.ravel() for numbers in self.sent.values())
        return [*values, *sent, self.endless[:runs], type(self.error)]

    @property
    def result(self) -> Array:
        """The value of the returned tensor after the last run.

        If the answer returned several tensors, their values are stacked in one array.
        """
        values = [self.came[-1][f"result {k}"] for k in range(len(self.results))]
        return values[0] if len(values) == 1 else np.array(values)

    @property
    def steps(self) -> Counter[str]:
        """The number of steps of each kind in the program.

        A Copy from a stream counts as "fetch", and a Copy to a stream as "send".
        """
        return Counter(_kind(step) for step in all_of(self.program))

    def refused(
        self,
        exercise: str,
        actual: str,
        expected: str = "",
        advice: str = "",
        why: str = "",
        draws: Draws | None = None,
        *,
        runs: int = 0,
        nearest: bool = False,
        **figures: str | float,
    ) -> NotYet:
        """Return the `NotYet` error for a wrong run.

        The error has the reason and advice that `Trial.reason` returns, for example those of a
        known mistake of the exercise that gives the same results. If `Trial.reason` finds no
        reason, the error has `why` and `advice`. `runs`, `nearest` and `figures` are passed to
        `Trial.reason`.
        """
        known, advice = self.trial.reason(
            self, exercise, runs=runs, advice=advice, nearest=nearest, **figures
        )
        return NotYet(
            self.trial.tried,
            actual,
            expected=expected,
            why=known or why,
            next_step=advice,
            draws=draws,
        )

    @property
    def cycles(self) -> float:
        """The modelled cycles of the first run, from its trace.

        :raises NotYet: if the answer itself declares the cost of its vertices.
        """
        self.refuse_own_prices()
        return float(self.report.total_cycles)

    def wrong(self, name: str) -> Wrong | None:
        """Return the first wrong element of the tensor `name`; None if no element is wrong."""
        for run, (came_of_run, after) in enumerate(
            zip(self.came, self.trial.tensors[name].after, strict=False)
        ):
            actual = came_of_run[name]
            right = np.asarray(after)
            if not np.array_equal(actual, right):
                place = tuple(int(i) for i in np.argwhere(actual != right)[0])
                at = ", ".join(map(str, place))
                value = UNWRITTEN if self.unwritten_at(name, run)[place] else quoted(actual[place])
                element = f"{name}[{at}]" if place else name
                return Wrong(run, f"{element}: {value}", right[place], right)
        return None

    def unwritten(self, name: str) -> bool:
        """Return whether nothing was written into the tensor `name` in its first wrong run."""
        difference = self.wrong(name)
        return difference is not None and bool(self.unwritten_at(name, difference.run).all())

    def unwritten_at(self, name: str, run: int = 0) -> Array:
        """Return a bool array: True for each element that nothing has written up to this run."""
        return self.blanks[run].get(name, np.zeros(self.came[run][name].shape, bool))

    def unwritten_in(self, words: str, name: str, run: int = 0, part: Any = ...) -> Reason:
        """Return `(words, reason)`, where a NaN in `words` is explained.

        `words` describe a difference in the part `part` of the tensor `name`. If nothing has
        written the element, "nothing was written" replaces the NaN. If the answer computed the NaN,
        the reason is `COMPUTED`. In all other cases the reason is "".
        """
        values = self.came[run][name][part]
        if ": nan," not in words:
            return words, ""
        first = np.argmax(values != values)  # The first wrong element is the first NaN.
        if self.unwritten_at(name, run)[part].flat[first]:
            return words.replace("nan", UNWRITTEN, 1), ""
        return words, COMPUTED

    def refuse_unrepeatable(self, name: str) -> None:
        """Raise `NotYet` if the second run of a `twice` trial left other values in a tensor.

        `name` is the name of the tensor. The first run must be known to be right.
        """
        first, second = (run[name] for run in self.came)
        if not (other := ~((first == second) | (first != first) & (second != second))).any():
            return
        place = tuple(int(i) for i in np.argwhere(other)[0])
        element = f"{name}[{', '.join(map(str, place))}]" if place else name
        states = [
            f"self.{field}"
            for compute_set in self.graph.compute_sets
            for table in compute_set.tables.values()
            if not _kits(table.codelet)
            for field in table.state
        ]
        why = "the second run continues from values that the first run stored."
        advice = "let the program write the starting values itself, before it reads them."
        if states:
            why = (
                f"{states[0]} is state, which keeps its value between runs. The second run "
                "continues "
            )
            why += "from the value of the first run."
            advice = f"assign the starting value to {states[0]} at the beginning of compute()."
        raise NotYet(
            f"{self.trial.tried}, in a second run with the same values",
            f"{element}: {quoted(second[place])}",
            expected=f"{quoted(first[place])}, as in the first run",
            why=why,
            next_step=advice,
        )

    def refuse_changed(self, advice: str) -> None:
        """Raise `NotYet` if the program wrote into a tensor that it must not change."""
        for name, var in self.trial.tensors.items():
            if var.kept and self.wrong(name):
                why = (
                    "the program must not change its inputs, since other programs may need them "
                    "again."
                )
                raise NotYet(
                    self.trial.tried, f"{name} is changed by the program", why=why, next_step=advice
                )

    def refuse_moved(self) -> None:
        """Raise `NotYet` if the answer changed the tile mapping of a tensor that it received."""
        for name, var in self.trial.tensors.items():
            if var.lies is None:
                continue
            graph = graph_of(self.trial.tiles)
            var.place(graph, as_given := graph.add_variable(var.dtype, var.shape, name))
            tiles_now = tiles_of(self.graph, self.tensors[name])
            tiles_given = tiles_of(graph, as_given)
            if (moved := tiles_now != tiles_given).any():
                place = tuple(int(i) for i in np.argwhere(moved)[0])
                raise NotYet(
                    self.trial.tried,
                    f"{name}[{', '.join(map(str, place))}] on tile {tiles_now[place]}",
                    expected=f"on tile {tiles_given[place]}, where it was",
                    why=(
                        f"the tile mapping of `{name}` is fixed: other programs write or read it "
                        "on these tiles."
                    ),
                    next_step=(
                        "map only variables that you create. If another tile needs the data, "
                        "create a variable there, and Copy the data to it."
                    ),
                )

    def refuse_other_tiles(self, tiles: Sequence[int], why: str, advice: str) -> None:
        """Raise `NotYet` if vertices run on a tile that is not in `tiles`."""
        work = np.asarray(self.report.compute_cycles_per_tile).copy()
        work[list(tiles)] = 0
        if work.any():
            wanted = (
                f"tile {tiles[0]}" if len(tiles) == 1 else f"the tiles {', '.join(map(str, tiles))}"
            )
            raise NotYet(
                self.trial.tried,
                f"work on tile {int(np.argmax(work > 0))}",
                expected=f"all work on {wanted}",
                why=why,
                next_step=advice,
            )

    def refuse_own_prices(self) -> None:
        """Raise `NotYet` if a vertex of the graph has a stated cost instead of a traced cost.

        The cost may have been stated by the answer, or by a library function that it called.
        """
        for table in (
            table
            for compute_set in self.graph.compute_sets
            for table in compute_set.tables.values()
        ):
            cls = table.codelet
            message = ""
            if table.estimates is not None and max(table.estimates, default=-1) >= 0:
                message = f"graph.set_perf_estimate states the cost of a vertex of {cls.__name__}"
            elif cls in self.graph.codelets.estimators:
                message = f"graph.register_perf_estimator states the cost of {cls.__name__}"
            elif not is_own_module(
                getattr(getattr(cls, "cycles", None), "__module__", "ipu_teach")
            ):
                message = f"{cls.__name__} has a cycles(self, target) of its own"
            if message:
                why = (
                    "this exercise compares costs, so the model counts the cycles of compute() "
                    "itself."
                )
                raise NotYet(
                    self.trial.tried,
                    message,
                    expected="the cycles that the model counts",
                    why=why,
                    next_step="remove the estimate: the model counts the cycles.",
                )


class Endless(Exception):
    """Raised if the loops of a run have more rounds than the trial allows."""


def _report_rounds(graph: Graph, program: Program) -> None:
    """Make each loop whose end the device decides report each round through a stream.

    The host can then stop an endless loop.
    """
    pulse = graph.add_constant(INT, (1,), [0], "check of rounds")
    graph.set_tile_mapping(pulse, 0)
    for number, loop in enumerate(
        [p for p in all_of(program) if isinstance(p, (RepeatWhileTrue, RepeatWhileFalse))]
    ):
        stream = graph.add_device_to_host_fifo(f"check of rounds, loop {number}", INT, 1)
        loop.body = Steps(loop.body, Copy(pulse, stream))


def _kind(step: Program) -> str:
    if isinstance(step, Copy):
        ends = (isinstance(step.source, DataStream), isinstance(step.destination, DataStream))
        return {(True, False): "fetch", (False, True): "send"}.get(ends, "Copy")
    return type(step).__name__


def narrowed(actual: Array, right: Array) -> Reason:
    """Return `(why, next step)` for results that overflowed HALF, or were rounded to HALF.

    For any other result, return ("", "").
    """
    advice = (
        "use FLOAT everywhere; this exercise saves memory by the order of the steps, not by the "
        "dtype."
    )
    if np.isinf(actual).any():
        why = (
            "some numbers are converted to HALF, which ends at 65,504, but the right results go "
            f"up to {quoted(float(np.abs(right).max()))}."
        )
        return why, advice
    if np.allclose(actual, right, rtol=0.01, atol=0.01 * np.abs(right).max()):
        why = (
            "it is nearly right: some numbers are converted to HALF, which has only about three "
            "digits."
        )
        return why, advice
    return "", ""


def refuse_growing(built: Mapping[int, Ran], unit: str, why: str, advice: str) -> None:
    """Raise `NotYet` if the program has more steps for more rounds.

    `built` maps two numbers of rounds, the smaller number first, to the runs with these numbers.
    `unit` is the word for the rounds in the verdict.
    """
    (small, few), (large, many) = ((count, sum(run.steps.values())) for count, run in built.items())
    if many > few:
        actual = f"the program has {few} steps for {small} {unit}, and {many} for {large}"
        raise NotYet(
            "the size of the program",
            actual,
            expected=f"equally many for {small} and {large}",
            why=why,
            next_step=advice,
        )


def refuse_fixed_tiles(
    trial: Trial, answer: Answer, tiles: int, right: str | Callable[[Ran], bool]
) -> None:
    """Raise `NotYet` if an answer is right on a trial's machine, but not on one with `tiles` tiles.

    Such an answer depends on the number of tiles. `right` is the name of the tensor to compare, or
    a function that returns whether a run is right.
    """
    elsewhere_run = trial.elsewhere(tiles)
    why = (
        f"on {trial.tiles} tiles it is right: the code uses the constant {trial.tiles} for the "
        "number of tiles."
    )
    advice = "use graph.target.num_tiles instead of a constant."
    try:
        run = elsewhere_run.of(answer)
    except Broken as broken:
        message = (
            broken.error.tried if isinstance(broken.error, IPUTeachError) else str(broken.error)
        )
        raise NotYet(
            elsewhere_run.tried,
            f"{type(broken.error).__name__}: {message}",
            why=why,
            next_step=advice,
        ) from None
    if callable(right):
        if not right(run):
            actual = "other numbers"
            expected = f"the same as on {trial.tiles} tiles"
            raise NotYet(elsewhere_run.tried, actual, expected=expected, why=why, next_step=advice)
    elif difference := run.wrong(right):
        raise NotYet(
            elsewhere_run.tried,
            difference.words,
            expected=quoted(difference.right),
            why=why,
            next_step=advice,
        )
