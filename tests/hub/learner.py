"""A scripted learner, who opens a lesson on the hub and runs cells over the websocket protocol."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from room import AWAY, Room, fetch
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

ARRIVAL = 600.0  # seconds for a server to start
LONGEST = 180.0  # seconds for a cell
UNHEARD, LOST = "unheard", "kernel lost"
SILENCE = 3.0  # seconds after which the learner notices that a cell does not run
AUTOSAVE = 120.0  # seconds, at the pace of people, between two saves by JupyterLab
LARGEST = 64 << 20  # the largest message, in bytes


@dataclass
class Asked:
    """A cell that runs, and its outputs so far.

    It is done when the kernel has replied and has reported that it is idle again.
    """

    done: asyncio.Future[str]
    outputs: list[dict[str, Any]]
    replied: str = ""
    idle: bool = False
    heard: bool = False  # whether the kernel has sent anything about the cell

    def settle(self, status: str) -> None:
        if not self.done.done():
            self.done.set_result(status)


@dataclass
class Answer:
    """The result of a cell: its start, seconds, outputs, and how it ended.

    It ends with "ok", "error", or what happened to the kernel.
    """

    began: float
    seconds: float
    status: str
    outputs: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """The outputs as plain text."""
        parts = []
        for output in self.outputs:
            said = (
                output.get("text")
                or output.get("data", {}).get("text/plain")
                or output.get("evalue", "")
            )
            parts.append(said if isinstance(said, str) else "".join(said))
        return "\n".join(parts)


class Learner:
    """A learner on the hub of `room`, at `pace` times the pace of people."""

    def __init__(self, room: Room, name: str, pace: float) -> None:
        self.room, self.name, self.pace = room, name, pace
        self.kernels_lost = self.reopened = self.repeated = 0
        self.notebook: dict[str, Any] = {}
        self.file = ""
        self.token = ""
        self._kernel = ""
        self._session = uuid.uuid4().hex
        self._socket: WebSocketClientConnection | None = None
        self._listening: asyncio.Task[None] | None = None
        self._noticing: asyncio.Task[None] | None = None
        self._asked: dict[str, Asked] = {}
        self._saved = 0.0

    # --- she comes, and goes ----------------------------------------------------------------------

    async def arrive(self) -> float:
        """Log in, and wait for the server; seconds until the lessons are listed."""
        began = time.monotonic()
        await self.room.ask("POST", f"/users/{self.name}")
        self.token = (
            await self.room.ask("POST", f"/users/{self.name}/tokens", {"note": "scripted"})
        )["token"]
        await self.room.ask("POST", f"/users/{self.name}/server")
        while not (await self.room.ask("GET", f"/users/{self.name}")).get("server"):
            if time.monotonic() - began > ARRIVAL:
                raise TimeoutError(
                    f"the server of {self.name} did not come up within {ARRIVAL:.0f} s"
                )
            await asyncio.sleep(0.5)
        await self._server("GET", "/api/contents/")
        return time.monotonic() - began

    async def leave(self) -> None:
        """Close the lesson and stop the server; files stay."""
        await self.close()
        await self.room.ask("DELETE", f"/users/{self.name}/server")

    async def open(self, file: str) -> None:
        """Open a notebook, as JupyterLab does: its cells, a kernel, and a websocket to it."""
        self.file = file
        self.notebook = await self.stored()
        wanted = {"path": file, "name": file, "type": "notebook", "kernel": {"name": "python3"}}
        self._kernel = (await self._server("POST", "/api/sessions", wanted))["kernel"]["id"]
        self._saved = time.monotonic()
        await self._connect()

    async def close(self) -> None:
        """Close the websocket and stop the kernel, as *Shut Down Kernel* does."""
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening
            self._listening = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._kernel:
            with suppress(*AWAY):  # a lost kernel cannot be stopped
                await self._server("DELETE", f"/api/kernels/{self._kernel}")
            self._kernel = ""

    # --- what she does ----------------------------------------------------------------------------

    async def run(self, code: str, cell: int | None = None) -> Answer:
        """Run code, in the cell of that number if one is given, and save when it is time."""
        began = time.monotonic()
        while (asked := await self._asking(code)).done.result() == UNHEARD:
            self.repeated += 1
        answer = Answer(began, time.monotonic() - began, asked.done.result(), asked.outputs)
        if cell is not None:
            self.notebook["cells"][cell].update(source=code, outputs=asked.outputs)
            if time.monotonic() - self._saved > AUTOSAVE / self.pace:
                await self.save()
        return answer

    async def _asking(self, code: str) -> Asked:
        """Ask the kernel once, and wait for what comes of it."""
        message = uuid.uuid4().hex
        asked = self._asked[message] = Asked(asyncio.get_running_loop().create_future(), [])
        await self._send(
            "execute_request",
            message,
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": True,
            },
        )
        await asyncio.wait([asked.done], timeout=LONGEST)
        asked.settle("no answer")
        del self._asked[message]
        return asked

    async def save(self) -> None:
        """Save the notebook, again if the hub is away just now."""
        self._saved = time.monotonic()
        for attempt in range(20):
            try:
                wanted = {"type": "notebook", "format": "json", "content": self.notebook}
                await self._server("PUT", f"/api/contents/{quote(self.file)}", wanted)
                return
            except AWAY:
                if attempt == 19:
                    raise
                await asyncio.sleep(1)

    async def stored(self) -> dict[str, Any]:
        """The notebook as it lies on the server."""
        found = await self._server(
            "GET", f"/api/contents/{quote(self.file)}?type=notebook&content=1"
        )
        content: dict[str, Any] = found["content"]
        return content

    # --- the protocol -----------------------------------------------------------------------------

    async def _server(self, method: str, path: str, body: Any = None) -> Any:
        return await fetch(method, f"{self.room.url}/user/{self.name}{path}", self.token, body)

    async def _connect(self) -> None:
        address = f"ws{self.room.url[4:]}/user/{self.name}/api/kernels/{self._kernel}/channels?session_id={self._session}"
        request = HTTPRequest(
            address,
            headers={"Authorization": f"token {self.token}"},
            connect_timeout=120,
            request_timeout=120,
        )
        self._socket = await websocket_connect(request, max_message_size=LARGEST)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _send(self, kind: str, message: str, content: dict[str, Any]) -> None:
        header = {
            "msg_id": message,
            "username": self.name,
            "session": self._session,
            "msg_type": kind,
            "version": "5.3",
        }
        whole = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
            "buffers": [],
        }
        while self._listening is not None and not self._listening.done():
            try:
                assert self._socket is not None
                await self._socket.write_message(json.dumps(whole))
                return
            except (
                OSError,
                WebSocketClosedError,
            ):  # the connection closed; the listener opens it again
                await asyncio.sleep(0.2)
        self._asked[message].settle(LOST)

    async def _listen(self) -> None:
        """Hear what the kernel says; where the line breaks, open it again, as JupyterLab does."""
        while True:
            assert self._socket is not None
            text = await self._socket.read_message()
            if text is not None:
                self._hear(json.loads(text) if isinstance(text, str) else {})
                continue
            self.reopened += 1
            while True:
                await asyncio.sleep(0.5)
                with suppress(*AWAY):
                    if not await self._there():
                        self._lose()
                        return
                    await self._connect()
                    break
            self._noticing = asyncio.create_task(self._notice())

    async def _notice(self) -> None:
        """See, after a line broke, which cell went into the broken one: it says nothing, and a
        person runs it again."""
        await asyncio.sleep(SILENCE)
        for asked in self._asked.values():
            if not asked.heard:
                asked.settle(UNHEARD)

    async def _there(self) -> bool:
        """Whether her server still has the kernel."""
        return self._kernel in [
            kernel["id"] for kernel in await self._server("GET", "/api/kernels")
        ]

    def _lose(self) -> None:
        self.kernels_lost += 1
        for asked in self._asked.values():
            asked.settle(LOST)

    def _hear(self, message: dict[str, Any]) -> None:
        kind, content = message.get("msg_type"), message.get("content", {})
        if kind == "status" and content.get("execution_state") in (
            "restarting",
            "autorestarting",
            "dead",
        ):
            self._lose()
        waiting = self._asked.get(message.get("parent_header", {}).get("msg_id", ""))
        if waiting is None:
            return
        waiting.heard = True
        outputs = waiting.outputs
        if kind == "execute_reply":
            waiting.replied = "ok" if content["status"] == "ok" else "error"
        elif kind == "status":
            waiting.idle = content["execution_state"] == "idle"
        elif kind == "stream":
            outputs.append(
                {"output_type": "stream", "name": content["name"], "text": content["text"]}
            )
        elif kind in ("execute_result", "display_data"):
            output = {"output_type": kind, "data": content["data"], "metadata": content["metadata"]}
            outputs.append(
                output
                | (
                    {"execution_count": content["execution_count"]}
                    if kind == "execute_result"
                    else {}
                )
            )
        elif kind == "error":
            outputs.append(
                {
                    "output_type": "error",
                    **{name: content[name] for name in ("ename", "evalue", "traceback")},
                }
            )
        if waiting.replied and waiting.idle:
            waiting.settle(waiting.replied)
