"""The picture of patches: which elements a window sees and where they lie, beside a count in plain
Python; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ipu_teach import FLOAT, Graph, IPUModel, Tensor, concat, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.poplibs import popops, poputil
from ipu_teach.show.patches import NEW, SHARED, ZERO
from ipu_teach.show.scene import Painted
from ipu_teach.show.shapes import Boxes, Stroke


def image(graph: Graph, *shape: int) -> Tensor:
    made = graph.add_variable(FLOAT, shape, "x")
    poputil.map_tensor_linearly(graph, made, 1, 1)
    return made


def matrix_of(x: Tensor) -> Tensor:
    """The patches of a window of 3 x 3."""
    down, across = x.shape[1] - 2, x.shape[2] - 2
    seen = [x[:, i : i + down, j : j + across] for i in range(3) for j in range(3)]
    return concat(seen, 3).reshape((down * across, 9 * x.shape[3]))


def pieces(tile_of: list[int], elements: list[int]) -> int:
    """Runs of neighbours in memory that lie on one tile."""
    return sum(e - 1 not in elements or tile_of[e - 1] != tile_of[e] for e in elements)


def test_a_row_is_picked_from_so_many_pieces_in_either_layout() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    x, planes = image(graph, 1, 5, 6, 2), image(graph, 1, 2, 5, 6)
    view = show.patches(x, matrix_of(x), planes.dim_shuffle([0, 2, 3, 1]))
    tile_of, last = [0] * 30 + [1] * 30, set[tuple[int, ...]]()
    rows, counts = list(view.data), []
    for number, row in enumerate(rows):
        i, j = divmod(number, 4)
        mine = {(a, b, c) for a in range(i, i + 3) for b in range(j, j + 3) for c in range(2)}
        one = sorted((a * 6 + b) * 2 + c for a, b, c in mine)
        other = sorted((c * 5 + a) * 6 + b for a, b, c in mine)
        counts.append((pieces(tile_of, one), pieces(tile_of, other)))
        told = row["pieces"], row["pieces otherwise"], row["of the window before"]
        assert told == (*map(str, counts[-1]), str(len(mine & last)))
        last = mine
    means = [np.mean(column) for column in zip(*counts, strict=True)]
    assert f"{means[0]:.3g} pieces of memory on average, in the other" in view.scene.sentence
    assert view.scene.sentence.endswith(f"from {means[1]:.3g}.")
    (mark,) = view.scene.marks
    assert isinstance(mark, Painted) and len(mark.pictures) == 2 * len(rows)
    # a line for each number of a row ends at its element; the second layout is the other way
    for way in (0, 1):
        drawn = mark.pictures[2 * 5 + way]
        ends = sorted({s.points[-1] for s in drawn if isinstance(s, Stroke)})
        assert len(ends) == 18 and len({y for _, y in ends}) == 2


def test_constants_have_no_line_and_windows_that_meet_share() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    x = image(graph, 1, 3, 3, 1)
    view = show.patches(x, matrix_of(popops.pad(graph, x, [0, 1, 1, 0], [0, 1, 1, 0])))
    (mark,) = view.scene.marks
    assert isinstance(mark, Painted)
    boxes = {s.code: len(s.boxes) for s in mark.pictures[0] if isinstance(s, Boxes)}
    lines = [s for s in mark.pictures[0] if isinstance(s, Stroke)]
    assert len(lines) == 4 and boxes[ZERO] == 5 and boxes[NEW] == 4
    assert SHARED in {s.code for s in mark.pictures[1] if isinstance(s, Boxes)}
    assert "rows 0 to 1, columns 0 to 1" in view.scene.stills[0].label


def test_what_is_refused() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    x, y = image(graph, 1, 4, 4, 1), image(graph, 1, 4, 4, 1)
    large = image(graph, 1, 20, 20, 1)
    for given, words in (
        ((1, x), "which is not a tensor"),
        ((x[0], x), "an image of shape (4, 4, 1)"),
        ((large, matrix_of(large)), "at most 256 elements"),
        ((x, x), "a matrix of shape (1, 4, 4, 1)"),
        ((x, matrix_of(y)), "a matrix that contains no element of the image"),
        ((x, matrix_of(x), y[0]), "give the second image the same shape"),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            show.patches(*given)  # type: ignore[arg-type]
        assert words in " ".join(str(caught.value).split()), given
