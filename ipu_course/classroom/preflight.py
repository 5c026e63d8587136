"""Check before a workshop that this machine is ready, by trying each thing that a lesson needs.

    ipu-teach doctor --workshop

It tries a port, a JupyterLab page, a kernel and a lesson, and downloads nothing. Everything that it
starts is stopped at the end, also after Ctrl-C. All waits have limits. The checks connect only to
the loopback interface, never through a proxy.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ipu_teach
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.notebooks import find_lesson, install_line, work_folder
from ipu_course.doctor import DoctorRow
from ipu_teach.errors import LessonError

# A function that returns the command that opens a lesson, and the environment of the command.
Opening = Callable[[Path], tuple[list[str], dict[str, str]]]

# The ports that the check tries, in this order. JupyterLab tries the first five of them in this
# order, and then ports near them at random.
PORTS = range(8888, 8938)
HOST = "localhost"  # JupyterLab opens an address with this host.
ROOM = 0.5  # The disk space that notebooks, MNIST and saved pages need, in GB.
# The limit of each wait, in seconds. A first start from a slow disk takes half a minute.
LIMIT = 90
BEAT = 2  # The time between two progress dots, in seconds.
IDLE = 2 * LIMIT  # The time after which the server ends if nothing stops it, in seconds.
IN_TEXT = ("lynx", "w3m", "links", "elinks", "www-browser")  # These browsers show no pictures.
# The environment variables of which, on Linux, at least one is set if there is a screen.
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
WORDS = f"{sys.executable} -m ipu_teach"


class No(Exception):
    """Raised by a failed check, with what happened (`came`) and what to do next (`next_step`)."""

    def __init__(self, came: str, next_step: str = "") -> None:
        super().__init__(came)
        self.came = " ".join(came.split())
        self.next_step = next_step


def main(known: dict[str, Callable[[], DoctorRow | Iterable[DoctorRow]]], opening: Opening) -> int:
    """Run all checks and print their results; return 0 if all succeed, else 1.

    `known` maps the questions of `doctor` to its checks, which run first. `opening` returns the
    command and the environment that open a lesson.

    :raises LessonError: on a server of a JupyterHub, because the checks are for learners' own
        machines.
    """
    if "JUPYTERHUB_SERVICE_URL" in os.environ:
        raise LessonError("""ipu-teach doctor --workshop checks a learner's own machine, but
            this is a server of a JupyterHub.
            where: $JUPYTERHUB_SERVICE_URL
            next:  leave out --workshop; docs/hub.md describes how a hub was tested.""")
    with Rehearsal(opening) as machine:
        rows = [(question, lambda find=find: _of_rows(find())) for question, find in known.items()]
        answers = [ask(question, answer) for question, answer in (*rows, *machine.questions())]
    ready = all(answers)
    print(
        "This machine is ready."
        if ready
        else 'This machine is not ready: do what stands after "next", and run this again.'
    )
    return 0 if ready else 1


def ask(question: str, answer: Callable[[], str]) -> bool:
    """Print a question and the result of its check, and return whether the check succeeded.

    `answer()` runs the check and returns details for the printed line. If it raises an error, the
    check has failed. If the error is a `No`, its texts are printed.
    """
    print(f"{question:41}", end=" ", flush=True)
    try:
        print(f"yes: {answer()}", flush=True)
        return True
    except No as no:
        outcome = no
    except KeyboardInterrupt:
        print()
        raise
    except Exception as error:  # Any other error also means that the check failed.
        outcome = No(f"{type(error).__name__}: {error}", f"{WORDS} doctor says what is missing")
    print(
        f"no: {outcome.came}",
        *([f"    next: {outcome.next_step}"] if outcome.next_step else []),
        sep="\n",
        flush=True,
    )
    return False


def _of_rows(doctor_rows: DoctorRow | Iterable[DoctorRow]) -> str:
    rows = [doctor_rows] if isinstance(doctor_rows, tuple) else list(doctor_rows)
    faults = [f"{name} {text}" for mark, name, text in rows if mark == "FIX"]
    if faults:
        raise No("; ".join(faults), "do that, and run this again")
    return rows[0][2] if len(rows) == 1 else f"{len(rows)} packages"


def until(limit: float) -> Iterator[float]:
    """Yield the remaining seconds of a wait of `limit` seconds, until none are left.

    Print a dot every `BEAT` seconds.
    """
    began = last_report = time.monotonic()
    while (now := time.monotonic()) < began + limit:
        if now > last_report + BEAT:
            print(end=".", flush=True)
            last_report = now
        yield began + limit - now


def disk() -> str:
    free = shutil.disk_usage(work_folder()).free / 1e9
    if free < ROOM:
        raise No(
            f"only {free:.1f} GB are free on the disk of your work folder",
            f"make room for {ROOM} GB there, or set IPU_TEACH_WORK to another disk",
        )
    return f"{free:.0f} GB free"


def browser() -> str:
    try:
        name = getattr(webbrowser.get(), "name", "") or "the system's own"
    except webbrowser.Error:
        name = ""
    if not name or os.path.basename(name) in IN_TEXT:
        if sys.platform not in ("win32", "darwin") and not any(map(os.environ.get, SCREENS)):
            return "none is needed, for this machine has no screen"
        only = f", only {name}, which shows no pictures" if name else ""
        raise No(
            f"no browser is found{only}",
            "install Firefox, Chrome or Edge, or set BROWSER to the program of your browser",
        )
    return name


def port() -> int:
    """Return the first free port of `PORTS`, after connecting to it from this machine.

    JupyterLab opens this port if it is one of the first five. If other programs use all five,
    JupyterLab tries ports near them at random.

    :raises No: if no port of `PORTS` is free, or this machine may not connect to itself.
    """
    for number in PORTS:
        with socket.socket() as door:
            if os.name != "nt":
                door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                door.bind(("127.0.0.1", number))
                door.listen(1)
            except OSError:
                continue
            try:
                with socket.create_connection(("127.0.0.1", number), timeout=BEAT) as caller:
                    caller.sendall(b"?")
                    with door.accept()[0] as heard:
                        heard.settimeout(BEAT)
                        heard.recv(1)
            except OSError as error:
                raise No(
                    f"this machine is not allowed to connect to itself at port {number}: {error}",
                    "allow Python to listen at 127.0.0.1, which a firewall or a security program "
                    "on this machine forbids",
                ) from None
            return number
    raise No(
        f"ports {PORTS[0]} to {PORTS[-1]} are all taken",
        f"stop other JupyterLabs, which are listed by {sys.executable} -m jupyter server list",
    )


@dataclass
class Rehearsal:
    """The checks that start a JupyterLab server and a kernel, and stop both at the end."""

    opening: Opening
    port: int = 0
    client: Any = None  # The client of the running kernel.
    alive: Callable[[], bool] = lambda: False
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Rehearsal:
        self.scratch = Path(
            self.stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ipu_teach-", ignore_cleanup_errors=True)
            )
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def questions(self) -> list[tuple[str, Callable[[], str]]]:
        return [
            ("Is there room on the disk?", disk),
            ("Is a browser here?", browser),
            ("Is a port free?", self.find_port),
            ("Does JupyterLab answer with its page?", self.page),
            ("Does a kernel start, and find the kit?", self.kernel),
            ("Does a lesson run, and show a picture?", self.lesson),
        ]

    def find_port(self) -> str:
        self.port = port()
        return f"{self.port}" + (f", for {PORTS[0]} is taken" if self.port != PORTS[0] else "")

    def page(self) -> str:
        """Start JupyterLab like `ipu-teach lab`, without a browser, and request a lesson.

        :raises No: if the server ends, does not answer in time, or does not find the lesson.
        """
        if not self.port:
            raise No("JupyterLab was not started, because no port is free")
        lesson = find_lesson(None)
        command, env = self.opening(lesson)
        token = secrets.token_hex(16)
        options = [
            "--no-browser",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.answer_yes=True",
        ]
        options.append(f"--ServerApp.shutdown_no_activity_timeout={IDLE}")
        log = self.scratch / "server"
        with open(log, "wb") as file:
            # The server has its own process group, so that Ctrl-C reaches only this program. This
            # program then stops the server.
            process_group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
            server = subprocess.Popen(
                [*command, *options],
                # The token is not an argument, because every user of this machine can read
                # arguments.
                env={**env, "JUPYTER_TOKEN": token},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                creationflags=process_group,
            )
        self.stack.callback(_stop, server)
        began = time.monotonic()
        for _ in until(LIMIT):
            if server.poll() is not None:
                raise No(
                    f"JupyterLab ended at once: {_last_line(log)}",
                    f"for the messages of JupyterLab, run {WORDS} lab --no-browser",
                )
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, text = self._get(f"/lab/tree/{quote(lesson.name)}?token={token}")
                if status != 200 or b"jupyter-config-data" not in text:
                    raise No(
                        f"JupyterLab answers with status {status} instead of its page",
                        f"to see what is wrong, run {WORDS} lab",
                    )
                status, _text = self._get(
                    f"/api/contents/{quote(lesson.name)}?content=0&token={token}"
                )
                if status != 200:
                    raise No(
                        f"JupyterLab does not find {lesson.name}: status {status}",
                        f"for a fresh copy, run {WORDS} reset 00",
                    )
                return (
                    f"after {time.monotonic() - began:.0f} s, with lesson {lesson_of(lesson.stem)}"
                )
            time.sleep(0.1)
        raise No(
            f"no answer within {LIMIT} s: {_last_line(log)}",
            "close other programs, and run this again",
        )

    def _get(self, address: str) -> tuple[int, bytes]:
        # http.client uses no proxy.
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", address)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def kernel(self) -> str:
        """Start the Jupyter kernel of the notebooks, and import this package in it.

        :raises No: if the kernel does not start, or imports another copy of this package.
        """
        from jupyter_client.kernelspec import NoSuchKernel
        from jupyter_client.manager import KernelManager

        manager = KernelManager(kernel_name="python3")
        try:
            program = manager.kernel_spec.argv[0] if manager.kernel_spec else ""
        except NoSuchKernel:
            raise No("Jupyter has no kernel named python3", install_line("ipykernel")) from None
        folder = getattr(manager.kernel_spec, "resource_dir", "")
        mend = f"it is described in {folder}: rename that folder, and run this again"
        log = self.scratch / "kernel"
        began = time.monotonic()
        with open(log, "wb") as file:
            try:
                # Predictions made during this check must not be stored as the learner's.
                env = dict(os.environ, IPU_TEACH_WORK=str(self.scratch))
                manager.start_kernel(env=env, cwd=str(self.scratch), stdout=file, stderr=file)
            except OSError as error:
                raise No(f"{program} cannot be started: {error.strerror}", mend) from None
        self.stack.callback(manager.shutdown_kernel, now=True)
        client = manager.client()
        client.start_channels()
        self.stack.callback(client.stop_channels)
        for remaining in until(LIMIT):
            with contextlib.suppress(RuntimeError):  # The kernel is not ready yet.
                client.wait_for_ready(timeout=min(BEAT, remaining))
                break
            if not manager.is_alive():
                raise No(f"the kernel ended at once: {_last_line(log)}", mend)
        else:
            raise No(f"no answer within {LIMIT} s", "close other programs, and run this again")
        self.client = client
        self.alive = manager.is_alive
        reply = self.run(
            "import ipu_teach; print(ipu_teach.__file__)", f"{program} has no kit; {mend}"
        )
        if Path(str(reply[-1].get("text", "")).strip()) != Path(str(ipu_teach.__file__)):
            raise No(
                f"the kernel imports another copy of the kit: {reply[-1].get('text', '')}", mend
            )
        return f"after {time.monotonic() - began:.0f} s"

    def lesson(self) -> str:
        """Run the cells of the first lesson up to its first picture.

        :raises No: if a cell fails, or no picture appears.
        """
        if self.client is None:
            raise No("the lesson was not run, because there is no kernel")
        path = find_lesson(None)
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        advice = f"for details, run {WORDS} run {lesson_of(path.stem)}"
        for number, source in enumerate(code, start=1):
            for output in self.run(source, advice):
                if "data:image/" in str(output.get("data", {}).get("text/html", "")):
                    return f"{number} cells of lesson {lesson_of(path.stem)}, and a picture"
        raise No(f"{path.stem} shows no picture", advice)

    def run(self, source: str, advice: str) -> list[dict[str, Any]]:
        """Run the code `source` in the kernel, and return its outputs.

        `advice` is the next step if the code fails.

        :raises No: if the code raises an error, the kernel ends, or the code does not end in time.
        """
        # After an error, the kernel must still answer the next request.
        message_id = self.client.execute(source, stop_on_error=False)
        outputs: list[dict[str, Any]] = []
        for remaining in until(LIMIT):
            try:
                message = self.client.get_iopub_msg(timeout=min(BEAT, remaining))
            except queue.Empty:
                if not self.alive():
                    raise No(
                        "the kernel ended, most often because memory ran out",
                        "close other programs, and run this again",
                    ) from None
                continue
            kind = message["msg_type"]
            content = message["content"]
            if message["parent_header"].get("msg_id") != message_id:
                continue
            if kind == "error":
                raise No(f"{content['ename']}: {content['evalue']}", advice)
            if kind == "status" and content["execution_state"] == "idle":
                return outputs
            if kind in ("stream", "display_data", "execute_result"):
                outputs.append(content)
        raise No(f"a cell did not end within {LIMIT} s", "close other programs, and run this again")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
