"""Read what pages, scenes and errors of views show."""

from __future__ import annotations

from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from ipu_teach.errors import InvalidOptionError
from ipu_teach.show.scene import Lanes, Scene

SVG = "http://www.w3.org/2000/svg"  # the name of a language; no page fetches it


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2) of a colour such as "#1f77b4"."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio (WCAG 2) of two colours."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


class Tags(HTMLParser):
    """The tags of a page, as lists of attributes by name, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: dict[str, list[dict[str, str | None]]] = defaultdict(list)
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag].append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def option_error(call: Any) -> str:
    """Return the message of the InvalidOptionError that the call must raise."""
    with pytest.raises(InvalidOptionError) as caught:
        call()
    return str(caught.value)


def lane_pieces(scene: Scene, name: str) -> dict[str, list[tuple[str, int, int]]]:
    """Return by lane the pieces of the mark `name`: (name of the code, start, end)."""
    mark = scene.mark(name)
    assert isinstance(mark, Lanes)
    pieces_of: dict[str, list[tuple[str, int, int]]] = {}
    for lane, label in enumerate(mark.labels):
        pieces = []
        for bar in scene.drawings[scene.stills[0].lanes[name][0]].bars:
            code, start, long = (
                int(np.broadcast_to(v, mark.count)[lane]) for v in (bar.code, bar.start, bar.length)
            )
            pieces += [(scene.codes[code].name, start, start + long)] if long else []
        pieces_of[label] = pieces
    return pieces_of
