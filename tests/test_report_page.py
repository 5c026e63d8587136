"""A report on a page: well-formed, the same every time, and with the figures of the report in
it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from programs import tut4
from small_reports import chain_report, small_engine

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report
from ipu_teach.program import Sequence

VOID = {"br", "hr", "img", "input", "meta"}


class Checker(HTMLParser):
    """Collects the text, and fails where an element is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(report: Report) -> tuple[Checker, str]:
    text = report._repr_html_()
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker, text


def test_the_page_is_well_formed_and_says_what_the_report_says() -> None:
    checker, text = checked(chain_report())
    assert (
        text.startswith('<div class="ipu-view report"><p>9 steps in ')
        and text.count('class="ipu-view') == 1
    )
    assert "script" not in checker.tags and "style" not in checker.tags and "color" not in text
    titles = re.findall(r"<summary>(\w[^<:]*):?", text)
    for title in (
        "Summary",
        "Memory",
        "Liveness",
        "Variables",
        "Programs",
        "Operations",
        "Compute sets",
        "Steps",
        "Codelets",
    ):
        assert title in titles
    words = " ".join(checker.text)
    assert "layer0/twice1" in words and "self.out = self.x * 2 + 1" in words and "Repeat 3" in words
    assert checker.tags.count("caption") == checker.tags.count("table") > 5


def test_a_picture_comes_before_what_is_folded() -> None:
    report = chain_report()
    picture = checked(report)[1].partition("<details>")[0].partition("</p>")[2]
    assert picture.startswith("<svg ") and picture.endswith("</svg>")
    for name, share in report.proportions.items():
        assert (f"{name}</text>" in picture) == (share > 0), name
        assert share == 0 or f">{100 * share:.1f} %<" in picture
    tiles = report.target.num_tiles
    assert f"Bytes on tiles 0 to {tiles - 1}<" in picture
    assert picture.rpartition("<path")[2].count("M") == tiles  # a column for each tile
    still = checked(small_engine().report)[1].partition("<details>")[0]
    assert "Time of" not in still and "Bytes on tiles 0 to 1<" in still


def test_the_page_is_the_same_every_time_and_from_a_file() -> None:
    report = chain_report()
    assert (
        chain_report()._repr_html_()
        == report._repr_html_()
        == Report.deserialize(report.serialize())._repr_html_()
    )


def test_a_report_of_what_was_only_compiled() -> None:
    checker, text = checked(small_engine().report)
    assert text.startswith(
        '<div class="ipu-view report"><p>Nothing has run. The fullest of 2 tiles is tile 0, with '
        "4,348 of "
    )
    assert "Steps:" not in text


def test_the_page_of_the_chain_of_products_is_light() -> None:
    shapes = [(90, 60), (60, 30), (30, 20)]
    _, report, _ = tut4.main([np.ones(shape, np.float32) for shape in shapes])
    _, text = checked(report)
    assert len(text) < 30_000


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b', "a&b", "\x1b[2J"])
def test_names_cannot_write_on_the_page(name: str) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    graph.set_tile_mapping(graph.add_variable(FLOAT, 2, name), 0)
    checker, text = checked(Engine(graph, Sequence(name=name)).report)
    assert "script" not in checker.tags and "\x1b" not in text
