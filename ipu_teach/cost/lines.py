"""The cycles of each line of a codelet.

A line is a statement of `compute()`, or of a method or function that it calls; `times` is how often
it ran. Work on single elements belongs to its line, and with compiled prices so does all other
work. With prices by hand, work on vectors overlaps with loads and stores. A codelet's vector part
then takes as long as the longest of the three, and its cycles belong to the lines of that one. The
start of a vertex belongs to no line. Cycles added by rounding up belong to the last line.
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

MOST_PRINTED = 20  # the most iterations shown in a table
MOST_TOLD = 3  # the most stored elements shown for an iteration
PARTS = 32  # parts of a cycle, the unit in which lines are counted
ROUNDED = "rounding"  # the part that rounds the total up
Charge = tuple[str, Spot, int]  # (counter, place, number of units of `UNIT`)


class Statement(NamedTuple):
    """A statement: its method, its line in that method (from 1), and the text of that line."""

    method: str
    number: int
    text: str


class LineCycles(NamedTuple):
    """A line, how often one vertex executed it, and the total of its modelled cycles."""

    line: Statement
    times: int
    cycles: float


class LineCosts(list[LineCycles]):
    """The lines of a vertex. `parts` divides the cycles of each line by kind of work."""

    def __init__(
        self,
        lines: Iterable[LineCycles] = (),
        parts: Mapping[Statement, Mapping[str, float]] | None = None,
    ) -> None:
        super().__init__(lines)
        self.parts = parts or {}


@dataclass(eq=False)
class Turn:
    """An iteration of a loop.

    - `number` counts from 1 each time the loop begins, and `depth` is the number of loops around
      it.
    - `cycles` are modelled and include those of inner loops.
    - `values` has the local variables at its end, without large arrays.
    - `stored` has, by field, the elements that were stored, also by inner loops: their numbers, or
      their indices if there are several axes.
    - `held` has the values at its end of the first three of these elements.
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
    - `cycles` are modelled; -1 if they could not be counted.
    - `start` is the cycles of its start; with the cycles of `lines` they add up to `cycles`.
    - `lines` is empty if the cycles are an estimate.
    - `turns` has the iterations in the order in which they began, at most 10,000 of all `turned`.

    For a MultiVertex, cycles are the tile's, and lines and turns those of its slowest `worker`.
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
        """Return the iterations that stored in field `name`, or in its element at `index`."""
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
    """Return the lines of a traced vertex. Their cycles and the start add up to the vertex's.

    `row` is the vertex's row in the table of the group. The result is empty if the lines have no
    counts: if the cycles depend on data, or are an estimate.
    """
    target = priced_for(group.table.codelet, target)
    stated_cycles = None
    if not group.trace.stopped:
        stated_cycles = said_cycles(group.table.codelet, group.estimator, group.shapes, target, "")
    if group.trace.stopped or stated_cycles is not None or group.table.estimates[row] >= 0:
        return LineCosts()
    return lines_of_traces(group.table.codelet, group.traces, target)


def lines_of_traces(codelet: type[Vertex], traces: list[Trace], target: Target) -> LineCosts:
    """Return the lines of a vertex from the traces of its workers, of which the slowest counts."""
    slowest = max((Tally(trace, target) for trace in traces), key=lambda tally: tally.cycles)
    charges = ((counter, op.site[:2], amount) for counter, op, amount in slowest.charges)
    return listed(codelet, charges, _gone_through(slowest.trace), slowest.cycles, target)


def _gone_through(trace: Trace) -> Iterator[tuple[Spot, int]]:
    """Yield (place, number of executions) of each statement.

    An execution begins after a different statement, or where the position in the code goes back or
    an instruction repeats.
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
    """Return the lines of a scalar loop.

    `pieces` and `times` are how often each piece and each line of the loop ran, and `beside` is the
    work on regions.
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
    """Return how many tile cycles a cycle of the vertex's worker is, if it has the tile for itself.

    For an ordinary vertex the result is 1.
    """
    return 1 if codelet.context == "worker" else target.num_worker_contexts


def start_of(codelet: type[Vertex], target: Target) -> int:
    """Return the cycles before a vertex executes its first line.

    They are its own start, and the start of its workers by the tile's supervisor.
    """
    return factor_of(codelet, target) * VERTEX_OVERHEAD + launch_cycles(codelet)


def listed(
    codelet: type[Vertex],
    charges: Iterable[Charge],
    times: Iterable[tuple[Spot, int]],
    cycles: int,
    target: Target,
) -> LineCosts:
    """Return the lines with their parts of the `cycles` of a worker.

    For a vertex that has the tile for itself, their cycles are tile cycles.
    """
    factor = factor_of(codelet, target)
    counters: dict[str, Counter[Spot]] = {name: Counter() for name in COUNTERS}
    for counter, spot, amount in charges:
        counters[counter][spot] += amount
    amounts = [float(sum(counters[name].values())) for name in BESIDE]
    cycles_alone = np.array([together(row, target) for row in np.diag(amounts).tolist()])
    if together(amounts, target) < sum(
        cycles_alone
    ):  # the three overlap, and only the longest counts
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
    """Return a function that returns the statement at a place of a codelet's code.

    The places are in its methods, or in functions of its module.
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
    """Return the statements of the same methods that are not in `lines`."""
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
    """Return the level of indentation of each statement, by (method, line)."""
    return {
        (function.__qualname__.split(".<locals>.")[-1], first): level
        for function in _functions(codelet)
        for first, _, level in _statements(function).values()
    }


@lru_cache(1024)
def _statements(function: FunctionType) -> dict[int, tuple[int, str, int]]:
    """Return (first line of its statement, text, level of indentation) for each line of a function.

    The result is empty if the source text is not known.
    """
    try:
        text = dedent(inspect.getsource(function))
        # outer statements come first
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
    """Return the rows as aligned text: two columns of numbers, and two of text."""
    rows_with_head = [head, *rows]
    n, cycles, line, _ = (max(map(len, column)) for column in zip(*rows_with_head, strict=True))
    return "\n".join(
        f"{r[0]:>{n}}  {r[1]:>{cycles}}  {r[2]:<{line}}  {r[3]}".rstrip() for r in rows_with_head
    )


def in_cycles(cycles: float) -> str:
    """Return cycles as text."""
    return f"{np.round(cycles, 2):,.10g}"


def told(turn: Turn) -> str:
    """Return an iteration's variables and stores as text."""
    texts = [f"{name} = {value!s}" for name, value in turn.values.items()]
    for name, places in turn.stored.items():
        pairs = zip(places, turn.held[name], strict=False)
        shown = ((f"[{index}]" if index != () else "") + f" = {value!s}" for index, value in pairs)
        ellipsis = ", …" if len(places) > MOST_TOLD else ""
        texts.append(f"stores {name}{', '.join(shown)}{ellipsis}")
    return "; ".join(texts)
