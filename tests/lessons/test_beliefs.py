"""What lesson 15 expects of answers: from dense solves in float64; and what its capstone says of
pairs of programs, and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_course import check
from ipu_course.checking.programs import device_of
from ipu_course.lesson15 import checks as lesson
from ipu_course.lesson15.beliefs import Belief, Robust, Spring, grid, messages
from ipu_teach import FLOAT, Device, Engine, Graph, Report, Target
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Sequence

WORDS = (
    "Two tensors were squared one after the other, each with a sync of its own, so I joined them "
)
WORDS += "and saw one compute set less in the report."


def test_messages_on_a_grid_come_to_the_means_of_the_dense_solve() -> None:
    """With springs, and with robust ones beside the solve that is done anew with its own pulls; the
    variances are too small where news goes round."""
    edges, draw = grid(5, 7), np.random.default_rng(1)
    lam = draw.uniform(1, 3, 35)
    prior = np.stack([draw.uniform(-1, 1, 35) * lam, lam], axis=1)
    engine, _ = messages(device_of(), prior, edges, 80, (Belief, Spring), stiff=2.0)
    engine.run()
    found = engine.read_tensor("belief")
    right = lesson.solved(prior, edges, np.full(len(edges), 2.0))
    assert np.abs(found[:, 0] - right[:, 0]).max() < 1e-6
    assert (found[:, 1] < right[:, 1]).all()
    how = {"stiff": 20.0, "far": 0.05}
    engine, _ = messages(device_of(), prior, edges, 80, (Belief, Robust), **how)
    engine.run()
    engine.run()  # goes on
    robust = lesson.cleared(prior, edges, 20.0, 0.05)
    assert np.abs(engine.read_tensor("belief")[:, 0] - robust).max() < 1e-3
    assert np.abs(robust - right[:, 0]).max() > 0.05


def test_a_cut_pair_is_sixteen_bytes_and_no_way_to_cut_into_blocks_is_better() -> None:
    for height, width, tiles in lesson.IMAGES:
        most = lesson._most(height, width, tiles)
        pixels = lesson.blocks(height, width, tiles, most)
        held = np.bincount(pixels.ravel(), minlength=tiles)
        assert held.max() <= most < 2 * height * width / tiles + 1
        factors = np.concatenate([pixels[:, :-1].ravel(), pixels[:-1].ravel()])
        by_hand = sum(
            pixels[at] != pixels[at[0] + dy, at[1] + dx]
            for at in np.ndindex(height, width)
            for dy, dx in ((0, 1), (1, 0))
            if at[0] + dy < height and at[1] + dx < width
        )
        assert lesson.bytes_of(pixels, factors, tiles) == 16 * by_hand
        for down in (d for d in range(1, tiles + 1) if tiles % d == 0):
            rows = np.arange(height) * down // height
            other = rows[:, None] * (tiles // down) + np.arange(width) * (tiles // down) // width
            assert np.bincount(other.ravel()).max() > most or lesson.cuts(other) >= by_hand


def squares(target: Target, joined: bool, half: bool = False) -> tuple[Report, dict[str, Any]]:
    """A program that a learner might bring: two tensors squared."""
    graph, program = Graph(target), Sequence()
    x = graph.add_variable(FLOAT, (2, 52), "x")
    poputil.map_tensor_linearly(graph, x)
    graph.set_initial_value(x, np.arange(104).reshape(2, 52))
    for part in [x] if joined else [x[0], x[1]]:
        popops.square_in_place(graph, part, program)
    graph.create_host_read("x", x)
    engine = Engine(graph, program)
    engine.load_and_run(Device(target))
    return engine.report, {"x": engine.read_tensor("x").astype(np.float16 if half else float)}


def slow(target: Target) -> Any:
    return squares(target, joined=False)


def quick(target: Target) -> Any:
    return squares(target, joined=True)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path))
    return tmp_path / lesson.KEPT


def test_a_capstone_takes_functions_and_pairs_and_keeps_the_paragraph_with_its_figures(
    work: Path,
) -> None:
    target = device_of().target
    assert check("15.5", quick, slow, WORDS), check("15.5", quick, slow, WORDS)
    kept = work.read_text("utf-8")
    assert kept.count(WORDS) == 1 and "modelled cycles: " in kept.partition(WORDS)[2]
    assert check("15.5", quick(target), slow(target), WORDS + " Twice.")
    assert kept.rstrip() in work.read_text("utf-8"), "what stood there stays"
    work.unlink()
    work.mkdir()  # where nothing can be kept, the programs are judged all the same
    assert check("15.5", quick, slow, WORDS)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((slow, slow), "0 % fewer"),
        ((quick, lambda target: squares(target, False, half=True)), "equal results"),
        ((quick, lambda target: 7), "(a report, results)"),
        ((quick, lambda target: (squares(target, True)[0], {})), "arrays by name"),
        ((quick, lambda target: (squares(target, True)[0], {"x": "y"})), "x: 'y'"),
        ((lambda target: (quick(target)[0], {"x": np.full(3, np.nan)}), slow), "x[0] is nan"),
        ((lambda target: 1 / 0, slow), "ZeroDivisionError"),
    ],
)
def test_a_pair_that_does_not_count_is_told_why_and_the_paragraph_is_kept(
    answers: tuple[Any, Any], said: str, work: Path
) -> None:
    verdict = check("15.5", *answers, WORDS)
    assert not verdict and said in " ".join(repr(verdict).split())
    assert WORDS in work.read_text("utf-8")


def test_a_word_is_no_paragraph(work: Path) -> None:
    assert dict(check("15.5", quick, slow, "Quicker.").rows)["came"] == "1 word"
    assert not check("15.5", quick, slow, 7) and not work.exists()
