"""The colours of all pictures. An activity of a tile has the same colour and letter in every view.

The hues are those of Okabe and Ito (Color Universal Design, 2008), who chose them so that people
with any colour vision can distinguish them. We made some of them darker or lighter for a theme.
Letters and patterns repeat the meaning for readers who do not see the colours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Code:
    """A category in a picture, such as "exchange", with its name, letter, colours and pattern.

    `light` and `dark` are the colours of the category on a light and on a dark page. `pattern` is
    one of "" (none), "/" (hatched), "." (dotted), "-" (horizontal lines), "|" (vertical lines) and
    "x" (crossed). A code appears in a legend only if the code has a letter, or if its field
    `listed` is True.
    """

    name: str
    letter: str
    light: str
    dark: str
    pattern: str
    listed: bool = False

    def colour(self, dark: bool) -> str:
        """Return the colour on a dark page if `dark`, else the colour on a light page."""
        return self.dark if dark else self.light

    def lettered(self, letter: str, name: str = "") -> Code:
        """Return a copy with another letter and, unless `name` is "", with another name."""
        return replace(self, letter=letter, name=name or self.name)


REST = Code("not at work", "", "#e4e7ea", "#3a4048", pattern="")
SYNC = Code("sync", "S", "#f0e442", "#d8cc2e", pattern=".")
WAIT = Code("waiting", "W", "#bfc5cb", "#69717b", pattern="/")
EXCHANGE = Code("exchange", "X", "#56b4e9", "#3b9ad3", pattern="-")
COMPUTE = Code("compute", "C", "#d55e00", "#e8792b", pattern="")
LINKS = Code("exchange between IPUs", "L", "#0072b2", "#2a8fd0", pattern="x")
HOST = Code("host exchange", "H", "#cc79a7", "#d48fb6", pattern="|")
STREAMING = Code("streaming memory", "M", "#117733", "#3fae62", pattern=".")
# Each of these codes has the name of a kind of phase.
PHASES = (SYNC, EXCHANGE, COMPUTE, LINKS, HOST, STREAMING)
STATES = (REST, SYNC, WAIT, EXCHANGE, COMPUTE, LINKS, HOST, STREAMING)  # The states of a tile.
STATE = {phase.name: STATES.index(phase) for phase in PHASES}  # Maps kinds of phases to states.

# Teal and lilac are for views whose subject has no colour of its own.
SO = Code("", "", "#4db6ac", "#2f8f86", pattern="")
OTHERWISE = Code("", "", "#c2a5cf", "#8e6fa3", pattern="/")
# Views of estimates use these colours in addition to those of activities and memory.
OTHER_VERTICES = Code("other vertices", "", "#f4978e", "#e88a80", pattern="/")
GRADIENT_SUMS = Code("gradient sums", "", "#dcc9a0", "#cbb98c", pattern=".")
LIVE_VALUES = Code("other live values", "", "#c7ecd4", "#cdebd6", pattern="|")
# These seven colours have no meaning of their own. They distinguish neighbouring items, such as
# tiles, which are also labelled with their numbers.
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
# Up to fourteen tiles each have their own combination of colour and pattern. More tiles are divided
# into ranges, with colours from dark to light.
TILES = (
    *HUES,
    *(replace(hue, pattern=HUES[(i + 3) % 7].pattern or "/") for i, hue in enumerate(HUES)),
)
RANGES = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


def of_tiles(num_tiles: int) -> tuple[tuple[Code, ...], int]:
    """Return `(codes, tiles per code)`: the colours of the tiles, and how many tiles share one."""
    if num_tiles <= len(TILES):
        return TILES[:num_tiles], 1
    tiles_per_range = -(-num_tiles // len(RANGES))
    first_tiles = range(0, num_tiles, tiles_per_range)
    names = (
        f"tiles {first:,} to {min(first + tiles_per_range, num_tiles) - 1:,}"
        for first in first_tiles
    )
    return tuple(
        Code(name, "", colour, colour, pattern="", listed=True)
        for name, colour in zip(names, RANGES, strict=False)
    ), tiles_per_range


# These colours are for the parts of a tile's memory: always live variables, other variables, gaps
# between variables, and the other categories. They have no letters, because the names of the parts
# are next to their lanes.
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

# These colours show which fraction of a tile's memory is in use: one for each of five steps, and
# one for more than the limit. A fuller tile is darker on a light page, and lighter on a dark page.
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
    """Return a code of the colour scale `FILL`, with a name that says how full a tile is.

    The range from 0 to `top` / 10 % of the limit is divided into five equal steps. `fifth` is the
    index of a step, from 0 to 4, or 5 for more than the limit.
    """
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

# These colours show numbers from the lowest to the highest: numbers below zero are blue, and
# numbers above zero are brown. The two codes after these are for elements without a number.
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
# In `show.run`, the border of a cell shows to which tensor it belongs. That view uses these colours
# only for borders.
RIMS = tuple(
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
# These colours are for the nested boxes above phases, so no phase has one of these colours.
NESTED = tuple(replace(code, listed=False) for code in (RIMS[3], HUES[2], *RIMS[1:3], *RIMS[4:]))

# Each theme has colours for paper, ink, soft ink and lines. On the paper, both inks have a contrast
# of more than 4.5 to 1.
LIGHT = {"paper": "#ffffff", "ink": "#1b1f24", "soft": "#59636e", "line": "#c4cbd3"}
DARK = {"paper": "#14171a", "ink": "#e8ebee", "soft": "#a4adb7", "line": "#444c56"}


def ink_on(colour: str) -> str:
    """Return "#000000" or "#ffffff", whichever is easier to read on `colour`.

    The relative luminance is computed as in WCAG 2.2.
    """
    channels = [int(colour[position : position + 2], 16) / 255 for position in (1, 3, 5)]
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in channels
    )
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"
