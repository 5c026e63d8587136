"""The views: their numbers are the report's, their messages the transfers', and their bytes the same every time."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, show
from ipu_teach.bench import browser
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Sequence
from ipu_teach.show import palette
from ipu_teach.show.pack import pack, unpack
from ipu_teach.show.png import indexed_png
from ipu_teach.show.scene import Cells, Lanes
from ipu_teach.show.svg import svg
from ipu_teach.show.tiles import bytes_by_tile
from ipu_teach.show.view import View, player
from tests.browser import programs

ROOT = Path(__file__).resolve().parents[1]
NODE = shutil.which("node")
ENV = dict(os.environ)

# --- numbers as text --------------------------------------------------------------------------------------------------

INTEGERS = st.integers(-(2**40), 2**40)


@given(st.one_of(st.lists(INTEGERS), st.lists(st.integers(0, 3)), st.builds(range, st.integers(-9, 9), st.integers(0, 99))))
def test_what_is_packed_can_be_unpacked(values: list[int]) -> None:
    assert unpack(pack(np.array(values, np.int64)), len(values)).tolist() == list(values)


def test_pack_takes_the_shortest_form() -> None:
    assert pack(np.full(1000, 7)) == 7
    assert pack(np.repeat([3, 4], 500)) == "3*500,4*500"
    assert pack(np.arange(0, 4000, 4)) == "d0,4*999"
    rng = np.random.default_rng(0)
    noise = rng.integers(1000, 2024, 1472)
    packed = pack(noise)
    assert isinstance(packed, str) and packed.startswith("b") and len(packed) <= 1472 * 10 / 6 + 20
    assert pack(np.zeros(0, np.int64)) == ""


def test_the_player_unpacks_what_python_packed() -> None:
    rng = np.random.default_rng(1)
    cases = [rng.integers(-(2**30), 2**45, 50), np.arange(9) * 3, np.array([5, 5, 5, 2]), rng.integers(0, 2, 99), np.full(3, 8)]
    source = player().split("// --- the player ---")[0].split("function inkOn")[0]
    script = (
        f"{source};console.log(JSON.stringify({json.dumps([[pack(c), len(c)] for c in cases])}.map(([t,n])=>[...unpack(t,n)])))"
    )
    if not NODE:
        pytest.skip("node is missing; the browser tests cover the same")
    node = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(node.stdout) == [c.tolist() for c in cases]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (128, 160), (700, 701)])
def test_a_png_holds_one_pixel_a_value(shape: tuple[int, int]) -> None:
    import io

    from matplotlib.image import imread

    codes = np.random.default_rng(2).integers(0, 3, shape)
    colours = ["#000000", "#ff8000", "#ffffff"]
    pixels = imread(io.BytesIO(indexed_png(codes, colours)), format="png")[:, :, :3]
    expected = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours])[codes] / 255
    assert np.allclose(pixels, expected, atol=1e-6)


# --- colours ----------------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_words_can_be_read_on_everything() -> None:
    for theme in (palette.LIGHT, palette.DARK):
        assert contrast(theme["ink"], theme["paper"]) > 7 and contrast(theme["soft"], theme["paper"]) > 4.5
    for code in (*show.bsp(programs.uneven()).scene.codes, *palette.HUES):
        for colour in (code.light, code.dark):
            assert contrast(palette.ink_on(colour), colour) >= 4.5, code.name


def test_no_two_meanings_share_a_letter_or_both_colour_and_pattern() -> None:
    codes = [c for c in show.bsp(programs.uneven()).scene.codes if c.letter]
    assert len({c.letter for c in codes}) == len(codes)
    assert len({(c.light, c.pattern) for c in codes}) == len(codes) == len({c.light for c in codes})


def test_the_player_has_the_inks_of_the_palette() -> None:
    source = player()
    for theme in (palette.LIGHT, palette.DARK):
        assert ", ".join(f'{name}: "{colour}"' for name, colour in theme.items()) in source


# --- the view of a run ------------------------------------------------------------------------------------------------


def frames_of(report: Report) -> list[tuple[str, float]]:
    """(kind, cycles) of every phase of the run, from the report."""
    return [(p.kind, p.cycles) for n in report.step_numbers.tolist() for p in report.phases(n)]


@pytest.mark.parametrize("tiles", [1, 2, 13, 1472])
def test_frames_are_the_phases_of_the_run(tiles: int) -> None:
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    scene = show.bsp(report).scene
    stills = [scene.stills[i] for i in scene.frames.tolist()]
    assert [(s.label.split(":")[0], s.cycles) for s in stills] == frames_of(report)
    assert sum(s.cycles for s in stills) == pytest.approx(report.total_cycles)
    assert sum(s.first for s in stills) == len(report.step_numbers)
    repeats = len(scene.frames) / len(scene.stills)
    assert repeats > 1  # what repeats is stored once


def test_the_channels_are_the_reports_arrays() -> None:
    report = programs.uneven()
    scene = show.bsp(report).scene
    step = next(n for n in report.step_numbers.tolist() if report.step_cost(n).name == "everywhere")
    cost = report.step_cost(step)
    compute = next(s for s in scene.stills if s.label == "compute: everywhere")
    exchange = next(s for s in scene.stills if s.label == "exchange: everywhere")
    assert compute.values["busy"].tolist() == cost.compute_cycles.tolist()
    assert exchange.values["received"].tolist() == cost.exchange[0].received.tolist()
    assert exchange.values["sent"].tolist() == cost.exchange[0].sent.tolist()
    [message] = exchange.flows["messages"]  # the vector goes from tile 0 to all others: sent once
    assert (message.source, message.size, message.receivers.tolist()) == (0, 256, list(range(1, 13)))


def test_the_sentence_names_total_shares_and_the_slowest_tile() -> None:
    report = programs.uneven()
    text = repr(show.bsp(report))
    assert text.startswith(f"A run of 7 supersteps on 13 tiles, {report.total_cycles:,.1f} modelled cycles: ")
    compute = sum(c for k, c in frames_of(report) if k == "compute")
    assert f"compute {100 * compute / report.total_cycles:.1f} %" in text
    assert "0x" not in text and "\n" not in text


def test_the_table_says_every_step() -> None:
    report = programs.uneven()
    rows = {row["name"]: row for row in show.bsp(report).data}
    assert rows["total"]["runs"] == "3"
    profile = next(c for c in report.compute_sets if c.name == "total")
    assert rows["total"]["compute cycles"] == f"{profile.cost.compute_duration:,}"
    assert rows["total"]["slowest tile"] == f"{int(profile.cycles_per_tile.argmax())}"


def test_many_messages_are_drawn_together_and_said_so() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=400).create_device()
    graph = Graph(device.target)
    a, b = graph.add_variable(FLOAT, (400,), "a"), graph.add_variable(FLOAT, (400,), "b")
    for i in range(400):
        graph.set_tile_mapping(a[i], i)
        graph.set_tile_mapping(b[i], (i * 7 + 3) % 400)
    graph.set_initial_value(a, 0.0)
    engine = Engine(graph, Sequence(Copy(a, b)))
    engine.load(device)
    engine.run()
    scene = show.bsp(engine.report).scene
    still = next(s for s in scene.stills if s.flows)
    drawn = still.flows["messages"]
    compiled = engine.report.transfers(int(engine.report.step_numbers[0]))[0]
    assert len(compiled) > 48 >= len(drawn) > 1
    assert "drawn together" in still.note and any("messages" in note for note in scene.notes)


def test_a_long_run_is_cut_and_says_so() -> None:
    view = show.bsp(programs.uneven(tiles=2, rows=2, repeats=2_000))
    assert len(view.scene.frames) <= 3_000
    assert view.scene.notes[0].startswith("The picture shows the first ") and "of 4,001 supersteps" in view.scene.notes[0]
    assert view.scene.notes[0] in view._repr_html_().replace("&#x27;", "'")


def test_many_ipus_are_drawn_several_tiles_to_a_cell() -> None:
    device = IPUModel("ipu2", num_ipus=4).create_device()
    graph = Graph(device.target)
    a, b = graph.add_variable(FLOAT, (5888,), "a"), graph.add_variable(FLOAT, (5888,), "b")
    graph.set_tile_mapping(a, 0)
    for i in range(5888):
        graph.set_tile_mapping(b[i], i)
    graph.set_initial_value(a, 0.0)
    engine = Engine(graph, Sequence(Copy(a, b)))
    engine.load(device)
    engine.run()
    scene = show.bsp(engine.report).scene
    cells = scene.marks[0]
    assert isinstance(cells, Cells) and cells.count == 2944 and any("up to 2 tiles" in note for note in scene.notes)
    cost = engine.report.step_cost(int(engine.report.step_numbers[0]))
    exchange = next(s for s in scene.stills if s.values.keys() >= {"received"})
    assert exchange.values["received"].sum() == cost.exchange[0].total
    assert exchange.values["received"][5] == cost.exchange[0].received[10] + cost.exchange[0].received[11]


def test_sizes() -> None:
    assert browser.kilobytes(show.bsp(programs.uneven())) <= 30
    # 200 supersteps, 8 of them distinct, on the whole chip
    assert browser.kilobytes(browser.whole_chip()) <= 150


STATIC = ROOT / "ipu_teach" / "show" / "static"


def test_scripts_travel_as_their_sources_compressed() -> None:
    """What `make_scripts.py` would make anew is nothing: each source is packed, and unpacks to itself without comments."""
    made = subprocess.run([sys.executable, STATIC / "make_scripts.py", "--check"], capture_output=True, text=True)
    assert (made.returncode, made.stdout) == (0, ""), "python ipu_teach/show/static/make_scripts.py"
    sources = {path.name for path in STATIC.glob("*.js")}
    assert {path.name for path in STATIC.glob("*.gz")} == {f"{name}.gz" for name in sources}
    for name in sources:
        source = (STATIC / name).read_text(encoding="utf-8")
        lines = [line.strip() for line in source.splitlines()]
        assert player(name).splitlines() == [line for line in lines if line and not line.startswith("//")]
        assert len(source.encode()) <= (25_000 if name == "player.js" else 10_000), name


# --- the view of tiles ------------------------------------------------------------------------------------------------


def test_every_element_shows_its_tile() -> None:
    matrix = programs.by_rows()
    view = show.tiles(matrix, matrix.transpose())
    first, second = view.scene.marks[:2]
    assert isinstance(first, Cells) and isinstance(second, Cells)
    assert first.values["tile"].reshape(8, 12).tolist() == [[row // 2] * 12 for row in range(8)]
    assert second.values["tile"].reshape(12, 8).T.tolist() == first.values["tile"].reshape(8, 12).tolist()
    assert first.same is not None and second.same is not None
    assert second.same.reshape(12, 8).T.tolist() == first.same.reshape(8, 12).tolist()
    assert repr(view).endswith("384 bytes on 4 tiles, the most 96 on tile 0")


def test_bytes_are_counted_once_however_often_they_are_shown() -> None:
    matrix = programs.by_rows()
    both = bytes_by_tile([matrix, matrix.transpose(), matrix[3]])
    assert both.tolist() == [96, 96, 96, 96] + [0] * 9


def test_unmapped_elements_are_said() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    loose = graph.add_variable(FLOAT, (5,), "loose")
    view = show.tiles(loose)
    cells = view.scene.marks[0]
    assert isinstance(cells, Cells) and cells.labels == ("?",) * 5
    assert repr(view) == "Where loose lives: loose, 5 FLOAT; none of it is on a tile yet"


@pytest.mark.parametrize("shape", [(), (1,), (7,), (4097,), (3, 4, 5), (200, 300), (1, 100_000), (10_000, 1_000)])
def test_any_shape_is_drawn(shape: tuple[int, ...]) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    tensor = graph.add_variable(FLOAT, shape, "tensor")
    graph.set_tile_mapping(tensor, 3)
    view = show.tiles(tensor)
    cells = view.scene.marks[0]
    assert isinstance(cells, Cells) and 1 <= cells.count <= 64 * 64 and set(cells.values["tile"].tolist()) == {3}
    assert (tensor.num_elements > cells.count) == bool(view.scene.notes)
    lanes = view.scene.marks[-1]
    assert isinstance(lanes, Lanes) and len(view._repr_html_()) < 150_000


# --- the contract -----------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: dict[str, list[dict[str, str | None]]] = defaultdict(list)
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag].append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def views() -> list[View]:
    matrix = programs.by_rows()
    return [show.bsp(programs.uneven()), show.tiles(matrix), show.tiles(matrix, matrix.transpose())]


@pytest.mark.parametrize("which", range(3))
def test_a_view_is_a_picture_a_table_and_a_player(which: int) -> None:
    view = views()[which]
    found = Tags(view._repr_html_())
    [image] = found.tags["img"]
    assert image["alt"] == repr(view) and str(image["src"]).startswith("data:image/svg+xml;base64,")
    assert "Show as table" in found.texts and len(found.tags["tr"]) == len(view.data) + 1
    [script] = found.tags["script"]
    assert not script  # no src: nothing is fetched
    assert "id" not in {name for tags in found.tags.values() for tag in tags for name in tag}
    assert "http" not in view._repr_html_()


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "\"quoted\" & 'so'", "😀\n\x00", "long " * 2_000, ""])
def test_any_name_is_text(name: str) -> None:
    for view in (show.bsp(programs.uneven(name=name)), show.tiles(programs.by_rows(name))):
        page = view._repr_html_()
        assert len(Tags(page).tags["script"]) == 1 and len(page) < 60_000
        assert "<script>alert" not in page
        assert "<script>" not in svg(view.scene)


def hashes() -> list[str]:
    return [hashlib.sha256(v._repr_html_().encode()).hexdigest() for v in views()]


def test_the_same_bytes_in_another_process() -> None:
    code = "from tests.test_views import hashes\nprint(*hashes())"
    here = hashes()
    for seed in ("0", "1"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={**ENV, "PYTHONHASHSEED": seed},
        )
        assert there.stdout.split() == here


@pytest.mark.parametrize("ending", ["html", "svg", "png", "pdf", "gif"])
def test_save(ending: str, tmp_path: Path) -> None:
    view = show.tiles(programs.by_rows())
    first = view.save(tmp_path / f"a.{ending}")
    assert first.read_bytes()[:5] in (b"<!doc", b"<svg ", b"\x89PNG\r", b"%PDF-", b"GIF89")
    assert view.save(tmp_path / f"b.{ending}").read_bytes() == first.read_bytes()


def test_a_gif_moves(tmp_path: Path) -> None:
    from PIL import Image

    with Image.open(show.bsp(programs.uneven(tiles=2, rows=2, repeats=1)).save(tmp_path / "run.gif")) as picture:
        assert getattr(picture, "n_frames", 1) > 8


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "docs" / "gallery").glob("*.svg")))
def test_the_gallery_is_what_its_script_makes(name: str) -> None:
    folder = ROOT / "docs" / "gallery"
    spec = importlib.util.spec_from_file_location("make_gallery", folder / "make_gallery.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert svg(module.VIEWS[name]().scene) == (folder / name).read_text(encoding="utf-8")
    assert name in module.VIEWS
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert f"]({name})" in page
    for alt, target in re.findall(r"!\[(.*?)\]\((.*?)\)", page):
        assert len(alt) > 20 and (folder / target).is_file()


# --- bad input --------------------------------------------------------------------------------------------------------


def told(call: Any) -> str:
    with pytest.raises(InvalidOptionError) as caught:
        call()
    return str(caught.value)


def test_errors() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    empty = graph.add_variable(FLOAT, (0,), "empty")
    view = show.tiles(programs.by_rows())
    engine = Engine(graph, Sequence())
    engine.load(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    assert told(lambda: show.bsp(7)) == "show.bsp() was given 7, which is no report.\n  next:  give it engine.report."  # type: ignore[arg-type]
    assert told(lambda: show.bsp(engine.report)) == (
        "show.bsp() was given a report in which nothing has run.\n  next:  engine.run(), then engine.report."
    )
    assert told(lambda: show.tiles("a")) == (  # type: ignore[arg-type]
        "show.tiles() was given 'a', which is no tensor.\n  next:  give it a variable of a graph, or a view of one."
    )
    assert "which has no elements.\n  next:  give it one that has some." in told(lambda: show.tiles(empty))
    assert told(lambda: show.tiles(programs.by_rows(), programs.by_rows())) == (
        "show.tiles() was given tensors of two graphs.\n  next:  show them in two pictures."
    )
    assert told(lambda: view.save("a.doc")) == (
        "save() was given 'a.doc', whose ending says no format.\n  next:  End it with one of .html, .svg, .png, .pdf, .gif."
    )
    assert (
        told(lambda: view.save("a.svg", frame=3)) == "save() was asked for frame 3.\n  next:  give a whole number from 0 to 0."
    )
    assert told(lambda: show.explore(lambda: view)) == (
        "explore() was given no setting to change.\n  next:  name one with its range: explore(build, work=(1, 10))."
    )
    for wrong in ((3, 3), (1,), [1], "abc", 5, (1, 2, 0), (1, 2, 3, 4), ("a", "b")):
        assert told(lambda wrong=wrong: show.explore(lambda n: view, n=wrong)).endswith(
            "next:  give (lowest, highest), (lowest, highest, step), or a list of at least two choices."
        )
    assert told(lambda: show.explore(lambda n: n, n=(1, 2))) == (  # type: ignore[arg-type,return-value]
        "The function given to explore() returned 1.\n  next:  let it return a view, such as show.bsp(engine.report)."
    )


def test_explore_shows_the_first_setting_and_says_what_moves() -> None:
    seen = []

    def build(rows: int, kind: str) -> View:
        seen.append((rows, kind))
        return show.tiles(programs.by_rows())

    made = show.explore(build, rows=(4, 8, 2), kind=["a", "b"])
    assert seen == [(4, "a")]
    assert repr(made).endswith("Where a kernel runs, sliders change rows (4 to 8), kind (a, b).")


def test_a_slider_begins_where_the_function_does() -> None:
    seen = []

    def build(rows: int = 6, kind: str = "b", other: int = 1) -> View:
        seen.append((rows, kind, other))
        return show.tiles(programs.by_rows())

    show.explore(build, rows=(4, 8, 2), kind=["a", "b"])
    assert seen == [(6, "b", 1)]
    assert told(lambda: show.explore(build, rows=(10, 20))) == (
        "explore() was given (10, 20) for 'rows', whose default is 6.\n  next:  choose a default that the slider can reach."
    )


def test_sliders_rebuild_and_errors_are_shown() -> None:
    pytest.importorskip("anywidget", reason="the extra lab is not installed")
    from ipu_teach.show.explore import widget

    def build(rows: int) -> View:
        if rows == 3:
            raise InvalidOptionError("Three rows <are> too many.", next_step="take two.")
        return show.bsp(programs.uneven(tiles=2, rows=rows))

    box = widget(build, {"rows": (1, 3)}, {"rows": 1}, build(1))
    slider, trouble, shown = box.children
    before = shown.scene
    slider.value = 2
    assert shown.scene != before and shown.scene == build(2).scene.json()
    slider.value = 3
    assert "Three rows &lt;are&gt; too many." in trouble.value and "take two." in trouble.value
    slider.value = 1
    assert trouble.value == "" and shown.scene == before
