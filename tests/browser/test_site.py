"""The site, built as `python3 run.py site` builds it, and read as a stranger would: from the disk,
without a network, by the keyboard, on a phone.

Only `python3 run.py test --browser-all` takes the minutes that this needs. What it lists at the end
are the addresses of other hosts; nothing asks those.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from site_names import LIBRARIES, public_names, top_names

from ipu_course.checking.gaps import gaps_in, read_notebook, source_of

from .conftest import ROOT

SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
MEGABYTES = 32
SIZES = (1280, "light"), (380, "dark"), (1280, "dark"), (380, "light")


class Page(HTMLParser):
    """What a page links to, what it brings in by itself, and the places in it that have a name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.fetched = path, set[str](), set[str]()
        self.names = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.names |= {told[name] for name in ("id", "name") if name in told}
        if "href" in told:
            (self.fetched if tag == "link" else self.links).add(told["href"])
        if "src" in told:
            self.fetched.add(told["src"])


@pytest.fixture(scope="session")
def site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not request.config.getoption("--browser-all"):
        pytest.skip("python3 run.py test --browser-all builds the site and looks at it")
    for module in ("sphinx", "myst_nb", "pydata_sphinx_theme"):
        pytest.importorskip(module, reason="the extra `docs` is missing: python3 run.py site")
    made = tmp_path_factory.mktemp("site")
    script = str(ROOT / "docs" / "site")
    program = "import runpy, sys, pathlib; main = runpy.run_path(sys.argv[1])['main']; "
    program += "sys.exit(main([], pathlib.Path(sys.argv[2])))"
    command = [sys.executable, "-c", program, script, str(made)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.strip() == (made / "index.html").as_uri()
    return made


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    found = sorted(site.rglob("*.html"))
    return {path: Page(path) for path in found if path.parent.name != "_static"}


def own(pages: dict[Path, Page], site: Path) -> list[Path]:
    """The pages with a text of ours: of those with nothing but code, one."""
    code = site / "_modules" / "ipu_teach"
    return [p for p in pages if code not in p.parents or p.stem == "graph"]


def test_no_link_is_dead_and_nothing_comes_from_elsewhere(
    site: Path, pages: dict[Path, Page], capsys: pytest.CaptureFixture[str]
) -> None:
    dead, elsewhere = [], set()
    for path, page in pages.items():
        for link in page.links | page.fetched:
            url = urlparse(link)
            if url.scheme in ("http", "https", "mailto"):
                elsewhere.add(link)
                assert link in page.links, (path, link)
            elif url.scheme not in ("data", "javascript"):
                target = path if not url.path else (path.parent / unquote(url.path)).resolve()
                there = target.is_file() and (
                    target.suffix != ".html" or unquote(url.fragment) in pages[target].names
                )
                dead += [] if there else [(str(path.relative_to(site)), link)]
    assert dead == []
    with capsys.disabled():
        told = sorted(elsewhere) or ["no other host"]
        print(f"\n{len(pages)} pages lead to", *told, sep="\n  ")


def test_it_is_small_enough_for_a_stick_and_a_mail(site: Path) -> None:
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert size < MEGABYTES * 1_000_000, f"{size / 1e6:.1f} MB"


def test_every_public_name_is_in_the_reference(pages: dict[Path, Page]) -> None:
    there = {name for page in pages.values() for name in page.names}
    named = [f"ipu_teach.{name}" for name in top_names()]
    for module in LIBRARIES:
        named += [f"{module}.{name}" for name in public_names(importlib.import_module(module))]
    assert len(named) > 500 and [name for name in named if name not in there] == []
    assert "ipu_teach.Graph.add_variable" in there


def opened(page: Any, path: Path, width: int, scheme: Any) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(path.as_uri())


def test_every_page_is_for_everybody_and_for_a_phone(
    page: Any, site: Path, pages: dict[Path, Page]
) -> None:
    """All at 380 pixels; axe-core has each once, and takes the widths and schemes by turns."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    faults = []
    for path, (width, scheme) in zip(own(pages, site), cycle(SIZES), strict=False):
        name = str(path.relative_to(site))
        opened(page, path, 380, scheme)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append((name, "scrolls sideways"))
        if "IPU_TEACH_AXE" in os.environ:
            page.set_viewport_size({"width": width, "height": 900})
            page.add_script_tag(path=os.environ["IPU_TEACH_AXE"])
            found = page.evaluate(
                "axe.run(document, { preload: false }).then((r) => r.violations.map("
                "(v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]))"
            )
            faults += [(name, width, scheme, *what) for what in found]
    assert faults == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_lessons_use_the_width_and_no_code_is_cut(page: Any, site: Path) -> None:
    cut = """[...document.querySelectorAll(".cell_input pre")]
        .filter((code) => code.scrollWidth > code.clientWidth + 1).map((code) => code.innerText)"""
    narrow = "[...document.querySelectorAll('.ipu-live')].filter(v => v.clientWidth < 640).length"
    for path in SOLUTIONS:
        opened(page, site / "notebooks" / "solutions" / f"{path.stem}.html", 1280, "light")
        assert page.evaluate(cut) == [], path.name
        assert page.evaluate(narrow) == 0, path.name
        assert page.evaluate("document.querySelector('article').clientWidth") > 900, path.name


def test_every_view_of_the_gallery_is_live(page: Any, site: Path) -> None:
    opened(page, site / "docs" / "gallery" / "README.html", 1280, "light")
    drawn = (ROOT / "docs" / "gallery" / "README.md").read_text("utf-8").count(".svg)")
    page.wait_for_function(f"document.querySelectorAll('.ipu-live').length === {drawn}")
    assert drawn > 20 and page.locator("img[src$='.svg']").count() == 0


def players(page: Any) -> Iterator[int]:
    """The players of a page that have something to play."""
    for n in range(page.locator(".ipu-live").count()):
        if page.evaluate(f"document.querySelectorAll('.ipu-live')[{n}].ipuPlayer.count > 1"):
            yield n


def test_every_picture_plays_from_the_disk(page: Any, site: Path) -> None:
    played = 0
    for path in SOLUTIONS:
        cells = read_notebook(path)["cells"]
        stored = sum(str(cell.get("outputs", "")).count("<script") for cell in cells)
        opened(page, site / "notebooks" / "solutions" / f"{path.stem}.html", 1280, "light")
        assert page.locator(".ipu-live").count() == stored, path.name
        for n in players(page):
            box = page.locator(".ipu-live").nth(n)
            before = page.evaluate(
                f"(window.player = document.querySelectorAll('.ipu-live')[{n}].ipuPlayer).at"
            )
            box.get_by_role("button", name="Play", exact=True).click()
            page.wait_for_function(f"player.playing && player.at !== {before}")
            page.evaluate("player.toggle()")
            played += 1
    assert played > 30


def test_answers_are_folded_below_their_gaps(page: Any, site: Path) -> None:
    for path in SOLUTIONS:
        sources = [source_of(c) for c in read_notebook(path)["cells"] if c["cell_type"] == "code"]
        opened(page, site / "notebooks" / "solutions" / f"{path.stem}.html", 380, "light")
        folds = page.locator("details.hide")
        assert folds.count() == sum(bool(gaps_in(source)) for source in sources), path.name
        for n in range(folds.count()):
            fold = folds.nth(n)
            assert fold.get_by_text("Show the answer").is_visible()
            assert "BEGIN SOLUTION" not in fold.inner_text()
    first = page.locator("details.hide")
    assert first.count() == 0  # tiny, which is read and not solved


def test_the_start_page_moves_after_one_click_and_follows_the_theme(page: Any, site: Path) -> None:
    opened(page, site / "index.html", 1280, "light")
    page.locator(".ipu-live").get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("document.querySelector('.ipu-live').ipuPlayer.playing")
    paper = "getComputedStyle(document.querySelector('.ipu-live')).backgroundColor"
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.get_by_role("button", name="Color mode").click()
    page.get_by_role("button", name="Dark", exact=True).click()
    page.wait_for_function(f"{paper} === 'rgb(20, 23, 26)'")


def test_one_search_finds_terms_lessons_and_names(page: Any, site: Path) -> None:
    for words, place in (
        ("barrier", "docs/glossary.html"),
        ("barrier", "01_bulk_synchronous_parallel.html"),
        ("add_variable", "reference/graph.html"),
    ):
        page.goto(f"{(site / 'search.html').as_uri()}?q={words}")
        page.locator(f"#search-results a[href*='{place}']").first.wait_for()
