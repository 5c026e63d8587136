"""The view `estimates`: the times of several estimates by kind, and the memory of their tiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from textwrap import wrap

import numpy as np

from ipu_teach._support.flags import checks, flagged
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.estimate.result import COSTS, UPDATE, Estimate
from ipu_teach.graph.layouts import is_whole
from ipu_teach.show import palette
from ipu_teach.show.estimate import USES, grouped
from ipu_teach.show.panels import Panels, painted, side_by_side
from ipu_teach.show.scene import Painted, Scene, Still, label
from ipu_teach.show.shapes import LETTER, Shape, Stroke, Words
from ipu_teach.show.trend import stacks
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST = 16  # The maximum number of estimates that are drawn.
FEW = 10  # With more estimates than this, the columns are narrow.
LARGEST = 10**15  # The maximum number of samples, and of epochs.
LEFT, WIDE, LINE = 46.0, 642.0, 13.0
HEIGHTS = {"time": 190.0, "memory": 140.0}
LARGE_UPDATE = 0.05  # If an update takes a larger share, all updates' shares are shown.
UPDATES, MEMORY = "update's share", "memory of a tile"
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
UNFIT = len(KINDS) + len(USES)  # The code of the background of bars that do not fit.
CODES = (
    *(replace(code, name=name, letter="", listed=True) for name, code in KINDS.items()),
    *USES.values(),
    replace(palette.GAPS, name="does not fit", listed=True),
)
OVERLAP = (
    "If stages of a pipeline work at the same time, the kinds of their time are scaled. Together, "
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


@flagged
@checks("parameter")
def estimates(
    found: Mapping[object, Estimate],
    *,
    parameter: str = "",
    samples: int = 0,
    epochs: int = 1,
    shares: bool = False,
) -> View:
    """Which of several estimates is shortest, what takes the time, and which of them fit?

    `found` is a dict of at most 16 estimates. Its keys are the numbers or names in which they
    differ, such as `{8: a, 12: b}`. If all keys are numbers, the estimates are sorted by them;
    otherwise, they keep their order. `parameter` is the plural of the thing that the numbers
    count, such as "images in a micro-batch".

    The height of a bar is the modelled time of `epochs` epochs of `samples` samples, each in whole
    steps. If `samples` is 0, it is the time of one step. Give `samples` if the steps have different
    numbers of samples. The pieces are the kinds of cycles of all micro-batches, and the whole
    update. Where the stages of a pipeline work at the same time, the kinds are scaled, so that they
    add up to the time. The lower bars show the memory of a tile of the fullest stage, as a fraction
    of the limit.

    With `shares`, all bars have the same height, so that you can compare the shares of the kinds.
    The bars for the memory are then left out.

    :raises InvalidOptionError: if `found` is not a dict of 1 to 16 estimates of at least one
        sample. `samples` must be a whole number from 0 to 10^15, and `epochs` one from 1 on.
    """
    if not is_whole(samples) or not 0 <= samples <= LARGEST:
        raise InvalidOptionError(f"""show.estimates() was given samples={shown(samples)}, which is
            not a number of samples.
            next:  give a whole number from 1 to 10**15, or 0 for the time of a step.""")
    if not is_whole(epochs) or not 1 <= epochs <= LARGEST:
        raise InvalidOptionError(f"""show.estimates() was given epochs={shown(epochs)}, which is not
            a number of epochs.
            next:  give a whole number from 1 to 10**15.""")
    return View(_scene(_Columns(_checked(found), parameter, int(samples), int(epochs)), shares))


def _checked(found: object) -> dict[object, Estimate]:
    """Return `found`, sorted if all of its keys are numbers.

    :raises InvalidOptionError: if it is not a dict of 1 to 16 estimates of at least one sample.
    """
    if not isinstance(found, Mapping):
        raise InvalidOptionError(f"""show.estimates() was given {shown(found)}, which is not a dict
            of estimates.
            next:  give the estimates by name: {{"8 images": a, "12 images": b}}.""")
    if not 1 <= len(found) <= MOST:
        raise InvalidOptionError(f"""show.estimates() was given a dict of {len(found):,} estimates,
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

    The cycles of the micro-batches are divided by kind. The update is a separate entry that
    includes its transfers. If stages of a pipeline work at the same time, the kinds are scaled so
    that they add up to the time that the micro-batches take.
    """
    work = {
        title: result.accumulation
        * sum(getattr(line, cost) for line in result.lines if line.part != UPDATE)
        for cost, title in COSTS.items()
    }
    # If nothing overlaps, the remaining time is for transfers with the host.
    rest = result.micro_batches - sum(work.values())
    work["host"] = rest if rest > 0 else result.host
    scale = result.micro_batches / (sum(work.values()) or 1.0)
    return {name: scale * cycles for name, cycles in work.items()} | {UPDATE: result.update}


class _Columns:
    """The numbers and the texts of a column for each estimate.

    Attributes:
        labels: the texts below the columns.
        names: the names of the estimates, such as "12 images".
        unit: the unit of `times`, such as "modelled minutes".
        of: the end of the heading of the times, such as "for 1,000 samples".
        times: float[estimates]: the time of each estimate, rounded to two digits after the point.
        parts: a dict from a code to float[estimates]: the parts of these times.
        figures: each time, as a string.
        fits: bool[estimates]: whether each estimate fits.
        best: the index of the shortest estimate that fits, or -1 if none of them fits.
        level: the time of the shortest estimate that fits, or 0 if there is nothing to compare.
        size: the font size of the texts above the bars.
        label_lines: the number of lines of the longest label.
        headings, rows: the table of the picture.
    """

    def __init__(
        self, found: Mapping[object, Estimate], parameter: str, samples: int, epochs: int
    ) -> None:
        self.results = list(found.values())
        self.memories = [result.fullest for result in self.results]
        self.count = len(found)
        self.parameter = label(parameter)
        self.labels = [f"{key:,}" if is_whole(key) else label(key, 40) for key in found]
        self.names = [
            f"{text} {_noun(self.parameter, key)}".strip() if _is_number(key) else text
            for key, text in zip(found, self.labels, strict=True)
        ]
        seconds = [
            epochs * result.seconds_for(samples) if samples else result.seconds
            for result in self.results
        ]
        shortest = min(filter(None, seconds), default=0.0)
        unit = next((name for name, size in UNITS.items() if shortest >= size), "nanoseconds")
        times: Array = np.array(seconds) / UNITS[unit]
        self.unit = f"modelled {unit}"
        self.of = f"for {samples:,} samples" if samples else "of a step"
        if samples and epochs > 1:
            self.of = f"for {epochs:,} epochs of {samples:,} samples"
        ends = np.cumsum([list(parts_of(result).values()) for result in self.results], axis=1)
        ends *= (times / np.maximum(ends[:, -1], 1e-300))[:, None]
        # The ends of the pieces are rounded, not their lengths, so that the pieces add up to the
        # rounded time.
        rounded = np.round(ends, 2)
        parts = np.diff(rounded, axis=1, prepend=0).T
        self.parts = {code: part for code, part in enumerate(parts) if part.any()}
        self.times = rounded[:, -1]
        self.figures = [f"{time:,.2f}" for time in self.times]
        self.fits = np.array([result.fits for result in self.results])
        self.best = min(np.flatnonzero(self.fits), key=self.times.__getitem__, default=-1)
        has_line = self.best >= 0 and self.count > 1
        self.level = float(self.times[self.best]) if has_line else 0.0
        self.size = 11 if self.count <= FEW else 9
        self.label_lines = max(len(_fitted(text, self.count)) for text in self.labels)
        self._tabulate()

    def _tabulate(self) -> None:
        """Set the attributes of the table."""
        updates = [result.update / (result.cycles or 1.0) for result in self.results]
        self.updates = [f"{share:.1%}" for share in updates]
        self.has_large_update = self.count <= FEW and max(updates) >= LARGE_UPDATE
        self.shares = [_percent(memory.share) for memory in self.memories]
        self.uses = [
            {name: size / memory.limit for name, size in memory.uses} for memory in self.memories
        ]
        kinds = [CODES[code].name for code in self.parts]
        fits = ["yes" if fits else "no" for fits in self.fits]
        self.headings = ("estimate", self.unit, *kinds, UPDATES, MEMORY, "fits")
        parts = [[f"{value:,.2f}" for value in part] for part in self.parts.values()]
        columns = (self.names, self.figures, *parts, self.updates, self.shares, fits)
        self.rows = list(zip(*columns, strict=True))

    def sentence(self, i: int) -> str:
        """Return the numbers of an estimate as a sentence."""
        pairs = zip(self.headings[2:-1], self.rows[i][2:-1], strict=True)
        numbers = ", ".join(" ".join(pair) for pair in pairs)
        time = f"{self.figures[i]} {self.unit}"
        return f"{self.names[i]}: {time}, {numbers}; it {_verb(self.fits[i])}."

    def memory(self, i: int) -> str:
        """Return a sentence that gives each use of memory as a share of the limit."""
        uses = ", ".join(f"{name} {share:.1%}" for name, share in self.uses[i].items())
        return f"{self.names[i]}: {self.shares[i]} of {self.memories[i].limit:,} bytes; {uses}"

    def texts(self, i: int) -> list[str]:
        """Return the lines above an estimate's bar: the time if there is room, and remarks."""
        remarks = [f"update {self.updates[i]}"] * self.has_large_update
        remarks += [] if self.fits[i] else [_verb(False)]
        lines = [line for text in remarks for line in _fitted(text, self.count, 0.66)]
        has_figure = LETTER * self.size / 11 * len(self.figures[i]) < WIDE / self.count
        return [self.figures[i]] * has_figure + lines

    def title_of_shares(self) -> str:
        """Return the finding: the largest and the smallest share of the update."""
        shares = [float(share.rstrip("%")) for share in self.updates]
        largest, smallest = int(np.argmax(shares)), int(np.argmin(shares))
        sentence = f"The update takes {self.updates[largest]} of the time"
        if shares[largest] == shares[smallest]:
            return f"{sentence} in each estimate"
        return (
            f"{sentence} with {self.names[largest]}, and {self.updates[smallest]} with "
            f"{self.names[smallest]}"
        )

    def title(self) -> str:
        """Return the finding: the shortest estimate that fits, and which estimates do not fit."""
        best, count = self.best, self.count
        if count == 1:
            time = f"{self.names[0]}: {self.figures[0]} {self.unit}"
            return f"Time of {time}; it {_verb(self.fits[0])} on the tiles"
        if best < 0:
            least = min(range(count), key=lambda i: self.memories[i].share)
            return (
                f"None of the {count} estimates fits on the tiles; {self.names[least]} needs the "
                f"least memory, {self.shares[least]} of the limit"
            )
        time = f"{self.figures[best]} {self.unit}"
        ties = int((self.times[self.fits] == self.times[best]).sum()) - 1
        shortest = f"{self.names[best]}{f' and {ties} more' if ties else ''}, {time}"
        unfit = [self.labels[i] for i in np.flatnonzero(~self.fits)]
        if unfit:
            names = " and ".join(unfit) if len(unfit) < 3 else f"{len(unfit)} others"
            return f"Shortest that fits: {shortest}; {names} {_verb(False, len(unfit))}"
        worst = int(np.argmax(self.times))
        if self.times[worst] == self.times[best]:
            return f"All {count} fit and take the same, {time}"
        ratio = self.times[worst] / (self.times[best] or np.inf)
        longest = f"{self.names[worst]}, {self.figures[worst]}"
        times = f", {ratio:.2f} times as long" if ratio else ""
        return f"Shortest: {shortest}; longest: {longest}{times}"


def _verb(fits: bool, count: int = 1) -> str:
    return "fits" if fits else "does not fit" if count == 1 else "do not fit"


def _noun(parameter: str, key: object) -> str:
    """Return `parameter`, which begins with a plural; if `key` is 1, with the singular instead."""
    return re.sub(r"^(\w*[^s\W])s\b", r"\1", parameter) if key == 1 else parameter


def _percent(share: float) -> str:
    """Format a share of the limit, with more digits if it is only slightly above 100%."""
    return f"{share:,.2%}" if 1 < share < 1.005 else f"{share:,.0%}"


def _fitted(text: str, count: int, narrowest: float = 0.8) -> list[str]:
    """Break a text into at most three lines that fit into one of `count` columns.

    A narrow page may shrink the columns to the share `narrowest` of their width.
    """
    letters = max(3, int(WIDE / count * narrowest / LETTER))
    lines = wrap(text, letters, max_lines=3, placeholder="…", break_long_words=False)
    return [label(line, letters) for line in lines]


def _lines(texts: Iterable[str], x: float, bottom: float, size: float) -> Iterator[Words]:
    """Yield lines of text above each other; the lowest is at the y coordinate `bottom`."""
    for k, text in enumerate(reversed(list(texts))):
        yield Words(x, bottom - LINE * k, text, size, anchor="middle")


def _panel(
    columns: _Columns,
    name: str,
    heading: str,
    parts: Mapping[int, Array],
    texts: Sequence[list[str]],
    level: float,
    labels: Iterable[str],
    is_last: bool,
) -> Painted:
    """Return a stack of bars for each estimate, below `texts`, and a line at the value `level`.

    `parts` has the values of each code. If `level` is 0, there is no line. The bars of estimates
    that do not fit have a pale background. The names of the estimates are below the last panel.
    """
    count, high = columns.count, HEIGHTS[name]
    totals: Array = np.zeros(count) + sum(parts.values())
    # The room above each bar, or above the line, is for the texts of the bar.
    scale = min(
        (high - LINE * len(lines) - 8) / (max(total, level) or 1.0)
        for total, lines in zip(totals, texts, strict=True)
    )
    middle = (np.arange(count) + 0.5) * (WIDE / count)
    width = min(0.7 * WIDE / count, 80.0)
    ground = {UNFIT: totals * ~columns.fits}
    shapes: list[Shape] = [
        *stacks(ground, middle, 1.35 * width, high, scale),
        *stacks(parts, middle, width, high, scale),
        Stroke(((0, high), (WIDE, high)), 1, "line"),
    ]
    line = high - level * scale
    if level:
        shapes.append(Stroke(((0, line), (WIDE, line)), 1))
    tops = (high - totals * scale).tolist()
    for lines, text, top, x in zip(texts, columns.labels, tops, middle.tolist(), strict=True):
        # The line does not cross a text.
        is_crossed = top - 1 - LINE * len(lines) < line < top
        shapes += _lines(lines, x, (line - 5 if is_crossed else top - 3), columns.size)
        if is_last:
            below = _fitted(text, count)
            shapes += _lines(below, x, high + 2 + LINE * len(below), 11)
    if name == "memory":
        shapes.append(Words(-6, line + 4, "limit", 11, anchor="end", ink="soft"))
    if is_last:
        foot = high + 6 + LINE * (columns.label_lines + 1)
        shapes += [Words(WIDE, foot, columns.parameter, 12, "end", "soft")] * bool(
            columns.parameter
        )
    return painted(
        name,
        heading,
        WIDE,
        high,
        [shapes],
        places=side_by_side(count, WIDE, high),
        key=np.arange(count),
        labels=labels,
        say="{label}",
    )


def _scene(columns: _Columns, shares: bool) -> Scene:
    indices = range(columns.count)
    sentences = list(map(columns.sentence, indices))
    panels = Panels()
    note = "; the line is at the shortest one that fits" if columns.level else ""
    heading, parts = f"{columns.unit} {columns.of}, by kind{note}", columns.parts
    if shares:
        heading = f"shares of the modelled time {columns.of}, by kind"
        totals = np.maximum(sum(parts.values()), 1e-300)
        parts = {code: part / totals for code, part in parts.items()}
    texts = [columns.texts(i)[shares:] for i in indices]
    level = 0.0 if shares else columns.level
    panels.put(_panel(columns, "time", heading, parts, texts, level, sentences, shares), left=LEFT)
    if not shares:
        panels.below(40)
        memory = _panel(
            columns,
            "memory",
            f"{MEMORY} as a share of the limit, by use",
            {
                code: np.array([uses.get(name, 0.0) for uses in columns.uses])
                for code, name in enumerate(USES, len(KINDS))
            },
            [[share] for share in columns.shares],
            1.0,
            map(columns.memory, indices),
            is_last=True,
        )
        panels.put(memory, left=LEFT)
    title = columns.title_of_shares() if shares else columns.title()
    has_stages = any(len(result.memory) > 1 for result in columns.results)
    return panels.scene(
        "estimates",
        title,
        " ".join([f"{title}.", *sentences]),
        foot=12 + LINE * columns.label_lines + 15 * bool(columns.parameter),
        codes=grouped(CODES, {min(columns.parts, default=0): "time", len(KINDS): "memory"}),
        stills=(Still("", "", 0, 0, first=True),),
        table=(columns.headings, columns.rows),
        notes=(OVERLAP,) * has_stages,
    )
