"""The exercises of lesson 09, Streaming memory: correct results and known mistakes.

A check compares the content of a remote buffer and the outputs of the layers with the right values.
If they are wrong, the check follows the program step by step to find the wrong row. Which transfers
share a step is read from the compiled program, so this module does not repeat the compiler's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.bound import Bound
from ipu_course.checking.calling import Answer, Broken, answering, call_made
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import same, suspects
from ipu_course.checking.programs import (
    TILES,
    WIDTH,
    all_of,
    device_of,
    drawn_layers,
    gone_through,
    layer_of,
    one_program,
)
from ipu_course.checking.quoting import name_of, quoted
from ipu_course.checking.trial import (
    Built,
    Parts,
    Ran,
    Trial,
    Var,
    appends,
    equal,
    linearly,
    on_ipu,
    refuse_growing,
)
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import MODELLED, NotYet, Passed, raise_first, refusing
from ipu_teach import (
    FLOAT,
    UNSIGNED_INT,
    Device,
    Engine,
    Graph,
    Report,
    Tensor,
    compile_graph,
    show,
)
from ipu_teach.errors import IPUTeachError, PoplarIndexError, counted
from ipu_teach.graph.remote_buffer import RemoteBuffer
from ipu_teach.program import Copy, Program, Repeat, Sequence as Steps
from ipu_teach.show.view import View
from ipu_teach.types import Array

REPLICAS = 4
EACH = 26  # The number of elements of a short row.
BYTES = "bytes to and from streaming memory"

# --- What answers look like -----------------------------------------------------------------------


def _of_rows(per_row: int, rows: int) -> Callable[..., Built]:
    """Return a function that builds the program of answer(graph, buffer, *tensors, *more).

    The answer returns a program. `buffer` is a remote buffer of `rows` rows of `per_row` elements.
    """

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        buffer = graph.add_remote_buffer("rows", FLOAT, per_row, rows)
        returned_value = call_made(answer, trial.tried, graph, buffer, *parts, *trial.more)
        return one_program(returned_value, trial.tried), []

    return form


def _write(engine: Engine, handle: str, values: Array) -> None:
    """Write `values[i]` into row i of a remote buffer, for each i."""
    for row, row_values in enumerate(values):
        engine.copy_to_remote_buffer(np.ravel(row_values), handle, row)


# --- 09.1 -----------------------------------------------------------------------------------------


def _counting(description: str, rows: int) -> Trial:
    """Return a trial of answer(graph, buffer, x, row, rows), whose program adds 1 to `rows` rows.

    The remote buffer has two more rows, which are never written.
    """

    def ready(run: Ran) -> None:
        _write(run.engine, "rows", _first_rows(rows))

    def agree(learner_run: Ran, reference_run: Ran) -> bool:
        return same(_seen(learner_run, rows), _seen(reference_run, rows))

    return Trial(
        description,
        {"x": Var(FLOAT, EACH, linearly), "row": Var(UNSIGNED_INT, (1,), 0)},
        more=(rows,),
        form=_of_rows(EACH, rows + 2),
        runs=2,
        ready=ready,
        agree=agree,
    )


def _first_rows(rows: int) -> Array:
    return np.arange(rows * EACH, dtype=np.float32).reshape(rows, EACH) * 2


def _seen(run: Ran, rows: int) -> tuple[Array, int, type[BaseException | None]]:
    """Return (content of the buffer, completed runs, type of the error) after a trial.

    The content is NaN in rows that were not written.
    """
    contents = np.full((rows + 2, EACH), np.nan, np.float32)
    for row in range(rows + 2):
        try:
            contents[row] = run.engine.copy_from_remote_buffer("rows", row)
        except IPUTeachError:
            continue
    return contents, len(run.came), type(run.error)


def _counted(answer: Callable[..., Program]) -> Passed:
    wrong = []
    built = {}
    for rows, special in ((5, ""), (11, "the buffer has 11 rows"), (1, "the buffer has one row")):
        trial = _counting(f"{name_of(answer)} with {counted(rows, 'row')}, run twice", rows)
        built[rows] = run = trial.through(answer, "09.1")
        contents, *_ = _seen(run, rows)
        right = np.full_like(contents, np.nan)
        right[:rows] = _first_rows(rows) + 2
        off = np.argwhere(~((contents == right) | np.isnan(contents) & np.isnan(right)))
        for row, place in off[:1].tolist():
            actual = f"row {row} ends with {quoted(contents[row, place])} at index {place}"
            expected = quoted(right[row, place])
            if row >= rows:
                actual = f"row {row} was written"
                expected = f"only rows 0 to {rows - 1}"
            advice = (
                "write down by hand what each step of the program does with row 0, and then with "
                "row 1."
            )
            wrong.append((run.refused("09.1", actual, expected, advice), special))
    raise_first(wrong)
    why = "each row has its own steps here, so a program for a million rows would not fit."
    few = {rows: built[rows] for rows in (5, 11)}
    refuse_growing(few, "rows", why, "use Repeat(rows, body), and add 1 to `row` in the body.")
    words = "5, 11 and 1 rows, run twice: each row grew by 2, and the rows after them are unchanged"
    return Passed(words, evidence=_seen(built[5], 5)[0])


# --- 09.2 -----------------------------------------------------------------------------------------


@cache
def _depths(name: str) -> tuple[Trial, ...]:
    """Return the trials of the answer called `name`: with 3, 5, 8 and 16 layers."""
    return tuple(_deep(name, layers) for layers in (3, 5, 8, 16))


def _deep(name: str, layers: int) -> Trial:
    """Return a trial of answer(graph, buffer, x, layers), which returns a program.

    The program passes x through all layers.
    """
    x, weights = drawn_layers(layers)
    right = [gone_through(x, weights)] * 2
    return Trial(
        f"{name} with {counted(layers, 'layer')}",
        {"x": Var(FLOAT, x.shape, linearly, given=[x, -x], right=[right[0], -right[1]])},
        more=(layers,),
        form=_of_rows(WIDTH * WIDTH, layers),
        runs=2 if layers < 8 else 1,
        ready=lambda run: _write(run.engine, "rows", weights),
        agree=_stops_alike,
        # A second trial helps to find the mistake in an answer. The trial with 8 layers comes
        # before those with 5 and 3, because it distinguishes more mistakes.
        beside=lambda: _depths(name)[2::-1],
    )


def _loads_of(run: Ran) -> list[Copy]:
    """Return the copies from remote buffers in the program of a run."""
    copies = (step for step in all_of(run.program) if isinstance(step, Copy))
    return [copy for copy in copies if isinstance(copy.source, RemoteBuffer)]


def _stops_alike(learner_run: Ran, reference_run: Ran) -> bool:
    """Return whether two programs give the same results.

    Programs that stop with an error must also have the same number of loads, because one load too
    many and a row number that is too large stop with the same error.
    """
    if not equal(learner_run, reference_run):
        return False
    num_loads, expected = (len(_loads_of(run)) for run in (learner_run, reference_run))
    return learner_run.error is None or num_loads == expected


LAYER = 4 * WIDTH * WIDTH // TILES  # The bytes of a layer's weights on a tile.
# The reasons why the memory exceeds its budget. The first three depend on how many bytes each
# further layer adds: none, at most those of its weights, or more. The last reason is for programs
# that add more bytes than that, although they have as many variables for weights with `many` layers
# as with `few`.
MORE_MEMORY = (
    "the weights of more than one layer are in memory, although only one layer computes.",
    "the weights share one variable, but each layer still has its own vertices and results.",
    "the weights of all layers are in memory, since each layer has its own variable.",
    "the program has steps of its own for each layer, with their own code, vertices and results.",
)


def one_layer(layers: int = 1) -> int:
    """Return the bytes on the fullest tile if the weights of `layers` layers are in memory.

    Only one of these layers computes, and the program does not load weights from streaming memory.
    """
    device = device_of()
    graph = Graph(device)
    program = Steps()
    layer_of(graph, program)
    memory = compile_graph(graph, program, strict=False).report.memory
    return int(memory.held_per_tile.max()) + (layers - 1) * LAYER


def _resident(answer: Callable[..., Program]) -> Passed:
    full: dict[int, Ran] = {}
    for trial in _depths(name_of(answer)):
        (layers,) = trial.more
        full[layers] = trial_run = trial.through(answer, "09.2")
        for run, values, right in zip(
            (1, 2), trial_run.came, trial.tensors["x"].right, strict=False
        ):
            off = np.argwhere(~(np.abs(values["x"] - right) <= 1e-4))
            for i, j in off[:1].tolist():
                advice = "compute one layer by hand, and then two, and compare with x."
                message = f"x[{i}, {j}]: {quoted(values['x'][i, j])} after run {run}"
                expected = quoted(right[i, j])
                raise trial_run.refused("09.2", message, expected, advice)
        if layers == 5:  # A program that lists 16 layers one by one would run too long.
            _refuse_more_memory(full, 3, 5)
    bars = _refuse_more_memory(full, 8, 16)
    words = "3 and 5 layers, run twice, then 8 and 16, which take the same amount of memory"
    return Passed(words, bars, (trial_run.report, int(bars.yours)))


def _weights_of(run: Ran) -> int:
    """Return the bytes of the variables that remote buffers are copied to."""
    loaded = (load.destination for load in _loads_of(run))
    variables = {
        part.var.id: part.var.stop - part.var.start
        for tensor in loaded
        if isinstance(tensor, Tensor)
        for part in tensor.get_var_regions()
    }
    return sum(variables.values())


def _refuse_more_memory(runs: dict[int, Ran], few: int, many: int) -> Bars:
    """Compare the bytes on the fullest tile for `many` layers with their budget, as bars.

    :raises NotYet: if they differ from those for `few` layers, or exceed the budget of two layers.
    """
    peak = {n: int(runs[n].report.memory.held_per_tile.max()) for n in (few, many)}
    # The budget is the bytes of two layers, plus 3 % for copies of the results.
    bars = Bars(round(1.03 * one_layer(2)), peak[many], "bytes on the fullest tile")
    if bars.yours > bars.budget or peak[few] != peak[many]:
        report = runs[many].report
        actual = (
            f"{few} layers take {peak[few]:,} bytes of the fullest tile, and {many} take "
            f"{peak[many]:,}"
        )
        bytes_per_layer = (peak[many] - peak[few]) // (many - few)
        reason = (bytes_per_layer > 0) + (bytes_per_layer > LAYER)
        if reason == 2 and _weights_of(runs[few]) == _weights_of(runs[many]):
            reason = 3
        why = MORE_MEMORY[reason]
        advice = "create one variable w, and put one body into a Repeat."
        if not bytes_per_layer and peak[many] > 2 * report.memory.held_per_tile.mean():
            why = "only one layer's weights are in memory, but they are mapped to few tiles."
            advice = "spread the weights over the tiles: poputil.map_tensor_linearly(graph, w)."
        expected = (
            f"the same number of bytes for {many} layers as for {few}, and fewer than the weights "
            "of two layers"
        )
        raise NotYet(
            runs[many].trial.tried,
            actual,
            expected=expected,
            why=why,
            next_step=advice,
            bars=bars if bars.yours > bars.budget else None,
            draws=partial(show.memory, report),
        )
    return bars


# --- 09.3 -----------------------------------------------------------------------------------------

# An event is (operation, row, IPU). The operation is "load", "compute" or "cross".
Event = tuple[str, int, int]


class TwoIPUs:
    """Two IPUs with weights, an input and a result each, and programs for their operations.

    The object records which operation each program executes.
    """

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self.known = dict[int, tuple[Program, Event]]()
        self.device = device_of(TILES, 2, sync_pattern="SINGLE_PIPELINE")
        self.graph = graph = Graph(self.device)
        self.buffer = graph.add_remote_buffer("weights", FLOAT, WIDTH * WIDTH, layers)
        self.works = [Steps(), Steps()]
        parts = [graph.create_virtual_graph(ipu * TILES, (ipu + 1) * TILES) for ipu in range(2)]
        layers_of_ipus = (layer_of(parts[ipu], self.works[ipu], ipu) for ipu in range(2))
        self.x, self.w, self.y = zip(*layers_of_ipus, strict=True)

    def load(self, row: int, ipu: int) -> Program:
        """Return a program that loads row `row` of the buffer into the weights of IPU `ipu`."""
        self._check_ipu(ipu, "load(row, ipu)")
        number = self.graph.add_constant(UNSIGNED_INT, (1,), [row])
        self.graph.set_tile_mapping(number, ipu * TILES)
        return self._as(Copy(self.buffer, self.w[ipu], number), ("load", row, ipu))

    def compute(self, ipu: int) -> Program:
        """Return a program that runs a layer on IPU `ipu`, with the weights loaded there."""
        self._check_ipu(ipu, "compute(ipu)")
        return self._as(Steps(self.works[ipu]), ("compute", 0, ipu))

    def cross(self, ipu: int) -> Program:
        """Return a program that copies the result of IPU `ipu` to the input of the other IPU."""
        self._check_ipu(ipu, "cross(ipu)")
        return self._as(Copy(self.y[ipu], self.x[1 - ipu]), ("cross", 0, ipu))

    def _check_ipu(self, ipu: int, call: str) -> None:
        """Raise `PoplarIndexError` unless `ipu` is 0 or 1; `call` is the learner's call."""
        if ipu not in (0, 1):
            actual = f"{call} got IPU {quoted(ipu)}, but the only IPUs are 0 and 1."
            raise PoplarIndexError(actual, next_step="compute layer n on IPU n % 2.")

    def _as(self, program: Program, event: Event) -> Program:
        """Record that `program` executes the operation `event`, and return the program."""
        self.known[id(program)] = program, event
        return program

    def events(self, program: Program) -> Iterator[Event]:
        """Yield the operations of a program in execution order."""
        if id(program) in self.known:
            yield self.known[id(program)][1]
            return
        for _ in range(program.count if isinstance(program, Repeat) else 1):
            for child in program.children():
                yield from self.events(child)

    def run(self, program: Program) -> tuple[Array, Array, Report]:
        """Return (output on the IPU of the last layer, expected output, report)."""
        x, weights = drawn_layers(self.layers)
        self.graph.create_host_write("x", self.x[0])
        self.graph.create_host_read("y", self.y[(self.layers - 1) % 2])
        engine = Engine(self.graph, program)
        engine.load(self.device)
        engine.write_tensor("x", x)
        _write(engine, "weights", weights)
        engine.run()
        return engine.read_tensor("y"), gone_through(x, weights), engine.report


def row_read_wrongly(events: Sequence[Event], layers: int) -> tuple[str, str]:
    """Return `(fault, why)` for the first layer that has a wrong row or input, in program order.

    For a right program, the result is ("", ""). `why` is "" if only the final result is wrong.
    """
    weights: list[int | None] = [None, None]
    # For each IPU: the rows of weights that its present input has passed through.
    rows_of_inputs: list[tuple[int, ...] | None] = [(), None]
    returned_value: list[tuple[int, ...] | None] = [None, None]
    done = set[int]()
    for kind, row, ipu in events:
        if kind == "load":
            weights[ipu] = row
        elif kind == "cross":
            rows_of_inputs[1 - ipu] = returned_value[ipu]
        elif (w := weights[ipu]) is None:
            return f"IPU {ipu} computes before any row was loaded there", (
                "the weights of its layer must be loaded first."
            )
        elif (before := rows_of_inputs[ipu]) is None:
            return f"IPU {ipu} computes row {w}, but it has no input", (
                "the result of the layer before must first be copied with cross."
            )
        elif w != (due := len(before)):
            if w < due:
                why = f"row {due} is not loaded yet: these are the weights of an earlier layer."
            elif due in done:
                why = f"layer {due} has already computed, but IPU {ipu} still has an earlier input."
            else:
                why = f"row {w} overwrote row {due} before layer {due} computed."
            return f"IPU {ipu} computes with row {w}, but row {due} is next", why
        else:
            returned_value[ipu] = (*before, w)
            done.add(w)
    if returned_value[(layers - 1) % 2] != tuple(range(layers)):
        through = counted(len(returned_value[(layers - 1) % 2] or ()), "layer")
        return f"the final result on IPU {(layers - 1) % 2} has gone through {through}", ""
    return "", ""


@cache
def turn_cycles(layers: int) -> int:
    """Return the minimum cycles for `layers` layers that two IPUs compute alternately.

    They are computed from the cycles of a load, a layer and an inter-IPU copy, each measured alone.
    """
    machine = TwoIPUs(2)
    report = machine.run(
        Steps(
            machine.load(0, 0),
            machine.compute(0),
            machine.load(1, 1),
            machine.cross(0),
            machine.compute(1),
        )
    )[2]
    spans = {
        kind: [step.cycles for step in report.steps() if step.cost.kind == kind]
        for kind in ("RemoteCopy", "Execute", "Copy")
    }
    load = spans["RemoteCopy"][0]
    work = sum(spans["Execute"]) // 2
    return load + (layers - 1) * (max(load, work) + sum(spans["Copy"])) + work


def _turns(answer: Callable[..., Program]) -> Passed:
    for layers in (4, 3, 1, 8):
        description = f"{name_of(answer)} for {counted(layers, 'layer')} on two IPUs"
        machine, program, events = _order(answer, layers, description)
        fault = row_read_wrongly(events, layers)
        report: Report | None = None
        try:
            with answering(description):
                y, right, report = machine.run(program)
        except Broken:
            if not fault[0] or any(row >= layers for _, row, _ in events):
                raise
        if report is None or np.abs(y - right).max() > 1e-4:
            refused = refusing("09.3", partial(_like, answer, layers, fault))
            draws = partial(show.streaming, report) if report is not None else None
            advice = "write down which row and which input each IPU has after each step."
            actual, why = fault
            raise refused(description, actual, "", advice, why=why, draws=draws)
    assert report is not None
    minimum = turn_cycles(layers)
    bars = Bars(round(1.03 * minimum), report.total_cycles, MODELLED)
    crossings = sum(kind == "cross" for kind, *_ in events)
    if crossings >= layers:
        refused = refusing("09.3", partial(_as_long, answer, layers, report))
        advice = "do not call `cross` after the last layer."
        raise refused(description, f"{crossings} calls of cross", f"{layers - 1} calls", advice)
    if bars.yours > bars.budget:
        refused = refusing("09.3", partial(_as_long, answer, layers, report))
        why = "an IPU waits for a load."
        advice = "put each load next to the compute of the other IPU, with no cross between them."
        draws = partial(show.streaming, report)
        raise refused(description, "", "", advice, why=why, bars=bars, draws=draws)
    bound = Bound(minimum, MODELLED, f"a load, {layers} layers, {layers - 1} inter-IPU copies")
    words = "1, 3, 4 and 8 layers on two IPUs: each layer uses its own row, and no load delays one"
    return Passed(words, bars, report, bound=bound)


def _order(
    answer: Callable[..., Program], layers: int, description: str
) -> tuple[TwoIPUs, Program, list[Event]]:
    """Return (the two IPUs, the answer's program for them, its operations in execution order)."""
    machine = TwoIPUs(layers)
    steps = (machine.load, machine.compute, machine.cross)

    def in_a_list(*arguments: object) -> object:
        returned_value = answer(*arguments)
        return list(returned_value) if isinstance(returned_value, Iterator) else returned_value

    returned_value = call_made(in_a_list, description, *steps, layers)
    program = one_program(returned_value, description)
    # This raises an error if the program contains itself.
    list(all_of(program))
    return machine, program, list(machine.events(program))


def _like(answer: Answer, layers: int, fault: tuple[str, str], like: Answer) -> bool:
    """Return whether `like` has the same operations and the same fault as the learner's answer.

    `fault` is what `row_read_wrongly` returned for the learner's answer.
    """
    *_, events = _order(like, layers, "")
    return row_read_wrongly(events, layers) == fault and _does_the_same(answer, layers, like)


def _as_long(answer: Answer, layers: int, report: Report, like: Answer) -> bool:
    """Return whether `like` has the same operations and takes the same number of cycles."""
    if not _does_the_same(answer, layers, like):
        return False
    machine, program, _ = _order(like, layers, "")
    return machine.run(program)[2].total_cycles == report.total_cycles


def _does_the_same(answer: Answer, layers: int, like: Answer) -> bool:
    """Return whether two answers have the same operations for two different numbers of layers."""
    both = (
        (sorted(_order(each, number, "")[2]) for each in (answer, like))
        for number in (layers, 3 if layers == 4 else 4)
    )
    return all(first == second for first, second in both)


# --- 09.4 -----------------------------------------------------------------------------------------


def _factors(answer: Callable[[int, int], int]) -> Passed:
    drawn = ((413, 100), (629, 90), (960, 671))
    cases: dict[str, tuple[int, int]] = {f"drawn, {case}": case for case in drawn}
    cases |= {
        "`work` is more than `load`": (443, 671),
        "`load` is 0: there is nothing to load": (0, 500),
    }
    cases |= {
        "`load` is an exact multiple of `work`": (800, 200),
        "`load` is much more than `work`": (10**6 + 1, 100),
    }
    cases |= {"`load` is one cycle more than `work`": (100_001, 100_000)}
    more = product(range(41), range(1, 10))
    known = suspects("09.4")
    return compare(answer, lambda load, work: max(1, -(-load // work)), cases, known, more=more)


# --- 09.5 -----------------------------------------------------------------------------------------


def _training(description: str, numbers: int) -> Trial:
    """Return a trial of answer(graph, weights, grads, program), which appends a training step.

    The four IPUs have the same weights, and different gradients.
    """
    draw = np.random.default_rng(905)
    w = draw.integers(-8, 8, numbers).astype(np.float32)
    grads = draw.integers(-16, 16, (2, REPLICAS, numbers)).astype(np.float32)
    after = [w]
    moments = np.zeros_like(w)
    for all_grads in grads:
        moments = moments / 2 + all_grads.mean(axis=0)
        after.append(after[-1] - moments / 4)

    def ready(run: Ran) -> None:
        for buffer in run.graph.remote_buffers.values():
            _write(run.engine, buffer.handle, np.zeros((buffer.repeats, buffer.num_elements)))

    tensors = {
        f"weights[{i}]": Var(FLOAT, numbers, on_ipu(i), given=[w], right=after[1:])
        for i in range(REPLICAS)
    }
    tensors |= {
        f"grads[{i}]": Var(FLOAT, numbers, on_ipu(i), [g[i] for g in grads])
        for i in range(REPLICAS)
    }

    def agree(learner_run: Ran, reference_run: Ran) -> bool:
        return equal(learner_run, reference_run) and same(
            _outside(learner_run), _outside(reference_run)
        )

    form = appends(together=REPLICAS)
    return Trial(description, tensors, form=form, runs=2, ipus=REPLICAS, ready=ready, agree=agree)


def _outside(run: Ran) -> tuple[Array, bool]:
    """Return (content of the remote buffers after a run, whether no Copy writes to a buffer)."""
    buffers = run.graph.remote_buffers.values()
    row_names = [(buffer.handle, row) for buffer in buffers for row in range(buffer.repeats)]
    rows = [run.engine.copy_from_remote_buffer(*row_name) for row_name in row_names]
    ends = [step.destination for step in all_of(run.program) if isinstance(step, Copy)]
    return np.concatenate([*rows, np.zeros(0)]), all(isinstance(end, Tensor) for end in ends)


def _momentum(answer: Callable[..., None]) -> Passed:
    # 29 / 4 is nearer to 7 than to 8, so rounding and rounding up give different results.
    for numbers in (29, 1040, 3):
        description = f"{name_of(answer)} with {numbers:,} weights on {REPLICAS} IPUs, run twice"
        trial = _training(description, numbers)
        run = trial.through(answer, "09.5")
        shard = -(-numbers // REPLICAS)
        elements_stored = sum(b.repeats * b.num_elements for b in run.graph.remote_buffers.values())
        bars = Bars(8 * REPLICAS * shard, run.report.streaming_bytes, BYTES)
        differences = [wrong for name in trial.tensors if (wrong := run.wrong(name))]
        draws = partial(show.streaming, run.report)
        if differences:
            earliest = min(differences, key=lambda wrong: wrong.run)
            message = f"{earliest.came} after run {earliest.run + 1}"
            advice = "compute one weight and its momentum by hand, through one step."
            raise run.refused("09.5", message, quoted(earliest.expected), advice)
        if not elements_stored:
            why = "the momentum stays on the tiles, but it should be in streaming memory."
            raise NotYet(
                description,
                "no remote buffer",
                why=why,
                next_step="create a remote buffer for the momentum with graph.add_remote_buffer.",
            )
        if bars.yours > bars.budget or elements_stored > REPLICAS * shard:
            why = "the replicas load and store more than one shard each."
            advice = "let each replica load and store only its own shard of the momentum."
            is_over = bars.yours > bars.budget
            if not is_over:
                why = f"four shards need only {REPLICAS * shard:,} elements."
                advice = "create one remote buffer for exactly four shards."
            raise NotYet(
                description,
                f"{elements_stored:,} elements in remote buffers",
                why=why,
                next_step=advice,
                bars=bars if is_over else None,
                draws=draws if is_over else None,
            )
        if numbers == 1040:
            passed = bars, run.report
    words = f"29, 1,040 and 3 weights on {REPLICAS} IPUs, two steps: all replicas are correct"
    bound = Bound(8 * 1040, BYTES, "the momentum is loaded once and stored once")
    return Passed(words, *passed, bound=bound)


# --- 09.6 -----------------------------------------------------------------------------------------

BUFFERS = ("rows", "more")
# A transfer is (operation, source, destination). The operation is "load", "store" or "cross".
Transfer = tuple[str, str, str]


def _program_of(transfers: Sequence[Transfer]) -> tuple[Graph, Program, Device]:
    """Return (graph, program, device) for a program that executes `transfers` on two IPUs.

    Tensors whose names end with 1 are on the second IPU.
    """
    device = device_of(TILES, 2)
    graph = Graph(device)
    sides: dict[str, RemoteBuffer | Tensor] = {
        name: graph.add_remote_buffer(name, FLOAT, EACH) for name in BUFFERS
    }
    for name in sorted({n for _, *ends in transfers for n in ends} - {*BUFFERS}):
        tensor = graph.add_variable(FLOAT, EACH, name)
        on_ipu(int(name[-1]))(graph, tensor)
        graph.set_initial_value(tensor, 1)
        sides[name] = tensor
    return graph, Steps(*(Copy(sides[a], sides[b]) for _, a, b in transfers)), device


def steps_shared(transfers: Sequence[Transfer]) -> list[int]:
    """Return, for each transfer, the index of the compiled step that executes it."""
    graph, program, _ = _program_of(transfers)
    leaves = compile_graph(graph, program, strict=False).compiled.programs[0].leaves()
    return [n for n, leaf in enumerate(leaves) for _ in leaf.children or [leaf]]


@cache
def _steps_of(transfers: tuple[Transfer, ...]) -> tuple[int, ...]:
    return tuple(steps_shared(transfers))


def _steps(transfers: Sequence[Transfer]) -> list[int]:
    """Return `steps_shared(transfers)`, without compiling equal transfers twice."""
    return list(_steps_of(tuple(transfers)))


def _run_of(transfers: Sequence[Transfer]) -> View:
    """Return the timeline of a run that executes these transfers."""
    graph, program, device = _program_of(transfers)
    engine = Engine(graph, program)
    engine.load(device)
    for name in BUFFERS:
        _write(engine, name, np.ones((1, EACH), np.float32))
    engine.run()
    return show.timeline(engine.report)


def _transfers(count: int, draw: np.random.Generator) -> list[Transfer]:
    """Return `count` random transfers.

    A transfer has the kind of the previous one with probability 0.77, so that groups of one kind
    arise. There are only four tensors on each IPU and two buffers, so that transfers often
    conflict.
    """
    transfers: list[Transfer] = []
    kind = "load"
    for _ in range(count):
        kind = str(draw.choice(["load", "store", "cross"])) if draw.random() < 0.35 else kind
        ipu = int(draw.integers(2))
        a, b = (str(n) for n in draw.choice([*"wxyz"], 2))
        source = f"{a}{ipu}"
        target = f"{b}{1 - ipu}"
        buffer = BUFFERS[int(draw.integers(2))]
        ends = {"load": (buffer, source), "store": (source, buffer), "cross": (source, target)}[
            kind
        ]
        transfers.append((kind, *ends))
    return transfers


FIXED = {
    "two that read one buffer": "load rows w0, load rows w1",
    "one reads what another wrote": "cross x0 y1, cross y1 z0",
    "one writes what another reads": "cross x0 y1, cross z1 x0",
    "two write one place": "store x0 rows, store x1 rows",
    "the first and the last": "cross x0 y1, cross z0 w1, cross y1 x0",
    "another kind is between two transfers of one kind": "load rows w0, cross x0 y1, load more w1",
    "there is one transfer": "store x0 more",
}


def listed(text: str) -> list[Transfer]:
    """Parse a line such as "load rows w0, cross x0 y1" into a list of transfers."""
    return [(kind, source, target) for kind, source, target in map(str.split, text.split(", "))]


def _shared(answer: Callable[[Sequence[Transfer]], list[int]]) -> Passed:
    draw = np.random.default_rng(906)
    cases = {f"drawn, {name}": (listed(text),) for name, text in FIXED.items()}
    cases |= {f"drawn, {count} of them": (_transfers(count, draw),) for count in (7, 10, 12)}
    advice = "for each transfer, write down what the current step already reads and writes."
    known = suspects("09.6")
    more = [(_transfers(count, draw),) for count in (2, 3, 4, 5) for _ in range(10)]
    return compare(answer, _steps, cases, known, advice, draws=_run_of, whole=True, more=more)


LESSON = lesson(
    "09",
    question(
        "09.0",
        (
            PredictedValue("waiting together", "loads", whole=True, high=8),
            PredictedValue("waiting apart", "loads", whole=True, high=8),
        ),
    ),
    exercise(
        "09.w1",
        warmups.formula(
            "09.w1",
            lambda layer, batch, batches: layer * batches + batch,
            (3, 2, 5),
            (7, 0, 8),
            (2, 1, 3),
            (0, 0, 4),
            (6, 0, 1),
            more=[
                (layer, batch, batches)
                for batches in range(1, 7)
                for batch in range(batches)
                for layer in range(6)
            ],
        ),
    ),
    exercise("09.1", _counted),
    exercise("09.2", _resident),
    exercise(
        "09.w2",
        warmups.formula(
            "09.w2",
            lambda load, work, layers: load + (layers - 1) * max(load, work) + work,
            (310, 720, 8),
            (990, 410, 6),
            (42, 690, 11),
            (70, 30, 1),
            (50, 50, 4),
            more=product((1, 2, 3, 7, 50), (1, 2, 3, 7, 50), range(1, 9)),
        ),
    ),
    exercise("09.3", _turns),
    question("09.4", (PredictedValue("", "micro-batches", whole=True, low=1),)),
    exercise("09.4", _factors),
    exercise(
        "09.w3",
        warmups.formula(
            "09.w3",
            lambda n, replicas: [-(-n // replicas), -n % replicas],
            (30, 4),
            (521, 8),
            (103, 4),
            (520, 4),
            (3, 4),
            (201, 200),
            more=product(range(1, 41), range(1, 10)),
        ),
    ),
    exercise("09.5", _momentum),
    exercise("09.6", _shared),
)
