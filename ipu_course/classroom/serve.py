"""Serve the tables of a class as a page that refreshes itself, to this machine only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ipu_teach.errors import LessonError

HOST = "127.0.0.1"
EVERY = 5  # The time between two refreshes of a page, in seconds.
WAIT = 10.0  # How long a client may take to send a request, or to receive the answer, in seconds.

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<title>The class</title><style>
:root{color-scheme:light dark}
body{font:16px/1.45 system-ui,sans-serif;margin:1.2rem auto;max-width:72rem;padding:0 1rem}
.wide{overflow-x:auto;margin:0 0 1.6rem}
table{border-collapse:collapse;min-width:100%}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{text-align:left;vertical-align:top;padding:.25rem .9rem .25rem 0}
th,td{border-bottom:1px solid #8886}
td{font-variant-numeric:tabular-nums}
.wide:first-child td{white-space:nowrap}
.wide:not(:first-child) td:last-child{min-width:16rem}
#bar{display:flex;gap:1rem;align-items:baseline;flex-wrap:wrap}h1{font-size:1.3rem;margin:0}
</style></head><body><div id="bar"><h1>The class</h1><span id="when"></span>
<label><input type="checkbox" id="pause"> pause</label></div><main id="class">BODY</main><script>
const when=document.getElementById("when"),room=document.getElementById("class");
const pause=document.getElementById("pause");
const say=()=>when.textContent="as of "+new Date().toLocaleTimeString();
say();
setInterval(async()=>{
  if(pause.checked)return;
  try{
    const answer=await fetch("ASK");
    if(!answer.ok)throw 0;
    const fresh=await answer.text();
    if(fresh!==room.dataset.last){room.dataset.last=fresh;room.innerHTML=fresh;}
    say();
  }catch{when.textContent="no answer: load this page again, or start it again";}
},EVERY);
</script></body></html>
"""


def serve(body: Callable[[], str], port: int) -> int:
    """Serve the HTML that `body` returns until Ctrl-C, and return the exit status 0.

    Port 0 means any free port.

    :raises LessonError: if the page cannot be served.
    """
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(body))
    except (OSError, OverflowError) as error:
        raise LessonError(f"""The page cannot be served at port {port}:
            {getattr(error, "strerror", None) or str(error).rstrip(".")}.
            next:  give another port, such as --port 8900, or --port 0 for any free
            port.""") from None
    with server:
        print(
            f"http://{HOST}:{server.server_port}/ shows the class, on this machine alone; Ctrl-C "
            "ends it",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("the page is gone; nothing was kept", file=sys.stderr)
    return 0


def page(body: Callable[[], str], ask: str = "table") -> str:
    """Return the HTML page around the tables that `body` returns.

    Every few seconds the page fetches fresh tables from the address `ask`.
    """
    return PAGE.replace("EVERY", str(1000 * EVERY)).replace("ASK", ask).replace("BODY", table(body))


def table(body: Callable[[], str]) -> str:
    """Return the HTML that `body` returns; if it raises `LessonError`, the message of the error."""
    try:
        return body()
    except LessonError as error:  # No learner has begun, or the folder is missing for a moment.
        return f"<p>{time.strftime('%H:%M:%S')}: {escape(error.tried)}</p>"


def _handler(body: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET requests for the page and for its tables."""

        timeout = WAIT

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # The client may have disconnected.
                super().handle()

        def do_GET(self) -> None:
            # A foreign page could reach this machine through its own domain name (DNS rebinding).
            # The Host header would contain that name.
            if self.headers.get("Host", "").rsplit(":", 1)[0] not in (HOST, "localhost"):
                self.send_error(HTTPStatus.FORBIDDEN)
            elif self.path == "/":
                self._answer(page(body))
            elif self.path == "/table":
                self._answer(table(body))
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _answer(self, text: str) -> None:
            data = text.encode("utf-8", "replace")
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: one line every few seconds would hide the printed address."""

    return Handler
