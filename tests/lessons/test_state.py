"""The progress file: forgiving, whole at any time, and shared by kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ipu_course.checking import state
from ipu_course.checking.state import Progress, Record


def solved(record: Record) -> None:
    record["state"] = "solved"


@pytest.fixture
def work(fresh_desk: Path) -> Path:
    fresh_desk.mkdir()
    return fresh_desk


def stored(work: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads((work / "progress.json").read_text(encoding="utf-8"))
    return data


def test_looking_makes_nothing(fresh_desk: Path) -> None:
    assert state.learned().records() == {} and state.learned().record("01.1") == {}
    assert not fresh_desk.exists()


def test_a_change_is_kept_with_the_formats_number(fresh_desk: Path) -> None:
    state.learned().change("01.1", solved)
    assert stored(fresh_desk) == {"format": 1, "records": {"01.1": {"state": "solved"}}}
    assert Progress(fresh_desk).record("01.1") == {"state": "solved"}  # as another kernel reads it
    assert [path.name for path in fresh_desk.iterdir()] == ["progress.json"]


def test_what_it_does_not_know_stays(work: Path) -> None:
    data = {
        "format": 1,
        "theme": "dark",
        "records": {"01.1": {"note": [1]}, "99.9": "?", "01.2": 7},
    }
    (work / "progress.json").write_text(json.dumps(data), encoding="utf-8")
    state.learned().change("01.1", solved)
    state.learned().change("01.2", solved)  # a record that is none is replaced
    assert stored(work) == {
        "format": 1,
        "theme": "dark",
        "records": {
            "01.1": {"note": [1], "state": "solved"},
            "99.9": "?",
            "01.2": {"state": "solved"},
        },
    }
    assert set(state.learned().records()) == {"01.1", "01.2"}


DAMAGED = {
    "truncated": b'{"format": 1, "records": {"01.1"',
    "empty": b"",
    "binary": bytes(range(256)),
    "a list": b"[]",
    "a number": b"17",
    "no format": b'{"records": {}}',
    "format 0": b'{"format": 0, "records": {}}',
    "format true": b'{"format": true, "records": {}}',
    "records a list": b'{"format": 1, "records": []}',
    "deep": b"[" * 100_000,
    "not a number": b'{"format": 1, "records": {"01.0": {"prediction": [NaN]}}}',
    "a huge number": b'{"format": ' + b"9" * 5000 + b', "records": {}}',
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    work: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "progress.json").write_bytes(content)
    state.learned().change("01.1", solved)
    assert state.learned().record("01.1") == {"state": "solved"}
    assert stored(work)["records"] == {"01.1": {"state": "solved"}}
    (kept,) = work.glob("progress.damaged-*.json")
    assert kept.read_bytes() == content
    said = capsys.readouterr().out
    assert said.count("was damaged") == 1 and kept.name in said


def test_a_huge_file_is_set_aside_unread(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "progress.json").write_bytes(b" " * (state.LARGEST + 1))
    assert state.learned().records() == {}
    assert "far too large: it was renamed to progress.damaged-" in capsys.readouterr().out


def test_what_was_done_in_a_lesson_is_forgotten(work: Path) -> None:
    for name in ("01.1", "01.2", "02.1"):
        state.learned().change(name, solved)
    state.learned().forget("01")
    assert {name for name, record in Progress(work).records().items() if record} == {"02.1"}


def test_two_damaged_files_are_both_kept(work: Path) -> None:
    for content in ("one", "two"):
        (work / "progress.json").write_text(content, encoding="utf-8")
        state.learned().change("01.1", solved)
    assert sorted(path.read_text(encoding="utf-8") for path in work.glob("progress.damaged-*")) == [
        "one",
        "two",
    ]


def test_a_newer_file_is_read_and_left_as_it_is(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = json.dumps({"format": 2, "records": {"01.2": {"state": "solved"}}})
    (work / "progress.json").write_text(newer, encoding="utf-8")
    state.learned().change("01.1", solved)
    assert set(state.learned().records()) == {"01.1", "01.2"}
    assert (work / "progress.json").read_text(encoding="utf-8") == newer
    assert capsys.readouterr().out.count("newer version") == 1


def test_where_nothing_can_be_written_it_goes_on_in_memory(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(target: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(state, "write_whole", refuse)
    for name in ("01.1", "01.2"):
        state.learned().change(name, solved)
    assert set(state.learned().records()) == {"01.1", "01.2"}
    said = capsys.readouterr().out
    assert said.count("cannot be stored") == 1 and "Permission denied" in said
    monkeypatch.undo()
    monkeypatch.setenv("IPU_TEACH_WORK", str(work))
    state.learned().change("01.3", solved)  # it can be written again, and what waited goes with it
    assert set(json.loads((work / "progress.json").read_text())["records"]) == {
        "01.1",
        "01.2",
        "01.3",
    }


def test_a_folder_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "file" / "work"))
    state.learned().change("01.1", solved)
    assert state.learned().record("01.1") == {"state": "solved"}
    assert "cannot be stored" in capsys.readouterr().out


def test_a_folder_in_the_files_place(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "progress.json").mkdir()
    state.learned().change("01.1", solved)
    assert state.learned().record("01.1") == {"state": "solved"}
    assert "You can continue" in capsys.readouterr().out


def test_two_kernels_do_not_overwrite_each_other(work: Path) -> None:
    program = (
        "import sys; from ipu_course.checking.state import learned\nfor i in range(20): "
        "learned().change(f'{sys.argv[1]}.{i}', lambda r: r.update(state='solved'))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, name]) for name in ("10", "11", "12")
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(Progress(work).records()) == 60
    assert [path.name for path in work.iterdir()] == ["progress.json"]
