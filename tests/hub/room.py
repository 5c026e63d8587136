"""The real hub of `deploy/jupyterhub` and its proxy, on loopback, in a temporary folder.

Every process that the hub starts has the folder's name in its environment. By that name they are
counted, measured and ended.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse

from ipu_course.checking.notebooks import install_line

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "deploy" / "jupyterhub" / "jupyterhub_config.py"
START = 120.0  # seconds for the hub to start
LIMIT = 30 * 60.0  # seconds for the full run
AWAY = (OSError, HTTPClientError)  # errors of a request while the hub or its proxy is down

# The scripted clients need one addition to the real configuration: a service that may add and remove
# learners.
ADDED = """load_subconfig({config!r})
c.JupyterHub.services.append({{"name": "clients", "api_token": {token!r}}})
c.JupyterHub.load_roles.append(
    {{"name": "clients", "scopes": ["admin:users", "admin:servers", "tokens"], "services": ["clients"]}}
)
"""


class NotHere(Exception):
    """Something that the hub needs is not on this machine."""


class Room:
    """The hub as a process, which can be started, queried, restarted and removed."""

    def __init__(self, memory: str = "") -> None:
        if not shutil.which("configurable-http-proxy"):
            raise NotHere("""configurable-http-proxy, the hub's proxy, is not on PATH.
next:  npm install configurable-http-proxy, and put node_modules/.bin on PATH""")
        if importlib.util.find_spec("jupyterhub") is None:
            raise NotHere(f"""JupyterHub is not installed.
next:  {install_line("ipu_teach[hub]")}""")
        self.folder = Path(tempfile.mkdtemp(prefix="ipu_teach_hub_"))
        self.homes = self.folder / "homes"
        self.token, self.password, self.admin_password = (secrets.token_hex(16) for _ in range(3))
        hub, api, class_page, front = free_ports(4)
        self.url = f"http://127.0.0.1:{front}"
        config = self.folder / "config.py"
        config.write_text(ADDED.format(config=str(CONFIG), token=self.token), encoding="utf-8")
        self.class_page = f"http://127.0.0.1:{class_page}"
        self._command = [
            sys.executable,
            "-m",
            "jupyterhub",
            "-f",
            str(config),
            f"--JupyterHub.hub_port={hub}",
        ]
        self._command.append(f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{api}")
        self._command += [f"--Spawner.mem_limit={memory}"] if memory else []
        self._env = dict(
            os.environ,
            IPU_TEACH_HUB=str(self.folder),
            IPU_TEACH_HUB_URL=self.url,
            IPU_TEACH_HUB_PASSWORD=self.password,
            IPU_TEACH_HUB_ADMIN_PASSWORD=self.admin_password,
            IPU_TEACH_HUB_CLASS_PORT=str(class_page),
        )
        self._process: subprocess.Popen[bytes] | None = None

    # --- the process ------------------------------------------------------------------------------

    async def start(self) -> float:
        """Start the hub; seconds until it answered."""
        began = time.monotonic()
        with open(self.folder / "hub.log", "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while time.monotonic() - began < START:
            if self._process.poll() is not None:
                raise NotHere(
                    f"the hub ended with status {self._process.returncode}:\n{self.last_words()}"
                )
            with suppress(*AWAY):
                await self.ask("GET", "/")
                return time.monotonic() - began
            await asyncio.sleep(0.2)
        raise NotHere(f"the hub did not answer for {START:.0f} s:\n{self.last_words()}")

    async def restart(self) -> float:
        """End the hub as a service manager does, and start it again; seconds until it answered."""
        assert self._process is not None
        began = time.monotonic()
        self._process.terminate()
        await asyncio.to_thread(self._process.wait, START)
        await self.start()
        return time.monotonic() - began

    def clear(self) -> None:
        """End every process of this room, and remove its folder."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            while (left := list(self.processes())) and time.monotonic() < deadline:
                for pid, _ in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, how)
                if self._process is not None:
                    self._process.poll()
                time.sleep(0.3)
        shutil.rmtree(self.folder, ignore_errors=True)

    def last_words(self) -> str:
        """Return the end of the hub's log."""
        return "\n".join(
            (self.folder / "hub.log")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()[-12:]
        )

    # --- what it started --------------------------------------------------------------------------

    def processes(self) -> Iterator[tuple[int, str]]:
        """Yield (process, learner) for all processes of this room.

        The learner is "" for the hub, its proxy and its services.
        """
        mark, home = os.fsencode(self.folder), b"HOME=" + os.fsencode(self.homes) + b"/"
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    if any(mark in variable for variable in variables):
                        homes = [one[len(home) :] for one in variables if one.startswith(home)]
                        yield int(entry.name), os.fsdecode(homes[0]) if homes else ""

    def memory(self) -> dict[str, float]:
        """Return MB by learner, and under "" those of the hub.

        This is the proportional set size, so that shared pages count once.
        """
        found: dict[str, float] = {}
        for pid, learner in self.processes():
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
                kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
                found[learner] = found.get(learner, 0.0) + kilobytes / 1024
        return found

    def address_space(self) -> float:
        """Return the peak address space, in GB, of a learner's largest process.

        The hub limits it.
        """
        largest = 0
        for pid, learner in self.processes():
            with suppress(OSError):
                lines = (
                    Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
                    if learner
                    else []
                )
                largest = max(
                    [
                        largest,
                        *(int(line.split()[1]) for line in lines if line.startswith("VmPeak:")),
                    ]
                )
        return largest / 2**20

    # --- what it is asked -------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The hub's own API, as somebody who may bring learners; what it answers."""
        return await fetch(method, f"{self.url}/hub/api{path}", self.token, body)


async def fetch(method: str, url: str, token: str, body: Any = None, timeout: float = 120.0) -> Any:
    """One request; its answer read as JSON, None where there is none."""
    text = json.dumps(body) if body is not None else ("" if method in ("POST", "PUT") else None)
    request = HTTPRequest(
        url,
        method,
        {"Authorization": f"token {token}"},
        text,
        request_timeout=timeout,
        connect_timeout=timeout,
    )
    answer: HTTPResponse = await AsyncHTTPClient().fetch(request)
    return json.loads(answer.body) if answer.body else None


async def status_of(url: str, token: str) -> int:
    """The status that a page answers with, redirections not followed; without a token as a
    stranger."""
    headers = {"Authorization": f"token {token}"} if token else {}
    return (
        await AsyncHTTPClient().fetch(
            HTTPRequest(url, headers=headers, follow_redirects=False), raise_error=False
        )
    ).code


def free_ports(number: int) -> list[int]:
    """Return ports of loopback that are free now."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def free_memory() -> float:
    """Return the GB of memory that are available on this machine."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 2**20


def held(given: Namespace, whole: Callable[[Namespace, Room], Awaitable[bool]]) -> int:
    """Run `whole` in a room of its own, within `LIMIT`; return the exit status.

    The room is cleared in any case.
    """
    room = None
    sys.stdout.reconfigure(line_buffering=True)  # print each figure at once, to a file, too
    # What a service manager or a closed terminal sends is to end it as Ctrl-C does, or processes
    # would stay.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        room = Room(given.memory)
        return 0 if asyncio.run(asyncio.wait_for(whole(given, room), LIMIT)) else 1
    except NotHere as why:
        print(why, file=sys.stderr)
        return 2
    except (asyncio.TimeoutError, KeyboardInterrupt) as stopped:
        print(
            "stopped" if isinstance(stopped, KeyboardInterrupt) else f"no end within {LIMIT:.0f} s",
            file=sys.stderr,
        )
        return 130 if isinstance(stopped, KeyboardInterrupt) else 1
    finally:
        if room is not None:
            room.clear()
