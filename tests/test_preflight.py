"""`doctor --workshop`: what goes wrong on a laptop is made to go wrong here, and the words for it
are those that help."""

from __future__ import annotations

import json
import socket
import sys
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipu_course import cli
from ipu_course.classroom import preflight
from ipu_course.classroom.preflight import No, Rehearsal
from ipu_teach._support import places

pytest.importorskip("jupyter_client")

# A server in few lines, in place of JupyterLab: what it answers is its first argument, the port
# stands in its options.
SERVER = """
import re, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
status = int(sys.argv[1])
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if status == 201 and "/api/" in self.path else 200 if status == 201 else status)
        self.end_headers()
        self.wfile.write(b"jupyter-config-data")
HTTPServer(("localhost", int(re.search("ServerApp.port=([0-9]+)", str(sys.argv))[1])), Handler).serve_forever()
"""


@pytest.fixture
def free() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    return tmp_path / "work"


def started_by(*words: str) -> preflight.Opening:
    return lambda lesson: ([sys.executable, "-c", *words], {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def machine(work: Path, free: int) -> Iterator[Rehearsal]:
    with Rehearsal(started_by(SERVER, "200"), free) as made:
        yield made


def refused(answer: Any) -> No:
    with pytest.raises(No) as caught:
        answer()
    assert caught.value.next_step
    return caught.value


# --- disk, browser, port --------------------------------------------------------------------------


def test_room_and_a_browser(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight.disk().endswith(" GB free")
    monkeypatch.setattr(preflight, "ROOM", 1e9)
    assert "GB are free on the disk of your work folder" in refused(preflight.disk).came
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("/usr/bin/lynx"))
    assert (
        refused(preflight.browser).came
        == "no browser is found, only /usr/bin/lynx, which shows no pictures"
    )
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("firefox"))
    assert preflight.browser() == "firefox"

    def none() -> Any:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    no = refused(preflight.browser)
    assert no.came == "no browser is found" and no.next_step.startswith(
        "install Firefox, Chrome or Edge"
    )
    for name in preflight.SCREENS:
        monkeypatch.delenv(name, raising=False)
    assert preflight.browser() == "none is needed, for this machine has no screen"  # a hub's
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refused(preflight.browser).came == "no browser is found"


def test_a_port_that_is_taken_is_passed_over_and_all_taken_is_told(
    machine: Rehearsal, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", free))
        first.listen()
        second.bind(("127.0.0.1", 0))
        second.listen()
        other = second.getsockname()[1]
        monkeypatch.setattr(preflight, "PORTS", (free, other))
        no = refused(preflight.port)
        assert no.came == f"ports {free} to {other} are all taken" and no.next_step.endswith(
            "jupyter server list"
        )
        second.close()
        assert machine.find_port() == f"{other}, for {free} is taken" and machine.port == other
    assert preflight.port() == free


# --- the page -------------------------------------------------------------------------------------


def test_a_page_is_fetched_past_every_proxy_and_its_server_is_stopped(
    machine: Rehearsal, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # where nothing answers
    assert machine.page().endswith("s, with lesson 00")
    machine.stack.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", free), timeout=1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((SERVER, "500"), "JupyterLab answers with status 500 instead of its page"),
        ((SERVER, "201"), "JupyterLab does not find 00_meet_the_machine.ipynb: status 404"),
        (
            ("import sys; sys.exit('port 8888 is not available\\n')",),
            "JupyterLab ended at once: port 8888 is not available",
        ),
        (
            ("import time; print('still reading', flush=True); time.sleep(60)",),
            "no answer within 3 s: still reading",
        ),
    ],
)
def test_a_server_that_does_not_serve(
    machine: Rehearsal, monkeypatch: pytest.MonkeyPatch, words: Any, says: str
) -> None:
    machine.opening = started_by(*words)
    monkeypatch.setattr(preflight, "LIMIT", 3 if "within" in says else 30)
    assert refused(machine.page).came == says


def test_ctrl_c_leaves_nothing_behind(
    work: Path, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(limit: float) -> Iterator[float]:
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", free), timeout=1)
        time.sleep(0.5)
        raise KeyboardInterrupt
        yield limit

    monkeypatch.setattr(preflight, "until", interrupted)
    stopped = []
    stop = preflight._stop  # wrapped, to see the process that the rehearsal started
    monkeypatch.setattr(
        preflight, "_stop", lambda process: (stop(process), stopped.append(process.poll()))
    )
    with pytest.raises(KeyboardInterrupt), Rehearsal(started_by(SERVER, "200"), free) as machine:
        machine.page()
    assert len(stopped) == 1 and stopped[0] is not None and not machine.scratch.exists()


# --- the kernel and the lesson --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (["/nowhere/python"], "/nowhere/python cannot be started: No such file or directory"),
        (
            [sys.executable, "-c", "import sys; sys.exit('this Python has no ipykernel')"],
            "the kernel ended at once: this Python has no ipykernel",
        ),
    ],
)
def test_a_kernel_that_another_python_left_behind(
    machine: Rehearsal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: list[str],
    says: str,
) -> None:
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": program, "display_name": "Python 3", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    no = refused(machine.kernel)
    assert no.came == says
    assert no.next_step == f"it is described in {folder}: rename that folder, and run this again"


def test_no_kernel_at_all(
    machine: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "jupyter_client.kernelspec.jupyter_path", lambda *names: [str(tmp_path / "none")]
    )
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "ipykernel.kernelspec", None)
    no = refused(machine.kernel)
    assert no.came == "Jupyter has no kernel named python3" and no.next_step.endswith(
        "-m pip install 'ipykernel'"
    )
    with pytest.raises(No, match="the lesson was not run, because there is no kernel"):
        machine.lesson()


@pytest.mark.slow
def test_a_kernel_runs_a_lesson_to_its_picture(
    machine: Rehearsal, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.kernel().startswith("after ")
    assert machine.lesson() == "3 cells of lesson 00, and a picture"
    # what a lesson keeps is not kept for a learner who has done nothing yet
    assert not work.exists()
    assert (
        refused(lambda: machine.run("import no_such_kit", "advice")).came
        == "ModuleNotFoundError: No module named 'no_such_kit'"
    )
    assert machine.run("print('again')", "advice")[-1]["text"] == "again\n"
    monkeypatch.setattr(preflight, "LIMIT", 1)
    assert (
        refused(lambda: machine.run("import time; time.sleep(30)", "advice")).came
        == "a cell did not end within 1 s"
    )


# --- the answers ----------------------------------------------------------------------------------


def test_every_question_is_answered_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "file" / "work"))
    fine = [("Is a port free?", lambda: "8888")]
    monkeypatch.setattr(Rehearsal, "questions", lambda self: fine)
    assert cli.main(["doctor", "--workshop"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line.index(word) for line in lines for word in (" yes: ", " no: ") if word in line} == {
        41
    }
    (at,) = (n for n, line in enumerate(lines) if line.startswith("Can your work be kept?"))
    assert "no: work folder The work folder cannot be written: " in lines[at]
    assert (
        "set IPU_TEACH_WORK to a folder" in lines[at]
        and lines[at + 1] == "    next: do that, and run this again"
    )
    assert (
        lines[-1] == 'This machine is not ready: do what stands after "next", and run this again.'
    )
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(places, "MEMINFO", tmp_path / "none")
    assert cli.main(["doctor", "--workshop"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "This machine is ready."


def test_a_machine_is_asked_what_a_lesson_needs(machine: Rehearsal) -> None:
    questions = dict(machine.questions())
    assert len(questions) == 6 and list(questions)[-1] == "Does a lesson run, and show a picture?"
    assert questions["Is a port free?"]() == str(machine.port)


def test_a_hub_is_no_machine_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:1/user/ada/")
    assert cli.main(["doctor", "--workshop"]) == 2
    err = capsys.readouterr().err
    assert "this is a server of a JupyterHub" in err and "next:  leave out --workshop" in err


def test_what_nobody_thought_of_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert not preflight.ask("Is it?", lambda: str(1 // 0))
    out = capsys.readouterr().out
    assert (
        "no: ZeroDivisionError: integer division or modulo by zero" in out
        and "doctor says what is missing" in out
    )


def test_a_long_wait_shows_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "BEAT", 0.05)
    turns = [(left, time.sleep(0.02)) for left in preflight.until(0.4)]
    assert 0.4 >= turns[0][0] > turns[-1][0] > 0 and capsys.readouterr().out.count(".") >= 2
