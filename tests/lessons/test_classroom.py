"""A class: who is where, what stops most, the ladder, the page, and room for a second group."""

from __future__ import annotations

import csv
import http.client
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipu_course import cli, progress
from ipu_course.checking.exercise import catalogue
from ipu_course.checking.learner_calls import check, share
from ipu_course.checking.state import FILE
from ipu_course.classroom import ladder, replay, serve
from ipu_course.classroom.board import hurdles, tables, text
from ipu_course.classroom.plans import plan_of
from ipu_course.classroom.roster import called, listed

BALANCE = "01.2"  # an exercise with a cost


def record(state: str, refused: int = 0, why: str = "", **more: Any) -> dict[str, Any]:
    said = {why: refused} if why else {}
    return {
        "state": state,
        "attempts": refused + (state == "solved"),
        "kinds": {"not yet": refused},
        "said": said,
        **more,
    }


@pytest.fixture
def learner(tmp_path: Path) -> Callable[..., Path]:
    """Write the progress of a learner into the homes of a class."""

    def write(folder: str, records: object, **more: object) -> Path:
        work = tmp_path / "homes" / folder / "kit" / "work"
        work.mkdir(parents=True)
        (work / FILE).write_text(
            json.dumps({"format": 1, "records": records, **more}), encoding="utf-8"
        )
        return work

    return write


@pytest.fixture
def homes(tmp_path: Path, learner: Callable[..., Path]) -> str:
    learner(
        "ada",
        {
            "00.0": {"prediction": [1]},
            "00.1": record("solved", 1, "a MB is no MiB."),
            "01.1": record("not yet", 1),
        },
    )
    learner("ben", {"00.1": record("not yet", 4, "a MB is no MiB.")})
    learner(
        "u3",
        {"00.1": record("solved"), "00.3": record("not yet", 3, "the rest was left.")},
        name="Cleo",
    )
    return str(tmp_path / "homes")


def test_who_is_where(homes: str) -> None:
    (caption, heads, rows), *_ = tables(called([homes]))
    assert caption == "3 learners, 2 stuck (refused 3 times, and open still)"
    assert heads == ("learner", "00", "01", "is at", "stuck", "last try")
    assert [row[:-1] for row in rows] == [
        ("ada", "1 of 4", "0 of 7", "01.1", ""),
        ("ben", "0 of 4", "–", "00.1", "00.1 (4 times)"),
        ("Cleo", "1 of 4", "–", "00.3", "00.3 (3 times)"),
    ]
    assert {row[-1] for row in rows} == {"just now"}


def test_a_learner_without_progress_is_listed(homes: str, learner: Callable[..., Path]) -> None:
    """Also a learner with a damaged file, and one of the list of the class without a folder."""
    Path(homes, "dan").mkdir()
    Path(homes, ".cache").mkdir()
    learner("eva", {}).joinpath(FILE).write_text("{", encoding="utf-8")
    names = Path(homes).parent / "names.csv"
    names.write_text("\ufeffid;name\nada;Ada Ärmel\ndan;Dan Ö.\nfay;Fay\nben;\n", encoding="utf-8")
    roster = called([homes], listed(names))
    (caption, _, rows), *_ = tables(roster)
    assert caption.startswith("3 learners, 2 stuck (") and caption.endswith(
        "; 3 without readable progress"
    )
    assert [row[0] for row in rows] == [
        "Ada Ärmel",
        "ben",
        "Cleo",
        "eva",
        "Dan Ö. (dan)",
        "Fay (fay)",
    ]
    assert [row[-1] for row in rows[3:]] == ["damaged", "not begun", "no folder"]


def test_a_class_in_which_nobody_has_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ben", "ada"):
        (tmp_path / name / "kit" / "work").mkdir(parents=True)
    assert cli.main(["class", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "None of 2 learners has readable progress yet\n"
        "  learner  is at  stuck  last try\n"
        "  ada      –             not begun\n"
        "  ben      –             not begun\n"
    )
    assert cli.main(["class", str(tmp_path), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["id"], row["learner"], row["state"], row["points"]) for row in rows] == [
        ("ada", "ada", "not begun", "0"),
        ("ben", "ben", "not begun", "0"),
    ]
    assert cli.main(["class", str(tmp_path), "--csv", "--plan", "00.3,00.4"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["id"], row["exercise"], row["points"]) for row in rows] == [
        (name, exercise, "0") for name in ("ada", "ben") for exercise in ("00.3", "00.4")
    ]
    assert cli.main(["class", str(tmp_path), "--ladder"]) == 0


def test_two_learners_of_one_name_keep_their_ids(
    learner: Callable[..., Path], tmp_path: Path
) -> None:
    for folder in ("u2", "u1"):
        learner(folder, {"00.1": record("solved")}, name="Ada")
    other = tmp_path / "other" / "u1" / "work"
    other.mkdir(parents=True)
    (other / FILE).write_text('{"format": 1, "records": {}, "name": "Zoe"}', encoding="utf-8")
    roster = called([str(tmp_path / "homes")])
    assert [(one.id, one.name) for one in roster.learners] == [
        ("u1", "Ada (u1)"),
        ("u2", "Ada (u2)"),
    ]
    both = called([str(tmp_path / "homes"), str(tmp_path / "other")])
    assert [one.id for one in both.learners] == ["homes/u1", "u2", "other/u1"]
    assert both.absent == ()


def test_a_plan_is_the_denominator(homes: str, capsys: pytest.CaptureFixture[str]) -> None:
    (_, heads, rows), *_ = tables(called([homes]), plan=plan_of("half-day"))
    assert heads[1:3] == ("00", "01")
    assert [row[1:3] for row in rows] == [("1 of 2", "0 of 4"), ("0 of 2", "–"), ("1 of 2", "–")]
    Path(homes, "dan").mkdir()
    assert cli.main(["class", homes, "--csv", "--plan", "00.3,01"]) == 0
    rows_of_file = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows_of_file) == 4 * (1 + 7)
    first, last = rows_of_file[0], rows_of_file[-1]
    assert (first["id"], first["exercise"], first["state"], first["points"]) == (
        "ada",
        "00.3",
        "not tried",
        "0",
    )
    titles = {item.name: item.title for lesson in catalogue() for item in lesson.exercises}
    assert first["title"] == titles["00.3"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", first["date"])
    assert (last["id"], last["state"], last["points"]) == ("dan", "not begun", "0")


def test_a_plan_that_is_none(homes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["class", homes, "--plan", "00,nosuch"]) == 2
    assert capsys.readouterr().err == (
        "--plan was given 'nosuch', which is no timetable, lesson or exercise.\n"
        "  next:  give ninety-minutes, half-day, or lessons and exercises: 00,01,04.1.\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "The list of the class cannot be read: No such file or directory.\n"),
        (b"\xff", "The list of the class cannot be read: not UTF-8.\n"),
        (b"", "The list of the class lacks the columns id and name, or has no rows.\n"),
        (
            b"id,mail\na,b\n",
            "The list of the class lacks the columns id and name, or has no rows.\n",
        ),
    ],
)
def test_a_list_that_is_none(
    content: bytes | None,
    message: str,
    homes: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "names.csv"
    if content is not None:
        file.write_bytes(content)
    assert cli.main(["class", homes, "--roster", str(file)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(message) and f"where: {file}" in shown and "  next:  " in shown


def test_a_refusal_always_has_a_reason(fresh_desk: Path) -> None:
    check(BALANCE, lambda jobs, tiles: 0)
    roster = called([str(fresh_desk)])
    (row,) = hurdles(roster)
    assert row.reason and row.times == 1
    assert tables(roster)[1][2][0][-1] == f"{row.reason} (1)"


def test_the_answers_of_a_lesson_as_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["handout", "01"]) == 0
    page = (tmp_path / "01_bulk_synchronous_parallel.answers.html").read_text(encoding="utf-8")
    (lesson,) = (known for known in catalogue() if known.number == "01")
    assert re.findall(r"<h2>([\w.]+) ", page) == [item.name for item in lesson.exercises]
    assert "tile = load.index(min(load))" in page and "SOLUTION" not in page
    assert "def superstep_cycles(" in page and "<script" not in page and "http" not in page
    assert cli.main(["handout", "tiny"]) == 2
    assert "tiny has no exercises" in capsys.readouterr().err
    assert cli.main(["handout", "01", "--html", "/nosuch/x.html"]) == 2
    assert "The answers cannot be written to /nosuch/x.html" in capsys.readouterr().err


def test_what_stops_most_comes_first_with_its_most_frequent_reason(homes: str) -> None:
    first, second, third = hurdles(called([homes]))
    assert (first.exercise.name, first.tried, first.solved, first.stuck, first.attempts) == (
        "00.1",
        3,
        2,
        1,
        1.5,
    )
    assert (first.reason, first.times) == ("a MB is no MiB.", 5)
    assert (second.exercise.name, second.stuck, third.exercise.name, third.stuck) == (
        "00.3",
        1,
        "01.1",
        0,
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(10, "just now"), (330, "5 min ago"), (3 * 3600, "3 h ago"), (5 * 86400 + 60, "5 days ago")],
)
def test_how_long_ago_the_last_try_was(homes: str, seconds: float, said: str) -> None:
    then = time.time() - seconds
    os.utime(Path(homes, "ben", "kit", "work", FILE), (then, then))
    assert {row[0]: row[-1] for row in tables(called([homes]))[0][2]}["ben"] == said


def test_files_that_were_sent_in_are_named_by_their_names(
    tmp_path: Path, learner: Callable[..., Path]
) -> None:
    work = learner("ada", {"00.1": record("solved")})
    (tmp_path / "dan.json").write_bytes((work / FILE).read_bytes())
    (tmp_path / "notes.json").write_text("[1, 2]", encoding="utf-8")  # some other file
    names = [one.name for one in called([str(tmp_path)]).learners]
    assert names == ["dan", "homes"]  # the folder below the one that was given
    assert [one.name for one in called([str(work)]).learners] == ["kit"]
    assert [
        one.name for one in called([str(work / FILE), str(tmp_path / "dan.json")]).learners
    ] == ["dan", "progress"]
    # one file, however it is reached
    assert len(called([str(work), str(work / FILE)]).learners) == 1


def test_two_of_one_name_are_told_apart(learner: Callable[..., Path], tmp_path: Path) -> None:
    learner("a", {}, name="Sam")
    learner("b", {}, name="Sam")
    assert [one.name for one in called([str(tmp_path / "homes")]).learners] == [
        "Sam (a)",
        "Sam (b)",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"format": 1, "records": 3}',
        b"[" * 100_000,
        b'{"format": 1, "records": {"a": NaN}}',
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(homes: str, content: bytes) -> None:
    file = Path(homes, "ben", "kit", "work", FILE)
    file.write_bytes(content)
    roster = called([homes])
    assert [one.name for one in roster.learners] == ["ada", "Cleo"] and roster.unread == (
        (file, "damaged"),
    )
    assert file.read_bytes() == content and len(list(file.parent.iterdir())) == 1
    assert "Could not be read, and was left as it is" in text(tables(roster))


ODD: list[dict[str, Any]] = [
    {"00.1": 7, "00.2": None, "99.9": {"state": "solved"}},
    {
        "00.1": {
            "state": ["solved"],
            "attempts": -3,
            "kinds": [],
            "said": {"x": "y"},
            "shared": {"line": 4},
            "hints": 1e99,
        }
    },
    {"00.1": {"state": "not yet", "kinds": {"not yet": 10**30}, "said": {"\x1b[31mred\n": 2}}},
    {BALANCE: {"shared": {"line": "\x00", "code": ""}}},
]


@pytest.mark.parametrize("records", ODD)
def test_what_was_edited_by_hand_does_no_harm(
    learner: Callable[..., Path], tmp_path: Path, records: object
) -> None:
    learner("ada\x1b[2J", records, name="<b>\x07Ada" + "a" * 99)
    roster = called([str(tmp_path / "homes")])
    shown = text(tables(roster, ladder.climbed(roster)))
    assert not re.search("[\x00-\x09\x0b-\x1f]", shown) and len(roster.learners[0].name) == 60
    assert "<b>" in shown


def test_a_table_for_a_spreadsheet(
    homes: str, learner: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    learner("=1+1", {"00.1": record("solved", hints=2)})
    assert cli.main(["class", homes, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["learner"] for row in rows] == ["'=1+1", "ada", "ada", "ben", "Cleo", "Cleo"]
    assert (rows[0]["state"], rows[0]["attempts"], rows[0]["hints"], rows[3]["refusals"]) == (
        "solved",
        "1",
        "2",
        "4",
    )


def test_the_command_prints_the_tables(homes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["class", homes]) == 0
    printed = capsys.readouterr().out
    assert (
        "3 learners, 2 stuck" in printed
        and "What stops most people" in printed
        and "a MB is no MiB. (5)" in printed
    )


def test_a_folder_without_learners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A learner's own folder, which contains only a work folder, also has no learners' folders."""
    (tmp_path / ".cache").mkdir()
    (tmp_path / "before-20260101-000000").mkdir()
    (tmp_path / "ada" / "work").mkdir(parents=True)
    (tmp_path / "ada" / ".local").mkdir()
    for folder in (tmp_path / ".cache", tmp_path / "before-20260101-000000", tmp_path / "ada"):
        for more in ([], ["--csv"], ["--ladder"]):
            assert cli.main(["class", str(folder), *more]) == 2
            assert capsys.readouterr().err == (
                f"There is no learner's folder and no progress in {folder}.\n"
                "  next:  give the folder that contains the learners' folders.\n"
            )
    assert cli.main(["class", str(tmp_path)]) == 0
    assert "ada" in capsys.readouterr().out
    assert cli.main(["class", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert "There is no folder" in said and "give existing folders or progress files." in said


# --- names and the ladder -------------------------------------------------------------------------


def test_a_learner_gives_a_name(fresh_desk: Path) -> None:
    progress(name=" Ada Lovelace ")
    assert [one.name for one in called([str(fresh_desk)]).learners] == ["Ada Lovelace"]


@pytest.mark.parametrize("name", ["", " ", "two\nlines", 7, "x" * 61])
def test_what_is_no_name(fresh_desk: Path, name: Any) -> None:
    from ipu_teach.errors import LessonError

    with pytest.raises(
        LessonError, match=r"was given the name[\s\S]*give one line of text, at most 60 characters"
    ):
        progress(name=name)


def test_running_again_says_whose_turn_it_is_on_a_terminal_alone(
    fresh_desk: Path, tmp_path: Path, learner: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    learner("ada", {BALANCE: record("solved", shared={"line": "01.1", "code": ""})})

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, words in ((Terminal(), "runs again: 01.2 of ada"), (io.StringIO(), "")):
        monkeypatch.setattr("sys.stderr", screen)
        assert cli.main(["class", "--ladder", str(tmp_path / "homes")]) == 0
        assert words in screen.getvalue() and bool(screen.getvalue()) == bool(words)


def shared(desk: Path, answer: Any) -> dict[str, str]:
    """The line and the code that a desk keeps of an answer that passed and was shared."""
    assert check(BALANCE, answer)
    share(BALANCE)
    records = json.loads((desk / FILE).read_text(encoding="utf-8"))["records"]
    return dict(records[BALANCE]["shared"])


def test_shared_answers_are_run_again_before_they_count(
    fresh_desk: Path,
    tmp_path: Path,
    learner: Callable[..., Path],
    solution: Callable[[str], tuple[Any, ...]],
) -> None:
    kept = shared(fresh_desk, *solution(BALANCE))
    cost = re.findall(r"^01\.2 (\d+) modelled cycles", kept["line"])[0]
    learner("ada", {BALANCE: record("solved", shared=kept)})
    learner(
        "boaster",
        {BALANCE: record("solved", shared=kept | {"line": kept["line"].replace(cost, "1")})},
    )
    learner(
        "other",
        {
            BALANCE: record(
                "solved",
                shared={"line": kept["line"].replace("01.2", "01.1"), "code": kept["code"]},
            )
        },
    )
    learner(
        "ended",
        {
            BALANCE: record(
                "solved", shared=kept | {"code": "def f(jobs, tiles):\n    raise SystemExit"}
            )
        },
    )
    learner(
        "helped",
        {
            BALANCE: record(
                "solved", shared=kept | {"code": "def f(jobs, tiles):\n    return helper(jobs)"}
            )
        },
    )
    rungs = ladder.climbed(called([str(tmp_path / "homes")]))
    assert [(rung.name, rung.holds) for rung in rungs][0] == ("ada", True) and sum(
        rung.holds for rung in rungs
    ) == 1
    why = {rung.name: rung.why for rung in rungs}
    assert (
        f"the line has 1 modelled cycles, but this answer has {cost} modelled cycles"
        in why["boaster"]
    )
    assert (
        why["other"] == "the line is one of 01.1"
        and why["helped"] == "its code needs helper, of another cell"
    )
    assert "does not pass" in why["ended"]


def test_what_a_replay_says_is_one_line(
    fresh_desk: Path,
    solution: Callable[[str], tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = shared(fresh_desk, *solution(BALANCE))
    capsys.readouterr()
    said = []
    for line, code in (
        (kept["line"], kept["code"]),
        (kept["line"], "print('loud')\n" + kept["code"]),
        (kept["line"], "1 / 0"),
        ("01.2", kept["code"]),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps([line, code])))
        replay.main()
        (answered,) = capsys.readouterr().out.splitlines()
        said.append(json.loads(answered))
    assert said == [
        "",
        "",
        "ZeroDivisionError when it was run",
        "'01.2' is not a line that share() returned.",
    ]


def test_a_replay_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "LIMIT", 0.01)
    assert (
        ladder._replay("01.2 1 x, digest 000000000000, code 000000000000", "0")
        == "no end within 0 seconds"
    )


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def page() -> Iterator[int]:
    server = serve.ThreadingHTTPServer(
        (serve.HOST, 0), serve._handler(lambda: "<p>who is where</p>")
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def got(port: int, path: str, host: str = "localhost") -> tuple[int, str]:
    connection = http.client.HTTPConnection(serve.HOST, port, timeout=10)
    connection.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_the_page_shows_the_tables_and_can_be_paused(page: int) -> None:
    status, body = got(page, "/")
    assert (
        status == 200
        and "<p>who is where</p>" in body
        and 'id="pause"' in body
        and 'lang="en"' in body
    )
    assert got(page, "/table") == (200, "<p>who is where</p>")


def test_the_page_is_for_this_machine_alone(page: int) -> None:
    assert got(page, "/", "elsewhere.example")[0] == 403 and got(page, "/../etc/passwd")[0] == 404


def test_a_port_that_is_taken(page: int, homes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["class", homes, "--serve", "--port", str(page)]) == 2
    said = capsys.readouterr().err
    assert f"cannot be served at port {page}" in said and "give another port" in said
    assert cli.main(["class", homes, "--serve", "--port", "99999"]) == 2
    assert ".." not in capsys.readouterr().err


def test_a_long_reason_ends_at_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ipu_course.checking import learner_calls

    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "ada"))
    monkeypatch.setattr(learner_calls, "LONGEST_REASON", 30)
    check("01.1", lambda work, bytes_in, bytes_out, sync: sum(work))
    (reason,) = called([str(tmp_path)]).learners[0].reasons("01.1")
    assert reason.endswith(" …") and len(reason) <= 30


def test_the_page_waits_for_the_first_learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(
        "ipu_course.classroom.command.serve",
        lambda body, port: shown.append(serve.table(body)) or 0,
    )
    assert cli.main(["class", str(tmp_path), "--serve"]) == 0
    assert "There is no learner" in shown[0]
    (tmp_path / "ada").mkdir()
    assert cli.main(["class", str(tmp_path), "--serve"]) == 0
    assert "None of 1 learner has readable progress yet" in shown[1] and "not begun" in shown[1]
    assert cli.main(["class", str(tmp_path / "nowhere"), "--serve"]) == 2


def test_names_in_the_page_are_escaped(learner: Callable[..., Path], tmp_path: Path) -> None:
    from ipu_course.classroom.board import html

    learner("a", {"00.1": record("not yet", 1, "<script>")}, name="<img src=x>")
    found = html(tables(called([str(tmp_path / "homes")])))
    assert "<img" not in found and "<script" not in found and "&lt;img src=x&gt;" in found


# --- a second group -------------------------------------------------------------------------------


def test_a_fresh_start_sets_aside_and_throws_nothing_away(
    homes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Path(homes, "ada", "kit", "work")
    (work / "01_mine.ipynb").write_text("mine", encoding="utf-8")
    (work / ".jupyter").mkdir()
    before = (work / FILE).read_bytes()
    assert cli.main(["class", homes, "--fresh"]) == 0
    assert (
        "nothing was moved; --yes sets aside the work of 3 learners" in capsys.readouterr().out
        and (work / FILE).exists()
    )
    assert cli.main(["class", homes, "--fresh", "--yes"]) == 0
    (aside,) = work.glob("before-*")
    assert sorted(path.name for path in work.iterdir()) == [".jupyter", aside.name]
    assert (aside / FILE).read_bytes() == before and (aside / "01_mine.ipynb").read_text(
        encoding="utf-8"
    ) == "mine"
    capsys.readouterr()
    assert cli.main(["class", homes]) == 0  # a new group has done nothing yet
    assert capsys.readouterr().out.count("not begun") == 3
    assert cli.main(["class", homes, "--fresh", "--yes"]) == 2
    assert "There is no progress of any learner" in capsys.readouterr().err


# --- what comes from others -----------------------------------------------------------------------


def test_a_state_that_is_none_reaches_nothing(
    learner: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner("eve", {"00.1": record("=HYPERLINK(1)\n\x1b[2J")}, name="Eve\x1b[31m")
    learner("bad\x1b[2J", {}).joinpath(FILE).write_text("{", encoding="utf-8")
    for more in (["--csv"], [], ["--fresh"]):
        assert cli.main(["class", str(tmp_path / "homes"), *more]) == 0
        said = capsys.readouterr().out
        assert "HYPERLINK" not in said and "\x1b" not in said and said


def test_what_she_works_on(learner: Callable[..., Path], tmp_path: Path) -> None:
    last = [item.name for lesson in catalogue() for item in lesson.items][-1]
    for name, records, at in (
        ("tries", {"00.1": record("not yet", 1)}, "00.1"),
        ("solved", {"00.1": record("solved")}, "00.2"),
        ("guessed", {"00.0": {"prediction": [1]}}, "00.1"),
        ("went on", {"00.1": record("not yet", 1), "00.2": record("given")}, "00.w1"),
        ("begins", {}, ""),
        ("ends", {last: record("solved")}, ""),
    ):
        learner(name, records)
        assert {one.name: one.at for one in called([str(tmp_path / "homes")]).learners}[name] == at


def test_a_table_in_a_file_has_the_mark_that_excel_needs(
    homes: str, learner: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner("zoë", {"00.1": record("solved")})
    file = tmp_path / "day1.csv"
    assert cli.main(["class", homes, "--csv", str(file)]) == 0
    assert file.read_bytes().startswith(b"\xef\xbb\xbfid,learner,") and "zoë" in file.read_text(
        "utf-8"
    )
    ours = str(next(Path(homes).rglob(FILE)))
    before = Path(ours).read_bytes()
    for given, said in ((ours, "does not end in .csv"), (f"{homes}/no/x.csv", "could not be")):
        assert cli.main(["class", homes, "--csv", given]) == 2
        assert said in capsys.readouterr().err
    assert Path(ours).read_bytes() == before


def test_the_folder_may_stand_after_csv(homes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["class", homes, "--csv"]) == 0
    rows = capsys.readouterr().out
    assert cli.main(["class", "--csv", homes]) == 0
    assert capsys.readouterr() == (rows, "") and rows.count("\n") > 1
    for words in (["class"], ["class", "--csv", "day1.csv"]):
        with pytest.raises(SystemExit, match="2"):
            cli.main(words)
        assert "which FOLDER has the learners' folders?" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--ladder"], ["--csv"], ["--fresh"]], ids=str)
@pytest.mark.parametrize(
    "spoken",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["cp1252", "C"],
)
def test_names_of_any_letters_are_printed_where_the_system_knows_few(
    learner: Callable[..., Path], tmp_path: Path, more: list[str], spoken: dict[str, str]
) -> None:
    learner("яна", {"00.1": record("not yet", 4, "long " * 40)}, name="Яна")
    command = [sys.executable, "-m", "ipu_teach", "class", str(tmp_path / "homes"), *more]
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    env = kept | {"PYTHONPATH": str(Path(__file__).parents[2]), **spoken}
    done = subprocess.run(command, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert ("яна" if more == ["--fresh"] else "Яна") in done.stdout.decode("utf-8")


def test_a_terminal_that_cannot_show_a_letter_shows_another(
    homes: str, learner: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    learner("яна", {"00.1": record("solved")})
    shown = io.BytesIO()
    monkeypatch.setattr("sys.stdout", screen := Terminal(shown, "cp1252"))
    assert cli.main(["class", homes]) == 0
    screen.flush()
    assert screen.encoding == "cp1252" and b"???" in shown.getvalue()


def test_the_ladder_says_which_lines_carry_no_cost(
    homes: str, learner: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["class", homes, "--ladder"]) == 0
    assert "The ladder is empty: nobody has called share() yet" in capsys.readouterr().out
    line = "01.1 digest 000000000000, code 000000000000"
    learner("dora", {"01.1": record("solved", shared={"line": line, "code": "0"})})
    assert cli.main(["class", homes, "--ladder"]) == 0
    assert "1 line carries no cost, and so no place on it: 01.1 of dora" in capsys.readouterr().out


def test_an_answer_sees_no_secret_and_leaves_nobody_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEACHERS_TOKEN", "secret")
    seen, pid = tmp_path / "seen", tmp_path / "pid"
    spawn = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid"
    program = f"""
import os, subprocess, sys
open({str(seen)!r}, "w").write(repr(dict(os.environ)))
open({str(pid)!r}, "w").write(str({spawn}))
"""
    monkeypatch.setattr(ladder, "LIMIT", 30.0)
    begun = time.monotonic()
    assert ladder._replay("01.2 1 x, digest 000000000000, code 000000000000", _code(program))
    assert time.monotonic() - begun < 30
    assert "secret" not in seen.read_text() and "IPU_TEACH_WORK" in seen.read_text()
    child = int(pid.read_text())
    for _ in range(50):
        if not _runs(child):
            break
        time.sleep(0.1)
    assert not _runs(child)


def _code(program: str) -> str:
    return f"def f(jobs, tiles):\n    return 0\nclass g:\n    exec({program!r}, {{}})\n"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def test_a_request_that_never_ends_is_given_up_and_one_that_leaves_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "WAIT", 0.2)
    server = serve.ThreadingHTTPServer((serve.HOST, 0), serve._handler(lambda: "x" * 10**7))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with socket.create_connection((serve.HOST, server.server_port), 10) as half:
            half.sendall(b"GET / HTTP/1.1\r\n")
            assert half.recv(1) == b""  # closed from there
        for _ in range(3):
            gone = socket.create_connection((serve.HOST, server.server_port), 10)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            gone.recv(10)
            gone.close()
        time.sleep(0.5)
    finally:
        server.shutdown()
        server.server_close()
    assert "Traceback" not in capfd.readouterr().err
