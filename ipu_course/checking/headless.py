"""Run a lesson without a browser: execute its cells, print the output, and store it on request."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipu_course.checking.notebooks import find_lesson, need, need_checkout, work_path
from ipu_teach._support.places import program, try_writing, write_whole
from ipu_teach.errors import LessonError, shown

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbformat import NotebookNode


TEMPLATE = Path(__file__).with_name("page.html")


class Screen:
    """The terminal output while a notebook runs without a browser.

    The notebook's stdout is printed to stdout line by line. Its stderr and the progress of the run
    are printed to stderr. A terminal shows one progress bar that counts the cells. Next to it is
    the bar that the running cell draws, if any. In a log file, each finished cell and each finished
    bar is one line.
    """

    def __init__(self, name: str, cells: int) -> None:
        from tqdm import tqdm

        self.live = sys.stderr.isatty()
        layout = "{desc} cell {n_fmt}/{total_fmt} |{bar:6}| {elapsed}{postfix}"
        self.bar = tqdm(
            total=cells,
            desc=name,
            bar_format=layout,
            leave=False,
            dynamic_ncols=True,
            disable=not self.live,
        )
        self.cells = cells
        self.pending = {"stdout": "", "stderr": ""}  # The unfinished last line of each stream.
        # Whether the last line of stderr is a progress bar that is redrawn.
        self.moving = False

    def _print(self, text: str, stream: str) -> None:
        target = sys.stdout if stream == "stdout" else sys.stderr
        self.bar.write(text, file=target)
        target.flush()

    def show(self, stream: str, text: str) -> None:
        """Show a piece of text that the kernel wrote to `stream`: "stdout" or "stderr"."""
        *lines, last = (self.pending[stream] + text).split("\n")
        if stream == "stdout":
            if lines:
                self._print("\n".join(lines), stream)
        else:
            for line in lines:
                drawn = line.rstrip("\r").rpartition("\r")[2].rstrip()
                if drawn and not (self.live and (self.moving or "\r" in line)):
                    self._print(drawn, stream)
                self.moving = False
            self.moving = self.moving or "\r" in last
            last = last.rpartition("\r")[2]
            self.bar.set_postfix_str(last.strip() if self.moving else "", refresh=self.live)
        self.pending[stream] = last

    def flush(self) -> None:
        """Print the unfinished last lines of stdout and stderr, each with a line end."""
        for stream, text in self.pending.items():
            if text.strip():
                self.show(stream, "\n")

    def cell_done(self, number: int) -> None:
        """Count a finished cell in the progress bar, or print a line if there is no terminal."""
        self.flush()
        self.bar.update()
        self.bar.refresh()
        if not self.live:
            print(f"cell {number} of {self.cells} done", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Print the unfinished lines and remove the progress bar.

        The last text in the terminal is then the notebook's own output.
        """
        self.flush()
        self.bar.close()


def choose_data(notebook: NotebookNode, data: str, name: str) -> None:
    """Replace `DATA = "digits"` with the data set `data` in the cell tagged `parameters`.

    `name` is the lesson's name, which the error message quotes.

    :raises LessonError: if no such cell assigns `DATA`.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", []):
            assignment = re.compile(r"""^(\s*DATA\s*=\s*)(["'])digits\2""", re.MULTILINE)
            cell.source, count = assignment.subn(lambda hit: f'{hit[1]}"{data}"', cell.source)
            if count:
                return
    raise LessonError(
        f"The data of lesson {name} cannot be chosen.",
        next_step=(
            'leave out --data, which needs a cell with the tag "parameters" that has '
            'DATA = "digits"'
        ),
    )


def cell_error(cell: NotebookNode, number: int, name: str, ename: str, evalue: str) -> str:
    """Return a text that says which cell and line failed, followed by the error."""
    tracebacks = ["\n".join(out.traceback) for out in cell.outputs if out.output_type == "error"]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", tracebacks[-1] if tracebacks else "")
    line = re.search(r"Cell In\s?\[\d+\], line (\d+)", plain)
    where = ""
    source = ""
    if line and int(line[1]) <= len(cell.source.splitlines()):
        where = f", line {line[1]}"
        source = f"    {cell.source.splitlines()[int(line[1]) - 1].strip()}\n"
    return f"{name}: code cell {number}{where} failed\n{source}{ename}: {evalue}"


def _client(
    notebook: NotebookNode,
    manager: AsyncKernelManager,
    folder: Path,
    screen: Screen,
    before_start: Callable[[], None],
) -> NotebookClient:
    """Return a client that runs the cells of `notebook` in `folder`, and shows their output.

    It calls `before_start` before the manager starts the kernel.
    """
    from nbclient import NotebookClient

    class Client(NotebookClient):
        async def async_start_new_kernel(self, **kwargs: Any) -> None:
            before_start()
            await super().async_start_new_kernel(**kwargs)

        def process_message(
            self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
        ) -> NotebookNode | None:
            if msg["msg_type"] == "stream":
                screen.show(msg["content"]["name"], msg["content"]["text"])
            return super().process_message(msg, cell, cell_index)

    return Client(
        notebook,
        km=manager,
        timeout=None,
        startup_timeout=120,
        # The kernel's warnings are meant for operators of servers, not for learners.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )


async def _run_cells(
    client: NotebookClient,
    cells: list[tuple[int, NotebookNode]],
    screen: Screen,
    name: str,
    env: dict[str, str],
) -> str:
    """Start the kernel and run the cells, a list of (index, cell); return a text about the error.

    The text is "" if no cell failed.
    """
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    try:
        async with client.async_setup_kernel(cleanup_kc=True, env=env):
            for number, (index, cell) in enumerate(cells, start=1):
                await client.async_execute_cell(cell, index, execution_count=number)
                screen.cell_done(number)
    except CellExecutionError as error:
        return cell_error(cell, number, name, ename=error.ename, evalue=error.evalue)
    except DeadKernelError:  # nbclient also raises this error if the task was cancelled.
        return f"{name}: the kernel died in code cell {number}; usually because memory ran out"
    except RuntimeError as error:
        # nbclient has already stopped the kernel, and a second call would raise an error at exit.
        atexit.unregister(client._cleanup_kernel)
        return (
            f"{name}: the kernel did not start: {error}\n"
            f"  next:  {program()} doctor --workshop tries each part of the set-up."
        )
    return ""


def execute(notebook: NotebookNode, folder: Path, name: str, env: dict[str, str]) -> int:
    """Run every cell in a kernel of this Python interpreter; return 0, or 1 if a cell failed.

    The kernel runs in `folder` with the environment `env`. The outputs are stored in `notebook`.
    """
    import asyncio
    import signal

    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    cells = [
        (i, cell)
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and cell.source.strip()
    ]
    screen = Screen(name, len(cells))

    async def run_cells() -> str:
        try:
            return await _run_cells(client, cells, screen, name, env)
        finally:
            # The kernel is still alive if the run is stopped while the kernel starts.
            if await manager.is_alive():
                await manager.shutdown_kernel(now=True)

    def handle_interrupts() -> None:
        # add_signal_handler raises RuntimeError on Windows and outside the main thread.
        with contextlib.suppress(RuntimeError):
            # nbclient's own handler reports a dead kernel, so this handler replaces it.
            loop.add_signal_handler(signal.SIGINT, stop)

    def stop() -> None:
        client.shutdown_kernel = "immediate"
        stopped.append(True)
        task.cancel()

    stopped: list[bool] = []
    # On Windows, the default event loop cannot wait for the kernel's sockets.
    loop = asyncio.SelectorEventLoop()
    # With no folders to search, the only kernel is the one for this interpreter.
    manager = AsyncKernelManager(
        kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[])
    )
    client = _client(notebook, manager, folder, screen, handle_interrupts)
    task = loop.create_task(run_cells())
    try:
        loop.run_until_complete(asyncio.wait([task]))
    # On Windows, and before the handler is installed, Ctrl-C raises this exception.
    except KeyboardInterrupt:
        stop()
        loop.run_until_complete(asyncio.wait([task]))
    finally:
        screen.close()
        for leftover in asyncio.all_tasks(loop):
            leftover.cancel()
            loop.run_until_complete(asyncio.wait([leftover]))
        loop.close()
    if stopped:
        raise KeyboardInterrupt
    if task.result():
        print(task.result(), file=sys.stderr)
    return 1 if task.result() else 0


def settle(notebook: NotebookNode) -> None:
    """Edit the outputs of a notebook so that they are the same in every run.

    Text that was printed in several pieces is joined. The data of widgets is removed from the
    outputs, because a widget's id differs in each run and a widget does not work after its kernel
    has ended.
    """
    for cell in notebook.cells:
        settled: list[NotebookNode] = []
        for output in cell.get("outputs", ()):
            last = settled[-1] if settled else None
            if (
                last is not None
                and output.output_type == "stream"
                and last.get("name") == output.name
            ):
                last.text += output.text
                continue
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            settled.append(output)
        if cell.cell_type == "code":
            cell.outputs = settled


def page_of(notebook: NotebookNode, name: str) -> str:
    """Return the executed notebook as one HTML page, light or dark like the reader's system.

    The page works offline, unless the notebook has formulas: then it downloads MathJax. Links to
    other files become text, because these files are not next to the page.
    """
    from nbconvert import HTMLExporter

    formulas = any(cell.cell_type == "markdown" and "$" in cell.source for cell in notebook.cells)
    exporter = HTMLExporter(raw_template=TEMPLATE.read_text("utf-8"))
    page: str = exporter.from_notebook_node(
        notebook, resources={"metadata": {"name": name}, "has_formulas": formulas}
    )[0]
    return re.sub(r'(?s)<a href="(?![a-z]+:|#)[^"]*"[^>]*>(.*?)</a>', r"\1", page)


def run(word: str, data: str | None = None, html: str | None = None, store: bool = False) -> int:
    """Run a lesson, or a notebook file of your own, without a browser; return the exit status.

    `word` names the lesson or the file. `data` replaces the lesson's choice of data, and `html` is
    the file for an HTML page of the result. If `store` is True, the outputs are written to the
    notebook file.

    :raises LessonError: if there is no such lesson, the file is not a notebook, its data cannot be
        chosen, or the results cannot be written.
    """
    need("nbclient", "lab")
    import nbformat

    file = Path(word)
    bundled = not (file.suffix == ".ipynb" and file.is_file())
    path = find_lesson(word, solved=True) if bundled else file.absolute()
    if bundled and store:
        need_checkout("Storing a lesson's outputs")
    target = Path(html).absolute() if html else None
    if target:
        try:
            if target.is_dir() or not target.parent.is_dir():
                raise OSError(errno.EISDIR, "this is a folder, or its folder does not exist")
            try_writing(target.parent)
        except OSError as error:
            raise LessonError(
                f"The page cannot be written to {target}: {error.strerror}.",
                next_step="name a file in a folder that exists and that you may write, on a disk "
                "with room",
            ) from error
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # Nbformat raises many kinds of errors for invalid notebooks.
        raise LessonError(f"""{path.name} is not a notebook: {shown(str(error))}.
            where: {path}
            next:  open it in JupyterLab and save it again, or take an older copy.""") from None
    if data:
        choose_data(notebook, data, path.stem)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # The console shows "?" for a character that it cannot display.
            stream.reconfigure(errors="replace")
    with tempfile.TemporaryDirectory(prefix="ipu_teach-", ignore_cleanup_errors=True) as scratch:
        # Running a solved lesson must not mark the learner's exercises as solved, so it uses an
        # empty work folder. A notebook file of the learner uses the learner's work folder.
        env = dict(os.environ, IPU_TEACH_WORK=scratch if bundled or store else str(work_path()))
        if store:  # Use the settings of the tests: one thread, and no GPU.
            env.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", IPU_TEACH_GPU="0")
        else:
            # A cell's progress bar is short, because the bar of this run is on the same line.
            env.setdefault("TQDM_NCOLS", "48")
        status = execute(notebook, path.parent, path.stem, env)
    if target and status == 0:
        write_whole(target, page_of(notebook, path.stem))
    if store and status == 0:
        settle(notebook)
        write_whole(path, nbformat.writes(notebook) + "\n")
    return status
