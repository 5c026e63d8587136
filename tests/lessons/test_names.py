"""No exercise needs a name of the kit that its path has not shown."""

from __future__ import annotations

import pytest
from names import PATHS, asked_before, code_in, introduced, named, needs, path_of, without_imports

BLANK = "def f(graph, x):\n    # BEGIN SOLUTION 01.1: a.\n    {}\n    # END SOLUTION"


@pytest.mark.parametrize("title", PATHS)
def test_every_name_that_an_exercise_needs_was_shown_before(title: str) -> None:
    found = list(introduced(PATHS[title]))
    assert [(exercise, name) for exercise, name, cell in found if cell is None] == []
    assert len({exercise for exercise, _, _ in found}) >= 15 and ("02.3", ".get_tile_mapping") in {
        f[:2] for f in found
    }


def test_a_hole_is_found() -> None:
    """Lesson 07 alone: streams and Repeat come from lesson 02."""
    holes = {
        name for exercise, name, cell in introduced(("07",)) if exercise == "07.2" and cell is None
    }
    assert holes == {
        "Repeat",
        "Copy",
        ".num_elements",
        ".add_host_to_device_fifo",
        ".add_device_to_host_fifo",
    }


@pytest.mark.parametrize("title", PATHS)
def test_what_a_lesson_asks_for_comes_before_it(title: str) -> None:
    path = PATHS[title]
    for number, lesson in enumerate(path):
        assert path_of(lesson) is None or asked_before(lesson) <= set(path[:number]), lesson
    assert asked_before("04") == {"01", "02"}


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("return popops.map(graph, expr._1, [x], p)", {"popops.map", "expr._1"}),
        ("graph.set_tile_mapping(x, x.shape[0])", {".set_tile_mapping", ".shape"}),
        ("return np.repeat(np.add(x, 1), self.shape)", set()),
        ('return Sequence(Copy(x, x), f("MAX", "ALL"))', {"Sequence", "Copy", '"MAX"'}),
    ],
)
def test_names_of_an_answer(answer: str, names: set[str]) -> None:
    source = f"from ipu_teach import Graph\nGraph(x.rank)\n{BLANK.format(answer)}"
    assert {name for _, name in needs(source)} == names


def test_what_counts_as_shown() -> None:
    assert (
        code_in("Say `popops.add` or\n\n    Copy(a, b)\n\n* Repeat\n") == "popops.add\nCopy(a, b)"
    )
    assert without_imports("from a import (\n    Copy,\n)\nx = 1").split() == ["x", "=", "1"]
    assert named(__import__("ast").parse("Copy = 1").body[0]) == ""
