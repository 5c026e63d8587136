"""The learner's notebooks: derived from the solved ones, equal to them outside the gaps, and
running to their end."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sampling import one_in

from ipu_course import cli, given, lab
from ipu_course.checking import minutes, notebooks
from ipu_course.checking.exercise import Exercise, asked_again_in, catalogue
from ipu_course.checking.gaps import (
    blanked,
    gaps_in,
    names_needed,
    read_notebook,
    reference,
    source_of,
    without_check,
)
from ipu_course.checking.learner import as_text, differences, learners_form, pairs
from ipu_course.checking.naming import lesson_of, sort_key
from ipu_course.checking.state import learned
from ipu_teach.errors import LessonSourceError

nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = notebooks.NOTEBOOKS


# --- gaps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solved", "blank"),
    [
        (
            "def f(x):\n    # BEGIN SOLUTION 01.1: return twice x.\n    y = 2 * x\n    return "
            "y\n    # END SOLUTION",
            "def f(x):\n    # 01.1 Your turn: return twice x.\n    ...",
        ),
        (
            "def f(x):\n    # BEGIN SOLUTION 01.1: make y.\n    z = x\n    y = 2 * z\n    # END "
            "SOLUTION\n    return y",
            "def f(x):\n    # 01.1 Your turn: make y.\n    y = ...\n    return y",
        ),
        (
            "# BEGIN SOLUTION 01.3: x?\nx = 4\n# END SOLUTION\nprint(x)",
            "# 01.3 Your turn: x?\nx = ...\nprint(x)",
        ),
        (
            "# BEGIN SOLUTION 01.3: x?\na = 1\nb, c = a, a\n# END SOLUTION\nb, c",
            "# 01.3 Your turn: x?\nb = ...\nc = ...\nb, c",
        ),
        (
            "# BEGIN SOLUTION 01.1: f.\ndef f():\n    return 1\n# END SOLUTION\n\n"
            "x = 1\n# BEGIN SOLUTION 01.1: y.\ny = x\n# END SOLUTION\nf(y)",
            "# 01.1 Your turn: f.\nf = ...\n\nx = 1\n# 01.1 Your turn: y.\ny = ...\nf(y)",
        ),
    ],
)
def test_a_gap_leaves_running_code(solved: str, blank: str) -> None:
    assert blanked(solved) == blank
    compile(blank, "cell", "exec")


def test_a_name_that_a_later_cell_needs_is_left_to_it() -> None:
    solved = "# BEGIN SOLUTION 01.5: who?\nculprit = 1\n# END SOLUTION"
    assert blanked(solved, ["check('01.5', culprit)"]) == "# 01.5 Your turn: who?\nculprit = ..."
    assert blanked(solved, ["something else"]) == "# 01.5 Your turn: who?\n..."
    inner = "def f():\n    # BEGIN SOLUTION 01.1: y\n    y = 1\n    # END SOLUTION"
    assert blanked(inner, ["y"]).endswith("    ...")  # a function's own names are nobody else's


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("# BEGIN SOLUTION 01.1: x\n1", "A gap has no end: '# BEGIN SOLUTION 01.1: x'."),
        ("# END SOLUTION", "The mark '# END SOLUTION' is malformed or at the wrong place."),
        (
            "# BEGIN SOLUTION 01.1: x\n# BEGIN SOLUTION 01.2: y\n# END SOLUTION",
            "The mark '# BEGIN SOLUTION 01.2: y' is malformed or at the wrong place.",
        ),
        ("# BEGIN SOLUTION\n# END SOLUTION", "The mark '# BEGIN SOLUTION' is malformed"),
        ("#BEGIN SOLUTION 01.1: x\n# END SOLUTION", "The mark '#BEGIN SOLUTION 01.1: x' is"),
    ],
)
def test_marks_that_do_not_pair_are_refused(source: str, says: str) -> None:
    with pytest.raises(LessonSourceError) as caught:
        gaps_in(source, "01_x.ipynb")
    assert says in str(caught.value) and "where: 01_x.ipynb" in str(caught.value)


def test_names_that_a_cell_needs() -> None:
    assert names_needed(
        "import a.b as c\nfrom d import e\ndef f(g, *h):\n    i = [j for j in k]\n    return c + "
        "len(l)"
    ) == {
        "k",
        "l",
    }


# --- deriving -------------------------------------------------------------------------------------


def notebook(*sources: str) -> dict[str, Any]:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "text-00", "metadata": {}, "source": ["# Title"]}
    ]
    for number, source in enumerate(sources, start=1):
        out = {"name": "stdout", "output_type": "stream", "text": [f"{number}\n"]}
        cells.append(
            {
                "cell_type": "code",
                "id": f"code-{number:02}",
                "metadata": {},
                "execution_count": number,
                "outputs": [out],
                "source": source.splitlines(keepends=True),
            }
        )
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


GAP = "# BEGIN SOLUTION 01.1: a number\nx = 7\n# END SOLUTION"


def test_outputs_stay_up_to_the_first_gap_and_no_further() -> None:
    solved = notebook("1", GAP, "print(x)")
    before = as_text(solved)
    made = learners_form(solved)
    assert [cell.get("execution_count") for cell in made["cells"]] == [None, 1, None, None]
    assert [len(cell.get("outputs", [])) for cell in made["cells"]] == [0, 1, 0, 0]
    assert source_of(made["cells"][2]) == "# 01.1 Your turn: a number\nx = ..."
    assert as_text(solved) == before
    nbformat.validate(nbformat.from_dict(made))


def test_a_lesson_without_gaps_stays_as_it_is() -> None:
    solved = notebook("1", "2")
    assert learners_form(solved) == solved


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of one solved lesson."""
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    (tmp_path / "notebooks" / "solutions").mkdir(parents=True)
    (tmp_path / "notebooks" / "solutions" / "01_x.ipynb").write_text(
        as_text(notebook("1", GAP, "x")), encoding="utf-8"
    )
    return tmp_path / "notebooks"


def test_the_command_writes_and_checks(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["learner", "--check"]) == 1
    assert "01_x.ipynb: missing" in capsys.readouterr().err
    assert cli.main(["learner"]) == 0
    assert capsys.readouterr().out == "01_x.ipynb: written\n"
    assert cli.main(["learner"]) == 0
    assert capsys.readouterr().out == "01_x.ipynb: unchanged\n"
    assert cli.main(["learner", "--check"]) == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda cells: cells[0].update(source=["# Another"]),
            "cell 1 differs in line 1: '# Another'",
        ),
        (
            lambda cells: cells[2].update(source=["# 01.1 Your turn: a number\n", "x = 8"]),
            "cell 3 differs in line 2: 'x = 8'",
        ),
        (lambda cells: cells[1].update(outputs=[]), "cell 2 differs in its outputs"),
        (
            lambda cells: cells[1].update(execution_count=9),
            "cell 2 differs in its metadata, kind, id or number",
        ),
        (lambda cells: cells.pop(), "3 cells, and 4 in the solved notebook"),
    ],
)
def test_the_check_names_the_cell(
    course: Path, capsys: pytest.CaptureFixture[str], change: Any, says: str
) -> None:
    assert cli.main(["learner"]) == 0
    path = course / "01_x.ipynb"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data["cells"])
    path.write_text(as_text(data), encoding="utf-8")
    assert cli.main(["learner", "--check"]) == 1
    err = capsys.readouterr().err
    assert f"01_x.ipynb: {says}" in err and "edit the solved notebooks only" in err


def test_a_learners_notebook_without_its_solved_one_is_named(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (course / "09_old.ipynb").write_text(as_text(notebook("1")), encoding="utf-8")
    assert cli.main(["learner", "--check"]) == 1
    assert "09_old.ipynb: there is no solved notebook" in capsys.readouterr().err


def test_a_file_that_is_no_notebook_is_refused(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (course / "solutions" / "02_y.ipynb").write_text("[]", encoding="utf-8")
    assert cli.main(["learner"]) == 2
    assert "02_y.ipynb is not a notebook" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (
            {"source": "def ("},
            ".\n  where: 01_x.ipynb, cell 2, line 1\n  next:  correct the cell, and run it.",
        ),
        ({"source": "x = '\0'"}, "A cell of a solved notebook is not valid Python: "),
        (
            {"source": ["x = 1\n", "<<<<<<< ours\n", "=======\n"]},
            "a cell has the marks of two versions that were not merged",
        ),
        ({"source": "x = '\ud800'"}, "'utf-8' codec can't encode character '\\ud800' in position "),
        ({"source": ["x", 1]}, "the source of a cell is not text: ['x', 1]"),
        ({"source": None}, "the source of a cell is not text: None"),
        (
            {"cell_type": "kode"},
            "the type of a cell is not code, markdown or raw: {'cell_type': 'kode', ",
        ),
        (
            {"source": "# END SOLUTION"},
            "The mark '# END SOLUTION' is malformed or at the wrong place.\n"
            "  where: 01_x.ipynb, cell 2\n",
        ),
        (
            {"source": "x = (\n# BEGIN SOLUTION 01.1: x\n1)\n# END SOLUTION"},
            "A cell of a solved notebook is not valid Python: ",
        ),
    ],
)
def test_a_cell_that_is_none_is_refused_by_its_number(
    course: Path, cell: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["learner"]) == 0
    before = (course / "01_x.ipynb").read_bytes()
    path = course / "solutions" / "01_x.ipynb"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["cells"][1].update(cell)
    path.write_text(json.dumps(data), encoding="utf-8")
    assert cli.main(["learner"]) == 2
    said = capsys.readouterr().err
    assert says in said and "01_x.ipynb, cell 2" in said and "  next:  " in said
    assert (course / "01_x.ipynb").read_bytes() == before


@pytest.mark.parametrize("content", [b"[" * 10**5, b"{}", b"\xff", b"NaN"])
def test_a_notebook_file_is_refused_by_its_name(
    course: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (course / "solutions", course):
        (folder / "01_x.ipynb").write_bytes(content)
    assert cli.main(["learner"]) == cli.main(["learner", "--check"]) == 2
    assert (course / "01_x.ipynb").read_bytes() == content
    (course / "own.ipynb").write_bytes(content)
    assert cli.main(["run", str(course / "own.ipynb")]) == 2
    said = capsys.readouterr().err
    assert (
        "01_x.ipynb is not a notebook: " in said
        and "own.ipynb is not a notebook: " in said
        and "Traceback" not in said
    )


def test_reset_gives_a_fresh_copy_and_keeps_the_old(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["learner"]) == 0
    copy = tmp_path / "work" / "01_x.ipynb"
    assert cli.main(["reset", "1"]) == 0
    assert copy.read_bytes() == (course / "01_x.ipynb").read_bytes()
    assert cli.main(["reset", "1"]) == 0  # nothing was edited: nothing is kept
    assert [path.name for path in copy.parent.iterdir()] == ["01_x.ipynb"]
    copy.write_text("edited", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["reset", "01"]) == 0
    (kept,) = copy.parent.glob("01_x.kept-*.ipynb")
    assert kept.read_text(encoding="utf-8") == "edited" and kept.name in capsys.readouterr().out
    assert re.fullmatch(r"01_x\.kept-\d{8}-\d{6}\.ipynb", kept.name)
    assert copy.read_bytes() == (course / "01_x.ipynb").read_bytes()
    assert cli.main(["reset", "77"]) == 2
    learned().change("01.1", lambda record: record.update(state="solved"))
    assert cli.main(["reset", "01"]) == 0
    assert (
        "`ipu-teach reset 01 --progress` deletes it" in capsys.readouterr().out
        and learned().record("01.1")
    )
    assert cli.main(["reset", "01", "--progress"]) == 0
    assert "is deleted" in capsys.readouterr().out and not learned().record("01.1")


def test_opening_one_lesson_brings_the_others_so_that_links_lead_on(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "become", lambda command, env: 0)
    assert cli.main(["learner"]) == 0
    (course / "index.ipynb").write_text(as_text(notebook("1")), encoding="utf-8")
    assert cli.main(["lab", "index"]) == 0
    assert {path.name for path in (tmp_path / "work").glob("*.*")} == {
        "index.ipynb",
        "01_x.ipynb",
        ".jupyter",
    }


def test_a_page_of_docs_that_a_lesson_links_to_comes_with_it(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "PAGES", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "docs" / name).write_text(f"### {name}\n", encoding="utf-8")
    solved = course / "solutions" / "01_x.ipynb"
    link = "[a](../../docs/a.md#a) "
    solved.write_text(
        solved.read_text(encoding="utf-8").replace("# Title", link + "# Title"), encoding="utf-8"
    )
    assert link in solved.read_text(encoding="utf-8") and cli.main(["learner"]) == 0 == cli.main(
        ["learner", "--check"]
    )
    assert "[a](../docs/a.md#a)" in (course / "01_x.ipynb").read_text(encoding="utf-8")
    copy = notebooks.learners_copies(course / "01_x.ipynb")
    assert "[a](docs/a.md#a)" in copy.read_text(encoding="utf-8")
    assert [path.name for path in (copy.parent / "docs").iterdir()] == ["a.md"]
    (copy.parent / "docs" / "a.md").write_text("with a note of mine", encoding="utf-8")
    notebooks.learners_copies(course / "01_x.ipynb")
    assert (copy.parent / "docs" / "a.md").read_text(encoding="utf-8") == "with a note of mine"
    # it was as we gave it
    assert cli.main(["reset", "01"]) == 0 and not list(copy.parent.glob("*kept*"))


# --- the lessons there are ------------------------------------------------------------------------

PAIRS = pairs()


@pytest.mark.parametrize(("solved", "target"), PAIRS, ids=[solved.stem for solved, _ in PAIRS])
def test_the_learners_notebook_is_the_solved_one_without_its_gaps(
    solved: Path, target: Path
) -> None:
    assert differences(solved, target) == []
    assert "SOLUTION" not in target.read_text(encoding="utf-8")


def executed(path: Path, work: Path) -> Any:
    """The notebook after a run of all its cells, with nothing done before."""
    from nbclient import NotebookClient

    found = nbformat.read(path, as_version=4)
    client = NotebookClient(found, timeout=120, resources={"metadata": {"path": str(path.parent)}})
    client.execute(env=dict(os.environ, IPU_TEACH_WORK=str(work)))
    return found


@pytest.mark.parametrize("path", one_in(3, [target for _, target in PAIRS], lambda path: path.stem))
def test_the_learners_notebook_runs_to_its_end(path: Path, tmp_path: Path) -> None:
    found = executed(path, tmp_path)
    asked = [
        cell
        for cell in found.cells
        if cell.cell_type == "code" and re.match(r"check\(", cell.source.splitlines()[-1])
    ]
    for cell in asked:
        assert "not attempted" in cell.outputs[0]["data"]["text/plain"], cell.source


def test_the_map_shows_every_lesson_and_what_a_newcomer_has_done(tmp_path: Path) -> None:
    path = NOTEBOOKS / "index.ipynb"
    stored = nbformat.read(path, as_version=4)
    assert executed(path, tmp_path).cells[-1].outputs == stored.cells[-1].outputs, (
        "python3 run.py run notebooks/index.ipynb --store"
    )
    text = stored.cells[0].source
    rows = re.findall(r"^\| \[.*?\]\((\w+\.ipynb)\) \|", text, re.MULTILINE)
    assert sorted(rows) == [target.name for _, target in PAIRS], "a row in index.ipynb"
    assert [name for name in rows if name != "tiny.ipynb"] == sorted(
        name for name in rows if name != "tiny.ipynb"
    )
    for lesson in catalogue():
        assert re.search(rf"\[{lesson.number} {lesson.title}\]\(\S+\) \| {lesson.minutes} \|", text)


def links_in(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    prose = "".join(source_of(cell) for cell in cells if cell["cell_type"] == "markdown")
    return [
        link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not link.startswith("attachment:")
    ]


def test_an_answer_and_its_check_may_share_a_cell() -> None:
    """The learner's cell asks; whoever else runs the answer, as given() does, hands nothing in."""
    cell = "# BEGIN SOLUTION 05.w1: four\nfour = 2, 42\n# END SOLUTION\ncheck('05.w1', four)"
    assert without_check(cell) == cell.rpartition("\n")[0]
    assert blanked(cell) == "# 05.w1 Your turn: four\nfour = ...\ncheck('05.w1', four)"
    for other in ("checked = check(1)", "check = 3", "print(check(1))", ""):
        assert without_check(other) == other
    cells = [c for path, _ in PAIRS for c in read_notebook(path)["cells"] if "code" in c.values()]
    sources = [source for source in map(source_of, cells) if without_check(source) != source]
    together = [gap.exercise for source in sources for gap in gaps_in(source)]
    assert "01.5" in together and len(together) > 1
    for exercise in {*together} - {"01.5"}:  # which is given a graph of its lesson's, too
        given(exercise)
        assert learned().record(exercise) == {"state": "given"}


def test_links_in_notebooks_lead_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the learner's notebook and from the solved one; and in the work folder, which is all
    that JupyterLab sees."""
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    notebooks.learners_copies(PAIRS[0][1])
    copies = sorted((tmp_path / "work").glob("*.ipynb"))
    assert len(copies) == len(PAIRS) + 1
    for path in (*(path for pair in PAIRS for path in pair), NOTEBOOKS / notebooks.INDEX, *copies):
        links = links_in(path)
        assert links
        for link in links:
            target, _, anchor = link.partition("#")
            assert (path.parent / target).is_file(), f"{path} links to {link}"
            assert not anchor or f"### {anchor.replace('-', ' ')}\n" in (
                path.parent / target
            ).read_text("utf-8").replace("-", " "), link


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_every_exercise_is_in_its_lesson_once(lesson: Any) -> None:
    (path,) = (solved for solved, _ in PAIRS if lesson_of(solved.stem) == lesson.number)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [source_of(cell) for cell in cells if cell["cell_type"] == "code"]
    prose = "\n".join(source_of(cell) for cell in cells if cell["cell_type"] == "markdown")
    assert f"# {lesson.number} {lesson.title}" in prose and f"*{lesson.minutes} minutes." in prose
    for item in lesson.items:
        call = "check" if isinstance(item, Exercise) else "predict"
        alone = [
            source
            for source in code
            if re.match(rf'{call}\("{item.name}"', source.splitlines()[-1])
        ]
        assert len(alone) >= 1, item.name
        if isinstance(item, Exercise):
            assert len(alone) == 1 and f"Exercise {item.name}" in prose
            asking = alone[0].splitlines()[-1]
            assert names_of_answers(asking) <= names_bound(reference(item.name).cell, code)
    asked = [
        name
        for source in code
        for name in re.findall(r'^predict\("(.*? again)", \.\.\.\)$', source, re.MULTILINE)
    ]
    assert asked == [later.name for later in asked_again_in(lesson)]
    known = {item.name for item in lesson.items}
    assert {gap.exercise for source in code for gap in gaps_in(source)} <= known
    large = [item.name for item in lesson.items if ".w" not in item.name]
    assert large == sorted(large, key=sort_key)


def typical_minutes(cell: Any) -> float:
    """Return how many minutes a learner needs for a cell of a solved lesson.

    They read 100 words a minute, need 9 seconds for a line of code, 4 minutes for an exercise and 6
    for a warm-up. These figures were fitted to the minutes that readers needed for fifteen lessons,
    which are between two thirds of the formula (lesson 00) and 1.4 times the formula (lesson 05).
    """
    source = source_of(cell)
    if cell["cell_type"] == "markdown":
        return len(source.split()) / 100
    exercises = re.findall(r'^check\("(\S+?)"', source, re.MULTILINE)
    return 0.15 * len(source.splitlines()) + sum(6 if ".w" in name else 4 for name in exercises)


def cells_of(lesson: Any) -> list[Any]:
    (path,) = (solved for solved, _ in PAIRS if lesson_of(solved.stem) == lesson.number)
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_the_minutes_are_those_of_what_there_is_to_do(lesson: Any) -> None:
    assert 0.65 <= lesson.minutes / sum(map(typical_minutes, cells_of(lesson))) <= 1.4


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_a_sitting_takes_fifty_minutes_at_most(lesson: Any) -> None:
    cells = cells_of(lesson)
    stops = [n for n, cell in enumerate(cells) if cell["id"].startswith("stop-")]
    ends = [0, *stops, len(cells)]
    times = [sum(map(typical_minutes, cells[first:last])) for first, last in pairwise(ends)]
    assert max(times) * lesson.minutes / sum(times) < 51
    ordinals, numbers = (
        ["first", "second", "third", "fourth"],
        ["one", "two", "three", "four", "five"],
    )
    sittings = numbers[len(stops)]
    assert (f"Take it in {sittings} sittings: " in source_of(cells[0])) is (len(stops) > 0)
    for stop, ordinal in zip(stops, ordinals, strict=False):
        assert source_of(cells[stop]).startswith(
            f"*A good place to stop: the {ordinal} of {sittings} sittings ends here.*"
        )


@pytest.mark.parametrize("path", [solved for solved, _ in PAIRS], ids=lambda path: path.stem)
def test_formulas_are_plain_text_that_reads_offline(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            assert not re.search(r"\$|\\\(|\\\[|\\[a-z]+\{", source_of(cell)), cell["id"]


@pytest.mark.parametrize("path", [target for _, target in PAIRS], ids=lambda path: path.stem)
def test_no_line_runs_out_of_its_cell(path: Path) -> None:
    """104 characters are what a cell of JupyterLab shows in a window of 1,280 pixels."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = [
        line
        for cell in cells
        if cell["cell_type"] == "code"
        for line in source_of(cell).splitlines()
    ]
    assert [line for line in lines if len(line) > 104] == []


def names_of_answers(call: str) -> set[str]:
    tree = ast.parse(call)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"check"}


def names_bound(cell: str, code: list[str]) -> set[str]:
    """What the gap's cell and those above it bind at their outer level."""
    names: set[str] = set()
    for source in code[: list(map(without_check, code)).index(cell) + 1]:
        for statement in ast.parse(source).body:
            names |= {
                n.id
                for n in ast.walk(statement)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            names |= {getattr(statement, "name", "")}
    return names


def test_the_minutes_of_words_md_are_written_where_learners_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS / "solutions", copies / "solutions")
    for file, target in (
        (NOTEBOOKS / "index.ipynb", copies),
        (NOTEBOOKS.parent / "README.md", tmp_path),
    ):
        shutil.copy(file, target)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", copies)
    assert minutes.write_minutes() == []  # README, the index and the lessons agree with words.md
    longer = [replace(lesson, minutes=lesson.minutes + 1) for lesson in catalogue()]
    monkeypatch.setattr(minutes, "catalogue", lambda: longer)
    assert len(minutes.write_minutes()) == len(longer) + 2
    readme = (tmp_path / "README.md").read_text("utf-8")
    for lesson in longer:
        assert f"| {lesson.number} {lesson.title} | {lesson.minutes} |" in readme
        (solved,) = copies.glob(f"solutions/{lesson.number}_*.ipynb")
        assert f'"*{lesson.minutes} minutes.' in solved.read_text("utf-8")
