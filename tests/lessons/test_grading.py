"""Grading: points for notebooks that run with limits, in a class of twelve made-up learners."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import graded_class
import pytest
from graded_class import EXPECTED, LESSON, STEM, TOTAL

from ipu_course import cli, given
from ipu_course.checking.gaps import read_notebook, source_of
from ipu_course.checking.learner_calls import Verdict
from ipu_course.checking.notebooks import lessons
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import Kind
from ipu_course.classroom import assignment
from ipu_course.classroom.grade_command import learners_of
from ipu_course.classroom.guard import Original
from ipu_course.classroom.points import points, share_of, weight

ROOT = Path(__file__).resolve().parents[2]
SECONDS = ("--seconds", "15")


def shortened(path: Path) -> dict[str, Any]:
    """Return the notebook of lesson 00 with the cells that the made-up learners keep."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"] = [c for c in notebook["cells"] if c.get("id") in graded_class.CELLS]
    return notebook


SOLVED = shortened(ROOT / "notebooks" / "solutions" / f"{STEM}.ipynb")
BLANK = shortened(ROOT / "notebooks" / f"{STEM}.ipynb")


def table(text: str) -> dict[str, dict[str, str]]:
    """Return the rows of a CSV file as {learner: row}."""
    return {row["learner"]: row for row in csv.DictReader(text.splitlines())}


# Points


def verdict(
    kind: Kind, budget: float = 0, yours: float = 0, unit: str = "modelled cycles"
) -> Verdict:
    return Verdict("", "", kind=kind, bars=Bars(budget, yours, unit) if budget else None)


@pytest.mark.parametrize(
    ("share", "found", "exercise"),
    [
        (1, verdict(Kind.PASSED), "01.2"),
        (1, verdict(Kind.PASSED, 100, 90), "01.2"),
        (0.5, verdict(Kind.NOT_YET, 100, 101), "01.2"),
        (0.5, verdict(Kind.NOT_YET, 100, 200), "01.2"),
        (0, verdict(Kind.NOT_YET, 100, 201), "01.2"),
        (0, verdict(Kind.NOT_YET, 100, 100), "01.2"),  # refused for another reason
        (0, verdict(Kind.NOT_YET, 2, 3, "supersteps"), "01.4"),
        (0, verdict(Kind.NOT_YET, 100, 125), "15.5"),
        (0, verdict(Kind.ERROR, 100, 150), "01.2"),
        (0, verdict(Kind.NOT_ATTEMPTED), "01.2"),
        (0, verdict(Kind.SHOWN), "01.2"),
        (0, verdict(Kind.UNJUDGED), "01.2"),
    ],
)
def test_the_share_of_the_points(share: float, found: Verdict, exercise: str) -> None:
    assert share_of(exercise, found) == share


def test_a_warm_up_is_worth_half_a_point() -> None:
    assert [weight(name) for name in ("01.w1", "07b.w2", "01.1", "07b.7")] == [0.5, 0.5, 1, 1]


def test_a_slow_answer_earns_half(capsys: pytest.CaptureFixture[str]) -> None:
    """The budget of 01.2 is 5 % above the rule of the longest first; in turn is within twice."""
    assert points("01.2", lambda jobs, tiles: [j % tiles for j in range(len(jobs))]) == 0.5
    assert points("01.2", lambda jobs, tiles: [0 for _ in jobs]) == 0
    assert points("01.w2", lambda load: load.index(min(load))) == 0.5
    assert "01.2 Rebalance the jobs: not yet" in capsys.readouterr().out


def test_the_reference_answer_earns_nothing() -> None:
    """`given` runs the reference answer in the names of the notebook."""
    answer = given("01.3")
    assert points("01.3", answer) == 0
    assert points("01.3", lambda work: answer(work)) == 1  # as a copy of its code does


# The class


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    (folder / "keep.txt").write_text("keep")
    graded_class.write(
        folder / "homes", SOLVED, BLANK, [str(folder / "keep.txt")], f"work/{STEM}.ipynb"
    )
    return folder / "homes"


@pytest.fixture(scope="module")
def rows(homes: Path) -> dict[str, dict[str, str]]:
    """Grade the class once, and return the rows of the CSV file."""
    words = ["grade", str(homes), "--csv", str(homes.parent / "grades.csv"), *SECONDS]
    assert cli.main(words) == 1
    content = (homes.parent / "grades.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")  # Excel and LibreOffice read it as UTF-8.
    return table(content.decode("utf-8-sig"))


@pytest.mark.slow
def test_every_learner_gets_the_points_they_earned(rows: dict[str, dict[str, str]]) -> None:
    assert {name: float(row["points"]) for name, row in rows.items()} == EXPECTED
    assert {float(row["of"]) for row in rows.values()} == {TOTAL}
    assert [rows["ada-2"][name] for name in ("00.w1", "00.1", "00.3", "00.4")] == [
        "0.5",
        "1",
        "0",
        "1",
    ]


@pytest.mark.slow
def test_the_remarks_say_what_happened(rows: dict[str, dict[str, str]]) -> None:
    remarks = {name: row["remarks"] for name, row in rows.items() if row["remarks"]}
    assert remarks.keys() == {"damaged", "endless", "not-begun", "patches"}
    assert remarks["not-begun"] == "there is no notebook"
    assert remarks["damaged"].startswith(f"{STEM}.ipynb is not a notebook: ")
    assert remarks["endless"] == "cell 9 was stopped after 3 s"
    assert remarks["patches"].startswith("cell 1 changed ")
    assert "ipu_course.checking.judging.judged" in remarks["patches"]


@pytest.mark.slow
def test_nothing_outside_the_folder_changes(rows: dict[str, dict[str, str]], homes: Path) -> None:
    assert (homes.parent / "keep.txt").read_text() == "keep"
    found = sorted(p.name for p in homes.rglob("*") if p.is_file())
    assert found == [f"{STEM}.ipynb"] * (len(EXPECTED) - 1)


ESCAPES = """
import ctypes, os, pathlib, shutil, socket, subprocess, sys
victim, home = pathlib.Path({victim!r}), {home!r}
readable, here = os.open(victim, os.O_RDONLY), os.open(".", os.O_RDONLY)
up = os.path.relpath(victim, os.path.realpath("."))
attempts = [
    lambda: os.fchmod(readable, 0), lambda: os.utime(readable), lambda: os.unlink(up, dir_fd=here),
    lambda: os.chmod(up, 0, dir_fd=here), lambda: os.mkdir("../../new", dir_fd=here),
    lambda: victim.write_text("gone"), lambda: victim.unlink(), lambda: victim.rename("here"),
    lambda: os.replace("notebook.ipynb", victim), lambda: victim.chmod(0), lambda: open(victim, "a"),
    lambda: os.open(victim, os.O_RDWR), lambda: os.truncate(victim, 0), lambda: os.utime(victim),
    lambda: os.symlink("/", pathlib.Path(home, "link")), lambda: os.mkdir(pathlib.Path(home, "new")),
    lambda: os.open(home, os.O_RDONLY), lambda: os.link(victim, "hard"), lambda: shutil.rmtree(home),
    lambda: subprocess.run(["true"]), lambda: os.system("true"), lambda: os.fork(),
    lambda: os.kill(os.getppid(), 9), lambda: ctypes.CDLL(None),
    lambda: ctypes.pythonapi.PyRun_SimpleString, lambda: socket.socket().connect(("127.0.0.1", 9)),
]
passed = []
for number, attempt in enumerate(attempts):
    try:
        attempt()
        passed.append(number)
    except PermissionError as error:
        if "A graded notebook may not do this" not in str(error):
            passed.append((number, str(error)))
pathlib.Path("own").mkdir()
pathlib.Path("own/file").write_text("mine")
os.chmod("own/file", 0o600)
shutil.rmtree("own")
assert not hasattr(os, "mkfifo") and not hasattr(sys.modules["posix"], "mknod")
assert len(attempts) == 26 and not passed, passed
"""
# The cells of the example in docs/grading.md.
PAGE = (ROOT / "docs" / "grading.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```python\n(.*?)\n```", PAGE, re.DOTALL)
OWN_TESTS = [
    ("# TEST a: 2 points\nassert answer == 42", 2.0),
    ("# TEST b: 2 points\nassert answer == 41", 0.0),
    ("# TEST c: 2 points\n1.5 if answer == 42 else 0", 1.5),
    ("# TEST d: 2 points\nescaped = True\n99", 2.0),
    ("# TEST e: 2 points\nanswer == 42", 2.0),
    ("# TEST f: 2 points\nanswer == 41", 0.0),
    ("# TEST g: 2 points\nimport numpy as np\nnp.int64(answer) == 41", 0.0),
    ("# TEST h: 2 points\nnp.int64(answer == 42)", 1.0),
    ("# TEST i: 2 points\nnp.array(0.5, np.float32)", 0.5),
    ("# TEST j: 2 points\nfloat('nan')", 0.0),
    ("# TEST k: 2 points\n-1", 0.0),
]
REASONS = """
own, b: AssertionError
own, c: the test gave 1.5 of 2 points
own, f: the last line of the test is False
own, g: the last line of the test is False
own, h: the test gave 1 of 2 points
own, i: the test gave 0.5 of 2 points
own, j: the test gave nan of 2 points
own, k: the test gave 0 of 2 points
"""


@pytest.mark.slow
def test_an_own_assignment_and_what_a_notebook_may_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instructor's own notebook becomes an assignment. Its tests are those of the assignment.

    The first learner's answers are right, but the second learner's are wrong or slow.
    """
    victim = tmp_path / "outside" / "victim"
    victim.parent.mkdir()
    victim.write_text("keep")
    escapes = ESCAPES.format(victim=str(victim), home=str(victim.parent))
    answer = "# BEGIN SOLUTION 50.1: the answer\nanswer = 42\n# END SOLUTION"
    sources = [answer, f"# TEST escapes: 1 point\n{escapes}", *(text for text, _ in OWN_TESTS)]
    sources += EXAMPLE
    own = tmp_path / "own.ipynb"
    cells = [graded_class.cell(source) for source in sources]
    own.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert cli.main(["assignment", str(own), "--course", str(tmp_path), "--release"]) == 0
    source = tmp_path / "source" / "own" / "own.ipynb"
    assert read_notebook(source)["cells"][0]["source"] == (
        "# 50.1 Your turn: the answer\nanswer = ...\n### BEGIN SOLUTION\nanswer = 42\n"
        "### END SOLUTION"
    )
    released = read_notebook(tmp_path / "release" / "own" / "own.ipynb")["cells"]
    assert released[0]["source"] == "# 50.1 Your turn: the answer\nanswer = ..."
    assert all("SOLUTION" not in source_of(cell) for cell in released)
    assert [c["source"] for c in released[1:12]] == sources[1:12]  # the tests are unchanged
    # The learner replaces the tests by tests that pass. They are not run.
    edited = json.loads(source.read_text(encoding="utf-8"))
    for cell in edited["cells"]:
        if assignment.grading_of(cell).get("grade"):
            cell["source"] = "pass"
    (tmp_path / "ada.ipynb").write_text(json.dumps(edited))
    slow = "[graph.set_tile_mapping(x[260 * i : 260 * i + 260], i) for i in range(5)]"
    text = json.dumps(edited).replace("poputil.map_tensor_linearly(graph, x)", slow)
    (tmp_path / "ben.ipynb").write_text(text.replace("-(-rows // tiles)", "rows // tiles"))
    # The third one's notebook needs 64 GB, sleeps, and ends its process before the last test.
    edited["cells"].insert(-1, graded_class.cell("import os\nos._exit(0)"))
    sleeps = graded_class.cell("import time\nwhile True:\n    time.sleep(0.1)")
    edited["cells"][:0] = [graded_class.cell("bomb = bytearray(1 << 36)"), sleeps]
    (tmp_path / "cleo.ipynb").write_text(json.dumps(edited))
    capsys.readouterr()
    files = [str(tmp_path / f"{name}.ipynb") for name in ("ada", "ben", "cleo")]
    words = ["--assignment", str(source), *SECONDS, "--csv"]
    assert cli.main(["grade", *files, *words]) == 1
    rows = table(capsys.readouterr().out)
    first, second = rows["cleo"].pop("remarks").split("; ")
    assert first == "cell 2 was stopped after 3 s"
    assert second.startswith(f"its process ended at cell {len(edited['cells']) - 1}: ")
    for row in rows.values():
        assert [float(row[name]) for name in "abcdefghijk"] == [number for _, number in OWN_TESTS]
        assert (row["escapes"], row.get("remarks", "")) == ("1", "")
    numbers = [(float(row["50.1"]), float(row["50.2"])) for row in rows.values()]
    assert numbers == [(1, 2), (0, 1), (1, 0)] and len(EXAMPLE) == 4
    words = ["grade", str(own), "--assignment", str(source), "--why", *SECONDS]
    assert cli.main(words) == 1
    assert capsys.readouterr().out.endswith("\n" + REASONS)
    assert victim.read_text() == "keep" and list(victim.parent.iterdir()) == [victim]


# Assignments


@pytest.mark.parametrize("path", lessons(solved=True), ids=lambda path: path.stem)
def test_a_lesson_becomes_an_assignment(path: Path) -> None:
    """Every check is in a test cell of its own, and the solved code is unchanged."""
    notebook = read_notebook(path)
    if not assignment.exercises_of(path.stem.partition("_")[0]):
        return
    made = assignment.assigned(notebook, path.name)
    tests = assignment.tests_of_notebook(made)
    expected = assignment.tests_of_lesson(path.stem.partition("_")[0])
    assert [(t.name, t.points, t.arguments) for t in tests] == [
        (t.name, t.points, t.arguments) for t in expected
    ]
    metas = [assignment.grading_of(cell) for cell in made["cells"]]
    identities = [meta["grade_id"] for meta in metas if meta]
    assert len(set(identities)) == len(identities)
    for cell, meta in zip(made["cells"], metas, strict=True):
        text = source_of(cell)
        assert ("### BEGIN SOLUTION" in text) == meta.get("solution", False)
        assert ("points(" in text) == meta.get("grade", False)
        assert "](../" not in text


ANSWER = "def f(x):\n    # BEGIN SOLUTION 50.1: x\n    return x\n    # END SOLUTION"
TEST = "# TEST 50.1: 1 point\nassert f(2) == 2"
WRITE = "write a first line such as # TEST 50.1: 1 point, with nothing above it."


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            [ANSWER, TEST, TEST],
            "own.ipynb has 2 tests with the name 50.1.\n"
            "  next:  give each test a name of its own, or write one test.\n",
        ),
        (
            [f"{TEST}\n{ANSWER}"],
            "The test 50.1 has its answer in the same cell.\n  where: own.ipynb\n"
            "  next:  write the answer and the test in two cells.\n",
        ),
        (
            [ANSWER, f"{TEST}\nassert (f(3) == 3"],
            "A cell of a solved notebook is not valid Python: '(' was never closed.\n"
            "  where: own.ipynb, the test 50.1, line 3\n  next:  correct the cell, and run it.\n",
        ),
        *(
            (
                [ANSWER, TEST, f"{above}{line}\nassert f(3) == 3"],
                f"The first line of a test is malformed: {line!r}.\n  where: own.ipynb\n"
                f"  next:  {WRITE}\n",
            )
            for above, line in (
                ("", "# Test 50.2: 1 point"),
                ("", "# TEST 50.2"),
                ("", "# TEST halo"),
                ("", "#TEST 50.2: 1 point"),
                ("", "# test halo: 1 pt"),
                ("", "# TEST 50.2: 1.2.3 points"),
                ("\n", "# TEST 50.2: 1 point"),
            )
        ),
    ],
)
def test_a_malformed_test_is_refused(
    cells: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.ipynb"
    content = {"cells": [graded_class.cell(source) for source in cells], "metadata": {}}
    own.write_text(json.dumps(content))
    assert cli.main(["assignment", str(own), "--course", str(tmp_path)]) == 2
    assert capsys.readouterr().err == message
    assert not (tmp_path / "source").exists()


def test_an_assignment_of_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["assignment", "nosuch.ipynb", "--course", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "There is no file 'nosuch.ipynb'.\n"
        "  next:  give the path of your notebook, or the number of a lesson.\n"
    )


def test_a_comment_about_a_test_is_no_test(tmp_path: Path) -> None:
    own = tmp_path / "own.ipynb"
    comment = "# Test your answer with 12 rows."
    cells = [graded_class.cell(source) for source in (ANSWER, comment, TEST)]
    own.write_text(json.dumps({"cells": cells, "metadata": {}}))
    assert cli.main(["assignment", str(own), "--course", str(tmp_path)]) == 0
    written = read_notebook(tmp_path / "source" / "own" / "own.ipynb")["cells"]
    assert [bool(assignment.grading_of(cell)) for cell in written] == [True, False, True]


def test_a_notebook_without_tests_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.ipynb"
    own.write_text(json.dumps({"cells": [graded_class.cell("1")], "metadata": {}}))
    assert cli.main(["assignment", str(own), "--course", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "own.ipynb has no tests.\n"
        "  next:  begin a cell with # TEST NAME: 1 point, and write an assert below it.\n"
    )
    assert not (tmp_path / "source").exists()


# The command


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["inbox/ada.ipynb", "inbox/ben.ipynb"], ["ada", "ben"]),
        (["s/ada/lesson00/00_x.ipynb", "s/ben/lesson00/00_x.ipynb"], ["ada", "ben"]),
        (["s/ada/work/00_x.ipynb", "s/ada/old/00_x.ipynb"], ["work", "old"]),
        (["ada.ipynb"], ["ada"]),
    ],
)
def test_the_learner_of_a_file(files: list[str], names: list[str]) -> None:
    assert learners_of([Path(file) for file in files]) == names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nowhere"],
            "There is no file or folder 'nowhere'.\n  next:  name the learners' notebooks, or the "
            "folder with their folders.\n",
        ),
        (
            ["homes", "--lesson", "99"],
            "Lesson 99 has no exercises to grade.\n",
        ),
        (
            ["homes"],
            "homes/ada has notebooks of several lessons: 00, 01.\n",
        ),
        (
            ["other.ipynb"],
            "None of the notebooks belongs to a lesson: none calls check().\n  next:  add --lesson "
            "01, or --assignment and the file of the assignment.\n",
        ),
        (
            ["homes", "--assignment", "other.ipynb"],
            "other.ipynb has no test cells.\n",
        ),
        (
            ["homes", "--assignment", "nosuch.ipynb"],
            "There is no file 'nosuch.ipynb'.\n  next:  name a file that `ipu-teach assignment` "
            "wrote.\n",
        ),
        (
            ["empty", "--lesson", "01"],
            "There is no learner in empty.\n  next:  give the folder that contains the learners' "
            "folders, or add --roster and a list of the class.\n",
        ),
        (
            ["empty", "--lesson", "01", "--roster", "other.ipynb"],
            "The list of the class lacks the columns id and name, or has no rows.\n",
        ),
    ],
)
def test_what_cannot_be_graded(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "homes" / "ada"
    home.mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("00_a", "01_b"):
        (home / f"{name}.ipynb").write_text(json.dumps({"cells": []}))
    (tmp_path / "other.ipynb").write_text(json.dumps({"cells": [graded_class.cell("1")]}))
    assert cli.main(["grade", *words]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_learner_of_the_roster_without_a_notebook_gets_no_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A learner who has a folder but is not in the list keeps the points, and gets a remark."""
    monkeypatch.chdir(tmp_path)
    for name in ("ada", "Ben"):
        (tmp_path / "homes" / name).mkdir(parents=True)
    names = "id,name\nada,Ada Ärmel\nben,Ben\ncleo,=Cleo\n"
    (tmp_path / "names.csv").write_text(names, encoding="utf-8")
    words = ["grade", "homes", "--lesson", "01", "--roster", "names.csv"]
    assert cli.main([*words, "--csv"]) == 1
    rows = table(capsys.readouterr().out)
    unlisted = "there is no notebook; this id is not in the list of the class"
    assert [(k, r["name"], r["points"], r["of"], r["remarks"]) for k, r in rows.items()] == [
        ("Ben", "", "0", "6", unlisted),
        ("ada", "Ada Ärmel", "0", "6", "there is no notebook"),
        ("ben", "Ben", "0", "6", "there is no notebook"),
        ("cleo", "'=Cleo", "0", "6", "there is no notebook"),
    ]
    assert {rows["cleo"][test.name] for test in assignment.tests_of_lesson("01")} == {"0"}
    assert cli.main(words) == 1
    learners = [line[:16].rstrip() for line in capsys.readouterr().out.splitlines()]
    assert learners == ["learner", "Ben", "Ada Ärmel (ada)", "Ben (ben)", "=Cleo (cleo)"]


def test_changes_to_the_kit_are_undone_and_reported() -> None:
    import numpy

    from ipu_course.checking import judging, learner_calls, naming
    from ipu_course.checking.exercise import find_exercise

    original = Original()
    assert original.restore() == []
    exercise = find_exercise("01.1", "check")
    before = (numpy.allclose, judging.judged, exercise.judge, naming.lesson_of.__code__)
    numpy.allclose = judging.judged = lambda *arguments: True  # type: ignore[assignment]
    learner_calls.Verdict.__bool__ = lambda self: True  # type: ignore[method-assign]
    naming.lesson_of.__code__ = (lambda name: "99").__code__
    object.__setattr__(exercise, "judge", None)
    learner_calls.SIGNS.clear()
    sys.modules["ipu_course.checking.judging"] = naming
    changed = set(original.restore())
    assert changed == {
        "numpy.allclose",
        "ipu_course.checking.judging.judged",
        "ipu_course.checking.judging",
        "ipu_course.checking.learner_calls.Verdict.__bool__",
        "ipu_course.checking.learner_calls.SIGNS",
        "ipu_course.checking.naming.lesson_of",
        "exercise 01.1",
    }
    after = (numpy.allclose, judging.judged, exercise.judge, naming.lesson_of.__code__)
    assert before == after and not Verdict("", "") and len(learner_calls.SIGNS) == 6
    assert original.restore() == []


# nbgrader itself


NBGRADER = os.environ.get("IPU_TEACH_NBGRADER") or (sys.executable if find_spec("nbgrader") else "")


# All points, a part of them, and none: for a change of the kit, for a damaged file, and for no file.
# `test_every_learner_gets_the_points_they_earned` has the others, graded by the same code.
FOR_NBGRADER = ("ada", "ada-2", "damaged", "not-begun", "patches")


@pytest.mark.thorough
@pytest.mark.skipif(not NBGRADER, reason="nbgrader is not installed: pip install nbgrader")
def test_nbgrader_gives_the_same_points(tmp_path: Path) -> None:
    """Generate, autograde and export with nbgrader. IPU_TEACH_NBGRADER may name another Python."""
    own = tmp_path / f"{STEM}.ipynb"
    own.write_text(json.dumps(SOLVED), encoding="utf-8")
    course = tmp_path / "course"
    assert cli.main(["assignment", str(own), "--course", str(course)]) == 0
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text() + f"c.GradeApart.seconds = {SECONDS[1]}\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join([str(Path(NBGRADER).parent), os.environ["PATH"]]),
    }

    def nbgrader(*words: str) -> None:
        command = [NBGRADER, "-m", "nbgrader", *words]
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)
        # The notebook of one learner is damaged, so autograding ends with an error after the others.
        assert done.returncode == (words[0] == "autograde"), done.stderr

    nbgrader("generate_assignment", STEM)
    notebook = f"{STEM}/{STEM}.ipynb"
    solved, blank = (json.loads((course / f / notebook).read_text()) for f in ("source", "release"))
    expected = {name: EXPECTED[name] for name in FOR_NBGRADER}
    victims = [str(own)]
    graded_class.write(course / "submitted", solved, blank, victims, notebook, expected)
    nbgrader("autograde", STEM)
    names = course / "names.csv"
    names.write_text("id,name\n" + "".join(f"{name},{name.title()}\n" for name in expected))
    nbgrader("db", "student", "import", "names.csv")
    nbgrader("export")
    with (course / "grades.csv").open() as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores == expected
    assert own.exists() and LESSON == "00"
