"""Every place that tells the kit's code from the user's.

Errors, warnings, tracebacks and verdicts show the user's line, not one of the runtime or of the
course. The places are private functions of several modules; each test names its module.
"""

from __future__ import annotations

import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

import ipu_course
import ipu_teach
from ipu_course import check
from ipu_course.checking import time_limit, trial
from ipu_course.lesson15.beliefs import Belief
from ipu_teach import FLOAT, Graph, Input, IPUModel, Output, Vector, Vertex
from ipu_teach._support import elsewhere, own_code
from ipu_teach._support.tracebacks import _without_the_kits
from ipu_teach.compile import purity
from ipu_teach.errors import IPUTeachError
from ipu_teach.graph.source import caller
from ipu_teach.poplibs import popops
from ipu_teach.report import insights
from ipu_teach.report.compiled import sources

COURSE, RUNTIME = Path(ipu_course.__file__).parent, Path(ipu_teach.__file__).parent


class Double(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = 2 * self.x[i]


def module(name: str, source: str) -> Any:
    """A module of that name, as an import of such a file would make it."""
    made = types.ModuleType(name)
    exec(compile(source, f"<{name}>", "exec"), made.__dict__)
    return made


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("ipu_teach", True),
        ("ipu_teach.graph.tensor", True),
        ("ipu_course", True),
        ("ipu_course.lesson05.checks", True),
        ("__main__", False),
        ("ipu_teachers", False),  # a package of the user's that begins with the same letters
        ("ipu_course_2027.notes", False),
        ("", False),
        (None, False),
    ],
)
def test_both_packages_are_recognised_by_their_whole_names(name: Any, is_own: bool) -> None:
    assert own_code.is_own_module(name) is is_own


def test_both_packages_are_recognised_by_their_folders() -> None:
    assert own_code.is_own_file(str(COURSE / "checking" / "trial.py"))
    assert own_code.is_own_file(str(RUNTIME / "graph" / "tensor.py"))
    assert not own_code.is_own_file(str(RUNTIME.parent / "ipu_teachers" / "mine.py"))
    assert not own_code.is_own_file(__file__)


CALLS = "def call(inner):\n    return inner()\n"


@pytest.mark.parametrize("package", ["ipu_teach.new", "ipu_course.lesson99.checks"])
def test_a_line_is_that_of_the_user_below_the_kit(package: str) -> None:
    """graph/source.py: variables, compute sets, errors and warnings have the line of `caller`."""
    line = module(package, CALLS).call(caller)
    assert line[0] == __file__
    assert module("ipu_teachers", CALLS).call(caller)[0] == "<ipu_teachers>"


@pytest.mark.parametrize("package", ["ipu_teach.new", "ipu_course.lesson99.checks"])
def test_a_traceback_leaves_out_the_kits_frames(package: str) -> None:
    def fail() -> None:
        raise ValueError("the user's")

    try:
        module(package, CALLS).call(fail)
    except ValueError as error:
        shown = _without_the_kits(error.__traceback__)
    files = []
    while shown is not None:
        files.append(shown.tb_frame.f_code.co_filename)
        shown = shown.tb_next
    assert files == [__file__, __file__]


def test_an_error_in_an_answer_names_the_answers_line(tmp_path: Path) -> None:
    """quoting.line_of: neither the course's frames nor those of libraries."""
    file = tmp_path / "answer.py"
    file.write_text("def answer(work, bytes_in, bytes_out, sync):\n    return work[99]\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    text = " ".join(repr(check("01.1", names["answer"])).split())
    assert "error in the answer" in text and "answer.py, line 2" in text
    assert "ipu_course" not in text and "ipu_teach" not in text


def test_a_missing_argument_is_named_for_both_packages() -> None:
    """calling: how a function of the kit is called, found from the answer's own line."""

    def answer(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
        return popops.add()  # type: ignore[call-arg]

    text = " ".join(repr(check("01.1", answer)).split())
    assert "popops.add() was not given" in text and "call it as popops.add(graph" in text


def test_a_vertex_of_the_course_is_the_kits() -> None:
    """trial: estimates of one's own are refused in answers alone."""
    is_kits = trial._kits
    assert is_kits(Belief) and not is_kits(Double)
    mine = types.new_class("Mine", (), {}, lambda names: names.update(__module__="ipu_teachers.x"))
    assert not is_kits(mine)  # type: ignore[arg-type]


def test_what_an_answer_rebinds_is_put_back_in_both_packages() -> None:
    """time_limit: the names of both packages are watched; functions of both may stay."""
    is_learners = time_limit._learners
    assert not is_learners(check) and not is_learners(popops.add)
    assert is_learners(module)
    before = ipu_course.checking.bound.least_cycles  # type: ignore[attr-defined]

    def answer(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
        ipu_course.checking.bound.least_cycles = None  # type: ignore[attr-defined]
        ipu_teach.report.compare = None  # type: ignore[assignment]
        return 0

    kept = ipu_teach.report.compare
    check("01.1", answer)
    assert ipu_course.checking.bound.least_cycles is before  # type: ignore[attr-defined]
    assert ipu_teach.report.compare is kept


@pytest.mark.parametrize(
    ("name", "is_seen"), [("ipu_teach.new", False), ("ipu_course.new", False), ("mine", True)]
)
def test_a_codelet_is_followed_into_the_users_functions_alone(name: str, is_seen: bool) -> None:
    """compile/purity: whether a codelet draws random numbers, itself or in what it calls."""
    drawn = module(name, "import numpy as np\n\n\ndef noise():\n    return np.random.rand()\n")
    names: dict[str, Any] = {"noise": drawn.noise, "__name__": "mine"}
    exec("def compute(self):\n    return noise()\n", names)
    assert (purity.draws_from(names["compute"], Double) is purity.RANDOM) is is_seen


def test_a_library_shows_a_sentence_and_a_users_vertex_its_text() -> None:
    """report/compiled: the vertices of lesson 15 are answers, so their text is not shown."""
    ((name, said),) = sources(Belief)
    assert name == "Belief" and said == (
        "A variable, which sends each factor the sum of the prior and the other factors' messages."
    )
    assert "self.out[i] = 2 * self.x[i]" in sources(Double)[0][1]


def test_names_of_the_course_are_found_where_they_are() -> None:
    assert set(elsewhere.COURSE) == set(ipu_course.__all__)
    with pytest.raises(ImportError, match="write from ipu_course import predict"):
        from ipu_teach import predict  # type: ignore[attr-defined]  # noqa: F401


def test_snapshots_pass_by_the_kits_modules_and_torchs() -> None:
    names = ("ipu_teach.x", "ipu_course.x", "torch.nn", "os.path", "__main__", "ipu_teachers")
    users = [name for name in names if own_code.is_users_module(name)]
    assert users == ["__main__", "ipu_teachers"]


def test_advice_names_a_lesson_where_the_course_is_loaded() -> None:
    assert insights.LESSONS == {
        "supersteps": "lesson 01, Bulk synchronous parallel",
        "mapping": "lesson 02, Variables, mapping, programs",
    }
    done = run(
        "import sys, ipu_teach; from ipu_teach.report import insights; print(insights.LESSONS, "
        "any(name.startswith('ipu_course') for name in sys.modules))"
    )
    assert done.stdout.strip() == "{} False"


# --- the former place of the course ---------------------------------------------------------------


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_the_former_place_warns_once_with_the_users_line() -> None:
    done = run(
        "from ipu_teach.lessons import check\nfrom ipu_teach.lessons.lesson06 import two_reports\n"
        "from ipu_teach.lessons import hint, predict\nimport ipu_course\n"
        "assert check is ipu_course.check and hint is ipu_course.hint"
    )
    assert done.stderr.count("FutureWarning") == 1
    assert "<string>:1: FutureWarning: ipu_teach.lessons is now ipu_course" in done.stderr
    assert "write `from ipu_course import check`" in done.stderr


def test_the_former_place_has_all_that_notebooks_took_from_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        from ipu_course import starters
        from ipu_course.lesson06 import checks as lesson06
        from ipu_course.lesson13 import captures
        from ipu_course.lesson15 import beliefs
    assert lesson06.two_reports is ipu_course.lesson06.two_reports  # type: ignore[attr-defined]
    assert beliefs.Belief is Belief and callable(captures.captured) and callable(starters.take)


def test_an_error_of_the_runtime_called_by_the_course_has_the_users_line() -> None:
    """A vertex class in this file, connected wrongly by code of the course."""
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    x = graph.add_variable(FLOAT, (3,), "x")
    call = module("ipu_course.lesson99.checks", CALLS).call
    with pytest.raises(IPUTeachError) as caught:
        call(lambda: graph.set_tile_mapping(x, 99))
    assert "ipu_course" not in str(caught.value)
    with pytest.warns(RuntimeWarning) as warned:
        call(lambda: warn_from_the_kit())
    assert [(w.filename, str(w.message)) for w in warned] == [(__file__, "seen")]


def warn_from_the_kit() -> None:
    """A warning of the runtime is given at the line of `caller`, as engine and compiler do."""
    warnings.warn_explicit("seen", RuntimeWarning, *module("ipu_teach.new", CALLS).call(caller))
