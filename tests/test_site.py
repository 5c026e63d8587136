"""What the site is made from: every page of docs in a list of pages, every public name in the
reference, answers folded, links as they are there. The site itself is built and looked at by
`python3 run.py test --browser-all`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.append(str(Path(__file__).parent / "lessons"))
import names
from site_names import LIBRARIES, is_defined_in, public_names, top_names

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "site"
REFERENCE = "\n".join(path.read_text("utf-8") for path in (SITE / "reference").glob("*.rst"))


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    for module in ("sphinx", "docutils"):
        pytest.importorskip(module, reason="the extra `docs` is missing: python3 run.py site")
    spec = importlib.util.spec_from_file_location("site_conf", SITE / "conf.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    spec.loader.exec_module(made)
    sys.path[:] = before
    return made


def test_every_page_stands_in_a_list_of_pages() -> None:
    lists = "\n".join(path.read_text("utf-8") for path in [ROOT / "index.md", *SITE.glob("*.md")])
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/gallery/*.md"), *SITE.glob("*.md")]
    pages += [
        ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
    ]
    names = [path.relative_to(ROOT).with_suffix("").as_posix() for path in pages]
    assert len(names) > 30
    missing = [name for name in names if not re.search(rf"^/?{name}$", lists, re.MULTILINE)]
    assert missing == [], "add it to docs/site/pages.md, class.md or kit.md"
    listed = re.findall(r"^   (\w+)$", (SITE / "reference" / "index.rst").read_text("utf-8"), re.M)
    assert {path.stem for path in (SITE / "reference").glob("*.rst")} == {*listed, "index"}


def test_every_public_name_has_a_place_in_the_reference() -> None:
    single = set(re.findall(r"^\.\. auto(?:class|function|data):: (\w+)$", REFERENCE, re.M))
    assert [n for n in top_names() if n not in single] == []
    whole = dict(re.findall(r"^\.\. automodule:: (\S+)\n((?: +:.*\n)*)", REFERENCE, re.M))
    for name in LIBRARIES:
        assert name in whole, name
        module = importlib.import_module(name)
        foreign = [n for n in public_names(module) if not is_defined_in(getattr(module, n), module)]
        assert not foreign or ":imported-members:" in whole[name], (name, foreign)


def test_an_answer_is_folded_below_the_gap_of_the_learners_lesson(conf: ModuleType) -> None:
    path = conf.LESSONS["00"]
    solved = json.loads(path.read_text("utf-8"))
    gaps = sum("# BEGIN SOLUTION" in "".join(cell["source"]) for cell in solved["cells"])
    made = conf.folded(solved)["cells"]
    learners = json.loads((ROOT / "notebooks" / path.name).read_text("utf-8"))["cells"]
    hidden = [n for n, cell in enumerate(made) if "hide-input" in cell["metadata"].get("tags", ())]
    assert len(hidden) == gaps >= 5
    for n in hidden:
        source = conf.names.source_of(made[n])
        assert "# BEGIN SOLUTION" in source and made[n - 1]["outputs"] == []
        assert made[n - 1]["source"] in [cell["source"] for cell in learners]
    shown = [cell for n, cell in enumerate(made) if n not in hidden]
    assert not any("SOLUTION" in conf.names.source_of(cell) for cell in shown)
    assert len({cell["id"] for cell in made}) == len(made)


def test_links_lead_to_where_things_are_on_the_site(conf: ModuleType) -> None:
    def made(docname: str, text: str) -> str:
        return str(conf.linked(docname, text))

    name = "05_matmul_optimisation.ipynb"
    assert (
        made("docs/a", f"[five](../notebooks/{name})") == f"[five](../notebooks/solutions/{name})"
    )
    assert made("notebooks/index", f"[5]({name})") == f"[5](../notebooks/solutions/{name})"
    assert made("docs/a", "[x](glossary.md#AMP)") == "[x](glossary.md#amp)"
    assert made("docs/glossary", "So. *Lesson 05*") == (
        f"So. [*Lesson 05*](../notebooks/solutions/{name})"
    )
    code = "[g](../ipu_teach/compile/__init__.py#compile_programs)"
    assert made("docs/inside", code) == "[g](code:ipu_teach/compile#compile_programs)"
    assert made("docs/a", "[a](b.md)") == "[a](b.md)"


@pytest.mark.parametrize(
    ("name", "lesson", "page"),
    [
        ("Graph", "00", ""),
        ("append", "", ""),  # of a list, all over the lessons
        ("Report", "", "docs/reports"),
        ("errors.InvalidTileMappingError", "02", ""),
        ("poplibs.popops.exp", "03", ""),
        ("poplibs.poprand.bernoulli", "03", ""),
        ("poplibs.popsparse.COOMatrix", "12", ""),
        ("schedules.pipeline", "10", ""),
        ("ipu_course.built", "01", ""),
        ("keras.Sequential", "13", "docs/frameworks"),
        ("poptorch.trainingModel", "13", "docs/frameworks"),
        ("show.numbers", "", "docs/gallery/README"),
    ],
)
def test_the_lesson_or_page_that_names_something_first(name: str, lesson: str, page: str) -> None:
    if name.startswith("poptorch"):
        pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    what = names.there(f"ipu_teach.{name}")
    assert what is not None and names.first_lesson(what) == lesson
    assert not page or names.first_page(what) == page


def test_no_lesson_calls_what_is_said_to_be_in_none_or_in_a_later_one() -> None:
    """By the text of the solved cells, in which a library has its own name."""
    path = names.PATHS["the whole path"]
    calls = [set(re.findall(r"\b(pop\w+|gcl|show)\.(\w+)\(", code_of(one))) for one in path]
    found = 0
    for library in LIBRARIES:
        short = library.rpartition(".")[2]
        for name in public_names(importlib.import_module(library)):
            called = next(
                (one for one, c in zip(path, calls, strict=True) if (short, name) in c), ""
            )
            first = names.first_lesson(names.there(f"{library}.{name}"))
            found += bool(called)
            assert not called or first and path.index(first) <= path.index(called), (name, called)
    assert found > 60


def code_of(lesson: str) -> str:
    """What the code cells of a solved lesson say."""
    cells = json.loads(names.path_of(lesson).read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_every_public_name_says_where_one_meets_it(conf: ModuleType) -> None:
    public = [*top_names()]
    for module in LIBRARIES:
        found = public_names(importlib.import_module(module))
        public += [f"{module}.{name}".removeprefix("ipu_teach.") for name in found]
    assert len(public) > 500 and [name for name in public if not conf.where(name)] == []
    assert conf.facts("schedules.recompute")[-1].startswith("| **First in** :doc:`/notebooks/")
    assert conf.facts("Report")[-1] == "| **In no lesson**; first on :doc:`/docs/reports`"
    assert conf.facts("poplibs.popops.tan")[-1] == "| **In no lesson**"
    assert "lesson" not in conf.where("Report.save") and conf.where("Tensor.shape") == ""


def test_a_docstring_gets_what_the_tables_know_of_its_name(conf: ModuleType) -> None:
    told = "\n".join(conf.facts("poplibs.popops.add"))
    assert "**C++** ``popops::add``" in told and "**Called** ``popops.add(graph, " in told
    assert conf.facts("poplibs.popops.add_in_place")[0] == "| **C++** ``popops::addInPlace``"
    assert conf.first_lesson("Graph.add_compute_set") == "01"
    assert conf.first_lesson("poplibs.popsparse.static.sparse_dense_mat_mul") == ""
    assert conf.first_lesson("Tensor.shape") == ""  # arrays have one, too
    assert conf.as_rest("a [n, *shape] |w| `x|y`s:\n\n    code()\n\nSo.") == (
        "a [n, \\*shape] \\|w\\| `x|y`\\ s:\n\n::\n\n    code()\n\nSo."
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nosuch"], "sphinx-build has no option --nosuch"),
        (["-v", "--not-a", "--not-b=1"], "sphinx-build has no option --not-a --not-b=1"),
        (["-D"], "argument --define/-D: expected one argument"),
        (["-j", "x"], "argument --jobs/-j: invalid jobs_argument value: 'x'"),
    ],
)
def test_an_unknown_option_is_refused_before_anything_is_removed(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sphinx", reason="the extra `docs` is missing: python3 run.py site")
    (tmp_path / "old.html").touch()
    command = runpy.run_path(str(SITE / "__main__.py"))["main"]
    assert command(words, tmp_path) == 2
    text, next_step, *rest = capsys.readouterr().err.splitlines()
    assert text.startswith(f"site: {message}") and rest == [] and "usage" not in text
    assert next_step.startswith("  next: see the options of sphinx-build: ")
    assert (tmp_path / "old.html").exists()
    assert command([*words, "--help"], tmp_path) == 0  # also with Sphinx's own option
    assert capsys.readouterr().out.startswith("python3 run.py site ")


@pytest.mark.parametrize("words", [["/etc/passwd"], ["-v", "docs"], ["-b", "html", "x"], [""]])
def test_a_word_that_is_no_option_is_refused_before_anything_is_removed(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.html").touch()
    command = runpy.run_path(str(SITE / "__main__.py"))["main"]
    assert command(words, tmp_path) == 2
    said = capsys.readouterr().err
    assert f"site: {words[-1]!r} is not an option of sphinx-build" in said and "next: " in said
    assert (tmp_path / "old.html").exists()
