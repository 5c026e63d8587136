"""The picture of recomputation: what it says is alive beside a set that grows and shrinks step by
step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import recompute as chain

from ipu_teach import show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.schedules import BACKWARD, FORWARD, recompute
from ipu_teach.show.scene import Painted
from ipu_teach.show.shapes import Boxes
from ipu_teach.show.view import View

CHOICES = {"all": range(12), "3rd": range(0, 12, 3), "first": [0], "uneven": [0, 1, 7, 11]}


def painted(view: View, name: str) -> Painted:
    mark = view.scene.mark(name)
    assert isinstance(mark, Painted)
    return mark


def test_what_is_alive_is_what_a_set_holds_step_by_step() -> None:
    view = show.recompute(12, CHOICES)
    mark = painted(view, "alive")
    for choice, (keep, row) in enumerate(zip(CHOICES.values(), view.data, strict=True)):
        steps = recompute(12, keep)
        boxes = np.concatenate([s.boxes for s in mark.pictures[choice] if isinstance(s, Boxes)])
        pitch, half = mark.places[1, 1], max(boxes[:, 0] + boxes[:, 2]) / (2 * len(steps))
        drawn = {
            (round(y / pitch), round(x / half), round((x + wide) / half))
            for x, y, wide, _ in boxes.tolist()
        }
        held, most, again = {0}, 0, {layer + 1 for kind, layer in steps if kind == "recompute"}
        for step, (kind, layer) in enumerate(steps):
            made = {layer + 1} if kind != BACKWARD and layer + 1 < 12 else set()
            for half_step, here in ((2 * step, held), (2 * step + 1, held | made)):
                assert here == {i for i, a, b in drawn if a <= half_step < b}
                most = max(most, len(here))
            held |= made
            held -= {layer} if kind == BACKWARD or kind == FORWARD and layer in again else set()
        assert not held and row["alive at most"] == f"{most}"
        assert row["computed again"] == f"{len(again)}"
        assert row["inputs kept"] == f"{len({*keep, 0})}"
    assert repr(view) == (
        "Of 4 choices the smallest is 3rd: at most 6 inputs of 12 alive, 6 layers computed again."
    )


def test_costs_are_those_of_the_runs_and_no_point_of_the_front_is_beaten() -> None:
    rng = np.random.default_rng(1)
    weights, x0 = rng.standard_normal((12, 130), np.float32), rng.standard_normal(130, np.float32)
    reports = {name: chain.main(keep, weights, x0)[1] for name, keep in CHOICES.items()}
    view = show.recompute(12, CHOICES, reports)
    spent = [(r.total_cycles, int(r.memory.held_per_tile.max())) for r in reports.values()]
    assert [
        (row["modelled cycles"], row["bytes of the fullest tile"], row["fits"]) for row in view.data
    ] == [(f"{cycles:,}", f"{size:,}", "yes") for cycles, size in spent]
    front = {
        name
        for name, (c, b) in zip(CHOICES, spent, strict=True)
        if not any((u <= c and v <= b and (u, v) != (c, b)) for u, v in spent)
    }
    mark, codes = painted(view, "choices"), view.scene.codes
    middle = {name: tuple(p[:2] + 6) for name, p in zip(CHOICES, mark.places, strict=True)}
    for chosen, name in enumerate(CHOICES):
        said = {
            tuple(s.boxes[0, :2] + 5): codes[s.code].letter
            for s in mark.pictures[chosen]
            if isinstance(s, Boxes)
        }
        for other, place in middle.items():
            expected = "!" if other == name else "B" if other in front else "O"
            assert said[place] in (expected, "!")
    least = min(zip(CHOICES, spent, strict=True), key=lambda one: (one[1][1], one[1][0]))
    assert repr(view).startswith(f"Of 4 choices the smallest is {least[0]}: at most ")


def test_both_parts_and_the_controls_fit_a_window_600_pixels_high_where_they_are_stacked() -> None:
    alive, choices = (
        painted(show.recompute(8, {"all": range(8)}), n) for n in ("alive", "choices")
    )
    heading, controls = alive.y, 62
    assert 2 * heading + alive.height + choices.height + controls < 600


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            (8, {}),
            "show.recompute() was given kept={}, which is not a dict of one to 64 choices.\n"
            "  next:  give the layers of each choice by its name",
        ),
        ((8, 4), "show.recompute() was given kept=4, which is not a dict of one to 64 choices."),
        ((8, {"x": 4}), "recompute() was given keep=4, which is not a list of layers."),
        (
            (8, {"x": [0]}, {"y": 3}),
            "reports whose names differ from those of the choices in kept=.\n  next:  give a dict",
        ),
        ((8, {"x": [0]}, {"x": 3}), "show.recompute() was given 3, which is not a report."),
    ],
)
def test_what_is_no_choice_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.recompute(*given)
    assert words in str(caught.value)
