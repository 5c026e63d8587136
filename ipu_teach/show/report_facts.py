"""Functions about a report for several views: checks, names, texts about waiting, and rests."""

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
from ipu_teach.types import Array

MOST_MOMENTS = 500  # supersteps by which a view follows another
LONGEST_SOURCE = 40  # lines of a method that are shown
MOST_SHARES = 8  # IPUs with their share of work in words


def checked(report: object, call: str, must_have_run: bool = True) -> Report:
    """Return `report`.

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
    """Return the error for a run that takes no time, for a view of time."""
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
    """Return the scene, linked to other scenes of the same report on a page.

    Scenes are linked by the tile, in the marks `tiles` if each of their parts is one tile, and by
    the current cycle. If the frames are not those of the run, `parts` gives the frame, or the row
    of the tree, that shows each compiled step; then the first 500 supersteps are followed. On
    several IPUs only the tile is followed, because they are at several steps at a time. `tile` is
    the tile that the whole scene is about; `only` is the one superstep of the run that it shows.
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
    """Return the frame that shows each compiled step, or -1."""
    steps = range(len(report.profile.steps))
    return [parts.get(n, parts.get(report.profile.leaf(n).step, -1)) for n in steps]


At = int | str | None  # a superstep of the run, the name of a step, a kind of phase


def frames_at(
    stills: Sequence[Still],
    report: Report,
    at: At,
    parts: Mapping[int, int] | None = None,
    begins: Array | None = None,
) -> Array:
    """Return bool[frames]: whether each shows `at`.

    `at` is a superstep of the run, the name of a step, or a kind of phase. `stills` are the stills
    of the frames. Their groups begin with the supersteps `begins`; by default each superstep is a
    group, and on several IPUs each stretch. With `parts`, as in `linked`, frames are not phases.
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
    """Return the longest frame that shows `at`; `options` go to `frames_at`.

    :raises InvalidOptionError: if no frame shows it.
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
    """Return the scene, at rest at the longest frame that shows `at`; unchanged if `at` is None."""
    if at is None:
        return scene
    stills = [scene.stills[i] for i in scene.frames.tolist()]
    return replace(scene, poster=resting(scene.view, stills, report, at, **options))


def refuse_at_of_two(call: str, second: object, at: At) -> None:
    """Check that a picture of two runs was given no place to rest.

    :raises InvalidOptionError: if `at` was given with a second run.
    """
    if second is not None and at is not None:
        raise InvalidOptionError(f"""show.{call}() was given at= with two runs, which are shown as
            a whole.
            next:  leave out at=.""")


def because(view: View, report: Report, why: Why | None, at: At = None) -> View:
    """Return the view at rest at `at`, or with the tiles of a chain of causes in one colour.

    With `why`, it rests at the step that the chain is about, unless `at` is given.

    :raises InvalidOptionError: if `why` is not a chain of causes, or the picture does not show
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
    """Return the cost model of a run, which knows its vertices.

    :raises InvalidOptionError: as `checked`, and for a report that was read from a file.
    """
    profile = checked(report, call).profile
    if not isinstance(profile, CompiledProfile):
        raise InvalidOptionError(f"""show.{call}() was given a report from a file, which has tiles
            but no vertices.
            next:  give it engine.report of the engine that ran.""")
    return profile.model


def run_names(report: Report, program: int | None = None) -> str:
    """Return the distinct names that `Engine.run` was given, for all runs or those of one program;
    "" if there are none."""
    runs = [r.name for r in report.runs if r.name and program in (None, r.program)]
    return label(", ".join(dict.fromkeys(runs)), 48)


def titled(report: Report, subject: str) -> str:
    """Return the title of a picture of a run: `subject`, after the names of the runs if they
    have names."""
    names = run_names(report)
    return f"{names}: {subject}" if names else subject


def part_of_run(shown_cycles: float, report: Report) -> str:
    """Return the end of a title of a picture that shows the run's first `shown_cycles` cycles; ""
    if that is the whole run."""
    total = report.total_cycles
    if shown_cycles >= total:
        return ""
    return f" (there is room for the first {number(shown_cycles)} of {number(total)} cycles)"


def step_name(report: Report, step: int, longest: int = 48) -> str:
    """Return the kind and the name of a compiled step."""
    cost = report.step_cost(step)
    return label(f"{cost.kind} {cost.name}".strip(), longest)


def short_name(name: str, longest: int) -> str:
    """Return the kind and name of a step in at most `longest` characters.

    A copy that is too long is named by its destination. Any other name ends in a complete word,
    unless its first name is too long.
    """
    if len(name) <= longest:
        return label(name, longest)
    kind, _, rest = name.partition(" ")
    if name.startswith(("'", "a view of ")):  # the name of a copy, without its kind
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
    """Return the code of the longest phase, or the code of rest if there are no phases."""
    return STATE[max(phases, key=lambda phase: phase.cycles).kind] if phases else 0


def phase_cycles(phases: Sequence[Phase]) -> str:
    """Return the kind and the cycles of each phase, as a text."""
    return ", ".join(f"{phase.kind} {number(phase.cycles)}" for phase in phases)


def tiles_of(report: Report) -> str:
    """Return the machine of a report: "8 tiles of 2 IPUs", or "of 2 IPUs (2 replicas)"."""
    ipus = report.target.num_ipus
    text = counted(report.target.num_tiles, "tile") + (f" of {ipus} IPUs" if ipus > 1 else "")
    return text + (f" ({report.replicas} replicas)" if report.replicas > 1 else "")


def run_of(report: Report) -> str:
    """Return the beginning of a sentence about a run: its supersteps, its machine and its
    cycles."""
    return (
        f"A run of {counted(report.num_steps, 'superstep')} on {tiles_of(report)}, "
        f"{number(report.total_cycles)} modelled cycles"
    )


def tiles_named(tiles: Array, noun: str = "tile") -> str:
    """Return numbers as a text, all of up to four: "tile 3", "tiles 3 and 4", "tiles 3, 4 and 60
    others"."""
    names = listed_names([f"{n:,}" for n in tiles.tolist()])
    return f"{noun} {names}" if len(tiles) == 1 else f"{noun}s {names}"


def slowest(busy: Array) -> tuple[str, bool]:
    """Return (the tiles that are at work longest, whether there are several).

    `busy` is int64[tiles], in cycles.
    """
    busiest = np.flatnonzero(busy == busy.max())
    return tiles_named(busiest), len(busiest) > 1


def _in_phase(phase: Phase, members: Array | None) -> tuple[Array, Array]:
    """Return (the numbers of the tiles that take part in a phase, their waiting in cycles).

    `members` is bool[tiles]; None stands for all tiles.
    """
    assert phase.busy is not None
    tiles = np.arange(len(phase.busy)) if members is None else np.flatnonzero(members)
    return tiles, phase.cycles - phase.busy[tiles]


def _waits_text(waits: Array) -> str:
    """Return how long the tiles that are not the slowest wait; `waits` is in cycles."""
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
    """Return which tiles a phase waits for, and how long the others wait.

    `members` is bool[tiles], the tiles that take part; `whose` is the time of which the text gives
    the share of waiting.
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
    """Return the beginning of a title: which tiles of a phase make how many others wait, and how
    long. `members` is as in `waited_for`."""
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
    """The longest waiting in a stretch: IPUs that wait for the same others until one moment.

    Attributes:
        last: the names of the IPUs that the others wait for.
        waiting: the number of IPUs that wait.
        begin, end: the cycles of the stretch between which some of them wait.
        longest: the longest wait of one IPU, in cycles.
        cycles: the sum of the waits, in cycles.
        name: the kind and name of the step that the last IPU executes in this time; "" if there
            are several.
    """

    last: tuple[str, ...]
    waiting: int
    begin: int
    end: int
    longest: int
    cycles: int
    name: str

    def text(self, place: int) -> str:
        """Return which IPUs make how many others wait, and how long, in stretch `place` of the
        run, counted from 0."""
        who = listed_names(self.last)
        verb = "makes" if len(self.last) == 1 else "make"
        up_to = "up to " if self.longest * self.waiting != self.cycles else ""
        step = f", in {short_name(self.name, 40)}" if self.name else ""
        return (
            f"{who} {verb} {counted(self.waiting, 'other')} wait {up_to}{number(self.longest)} "
            f"cycles in stretch {place + 1:,}{step}"
        )


def longest_wait(stretch: Segment) -> IPUWait | None:
    """Return the longest waiting of IPUs in a stretch, by the sum of its cycles; None if no IPU
    waits."""
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for ipu, begin, end, last in stretch.waits:
        groups.setdefault((end, last), []).append((ipu, end - begin))
    if not groups:
        return None
    (end, last), waits = max(groups.items(), key=lambda group: sum(n for _, n in group[1]))
    waiting = {ipu for ipu, _ in waits}
    longest = max(cycles for _, cycles in waits)
    begin = end - longest
    steps: set[int] = set()  # steps that the last IPU executes while the others wait for it
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
    """Return (place, wait) of the longest waiting of IPUs in a run, or None if no IPU waits.

    `order` has the number of the stretch at each place of the run, or of its first part. If waits
    are equal, the first one counts.
    """
    waits = {which: longest_wait(stretches[which]) for which in set(order)}
    places = [(place, wait) for place, which in enumerate(order) if (wait := waits[which])]
    return max(places, key=lambda pair: pair[1].cycles, default=None)


def cycles_by_kind(report: Report) -> Counter[str]:
    """Return the cycles of all phases of the run, by their kind."""
    spent = Counter[str]()
    for n in np.flatnonzero(report.executions).tolist():
        for phase in report.phases(n):
            spent[phase.kind] += int(report.executions[n]) * phase.cycles
    return spent


def no_wait_title(report: Report) -> str:
    """Return the title of a run on several IPUs in which none waits for another."""
    spent = cycles_by_kind(report)
    kind, cycles = spent.most_common(1)[0]
    return (
        f"No IPU waits for another; {100 * cycles / (spent.total() or 1):.1f} % of the time is "
        f"{kind}"
    )


def ipus_at_work(report: Report) -> str:
    """Return a sentence with the share of the run for which each IPU works, and the step that
    makes the others wait longest."""
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
    """Return (class and method, its source text) of every codelet that compiled step `number`
    executes and whose text is known."""
    codelets = dict.fromkeys(part.codelet for part in report.profile.parts(number))
    return tuple(
        source for codelet in codelets for source in report.profile.codelets[codelet].sources
    )


def numbered(name: str, text: str) -> str:
    """Return the text of a method below its name, with line numbers.

    A vertex of a library has no method: its text is one sentence, which follows its name.
    """
    if "." not in name:
        return f"{name}: {text}"
    lines = text.splitlines()
    numbered_lines = [f"{n:>3}  {line}" for n, line in enumerate(lines[:LONGEST_SOURCE], start=1)]
    rest = (
        [f"     … {len(lines) - LONGEST_SOURCE} more lines"] if len(lines) > LONGEST_SOURCE else []
    )
    return "\n".join((name, *numbered_lines, *rest))
