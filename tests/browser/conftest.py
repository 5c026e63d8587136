"""A real browser and a real JupyterLab, for tests that see a view as people do.

They need the extra `e2e` (Playwright) and Chromium on PATH; otherwise these tests skip.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest

from bench.browser import find_chromium

try:
    from playwright.sync_api import TimeoutError as TIMEOUT
except ImportError:  # the tests skip
    TIMEOUT = TimeoutError

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = find_chromium()
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Chromium, driven by Playwright."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing: pip install -e .[e2e]"
    )
    if CHROMIUM is None:
        pytest.skip("Chromium is missing")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page that can only reach this machine; an error on it fails the test."""
    context = chromium.new_context(viewport={"width": 1200, "height": 1400})
    opened = context.new_page()
    opened.set_default_timeout(20_000)
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.route(
        "**/*", lambda route: route.continue_() if _is_here(route.request.url) else route.abort()
    )
    yield opened
    context.close()
    assert opened.errors == []


def _is_here(url: str) -> bool:
    return url.startswith(("http://127.0.0.1", "file:", "data:", "blob:"))


def violations(page: Any) -> list[Any]:
    """Return the findings of axe-core inside our outputs: [rule, the elements]."""
    page.add_script_tag(path=os.environ["IPU_TEACH_AXE"])
    script = (
        "axe.run('.ipu-view').then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    )
    found: list[Any] = page.evaluate(script)
    return found


KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
PROMPTS = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')]"


class Lab:
    """A running JupyterLab: its folder, and methods that write, open and run notebooks in it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address

    def write(self, name: str, cells: list[str], outputs: list[list[Any]] | None = None) -> Path:
        """Write a notebook of code cells, with stored outputs if given."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells]
        )
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        for cell, stored in zip(notebook.cells, outputs or [], strict=False):
            cell.outputs, cell.execution_count = stored, 1
        path = self.folder / name
        nbformat.write(notebook, path)
        return path

    def open(self, page: Any, name: str) -> None:
        """Open a notebook, and wait until its kernel has started and is idle."""
        page.goto(f"{self.address}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        # The notebook shows "idle" before it has a kernel, too; then each cell that runs asks for
        # one.
        page.wait_for_function(
            f"{KERNEL}?.connectionStatus === 'connected' && {KERNEL}.status === 'idle'",
            timeout=90_000,
        )

    def run(self, page: Any, what: str = "Run All Cells") -> None:
        """Choose an entry of the menu Run, and wait until the visible cells have run.

        A kernel that has just started may lose a request. Then the request is repeated, as a person
        would do.
        """
        for _ in range(3):
            page.get_by_role("menuitem", name="Run", exact=True).click()
            page.get_by_text(what, exact=True).click()
            with suppress(TIMEOUT):
                page.wait_for_function(
                    f"() => {PROMPTS}.some(p => /[*\\d]/.test(p.textContent))", timeout=5_000
                )
                page.wait_for_function(
                    f"() => !{PROMPTS}.some(p => /[*]/.test(p.textContent))", timeout=90_000
                )
            if page.evaluate(f"{PROMPTS}.some(p => /\\d/.test(p.textContent))"):
                return
        pytest.fail("no cell was run")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab with an empty home."""
    pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing: pip install -e .[e2e]"
    )
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")
    port = free_port()
    env = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPU_TEACH_WORK": str(folder / "work"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    options = ["--no-browser", "--allow-root", f"--port={port}"]
    options += [
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        "--LabApp.expose_app_in_browser=True",
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"],
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api", server, home / "log")
        yield Lab(folder, address)
    finally:
        server.terminate()
        server.wait(20)


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers; fail with its log if it does not."""
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{address} did not answer:\n{log.read_text()[-2000:]}")
