"""The views sparse and crossing: their boxes and figures beside the partitioner's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pages import option_error
from view_programs import partitioner

from ipu_course.lesson12.checks import drawn
from ipu_teach import FLOAT, IPUModel, show
from ipu_teach.poplibs.popsparse import CSRMatrix, dynamic
from ipu_teach.show.scene import Painted
from ipu_teach.show.shapes import Boxes, Outline, Stroke


def boxes(view: show.View, name: str, frame: int, code: str) -> np.ndarray[Any, Any]:
    """Those of a code in a frame of a mark."""
    (mark,) = (m for m in view.scene.marks if isinstance(m, Painted) and m.name == name)
    shapes = mark.shown(view.scene.stills[frame])
    codes = [c.name for c in view.scene.codes]
    rows = [s.boxes for s in shapes if isinstance(s, Boxes) and codes[s.code] == code]
    return np.concatenate([np.zeros((0, 4)), *rows])


OWN, GUEST, OVER, WAITS = (
    *("in its own bucket", "spilled into another"),
    *("no room yet", "not dropped yet"),
)


@pytest.mark.parametrize("crowd", [0, 8, 13])
def test_every_block_is_where_the_partitioner_puts_it(crowd: int) -> None:
    found = partitioner()
    csr = drawn(15, 16, 4, 60 - 3 * crowd, crowd, range(crowd))
    view, held = show.sparse(found, csr), found.buckets(csr)
    last, rounds = len(view.scene.stills) - 1, found.encode(csr).rounds
    assert view.scene.poster == last and len(view.scene.stills) == 9 + rounds
    rows = [(bucket.own, bucket.spilled) for bucket in held]
    told_ = [(int(r["blocks of its own"]), int(r["of others"])) for r in view.data]
    assert told_ == rows and f"go round in {rounds} step" in repr(view)
    own, guests = (np.array(part) for part in zip(*rows, strict=True))
    assert f"{own.sum()} are in their own, {guests.sum()} spill" in repr(view)
    for code, many in ((OWN, own), (GUEST, guests)):
        assert len(boxes(view, "matrix", last, code)) == many.sum()
        tall = boxes(view, "buckets", last, code)[:, 3]
        unit = boxes(view, "buckets", last, OWN)[0, 3] / own[own > 0][0]
        assert tall / unit == pytest.approx(many[many > 0])
    for frame in range(last + 1):  # nothing is lost on the way
        parts = [len(boxes(view, "matrix", frame, c)) for c in (OWN, GUEST, OVER, WAITS)]
        assert sum(parts) == csr.num_blocks and (parts[3] == 0) == (frame >= 8)
        values = view.scene.stills[frame].about["buckets"][1]
        assert [int(v.sum()) for v in values.values()] == parts[:3]
    assert len(boxes(view, "matrix", last, OVER)) == 0
    done = [len(boxes(view, "steps", f, "steps done")) for f in range(7, last + 1)]
    assert done == [0, *range(1, rounds + 2)]
    cut = found.cut
    assert f"{cut.cycles + rounds * cut.step_cycles:,} modelled cycles are planned" in repr(view)


def test_large_and_empty_patterns_are_drawn() -> None:
    target = IPUModel("ipu2").create_device().target
    params = dynamic.MatMulParams.create_with_nz_ratio(512, 1024, 16, 1 / 16, (4, 4))
    found = dynamic.Partitioner(params, FLOAT, target)
    dense = np.zeros((512, 1024), np.float32)
    dense[:64, ::8] = 1
    view = show.sparse(found, CSRMatrix.from_dense(dense, (4, 4)))
    (mark,) = (m for m in view.scene.marks if isinstance(m, Painted) and m.name == "buckets")
    assert mark.count == 128 and "the first 128 of" in " ".join(view.scene.notes)
    assert len(view.scene.stills) <= 9 + 24
    empty = show.sparse(partitioner(), CSRMatrix((60, 64), [0] * 16, [], [], (4, 4)))
    assert "0 blocks" in repr(empty)


def test_curves_cross_where_the_numbers_do() -> None:
    at = (1 / 2, 1 / 4, 0.3)
    cycles = {"dense": dict.fromkeys(at, 800.0), "a": dict(zip(at, (1600, 400, 900), strict=True))}
    view = show.crossing(cycles | {"b": dict.fromkeys(at, 900.0)})
    assert repr(view).startswith(
        "Dense is overtaken by a at 1/4, never by b, of the densities measured."
    )
    assert [still.label for still in view.scene.stills] == [
        f"density {d}" for d in ("1/2", "0.3", "1/4")
    ]
    assert view.scene.poster == 2 and view.data[1]["a"] == "900"
    (mark,) = view.scene.marks
    assert isinstance(mark, Painted)
    shapes = mark.shown(view.scene.stills[2])
    dense, a, b = (s.points for s in shapes if isinstance(s, Outline))
    assert dense[0, 1] - a[0, 1] == pytest.approx(a[2, 1] - dense[2, 1])  # twice and half
    assert (b[:, 1] < dense[:, 1]).all() and np.diff(a[:, 0]) == pytest.approx(np.diff(b[:, 0]))
    line = next(s for s in shapes if isinstance(s, Stroke) and s.role == "ink")
    assert line.points[0][0] == a[2, 0]


def test_what_cannot_be_drawn_is_refused() -> None:
    assert option_error(lambda: show.sparse(7, 8)) == (  # type: ignore[arg-type]
        "show.sparse() was given 7, which is not a Partitioner.\n  next:  give a Partitioner and a "
        "pattern: "
        "show.sparse(Partitioner(params, FLOAT, target), csr)."
    )
    many = {f"product {i}": {0.5: 1 + i, 0.25: 1} for i in range(8)}
    two_densities = {"a": {0.5: 1, 0.25: 1}, "b": {0.5: 1, 1: 1}}
    for given in ({}, {"a": {0.5: 1, 0.25: 1}}, two_densities, many):
        assert "a dict of two to seven curves" in option_error(lambda g=given: show.crossing(g))
    assert len(show.crossing(dict([*many.items()][:7])).scene.stills) == 2
    bad = {"a": {0.5: 1, 0.25: 1}, "b": {0.5: 1, 0.25: float("nan")}}
    assert "show.crossing() was given {'a'" in option_error(lambda: show.crossing(bad))


def test_a_heading_says_how_many_blocks_a_square_is_and_the_text_whence_blocks_spill() -> None:
    target = IPUModel("ipu2", tiles_per_ipu=64).create_device().target
    for side, square in ((64, ""), (128, "2 x 2"), (100, "up to 2 x 2")):
        pattern = np.random.default_rng(3).random((side, side)) < 0.09
        csr = CSRMatrix.from_dense(np.kron(pattern, np.ones((4, 4))), (4, 4))
        params = dynamic.MatMulParams.create_with_num_non_zero_values(
            4 * side, 4 * side, 16, 16 * int(1.02 * pattern.sum()), (4, 4)
        )
        scene = show.sparse(dynamic.Partitioner(params, FLOAT, target), csr).scene
        matrix = scene.mark("matrix")
        assert isinstance(matrix, Painted)
        heading = matrix.heading
        assert heading.endswith(
            f"; square: {square} blocks of 4 x 4" if square else "in blocks of 4 x 4"
        )
        elsewhere = {int(row[0]): int(row[4]) for row in scene.table[1]}
        note = scene.stills[-1].note
        told = {int(b): int(n) for b, n in re.findall(r"(\d+) \((\d+)\)", note)}
        assert told and all(elsewhere[bucket] == spilled for bucket, spilled in told.items())
        more = re.search(r" and (\d+) more", note)
        spill = sum(n > 0 for n in elsewhere.values())
        assert len(told) + int(more[1] if more else 0) == spill
        assert max(told.values()) == max(elsewhere.values())
