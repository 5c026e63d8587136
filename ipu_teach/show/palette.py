"""The colours of all pictures: what a tile is doing has one colour, one letter and one pattern everywhere.

The hues are those that Okabe and Ito chose so that people with any colour vision tell them apart (Color Universal Design,
2008), darkened or lightened where a theme needs it. A letter and a pattern say the same without colour.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """What a mark can mean. `light` and `dark` are its colours on a light and on a dark page; `pattern` is one of
    "" (plain), "/" (hatched), "." (dotted), "-" (horizontal lines), "|" (vertical lines) and "x" (crossed)."""

    name: str
    letter: str
    light: str
    dark: str
    pattern: str


REST = Code("not at work", "", "#e4e7ea", "#3a4048", "")
SYNC = Code("sync", "S", "#f0e442", "#d8cc2e", ".")
WAIT = Code("waiting", "W", "#bfc5cb", "#69717b", "/")
EXCHANGE = Code("exchange", "X", "#56b4e9", "#3b9ad3", "-")
COMPUTE = Code("compute", "C", "#d55e00", "#e8792b", "")
LINKS = Code("exchange between IPUs", "L", "#0072b2", "#2a8fd0", "x")
HOST = Code("host exchange", "H", "#cc79a7", "#d48fb6", "|")

# Seven that stand for nothing by themselves: neighbours in a row of tiles differ, and each tile has its number besides.
HUES = tuple(
    Code(f"hue {i}", "", light, dark, pattern)
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
NOWHERE = Code("on no tile", "?", "#ffffff", "#14171a", "x")

# Paper, ink, soft ink and lines of each theme. Both inks have a contrast of more than 4.5 to 1 on their paper.
LIGHT = {"paper": "#ffffff", "ink": "#1b1f24", "soft": "#59636e", "line": "#c4cbd3"}
DARK = {"paper": "#14171a", "ink": "#e8ebee", "soft": "#a4adb7", "line": "#444c56"}


def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on `colour` (relative luminance as in WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"
