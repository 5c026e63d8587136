"""The view `code`: the lines of a codelet with their cycles, and how often each line ran.

For a vertex of a library, it shows the formula that gives the cycles.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from textwrap import wrap
from typing import NamedTuple

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.cost import CostModel
from ipu_teach.cost.lines import (
    ROUNDED,
    LineCosts,
    LineCycles,
    Observed,
    Statement,
    indents,
    line_cycles,
    start_of,
    without_cost,
)
from ipu_teach.cost.traced import of_library
from ipu_teach.cost.vertices.parts import STARTS, WORDS
from ipu_teach.errors import InvalidOptionError, counted, did_you_mean, shown
from ipu_teach.graph.vertex import Vertex
from ipu_teach.report import Report
from ipu_teach.show.formula import Formula, formula_of
from ipu_teach.show.palette import BYTES, CHOSEN, HUES, Code
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import linked, model_of
from ipu_teach.show.scene import Scene, Still, Table, Tree, label, number
from ipu_teach.show.view import View
from ipu_teach.target import BY_HAND, COMPILED, Target
from ipu_teach.types import Array

LINE = BYTES.lettered("L", "line")
WORST = CHOSEN.lettered("M", "line that takes most")
START = HUES[2].lettered("S", "start of vertices")
PART = HUES[6].lettered("P", "a part, or the whole")
CODES = (LINE, WORST, START, PART)
# Maps each kind of work on which a line spends cycles to its name in the view.
NAMED = {
    "scalar": "single elements, an instruction each",
    STARTS: "start of loops over vectors",
    WORDS: "a store of half a word reads the rest first",
    "vector": "arithmetic on vectors",
    "loads": "loads of vectors",
    "stores": "stores of vectors",
    ROUNDED: "rounded up to whole cycles",
}
FORMULAS = (
    "The cycles of a library's vertex come from a formula, here with the numbers of a vertex; ceil "
    "rounds up, // rounds down. docs/model.md has the sources."
)
NO_LINE = "in no line"  # Each string that `why` returns ends like this.
WIDEST_TEXT = 58  # The maximum number of characters of a formula in a row.
MOST_SIZES = 6  # The maximum number of vertex sizes whose formulas are shown.
COLUMNS: tuple[str, ...] = ("times", "cycles", "share")
INDENT = "\u00a0" * 4  # Non-breaking spaces, because a picture drops other leading spaces.
OTHER = {COMPILED: BY_HAND, BY_HAND: COMPILED}
# An entry is (executions of a step, group of vertices in the step, cycles of each of these
# vertices).
GroupsRun = list[tuple[int, Group, Array]]
# A row is (level in the tree, text, texts in the columns, length of the bar, index of the bar's
# colour in `CODES`). The length is a number from 0 to 1.
CodeRow = tuple[int, str, tuple[str, ...], float, int]


def code(what: Report | Observed, codelet: type[Vertex] | str | None = None) -> View:
    """Which line of a codelet takes the cycles, or which term of a library's formula?

    The view lists the lines of a codelet with their cycles. `what` is a report, or the result of
    `observe`, which describes a single vertex. For a report, the cycles are those of all vertices
    of `codelet`, which is a vertex class or its name. By default, it is the codelet whose vertices
    take the most cycles.

    The cycles are worker-thread cycles or, for vertices that have the tile to themselves, tile
    cycles. The prices of codelets are "compiled" or "by hand" (`Target.codelet_prices`). An
    additional column has the cycles at the prices that the run did not use.

    Most vertices of a library have no Python lines: a formula or an estimate gives their cycles.
    For such a codelet, the view shows the formula. For a report, the view also says how many of all
    vertices that ran have no lines, and which share of all vertex cycles these vertices took.

    :raises InvalidOptionError: if `what` is not a report, or is a report from a file; if no vertex
        of the codelet ran; or if the operations of its lines could not be counted.
    """
    if not isinstance(what, Observed):
        return _of_run(what, codelet)
    name = what.codelet.__name__
    total = what.cycles
    if not what.lines:
        raise _uncounted(name, f"show what its loops did with show.turns({name}, …).")
    lines = line_rows(what.codelet, what.lines, what.start, total)
    rows = [row(0, name, 1, total, total, PART), *lines]
    return _view(name, f"One vertex of {name}, {number(total)} modelled cycles", COLUMNS, rows)


class _Executions:
    """The vertices of a run, grouped by their codelet.

    Attributes:
        groups_of: for each codelet, a list of (executions, group of vertices, cycles of each
            vertex).
        shown_by: for each codelet, a dict that maps each compiled step that executes the codelet to
            0, which is the row of the tree that shows the codelet.
        moved: for each codelet, the worker cycles of moving data into and out of the vertex
            fields, in the steps that execute the codelet.
        spent: for each codelet, the modelled cycles of its vertices.
    """

    def __init__(self, report: Report, model: CostModel) -> None:
        self.groups_of = defaultdict[type[Vertex], GroupsRun](list)
        self.shown_by = defaultdict[type[Vertex], dict[int, int]](dict)
        self.moved = Counter[type[Vertex]]()
        for step, times in enumerate(report.executions.tolist()):
            groups = list(model.vertices(step)) if times else []
            for group, cycles in groups:
                self.groups_of[group.table.codelet].append((times, group, cycles))
            traffic = report.step_cost(step).exchange
            for name_of in {group.table.codelet for group, _ in groups}:
                self.shown_by[name_of][step] = 0
                self.moved[name_of] += times * sum(
                    int(t.copy_cycles(model.target)[1].sum()) for t in traffic
                )
        self.spent = {
            name_of: sum(times * int(np.maximum(c, 0).sum()) for times, _, c in groups_run)
            for name_of, groups_run in self.groups_of.items()
        }

    def chosen(self, codelet: type[Vertex] | str | None) -> type[Vertex]:
        """Return the vertex class for `codelet`, which is a vertex class, its name, or None.

        If `codelet` is None, the result is the class whose vertices take the most cycles.

        :raises InvalidOptionError: if no vertex of the class ran.
        """
        named = {name_of.__name__: name_of for name_of in self.groups_of}
        chosen = (
            max(self.spent, key=lambda name_of: self.spent[name_of], default=None)
            if codelet is None
            else named.get(str(codelet), codelet)
        )
        if not isinstance(chosen, type) or chosen not in self.groups_of:
            requested = getattr(codelet, "__name__", codelet)
            advice = (
                f"choose a codelet that ran: {', '.join(named)}"
                if named
                else "execute a compute set"
            )
            raise InvalidOptionError(f"""show.code() was asked for {shown(requested)}, but no vertex
                of it ran.
                next:  {did_you_mean(requested, named)}{advice}.""")
        return chosen


def _of_run(report: Report, codelet: type[Vertex] | str | None) -> View:
    """Return the view of all vertices of a codelet in a run."""
    model = model_of(report, "code")
    executions = _Executions(report, model)
    groups_of, spent = executions.groups_of, executions.spent
    chosen = executions.chosen(codelet)
    name = chosen.__name__
    total = spent[chosen]
    groups_run = groups_of[chosen]
    target = model.target
    start, lines = _priced(groups_run, target)
    if not lines and not of_library(chosen):
        raise _uncounted(name, f"show one vertex with show.code(observe({name}, …)).")
    by_size = _by_formula(groups_run, target)
    estimated = _estimated_cycles(groups_run)
    rest = total - start - sum(cycles for *_, cycles in lines) - estimated
    rest -= sum(entry.cycles for entry in by_size.values())
    runs = sum(times * len(c) for times, _, c in groups_run)
    head = f"{counted(runs, 'vertex', 'vertices')} of {name} ran, {number(total)} modelled cycles"
    tail = _without_lines(groups_of, sum(spent.values()))
    columns = COLUMNS
    others = None
    totals = list[float | None]()
    if lines and not of_library(chosen):
        other_prices = OTHER[target.codelet_prices]
        others = _priced(groups_run, replace(target, codelet_prices=other_prices))
        columns = ("times", target.codelet_prices, other_prices, "share")
        totals = [
            None if rest or estimated else others[0] + sum(cycles for *_, cycles in others[1])
        ]
        head += f" {target.codelet_prices}" + (
            "" if totals[0] is None else f", {number(totals[0])} {other_prices}"
        )
    rank = _rank(spent, chosen)
    share = percent(total / (sum(spent.values()) or 1))
    head += f"; it is {rank}, with {share} of the cycles of all vertices"
    rank += f", takes {share} of all vertex cycles"
    rows = [
        row(0, name, runs, total, total, PART, *totals),
        *line_rows(chosen, lines, start, total, others=others),
        *formula_rows(by_size, total),
    ]
    rows += _rows_without_lines(
        chosen, total, rest, estimated, executions.moved[chosen], *[None] * bool(totals)
    )
    view = _view(
        name,
        head,
        columns,
        rows,
        by_size=by_size,
        tail=tail,
        rank=rank,
        in_no_line=(rest + estimated) / (total or 1),
    )
    return View(linked(view.scene, report, (), executions.shown_by[chosen]), repr(view))


def _rows_without_lines(
    codelet: type[Vertex],
    total: float,
    rest: float,
    estimated: float,
    moved: float,
    *other_prices: None,
) -> Iterator[CodeRow]:
    """Yield a row for each kind of cycles that belong to no line, if there are any.

    `rest` are cycles that come from a formula or depend on data. `estimated` are cycles that the
    program sets as an estimate. `moved` are the cycles of moving data into and out of the vertex
    fields.
    """
    texts = (
        (1, why(codelet), rest),
        (1, why(codelet, is_estimated=True), estimated),
        (0, "besides: moving edges into place in its steps", moved),
    )
    for depth, text, cycles in texts:
        if cycles:
            yield row(depth, text, None, cycles, total, PART, *other_prices)


def _rank(spent: Mapping[type[Vertex], int], chosen: type[Vertex]) -> str:
    """Describe the rank of a codelet by its cycles among all codelets that ran."""
    place = 1 + sum(cycles > spent[chosen] for cycles in spent.values())
    if len(spent) == 1:
        return "the only codelet"
    if place == 1:
        return f"the costliest of {len(spent)} codelets"
    return f"number {place} of {len(spent)} codelets"


def has_estimate(group: Group) -> Array:
    """Return bool[vertices]: whether the program sets an estimate of the cycles of each vertex.

    The program can set an estimate for a vertex or for a codelet.
    """
    is_given = group.table.estimates[group.rows] >= 0
    return is_given | (group.estimator is not None)


def _estimated_cycles(groups_run: GroupsRun) -> int:
    """Return the sum of the cycles of all vertices for which the program has an estimate."""
    return sum(
        times * int(np.maximum(cycles[has_estimate(group)], 0).sum())
        for times, group, cycles in groups_run
    )


def _without_lines(groups_of: Mapping[type[Vertex], GroupsRun], total: int) -> str:
    """Return a text: how many library vertices have no lines, and their share of `total` cycles.

    Cycles in worker threads and cycles of vertices that have the tile to themselves are added up,
    because both measure a tile's time. A worker thread takes six times as long, but has only one of
    six issue slots.
    """
    runs = estimated = spent = 0
    for codelet, groups_run in groups_of.items():
        for times, group, cycles in groups_run if of_library(codelet) else ():
            is_estimated = has_estimate(group)
            has_no_lines = is_estimated | hasattr(codelet, "cycles")
            runs += times * int(has_no_lines.sum())
            estimated += times * int(is_estimated.sum())
            spent += times * int(np.maximum(cycles[has_no_lines], 0).sum())
    if not runs:
        return ""
    has = "has" if runs == 1 else "have"
    source = (
        f"a formula gives the cycles of {runs - estimated:,}, an estimate those of {estimated:,}"
    )
    if estimated in (0, runs):
        source = f"{'an estimate' if estimated else 'a formula'} gives the cycles"
    return (
        f" {counted(runs, 'vertex', 'vertices')} of libraries, {percent(spent / (total or 1))} of "
        f"the cycles of all vertices, {has} no Python lines here: {source}."
    )


class BySize(NamedTuple):
    """The number of executions of vertices with the same formula, and the sum of their cycles."""

    runs: int
    cycles: int


def _by_formula(groups_run: GroupsRun, target: Target) -> dict[Formula, BySize]:
    """Return a dict that maps each formula to the executions and cycles of its vertices.

    The costliest formula comes first. Vertices whose cycles do not come from a formula are left
    out.
    """
    by_size: dict[Formula, BySize] = {}
    for times, group, cycles in groups_run:
        formula = formula_of(group.table.codelet, group.shapes, target)
        # The cycles come from an estimate instead of the formula.
        if formula is None or np.any(cycles != formula.cycles):
            continue
        runs, spent = by_size.get(formula, (0, 0))
        count = times * len(cycles)
        by_size[formula] = BySize(runs + count, spent + formula.cycles * count)
    return dict(sorted(by_size.items(), key=lambda entry: -entry[1].cycles))


def formula_rows(by_size: Mapping[Formula, BySize], total: float) -> Iterator[CodeRow]:
    """Yield two rows for each of the costliest formulas: the vertex size, and the formula.

    A last row adds up all other formulas.
    """
    entries = list(by_size.items())
    for formula, (runs, cycles) in entries[:MOST_SIZES]:
        yield row(1, formula.named_sizes, runs, cycles, total, PART)
        text = f"{formula.text} = {formula.cycles:,} cycles"
        yield 2, text, ("",) * len(COLUMNS), 0.0, CODES.index(PART)
    rest = entries[MOST_SIZES:]
    if rest:
        runs = sum(entry.runs for _, entry in rest)
        cycles = sum(entry.cycles for _, entry in rest)
        yield row(1, counted(len(rest), "other size"), runs, cycles, total, PART)


def _largest_term(formula: Formula) -> str:
    """Return the end of a sentence that names a formula's largest term; "" for a single term.

    Products of sums are multiplied out first.
    """
    terms = list(formula_terms(ast.parse(formula.text, mode="eval").body))
    if len(terms) < 2:
        return ""
    text, cycles = max(terms, key=lambda term: term[1])
    return f", in which {text} is {cycles:,} of {formula.cycles:,}"


def formula_terms(node: ast.expr) -> Iterator[tuple[str, int]]:
    """Yield `(text, value)` of each term of an expression; products of sums are multiplied out."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            yield from formula_terms(left)
            yield from formula_terms(right)
        case ast.BinOp(left, ast.Sub(), right):
            yield from formula_terms(left)
            yield from ((f"-{text}", -value) for text, value in formula_terms(right))
        case ast.BinOp(left, ast.Mult(), right) if any(
            isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add | ast.Sub)
            for side in (left, right)
        ):
            for first, a in formula_terms(left):
                yield from ((f"{first} * {second}", a * b) for second, b in formula_terms(right))
        # The text gets brackets, because it may become a factor in a product.
        case ast.BinOp(_, ast.FloorDiv() | ast.Mod(), _):
            yield f"({ast.unparse(node)})", round(_value(node))
        case _:
            yield ast.unparse(node), round(_value(node))


def _value(node: ast.expr) -> float:
    """Return the value of an expression in a formula."""
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.Call(ast.Name("ceil"), [argument]):
            return ceil(_value(argument))
    assert isinstance(node, ast.BinOp)
    a, b = _value(node.left), _value(node.right)
    match node.op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b
        case ast.FloorDiv():
            return a // b
    assert isinstance(node.op, ast.Mod)
    return a % b


def _priced(groups_run: GroupsRun, target: Target) -> tuple[int, LineCosts]:
    """Return `(start, lines)`: the cycles of starting the vertices, and the cost of each line.

    Only vertices whose operations were counted line by line contribute.
    """
    start = 0
    times_of = Counter[Statement]()
    cycles_of = Counter[Statement]()
    parts = defaultdict[Statement, Counter[str]](Counter)
    for times, group, _ in groups_run:
        free = group.rows[group.table.estimates[group.rows] < 0]
        lines = line_cycles(group, int(free[0]), target) if len(free) else LineCosts()
        start += times * len(free) * bool(lines) * start_of(group.table.codelet, target)
        for line, number_of, cycles in lines:
            times_of[line] += times * len(free) * number_of
            cycles_of[line] += times * len(free) * cycles  # type: ignore[assignment]
            for name, part in lines.parts[line].items():
                parts[line][name] += times * len(free) * part  # type: ignore[assignment]
    order = sorted(times_of, key=lambda line: (not line.method.endswith(".compute"), line))
    return start, LineCosts(
        (LineCycles(line, times_of[line], cycles_of[line]) for line in order), parts
    )


def why(codelet: type[Vertex], is_estimated: bool = False) -> str:
    """Say why the cycles of a codelet, or an estimate of these cycles, belong to no line."""
    if is_estimated:
        return f"cycles set by set_perf_estimate: {NO_LINE}"
    return (
        f"cycles by a formula of PopLibs: {NO_LINE}"
        if of_library(codelet)
        else f"cycles that depend on data: {NO_LINE}"
    )


def _uncounted(name: str, advice: str) -> InvalidOptionError:
    """Return the error for a codelet whose cycles cannot be attributed to its lines."""
    return InvalidOptionError(f"""show.code() cannot show the cycles of each line of {name},
        because the program gives its cycles as a whole, its cycles depend on data, or its
        operations cannot be counted.
        next:  {advice}""")


def _view(
    name: str,
    head: str,
    columns: tuple[str, ...],
    rows: list[CodeRow],
    by_size: Mapping[Formula, BySize] | None = None,
    tail: str = "",
    rank: str = "",
    in_no_line: float = 0.0,
) -> View:
    """Return the view of the table `rows`. Its sentence begins with `head` and ends with `tail`.

    `rank` is the part of the title that gives the codelet's rank among all codelets that ran, and
    its share of the cycles. `in_no_line` is the share of the cycles that belong to no line.
    """
    mark = tree(name, columns, rows)
    rows = [(n, t.replace(INDENT, ""), cells, share, c) for n, t, cells, share, c in rows]
    worst = next((one for one in rows if one[4] == CODES.index(WORST)), None)
    if worst is not None:
        worst_line = f"; most in line {worst[1].rstrip(':')}, {percent(worst[3])}"
        title = f"Line {worst[1].partition(':')[0]} takes {percent(worst[3])} of {name}"
        if in_no_line > worst[3]:
            title += f", more than any other; {percent(in_no_line)} belong to no line"
    elif by_size:
        costliest = next(iter(by_size))
        worst_line = (
            f"; most with {costliest.named_sizes}: {costliest.text} = {costliest.cycles:,} each"
            f"{_largest_term(costliest)}"
        )
        each = sorted({formula.cycles for formula in by_size})
        cycles = f"{each[0]:,}" if len(each) == 1 else f"{each[0]:,} to {each[-1]:,}"
        title = f"{name}, {rank}: {cycles} a vertex, by a formula{_largest_term(costliest)}"
    else:
        worst_line = f", {rows[1][1]}"
        title = f"{name}, {rank}: its cycles have no lines"
    sentence = f"{head}{worst_line}.{tail}"
    notes = (FORMULAS,) if by_size else ()
    table = tuple(("  " * depth + text, *cells) for depth, text, cells, *_ in rows)
    wide = [max(map(len, column)) for column in zip(("", *columns), *table, strict=True)]
    text = [sentence]
    for last, *cells in (("", *columns), *table):
        text.append(
            " ".join(f"{cell:>{w + 1}}" for cell, w in zip(cells, wide[1:], strict=True))
            + f"  {last}".rstrip()
        )
    return View(
        rows_scene(
            "code",
            title,
            sentence,
            CODES,
            mark=mark,
            table=(("line", *columns), table),
            notes=notes,
        ),
        "\n".join(text),
    )


def row(
    depth: int,
    text: str,
    times: int | None,
    cycles: float,
    total: float,
    code: Code,
    *other_prices: float | None,
) -> CodeRow:
    """Return a row of the table, which shows `cycles` and their share of `total`.

    `depth` is the level of the row in the tree, and `times` is a number of executions, or None. If
    the table has a column for the prices of codelets that the run did not use, `other_prices` has
    the cycles at these prices.
    """
    rest = ("" if o is None else number(o) for o in other_prices)
    cells = (
        "" if times is None else f"{times:,}",
        number(cycles),
        *rest,
        percent(cycles / (total or 1)),
    )
    return depth, text, cells, cycles / (total or 1), CODES.index(code)


def percent(share: float) -> str:
    """Return a fraction from 0 to 1 as a percentage."""
    return f"{100 * share:.1f} %"


def line_rows(
    codelet: type[Vertex],
    lines: LineCosts,
    start: float,
    total: float,
    others: tuple[float, LineCosts] | None = None,
) -> Iterator[CodeRow]:
    """Yield a row for starting the vertices, and a row for each line of a codelet.

    A line with several kinds of work is followed by a row for each kind. A line without cost also
    has a row. Each row shows its share of `total` cycles. `others` is (cycles of starting, costs of
    the lines) at the prices of codelets that the run did not use, "compiled" or "by hand". Without
    `lines`, there are no rows.
    """
    if not lines:
        return
    worst = max(cycles for *_, cycles in lines)
    main = lines[0].line.method
    deep = indents(codelet)
    prices = others[1] if others else LineCosts()
    spent = {line: cycles for line, _, cycles in prices}
    yield row(1, "start of vertices", None, start, total, START, *others[:1] if others else ())
    idle = (LineCycles(line, 0, 0) for line in without_cost(codelet, lines))
    for line, times, cycles in sorted([*lines, *idle], key=lambda o: (o.line.method != main, o)):
        text = "" if line.method == main else f"{line.method} "
        text += f"{line.number}: {INDENT * deep.get((line.method, line.number), 0)}{line.text}"
        if not times:
            yield 1, text, ("",) * (3 + bool(others)), 0.0, CODES.index(LINE)
            continue
        code = WORST if cycles == worst else LINE
        yield row(1, text, times, cycles, total, code, *[spent.get(line, 0)] * bool(others))
        for name, part in lines.parts[line].items() if len(lines.parts[line]) > 1 else ():
            again = [prices.parts.get(line, {}).get(name, 0)] * bool(others)
            yield row(2, NAMED[name], None, part, total, PART, *again)


def tree(heading: str, columns: tuple[str, ...], rows: list[CodeRow]) -> Tree:
    """Return the rows as a tree that is completely unfolded. A long formula takes several rows."""
    rows = [part for each in rows for part in _wrapped(each)]
    depth, texts, cells, shares, codes = zip(*rows, strict=True)
    inner = np.append(np.diff(depth) > 0, False).astype(np.int64)
    share = np.round(1000 * np.array(shares)).astype(np.int64)
    parts = {f"{code}": np.where(np.array(codes) == code, share, 0) for code in sorted(set(codes))}
    return Tree(
        "tree",
        heading,
        pitch=20,
        count=len(rows),
        depth=np.array(depth),
        labels=tuple(INDENT.join(map(label, text.split(INDENT))) for text in texts),
        columns=columns,
        cells=tuple(cell for row in cells for cell in row),
        parts=parts,
        open=inner,
        column=max(68, 7.2 * max(len(cell) for row in cells for cell in row) + 8),
    )


def _wrapped(whole_row: CodeRow) -> Iterator[CodeRow]:
    """Yield the row, divided into several rows if it contains a long formula."""
    depth, text, cells, share, code = whole_row
    if any(cells) or len(text) <= WIDEST_TEXT or not text.endswith(" cycles"):
        yield whole_row
        return
    expression, _, result = text.rpartition(" = ")
    lines = wrap(expression, WIDEST_TEXT, break_long_words=False, break_on_hyphens=False)
    result = f"= {result}"
    if len(lines[-1]) + 1 + len(result) > WIDEST_TEXT:
        lines.append(result)
    else:
        lines[-1] += f" {result}"
    first, *rest = lines
    yield depth, first, cells, share, code
    for line in rest:
        yield depth, INDENT + line, cells, share, code


def rows_scene(
    view: str,
    title: str,
    sentence: str,
    codes: tuple[Code, ...],
    mark: Tree,
    table: Table,
    notes: Sequence[str] = (),
) -> Scene:
    """Return a scene that consists of a single tree."""
    panels = Panels()
    panels.put(mark)
    panels.notes += ["Cycles are modelled.", *notes]
    stills = (Still(title, sentence, int(next(iter(mark.parts))), 0, first=True),)
    return panels.scene(view, title, sentence, foot=10, codes=codes, stills=stills, table=table)
