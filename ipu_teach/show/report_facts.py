"""Functions that several views use: checks of reports, names, texts about waiting, and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipu_teach.cost import CostModel
from ipu_teach.cost.phases import Phase
from ipu_teach.errors import InvalidOptionError, counted, did_you_mean, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report import Report, Why
from ipu_teach.report.compiled import CompiledProfile
from ipu_teach.show.pack import pack
from ipu_teach.show.palette import CAUSE, STATE
from ipu_teach.show.scene import Box, Cells, Scene, Still, label, number
from ipu_teach.show.segments import MOST_NAMED, Segment, cuts, listed_names
from ipu_teach.show.view import View
from ipu_teach.target import Target
from ipu_teach.types import Array

# The number of supersteps for which linked views follow each other.
MOST_MOMENTS = 500
LONGEST_SOURCE = 40  # The maximum number of lines of a method that are shown.
MOST_SHARES = 8  # The maximum number of IPUs that a sentence lists.


def checked(report: object, call: str, must_have_run: bool = True) -> Report:
    """Return `report`, if it is a report.

    :raises InvalidOptionError: if it is not a report, or if nothing has run and `must_have_run` is
        True.
    """
    if not isinstance(report, Report):
        raise InvalidOptionError(f"""show.{call}() was given {shown(report)}, which is not a report.
            next:  give it engine.report.""")
    if must_have_run and not report.num_steps:
        raise InvalidOptionError(f"""show.{call}() was given a report in which nothing has run.
            next:  engine.run(), then engine.report.""")
    return report


def no_time(call: str) -> InvalidOptionError:
    """Return the error for a run that takes no modelled time, so that a time axis is impossible."""
    return InvalidOptionError(f"""show.{call}() was given a run that takes no modelled time.
        next:  run a program that copies or computes.""")


def linked(
    scene: Scene,
    report: Report,
    tiles: tuple[str, ...] = (),
    parts: Mapping[int, int] | None = None,
    tile: int | None = None,
    only: int | None = None,
) -> Scene:
    """Return a copy of the scene that is linked with other scenes of the same report on a page.

    If the reader chooses a tile or moves to a cycle in one of these scenes, the others do the same.
    `tiles` are the names of the marks in which a tile can be chosen; marks whose items are not
    single tiles are left out.

    If the frames of the scene are not those of the run, `parts` maps the number of a compiled step
    to the frame, or the row of the tree, that shows it. Only the first 500 supersteps are then
    linked. On several IPUs, which execute different steps at the same time, scenes are linked only
    by the tile.

    `tile` is the tile that the whole scene is about, or None. `only` is the index of the superstep
    of the run if the scene shows only one, or None.
    """
    parts = {} if report.target.num_ipus > 1 else parts
    marks = (m for m in scene.marks if isinstance(m, (Box, Cells)) and m.name in tiles)
    names = [
        m.name
        for m in marks
        if m.count == report.target.num_tiles
        and (getattr(m, "key", None) is not None or not getattr(m, "ends", ()))
    ]
    link: dict[str, object] = {"report": report.digest()[:16], "tiles": names}
    if parts is not None:
        frame_of = _shown_by(report, parts)
        order = report.step_numbers[:MOST_MOMENTS].tolist()
        begins = np.cumsum([0, *(report.step_cost(n).cycles for n in order)])
        moments = [
            (int(begins[k]), frame_of[n])
            for k, n in enumerate(order)
            if frame_of[n] >= 0 and only in (None, k)
        ]
        link["moments"] = [
            len(moments),
            *(pack(np.array([pair[i] for pair in moments], np.int64)) for i in (0, 1)),
        ]
    return replace(
        scene, data={**scene.data, "link": link | ({} if tile is None else {"tile": tile})}
    )


def _shown_by(report: Report, parts: Mapping[int, int]) -> list[int]:
    """Return a list with the index of the frame that shows each compiled step, or -1.

    `parts` maps the number of a compiled step, or of the leaf of the program from which the step
    was compiled, to a frame.
    """
    steps = range(len(report.profile.steps))
    return [parts.get(n, parts.get(report.profile.leaf(n).step, -1)) for n in steps]


# A moment of a run: the index of a superstep, the name of a step, or a kind of phase.
At = int | str | None


def frames_at(
    stills: Sequence[Still],
    report: Report,
    at: At,
    parts: Mapping[int, int] | None = None,
    begins: Array | None = None,
) -> Array:
    """Return bool[frames]: whether each frame shows `at`.

    `at` is the index of a superstep of the run, the name of a step, or a kind of phase. `stills`
    has the still of each frame. Consecutive frames form groups: a frame whose `Still.first` is True
    begins a group. `begins` has the index of the superstep with which each group begins. By
    default, a group is a superstep or, on several IPUs, a stretch.

    If `parts` is given, it maps the number of a compiled step to the frame that shows it, and `at`
    cannot be a kind of phase.
    """
    order = report.step_numbers
    supersteps: Array = np.arange(len(order))
    if isinstance(at, str) and at in STATE and parts is None:
        return np.array([still.code == STATE[at] for still in stills])
    if is_whole(at):
        supersteps = supersteps[at : at + 1] if at >= 0 else supersteps[:0]
    else:
        steps = np.unique(order).tolist() if isinstance(at, str) else []
        supersteps = supersteps[
            np.isin(order, [n for n in steps if report.step_cost(n).name == at])
        ]
    if parts is not None:
        shown_by = np.array(_shown_by(report, parts), np.int64)
        return np.isin(np.arange(len(stills)), shown_by[order[supersteps]])
    group = np.cumsum([still.first for still in stills]) - 1
    edges = cuts(report) if begins is None else begins
    return np.isin(group, np.searchsorted(edges, supersteps[supersteps >= edges[0]], "right") - 1)


def resting(view: str, stills: Sequence[Still], report: Report, at: At, **options: Any) -> int:
    """Return the index of the longest frame that shows `at`.

    `view` is the name of the view, which the error message contains. `options` are further
    arguments of `frames_at`.

    :raises InvalidOptionError: if no frame shows `at`.
    """
    chosen = frames_at(stills, report, at, **options)
    if not chosen.any():
        names = {report.step_cost(n).name for n in np.unique(report.step_numbers).tolist()}
        forms = 'from 0 on, the name of a step, or a kind of phase, say "exchange"'
        if "parts" in options:
            forms = "from 0 on, or the name of a step"
        raise InvalidOptionError(f"""show.{view}() was given at={shown(at)}, which the picture
            does not show.
            next:  {did_you_mean(at, names)}give the number of a superstep, {forms}.""")
    return int(np.argmax(np.where(chosen, [still.cycles for still in stills], -1)))


def rests(scene: Scene, report: Report, at: At, **options: Any) -> Scene:
    """Return a copy of the scene that rests at the longest frame that shows `at`.

    If `at` is None, the scene is returned unchanged.
    """
    if at is None:
        return scene
    stills = [scene.stills[i] for i in scene.frames.tolist()]
    return replace(scene, poster=resting(scene.view, stills, report, at, **options))


def refuse_at_of_two(call: str, second: object, at: At) -> None:
    """Check that `at` is None if a view shows two runs.

    :raises InvalidOptionError: if both `second` and `at` are given.
    """
    if second is not None and at is not None:
        raise InvalidOptionError(f"""show.{call}() was given at= and two runs, but at= selects a
            superstep of a single run.
            next:  leave out at=, or give one run.""")


def because(view: View, report: Report, why: Why | None, at: At = None) -> View:
    """Return a copy of the view that rests at `at` and highlights the tiles of a chain of causes.

    `why` is the chain of causes, or None for no highlighting. All its tiles get the same colour.
    Unless `at` is given, the view rests at the step that the chain explains.

    :raises InvalidOptionError: if `why` is not a chain of causes, or no frame of the view shows
        `at`.
    """
    if why is None:
        return view if at is None else View(rests(view.scene, report, at))
    if not isinstance(why, Why):
        raise InvalidOptionError(f"""show.{view.scene.view}() was given why={shown(why)}, which is
            not a chain of causes.
            next:  give report.why(…), of the same report.""")
    scene = view.scene
    num_tiles = report.target.num_tiles
    members = np.isin(np.arange(num_tiles), why.tiles)
    tile_marks = {m.name for m in scene.marks if isinstance(m, Cells) and m.count == num_tiles}
    stills = []
    for still in scene.stills:
        cells = dict(still.cells)
        for name in tile_marks & cells.keys():
            code, until, then = cells[name]
            cells[name] = (
                np.where(members, len(scene.codes), code),
                np.where(members, still.cycles or 1, until),
                then,
            )
        stills.append(replace(still, cells=cells))
    causes_text = " ".join(
        [why.question, *(f"{i}. {cause.text}" for i, cause in enumerate(why.causes, 1))]
    )
    notes = (*scene.notes, label(causes_text, 2000))
    scene = replace(scene, codes=(*scene.codes, CAUSE), stills=tuple(stills), notes=notes)
    supersteps = np.flatnonzero(report.step_numbers == why.step)[:1].tolist()
    stills_of_frames = [scene.stills[i] for i in scene.frames.tolist()]
    if at is None and supersteps and frames_at(stills_of_frames, report, supersteps[0]).any():
        at = supersteps[0]
    return View(rests(scene, report, at))


def model_of(report: object, call: str) -> CostModel:
    """Return the cost model of the run of a report, which contains the vertices of each step.

    :raises InvalidOptionError: if `report` is not a report, if nothing has run, or if it was read
        from a file.
    """
    profile = checked(report, call).profile
    if not isinstance(profile, CompiledProfile):
        raise InvalidOptionError(f"""show.{call}() was given a report from a file, which has tiles
            but no vertices.
            next:  give it engine.report of the engine that ran.""")
    return profile.model


def run_names(report: Report, program: int | None = None) -> str:
    """Return the distinct names that were passed to `Engine.run`, joined by commas.

    Return "" if no names were passed. If `program` is not None, only runs of the program with that
    index count.
    """
    runs = [r.name for r in report.runs if r.name and program in (None, r.program)]
    return label(", ".join(dict.fromkeys(runs)), 48)


def titled(report: Report, subject: str) -> str:
    """Return the title of a picture: the names of the runs, if there are any, and `subject`."""
    names = run_names(report)
    return f"{names}: {subject}" if names else subject


def part_of_run(shown_cycles: float, report: Report) -> str:
    """Return the end of a title, which says which part of a run is shown; "" for the whole run.

    The picture shows the first `shown_cycles` cycles.
    """
    total = report.total_cycles
    if shown_cycles >= total:
        return ""
    return f" (there is room for the first {number(shown_cycles)} of {number(total)} cycles)"


def step_name(report: Report, step: int, longest: int = 48) -> str:
    """Return the kind and the name of a compiled step, in at most `longest` characters."""
    cost = report.step_cost(step)
    return label(f"{cost.kind} {cost.name}".strip(), longest)


def short_step_name(report: Report, step: int, longest: int) -> str:
    """Return the kind and the name of a compiled step, shortened as by `short_name`."""
    return short_name(step_name(report, step, 2000), longest)


def short_name(name: str, longest: int) -> str:
    """Return the kind and name of a step in at most `longest` characters.

    If the name of a copy is too long, the text is "copy to" and the destination. Any other name is
    cut after a word, or at the last character if only one word would be left.
    """
    if len(name) <= longest:
        return label(name, longest)
    kind, _, rest = name.partition(" ")
    if name.startswith(("'", "a view of ")):  # The caller may already have removed the word "copy".
        kind, rest = "copy", name
    source, _, destination = rest.rpartition(" to ")
    to_destination = f"{kind} to {destination}"
    if source and " copies: " not in source and len(to_destination) <= longest:
        return label(to_destination, longest)
    words = name[: longest - 2].rpartition(" ")[0].split()
    while words and words[-1] in ("to", "a", "view", "of"):
        words.pop()
    return label(f"{' '.join(words).rstrip(',:')} …" if len(words) > 1 else name, longest)


def state_of(phases: Sequence[Phase]) -> int:
    """Return the index in `STATES` for the longest phase; 0 (rest) if there are no phases."""
    return STATE[max(phases, key=lambda phase: phase.cycles).kind] if phases else 0


def phase_cycles(phases: Sequence[Phase]) -> str:
    """Return the kind and the cycles of each phase as a text, such as "sync 20, compute 300"."""
    return ", ".join(f"{phase.kind} {number(phase.cycles)}" for phase in phases)


def size_of(target: Target) -> str:
    """Return the size of a machine as a text, such as "8 tiles of 2 IPUs"."""
    ipus = target.num_ipus
    return counted(target.num_tiles, "tile") + (f" of {ipus} IPUs" if ipus > 1 else "")


def tiles_of(report: Report) -> str:
    """Return the size of a report's machine as a text, such as "8 tiles of 2 IPUs (2 replicas)"."""
    text = size_of(report.target)
    return text + (f" ({report.replicas} replicas)" if report.replicas > 1 else "")


def run_of(report: Report) -> str:
    """Return the beginning of a sentence about a run: its supersteps, machine and cycles."""
    return (
        f"A run of {counted(report.num_steps, 'superstep')} on {tiles_of(report)}, "
        f"{number(report.total_cycles)} modelled cycles"
    )


def tiles_named(tiles: Array, noun: str = "tile") -> str:
    """Return tile numbers as a text: "tile 3", "tiles 3 and 4", or "tiles 3, 4 and 60 others".

    Up to four numbers are all listed. `noun` replaces the word "tile".
    """
    names = listed_names([f"{n:,}" for n in tiles.tolist()])
    return f"{noun} {names}" if len(tiles) == 1 else f"{noun}s {names}"


def slowest(busy: Array) -> tuple[str, bool]:
    """Return `(text, is_plural)`: which tiles work longest, and whether there are several.

    `busy` is int64[tiles]: the cycles for which each tile works.
    """
    busiest = np.flatnonzero(busy == busy.max())
    return tiles_named(busiest), len(busiest) > 1


def _in_phase(phase: Phase, members: Array | None) -> tuple[Array, Array]:
    """Return `(tiles, waits)`: the tiles in a phase, and how many cycles each waits.

    Both are int64. `members` is bool[tiles]: the tiles that take part; None means all tiles.
    """
    assert phase.busy is not None
    tiles = np.arange(len(phase.busy)) if members is None else np.flatnonzero(members)
    return tiles, phase.cycles - phase.busy[tiles]


def _waits_text(waits: Array) -> str:
    """Return a text that says how many tiles wait for the slowest tile, and how long.

    `waits` has the cycles for which each tile waits.
    """
    waits = waits[waits > waits.min()]
    if not len(waits):
        return "no tile is slower than another"
    shortest, longest = int(waits.min()), int(waits.max())
    if len(waits) == 1:
        return f"1 other waits {number(longest)} cycles"
    if shortest == longest:
        return f"{len(waits):,} others wait {number(longest)} cycles each"
    return f"{len(waits):,} others wait {number(shortest)} to {number(longest)} cycles"


def waited_for(phase: Phase, members: Array | None = None, whose: str = "the tiles' time") -> str:
    """Return a text that says which tiles a phase waits for, and how long the others wait.

    `members` is bool[tiles]: the tiles that take part; None means all tiles. The text states which
    percentage of their time these tiles wait; `whose` is the noun for this time.
    """
    tiles, waits = _in_phase(phase, members)
    if not waits.any():
        return "all tiles are equally fast"
    last = tiles[waits == waits.min()]
    verb = "are" if len(last) > 1 else "is"
    return (
        f"{tiles_named(last)} {verb} the slowest, {number(phase.cycles)} modelled cycles; "
        f"{100 * float(waits.mean()) / phase.cycles:.1f} % of {whose} in this phase is waiting: "
        f"{_waits_text(waits)}"
    )


def waits_title(phase: Phase, members: Array | None = None) -> str:
    """Return the beginning of a title: which tiles make how many others wait, and how long.

    `members` is bool[tiles]: the tiles that take part in the phase; None means all tiles.
    """
    tiles, waits = _in_phase(phase, members)
    if waits.min() == waits.max():
        return "All tiles take equally long" if len(tiles) > 1 else "One tile does all the work"
    last = tiles[waits == waits.min()]
    count = int((waits > waits.min()).sum())
    longest = f"{number(int(waits.max()))} cycles"
    is_each = len(np.unique(waits[waits > waits.min()])) == 1
    how_long = (
        f"{longest} each" if is_each and count > 1 else f"{'' if is_each else 'up to '}{longest}"
    )
    who = tiles_named(last) if len(last) <= MOST_NAMED else counted(len(last), "tile")
    verb = "makes" if len(last) == 1 else "make"
    return f"{who[:1].upper()}{who[1:]} {verb} {counted(count, 'other')} wait {how_long}"


@dataclass(frozen=True)
class IPUWait:
    """A group of IPUs that wait for the same IPUs until the same cycle of a stretch.

    A stretch is the steps between two syncs of all IPUs.

    Attributes:
        last: the names of the IPUs that the others wait for.
        waiting: the number of IPUs that wait.
        begin, end: the first cycle of the waiting, and the first cycle after it, both counted from
            the beginning of the stretch.
        longest: the longest wait of one IPU, in cycles.
        cycles: the sum of the waits, in cycles.
        name: the kind and name of the step that the last IPU executes meanwhile; "" if there are
            several.
    """

    last: tuple[str, ...]
    waiting: int
    begin: int
    end: int
    longest: int
    cycles: int
    name: str

    def text(self, place: int) -> str:
        """Return a text that says which IPUs make how many others wait, how long, and where.

        `place` is the index of the stretch in the run.
        """
        who = listed_names(self.last)
        verb = "makes" if len(self.last) == 1 else "make"
        up_to = "up to " if self.longest * self.waiting != self.cycles else ""
        step = f", in {short_name(self.name, 40)}" if self.name else ""
        return (
            f"{who} {verb} {counted(self.waiting, 'other')} wait {up_to}{number(self.longest)} "
            f"cycles in stretch {place + 1:,}{step}"
        )


def longest_wait(stretch: Segment) -> IPUWait | None:
    """Return the group of IPUs that waits longest in a stretch, or None if no IPU waits.

    Groups are compared by the sum of the cycles for which their IPUs wait.
    """
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for ipu, begin, end, last in stretch.waits:
        groups.setdefault((end, last), []).append((ipu, end - begin))
    if not groups:
        return None
    (end, last), waits = max(groups.items(), key=lambda group: sum(n for _, n in group[1]))
    waiting = {ipu for ipu, _ in waits}
    longest = max(cycles for _, cycles in waits)
    begin = end - longest
    steps: set[int] = set()  # The steps that the last IPU executes while the others wait for it.
    holders = {last}
    for part in stretch.parts:
        ipus = range(len(stretch.ends)) if part.ipu is None else (part.ipu,)
        members = {ipu for ipu in ipus if ipu not in part.idle} - waiting
        if part.cycles and part.start + part.cycles == end:
            holders |= members
        if last in members and part.start < end and begin < part.start + part.cycles:
            steps.add(part.step)
    return IPUWait(
        tuple(stretch.names[ipu] for ipu in sorted(holders)),
        len(waiting),
        begin,
        end,
        longest,
        sum(cycles for _, cycles in waits),
        step_name(stretch.report, min(steps), 2000) if len(steps) == 1 else "",
    )


def longest_wait_of(
    stretches: Sequence[Segment], order: Sequence[int]
) -> tuple[int, IPUWait] | None:
    """Return `(place, wait)` for the longest waiting of IPUs in a run, or None if no IPU waits.

    `place` is the index, in the run, of the stretch in which they wait. `stretches` are the
    distinct stretches, and `order` has, for each stretch of the run or of its first part, the index
    in `stretches`. The first of several equal waits is returned.
    """
    waits = {which: longest_wait(stretches[which]) for which in set(order)}
    places = [(place, wait) for place, which in enumerate(order) if (wait := waits[which])]
    return max(places, key=lambda pair: pair[1].cycles, default=None)


def cycles_by_kind(report: Report) -> Counter[str]:
    """Return the total cycles of each kind of phase in a run."""
    spent = Counter[str]()
    for n in np.flatnonzero(report.executions).tolist():
        for phase in report.phases(n):
            spent[phase.kind] += int(report.executions[n]) * phase.cycles
    return spent


def no_wait_title(report: Report) -> str:
    """Return the title for a run on several IPUs in which no IPU waits for another."""
    spent = cycles_by_kind(report)
    kind, cycles = spent.most_common(1)[0]
    return (
        f"No IPU waits for another; {100 * cycles / (spent.total() or 1):.1f} % of the time is "
        f"{kind}"
    )


def ipus_at_work(report: Report) -> str:
    """Return a sentence with the fraction of the run in which each IPU works.

    The sentence also names the IPU that makes the others wait longest, and its step.
    """
    rows = report.ipus
    sets = report.target.sets
    shares = ", ".join(f"{sets[row.ipu]} {100 * row.busy:.1f} %" for row in rows[:MOST_SHARES])
    longest_held = rows.largest("held_cycles", 1)[0]
    if report.replicas > 1:
        busy = np.reshape([row.busy for row in rows], (report.replicas, -1)).mean(axis=1)
        ends = dict.fromkeys(f"{100 * share:.1f}" for share in (busy.min(), busy.max()))
        shares = f"the {report.replicas} replicas {' to '.join(ends)} %"
    many = len(rows) > MOST_SHARES and report.replicas == 1
    rest = f", and {len(rows) - MOST_SHARES:,} more" * many
    if not longest_held.held_cycles:
        return f"In the whole run, at work are {shares}{rest}: none waits for another."
    by = (
        f"{sets[longest_held.ipu]}, while it is in {short_name(longest_held.held_by, 40)}"
        if longest_held.held_by
        else sets[longest_held.ipu]
    )
    return (
        f"In the whole run, at work are {shares}{rest}; in sum, the others wait longest for {by}."
    )


def sources(report: Report, number: int) -> tuple[tuple[str, str], ...]:
    """Return `(name, text)` of the methods that a compiled step executes and whose source is known.

    The name consists of the class and the method.
    """
    codelets = dict.fromkeys(part.codelet for part in report.profile.parts(number))
    return tuple(
        source for codelet in codelets for source in report.profile.codelets[codelet].sources
    )


def numbered(name: str, text: str) -> str:
    """Return the name of a method, followed by its source text with line numbers.

    At most 40 lines are included. If `name` contains no dot, it is the name of a vertex of a
    library, and `text` is a sentence about it.
    """
    if "." not in name:
        return f"{name}: {text}"
    lines = text.splitlines()
    numbered_lines = [f"{n:>3}  {line}" for n, line in enumerate(lines[:LONGEST_SOURCE], start=1)]
    rest = (
        [f"     … {len(lines) - LONGEST_SOURCE} more lines"] if len(lines) > LONGEST_SOURCE else []
    )
    return "\n".join((name, *numbered_lines, *rest))
