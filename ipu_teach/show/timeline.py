"""The view `timeline`: the run on the axis of modelled time, to zoom into.

Above, the programs as nested boxes, the outermost on top; below, a lane for each tile with what it does when; last the
whole run, with the part that is shown. The words say what the chosen superstep is, and show the codelet that it executes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, LINKS, SYNC, Phase
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report
from ipu_teach.report.walk import Place, Span, Walk
from ipu_teach.show import palette
from ipu_teach.show.blocks import Blocks
from ipu_teach.show.facts import checked, linked, numbered, sorted_lanes, sources, titled
from ipu_teach.show.scene import Bar, Drawing, Flame, Scene, Still, Tape, Track, label, number, quantiles
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

CODES = (palette.REST, palette.SYNC, palette.WAIT, palette.EXCHANGE, palette.COMPUTE, palette.LINKS, palette.HOST)
REST, WAIT = CODES.index(palette.REST), CODES.index(palette.WAIT)
CODE = {kind: [c.name for c in CODES].index(kind) for kind in (SYNC, EXCHANGE, COMPUTE, LINKS, HOST)}

MOST_STEPS = 3000  # of a run
MOST_LANES = 64
MOST_ROWS = 12  # of nested programs
X, WIDTH, PITCH = 64.0, 640.0, 17.0
WHICH = ("block_filter", "program_filter")


def timeline(report: Report, blocks: int | Sequence[int] | None = None, **which: Any) -> View:
    """The run in `report` on the axis of modelled time, with the programs above it and the tiles below.

    `blocks`: a tile, or up to eight: their blocks take the place of the programs, as lightweight profiling has them. `which`
    picks them as in `report.execution.blocks`: `block_filter` and `program_filter`.

    Up to 3,000 supersteps are shown, and fewer of a run whose scene would be larger than 150 kB; more than 64 tiles share 64
    lanes, in each phase sorted by their time, of which a lane shows a mean; programs nested more than 12 deep are shown up to
    there. The view says so. Raises `InvalidOptionError` for something that is no report or has no step in it that takes time.
    """
    checked(report, "timeline")
    if which and (blocks is None or not which.keys() <= set(WHICH)):
        raise InvalidOptionError(f"""show.timeline() was given {", ".join(sorted(which))}.
            next:  say whose blocks, blocks=0, and pick them with {", ".join(WHICH)}.""")
    steps = min(MOST_STEPS, len(report.step_numbers))
    return fitting(lambda most: linked(_Maker(report, most, blocks, which).scene(), report, ("tiles",)), steps)


def _short(place: Place) -> str:
    """A compute set has its colour, so its name is enough."""
    return place.node.name if place.node.kind == "Execute" and place.node.name else place.title


class _Maker:
    """Makes the scene of the first `steps` supersteps."""

    def __init__(self, report: Report, steps: int, tiles: object, which: dict[str, Any]) -> None:
        self.report, self.steps = report, steps
        self._tiles, self._which = tiles, which
        tiles = report.target.num_tiles
        self.count = min(tiles, MOST_LANES)
        self.numbers, self.which = np.unique(report.step_numbers[:steps], return_inverse=True)
        self.phases = [report.phases(n) for n in self.numbers.tolist()]
        self.walk = Walk(report, steps)

    def scene(self) -> Scene:
        cycles = np.array([self.report.step_cost(n).cycles for n in self.numbers.tolist()])
        if not cycles[self.which].any():
            raise InvalidOptionError("""show.timeline() was given a run that takes no modelled time.
                next:  run a program that copies or computes.""")
        texts: dict[str, int] = {}
        stills = tuple(self._still(place, texts) for place in range(len(self.numbers)))
        total = cycles[self.which]
        blocks = None if self._tiles is None else Blocks(self.report, self._tiles, float(total.sum()), self._which)
        codes = CODES if blocks is None else tuple(dict.fromkeys((*CODES, *blocks.codes)))
        if blocks is None:
            flame = self._flame([s for s in self.walk.spans if s.place.depth < MOST_ROWS])
        else:
            flame = blocks.flame(codes, X, 34, WIDTH, PITCH)
        rows = int(flame.depth.max(initial=0)) + 1
        top = 34 + rows * PITCH + 34
        high = max(100.0, min(230.0, 15.0 * self.count))
        each = self.count == self.report.target.num_tiles
        labels = tuple(f"{t}" for t in range(self.count)) if each else ()
        tape = Tape(
            "tiles", self._heading(), X, top, WIDTH, high, self.count, labels, ends=() if each else ("slowest", "fastest")
        )
        return Scene(
            "timeline",
            titled(self.report, f"{counted(self.report.num_steps, 'superstep')} on the axis of time"),
            self._sentence() + (f" {blocks.sentence()}" if blocks is not None else ""),
            top + high + 34 + 16 + 24,
            codes,
            (flame, tape, Track(X, top + high + 34, WIDTH, 16)),
            stills,
            self.which.astype(np.int64),
            self._table() if blocks is None else blocks.table(),
            tuple(self._drawing(phases) for phases in self.phases),
            int(np.argmax(total * (1 + np.array([s.code == CODE[COMPUTE] for s in stills])[self.which] * (1 + total.sum())))),
            tuple(self._notes(blocks)),
            sources=tuple(texts),
        )

    def _flame(self, spans: list[Span]) -> Flame:
        names: dict[str, int] = {}
        runs = {r.first: f"{r.name}: " for r in self.report.runs if r.name}
        told = [runs.get(s.first, "") * (s.place.depth == 0) + _short(s.place) for s in spans]
        of = [names.setdefault(label(text, 48), len(names)) for text in told]
        codes = [REST if s.place.node.step < 0 else self._code(s.place.node.step) for s in spans]
        fields = ([s.place.depth for s in spans], [s.first for s in spans], [s.last for s in spans])
        depth, first, last = (np.array(part, np.int64) for part in fields)
        title_, code = np.array(of, np.int64), np.array(codes, np.int64)
        heading = "the programs, nested"
        return Flame("programs", heading, X, 34, WIDTH, PITCH, len(spans), depth, first, last, title_, tuple(names), code)

    def _code(self, step: int) -> int:
        """The colour of a step: that of its longest phase."""
        phases = self.phases[int(np.searchsorted(self.numbers, step))]
        return CODE[max(phases, key=lambda p: p.cycles).kind] if phases else REST

    def _still(self, place: int, texts: dict[str, int]) -> Still:
        step = int(self.numbers[place])
        cost, phases = self.report.step_cost(step), self.phases[place]
        methods = sources(self.report, step)
        text = "\n\n".join(numbered(name, source) for name, source in methods)
        values: dict[str, Array] = {}
        said = []
        for kind in (COMPUTE, EXCHANGE):
            busy = [p.busy for p in phases if p.kind == kind and p.busy is not None]
            if busy:
                values[kind] = self._lanes(np.sum(busy, axis=0))
                said.append(f"{{{kind}}} cycles of {kind}")
        note = ", ".join(f"{p.kind} {number(p.cycles)}" for p in phases)
        compute = next((p for p in phases if p.kind == COMPUTE and p.busy is not None), None)
        if compute is not None and compute.busy is not None:
            tile, equal = int(np.argmax(compute.busy)), compute.busy.min() == compute.busy.max()
            note += "; all tiles compute equally long" if equal else f"; tile {tile} computes longest"
        if methods:
            note += f"; codelet {', '.join(dict.fromkeys(name for name, _ in methods))}"
        return Still(
            label(f"{cost.kind} {cost.name}".strip(), 60),
            note,
            self._code(step),
            cost.cycles,
            True,
            lanes={"tiles": (place, 0, cost.cycles)},
            values=values,
            say=("tile {i}: " if self.count == self.report.target.num_tiles else "lane {i} of the sorted tiles: ")
            + (", ".join(said) if said else "not at work")
            + " in this superstep",
            source=texts.setdefault(text, len(texts)) if text else -1,
        )

    def _lanes(self, per_tile: Array) -> Array:
        """int64[lanes]: of each tile, or of many the quantiles."""
        return per_tile if len(per_tile) == self.count else quantiles(per_tile, self.count)

    def _drawing(self, phases: tuple[Phase, ...]) -> Drawing:
        bars, start = [], 0.0
        for phase in phases:
            end = start + phase.cycles
            length = phase.cycles if phase.busy is None else self._lanes(phase.busy)
            bars.append(Bar(CODE[phase.kind], start, length, end, -1 if phase.busy is None else WAIT))
            start = end
        return Drawing(start, tuple(bars), "modelled cycles")

    def _heading(self) -> str:
        tiles = self.report.target.num_tiles
        return (
            "the tiles, each by its number"
            if self.count == tiles
            else f"{tiles:,} tiles in {self.count} lanes, in each phase the slowest first"
        )

    def _notes(self, blocks: Blocks | None) -> list[str]:
        notes = []
        if blocks is not None and blocks.missing:
            notes.append(f"{counted(blocks.missing, 'more block')} of these tiles are left out.")
        if self.steps < self.report.num_steps:
            notes.append(f"The picture shows the first {self.steps:,} of {self.report.num_steps:,} supersteps.")
        tiles = self.report.target.num_tiles
        if self.count < tiles:
            notes.append(sorted_lanes(self.count, tiles))
        if blocks is None and any(s.place.depth >= MOST_ROWS for s in self.walk.spans):
            notes.append(f"Programs nested more than {MOST_ROWS} deep are left out.")
        return notes

    def _sentence(self) -> str:
        report = self.report
        runs = np.bincount(np.searchsorted(self.numbers, report.step_numbers[: self.steps]), minlength=len(self.numbers))
        spent = {
            n: r * report.step_cost(n).cycles for n, r in zip(self.numbers.tolist(), runs.tolist(), strict=True)
        }  # fmt: skip
        worst = max(spent, key=lambda n: spent[n])
        cost = report.step_cost(worst)
        name = label(f"{cost.kind} {cost.name}".strip(), 48)
        times = int(runs[int(np.searchsorted(self.numbers, worst))])
        first = "" if self.steps == report.num_steps else f" In the first {self.steps:,}, most"
        most = first or " Most"
        return (
            f"A run of {counted(report.num_steps, 'superstep')} on {counted(report.target.num_tiles, 'tile')}, "
            f"{number(report.total_cycles)} modelled cycles.{most} of the time goes to {name}: "
            f"{number(spent[worst])} in {counted(times, 'superstep')}, {100 * spent[worst] / sum(spent.values()):.1f} %."
        )

    def _table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        report = self.report
        runs = np.bincount(np.searchsorted(self.numbers, report.step_numbers[: self.steps]), minlength=len(self.numbers))
        rows = []
        for step, times in zip(self.numbers.tolist(), runs.tolist(), strict=True):
            cost = report.step_cost(step)
            names = ", ".join(dict.fromkeys(name for name, _ in sources(report, step)))
            name = label(cost.name, 48)
            rows.append((cost.kind, name, f"{times:,}", number(cost.cycles), number(times * cost.cycles), names))
        return ("kind", "name", "runs", "cycles of one", "cycles of all", "codelets"), tuple(rows)
