"""A refusal is drawn where a picture exists, and the picture shows the case that the words name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from answers import Names, verdict_on
from attempts import WRONG

from ipu_course.checking import judging
from ipu_course.checking.learner_calls import Verdict
from ipu_course.checking.verdict_panel import DRAWN
from ipu_course.checking.verdicts import MOST_DRAWN, NotYet, Passed
from ipu_teach import FLOAT, Graph, InOut, IPUModel, Output, Vector, Vertex
from ipu_teach.show.touched import touched
from ipu_teach.show.view import View

NamesOf = Callable[[str], Names]


@pytest.fixture
def refused(names_of: NamesOf) -> Callable[[str, str], Verdict]:
    """The verdict on a mistake of the lessons' files."""

    def on(name: str, about: str) -> Verdict:
        (wrong,) = (w for w in WRONG if (w.exercise, w.about) == (name, about))
        return verdict_on(wrong, names_of)

    return on


# What is refused; a pattern in the words, whose numbers stand in the picture's sentence as said.
CASES = [
    ("00.3", "the last tile gets the rest", r"tile (?P<t>12) has (?P<n>35)", "the most {4n} on tile {t}"),
    ("00.3", "the first 101 elements", r"(?P<n>246) elements not mapped to any tile", "404 bytes on 13 tiles"),
    ("01.2", "round robin", r"fullest tile works for (?P<n>[\d,]+) cycles", "is the slowest, {n} modelled"),
    ("01.2", "longest first, in sorted order", r"works for (?P<n>[\d,]+) cycles", "the slowest, {n} modelled"),
    ("01.5", "two readers", r"'shift', 3, 4", "vertex 3 reads 3 to 4; vertex 4 reads 4 to 5. Neither"),
    ("01.5", "another order is no race", r"'mirror', 0, 12", "vertex 0 writes 12; vertex 12 writes 0."),
    ("02.1", "leaves a tail", r"(?P<n>49) elements not mapped to any tile, the first", "208 bytes on 13 tiles"),
    ("02.3", "b on one tile", r"52 of 52|of 52 elements are sent", "a and b.transpose() live"),
    ("03.2", "everything on one tile", r"holds (?P<n>676) of 676", "2,704 bytes on 1 tile"),
    ("04.2", "one worker", r"too many cycles", "1 vertex on 6 workers"),
    ("04.3", "as it was", r"element \[1\] of 'a'", "Both touch 1, and at least one of them writes"),
    ("05.1", "the last tile has the rest", r"tile 12 has (?P<n>5)", "29 x 12 FLOAT; 1,392 bytes on 13 tiles, the most 240 on tile 12"),
    ("05.1", "the matrix lies elsewhere", r"tile \d+ receives", "matrix"),
    ("05.3", "not cut", r"five of six workers are idle", "1 vertex on 6 workers"),
    ("07.1", "downhill", r"gradients of weights", "The gradients of weights: yours, from"),
    ("07.4", "a negative", r"a pixel of", "The pixels of the batch: yours, from"),
    ("08.5", "only the first", r"saving \[0\]: 12 inputs at once", "live at 24 steps of the programs, modelled: most at step 13"),
    ("08.6", "another one backward", r"backward 2 sets other elements to 0 than forward 2", "forward 2 keeps 804 of 1,560; backward 2 keeps"),
    ("04.3", "two vertices for one place", r"element \[0\] of 'a'", "Both touch 0,"),
    ("09.2", "two places for weights", r"3 layers take (?P<n>[\d,]+)", "{n}"),
    ("09.3", "into weights in use", r"IPU 0 computes with row 1, but row 0", "4 rows of 1 buffer move"),
    ("09.6", "two that read one place", r"element 1: 1, not 0", "A run of 1 superstep on 26 tiles"),
    ("10.3", "one after the other", r"4 stages and 8 micro-batches", "24 rounds of copies: in 24 of them only one IPU sends"),
    ("10.4", "without the one at work", r"element 0: 2, not (?P<n>3)", "{n}"),
    ("10.5", "everything to one", r"all_reduce with 52,000", "5 supersteps on 52 tiles of 4 IPUs"),
    ("10.7", "each for itself", r"on 2 replicas", "26 tiles of 2 IPUs"),
    ("11.1", "the chances swapped", r"on 0.1, 10,000 times", "0.1, rounded at random 10,000 times"),
    ("11.1", "towards zero", r"-0\.09991", "-0.1, rounded at random"),
    ("12.3", "one in eight for all", r"256, 256, 4", "Dense is overtaken by blocks of 4 at 1/2"),
    ("15.2", "its own message included", r"a chain of 5 variables, 5 rounds", "The numbers of belief in 11 supersteps on 13 tiles"),
    ("15.4", "strips", r"12 x 12 pixels on 16 tiles", "576 bytes on 12 tiles, 48 each"),
    ("15.5", "hardly better", r"cycles: 25,128 before, 25,056 after", "The second takes 0.3 % fewer cycles"),
    ("11.6", "no scale", r"up to \S+, with the scale 0", "as QUARTER[F143, 0]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "about", "said", "drawn"), CASES, ids=lambda v: v[:24])
def test_the_picture_shows_the_case_that_the_words_name(
    name: str, about: str, said: str, drawn: str, refused: Any
) -> None:
    verdict = refused(name, about)
    found = re.search(said, " ".join(text for _, text in verdict.rows))
    assert found, verdict
    told = found.groupdict()
    told["4n"] = f"{4 * int(told['n'].replace(',', ''))}" if "n" in told else ""
    assert drawn.format(**told) in verdict.picture.alt
    html = verdict._repr_html_()
    assert len(verdict.picture._repr_html_().encode()) <= MOST_DRAWN
    assert html.count(f"<details><summary>{DRAWN}</summary>") == 1
    assert ("Show as table" in html) == isinstance(verdict.picture, View)
    assert "drawn: " in " ".join(repr(verdict).split()) and not verdict


def test_tiles_in_the_picture_are_those_in_the_words(refused: Any) -> None:
    verdict = refused("02.3", "b in its own order")
    words = " ".join(text for _, text in verdict.rows)
    i, j, there, _, _, here = map(int, re.findall(r"\d+", words.split("the first of them ")[1])[:6])
    cells = {mark.name: mark for mark in verdict.picture.scene.marks}
    tiles = [cells[f"elements {k}"].key.reshape(13, 4)[i, j] for k in (0, 1)]
    assert tiles == [there, here] and there != here


@pytest.mark.parametrize(
    ("name", "about"),
    [("00.3", "nothing mapped"), ("02.1", "maps nothing"), ("01.2", "no return"),
     ("01.5", "vertices that are not there"), ("04.3", "round the end")],
)  # fmt: skip
def test_there_is_none_where_it_adds_nothing(name: str, about: str, refused: Any) -> None:
    verdict = refused(name, about)
    assert verdict.picture is None and "<details>" not in verdict._repr_html_()


@pytest.mark.parametrize("size", [MOST_DRAWN, MOST_DRAWN + 1])
def test_a_large_picture_and_one_that_fails_are_left_out(size: int) -> None:
    class Drawn:
        alt = "many"

        def _repr_html_(self) -> str:
            return "x" * size

    def judge(answer: Any) -> Passed:
        raise NotYet("it", draws=Drawn)

    def failing(answer: Any) -> Passed:
        raise NotYet("it", draws=lambda: 1 / 0)

    assert (judging.judged(judge, [1]).picture is not None) == (size == MOST_DRAWN)
    found = judging.judged(failing, [1])
    assert found.picture is None and found.rows[0] == ("tried", "it")


class Fill(Vertex):
    out: Output[Vector[FLOAT]]
    more: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = 1.0


def test_what_vertices_touch_is_counted_by_hand() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    other, a = (graph.add_variable(FLOAT, (2, 30), name) for name in ("other", "a"))
    work = graph.add_compute_set("work")
    for k in (0, 1):
        graph.add_vertex(work, Fill, out=a[k, 26 + k : 28 + k], more=other[k, :2])
    graph.add_vertex(work, Fill, out=a[:, 28], more=other[0, 1:3])
    view = touched(graph, work, (0, 2))
    assert view is not None and view.data == [
        {"vertex": "0", "reads": "0 to 1", "writes": "0 to 1"},
        {"vertex": "2", "reads": "1 to 2", "writes": "1 to 2"},
    ]
    assert "Both touch 1, and at least one of them writes there." in view.alt
    apart = touched(graph, work, (0, 1))
    assert apart is not None and "Neither vertex writes an element" in apart.alt
    assert touched(graph, graph.add_compute_set("empty"), (0, 1)) is None
