"""The view `turns`: the loops of one vertex, iteration by iteration.

The view can mark the iterations that wrote a chosen element.
"""

from __future__ import annotations

from typing import Any, overload

from ipu_teach.arguments import WHOLE
from ipu_teach.cost.lines import Observed, Turn, told
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.vertex import Vertex, unknown_field
from ipu_teach.graph.vertex_table import VertexRef
from ipu_teach.observer import observe
from ipu_teach.report import Recording, Report
from ipu_teach.show.code import CodeRow, rows_scene, tree
from ipu_teach.show.palette import BYTES, CHOSEN
from ipu_teach.show.report_facts import linked
from ipu_teach.show.scene import Table, number
from ipu_teach.show.vertex_run import ran
from ipu_teach.show.view import View
from ipu_teach.target import Target

CODES = (
    BYTES.lettered("T", "iteration of a loop"),
    CHOSEN.lettered("W", "iteration that wrote it"),
)
MOST_ROWS = 60


@overload
def turns(
    source: type[Vertex] | Observed,
    element: Any = None,
    target: Target | None = None,
    /,
    **values: Any,
) -> View: ...


@overload
def turns(
    source: Recording,
    vertex: VertexRef | tuple[str, int],
    element: Any = None,
    /,
    *,
    step: int | None = None,
) -> View: ...


def turns(source: Any, element: Any = None, target: Any = None, /, **values: Any) -> View:
    """Which iteration of a loop wrote an element, and what did the variables hold then?

    The view shows the iterations of the loops of one vertex: the values of its variables at the end
    of each iteration, the values that the iteration stored, and its cycles.

    `source` is a vertex class, which runs on `values` as in `observe`, or the result of `observe`.
    `target` is the machine whose cycle prices are used. The view marks the iterations that wrote
    `element`, which is the name of a field, (name, index, …), or an index if the vertex writes only
    one field. At most 60 consecutive iterations are shown, including one that wrote the element.
    The sentence says which iterations these are.

    `source` can also be a recording: `show.turns(recording, vertex, element, step=7)` shows a
    vertex of the run. The recording must contain all elements that the vertex reads and writes.
    `vertex` is the result of `add_vertex`, or (name of a compute set, number of the vertex in it).
    `step` is the number of a step in the report, by default the last one that executed the vertex.

    :raises InvalidOptionError: if the vertex has no iterations, if none of them wrote the element,
        or if the vertex did not run or was not recorded.
    :raises UnknownFieldError: if `element` names a field that the vertex does not have.

    The errors of `observe` are raised, too.
    """
    run = None
    report = source.report if isinstance(source, Recording) else None
    if isinstance(source, Recording):
        run = ran(source, element, **values)
        source = run.seen
        element = target
    if isinstance(source, Report):
        raise InvalidOptionError("""show.turns() was given a report, which does not contain the
            values of the run.
            next:  record the tensors that the vertex reads and writes, recording =
            engine.record(…), call engine.run(), then show.turns(recording, vertex).""")
    if not isinstance(source, Observed) and not (
        isinstance(source, type) and issubclass(source, Vertex)
    ):
        raise InvalidOptionError(f"""show.turns() was given {shown(source)}, which is not a vertex
            class.
            next:  give a class and values of its fields, or what observe() returned.""")
    observation = source if isinstance(source, Observed) else observe(source, target, **values)
    name = observation.codelet.__name__
    if not observation.turns:
        raise InvalidOptionError(f"""show.turns() found no loop over elements in {name}.
            next:  show the cost of its lines with print(observe({name}, …)).""")
    place, wrote = ("", list[Turn]()) if element is None else _wrote(observation, element)
    first = next((i for i, turn in enumerate(observation.turns) if turn in wrote), 0)
    start = max(0, min(first - MOST_ROWS // 2, len(observation.turns) - MOST_ROWS))
    longest = max(turn.cycles for turn in observation.turns)
    rows = list[CodeRow]()
    for turn in observation.turns[start : start + MOST_ROWS]:
        cells = (f"{turn.line.number}", number(turn.cycles))
        text = f"{turn.number}: {told(turn)}"
        share = turn.cycles / (longest or 1)
        rows.append((turn.depth, text, cells, share, int(turn in wrote)))
    who = f"One vertex of {name}" if run is None else f"{run.who[0].upper()}{run.who[1:]}, {name}"
    sentence = _sentence(who, observation, start, len(rows), place, wrote)
    table = _table(observation, place, wrote)
    mark = tree(f"iterations of {name}, with its variables", ("line", "cycles"), rows)
    title = _found(name, observation)
    if wrote:
        turn, others = _last_writer(wrote)
        title = f"Iteration {turn.number:,} of line {turn.line.number} wrote {place}{others}"
    scene = rows_scene("turns", title, sentence, CODES, mark=mark, table=table)
    if run is not None and report is not None:
        scene = linked(scene, report, (), {run.compiled: 0}, tile=run.tile, only=run.step)
    return View(scene)


def _found(name: str, observation: Observed) -> str:
    """Return a title: how many iterations ran, how many cycles they took, and what they stored."""
    spent = sum(turn.cycles for turn in observation.turns if not turn.depth)
    spent *= len(observation.turns) == observation.turned
    of_all = (
        f", {number(spent)} of its {number(observation.cycles)} modelled cycles"
        if observation.cycles >= spent > 0
        else ""
    )
    iterations = counted(observation.turned, "iteration")
    stores = any(held for turn in observation.turns for held in turn.stored.values())
    rows = "each row has what one stored" if stores else "none of them stores an element"
    return f"{name} has {iterations} of its loops{of_all}; {rows}"


def _sentence(
    who: str, observation: Observed, start: int, num_rows: int, place: str, wrote: list[Turn]
) -> str:
    """Return a sentence about a vertex: its cycles, iterations, and the last writer of `place`.

    `who` is the name of the vertex. The picture shows `num_rows` iterations, from index `start` on.
    """
    cost = (
        f"{number(observation.cycles)} modelled cycles"
        if observation.cycles >= 0
        else "no estimate of its cycles"
    )
    sentence = f"{who}, {cost}, {counted(observation.turned, 'iteration')} of its loops."
    if wrote:
        turn, others = _last_writer(wrote)
        sentence += (
            f" Iteration {turn.number:,} of line {turn.line.number}, {turn.line.text.rstrip(':')}, "
            f"wrote {place}{others}: {told(turn)}."
        )
    if num_rows < observation.turned:
        sentence += (
            f" Shown are iterations {start + 1:,} to {start + num_rows:,}, in the order in which "
            "they began."
        )
    return sentence


def _table(observation: Observed, place: str, wrote: list[Turn]) -> Table:
    """Return the table, with a row for each iteration.

    A row has the number of the iteration, its line, its cycles, its variables and stores, and
    `place` if the iteration wrote it.
    """
    places = {True: place, False: ""}
    cells_of = (
        (
            f"{t.number}",
            f"{t.line.method} {t.line.number}",
            number(t.cycles),
            told(t),
            places[t in wrote],
        )
        for t in observation.turns
    )
    return (("iteration", "line", "cycles", "names and stores", "wrote"), tuple(cells_of))


def _last_writer(wrote: list[Turn]) -> tuple[Turn, str]:
    """Return `(last, text)`: the last of the innermost iterations that wrote the element.

    `text` says how many other iterations wrote the element before.
    """
    # The iterations of outer loops also count as writing the element.
    innermost = max(turn.depth for turn in wrote)
    *others, last = (turn for turn in wrote if turn.depth == innermost)
    return last, f" last, after {counted(len(others), 'other iteration')}" if others else ""


def _wrote(observation: Observed, element: Any) -> tuple[str, list[Turn]]:
    """Return `(name, iterations)`: the name of the element, and the iterations that wrote it."""
    fields = [
        name
        for name, field in observation.codelet.fields.items()
        if field.kind in ("output", "inout")
    ]
    elements = element if isinstance(element, tuple) else (element,)
    if not all(isinstance(part, (str, *WHOLE)) for part in elements):
        raise InvalidOptionError(f"""show.turns() was given the element {shown(element)}, which is
            not an index or a name.
            next:  give an index, the name of a field, or a tuple of the name and the indices.""")
    if elements and isinstance(elements[0], str):
        field, *index = elements
    elif len(fields) == 1:
        field = fields[0]
        index = list(elements)
    else:
        raise InvalidOptionError(f"""show.turns() was given the element {shown(element)} without a
            field, but {observation.codelet.__name__} writes {counted(len(fields), "field")}.
            next:  name the field: ("NAME", {shown(element)}).""")
    if field not in observation.codelet.fields:
        raise unknown_field(observation.codelet, field)
    place = field + (f"[{', '.join(map(str, index))}]" if index else "")
    wrote = observation.wrote(field, *index)
    if not wrote:
        stored = dict.fromkeys(
            str(stored_value)
            for turn in observation.turns
            for stored_value in turn.stored.get(field, ())
            if stored_value != ()
        )
        those = (
            "choose an element that was written: "
            f"{', '.join([*stored][:8])}{', …' if len(stored) > 8 else ''}."
            if stored
            else ""
        )
        none = f"look at the lines outside of the loops, because no iteration wrote {field}."
        raise InvalidOptionError(f"""show.turns() found no iteration of a loop of
            {observation.codelet.__name__} that wrote {place}.
            next:  {those or none}""")
    return place, wrote
