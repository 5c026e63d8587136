"""The command line: finding lessons, opening them, running them headless, and the doctor."""

from __future__ import annotations

import errno
import importlib.metadata
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from dataset_files import use_digits

from ipu_course import cli, doctor, jobs, lab
from ipu_course.checking import headless, notebooks as shelves
from ipu_teach._support import places
from ipu_teach.errors import LessonError

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[1]
PARAMETERS = 'DATA = "digits"  # or "mnist"'
Shelf = Callable[..., Path]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Lessons of our own: shelf("07_x", cell, ..., solved=True) writes one and gives its path."""
    monkeypatch.setattr(shelves, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))

    def write(name: str, *sources: str, solved: bool = True) -> Path:
        folder = tmp_path / "notebooks" / ("solutions" if solved else "")
        folder.mkdir(parents=True, exist_ok=True)
        cells = [nbformat.v4.new_markdown_cell("# A lesson")]
        for source in sources:
            tags = {"tags": ["parameters"]} if source == PARAMETERS else {}
            cells.append(nbformat.v4.new_code_cell(source, metadata=tags))
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
        return folder / f"{name}.ipynb"

    return write


# --- finding a lesson -----------------------------------------------------------------------------


def test_learners_form_is_opened_and_solved_form_is_run(shelf: Shelf) -> None:
    shelf("01_b")
    shelf("00_a")
    shelf("01_b", solved=False)
    shelf("index", solved=False)
    assert [path.parent.name + "/" + path.stem for path in shelves.lessons()] == [
        "solutions/00_a",
        "notebooks/01_b",
    ]
    assert [path.parent.name for path in shelves.lessons(solved=True)] == ["solutions", "solutions"]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (None, "00_first_steps"),
        ("7", "07_logistic"),
        ("07", "07_logistic"),
        ("mnist", "07_logistic"),
        ("MNIST", "07_logistic"),
        ("07_log", "07_logistic"),
        ("Logistic", "07_logistic"),
        ("07_logistic.ipynb", "07_logistic"),
        ("tile", "03_tile"),
        ("tile_map", "04_tile_mapping"),
    ],
)
def test_words_for_a_lesson(shelf: Shelf, word: str | None, name: str) -> None:
    for lesson in ("00_first_steps", "03_tile", "04_tile_mapping", "07_logistic"):
        shelf(lesson)
    assert shelves.find_lesson(word).stem == name


def test_an_unknown_lesson_lists_those_there_are(
    shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf("00_first")
    shelf("07_logistic")
    assert cli.main(["run", "nonsense"]) == 2
    said = capsys.readouterr().err
    assert "There is no lesson 'nonsense'." in said
    assert "00_first" in said and "07_logistic" in said and "Traceback" not in said
    assert cli.main(["lab", "12"]) == 2


def test_an_ambiguous_beginning_lists_what_it_may_mean(shelf: Shelf) -> None:
    for lesson in ("03_tiles", "04_tile_mapping", "05_cost"):
        shelf(lesson)
    with pytest.raises(LessonError, match="beginning of several") as caught:
        shelves.find_lesson("tile")
    assert "03_tiles" in str(caught.value) and "05_cost" not in str(caught.value)


def test_without_any_lesson_it_says_so(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab"]) == 2
    assert "no lessons here" in capsys.readouterr().err


# --- lab ------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    calls: list[tuple[list[str], dict[str, str]]] = []

    def become(command: list[str], env: dict[str, str]) -> int:
        calls.append((command, env))
        return 0

    monkeypatch.setattr(lab, "become", become)
    return calls


@pytest.mark.skipif(os.name == "nt", reason="there the server is a child")
def test_the_server_takes_the_place_of_the_command() -> None:
    """Whoever ends the process, or presses Ctrl-C, ends the server."""
    became = (
        "[sys.executable, '-c', 'import os; print(os.getpid(), os.environ)'], {'LESSON': 'one'}"
    )
    program = (
        "import os, sys; from ipu_course import lab; print(os.getpid(), flush=True); "
        f"lab.become({became}); print('left')"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    before, after = said.splitlines()
    assert (
        after.startswith(f"{before} environ(")
        and "'LESSON': 'one'" in after
        and "PATH" not in after
    )


def test_lab_opens_a_copy_and_never_overwrites_it(
    shelf: Shelf, opened: list[Any], tmp_path: Path
) -> None:
    lesson = shelf("00_first", "1 + 1", solved=False)
    copy = tmp_path / "work" / "00_first.ipynb"
    assert cli.main(["lab"]) == 0
    assert copy.read_bytes() == lesson.read_bytes()
    copy.write_text("edited", encoding="utf-8")
    assert cli.main(["lab", "0"]) == 0
    assert copy.read_text(encoding="utf-8") == "edited"
    command, env = opened[-1]
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path / 'work'}" in command
    assert "--LabApp.default_url=/lab/tree/00_first.ipynb" in command
    settings = (
        Path(env["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0])
        / "labconfig"
        / "default_setting_overrides.json"
    )
    assert '"fetchNews": "false"' in settings.read_text(encoding="utf-8")
    assert sorted(path.name for path in copy.parent.iterdir()) == [".jupyter", "00_first.ipynb"]


def test_lab_is_the_learners_server_on_a_hub(
    shelf: Shelf, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf("00_first", "1 + 1")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:1234/user/ada/")
    assert cli.main(["lab"]) == 0
    command, env = opened[-1]
    assert command[:3] == [sys.executable, "-m", "jupyterhub.singleuser"]
    assert os.name == "nt" or (
        "--KernelManager.transport=ipc" in command and env["JUPYTER_RUNTIME_DIR"].endswith(".run")
    )


def test_lab_trusts_the_copy_it_made(
    shelf: Shelf, opened: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbformat.sign import NotebookNotary

    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    shelf("00_first", "1 + 1")
    assert cli.main(["lab"]) == 0
    notebook = nbformat.read(tmp_path / "work" / "00_first.ipynb", as_version=4)
    assert NotebookNotary().check_signature(notebook)


def test_lab_hands_further_options_to_jupyterlab(shelf: Shelf, opened: list[Any]) -> None:
    shelf("00_first")
    shelf("07_logistic")
    assert cli.main(["lab", "--port", "9999", "--no-browser"]) == 0
    assert opened[-1][0][-3:] == ["--port", "9999", "--no-browser"] and "00_first" in " ".join(
        opened[-1][0]
    )
    assert cli.main(["lab", "mnist", "--port=9999"]) == 0
    assert opened[-1][0][-1] == "--port=9999" and "07_logistic" in " ".join(opened[-1][0])


def test_lab_says_where_it_cannot_write(
    shelf: Shelf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shelf("00_first")
    (tmp_path / "file").touch()
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "file" / "work"))
    assert cli.main(["lab"]) == 2
    assert "set IPU_TEACH_WORK" in capsys.readouterr().err


# --- a home, a work folder or a disk that takes nothing -------------------------------------------

COURSE_COMMANDS = (
    ("doctor",),
    ("lab", "--version"),
    ("reset", "00"),
    ("run", "mnist", "--html", "page.html"),
)


def as_an_ordinary_user() -> list[str]:
    """What stands before a command so that the bits of a folder hold for it, for root as well."""
    if os.name == "nt":
        pytest.skip("folders have no such bits there")
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("root may write everywhere, and setpriv is not here")
    less = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={less}", f"--inh-caps={less}"]


def with_a_full_disk(folder: Path) -> list[str]:
    """What stands before a command for which a disk without room is mounted at `folder`."""
    mounted = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    before = ["unshare", "-rm", "sh", "-c", mounted, str(folder)]
    try:
        if subprocess.run([*before, "true"], capture_output=True).returncode == 0:
            return before
    except OSError:
        pass
    pytest.skip("no disk can be mounted here")


def said_by(before: list[str], words: Sequence[str], home: Path, work: Path) -> tuple[int, str]:
    """The status of a command, and all that it says, with no environment but these two folders."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "IPU_TEACH_WORK": str(work)}
    env["PYTHONPATH"] = str(Path(cli.__file__).parents[1])  # the kit that is tested
    command = [*before, sys.executable, "-m", "ipu_teach", *words]
    done = subprocess.run(
        command,
        env=env,
        cwd=work.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert "Traceback" not in done.stdout, done.stdout
    return done.returncode, done.stdout


@pytest.mark.thorough
def test_a_home_that_cannot_be_written_leaves_jupyter_the_work_folder(tmp_path: Path) -> None:
    before = as_an_ordinary_user()
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(0o555)
    status, said = said_by(before, ["doctor"], home, work)
    row = f"note  home           {home}, not all of it can be written: JUPYTER_CONFIG_DIR, "
    assert status == 0 and row in said and said.endswith("all is well\n")
    status, said = said_by(before, ["lab", "--version"], home, work)
    assert status == 0 and "trusted" not in said
    own = tmp_path / "own.ipynb"
    code = "import os, matplotlib; print(matplotlib.get_configdir(), os.environ['IPYTHONDIR'])"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), own)
    status, said = said_by(before, ["run", "own.ipynb"], home, work)
    kept = work / ".jupyter"
    assert status == 0 and f"{kept / 'mplconfigdir'} {kept / 'ipythondir'}\n" in said, said
    assert list(home.iterdir()) == []
    home.chmod(0o755)
    assert f"ok    home           {home}\n" in said_by(before, ["doctor"], home, work)[1]


@pytest.mark.skipif(os.name == "nt", reason="there a home is a matter of other variables")
def test_a_user_without_a_home_has_the_work_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    lab.move_in()
    assert doctor.check_home() == ("ok", "home", str(tmp_path / "work"))


@pytest.mark.parametrize("words", COURSE_COMMANDS, ids=" ".join)
def test_a_work_folder_that_takes_nothing_is_told_with_what_to_do(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    before = as_an_ordinary_user()
    work = tmp_path / "folder"
    work.mkdir(0o555)
    tmp_path.chmod(0o555)
    status, said = said_by(before, words, tmp_path, work)
    assert status == (1 if words == ("doctor",) else 2)
    if words[0] == "run":
        assert f"The page cannot be written to {tmp_path / 'page.html'}: Permission denied." in said
        assert "next:  name a file in a folder that exists and that you may write" in said
    else:
        assert "The work folder cannot be written: Permission denied." in said
        assert "set IPU_TEACH_WORK to a folder that you may write\n" in said
    assert "all is well" not in said


@pytest.mark.parametrize("words", COURSE_COMMANDS, ids=" ".join)
def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    full = tmp_path / "full"
    full.mkdir()
    before = with_a_full_disk(full)
    words = tuple(word.replace("page.html", str(full / "page.html")) for word in words)
    status, said = said_by(before, words, tmp_path, full / "work")
    assert status == (1 if words == ("doctor",) else 2)
    if words[0] == "run":
        assert f"The page cannot be written to {full}/page.html: No space left on device." in said
        assert "on a disk with room\n" in said
    else:
        assert "The work folder cannot be written: No space left on device." in said
        assert "set IPU_TEACH_WORK to a folder on another disk, or make room on this one\n" in said
    assert "all is well" not in said


def test_a_disk_that_fills_later_is_no_traceback(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf("00_first")

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "a file")

    monkeypatch.setattr(lab, "learners_copies", full)
    assert cli.main(["lab"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("This cannot be kept: No space left on device.\n  where: a file\n")
    monkeypatch.setattr(lab, "learners_copies", lambda lesson: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["lab"])


def test_what_cannot_be_trusted_is_told_once(
    shelf: Shelf,
    opened: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def locked(self: object, notebook: object) -> None:
        raise OSError("the store is locked")

    monkeypatch.setattr("nbformat.sign.NotebookNotary.sign", locked)
    shelves._say_once.cache_clear()  # as in a new process
    for name in ("00_a", "01_b", "02_c"):
        shelf(name, "1")
    assert cli.main(["lab"]) == 0
    assert capsys.readouterr().err.count("could not be marked as trusted (the store is lock") == 1


# --- run ------------------------------------------------------------------------------------------


def test_run_shows_the_notebooks_lines_and_writes_a_page(
    shelf: Shelf,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lesson = shelf(
        "07_logistic",
        PARAMETERS,
        "import os, sys\nfrom pathlib import Path\nprint(DATA, os.getcwd(), sys.executable, "
        "sep='\\n')",
        "Path(os.environ['IPU_TEACH_WORK'], 'progress.json').write_text('{}')\nprint('half', "
        "end='')",
        "import sys\nfrom tqdm import tqdm\nfor epoch in tqdm(range(3), desc='epoch'):\n    pass",
        "",
        "print('accuracy 0.9')\n'a value'",
    )
    before = lesson.read_bytes()
    page = tmp_path / "page.html"
    assert cli.main(["run", "mnist", "--data", "mnist", "--html", str(page)]) == 0
    out, err = capfd.readouterr()
    assert out.splitlines() == ["mnist", str(lesson.parent), sys.executable, "half", "accuracy 0.9"]
    assert "epoch: 100%" in err and "cell 5 of 5 done" in err and "WARNING" not in err
    assert lesson.read_bytes() == before
    assert not (tmp_path / "work" / "progress.json").exists()
    text = page.read_text(encoding="utf-8")
    assert "accuracy 0.9" in text and "<title>07_logistic</title>" in text
    assert "<script src=" not in text and "cdnjs" not in text
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".html", ".part")] == [
        "page.html"
    ]


def test_a_failing_cell_is_named_and_the_error_comes_last(
    shelf: Shelf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shelf(
        "01_fails",
        "from ipu_teach.errors import PoplarError\ndef f():\n    raise PoplarError('Clash.', "
        "next_step='Part.')",
        "print('before')\nf()",
        "print('never')",
    )
    page = tmp_path / "page.html"
    assert cli.main(["run", "1", "--html", str(page)]) == 1
    out, err = capfd.readouterr()
    assert out == "before\n" and not page.exists()
    expected = [
        "01_fails: code cell 2, line 2 failed",
        "    f()",
        "PoplarError: Clash.",
        "  next:  Part.",
    ]
    assert err.splitlines()[-4:] == expected and "Traceback" not in err


def test_a_syntax_error_names_its_line(shelf: Shelf, capfd: pytest.CaptureFixture[str]) -> None:
    shelf("01_fails", "x = 1\ny = = 2")
    assert cli.main(["run", "1"]) == 1
    assert "code cell 1, line 2 failed\n    y = = 2\nSyntaxError" in capfd.readouterr().err


def test_a_dead_kernel_is_no_traceback(shelf: Shelf, capfd: pytest.CaptureFixture[str]) -> None:
    shelf("01_dies", "import os", "os._exit(3)")
    assert cli.main(["run", "1"]) == 1
    err = capfd.readouterr().err
    assert "the kernel died in code cell 2" in err and "Traceback" not in err


@pytest.mark.slow
def test_a_kernel_that_does_not_start_is_no_traceback(tmp_path: Path) -> None:
    """The configuration of IPython ends the kernel. Errors at exit appear only in a process."""
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_kernel_config.py").write_text("import os\nos._exit(3)\n")
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": "1", "outputs": []}
    notebook = {"cells": [{**cell, "execution_count": None}], "metadata": {}}
    text = json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 5})
    (tmp_path / "own.ipynb").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "ipu_teach", "run", "own.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "IPYTHONDIR": str(profile.parent), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "own: the kernel did not start: Kernel died before replying to kernel_info\n"
        "  next:  python3 run.py doctor --workshop tries each part of the set-up.\n",
    )


def test_a_notebook_of_ones_own_runs_by_its_path(
    shelf: Shelf,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = shelf("04_mine", "import os\nprint(os.environ['IPU_TEACH_WORK'])").rename(
        tmp_path / "mine.ipynb"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", own.name]) == 0
    assert capfd.readouterr().out == f"{tmp_path / 'work'}\n"


def test_outputs_are_stored_on_request_and_alike_each_time(shelf: Shelf, tmp_path: Path) -> None:
    widget = "import uuid\nfrom IPython.display import display\n"
    widget += (
        "display({'application/vnd.jupyter.widget-view+json': {'model_id': uuid.uuid4().hex}, "
        "'text/plain': 'w'}, raw=True)"
    )
    pieces = "import time\nprint('a', flush=True)\ntime.sleep(0.5)\nprint('b')"
    lesson = shelf(
        "05_cost", "import os\nprint(os.environ['OMP_NUM_THREADS'])", "", "6 * 7", widget, pieces
    )
    assert cli.main(["run", "5", "--store"]) == 0
    stored = lesson.read_bytes()
    cells = [cell for cell in nbformat.read(lesson, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [1, None, 2, 3, 4]
    assert cells[0].outputs[0].text == "1\n" and cells[2].outputs[0].data["text/plain"] == "42"
    assert "execution" not in cells[0].metadata
    assert cells[3].outputs[0].data == {"text/plain": "w"} and [
        out.text for out in cells[4].outputs
    ] == ["a\nb\n"]
    assert cli.main(["run", "5", "--store"]) == 0
    assert lesson.read_bytes() == stored


@pytest.mark.skipif(os.name == "nt", reason="a test cannot press Ctrl-C there")
def test_ctrl_c_ends_the_kernel_too(shelf: Shelf, tmp_path: Path) -> None:
    shelf("01_slow", "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(100)")
    program = "import sys, pathlib; from ipu_course import cli; from ipu_course.checking import notebooks; "
    program += "notebooks.NOTEBOOKS = pathlib.Path(sys.argv[1]); "
    program += "sys.exit(cli.main(['run', '1']))"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "notebooks")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        kernel = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
        assert process.wait(60) == 130
    assert err.splitlines()[-1] == "stopped" and "Traceback" not in err
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(kernel, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the kernel outlived its lesson")


def test_data_needs_a_lesson_that_has_the_choice(
    shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf("01_plain", "DATA = 'digits'")  # right, but not in a cell tagged "parameters"
    assert cli.main(["run", "1", "--data", "mnist"]) == 2
    assert "cannot be chosen" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "chosen"),
    [
        ('DATA = "digits"', 'DATA = "mnist"'),
        ("N = 1\nDATA='digits'  # or", 'N = 1\nDATA="mnist"  # or'),
        ('OTHER_DATA = "digits"', None),
    ],
)
def test_only_the_assignment_is_replaced(source: str, chosen: str | None) -> None:
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    notebook = nbformat.v4.new_notebook(cells=[cell])
    if chosen is None:
        with pytest.raises(LessonError):
            headless.choose_data(notebook, "mnist", "x")
    else:
        headless.choose_data(notebook, "mnist", "x")
        assert cell.source == chosen


def test_a_page_without_a_folder_is_refused_before_the_run(
    shelf: Shelf, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shelf("01_plain", "print('ran')")
    assert cli.main(["run", "1", "--html", str(tmp_path / "nowhere" / "page.html")]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "a folder that exists" in err
    assert cli.main(["run", "1", "--html", str(tmp_path)]) == 2


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_cells_bar_carries_the_epochs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    screen = headless.Screen("07_logistic", 2)
    screen.show("stderr", "\r  0%|  | 0/9")
    screen.show("stderr", "\r 33%|# | 3/9")
    screen.show("stdout", "loss 0.5\nlo")
    screen.show("stdout", "ss 0.25\n")
    screen.show("stderr", "\r100%|##| 9/9\n")
    screen.show("stderr", "a warning\n")
    screen.cell_done(1)
    screen.close()
    drawn = terminal.getvalue()
    assert "cell 0/2" in drawn and "33%|# | 3/9" in drawn and "cell 1/2" in drawn
    assert "a warning\n" in drawn and "9/9\n" not in drawn  # a finished bar leaves no line behind
    assert drawn.endswith("\r")  # and nothing of ours does
    assert capsys.readouterr().out == "loss 0.5\nloss 0.25\n"


# --- doctor ---------------------------------------------------------------------------------------


def test_doctor_is_content_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n", encoding="ascii"
    )
    monkeypatch.setattr(places, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    monkeypatch.delenv("IPU_TEACH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "all is well" and all(
        line.startswith(("ok ", "note ")) for line in lines[:-1]
    )
    rows = {line.split()[1]: line for line in lines[:-1]}
    assert rows["numpy"].split()[2] == importlib.metadata.version("numpy")
    assert {
        "Python",
        "tqdm",
        "jupyterlab",
        "nbval",
        "GPU",
        "torch",
        "digits",
        "MNIST",
        "work",
        "memory",
    } <= rows.keys()
    assert "8.0 GB free" in rows["memory"] and "numpy" in rows["GPU"]
    starts = {
        line.index(re.split(r"\s{2,}", line, maxsplit=2)[2])
        for line in lines[:-1]
        if line.startswith("ok ")
    }
    assert len(starts) == 1  # the columns stand under each other
    assert not (tmp_path / "work").exists()  # looking makes nothing


def test_doctor_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [
        "numpy>=99",
        "nosuchpackage>=1.2",
        'tqdm>=99; extra == "test"',
        "cupy>=1; extra == 'gpu'",
    ]
    wanted.append('numba>=99; extra == "lab"')
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: wanted)
    versions = importlib.metadata.version

    def version(name: str) -> str:
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return versions(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    (tmp_path / "meminfo").write_text("MemAvailable:  524288 kB\n", encoding="ascii")
    monkeypatch.setattr(places, "MEMINFO", tmp_path / "meminfo")
    (tmp_path / "file").touch()
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "file"))
    monkeypatch.setenv("IPU_TEACH_GPU", "0")
    use_digits(monkeypatch, tmp_path / "no.npz")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(b"not images")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"not labels")
    monkeypatch.setenv("IPU_TEACH_DATA", str(tmp_path))
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    rows = {line.split()[1]: line for line in out.splitlines()}
    assert (
        rows["numpy"].startswith("FIX")
        and "too old" in rows["numpy"]
        and "pip install 'numpy>=99'" in out
    )
    assert rows["nosuchpackage"].startswith("FIX") and "missing: " in rows["nosuchpackage"]
    assert rows["tqdm"].startswith("note") and "only the tests" in rows["tqdm"]
    assert rows["numba"].startswith("note") and "run slower without it" in rows["numba"]
    assert "cupy" not in rows
    assert rows["torch"].startswith("ok") and "for ipu_teach.poptorch alone" in rows["torch"]
    assert "IPU_TEACH_GPU=0" in rows["GPU"]
    assert (
        rows["digits"].startswith("FIX")
        and rows["MNIST"].startswith("FIX")
        and "t10k-images" in rows["MNIST"]
    )
    assert rows["work"].startswith("FIX") and "set IPU_TEACH_WORK" in rows["work"]
    assert rows["memory"].startswith("FIX") and "0.5 GB" in rows["memory"]
    assert out.splitlines()[-1] == "to fix: 6, marked FIX above"


def test_doctor_cannot_tell_memory_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MEMINFO", tmp_path / "none")
    assert doctor.check_memory()[0] == "ok" and "cannot tell" in doctor.check_memory()[2]


# --- the words ------------------------------------------------------------------------------------


def test_module_and_command_are_the_same() -> None:
    version = "ipu-teach " + importlib.metadata.version("ipu_teach")
    done = subprocess.run(
        [sys.executable, "-m", "ipu_teach", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, version)
    points = importlib.metadata.distribution("ipu_teach").entry_points
    assert [point.value for point in points if point.name == "ipu-teach"] == ["ipu_course.cli:main"]


@pytest.mark.parametrize("job", [job for job in jobs.WORDS if job not in jobs.SCRIPTS])
def test_every_command_has_help(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([job, "--help"])
    assert caught.value.code == 0 and f"usage: ipu-teach {job} " in capsys.readouterr().out


def test_the_help_of_report_has_each_of_its_forms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usage of the help names the options that the forms really have."""
    monkeypatch.setenv("COLUMNS", "100")
    helps: dict[str, str] = {}
    for form in ("", "compare", "trace"):
        with pytest.raises(SystemExit) as caught:
            cli.main(["report", *form.split(), "--help"])
        assert caught.value.code == 0
        helps[form] = capsys.readouterr().out
    usage, _, description = helps[""].partition("\n\n")
    forms = [line.removeprefix("usage:").strip() for line in usage.splitlines()]
    assert [form.split()[2] for form in forms] == ["FILE"] * 3 + ["compare", "trace"]
    assert "compare --help and trace --help explain" in " ".join(description.split())
    for form, start in (("", "FILE"), ("compare", "compare"), ("trace", "trace")):
        named = {w for f in forms if f.split()[2] == start for w in re.findall(r"--\w+", f)}
        options = set(re.findall(r"^  (--\w+)", helps[form], re.MULTILINE))
        assert named == options


@pytest.mark.slow
@pytest.mark.parametrize(("job", "script"), jobs.SCRIPTS.items())
def test_every_script_has_help(job: str, script: str) -> None:
    """It is told at once, in the words by which it is called, and nothing is done."""
    command = [sys.executable, str(Path(cli.__file__).parents[1] / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"python3 run.py {job}" in done.stdout, done.stderr


def test_a_job_on_the_kit_wants_its_repository(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "checkout", lambda: None)
    assert cli.main(["fuzz", "--minutes", "5"]) == 2
    assert capsys.readouterr().err == (
        "`fuzz` works on the kit's repository, but this kit was installed from a wheel.\n"
        "  next:  get the repository, and run this in its folder: python3 run.py fuzz --minutes 5\n"
    )


def test_a_command_is_called_as_the_one_who_asks_called_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.program() == "ipu-teach"
    monkeypatch.setattr(sys, "argv", [str(places.PACKAGE / "__main__.py"), "lab"])
    assert places.program() == "python3 run.py"
    monkeypatch.setattr(places, "checkout", lambda: None)
    assert places.program() == "ipu-teach"


@pytest.mark.parametrize(
    "words", [[], ["nonsense"], ["run"], ["reset"], ["run", "7", "--data", "cifar"]]
)
def test_requests_without_sense_end_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2 and "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "status", "words"),
    [
        (["docs/make_cheat_sheet.py", "--pdf", "/nosuch/x.pdf"], 1, "there is no folder /nosuch"),
        (["tests/lessons/mutants.py", "99.9"], 2, "no exercise is called 99.9. There are: 00.1"),
        (["tests/fuzz", "--graphs", "-3"], 2, "--graphs got -3: give how many are to run"),
        (["tests/fuzz", "--minutes", "0"], 2, "--minutes got 0: give a number of minutes above 0"),
        (["-m", "ipu_teach", "golden", "--only", "nosuch"], 2, "no family has 'nosuch' in its"),
        (["tests/lessons/names.py", "--x"], 2, "this job takes no arguments, but got --x"),
        (
            ["tests/fuzz", "--only", "nosuch"],
            2,
            "--only goes with --tests, --arguments, --torch-samples or",
        ),
        (["tests/hub", "--learners", "0"], 2, "'0' is not a number from 1 to 100"),
        (["-m", "ipu_teach", "reset", "02", "--force"], 2, "reset: it does not take --force"),
        (["tests/lessons/verdicts.py"], 2, "arguments are required: FILE\n"),
        (["tests", "tests/nosuch.py"], 2, "there is no file tests/nosuch.py"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_job_that_cannot_do_what_it_is_told_says_so_by_its_status(
    job: list[str], status: int, words: str
) -> None:
    done = subprocess.run(
        [sys.executable, *job], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == status, done.stderr
    assert words in done.stdout + done.stderr
