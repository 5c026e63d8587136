"""How texts and names are measured, and that no file gets worse."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import language
import pytest
from language import Text

MOST_VAGUE = 0.01  # of all names that the packages bind
MOST_VAGUE_IN_A_PACKAGE = 0.02


def test_no_file_shows_more_signs_than_it_is_allowed() -> None:
    """`python3 run.py language lint --store` writes the table again once a file has fewer."""
    allowed = language.stored_hits()
    more = {
        file: f"{count} signs, allowed are {allowed.get(file, 0)}"
        for file, count in language.hits_by_file().items()
        if count > allowed.get(file, 0)
    }
    assert more == {}


def test_names_say_what_they_hold() -> None:
    """`python3 run.py language names` prints the share of each package."""
    bindings = list(language.bindings())
    total = Counter(binding.package for binding in bindings)
    vague = Counter(binding.package for binding in bindings if binding.name in language.VAGUE)
    assert vague.total() <= MOST_VAGUE * total.total()
    worse = {p: n for p, n in vague.items() if n > MOST_VAGUE_IN_A_PACKAGE * total[p]}
    assert worse == {}


@pytest.mark.parametrize(
    ("sign", "kind", "hard", "plain"),
    [
        ("dangling-comment", "comment", "of both, by rows", "The rows of both come first."),
        ("who-subject", "doc", "Who waits pays twice.", "A tile that waits pays twice."),
        ("what-subject", "doc", "The cost of what it needs is 1.", "What does it need?"),
        ("fronted-of", "doc", "Of these copies, the first is free.", "The first copy is free."),
        ("lies-stands", "error", "the tensor lies on tile 3", "the tensor is on tile 3"),
        ("so-many", "docstring", "Return so many rows.", "Return `count` rows."),
        ("is-said", "doc", "The size is told in bytes.", "The size is in bytes."),
        ("but-for", "doc", "All copies but for one run.", "All copies except one run."),
        ("she-her", "lesson", "The instructor runs her cell.", "The instructor runs the cell."),
        ("wrong-term", "lesson", "The deviation is 1.", "The standard deviation is 1."),
        ("colon-chain", "doc", "It is late now: it waited: it was sent.", "It waited: it is late."),
        ("what-docstring", "docstring", "Which tile is slow.", "Return the slow tile."),
        ("long-subject", "commit", "Say " + "why " * 20, "Say why"),
        ("long-sentence", "doc", "word " * 35, "word " * 30 + ". " + "word " * 30),
    ],
)
def test_each_sign_is_seen_where_it_is_and_only_there(
    sign: str, kind: str, hard: str, plain: str
) -> None:
    assert sign in language.signs(Text(kind, "a.py:1", hard))
    assert list(language.signs(Text(kind, "a.py:1", plain))) == []


def test_code_and_links_show_no_signs() -> None:
    words = "Call `lies(so many)`, see [the page](lies.md)."
    assert list(language.signs(Text("doc", "a.md:1", words))) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "ipu_teach").mkdir()
    (tmp_path / "ipu_teach" / "a.py").write_text(
        '"""Add numbers."""\n\n\ndef f(given: int) -> int:\n    "Return one more."\n'
        "    # first line\n    # of two\n    made = given + 1  # alone\n"
        "    if made > 9:\n        raise ValueError(f'f got {given}, which is too large')\n"
        "    return made\n\n\nclass C:\n    def g():\n        'Return none.'\n",
        "utf-8",
    )
    (tmp_path / "README.md").write_text("# Title\n\nA line\nand another.\n\n* A bullet.\n", "utf-8")
    return tmp_path


def test_examples_in_docstrings_are_left_out() -> None:
    doc = "Add.\n\n    x = 1\n    y = 2\n\n- a\n    wrapped item\n\nIt adds."
    assert language.without_code(doc) == "Add.\n\n[code].\n\n- a\n    wrapped item\n\nIt adds."


def test_texts_are_collected_with_kind_and_place(checkout: Path) -> None:
    assert list(language.texts(checkout)) == [
        Text("docstring", "ipu_teach/a.py:1", "Add numbers.", "module"),
        Text("docstring", "ipu_teach/a.py:4", "Return one more.", "def f(given: int) -> int"),
        Text("docstring", "ipu_teach/a.py:15", "Return none.", "def C.g()"),
        Text(
            "error",
            "ipu_teach/a.py:10",
            "f got {…}, which is too large",
            "raise ValueError(f'f got {given}, which is too large')",
        ),
        Text("comment", "ipu_teach/a.py:6", "first line of two", "made = given + 1  # alone"),
        Text("comment", "ipu_teach/a.py:8", "alone", "made = given + 1"),
        Text("doc", "README.md:3", "A line and another."),
        Text("doc", "README.md:6", "A bullet."),
    ]


def test_names_are_those_of_assignments_and_parameters(checkout: Path) -> None:
    assert [(b.line, b.name) for b in language.bindings(checkout)] == [(4, "given"), (8, "made")]


def test_since_a_commit_only_new_lines_count(checkout: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(checkout), *identity, *words], check=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "Begin")
    page = checkout / "README.md"
    page.write_text("The new line lies here.\n\n" + page.read_text("utf-8"), "utf-8")
    added = language.Added(checkout, "HEAD")
    new = [text.words for text in language.texts(checkout) if added.has_text(text)]
    assert new == ["The new line lies here."]
    assert not added.has_line("ipu_teach/a.py", 4)
