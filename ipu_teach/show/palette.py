"""The colours of all pictures: each activity of a tile has one colour, one letter and one pattern
everywhere.

The hues are those that Okabe and Ito chose so that people with any colour vision tell them apart
(Color Universal Design, 2008), darkened or lightened where a theme needs it. A letter and a pattern
carry the same meaning without colour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Code:
    """A meaning of a mark. `light` and `dark` are its colours on a light and on a dark page;
    `pattern` is one of "" (plain), "/" (hatched), "." (dotted), "-" (horizontal lines), "|"
    (vertical lines) and "x" (crossed). A legend names the codes that have a letter, or are `listed`
    without one."""

    name: str
    letter: str
    light: str
    dark: str
    pattern: str
    listed: bool = False

    def colour(self, dark: bool) -> str:
        """Return the colour on a light or on a dark page."""
        return self.dark if dark else self.light

    def lettered(self, letter: str, name: str = "") -> Code:
        """Return the code with another letter, and with another name if one is given."""
        return replace(self, letter=letter, name=name or self.name)


REST = Code("not at work", "", "#e4e7ea", "#3a4048", pattern="")
SYNC = Code("sync", "S", "#f0e442", "#d8cc2e", pattern=".")
WAIT = Code("waiting", "W", "#bfc5cb", "#69717b", pattern="/")
EXCHANGE = Code("exchange", "X", "#56b4e9", "#3b9ad3", pattern="-")
COMPUTE = Code("compute", "C", "#d55e00", "#e8792b", pattern="")
LINKS = Code("exchange between IPUs", "L", "#0072b2", "#2a8fd0", pattern="x")
HOST = Code("host exchange", "H", "#cc79a7", "#d48fb6", pattern="|")
STREAMING = Code("streaming memory", "M", "#117733", "#3fae62", pattern=".")
PHASES = (SYNC, EXCHANGE, COMPUTE, LINKS, HOST, STREAMING)  # each has the name of a kind of phase
STATES = (REST, SYNC, WAIT, EXCHANGE, COMPUTE, LINKS, HOST, STREAMING)  # of a tile
STATE = {phase.name: STATES.index(phase) for phase in PHASES}  # by the kind of a phase

# Teal and lilac, for views whose subject has no colour of its own.
SO = Code("", "", "#4db6ac", "#2f8f86", pattern="")
OTHERWISE = Code("", "", "#c2a5cf", "#8e6fa3", pattern="/")
# Seven that stand for nothing by themselves: neighbours in a row of tiles differ, and each tile has
# its number besides.
HUES = tuple(
    Code(f"hue {i}", "", light, dark, pattern=pattern)
    for i, (light, dark, pattern) in enumerate(
        (
            ("#56b4e9", "#3b9ad3", ""),
            ("#e69f00", "#e0a21f", "/"),
            ("#009e73", "#1cb288", "."),
            ("#f0e442", "#d8cc2e", "-"),
            ("#cc79a7", "#d48fb6", "|"),
            ("#d55e00", "#e8792b", "x"),
            ("#9aa5b1", "#8b97a4", ""),
        )
    )
)
# Fourteen tiles, each with its own of colour and pattern; and ranges of more tiles, from dark to
# light.
TILES = (
    *HUES,
    *(replace(hue, pattern=HUES[(i + 3) % 7].pattern or "/") for i, hue in enumerate(HUES)),
)
RANGES = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


def of_tiles(num_tiles: int) -> tuple[tuple[Code, ...], int]:
    """Return (the colours of tiles, the number of neighbours that share a colour). Only
    neighbours have the same colour."""
    if num_tiles <= len(TILES):
        return TILES[:num_tiles], 1
    tiles_per_range = -(-num_tiles // len(RANGES))
    firsts = range(0, num_tiles, tiles_per_range)
    names = (
        f"tiles {first:,} to {min(first + tiles_per_range, num_tiles) - 1:,}" for first in firsts
    )
    return tuple(
        Code(name, "", colour, colour, pattern="", listed=True)
        for name, colour in zip(names, RANGES, strict=False)
    ), tiles_per_range


# What lies in a tile's memory: first what is always live, then what comes and goes, last what is
# lost between. They have no letters: where they are drawn, a lane with the name stands beside.
VARIABLES = Code("variables, always live", "", "#00796b", "#26a69a", pattern="")
COMING = Code("variables that come and go", "", "#80cbc4", "#5aa69e", pattern="x")
GAPS = Code("gaps", "", "#e4e7ea", "#5a626c", pattern="/")
MEMORY = {
    "Constants": Code("constants", "", "#009e73", "#1cb288", pattern="/"),
    "Vertex state": Code("vertex state", "", "#66c2a5", "#5bb497", pattern="."),
    "Edge pointers": Code("edge pointers", "", "#e69f00", "#e0a21f", pattern=""),
    "Vertex code": Code("vertex code", "", "#8d4a2b", "#b9714e", pattern="/"),
    "Exchange code": Code("exchange code", "", "#6d597a", "#a68db3", pattern="-"),
    "Control code": Code("control code", "", "#a3a500", "#b9bb3d", pattern="|"),
    "Stacks": Code("stacks", "", "#9aa5b1", "#8b97a4", pattern=""),
    "Host packet headers": Code("host packet headers", "", "#f0e442", "#d8cc2e", pattern="."),
    "Exchange buffers": Code("exchange buffers", "", "#b7d36b", "#a3c04f", pattern="-"),
    "Host buffers": Code("host buffers", "", "#e7a6c4", "#d98fb2", pattern="|"),
}

# A tile's share of the memory that it has, in fifths, and what is more than there is. The darker
# (on a dark page the lighter), the fuller.
FILL = (
    *(
        Code(f"up to {20 * i + 20} % of the limit", f"{i + 1}", light, dark, pattern="")
        for i, (light, dark) in enumerate(
            (
                ("#efe9f5", "#2c2439"),
                ("#d3c4e3", "#4a3a66"),
                ("#b096cc", "#6e559a"),
                ("#8460ae", "#9a80c6"),
                ("#532b85", "#d6c4f0"),
            )
        )
    ),
    Code("over the limit", "!", "#b3261e", "#ff8a80", pattern="x"),
)


def filled(fifth: int, top: int) -> Code:
    """Return colour number `fifth` of `FILL`, with a name; the last fifth ends at `top`
    thousandths of the limit."""
    name = f"up to {(fifth + 1) * top / 50:g} % of the limit"
    return replace(FILL[fifth], name=name) if fifth < len(FILL) - 1 else FILL[fifth]


CHOSEN = Code("the one in question", "!", "#b3261e", "#ff8a80", pattern="x")
CAUSE = Code("a cause in the chain", "*", "#000000", "#ffffff", pattern="")
STEADY = Code("always live", "A", "#bfc5cb", "#69717b", pattern="")
FIRST = Code("first report", "a", "#8aa6a3", "#6f8f8c", pattern="")
SECOND = Code("second report", "b", "#7a3b69", "#c184b0", pattern="")
NOWHERE = Code("on no tile", "?", "#ffffff", "#5a626c", pattern="x")
PAPER = Code("nothing", "", "#ffffff", "#14171a", pattern="")
BYTES = Code("bytes of the tiles, sorted", "", "#6b7a8f", "#8fa0b8", pattern="", listed=True)

# Numbers from the lowest to the highest, and what is none. Those below zero are dark blue, those
# above brown.
BELOW, NEAR_ZERO, ABOVE = (
    tuple(Code("", "", light, dark, pattern="", listed=True) for light, dark in colours)
    for colours in (
        (("#34477f", "#8c9fe0"), ("#8fa0d0", "#44548f"), ("#d5dcf0", "#272f4d")),
        (("#f3f1ec", "#3a3d42"),),
        (("#f4e6c8", "#4a3b22"), ("#d9b36c", "#8a6a33"), ("#9a5b14", "#d6a35a")),
    )
)
UNWRITTEN = Code("not written", "?", "#ffffff", "#39414a", pattern="x")
NOT_A_NUMBER = Code("not a number (NaN)", "N", "#b3261e", "#ff8a80", pattern="/")
CHANGE = Code("values change", "V", "#59636e", "#a4adb7", pattern="x")
RIMS = tuple(  # of tensors: none of these colours means anything else where their numbers are drawn
    Code("", "", light, dark, pattern="", listed=True)
    for light, dark in (
        ("#009e73", "#1cb288"),
        ("#9a5fb4", "#bd8fd6"),
        ("#7a8b00", "#b7d36b"),
        ("#3f51b5", "#8c9eff"),
        ("#c2507f", "#e58fb3"),
        ("#7d6a55", "#b39f88"),
    )
)
NESTED = tuple(  # for blocks above phases, which have none of these colours
    replace(code, listed=False) for code in (RIMS[3], HUES[2], *RIMS[1:3], *RIMS[4:])
)

# Paper, ink, soft ink and lines of each theme. Both inks have a contrast of more than 4.5 to 1 on
# their paper.
LIGHT = {"paper": "#ffffff", "ink": "#1b1f24", "soft": "#59636e", "line": "#c4cbd3"}
DARK = {"paper": "#14171a", "ink": "#e8ebee", "soft": "#a4adb7", "line": "#444c56"}


def ink_on(colour: str) -> str:
    """Return black or white, whichever is easier to read on `colour` (relative luminance as in
    WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"
