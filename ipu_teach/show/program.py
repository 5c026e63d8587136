"""The view `program`: the programs as a tree, with how often each part ran and how many cycles it
took.

A part folds and unfolds; what is folded keeps the sums of what is under it. Every number of cycles
is modelled.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report
from ipu_teach.report.walk import Walk, WalkPlace
from ipu_teach.show import palette
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import checked, linked, run_names, titled
from ipu_teach.show.scene import Scene, Still, Tree, label, number
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST_ROWS = 1000
FIRST_ROWS = 28  # that are unfolded at first
PITCH = 20.0


def program(report: Report) -> View:
    """The programs in `report` as a tree, with the runs and the cycles of each part. Nothing need
    have run.

    Trees of more than 1,000 parts are shown up to there; the view says so. Which way an If or a
    loop went is read off the steps that ran. Raises `InvalidOptionError` for something that is no
    report, or holds no program.
    """
    walk = Walk(checked(report, "program", ran=False))
    places = [place for root in walk.roots for place in root.walk()]
    if not places:
        raise InvalidOptionError(
            "show.program() was given a report without a program.", next_step="compile one with it."
        )
    rows = {
        place.node.step: row
        for row, place in reversed(list(enumerate(places[:MOST_ROWS])))
        if place.node.step >= 0
    }
    return View(linked(_scene(report, walk, places), report, parts=rows))


def _scene(report: Report, walk: Walk, all_places: list[WalkPlace]) -> Scene:
    places = all_places[:MOST_ROWS]
    total = sum(root.cycles for root in walk.roots)
    share = [place.cycles / total if total else 0.0 for place in places]
    cells: list[str] = []
    for place, part in zip(places, share, strict=True):
        cells += [f"{place.runs:,}", number(place.cycles), f"{100 * part:.1f} %"]
    names = {id(root): run_names(report, number) for number, root in enumerate(walk.roots)}
    titles = [f"{names[id(p)]}: {p.title}" if names.get(id(p)) else p.title for p in places]
    depth = np.array([place.depth for place in places])
    counts = np.array([sum(1 for _ in place.walk()) - 1 for place in places])
    opened = _opened(depth, counts)
    kinds = _kinds(report, walk)
    named = [
        code.name for code in palette.PHASES if any(kinds[id(place)][code.name] for place in places)
    ]
    panels = Panels()
    tree = Tree(
        "tree",
        "program",
        pitch=PITCH,
        count=len(places),
        depth=depth,
        labels=tuple(label(title, 60) for title in titles),
        columns=("runs", "modelled cycles", "share"),
        cells=tuple(cells),
        open=opened,
        parts=_pieces([kinds[id(place)] for place in places], total),
        say="{label}: {runs} runs, {cycles} modelled cycles, {below} parts below",
        values={"runs": np.array([p.runs for p in places]), "below": counts},
    )
    panels.put(tree)
    panels.first(len(places), len(all_places), "parts")
    if walk.unplaced:
        panels.notes.append(
            f"{counted(walk.unplaced, 'step')} of the run belong to no program as it was compiled."
        )
    if report.target.num_ipus > 1 and total:
        took = number(report.total_cycles)
        panels.notes.append(
            f"IPUs work at the same time: the run takes {took} modelled cycles, its parts together "
            "more."
        )
    programs = counted(len(walk.roots), "program")
    note = f"{counted(len(all_places), 'part')}, {number(total)} modelled cycles"
    rows = tuple(
        (
            label(t, 60),
            f"{p.depth}",
            *cells[3 * i : 3 * i + 3],
            *(number(kinds[id(p)][name]) for name in named),
        )
        for i, (t, p) in enumerate(zip(titles, places, strict=True))
    )
    return panels.scene(
        "program",
        titled(report, f"{programs}, part by part"),
        _sentence(walk, all_places, total),
        foot=10,
        codes=palette.PHASES,
        stills=(Still(programs, note, 0, 0, True),),
        table=(("part", "depth", "runs", "modelled cycles", "share", *named), rows),
    )


def _opened(depth: Array, counts: Array) -> Array:
    """bool[parts], as numbers: unfolded level by level while at most `FIRST_ROWS` show."""
    level = 0
    while (depth <= level + 1).sum() <= FIRST_ROWS and level < depth.max():
        level += 1
    opened: Array = np.where((counts > 0) & (depth < level), 1, 0)
    return opened


def _kinds(report: Report, walk: Walk) -> dict[int, Counter[str]]:
    """By the id of a place: the cycles of each kind of phase in it. Where the cycles of a step
    depend on data, and the step stands at several places, each gets of every kind what it has of
    all."""
    ran, steps = report.executions.tolist() if report.num_steps else [], dict[int, Counter[str]]()
    for step, times in enumerate(ran):
        for phase in report.phases(step) if times else ():
            steps.setdefault(report.profile.leaf(step).step, Counter())[phase.kind] += (
                times * phase.cycles
            )
    found: dict[int, Counter[str]] = {}
    # those within come first
    for place in reversed([place for root in walk.roots for place in root.walk()]):
        whole = steps.get(place.node.step, Counter())
        part = place.cycles / (whole.total() or 1)
        found[id(place)] = Counter({kind: round(part * cycles) for kind, cycles in whole.items()})
        for child in place.children:
            found[id(place)].update(found[id(child)])
    return found


def _pieces(kinds: list[Counter[str]], total: float) -> dict[str, Array]:
    """The thousandths of the run that each row spends on each kind of phase, by its code; rounding
    keeps their sum."""
    ends = np.cumsum([[row[code.name] for code in palette.PHASES] for row in kinds], axis=1)
    parts = np.diff(np.round(1000 * ends / (total or 1)).astype(np.int64), axis=1, prepend=0)
    return {f"{code}": parts[:, code] for code in np.flatnonzero(parts.any(axis=0)).tolist()}


def _sentence(walk: Walk, places: list[WalkPlace], total: float) -> str:
    leaves = [place for place in places if place.node.step >= 0]
    text = (
        f"{counted(len(walk.roots), 'program')} of {counted(len(places), 'part')}, {number(total)} "
        "modelled cycles"
    )
    if not total:
        return f"{text}: nothing that takes time has run."
    worst = max(leaves, key=lambda place: place.cycles)
    return (
        f"{text}; most of them in {label(worst.title, 48)}: {number(worst.cycles)} in "
        f"{counted(worst.runs, 'run')}, {100 * worst.cycles / total:.1f} %."
    )
