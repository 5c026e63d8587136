"""The view `estimates`: the times of several estimates by kind, and the memory of their tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from textwrap import wrap

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.estimate.result import COSTS, UPDATE, Estimate
from ipu_teach.graph.layouts import is_whole
from ipu_teach.show import palette
from ipu_teach.show.estimate import USES
from ipu_teach.show.panels import Panels, painted, side_by_side
from ipu_teach.show.scene import Painted, Scene, Still, label
from ipu_teach.show.shapes import LETTER, Shape, Stroke, Words
from ipu_teach.show.trend import stacks
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST = 16  # At most this many estimates are drawn.
FEW = 10  # The columns of more estimates than this are narrow.
LARGEST = 10**15  # The largest number of samples, and of epochs.
LEFT, WIDE, TIME_HIGH, MEMORY_HIGH, LINE = 46.0, 642.0, 190.0, 140.0, 13.0
LARGE_UPDATE = 0.05  # If an update takes a larger share, the shares of all updates are written.
NARROWEST = 0.66  # A narrow page shrinks a column to this share of its width.
# The kinds of time, from the bottom of a bar to its top.
KINDS = {
    COSTS["products"]: palette.COMPUTE,
    COSTS["vertices"]: palette.OTHER_VERTICES,
    COSTS["exchange"]: palette.EXCHANGE,
    COSTS["sync"]: palette.SYNC,
    COSTS["links"]: palette.LINKS,
    COSTS["streaming"]: palette.STREAMING,
    "host": palette.HOST,
    UPDATE: palette.SO,
}
UNFIT = len(KINDS) + len(USES)  # The code behind the bars of estimates that do not fit.
CODES = tuple(
    replace(code, name=name, letter="", listed=True)
    for name, code in {**KINDS, **USES, "does not fit": palette.GAPS}.items()
)
OVERLAP = (
    "The stages of a pipeline work at the same time, so the kinds of time are scaled: together, "
    "they are the time of the micro-batches."
)
UNITS = {
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "milliseconds": 1e-3,
    "microseconds": 1e-6,
    "nanoseconds": 1e-9,
}


@checks("parameter")
def estimates(
    found: Mapping[object, Estimate], *, parameter: str = "", samples: int = 0, epochs: int = 1
) -> View:
    """Which of several estimates is shortest, what takes the time, and which of them fit?

    `found` is a dict of at most 16 estimates by the number or the name in which they differ, such
    as `{8: a, 12: b}`. They are sorted if all keys are numbers; otherwise, they keep their order.
    `parameter` says what the numbers count, in the plural, such as "images in a micro-batch".

    The height of a bar is the modelled time of `epochs` epochs of `samples` samples, each in whole
    steps. If `samples` is 0, it is the time of one step. Give `samples` if the steps have different
    numbers of samples. The pieces are the kinds of cycles of all
    micro-batches, and the whole update. Where the stages of a pipeline work at the same time, the
    kinds are scaled, so that they add up to the time. The lower bars are the memory of the fullest
    stage's tile, as a share of the limit.

    :raises InvalidOptionError: if `found` is not a dict of 1 to 16 estimates of at least one
        sample, if `samples` is not a whole number from 0 to 10^15, or if `epochs` is not one from 1
        to 10^15.
    """
    if not is_whole(samples) or not 0 <= samples <= LARGEST:
        raise InvalidOptionError(f"""show.estimates() was given samples={shown(samples)}, which is
            not a number of samples.
            next:  give a whole number from 1 to 10**15, or 0 for the time of a step.""")
    if not is_whole(epochs) or not 1 <= epochs <= LARGEST:
        raise InvalidOptionError(f"""show.estimates() was given epochs={shown(epochs)}, which is not
            a number of epochs.
            next:  give a whole number from 1 to 10**15.""")
    return View(_scene(_Columns(_checked(found), parameter, int(samples), int(epochs))))


def _checked(found: object) -> dict[object, Estimate]:
    """Return `found`, sorted if all of its keys are numbers.

    :raises InvalidOptionError: if it is not a dict of 1 to 16 estimates of at least one sample.
    """
    if not isinstance(found, Mapping):
        raise InvalidOptionError(f"""show.estimates() was given {shown(found)}, which is not a dict
            of estimates.
            next:  give the estimates by name: {{"8 images": a, "12 images": b}}.""")
    if not 1 <= len(found) <= MOST:
        raise InvalidOptionError(f"""show.estimates() was given {counted(len(found), "estimate")},
            but a picture has 1 to {MOST}.
            next:  give a dict with 1 to {MOST} estimates.""")
    for key, result in found.items():
        if not isinstance(result, Estimate):
            raise InvalidOptionError(f"""show.estimates() was given {shown(result)} for
                {shown(key)}, which is not an estimate.
                next:  give results of ir.estimate(step, device) or poptorch.estimate(…).""")
        if not result.samples_per_step:
            raise InvalidOptionError(f"""show.estimates() was given an estimate without samples for
                {shown(key)}.
                next:  leave it out, or estimate a step whose input has at least one sample.""")
    keys = list(found)
    return {key: found[key] for key in (sorted(keys) if all(map(_is_number, keys)) else keys)}


def _is_number(key: object) -> bool:
    return isinstance(key, Real) and not isinstance(key, bool)


def parts_of(result: Estimate) -> dict[str, float]:
    """Return the cycles of a step by kind, in the order of `KINDS`. They add up to all cycles.

    The kinds are those of the micro-batches. The update is a part of its own, with its transfers.
    If stages of a pipeline work at the same time, the kinds are scaled to the time that they take.
    """
    parts = _work_of(result)
    scale = result.micro_batches / (sum(parts.values()) or 1.0)
    return {name: scale * cycles for name, cycles in parts.items()} | {UPDATE: result.update}


def _work_of(result: Estimate) -> dict[str, float]:
    """Return the cycles of all micro-batches by kind, summed over the stages."""
    work = {
        title: result.accumulation
        * sum(getattr(line, cost) for line in result.lines if line.part != UPDATE)
        for cost, title in COSTS.items()
    }
    updates = [0.0] * len(result.memory)
    for line in result.lines:
        updates[line.stage] += line.cycles if line.part == UPDATE else 0.0
    # `result.host` includes the transfers of the update, which the lines of the update do not.
    work["host"] = max(0.0, result.host - max(0.0, result.update - max(updates)))
    return work


def _is_scaled(result: Estimate) -> bool:
    return sum(_work_of(result).values()) > result.micro_batches * (1 + 1e-6)


class _Columns:
    """The numbers and the texts of a column for each estimate.

    Attributes:
        names: the names of the estimates, such as "12 images".
        labels: the texts below the columns.
        unit: the unit of `times`, such as "minutes".
        times: float[estimates]: the time of each, with two digits after the point.
        parts: float[estimates, KINDS]: the parts of these times.
        figures: each time, as text.
        best: the index of the shortest estimate that fits, or -1 if none of them fits.
    """

    def __init__(
        self, found: Mapping[object, Estimate], parameter: str, samples: int, epochs: int
    ) -> None:
        self.results = list(found.values())
        self.parameter = parameter
        self.labels = [f"{key:,}" if is_whole(key) else label(key, 40) for key in found]
        nouns = [_noun(parameter, key) if _is_number(key) else "" for key in found]
        self.names = [f"{text} {n}".strip() for text, n in zip(self.labels, nouns, strict=True)]
        self.samples, self.epochs = samples, epochs
        seconds = [
            epochs * result.seconds_for(samples) if samples else result.seconds
            for result in self.results
        ]
        shortest = min((time for time in seconds if time), default=0.0)
        self.unit = next((u for u, size in UNITS.items() if shortest >= size), "nanoseconds")
        cycles: Array = np.array([list(parts_of(result).values()) for result in self.results])
        ends = np.cumsum(cycles, axis=1) / np.maximum(cycles.sum(axis=1), 1e-300)[:, None]
        times: Array = np.array(seconds) / UNITS[self.unit]
        # The ends of the pieces are rounded, so that the pieces add up to the rounded time.
        self.parts = np.diff(np.round(ends * times[:, None], 2), axis=1, prepend=0)
        self.times = np.round(times, 2)
        self.figures = [f"{time:,.2f}" for time in self.times]
        self.fits = np.array([result.fits for result in self.results])
        self.shares = [_percent(result.fullest.share) for result in self.results]
        fitting = np.flatnonzero(self.fits).tolist()
        self.best = min(fitting, key=self.times.__getitem__, default=-1)
        self.label_lines = max(len(_fitted(text, len(found), 3)) for text in self.labels)
        self.notes = (OVERLAP,) if any(map(_is_scaled, self.results)) else ()

    @property
    def measure(self) -> str:
        """What the height of a bar is, such as "modelled minutes for 1,000 samples"."""
        of = f"for {counted(self.samples, 'sample')}" if self.samples else "of a step"
        if self.samples and self.epochs > 1:
            of = f"for {counted(self.epochs, 'epoch')} of {counted(self.samples, 'sample')}"
        return f"modelled {self.unit} {of}"

    def drawn_kinds(self) -> dict[int, str]:
        """Return the name of each kind that takes time in at least one estimate, by its index."""
        return {k: name for k, name in enumerate(KINDS) if self.parts[:, k].any()}

    def update_share(self, i: int) -> float:
        """Return the share of the update in the time of a step, 0 to 1."""
        return self.results[i].update / (self.results[i].cycles or 1.0)

    def sentence_of(self, i: int) -> str:
        """Return the time of an estimate and its memory, as a sentence."""
        verb = "fits" if self.fits[i] else "does not fit"
        return (
            f"{self.names[i]}: {self.figures[i]} modelled {self.unit}, {self.update_share(i):.1%} "
            f"of it the update; {self.shares[i]} of the limit, {verb}"
        )

    def time_of(self, i: int) -> str:
        """Return the time of an estimate and its parts, as a sentence."""
        parts = ", ".join(
            f"{name} {self.parts[i, k]:,.2f}"
            for k, name in self.drawn_kinds().items()
            if self.parts[i, k]
        )
        return f"{self.names[i]}: {self.figures[i]} modelled {self.unit}; {parts}"

    def texts_of(self, i: int) -> list[str]:
        """Return the lines above the bar of an estimate: its time, and what is special about it."""
        count = len(self.results)
        figure = self.figures[i]
        if count > FEW and self.times[i] >= 10:  # A narrow column has no room for all digits.
            figure = f"{self.times[i]:,.{int(self.times[i] < 100)}f}"
        lines = [figure]
        has_large_update = max(map(self.update_share, range(count))) >= LARGE_UPDATE
        if has_large_update and count <= FEW:
            lines += _fitted(f"update {self.update_share(i):.0%}", count, 2)
        return lines + ([] if self.fits[i] else _fitted("does not fit", count, 3))

    def memory_of(self, i: int) -> str:
        """Return what fills the memory of a tile, as a sentence."""
        memory = self.results[i].fullest
        uses = ", ".join(f"{name} {size / memory.limit:.1%}" for name, size in memory.uses)
        return f"{self.names[i]}: {self.shares[i]} of {memory.limit:,} bytes; {uses}"

    def title(self) -> str:
        """Return the finding: the shortest estimate that fits, and which do not fit."""
        unfit = [name for name, fits in zip(self.names, self.fits, strict=True) if not fits]
        best, unit = self.best, f"modelled {self.unit}"
        if len(self.results) == 1:
            verb = "does not fit" if unfit else "fits"
            return f"Time of {self.names[0]}: {self.figures[0]} {unit}; it {verb} on the tiles"
        if best < 0:
            shares = [result.fullest.share for result in self.results]
            least = int(np.argmin(shares))
            return (
                f"None of the {len(self.results)} estimates fits on the tiles; "
                f"{self.names[least]} needs the least memory, {self.shares[least]} of the limit"
            )
        ties = int((self.times[self.fits] == self.times[best]).sum()) - 1
        shortest = self.names[best] + (f" and {ties:,} more" if ties else "")
        if unfit:
            plain = [self.labels[i] for i in np.flatnonzero(~self.fits)]
            them = " and ".join(plain) if len(plain) < 3 else f"{len(plain)} others"
            verb = "does not fit" if len(plain) == 1 else "do not fit"
            return f"Shortest that fits: {shortest}, {self.figures[best]} {unit}; {them} {verb}"
        worst = int(np.argmax(self.times))
        if self.times[worst] == self.times[best]:
            return f"All {len(self.results)} fit and take the same, {self.figures[best]} {unit}"
        ratio = self.times[worst] / (self.times[best] or np.inf)
        more = f", {ratio:.2f} times as long" if ratio else ""
        return (
            f"Shortest: {shortest}, {self.figures[best]} {unit}; longest: {self.names[worst]}, "
            f"{self.figures[worst]}{more}"
        )

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the table of the picture: (headings, a row for each estimate)."""
        kinds = self.drawn_kinds()
        headings = ("estimate", f"modelled {self.unit}", *kinds.values())
        rows = [
            (
                name,
                self.figures[i],
                *(f"{self.parts[i, k]:,.2f}" for k in kinds),
                f"{self.update_share(i):.1%}",
                self.shares[i],
                "yes" if self.fits[i] else "no",
            )
            for i, name in enumerate(self.names)
        ]
        return (*headings, "update's share", "memory of the fullest tile", "fits"), rows


def _noun(parameter: str, key: object) -> str:
    """Return what a number counts. The first word of `parameter` is a plural; 1 needs none."""
    first, *rest = parameter.split(" ")
    is_plural = first.endswith("s") and not first.endswith("ss")
    return " ".join([first[:-1], *rest]) if key == 1 and is_plural else parameter


def _percent(share: float) -> str:
    """Return a share of the limit as text, with enough digits to differ from 100% if it exceeds."""
    digits = 0
    while share > 1 and round(share, digits + 2) == 1 and digits < 9:
        digits += 1
    return f"{share:,.{digits}%}"


def _middles(count: int) -> Array:
    """Return float[count]: the x coordinates of the middles of the columns."""
    return (np.arange(count) + 0.5) * (WIDE / count)


def _texts_above(texts: Sequence[Sequence[str]], tops: Array, line: float) -> Iterator[Shape]:
    """Yield lines of text above each bar. A text that the line at `line` would cross is above it.

    `tops`, float[bars], and `line` are y coordinates.
    """
    count = len(texts)
    size = 11 if WIDE / count * NARROWEST > 6 * LETTER else 9
    for lines, top, x in zip(texts, tops.tolist(), _middles(count).tolist(), strict=True):
        y = top - 4
        if y - LINE * len(lines) < line <= y + 3:
            y = line - 5
        for k, text in enumerate(reversed(lines)):
            yield Words(x, y - LINE * k, text, size, anchor="middle")


def _fitted(text: str, count: int, max_lines: int) -> list[str]:
    """Return a text in lines that fit into a column, of which there are `count`."""
    letters = max(3, int(WIDE / count * NARROWEST / LETTER))
    return wrap(text, letters, max_lines=max_lines, placeholder="…") or [""]


def _bars(
    name: str,
    heading: str,
    parts: Mapping[int, Array],
    high: float,
    scale: float,
    labels: Sequence[str],
    extra: Sequence[Shape],
    pale: Array,
) -> Painted:
    """Return a mark with a stack of bars for each estimate. Those in `pale` are on a pale ground.

    `parts` has the values of each code, and a value of 1 is `scale` units high. The shapes `extra`
    are in front of the bars.
    """
    count = len(labels)
    middle = _middles(count)
    width = min(0.7 * WIDE / count, 80.0)
    total: Array = np.sum([*parts.values(), np.zeros(count)], axis=0)
    shapes: list[Shape] = [*stacks({UNFIT: total * pale}, middle, width, high, scale)]
    for chosen, share in ((~pale, 1.0), (pale, 0.4)):
        values = {code: part * chosen for code, part in parts.items()}
        shapes += stacks(values, middle, share * width, high, scale)
    shapes.append(Stroke(((0, high), (WIDE, high)), 1, "line"))
    return painted(
        name,
        heading,
        WIDE,
        high,
        [[*shapes, *extra]],
        places=side_by_side(count, WIDE, high),
        key=np.arange(count),
        labels=labels,
        say="{label}",
    )


def _time(columns: _Columns) -> Painted:
    """Return the bars of the times, with a line at the shortest one that fits."""
    count, times = len(columns.results), columns.times
    shortest = times[columns.best] if columns.best >= 0 else 0.0
    texts = [columns.texts_of(i) for i in range(count)]
    # The room above each bar, or above the line, is for the texts.
    scale = min(
        (TIME_HIGH - LINE * len(lines) - 12) / (max(time, shortest) or 1.0)
        for time, lines in zip(times.tolist(), texts, strict=True)
    )
    line = TIME_HIGH - float(shortest) * scale
    extra: list[Shape] = [Stroke(((0, line), (WIDE, line)), 1)] if columns.best >= 0 else []
    extra += _texts_above(texts, TIME_HIGH - times * scale, line)
    note = "; the line is at the shortest one that fits" if columns.best >= 0 else ""
    return _bars(
        "time",
        f"{columns.measure}, by kind{note}",
        {k: columns.parts[:, k] for k in columns.drawn_kinds()},
        TIME_HIGH,
        scale,
        [columns.time_of(i) for i in range(count)],
        extra,
        ~columns.fits,
    )


def _memory(columns: _Columns) -> Painted:
    """Return the bars of the memory of the fullest tiles, with a line at the limit."""
    memories = [result.fullest for result in columns.results]
    count = len(memories)
    uses = [{name: size / memory.limit for name, size in memory.uses} for memory in memories]
    parts = {
        len(KINDS) + k: np.array([shares.get(use, 0.0) for shares in uses])
        for k, use in enumerate(USES)
    }
    shares: Array = np.array([memory.share for memory in memories])
    scale = (MEMORY_HIGH - LINE - 8) / max(1.0, float(shares.max()))
    line = MEMORY_HIGH - scale
    extra: list[Shape] = [
        Stroke(((0, line), (WIDE, line)), 1.5),
        Words(-10, line + 4, "100%", 11, anchor="end", ink="soft"),
        *_texts_above([[share] for share in columns.shares], MEMORY_HIGH - shares * scale, line),
    ]
    for x, text in zip(_middles(count).tolist(), columns.labels, strict=True):
        for k, words in enumerate(_fitted(text, count, 3)):
            extra.append(Words(x, MEMORY_HIGH + 15 + LINE * k, words, 11, anchor="middle"))
    if columns.parameter:
        foot = MEMORY_HIGH + 19 + LINE * columns.label_lines
        extra.append(Words(WIDE, foot, label(columns.parameter), 12, anchor="end", ink="soft"))
    return _bars(
        "memory",
        "memory of the fullest tile as a share of the limit, by use",
        {code: part for code, part in parts.items() if part.any()},
        MEMORY_HIGH,
        scale,
        [columns.memory_of(i) for i in range(count)],
        extra,
        np.zeros(count, bool),
    )


def _scene(columns: _Columns) -> Scene:
    panels = Panels()
    panels.put(_time(columns), left=LEFT)
    panels.below(40)
    panels.put(_memory(columns), left=LEFT)
    title = columns.title()
    sentences = [f"{columns.sentence_of(i)}." for i in range(len(columns.results))]
    return panels.scene(
        "estimates",
        title,
        " ".join([f"{title}.", *sentences]),
        foot=12 + LINE * columns.label_lines + (15 if columns.parameter else 0),
        codes=CODES,
        stills=(Still("", "", 0, 0, first=True),),
        table=columns.table(),
        notes=columns.notes,
    )
