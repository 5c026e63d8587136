"""The view `program`: the programs as a tree, with the executions and the cycles of each part.

A part is a node of the tree, such as a Sequence or an Execute. A folded part shows the sum over the
parts in it. All cycles are modelled. Several IPUs work at the same time: the cycles of a part are
then those of the IPU with the most work in this part, and its percentage is relative to the time of
that IPU. The table has the cycles of every IPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.graph.variable_table import REPLICA
from ipu_teach.report import Report
from ipu_teach.report.walk import Walk, WalkPlace
from ipu_teach.show import palette
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import checked, linked, run_names, short_name, titled
from ipu_teach.show.scene import Scene, Still, Tree, label, number
from ipu_teach.show.segments import at_work
from ipu_teach.show.view import View
from ipu_teach.target import Target
from ipu_teach.types import Array

MOST_ROWS = 1000
FIRST_ROWS = 28  # The maximum number of rows that are visible at first.
LONGEST_TITLE = 60  # A title has at most this many characters.
# The tree is unfolded to the costliest step if at most this many rows become visible.
MOST_UNFOLDED = 60
# The percentage of the cycles that a step must take. If no step does, the title says that the
# cycles are spread.
SMALL_SHARE = 10.0
PITCH = 20.0


def program(report: Report) -> View:
    """Which part of the program takes the cycles?

    The view shows the programs in `report` as a tree, with the executions and the cycles of each
    part. The program need not have run. The tree is unfolded down to the step that takes the most
    cycles, unless that would show more than 60 rows. If no step takes 10 % of the cycles, the title
    says that they are spread. At most 1,000 parts of the programs are shown. If there are more, a
    note below the picture says so. The numbers of executions show which branch of an If was taken,
    and how often a loop ran.

    :raises InvalidOptionError: if `report` is not a report, or has no program.
    """
    walk = Walk(checked(report, "program", must_have_run=False))
    places = [place for root in walk.roots for place in root.walk()]
    if not places:
        raise InvalidOptionError(
            "show.program() was given a report without a program.",
            next_step="give it the report of a compiled program, Engine(graph, program).report.",
        )
    rows = {
        place.node.step: row
        for row, place in reversed(list(enumerate(places[:MOST_ROWS])))
        if place.node.step >= 0
    }
    return View(linked(_scene(report, walk, places), report, parts=rows))


def _scene(report: Report, walk: Walk, all_places: list[WalkPlace]) -> Scene:
    """Return the scene of the first 1,000 of `all_places`, the parts of the programs."""
    places = all_places[:MOST_ROWS]
    several = report.target.num_sets > 1
    clocks = _kinds(report, walk)
    spent = {
        p: [clock.total() for clock in clocks[id(p)]] if several else [p.cycles] for p in all_places
    }
    cycles_of = {place: max(cycles) for place, cycles in spent.items()}
    total = report.total_cycles if several else sum(cycles_of[root] for root in walk.roots)
    cells = _cells(places, cycles_of, spent, total, report.target.sets * several)
    names = {id(root): run_names(report, number) for number, root in enumerate(walk.roots)}
    numbers = _numbered(all_places)
    titles = [f"{names[id(p)]}: {p.title}" if names.get(id(p)) else numbers[id(p)] for p in places]
    kinds = {
        key: max(clocks_of_place, key=Counter.total) for key, clocks_of_place in clocks.items()
    }
    kind_names = [
        code.name for code in palette.PHASES if any(kinds[id(place)][code.name] for place in places)
    ]
    columns = ("runs", *["longest on"] * several, "modelled cycles", "share")
    panels = Panels()
    kinds_of_places = [kinds[id(place)] for place in places]
    tree = _tree(places, titles, columns, cells, kinds_of_places, total)
    steps = _by_title(all_places, spent)
    tree, title = _finding(
        tree, places, len(all_places), steps=steps, cycles_of=cycles_of, total=total
    )
    panels.put(tree)
    panels.first(len(places), len(all_places), "parts")
    panels.notes += _notes(walk, several and total > 0)
    programs = counted(len(walk.roots), "program")
    note = _still_note(len(all_places), total, several and total > 0)
    ipus = list(report.target.sets) * several
    rows = tuple(
        (
            label(t, 60),
            f"{p.depth}",
            *cells[len(columns) * i : len(columns) * (i + 1)],
            *(number(kinds[id(p)][name]) for name in kind_names),
            *map(number, spent[p] if several else ()),
        )
        for i, (t, p) in enumerate(zip(titles, places, strict=True))
    )
    return panels.scene(
        "program",
        titled(report, title),
        _sentence(walk, len(all_places), steps, total, spent=spent, target=report.target),
        foot=10,
        codes=palette.PHASES,
        stills=(Still(programs, note, 0, 0, first=True),),
        table=(("part", "depth", *columns, *kind_names, *ipus), rows),
    )


def _tree(
    places: list[WalkPlace],
    titles: list[str],
    columns: tuple[str, ...],
    cells: list[str],
    kinds: list[Counter[str]],
    total: float,
) -> Tree:
    """Return the tree of the program, with a row for each part in `places`.

    `cells` are the texts in the columns, row by row. For each part, `kinds` has a Counter that maps
    a kind of phase to cycles.
    """
    depth = np.array([place.depth for place in places])
    counts = np.array([sum(1 for _ in place.walk()) - 1 for place in places])
    has_overlap = "longest on" in columns
    return Tree(
        "tree",
        "program; parts on different IPUs overlap" if has_overlap else "program",
        pitch=PITCH,
        count=len(places),
        depth=depth,
        labels=tuple(label(title, 60) for title in titles),
        columns=columns,
        cells=tuple(cells),
        open=_opened(depth, counts),
        parts=_pieces(kinds, total),
        say="{label}: {runs} runs, {cycles} modelled cycles, {below} parts below",
        values={"runs": np.array([p.runs for p in places]), "below": counts},
    )


def _cells(
    places: list[WalkPlace],
    cycles_of: dict[WalkPlace, float],
    spent: CyclesOf,
    total: float,
    ipus: tuple[str, ...],
) -> list[str]:
    """Return the texts in the columns of the tree, row by row, for the parts in `places`.

    The columns are the executions, the IPU with the most cycles (if there are several IPUs), the
    cycles in `cycles_of`, and the percentage of `total` that these cycles are. `spent` has the
    cycles of each part on each IPU. `ipus` are the names of the IPUs, or () if there is only one.
    """
    cells: list[str] = []
    for place in places:
        cells += [
            f"{place.runs:,}",
            number(cycles_of[place]),
            f"{100 * cycles_of[place] / (total or 1):.1f} %",
        ]
        if ipus:
            cells[-2:-2] = [_whose(spent[place], ipus)]
    return cells


def _finding(
    tree: Tree,
    places: list[WalkPlace],
    num_places: int,
    *,
    steps: list[Spent],
    cycles_of: dict[WalkPlace, float],
    total: float,
) -> tuple[Tree, str]:
    """Return `(tree, title)`: the tree, unfolded to the step that takes longest, and the title.

    `places` are the parts of the program that are drawn, and `num_places` is the number of all
    parts. If no step takes at least 10 % of the cycles, or if too many rows would be visible, the
    tree is not unfolded further.
    """
    opened = tree.open
    largest = max(steps, key=lambda step: float(step.cycles.max()), default=None)
    share = 100 * float(largest.cycles.max()) / total if largest is not None and total else 0.0
    if largest is not None and share >= SMALL_SHARE:
        title = _title(largest, share)
        unfolded = replace(tree, open=opened | _path_to(largest.places[0], places))
        if len(unfolded.visible()) <= MOST_UNFOLDED:
            tree = unfolded
    else:
        parts = [cycles_of[places[row]] for row in tree.visible() if not opened[row]]
        noun = "part"
        if len(parts) == 1 or len(places) < num_places:
            parts, noun = [max(step.cycles.tolist()) for step in steps], "step"
        title = "Nothing that takes time has run"
        if total:
            title = f"The cycles are spread over {counted(len(parts), noun)}: none takes more than "
            title += f"{100 * max(parts) / total:.1f} %"
    return tree, title


def _notes(walk: Walk, has_overlap: bool) -> list[str]:
    """Return the notes below the picture. `has_overlap`: whether several IPUs work at once."""
    notes = []
    if walk.unplaced:
        notes.append(
            f"{counted(walk.unplaced, 'step')} of the run belong to no program as it was compiled."
        )
    if has_overlap:
        notes.append(
            "IPUs work at the same time: a part has the cycles of the IPU with the most work in "
            "it, and their share of that IPU's time."
        )
    return notes


def _still_note(num_places: int, total: float, has_overlap: bool) -> str:
    """Return a sentence on the number of parts of the program, their cycles, and the sums."""
    note = f"{counted(num_places, 'part')}, {number(total)} modelled cycles"
    if has_overlap:
        note += (
            "; IPUs work at the same time: a part has the cycles of the IPU with the most work in "
            "it, so the parts in it can add up to more"
        )
    return note


def _numbered(places: Sequence[WalkPlace]) -> dict[int, str]:
    """Return the titles of all parts, keyed by the `id` of the place.

    Steps with the same title in the same part are numbered, such as "Copy 2 of 3". Parts with the
    same title in the same part get titles that list their steps.
    """
    titles = {id(place): place.title for place in places}
    for place in places:
        same_title = Counter(child.title for child in place.children if child.node.step < 0)
        for child in place.children:
            if same_title[child.title] > 1:
                titles[id(child)] = _by_content(child)
        steps = [child for child in place.children if child.node.step >= 0]
        count_of = Counter(child.title for child in steps)
        number_of = Counter[str]()
        for child in steps:
            number_of[child.title] += 1
            if count_of[child.title] > 1:
                kind, *name = child.title.split(" ", 1)
                prefix = f"{kind} {number_of[child.title]} of {count_of[child.title]}"
                titles[id(child)] = ": ".join([prefix, *name])
    return titles


def _by_content(place: WalkPlace) -> str:
    """Return a title that lists the steps of a part, such as "Sequence: forward0, backward3".

    If a name has several words, such as "forward0/multiply", the title lists only the first. If the
    first word of all steps is the name of the part, the next word is used.
    """
    steps = list(dict.fromkeys(leaf.title for leaf in place.walk() if leaf.node.step >= 0))
    executed = [step.removeprefix("Execute ") for step in steps if step.startswith("Execute ")]
    paths = [name.split("/") for name in executed] or [[step] for step in steps]
    while all(len(path) > 1 for path in paths) and (
        {path[0] for path in paths} == {place.node.name}
    ):
        paths = [path[1:] for path in paths]
    words = list(dict.fromkeys(path[0] for path in paths)) or ["nothing"]
    title = f"{place.title}: {label(words[0], 36)}"
    for place_of, word in enumerate(words[1:], start=1):
        longer = f"{title}, {word}"
        is_last = place_of + 1 == len(words)
        if len(longer) > (LONGEST_TITLE if is_last else LONGEST_TITLE - len(", …")):
            return f"{title}, …"
        title = longer
    return title


def _whose(cycles: Sequence[float], sets: Sequence[str]) -> str:
    """Return the name of the IPU with the most cycles; if several tie, how many they are.

    `cycles` has the cycles on each IPU, and `sets` has the names of the IPUs. Return "" if all
    cycles are 0, and "all" if all IPUs have the same number of cycles.
    """
    busiest = [ipu for ipu, cycles_of_ipu in enumerate(cycles) if cycles_of_ipu == max(cycles) > 0]
    several = (
        "all" if len(busiest) == len(cycles) else f"{len(busiest)} of {len(cycles)}" * bool(busiest)
    )
    return sets[busiest[0]] if len(busiest) == 1 else several


def _opened(depth: Array, counts: Array) -> Array:
    """Return int64[parts]: 1 for each part that is unfolded at first, else 0.

    Level by level, parts are unfolded as long as at most `FIRST_ROWS` rows are visible. `depth` has
    the level of each part, and `counts` the number of parts that each part contains.
    """
    level = 0
    while (depth <= level + 1).sum() <= FIRST_ROWS and level < depth.max():
        level += 1
    opened: Array = np.where((counts > 0) & (depth < level), 1, 0)
    return opened


def _kinds(report: Report, walk: Walk) -> dict[int, list[Counter[str]]]:
    """Return how many cycles each part of the program takes, by IPU and by kind of phase.

    The key is the `id` of a part. The value is a list with a Counter for each IPU, which maps a
    kind of phase to cycles. If a step occurs in several parts, its cycles of every kind are divided
    among them in proportion to their `place.cycles`.
    """
    executions = report.executions.tolist() if report.num_steps else []
    ipus = report.target.num_sets
    clocks_of_leaf: dict[int, list[Counter[str]]] = {}
    cycles_of_leaf = Counter[int]()
    for step, times in ((n, many) for n, many in enumerate(executions) if many):
        leaf = report.profile.leaf(step).step
        cycles_of_leaf[leaf] += times * report.step_cost(step).cycles
        for ipu, clock in enumerate(
            clocks_of_leaf.setdefault(leaf, [Counter() for _ in range(ipus)])
        ):
            # If an IPU does not take part in a step of all IPUs, the step costs it no cycles.
            for phase in report.phases(step, ipu) if at_work(report, step)[ipu] else ():
                clock[phase.kind] += times * phase.cycles
    clocks_of_place: dict[int, list[Counter[str]]] = {}
    # In reversed order, the parts of a program come before the program that contains them.
    for place in reversed([place for root in walk.roots for place in root.walk()]):
        share = place.cycles / (cycles_of_leaf[place.node.step] or 1)
        clocks_of_place[id(place)] = [
            Counter({kind: round(share * cycles) for kind, cycles in clock.items()})
            for clock in clocks_of_leaf.get(place.node.step, [Counter()] * ipus)
        ]
        for child in place.children:
            for clock, below in zip(
                clocks_of_place[id(place)], clocks_of_place[id(child)], strict=True
            ):
                clock.update(below)
    return clocks_of_place


def _pieces(kinds: list[Counter[str]], total: float) -> dict[str, Array]:
    """Return the thousandths of the run that each row spends in each kind of phase.

    The result maps the code of a kind of phase to int64[rows]. The numbers are rounded so that each
    row adds up to the rounded thousandths of all its phases.
    """
    ends = np.cumsum([[row[code.name] for code in palette.PHASES] for row in kinds], axis=1)
    parts = np.diff(np.round(1000 * ends / (total or 1)).astype(np.int64), axis=1, prepend=0)
    return {f"{code}": parts[:, code] for code in np.flatnonzero(parts.any(axis=0)).tolist()}


# Maps each place in the program to its cycles on each IPU.
CyclesOf = Mapping[WalkPlace, Sequence[float]]


class Spent(NamedTuple):
    """The steps that have the same name, and the cycles that they take together.

    Names that differ only in the replica of a variable count as equal. `cycles` has the cycles of
    these steps on each IPU, and `runs` is the number of their executions. `places` are their places
    in the tree; the place with the most cycles comes first.
    """

    title: str
    cycles: Array
    runs: int
    places: tuple[WalkPlace, ...]


def _by_title(places: Sequence[WalkPlace], spent: CyclesOf) -> list[Spent]:
    """Return the cycles on each IPU, added up over all steps with the same name."""
    by_title: dict[str, Spent] = {}
    for place in places:
        if place.node.step >= 0:
            cycles = np.array(spent[place])
            title = re.sub(REPLICA, "", place.title)
            known = by_title.get(title, Spent(place.title, 0 * cycles, 0, ()))
            same_name = sorted((*known.places, place), key=lambda p: -max(spent[p]))
            by_title[title] = Spent(
                known.title if known.title == place.title else title,
                known.cycles + cycles,
                known.runs + place.runs,
                tuple(same_name),
            )
    return list(by_title.values())


def _path_to(target: WalkPlace, places: Sequence[WalkPlace]) -> Array:
    """Return int64[places]: 1 for each part of the program that contains `target`, else 0.

    If these parts are unfolded, the row of `target` is visible. `places` has the part in each row.
    """
    path: Array = np.zeros(len(places), np.int64)
    depth = 0  # The level of the last part on the path, or 0 before `target` is found.
    for row in reversed(range(len(places))):
        if places[row] is target:
            depth = target.depth
        elif places[row].depth < depth:
            path[row], depth = 1, places[row].depth
    return path


def _title(largest: Spent, share: float) -> str:
    """Return the title for a run in which one step takes `share` per cent of the cycles."""
    places = f" in {len(largest.places):,} steps of this name" if len(largest.places) > 1 else ""
    return f"{short_name(largest.title, 48)} takes most, {share:.1f} % of the cycles{places}"


def _sentence(
    walk: Walk, count: int, steps: list[Spent], total: float, *, spent: CyclesOf, target: Target
) -> str:
    """Return a sentence: the size of the programs, and the step that takes the most cycles.

    On several IPUs, the sentence names the step that takes the most cycles on the busiest IPU.
    """
    clocks = [sum(clock) for clock in zip(*(spent[root] for root in walk.roots), strict=True)]
    ipu = clocks.index(max(clocks))
    text = (
        f"{counted(len(walk.roots), 'program')} of {counted(count, 'part')}, "
        f"{number(total)} modelled cycles"
    )
    if target.num_ipus > 1:
        text += f" on {target.num_ipus} IPUs"
    if not total:
        return f"{text}: nothing that takes time has run."
    worst = max(steps, key=lambda step: float(step.cycles[ipu]))
    cycles = float(worst.cycles[ipu])
    steps_text = f" of {len(worst.places):,} steps" if len(worst.places) > 1 else ""
    whose = f" of {target.sets[ipu]}, which has most to do," if len(clocks) > 1 else ""
    return (
        f"{text}; the largest step{whose} is {label(worst.title, 48)}: {number(cycles)} in "
        f"{counted(worst.runs, 'run')}{steps_text}, {100 * cycles / total:.1f} %."
    )
