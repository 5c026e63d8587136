"""The views timeline, memory, liveness and program in JupyterLab and in pages: keys, buttons, the
mouse and the words."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from PIL import Image
from sampling import one_in
from two_tile_ipus import uneven_ipus
from view_programs import Mixed, Prefix, mixed_report

from ipu_teach import HALF, Engine, Graph, IPUModel, show
from ipu_teach.program import Sequence
from ipu_teach.show.code import CODES, LINE, row as row_of, rows_scene, tree
from ipu_teach.show.palette import COMPUTE, EXCHANGE
from ipu_teach.show.panels import Panels
from ipu_teach.show.scene import Curve, Flame, Lanes, Matrix, Painted, Still, Tape, Tree, number
from ipu_teach.show.shapes import Boxes, Outline, Raster, Stroke, Words
from ipu_teach.show.view import View

from . import programs
from .conftest import Lab, violations
from .player import (
    HOSTILE,
    SETUP,
    canvas_texts,
    description,
    position,
    press,
    status,
)

NAMES = ("timeline", "memory", "liveness", "program")
Opener = Callable[[View], Any]


@pytest.fixture
def opened(page: Any, tmp_path: Path) -> Opener:
    """Opens a view as a page of its own, with the focus on it."""

    def open_view(view: View) -> Any:
        # the picture is as wide as its scene
        page.set_viewport_size({"width": 736, "height": 1400})
        page.goto(view.save(tmp_path / "view.html").as_uri())
        page.locator(".ipu-live").focus()
        return page.locator(".ipu-live > canvas")

    return open_view


def point(canvas: Any, x: float, y: float, act: str = "hover") -> None:
    getattr(canvas, act)(position={"x": x, "y": y})


# --- timeline -------------------------------------------------------------------------------------


def window(page: Any) -> list[float]:
    """The cycles that are shown, [from, to]; the whole run is []."""
    shown = next(w for w in canvas_texts(page) if w == "the whole run" or w.startswith("cycles "))
    return (
        [float(part.replace(",", "")) for part in shown.removeprefix("cycles ").split(" to ")]
        if " to " in shown
        else []
    )


def test_the_timeline_zooms_and_pans_by_keys_and_buttons(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    opened(show.timeline(report))
    total = report.total_cycles
    assert window(page) == []
    press(page, "Home")
    press(page, "+", "+")
    start, stop = window(page)
    assert start == 0 and stop == pytest.approx(total / 4, rel=0.01)
    press(page, "Shift+ArrowRight")
    assert window(page)[0] == pytest.approx(total / 16, rel=0.01)
    press(page, "Shift+ArrowLeft", "-", "-")
    assert window(page) == []
    page.get_by_role("button", name="Zoom in").click()
    assert window(page)[1] - window(page)[0] == pytest.approx(total / 2, rel=0.01)
    page.get_by_role("button", name="Whole run").click()
    assert window(page) == [] and page.get_by_role("button", name="Whole run").is_disabled()
    page.locator(".ipu-live").focus()
    press(page, "Home", "ArrowRight", "ArrowRight", "z")
    second = report.steps()[1]
    start, stop = window(page)
    assert start < second.start and stop > second.start + second.cycles
    assert stop - start == pytest.approx(1.2 * second.cycles, rel=0.01)
    press(page, "End")  # the window goes with the cursor
    assert window(page)[1] == pytest.approx(total, rel=0.01)
    press(page, "0")
    assert window(page) == []


OUTSIDE = """() => {
    const pen = document.querySelector('.ipu-live > canvas').getContext('2d'), old = pen.fillText, found = [];
    pen.fillText = function (text, x) {
        const wide = pen.measureText(text).width, left = x - wide * { left: 0, center: 0.5, right: 1 }[pen.textAlign];
        if (left < 0 || left + wide > pen.canvas.clientWidth) found.push(text);
        return old.apply(this, arguments);
    };
    document.querySelector('.ipu-live').ipuPlayer.draw();
    delete pen.fillText;
    return found;
}"""


def test_a_number_at_the_end_of_the_axis_is_whole(page: Any, opened: Opener) -> None:
    report = programs.uneven(repeats=37)
    assert 50_000 < report.total_cycles < 50_200
    opened(show.timeline(report))
    assert "50,000" in canvas_texts(page)
    assert page.evaluate(OUTSIDE) == []


def test_millions_of_bytes_beside_a_curve_are_whole(page: Any, opened: Opener) -> None:
    opened(show.liveness(programs.uneven(tiles=640, rows=640)))
    page.set_viewport_size({"width": 380, "height": 900})
    page.wait_for_function("document.querySelector('.ipu-live > canvas').clientWidth < 380")
    assert any(word.count(",") == 2 and word.endswith(" bytes") for word in canvas_texts(page))
    assert page.evaluate(OUTSIDE) == []


def test_the_mouse_moves_and_zooms_the_timeline(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    scene = show.timeline(report).scene
    canvas = opened(show.timeline(report))
    tape = scene.marks[1]
    assert isinstance(tape, Tape)
    rim = canvas.bounding_box()
    at = (
        rim["x"] + rim["width"] * (tape.x + tape.width / 2) / 720,
        rim["y"] + rim["width"] * (tape.y + 20) / 720,
    )
    page.mouse.move(*at)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_timeout(100)
    before = window(page)
    assert before[1] - before[0] == pytest.approx(0.64 * report.total_cycles, rel=0.02)
    page.mouse.down()
    page.mouse.move(at[0] - 80, at[1], steps=4)
    page.mouse.up()
    assert window(page)[0] > before[0] + 100
    press(page, "0")
    step = report.steps()[4]
    point(
        canvas,
        tape.x + (step.start + step.cycles / 2) / report.total_cycles * tape.width,
        tape.y + 30,
        "click",
    )
    assert position(page) == 5 and f"{step.kind} {step.name}" in status(page)


def test_the_timeline_says_numbers_and_shows_the_codelet(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    scene = show.timeline(report).scene
    opened(show.timeline(report))
    flame = scene.marks[0]
    assert isinstance(flame, Flame)
    starts = [0.0, *np.cumsum([s.cycles for s in report.steps()]).tolist()]
    for i in range(flame.count):
        press(page, "ArrowDown")
        first, last = int(flame.first[i]), int(flame.last[i])
        name = flame.names[int(flame.title[i])]
        assert description(page).startswith(
            f"{name}: {number(round(starts[last] - starts[first], 1))} modelled cycles, from "
        )
    press(page, "ArrowDown")
    source = page.locator(".ipu-live pre")
    press(page, "Home")
    assert source.is_hidden()  # a copy has no codelet
    press(page, "ArrowRight", "ArrowRight")
    assert source.inner_text() == scene.sources[0] and source.inner_text().startswith(
        "Total.compute"
    )
    profile = next(c for c in report.compute_sets if c.name == "total")
    assert description(page).startswith(f"tile 0: {profile.cycles_per_tile[0]:,} cycles of compute")
    assert "codelet Total.compute" in status(page)


def test_the_blocks_of_a_tile_one_by_one(page: Any, opened: Opener) -> None:
    report, _ = programs.branching()
    blocks = report.execution.blocks(1, program_filter="down|even")
    opened(show.timeline(report, blocks=1, program_filter="down|even"))
    assert "the blocks on tile 1" in canvas_texts(page)
    for block in blocks[:4]:
        press(page, "ArrowDown")
        cycles, start, end = (
            number(block.cycles),
            number(block.cycles_from),
            number(block.cycles_to),
        )
        assert (
            description(page) == f"{block.name}: {cycles} modelled cycles, from {start} to {end}."
        )


def test_the_rows_of_two_ipus_say_what_each_does_and_for_which_it_waits(
    page: Any, opened: Opener
) -> None:
    opened(show.timeline(uneven_ipus()))
    assert "the IPUs, each with its steps" in canvas_texts(page)
    told = []
    for _ in range(3):
        press(page, "ArrowDown")
        told.append(description(page))
    assert told == [
        "IPU 0: quick: 160 modelled cycles, from 0 to 160.",
        "IPU 1: slow: 400 modelled cycles, from 0 to 400.",
        "IPU 0: waits for IPU 1: 240 modelled cycles, from 160 to 400.",
    ]
    assert status(page).startswith("Stretch 1 of 5. ")  # the longest waiting of IPUs
    assert page.get_by_role("button", name="This stretch").is_visible()
    assert "z shows one stretch" in (page.locator(".ipu-live").get_attribute("aria-label") or "")


def test_a_range_says_its_sum_and_a_name_is_found(page: Any, opened: Opener) -> None:
    report = programs.uneven(tiles=13, rows=39)
    canvas, tape = opened(show.timeline(report)), show.timeline(report).scene.mark("tiles")
    assert isinstance(tape, Tape)
    press(page, "Home", "ArrowRight", "ArrowRight", "s", "ArrowRight", "ArrowRight")

    def told(first: int, last: int) -> str:
        spent: Counter[str] = Counter()
        for step in report.step_numbers[first - 1 : last].tolist():
            for phase in report.phases(step):
                busy = phase.cycles if phase.busy is None else float(phase.busy.mean())
                spent[phase.kind] += busy
                spent["waiting"] += phase.cycles - busy
        cycles = sum(spent.values())
        shares = (f"{n} {100 * c / cycles:.1f} %" for n, c in spent.most_common() if c)
        return (
            f"Selected: supersteps {first} to {last}, {number(round(cycles))} modelled cycles, "
            f"{100 * cycles / report.total_cycles:.1f} % of the run: {', '.join(shares)}."
        )

    region = page.locator(".ipu-live p[aria-live]").last
    assert region.inner_text() == told(2, 4)
    button = page.get_by_role("button", name="Select nothing")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert region.inner_text() == ""
    page.locator(".ipu-live").focus()
    press(page, "End")
    step = report.steps()[1]
    middle = tape.x + (step.start + step.cycles / 2) / report.total_cycles * tape.width
    canvas.click(position={"x": middle, "y": tape.y + 30}, modifiers=["Shift"])
    assert region.inner_text() == told(2, 7)
    find = page.get_by_role("searchbox")
    find.fill("Everywhere")
    for nth, frame in enumerate((3, 5, 7), start=1):
        find.press("Enter")
        assert region.inner_text().startswith(f"{nth} of 3 with this name.")
        assert description(page).startswith("everywhere: ") and position(page) == frame
    find.press("s")  # is a letter here
    assert page.get_by_role("button", name="Select nothing").is_visible()


def test_two_runs_below_each_other_have_one_axis(page: Any, opened: Opener) -> None:
    first, second = programs.uneven(), programs.uneven(repeats=1)
    view = show.timeline(first, second)
    canvas, below = opened(view), view.scene.mark("tiles of the second")
    assert isinstance(below, Tape)
    step = second.steps()[1]
    middle = below.x + (step.start + step.cycles / 2) / first.total_cycles * below.width
    canvas.click(position={"x": middle, "y": below.y + 30})
    assert position(page) == 7 + 2 and f"{step.kind} {step.name}, {step.cycles:,}" in status(page)
    press(page, "z")
    start, stop = window(page)
    assert start < step.start and stop > step.start + step.cycles


# --- memory ---------------------------------------------------------------------------------------


def test_the_memory_says_every_tile(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    scene = show.memory(report).scene
    canvas = opened(show.memory(report))
    ledger = report.memory
    for tile in range(13):
        press(page, "ArrowDown")
        used, always = (
            ledger.bytes_per_tile[tile] + ledger.gaps_per_tile[tile],
            ledger.always_live_bytes_per_tile[tile],
        )
        assert description(page).startswith(
            f"tile {tile}: {used:,} of 638,976 bytes, {always:,} of them always live; "
        )
        assert f"stacks {ledger.by_category(tile)['Stacks']:,}" in description(page)
    stack = scene.marks[-1]
    assert isinstance(stack, Painted)
    point(canvas, stack.x + 3.5 * stack.width / 13, stack.y + stack.height - 10)
    assert description(page).startswith("tile 3: ")
    assert not any(w.startswith("limit ") for w in canvas_texts(page))
    page.locator(".ipu-live").focus()
    press(page, "m")
    assert "limit 638,976" in canvas_texts(page)
    button = page.get_by_role("button", name="Scale to the limit")
    assert button.get_attribute("aria-pressed") == "true" and is_dark(page, "Scale to the limit")
    button.click()
    assert not is_dark(page, "Scale to the limit")
    assert not any(w.startswith("limit ") for w in canvas_texts(page))


def fits(page: Any) -> bool:
    """A list that is longer than its place scrolls there, and runs over nothing."""
    script = """() => {
        const list = document.querySelector('.ipu-live pre'), old = list.textContent;
        list.textContent = "a line\\n".repeat(99);
        const inside = list.clientHeight < 200 && list.scrollHeight > 1000
          && getComputedStyle(list).overflowY === 'auto';
        list.textContent = old;
        return inside;
    }"""
    return bool(page.evaluate(script))


def is_dark(page: Any, name: str) -> bool:
    """Whether a button has the colours of a page turned round."""
    script = (
        "b => [getComputedStyle(b).backgroundColor, getComputedStyle(b.closest('.ipu-live')).color]"
    )
    ground, ink = page.get_by_role("button", name=name).evaluate(script)
    return bool(ground == ink)


def test_the_variables_of_the_chosen_tile_stand_below(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    opened(show.memory(report))
    pre = page.locator(".ipu-live pre")

    def listed() -> tuple[str, dict[str, int]]:
        head, *lines = pre.inner_text().splitlines()
        found = [
            (name, int(size.replace(",", "")))
            for size, name in (line.split(maxsplit=1) for line in lines)
        ]
        if len(found) > 7:  # the last line without scrolling says what is below
            below = sum(size for _, size in found[7:])
            assert found.pop(6) == (f"in {len(found) - 6} more lines, below", below)
        return head, dict(found)

    assert fits(page)
    fullest = int(report.memory.held_per_tile.argmax())
    assert listed() == (
        f"Variables of tile {fullest} at its fullest moment, bytes:",
        report.memory.at_fullest(fullest),
    )
    for tile in range(13):
        press(page, "ArrowDown")
        assert listed() == (
            f"Variables of tile {tile} at its fullest moment, bytes:",
            report.memory.at_fullest(tile),
        )


def calls(page: Any, name: str) -> list[list[float]]:
    """The arguments of every call of one of the canvas's functions in one drawing of it."""
    script = """name => {
        const box = document.querySelector('.ipu-live'), pen = box.querySelector(':scope > canvas').getContext('2d');
        const found = [], old = pen[name];
        pen[name] = function (...where) { found.push(where); return old.apply(this, where); };
        box.ipuPlayer.draw();
        delete pen[name];
        return found;
    }"""
    found: list[list[float]] = page.evaluate(script, name)
    return found


def test_stacks_of_a_whole_chip_stay_in_their_place(page: Any, opened: Opener) -> None:
    view = show.memory(programs.uneven(tiles=1472, rows=2944))
    stack = view.scene.marks[-1]
    assert isinstance(stack, Painted)
    opened(view)
    (box,) = [where[-4:] for where in calls(page, "drawImage") if where[-3] == stack.y]
    assert box == [stack.x, stack.y, stack.width, stack.height]
    shown = np.asarray(
        Image.open(io.BytesIO(page.locator(".ipu-live > canvas").screenshot())).convert("L"),
        np.float64,
    )
    inner = shown[
        round(stack.y) + 2 : round(stack.y + stack.height) - 2,
        round(stack.x) + 2 : round(stack.x + stack.width) - 2,
    ]
    mean = view.scene.stills[0].values["total"].mean()
    words_ = next(
        w.text
        for w in stack.shown(view.scene.stills[0])
        if isinstance(w, Words) and w.text.startswith("to ")
    )
    assert (inner < 250).mean() == pytest.approx(
        mean / float(words_.split()[1].replace(",", "")), abs=0.02
    )


def test_what_has_no_partner_lights_alone(page: Any, opened: Opener) -> None:
    """A step of the curves is not a variable, and the fullest tile no category, even where their
    numbers are equal."""
    report = programs.uneven()
    canvas = opened(show.liveness(report))
    before = len(calls(page, "strokeRect"))
    point(canvas, 160, 60)
    assert description(page).startswith("Step 1, ") and len(calls(page, "strokeRect")) == before + 1
    view = show.memory(report)
    gauge = view.scene.mark("gauge")
    assert isinstance(gauge, Lanes)
    canvas = opened(view)
    before = len(calls(page, "strokeRect"))
    point(canvas, gauge.x + 20, gauge.y + 10)
    assert (
        description(page).startswith("fullest, tile ")
        and len(calls(page, "strokeRect")) == before + 1
    )


def test_gaps_can_be_left_out(page: Any, opened: Opener) -> None:
    """What is drawn above a tile's other bytes goes when gaps are left out, and comes back."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device.target)
    for i in range(600):  # of two bytes each, with a gap after it
        graph.set_tile_mapping(graph.add_variable(HALF, (1,), f"v{i}"), i % 13)
    view = show.memory(Engine(graph, Sequence()).report)
    names = [code.name for code in view.scene.codes]
    opened(view)
    button = page.get_by_role("button", name="Include gaps")
    assert "gaps" in names and button.get_attribute("aria-pressed") == "true"
    every = len(calls(page, "fillRect"))
    page.locator(".ipu-live").focus()
    press(page, "g")
    assert (
        button.get_attribute("aria-pressed") == "false"
        and len(calls(page, "fillRect")) == every - 13
    )
    button.click()
    assert button.get_attribute("aria-pressed") == "true" and len(calls(page, "fillRect")) == every


# --- liveness -------------------------------------------------------------------------------------


def test_liveness_goes_step_by_step(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    scene = show.liveness(report).scene
    canvas = opened(show.liveness(report))
    press(page, "Home")
    for step in range(3):
        press(page, "ArrowRight")
        still = scene.stills[step]
        assert status(page) == f"Step {step + 1} of 3. {still.label}; {still.note}."
    curve = scene.marks[0]
    assert isinstance(curve, Curve)
    point(canvas, curve.x + curve.width / 2, curve.y + 50)
    coming = curve.series[1].values - curve.series[0].values
    assert f"variables that come and go {coming[1]:,}" in description(page)
    point(canvas, curve.x + 10, curve.y + 50, "click")
    assert position(page) == 1
    page.locator(".ipu-live").focus()
    assert f"{int(curve.top):,} bytes" in canvas_texts(page)
    press(page, "a")
    most = int((curve.series[-1].values - curve.series[0].values).max())
    assert f"{most:,} bytes" in canvas_texts(
        page
    ) and f"{int(curve.top):,} bytes" not in canvas_texts(page)
    assert is_dark(page, "Leave out what is always live")
    page.get_by_role("button", name="Leave out what is always live").click()
    assert f"{int(curve.top):,} bytes" in canvas_texts(page)
    assert not is_dark(page, "Leave out what is always live")


def test_the_list_below_has_what_is_live_at_the_pointed_step(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    view = show.liveness(report)
    canvas = opened(view)
    curve, pre = view.scene.marks[0], page.locator(".ipu-live pre")
    assert isinstance(curve, Curve)

    def listed(step: int) -> list[str]:
        rows = sorted(
            (v for v in report.variables.live_at(step) if v.bytes), key=lambda v: -v.bytes
        )
        return [f"{v.bytes:,} {v.name}{', always' * v.always_live}" for v in rows]

    whole = [int(size) for _, size in report.memory.bytes_by_place()]
    whole = [size + int(report.memory.always_live_bytes_per_tile.sum()) for size in whole]
    assert fits(page)
    for step in range(3):
        point(canvas, curve.x + (step + 0.5) * curve.width / 3, curve.y + 20)
        head, *lines = pre.inner_text().splitlines()
        assert head == f"Live at step {step + 1}, bytes:"
        shown = [" ".join(line.split()) for line in lines]
        # the seventh line is the sum of those below it
        below = sum(int(line.split()[0].replace(",", "")) for line in shown[7:])
        assert shown.pop(6) == f"{below:,} in {len(shown) - 6} more lines, below"
        assert [line for line in shown if line in listed(step)] == listed(step)
        # with what no variable holds: code, stacks, buffers
        assert sum(int(line.split()[0].replace(",", "")) for line in shown) == whole[step]
    press(page, "Escape", "Home", "ArrowRight", "ArrowRight")
    assert pre.inner_text().startswith("Live at step 2, bytes:")


def test_two_reports_have_no_button_for_what_is_always_live(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    view = show.liveness(report, programs.uneven(rows=39), always=False, axis="cycles")
    curve, canvas = view.scene.marks[0], opened(view)
    assert isinstance(curve, Curve)
    point(canvas, curve.x + 100.5 / 300 * curve.width, curve.y + 50)
    assert description(page).startswith(f"Cycle {round(100 * curve.each):,}, ")
    head = page.locator(".ipu-live pre").inner_text()
    assert head.startswith(f"First report, live at cycle {round(100 * curve.each):,}, bytes:")
    assert page.get_by_role("button", name="Leave out").count() == 0
    press(page, "Home", "ArrowRight")
    assert "a: " in status(page) and "b: " in status(page)


# --- program --------------------------------------------------------------------------------------


def test_the_tree_folds_by_keyboard_and_mouse(page: Any, opened: Opener) -> None:
    report, _ = programs.branching()
    view = show.program(report)
    tree = view.scene.marks[0]
    assert isinstance(tree, Tree)
    canvas = opened(view)
    high = canvas.bounding_box()["height"]

    def seen() -> list[str]:
        written = canvas_texts(page)
        return [name for name in dict.fromkeys(tree.labels) if name in written]

    everything = seen()
    press(page, "ArrowDown")
    assert description(page).startswith(
        "Repeat 2, level 1: runs 1, modelled cycles "
    ) and description(page).endswith("21 below.")
    press(page, "ArrowLeft")
    assert "folded, 21 below" in description(page) and seen() == ["Repeat 2"]
    assert canvas.bounding_box()["height"] < high
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")
    assert description(page).startswith("Copy 'first' to 'count', level 3: runs 2")
    press(page, "ArrowLeft")
    assert description(page).startswith("Sequence, level 2")
    press(page, "Enter")
    assert seen() == ["Repeat 2", "Sequence"]
    press(page, "End", "Home")
    assert description(page).startswith("Repeat 2, level 1")
    page.get_by_role("button", name="Unfold all").click()
    assert seen() == everything and canvas.bounding_box()["height"] == high
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert seen() == ["Repeat 2"]
    point(canvas, 60, tree.y + 10, "click")
    assert seen() == ["Repeat 2", "Sequence"]
    runs = {row["part"]: row["runs"] for row in view.data}
    page.get_by_role("button", name="Unfold all").click()
    page.locator(".ipu-live").focus()
    press(page, "End", "ArrowUp")
    assert f"runs {runs['Execute always']}" in description(page)


# --- balance --------------------------------------------------------------------------------------


def test_the_balance_goes_from_worst_to_next_worst(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    view = show.balance(report)
    canvas = opened(view)
    lost = {
        int(row["waiting"].replace(".", "").split()[0])
        * int(row["runs"])
        * float(row["cycles"].replace(",", "")): row["name"]
        for row in view.data
    }
    worst = [lost[key] for key in sorted(lost, reverse=True)]
    assert worst[0] in status(page)
    for name in (*worst[1:], worst[0]):
        press(page, "w")
        assert name in status(page)
    page.get_by_role("button", name="Next worst").click()
    assert worst[1] in status(page)
    bars = view.scene.mark("histogram")
    assert isinstance(bars, Painted)
    point(canvas, bars.x + bars.width - 4, bars.y + 20)
    still = view.scene.stills[int(view.scene.frames[round(position(page)) - 1])]
    most = int(still.about["histogram"][1]["n"][-1])
    assert description(page).startswith(f"{most} tile")


# --- exchange -------------------------------------------------------------------------------------


def test_the_matrix_says_who_sends_to_whom(page: Any, opened: Opener) -> None:
    report = programs.uneven()
    view = show.exchange(report)
    matrix = view.scene.marks[0]
    assert isinstance(matrix, Matrix)
    canvas = opened(view)
    press(page, "End")
    assert "one to many, tile 0 sends to 12 tiles" in status(page)
    side = matrix.width / 13
    point(canvas, matrix.x + 0.5 * side, matrix.y + 4.5 * side)
    assert description(page) == (
        "From tile 0 to tile 4: 256 bytes in 1 message. In all, 0 delivers 3,072 and 4 receives "
        "256 bytes."
    )
    assert "bytes between tile 4 and others" in canvas_texts(page) and "256 in" in canvas_texts(
        page
    )
    point(canvas, matrix.x + 3.5 * side, matrix.y + 4.5 * side)
    assert description(page).startswith("From tile 3 to tile 4: nothing. ")
    page.locator(".ipu-live").focus()
    press(page, "Escape", "Home", "ArrowRight", "s")
    still = view.scene.stills[0]
    sent = view.scene.drawings[still.lanes["matrix"][0]].bars[0].length
    assert description(page).startswith(f"From tile {int(np.argmax(sent))} to tile ")
    press(page, "ArrowDown", "Shift+ArrowRight")
    row = still.values["bytes"].reshape(13, 13)[:, int(np.argmax(sent))].nonzero()[0][0] + 1
    assert description(page).startswith(f"From tile {int(np.argmax(sent)) + 1} to tile {row}: ")


# --- everywhere -----------------------------------------------------------------------------------


SMALLEST = """() => {
    const pen = document.querySelector('.ipu-live > canvas').getContext('2d'), old = pen.fillText, found = [];
    pen.fillText = function (text, ...rest) {
        if (text.trim()) found.push([parseFloat(pen.font), text]);
        return old.call(this, text, ...rest);
    };
    document.querySelector('.ipu-live').ipuPlayer.draw();
    delete pen.fillText;
    return found.sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.mark.parametrize("width", one_in(3, (380, 600, 1280), str))
def test_words_are_legible_at_any_width_and_panels_apart(
    page: Any, tmp_path: Path, width: int
) -> None:
    """A unit of the drawing is a pixel, no word is smaller than 11 of them, and nothing hangs over
    the edge."""
    report, larger, matrix = (
        programs.uneven(),
        programs.uneven(tiles=64, rows=128),
        programs.by_rows(),
    )
    page.set_viewport_size({"width": width, "height": 1400})
    views = [getattr(show, name)(report) for name in (*NAMES, "bsp", "exchange")]
    views += [
        show.tiles(matrix, matrix.transpose()),
        show.bsp(larger),
        show.memory(larger),
        show.balance(larger),
    ]
    for made in views:
        page.goto(made.save(tmp_path / "view.html").as_uri())
        canvas = page.locator(".ipu-live > canvas")
        canvas.wait_for()
        script = (
            "(() => { const p = document.querySelector('.ipu-live').ipuPlayer; return p.size; })()"
        )
        wide, high = page.evaluate(script)
        rim = canvas.bounding_box()
        assert (rim["width"], rim["height"]) == pytest.approx((wide, high), abs=1.5)
        assert wide == pytest.approx(min(1100, width - 16), abs=1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        size, word = page.evaluate(SMALLEST)
        assert size >= 11, (made.scene.title, word)
        places = page.evaluate(
            "Object.values(document.querySelector('.ipu-live').ipuPlayer.marks).map(m => [m.x, "
            "m.y, m.width, m.height])"
        )
        boxes = [p for p in places if all(isinstance(v, (int, float)) for v in p)]
        assert all(x >= 0 and x + w <= wide and y + h <= high for x, y, w, h in boxes)
        for i, (x, y, w, h) in enumerate(boxes):
            assert not any(
                x < u + a and u < x + w and y < v + b and v < y + h for u, v, a, b in boxes[i + 1 :]
            )


@pytest.mark.thorough
def test_in_jupyterlab(lab: Lab, page: Any) -> None:
    lab.write("more.ipynb", [SETUP, *(f"show.{name}(programs.uneven())" for name in NAMES)])
    lab.open(page, "more.ipynb")
    lab.run(page)
    boxes = page.locator(".ipu-live")
    boxes.nth(3).wait_for()
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    for i, name in enumerate(NAMES):
        box = boxes.nth(i)
        assert page.locator(".ipu-view > img").nth(i).is_hidden()
        box.focus()  # the keys are the view's: JupyterLab's own would insert, cut and run cells
        press(
            page, *"abxddymz+-0", "Enter", "Home", "End", "ArrowDown", "ArrowUp", "Shift+ArrowLeft"
        )
        assert page.locator(".jp-Notebook .jp-Cell").count() == cells
        press(page, "Escape")
        words_ = box.locator("p.soft").first.inner_text()
        assert words_.startswith(
            "Point at a part of the picture, or press up and down, for its numbers."
        )
        label = box.get_attribute("aria-label")
        assert label and label.replace("\u00a0", " ").startswith(
            f"{getattr(show, name)(programs.uneven()).scene.title}. Keys: "
        )


def test_an_untrusted_notebook_shows_pictures(lab: Lab, page: Any) -> None:
    report = programs.uneven()
    views = [getattr(show, name)(report) for name in NAMES]
    outputs = [
        [
            nbformat.v4.new_output(
                "execute_result",
                {"text/html": v._repr_html_(), "text/plain": repr(v)},
                execution_count=1,
            )
        ]
        for v in views
    ]
    lab.write("foreign_more.ipynb", ["pass"] * 4, outputs)
    lab.open(page, "foreign_more.ipynb")
    pictures = page.locator(".jp-OutputArea img")
    pictures.first.wait_for()
    page.wait_for_function("document.querySelectorAll('.jp-OutputArea img').length === 4")
    assert page.locator(".ipu-live").count() == 0
    assert [pictures.nth(i).get_attribute("alt") for i in range(4)] == [repr(v) for v in views]
    assert page.evaluate(
        "[...document.querySelectorAll('.jp-OutputArea img')].every(i => i.naturalWidth === 720)"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_names_are_text_and_axe_finds_nothing(page: Any, tmp_path: Path, dark: bool) -> None:
    if "IPU_TEACH_AXE" not in os.environ:
        pytest.skip("IPU_TEACH_AXE is unset: it names axe-core's axe.min.js")
    page.emulate_media(color_scheme="dark" if dark else "light")
    report = programs.uneven(name=HOSTILE)
    for name in (*NAMES, "exchange", "balance"):
        page.goto(getattr(show, name)(report).save(tmp_path / f"{name}.html").as_uri())
        page.locator(".ipu-live").wait_for()
        page.locator(".ipu-view > details > summary").click()
        page.locator(".ipu-live").focus()
        press(page, "End", "ArrowDown")
        assert page.evaluate("typeof hacked") == "undefined"
        assert violations(page) == [], name


# --- a tile, lines and turns ----------------------------------------------------------------------


def test_a_tile_plays_through_its_steps(page: Any, opened: Opener) -> None:
    report = mixed_report()
    made = show.tile(report, 0)
    scene = made.scene
    canvas = opened(made)
    assert position(page) == scene.poster + 1
    for still in scene.stills[scene.poster :]:
        assert (
            status(page).split(". ", 1)[1]
            == f"{still.label}, {still.cycles:,} modelled cycles; {still.note}."
        )
        press(page, "ArrowRight")
    press(page, "Home")
    assert page.evaluate("document.querySelector('.ipu-live').ipuPlayer.at") == 0
    press(page, " ")
    page.wait_for_function(
        "(() => { const p = document.querySelector('.ipu-live').ipuPlayer; return p.at > 0.1; })()"
    )
    press(page, " ", "Home", "ArrowRight", "ArrowDown")
    still = scene.stills[0]
    assert description(
        page
    ) == f"worker 0 runs {still.values['vertices'][0]} of the vertices, and is at work " + (
        f"{still.values['busy'][0]:,} modelled cycles of the tile"
    )
    workers, span = scene.mark("workers"), scene.drawings[still.lanes["workers"][0]].span
    assert isinstance(workers, Lanes)
    for row in (
        one for one in made.data if one["step"] == still.label and one["worker"] in ("0", "1")
    ):
        # the first vertex of the worker
        press(page, "Escape", ".", *["ArrowDown", "."] * int(row["worker"]))
        start, cycles = (int(row[name].replace(",", "")) for name in ("start", "cycles"))
        told = (
            f"worker {row['worker']}, vertex {row['vertex']} of {row['codelet']}: {cycles:,} of "
            "the tile's modelled cycles"
        )
        assert description(page) == f"{told}, from {start:,} to {start + cycles:,}."
        press(page, "Escape")
        x = workers.x + (start + cycles / 2) / span * workers.width
        point(canvas, x, workers.y + (int(row["worker"]) + 0.5) * workers.height / 6)
        assert description(page).startswith(told)
    memory = scene.mark("memory")
    assert isinstance(memory, Lanes)
    point(canvas, memory.x + 5, memory.y + memory.height / memory.count / 2)
    assert description(page) == f"{memory.labels[0]} bytes"
    tree = next(m for m in scene.marks if isinstance(m, Tree))
    point(canvas, tree.x + 40, tree.y + tree.pitch / 2, "click")  # folds the first codelet
    assert description(page).endswith("; folded, 1 below.")
    assert canvas_texts(page).count(tree.labels[1]) == tree.labels.count(tree.labels[1]) - 1


def test_lanes_in_pairs_say_whose_they_are(page: Any, opened: Opener) -> None:
    made = show.bsp(programs.uneven(repeats=1), programs.uneven(repeats=2), paired=True)
    canvas = opened(made)
    tape = made.scene.marks[0]
    assert isinstance(tape, Tape)
    busy = made.scene.stills[-1].about["first report"][1]["busy"].tolist()
    press(page, "End")
    for lane in (6, 7):  # the last superstep is one of the second run
        point(canvas, tape.x + 20, tape.y + (lane + 0.5) * tape.height / tape.count)
        spent = f"{busy[lane]:,}" if lane % 2 else "none"
        assert (
            description(page)
            == f"tile 3 {'ab'[lane % 2]}: {spent} modelled cycles of compute in this superstep"
        )


COLLIDING = """() => {
    const pen = document.querySelector('.ipu-live > canvas').getContext('2d'), old = pen.fillText, found = [];
    pen.fillText = function (text, x, y) {
        const wide = pen.measureText(text).width, left = x - wide * { left: 0, center: 0.5, right: 1 }[pen.textAlign];
        if (text.trim()) found.push([y, left, left + wide, text]);
        return old.apply(this, arguments);
    };
    document.querySelector('.ipu-live').ipuPlayer.draw();
    delete pen.fillText;
    return found.flatMap((a, i) => found.slice(i + 1)
        .filter((b) => a[0] === b[0] && a[1] < b[2] && b[1] < a[2]).map((b) => [a[3], b[3]]));
}"""


@pytest.mark.parametrize("width", [380, 480, 720, 1280])
def test_columns_of_large_numbers_do_not_meet(page: Any, opened: Opener, width: int) -> None:
    name = "12: a line = self.x[i] * self.y[j] + self.z[k] - 1.0 + another_one_that_is_long"
    rows = [
        row_of(0, "Large", 123_456_789, 987_654_321, 987_654_321, LINE, 876_543_210.0),
        row_of(1, name, 123_456_789, 111_370_600, 987_654_321, LINE, 11_370_600.0),
    ]
    mark = tree("Large", ("times", "compiled", "by hand", "share"), rows)
    opened(View(rows_scene("code", "Large", "Large.", CODES, mark, (("line",), ()))))
    page.set_viewport_size({"width": width, "height": 900})
    assert "100.0 %" in canvas_texts(page) and page.evaluate(COLLIDING) == []
    press(page, "ArrowDown")
    assert "compiled 987,654,321" in description(page)


@pytest.mark.parametrize("width", [380, 1280])
def test_lines_and_turns_by_keys(page: Any, opened: Opener, width: int) -> None:
    made = show.code(mixed_report(), Mixed)
    opened(made)
    page.set_viewport_size({"width": width, "height": 1400})
    for number_of, row in enumerate(made.data[:5]):
        press(page, "ArrowDown")
        told = " ".join(description(page).split())  # a line keeps its indentation
        assert (
            told.startswith(f"{' '.join(row['line'].split())}, level ")
            and (f"compiled {row['compiled']}" if row["compiled"] else "no cycles") in told
        ), number_of
    drawn = canvas_texts(page)
    assert {row["share"] for row in made.data} - {""} <= set(drawn) and "52" in drawn
    assert [word for word in drawn if word.endswith("…")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    press(page, "ArrowUp", "ArrowLeft", "ArrowLeft")
    assert description(page).startswith("Mixed, level 1")
    opened(show.turns(Prefix, 2, x=[1, 2, 3, 4], y=4))
    press(page, "w")
    assert (
        description(page) == "3: total = 6.0; i = 2; stores y[2] = 6.0, level 1: line 3, cycles 6."
    )
    page.get_by_role("button", name="Next that wrote it").click()
    assert description(page).startswith("3: total")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_in_a_tile_and_its_code(page: Any, tmp_path: Path, dark: bool) -> None:
    if "IPU_TEACH_AXE" not in os.environ:
        pytest.skip("IPU_TEACH_AXE is unset: it names axe-core's axe.min.js")
    page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
    report = mixed_report(name=HOSTILE)
    for made in (
        show.tile(report),
        show.code(report, Mixed),
        show.turns(Prefix, 2, x=[1, 2, 3, 4], y=4),
    ):
        page.goto(made.save(tmp_path / "a.html").as_uri())
        page.locator(".ipu-live").wait_for()
        page.locator(".ipu-view > details > summary").click()
        page.locator(".ipu-live").focus()
        press(page, "End", "ArrowDown")
        assert page.evaluate("typeof hacked") == "undefined"
        assert violations(page) == [], made.scene.view


# --- what is painted ------------------------------------------------------------------------------


def painted() -> View:
    """All kinds of shapes, a word that runs into another, and a switch."""
    square = np.array([[0, 0, 40, 40], [60, 0, 40, 40.0]])
    shapes = (
        Words(
            0,
            -8,
            "a heading that is far too long to stand beside what comes next on its line, " * 2,
        ),
        Words(688, -8, "at the end", anchor="end"),
        Boxes(0, square),
        Raster(120, 0, 40, 40, np.array([[0, 1], [1, -1]])),
        Stroke(((200, 0), (240, 40)), 2, arrow=True),
        Outline(1, np.array([[260, 0], [300, 0], [280, 40.0]]), True),
        Words(20, 60, "first", 11, "middle", "soft"),
        Words(24, 60, "second", 11, "middle", "soft"),
    )
    places, switches = square, (("t", "Turn", "turns", False),)
    mark = Painted(
        "p",
        width=688,
        height=40,
        count=2,
        pictures=(shapes, shapes[:3]),
        places=places,
        switches=switches,
        say="{label} has {n} {n|part|parts}",
        labels=("one", "two"),
        values={"n": np.array([1, 2])},
    )
    panels = Panels()
    panels.put(mark)
    codes, still = (COMPUTE, EXCHANGE), Still("painted", "", 0, 0, True)
    return View(
        panels.scene(
            "painted", "Painted", "Painted.", foot=30, codes=codes, stills=(still,), table=((), ())
        )
    )


@pytest.mark.parametrize("width", [380, 1100])
def test_what_is_painted_is_drawn_said_and_turned(page: Any, opened: Opener, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    canvas = opened(painted())
    there = canvas_texts(page)
    assert "first" in there and "second" not in there and "at the end" in there
    assert any(w.startswith("a heading") and w.endswith("…") for w in there)
    assert len(calls(page, "fillRect")) == 2 and len(calls(page, "drawImage")) == 1
    press(page, "ArrowDown")
    assert description(page) == "one has 1 part"
    press(page, "ArrowDown")
    assert description(page) == "two has 2 parts" and len(calls(page, "strokeRect")) == 1
    (x, y, wide, high), *_ = calls(page, "strokeRect")
    canvas.click(position={"x": x + wide / 2, "y": y + high / 2})
    assert description(page) == "two has 2 parts"
    press(page, "t")
    assert not calls(page, "drawImage")
    assert page.get_by_role("button", name="Turn").get_attribute("aria-pressed") == "true"
