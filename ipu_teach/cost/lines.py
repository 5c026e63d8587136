"""The cycles of each line of a codelet.

A line is a statement of `compute()`, or of a method or function that `compute()` calls.

With prices for compiled code, each line has the cycles of its own work. With prices for code
written by hand, this is true only for work on single elements. Work on vectors overlaps with its
loads and stores there, so that only the longest of the three determines the time. The cycles then
belong to the lines with this kind of work.

The cycles to start a vertex belong to no line. Cycles that are added by rounding up belong to the
last line.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import floor
from textwrap import dedent
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.compile.scalar.writer import LOOP, WORD, Spot
from ipu_teach.compile.trace import Trace
from ipu_teach.cost.traced import (
    UNIT,
    VERTEX_OVERHEAD,
    Tally,
    launch_cycles,
    piece_cycles,
    priced_for,
    together,
)
from ipu_teach.cost.vertices.parts import BESIDE, COUNTERS, STARTS, WORDS
from ipu_teach.graph.codelet_registry import said_cycles
from ipu_teach.graph.source import file_name
from ipu_teach.graph.vertex import Vertex
from ipu_teach.target import Target

MOST_PRINTED = 20  # The maximum number of iterations in a table.
# The maximum number of stored elements that are printed for an iteration.
MOST_TOLD = 3
# The number of units in a cycle; the cycles of a source line are counted in these units.
PARTS = 32
ROUNDED = "rounding"  # The kind of work of cycles that are added by rounding up.
# An amount of work: (kind of work, place in the code, amount in units of 1/16 cycle).
Charge = tuple[str, Spot, int]


class Statement(NamedTuple):
    """A statement: the name of its method, its line in the method (1-based), and its text."""

    method: str
    number: int
    text: str


class LineCycles(NamedTuple):
    """A statement, how often one vertex executed it, and the modelled cycles of all executions."""

    line: Statement
    times: int
    cycles: float


class LineCosts(list[LineCycles]):
    """The lines of a vertex with their cycles.

    `parts` divides the cycles of each line by kind of work.
    """

    def __init__(
        self,
        lines: Iterable[LineCycles] = (),
        parts: Mapping[Statement, Mapping[str, float]] | None = None,
    ) -> None:
        super().__init__(lines)
        self.parts = parts or {}


@dataclass(eq=False)
class Turn:
    """An iteration of a loop in a codelet.

    - `line` is the line of the loop.
    - `number` is the number of the iteration, which is 1 for the first iteration each time the loop
      begins. `depth` is the number of loops around this loop.
    - `cycles` are modelled, and include those of inner loops.
    - `values` has the local variables at the end of the iteration, without large arrays.
    - `stored` maps each field to the elements that the iteration stored, also in inner loops: the
      index of each element, which is a tuple if the field has several axes.
    - `held` maps each field to the values of the first three stored elements, at the end of the
      iteration.
    """

    line: Statement
    number: int
    depth: int
    cycles: float = 0
    values: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, Any] = field(default_factory=dict)
    held: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Observed:
    """The record of one vertex that ran.

    - `result` is the return value of `Vertex.call`.
    - `cycles` is the number of modelled cycles, or -1 if they could not be counted.
    - `start` is the number of cycles before the first line. `start` and the cycles of all `lines`
      add up to `cycles`.
    - `lines` is empty if the cycles are an estimate.
    - `turned` is the number of loop iterations that ran. `turns` has the first 10,000 of them, in
      the order in which they began.

    For a MultiVertex, the cycles are those of the tile, and the lines and iterations are those of
    its slowest `worker`.
    """

    codelet: type[Vertex]
    result: Any
    cycles: int
    start: int
    lines: LineCosts
    turns: list[Turn]
    turned: int
    worker: int = 0

    def wrote(self, name: str, *index: int) -> list[Turn]:
        """Return the iterations that stored to field `name`, or to its element at `index`."""
        element = index[0] if len(index) == 1 else index
        return [
            turn
            for turn in self.turns
            if name in turn.stored and (not index or element in turn.stored[name])
        ]

    def __str__(self) -> str:
        rows = [
            (f"{n:,}", in_cycles(cycles), f"{line.method} {line.number}", line.text)
            for line, n, cycles in self.lines
        ]
        text = f"{self.codelet.__name__}: " + (
            f"{self.cycles:,} modelled cycles" if self.cycles >= 0 else "no estimate"
        )
        if rows:
            text += (
                f", {self.start} of them to start\n{listing(('times', 'cycles', 'line', ''), rows)}"
            )
        if not self.turns:
            return text
        turns = [
            (
                str(turn.number),
                in_cycles(turn.cycles),
                f"{'  ' * turn.depth}{turn.line.method} {turn.line.number}",
                told(turn),
            )
            for turn in self.turns[:MOST_PRINTED]
        ]
        omitted = f"\n… {self.turned - len(turns):,} more" if self.turned > len(turns) else ""
        return f"{text}\n\n{listing(('turn', 'cycles', 'loop', ''), turns)}{omitted}"


def line_cycles(group: Group, row: int, target: Target) -> LineCosts:
    """Return the lines of a traced vertex with their cycles.

    The cycles of all lines and of the start add up to the cycles of the vertex. `row` is the
    vertex's row in the table of the group. If the cycles depend on data or are an estimate, the
    lines have no counts, and the result is empty.
    """
    target = priced_for(group.table.codelet, target)
    stated_cycles = None
    if not group.trace.stopped:
        stated_cycles = said_cycles(group.table.codelet, group.estimator, group.shapes, target, "")
    if group.trace.stopped or stated_cycles is not None or group.table.estimates[row] >= 0:
        return LineCosts()
    return lines_of_traces(group.table.codelet, group.traces, target)


def lines_of_traces(codelet: type[Vertex], traces: list[Trace], target: Target) -> LineCosts:
    """Return the lines of a vertex's slowest worker, given the traces of all its workers."""
    slowest = max((Tally(trace, target) for trace in traces), key=lambda tally: tally.cycles)
    charges = ((counter, op.site[:2], amount) for counter, op, amount in slowest.charges)
    return listed(codelet, charges, _gone_through(slowest.trace), slowest.cycles, target)


def _gone_through(trace: Trace) -> Iterator[tuple[Spot, int]]:
    """Yield `(place in the code, number of executions)` of each statement that has operations.

    Statements that only make views or local arrays are left out. A new execution of a statement
    begins after a different statement of the same function, or where the position in the code goes
    back or an instruction repeats.
    """
    naming = naming_of(trace.codelet)
    first_spots = dict[tuple[Statement, str], Spot]()
    times = Counter[tuple[Statement, str]]()
    past_of_code = defaultdict[tuple[str, str], list[tuple[Statement, int, str]]](list)
    for op in trace.ops:
        if op.kind not in ("region", "view", "local"):
            file, line_number, (code, position) = op.site
            past = past_of_code[file, code]
            execution = (naming((file, line_number)), position, op.kind)
            if (
                not past
                or past[-1][0] != execution[0]
                or position < past[-1][1]
                or execution in past
            ):
                times[execution[0], code] += 1
                past.clear()
            past.append(execution)
            first_spots.setdefault((execution[0], code), (file, line_number))
    return (
        (first_spots[statement_of_code], executions)
        for statement_of_code, executions in times.items()
    )


def lines_of_pieces(
    code: ScalarCode,
    target: Target,
    cycles: int,
    pieces: list[int],
    times: list[int],
    beside: Mapping[tuple[str, int], int],
) -> LineCosts:
    """Return the cycles of each line of a scalar loop, computed from counts of executions.

    - `code` is the loop. It consists of pieces: parts of the code without branches.
    - `cycles` are the worker cycles of the vertex.
    - `pieces` has the number of executions of each piece, and `times` that of each line.
    - `beside` maps (counter, index in `code.rates`) to the amount of work on entire regions, in
      units of 1/16 cycle.
    """
    charges: list[Charge] = []
    for piece, executions in zip(code.pieces, pieces, strict=True):
        for priced_operation in piece if executions else ():
            name, kind, spot = priced_operation[0]
            amount = executions * piece_cycles((priced_operation,), target)
            word_part = amount * 2 // 3 if kind == WORD else 0
            charges += [
                (STARTS if name == LOOP else "scalar", spot, amount - word_part),
                (WORDS, spot, word_part),
            ]
    for (counter, rate), amount in beside.items():
        name, _, spot = code.rates[rate]
        charges.append((STARTS if name == LOOP else counter, spot, amount))
    return listed(code.codelet, charges, zip(code.lines, times, strict=True), cycles, target)


def factor_of(codelet: type[Vertex], target: Target) -> int:
    """Return the factor between a vertex's modelled worker cycles and the cycles that are reported.

    The cycles of an ordinary vertex are reported in worker cycles, so the factor is 1. Those of a
    supervisor or multi vertex are reported in tile cycles, so the factor is the number of workers.
    """
    return 1 if codelet.context == "worker" else target.num_worker_contexts


def start_of(codelet: type[Vertex], target: Target) -> int:
    """Return the cycles before a vertex executes its first line.

    They are the start of the vertex itself, and the time in which the tile's supervisor starts its
    workers.
    """
    return factor_of(codelet, target) * VERTEX_OVERHEAD + launch_cycles(codelet)


def listed(
    codelet: type[Vertex],
    charges: Iterable[Charge],
    times: Iterable[tuple[Spot, int]],
    cycles: int,
    target: Target,
) -> LineCosts:
    """Return the lines of a vertex, and how the worker's `cycles` are divided among them.

    `charges` lists the amounts of work with their places in the code, and `times` has the number of
    executions of each place. For a supervisor or multi vertex, the result is in tile cycles.
    """
    factor = factor_of(codelet, target)
    counters: dict[str, Counter[Spot]] = {name: Counter() for name in COUNTERS}
    for counter, spot, amount in charges:
        counters[counter][spot] += amount
    amounts = [float(sum(counters[name].values())) for name in BESIDE]
    cycles_alone = np.array([together(row, target) for row in np.diag(amounts).tolist()])
    # If the work, the loads and the stores overlap, only the longest of them counts.
    if together(amounts, target) < sum(cycles_alone):
        cycles_alone[np.arange(len(cycles_alone)) != np.argmax(cycles_alone)] = 0
    cycles_per_unit = dict.fromkeys(COUNTERS, 1.0) | dict(
        zip(BESIDE, (cycles_alone / np.maximum(amounts, 1)).tolist(), strict=True)
    )
    statement_at = naming_of(codelet)
    executions = Counter[Statement]()
    parts_by_statement = defaultdict[Statement, Counter[str]](Counter)
    for spot, executions_of_spot in times:
        if executions_of_spot:
            executions[statement_at(spot)] = max(executions[statement_at(spot)], executions_of_spot)
    for name, cycles_of_unit in cycles_per_unit.items():
        for spot, amount in counters[name].items():
            parts_by_statement[statement_at(spot)][name] += floor(
                PARTS * amount * cycles_of_unit / UNIT
            )
    lines = sorted(
        {*executions, *parts_by_statement},
        key=lambda statement: (not statement.method.endswith(".compute"), statement),
    )
    if parts_by_statement:
        last_statement = max(
            statement for statement in lines if parts_by_statement[statement].total()
        )
        parts_by_statement[last_statement][ROUNDED] += PARTS * (cycles - VERTEX_OVERHEAD) - sum(
            part.total() for part in parts_by_statement.values()
        )
    shares = {
        statement: {
            counter_name: factor * part / PARTS
            for counter_name, part in parts_by_statement[statement].items()
            if part
        }
        for statement in lines
    }
    return LineCosts(
        (
            LineCycles(statement, executions[statement], sum(shares[statement].values()))
            for statement in lines
        ),
        shares,
    )


def naming_of(codelet: type[Vertex]) -> Callable[[Spot], Statement]:
    """Return a function that maps a place (file, line) in a codelet's code to its statement.

    The place is usually in one of the codelet's methods, or in a function of its module. Otherwise,
    the statement has the name of the file as its method, and no text. A place in a property is
    assigned to the last method or function that begins before it.
    """
    known = _functions(codelet)

    @lru_cache(None)
    def name(spot: Spot) -> Statement:
        file, line = spot
        around = [
            f for f in known if f.__code__.co_filename == file and f.__code__.co_firstlineno <= line
        ]
        if not around:
            return Statement(file_name(file), line, "")
        function = max(around, key=lambda f: f.__code__.co_firstlineno)
        number = line - function.__code__.co_firstlineno + 1
        starts = _statements(function)
        number, text, _ = starts.get(number, (number, "", 0))
        return Statement(function.__qualname__.split(".<locals>.")[-1], number, text)

    return name


def _functions(codelet: type[Vertex]) -> list[FunctionType]:
    """Return the methods of a codelet, and the functions of its module."""
    values = [getattr(v, "__func__", v) for c in codelet.__mro__ for v in vars(c).values()]
    values += getattr(codelet.compute, "__globals__", {}).values()
    return [f for f in values if isinstance(f, FunctionType)]


def without_cost(codelet: type[Vertex], lines: LineCosts) -> list[Statement]:
    """Return the statements of a codelet's methods that have no entry in `lines`.

    Methods without any statement in `lines` are left out.
    """
    statements_with_cost = {statement.line for statement in lines}
    statements = list[Statement]()
    for function in _functions(codelet):
        method_name = function.__qualname__.split(".<locals>.")[-1]
        if any(line.method == method_name for line in statements_with_cost):
            statement_of_line = _statements(function).items()
            statements += (
                Statement(method_name, line_number, text)
                for line_number, (first_line, text, _) in statement_of_line
                if line_number == first_line
            )
    return [
        statement
        for statement in dict.fromkeys(statements)
        if statement not in statements_with_cost and statement.text[0] not in "\"'"
    ]


def indents(codelet: type[Vertex]) -> dict[tuple[str, int], int]:
    """Return the indentation level of each statement of a codelet, keyed by (method, line)."""
    return {
        (function.__qualname__.split(".<locals>.")[-1], first): level
        for function in _functions(codelet)
        for first, _, level in _statements(function).values()
    }


@lru_cache(1024)
def _statements(function: FunctionType) -> dict[int, tuple[int, str, int]]:
    """Map each line number of a function to (first line, text, indentation level) of its statement.

    The result is empty if the source text is not available.
    """
    try:
        text = dedent(inspect.getsource(function))
        # `ast.walk` yields outer statements before inner ones.
        statement_nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    except (OSError, TypeError, SyntaxError):
        return {}
    lines = text.splitlines()
    first_line_of = {
        line_number: node.lineno
        for node in statement_nodes
        for line_number in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    indentations = sorted({node.col_offset for node in statement_nodes})
    levels = {
        node.lineno: indentations.index(node.col_offset) for node in reversed(statement_nodes)
    }
    return {
        line_number: (first_line, lines[first_line - 1].strip(), levels[first_line])
        for line_number, first_line in first_line_of.items()
    }


def listing(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table as aligned text, with two columns of numbers and two columns of text.

    `head` has the headings, and `rows` has the strings in the cells.
    """
    rows_with_head = [head, *rows]
    n, cycles, line, _ = (max(map(len, column)) for column in zip(*rows_with_head, strict=True))
    return "\n".join(
        f"{r[0]:>{n}}  {r[1]:>{cycles}}  {r[2]:<{line}}  {r[3]}".rstrip() for r in rows_with_head
    )


def in_cycles(cycles: float) -> str:
    """Return a number of cycles as text, rounded to two decimals."""
    return f"{np.round(cycles, 2):,.10g}"


def told(turn: Turn) -> str:
    """Return the variables of an iteration, and the elements that it stored, as text."""
    texts = [f"{name} = {value!s}" for name, value in turn.values.items()]
    for name, places in turn.stored.items():
        pairs = zip(places, turn.held[name], strict=False)
        shown = ((f"[{index}]" if index != () else "") + f" = {value!s}" for index, value in pairs)
        ellipsis = ", …" if len(places) > MOST_TOLD else ""
        texts.append(f"stores {name}{', '.join(shown)}{ellipsis}")
    return "; ".join(texts)
