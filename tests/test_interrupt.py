"""An endless loop in a notebook: the interrupt button stops it, and the notebook goes on. (A
process: test_scalar_compiled)"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipu_teach.engine.scalar.compiled import numba_is_here

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a kernel is interrupted otherwise there"
)
needs_numba = pytest.mark.skipif(not numba_is_here(), reason="numba is not installed")

# With n beyond 1,000 the loop has no end. The first run is so short that it is over before anybody
# waits for it.
BUILT = """
from ipu_teach import *
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.program import Execute

class Turns(Vertex):
    n: InOut[INT]
    seen: Output[Vector[INT]]

    def compute(self):
        k = 0
        self.seen[0] = self.n
        while k != self.n:
            k += 1 if k < 1000 else 0
        self.n = k

scalar_run.CHOSEN.set("{way}")
device = IPUModel(tiles_per_ipu=1).create_device()
graph = Graph(device)
n, seen = graph.add_variable(INT, (), "n"), graph.add_variable(INT, (3,), "seen")
for name, tensor in (("n", n), ("seen", seen)):
    graph.set_tile_mapping(tensor, 0)
    graph.create_host_read(name, tensor)
graph.create_host_write("turns", n)
compute_set = graph.add_compute_set()
graph.set_tile_mapping(graph.add_vertex(compute_set, Turns, n=n, seen=seen), 0)
engine = Engine(graph, Execute(compute_set))
engine.load(device)
engine.write_tensor("turns", 5)
engine.run()
engine.write_tensor("turns", 5000)
"""


ENDLESS = """
import time
print("begun", flush=True)
try:
    engine.run()
finally:
    over = time.time()
"""


class Notebook:
    """A kernel, and cells that are run in it one after the other."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def begin(self, cell: str, **asked: str) -> str:
        # After an error a kernel drops for a moment what comes next, unless it is told not to.
        return self.client.execute(cell, user_expressions=asked, stop_on_error=False)  # type: ignore[no-any-return]

    def reply(self, number: str) -> dict[str, Any]:
        """What a cell came to."""
        while True:
            message = self.client.get_shell_msg(timeout=60)
            if message["parent_header"]["msg_id"] == number:
                return message["content"]  # type: ignore[no-any-return]

    def said(self, number: str, text: str) -> None:
        """Wait until a cell has printed `text`."""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == number and text in message["content"].get(
                "text", ""
            ):
                return


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    from jupyter_client.manager import start_new_kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPU_TEACH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("IPU_TEACH_WORK", str(tmp_path_factory.mktemp("work")))
        manager, client = start_new_kernel(cwd=str(Path(__file__).parent))
        try:
            yield Notebook(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("way", ["python", pytest.param("compiled", marks=needs_numba)])
def test_the_interrupt_button_stops_an_endless_loop(way: str, notebook: Notebook) -> None:
    built = notebook.reply(notebook.begin(BUILT.replace("{way}", way)))
    assert built["status"] == "ok", built
    endless = notebook.begin(ENDLESS)
    notebook.said(endless, "begun")
    time.sleep(0.5)
    sent = time.time()
    notebook.manager.interrupt_kernel()
    stopped = notebook.reply(endless)
    assert (stopped["status"], stopped["ename"]) == ("error", "KeyboardInterrupt")
    # What the loop had written is as it was; and the next cell runs.
    asked = {
        "n": "int(engine.read_tensor('n'))",
        "seen": "engine._peek('seen').tolist()",
        "at": "over",
    }
    after = notebook.reply(notebook.begin("", **asked))
    assert float(after["user_expressions"]["at"]["data"]["text/plain"]) - sent < 1
    assert after["user_expressions"]["n"]["data"]["text/plain"] == "5000"
    assert after["user_expressions"]["seen"]["data"]["text/plain"].startswith("[5, ")
    after = notebook.reply(
        notebook.begin(
            "engine.write_tensor('turns', 8)\nengine.run()", n="int(engine.read_tensor('n'))"
        )
    )
    assert (after["status"], after["user_expressions"]["n"]["data"]["text/plain"]) == ("ok", "8")


CHECKED = """
from ipu_course import check
from ipu_course.checking import time_limit

def endless(work, bytes_in, bytes_out, sync):
    engine.run()

time_limit.LIMIT = 0.5
engine.write_tensor("turns", 5000)
verdict = check("01.1", endless)
"""


def test_a_check_in_a_notebook_stops_it_too(notebook: Notebook) -> None:
    assert notebook.reply(notebook.begin(BUILT.replace("{way}", "python")))["status"] == "ok"
    checked = notebook.reply(
        notebook.begin(CHECKED, verdict="repr(verdict)", n="int(engine.read_tensor('n'))")
    )
    assert checked["status"] == "ok", checked
    assert (
        "after 0.5 seconds it was stopped"
        in checked["user_expressions"]["verdict"]["data"]["text/plain"]
    )
    assert checked["user_expressions"]["n"]["data"]["text/plain"] == "5000"
