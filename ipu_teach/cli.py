"""The command line: `ipu-teach lab | run | doctor | golden | report`, and the same as `python -m ipu_teach`.

`lab` opens the learner's notebook where there is one, `run` the solved one, for it goes to its end by itself. Exit
status: 0 done, 1 a lesson failed or something is missing, 2 the request made no sense, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ipu_teach.errors import DatasetError, IPUTeachError, LessonError
from ipu_teach.report import command as report_command

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
MEMINFO = Path("/proc/meminfo")
ALIASES = {"mnist": "07"}
STOPPED = 130  # what a shell shows for a program that Ctrl-C ended

# --- lessons ----------------------------------------------------------------------------------------------------------


def lessons(solved: bool = False) -> list[Path]:
    """The lessons in order: the learner's form of each where there is one, with `solved` the solved form first."""
    folders = [NOTEBOOKS / "solutions", NOTEBOOKS]
    found: dict[str, Path] = {}
    for folder in reversed(folders) if solved else folders:
        found.update((path.stem, path) for path in folder.glob("[0-9][0-9]_*.ipynb"))
    return [found[name] for name in sorted(found)]


def find_lesson(word: str | None, solved: bool = False) -> Path:
    """The lesson that `word` means: a number, the beginning of a name, or `mnist`; without one, the first."""
    known = lessons(solved)
    if not known:
        raise LessonError(
            "There are no lessons here.",
            where=str(NOTEBOOKS),
            next_step="run this from a whole copy of the repository, installed with `python -m pip install -e .[lab]`",
        )
    if word is None:
        return known[0]
    wanted = ALIASES.get(word.lower(), word.lower())
    if wanted.isdecimal():
        hits = [path for path in known if int(path.stem[:2]) == int(wanted)]
    else:
        wanted = wanted.removesuffix(".ipynb")
        hits = [path for path in known if path.stem.lower().startswith(wanted) or path.stem[3:].startswith(wanted)]
        hits = [path for path in hits if wanted in (path.stem.lower(), path.stem[3:].lower())] or hits
    if len(hits) == 1:
        return hits[0]
    names = "".join(f"\n    {path.stem}" for path in hits or known)
    many = f"{word!r} is the beginning of several lessons." if hits else f"There is no lesson {word!r}."
    raise LessonError(many, next_step=f"choose one by number or name:{names}")


def work_folder() -> Path:
    """Where the learner's own copies and progress live; made if need be."""
    folder = Path(os.environ.get("IPU_TEACH_WORK") or ROOT / "work").expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LessonError(
            f"The work folder cannot be made: {error.strerror}.",
            where=str(folder),
            next_step="set IPU_TEACH_WORK to a folder that you may write",
        ) from error
    return folder


def learners_copy(lesson: Path) -> Path:
    """The copy of `lesson` in the work folder, made on the first call and never overwritten."""
    copy = work_folder() / lesson.name
    if not copy.exists():
        try:
            _write(copy, lesson.read_text(encoding="utf-8"))
        except OSError as error:
            raise LessonError(f"The lesson could not be copied: {error.strerror}.", where=str(copy)) from error
        _trust(copy)
    return copy


def _trust(notebook: Path) -> None:
    """Sign a copy we just made: its stored pictures then move before the first run, and stand still otherwise."""
    try:
        import nbformat
        from nbformat.sign import NotebookNotary

        NotebookNotary().sign(nbformat.read(notebook, as_version=nbformat.NO_CONVERT))
    except Exception as error:  # a convenience: whatever is wrong with the signature store, the lesson opens
        print(f"the copy could not be marked as trusted ({error}); its pictures move after a run", file=sys.stderr)


def _need(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise LessonError(f"{module} is not installed.", next_step=_install(f"ipu_teach[{extra}]"))


def _install(requirement: str) -> str:
    return f"{sys.executable} -m pip install '{requirement}'"


# --- lab --------------------------------------------------------------------------------------------------------------

# JupyterLab asks on its first start whether it may fetch news; the lessons fetch nothing.
NO_NEWS = '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}\n'


def lab(word: str | None, jupyter_arguments: Sequence[str]) -> int:
    """Open the learner's copy of a lesson in JupyterLab."""
    _need("jupyterlab", "lab")
    copy = learners_copy(find_lesson(word))
    settings = copy.parent / ".jupyter" / "labconfig" / "default_setting_overrides.json"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(NO_NEWS, encoding="utf-8")
    configs = [str(settings.parents[1]), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    env = dict(os.environ, JUPYTER_CONFIG_PATH=os.pathsep.join(filter(None, configs)))
    print(f"opening {copy}, your own copy", file=sys.stderr, flush=True)
    # Named by address, not as a file: so the address that --no-browser prints opens the lesson too.
    options = [f"--ServerApp.root_dir={copy.parent}", f"--LabApp.default_url=/lab/tree/{quote(copy.name)}"]
    if os.name != "nt" and os.geteuid() == 0:
        options.append("--allow-root")  # as in a container; the server listens to this machine only, behind a token
    return _become([sys.executable, "-m", "jupyterlab", *options, *jupyter_arguments], env)


def _become(command: list[str], env: dict[str, str]) -> int:
    if os.name != "nt":
        os.execve(command[0], command, env)
    process = subprocess.Popen(command, env=env)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # JupyterLab has had it too, and asks whether it should stop
            continue


# --- run --------------------------------------------------------------------------------------------------------------


class Screen:
    """What a headless run shows: the notebook's stdout on ours, line by line; all progress on stderr.

    On a terminal one bar counts the cells and carries the bar that the running cell draws. Elsewhere, in a log, each
    cell and each finished bar is one line.
    """

    def __init__(self, name: str, cells: int) -> None:
        from tqdm import tqdm

        self.live = sys.stderr.isatty()
        layout = "{desc} cell {n_fmt}/{total_fmt} |{bar:6}| {elapsed}{postfix}"
        self.bar = tqdm(total=cells, desc=name, bar_format=layout, leave=False, dynamic_ncols=True, disable=not self.live)
        self.cells = cells
        self.pending = {"stdout": "", "stderr": ""}  # the unfinished last line of each stream
        self.moving = False  # whether that line of stderr has been drawn over: a progress bar

    def _print(self, text: str, stream: str) -> None:
        target = sys.stdout if stream == "stdout" else sys.stderr
        self.bar.write(text, file=target)
        target.flush()

    def show(self, stream: str, text: str) -> None:
        """Take a piece of the kernel's stdout or stderr."""
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
        """End the lines that a cell left unfinished."""
        for stream, text in self.pending.items():
            if text.strip():
                self.show(stream, "\n")

    def cell_done(self, number: int) -> None:
        """Count a cell that came to its end."""
        self.flush()
        self.bar.update()
        self.bar.refresh()
        if not self.live:
            print(f"cell {number} of {self.cells} done", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the bar; the last line on stdout is then the notebook's own."""
        self.flush()
        self.bar.close()


def choose_data(notebook: NotebookNode, data: str, name: str) -> None:
    """Replace `DATA = "digits"` in the cell tagged `parameters`."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", []):
            assignment = re.compile(r"""^(\s*DATA\s*=\s*)(["'])digits\2""", re.MULTILINE)
            cell.source, count = assignment.subn(lambda hit: f'{hit[1]}"{data}"', cell.source)
            if count:
                return
    raise LessonError(
        f"Lesson {name} has no choice of data.",
        next_step='leave --data away; a lesson that has one says DATA = "digits" in its cell tagged "parameters"',
    )


def cell_error(cell: NotebookNode, number: int, name: str, ename: str, evalue: str) -> str:
    """Where a cell failed, the line, and last the error as the learner would meet it."""
    tracebacks = ["\n".join(out.traceback) for out in cell.outputs if out.output_type == "error"]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", tracebacks[-1] if tracebacks else "")
    line = re.search(r"Cell In\s?\[\d+\], line (\d+)", plain)
    where, source = "", ""
    if line and int(line[1]) <= len(cell.source.splitlines()):
        where = f", line {line[1]}"
        source = f"    {cell.source.splitlines()[int(line[1]) - 1].strip()}\n"
    return f"{name}: code cell {number}{where} failed\n{source}{ename}: {evalue}"


def execute(notebook: NotebookNode, folder: Path, name: str, env: dict[str, str]) -> int:
    """Run every cell in a kernel of this very Python, in `folder`; the outputs go into `notebook`."""
    import asyncio
    import signal

    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    cells = [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
    screen = Screen(name, len(cells))

    class Client(NotebookClient):
        async def async_start_new_kernel(self, **kwargs: Any) -> None:
            with contextlib.suppress(RuntimeError):  # raised on Windows, and outside the main thread
                loop.add_signal_handler(signal.SIGINT, stop)  # in place of nbclient's, which reports a dead kernel
            await super().async_start_new_kernel(**kwargs)

        def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
            if msg["msg_type"] == "stream":
                screen.show(msg["content"]["name"], msg["content"]["text"])
            return super().process_message(msg, cell, cell_index)

    # No folder to look in leaves the one kernel that jupyter_client makes of this interpreter.
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = Client(
        notebook,
        km=manager,
        timeout=None,
        startup_timeout=120,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # its warnings are for servers, not for learners
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )

    async def run_cells() -> str:
        try:
            async with client.async_setup_kernel(cleanup_kc=True, env=env):
                for number, (index, cell) in enumerate(cells, start=1):
                    await client.async_execute_cell(cell, index, execution_count=number)
                    screen.cell_done(number)
        except CellExecutionError as error:
            return cell_error(cell, number, name, error.ename, error.evalue)
        except DeadKernelError:  # what nbclient makes of a cancelled task, too
            return f"{name}: the kernel died in code cell {number}; most often memory ran out"
        except RuntimeError as error:
            return f"{name}: the kernel did not start: {error}"
        finally:
            if await manager.is_alive():  # stopped while it started
                await manager.shutdown_kernel(now=True)
        return ""

    def stop() -> None:
        client.shutdown_kernel = "immediate"
        stopped.append(True)
        task.cancel()

    stopped: list[bool] = []
    loop = asyncio.SelectorEventLoop()  # on Windows the default loop cannot wait for the kernel's sockets
    task = loop.create_task(run_cells())
    try:
        loop.run_until_complete(asyncio.wait([task]))
    except KeyboardInterrupt:  # before the handler stands, or on Windows, which has none
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


def _write(target: Path, text: str) -> None:
    """Write a whole file or none."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def page_of(notebook: NotebookNode, name: str) -> str:
    """The executed notebook as one HTML page that fetches nothing, except to set formulas where it has some."""
    from nbconvert import HTMLExporter

    formulas = any(cell.cell_type == "markdown" and "$" in cell.source for cell in notebook.cells)
    blocks = ["requirejs", "mermaidjs"] + ([] if formulas else ["mathjax"])
    emptied = "".join(f"{{% block html_head_js_{block} %}}{{% endblock %}}" for block in blocks)
    exporter = HTMLExporter(raw_template="{% extends 'lab/index.html.j2' %}" + emptied)
    page: str = exporter.from_notebook_node(notebook, resources={"metadata": {"name": name}})[0]
    return page


def run(word: str, data: str | None = None, html: str | None = None, store: bool = False) -> int:
    """Run a lesson, or a notebook file of one's own, headless. The file stays as it is unless `store` is set."""
    _need("nbclient", "lab")
    import nbformat

    own = Path(word)
    bundled = not (own.suffix == ".ipynb" and own.is_file())
    path = find_lesson(word, solved=True) if bundled else own.absolute()
    target = Path(html).absolute() if html else None
    if target and (target.is_dir() or not os.access(target.parent, os.W_OK)):
        raise LessonError(f"The page cannot be written to {target}.", next_step="name a file in a folder that exists")
    notebook = nbformat.read(path, as_version=4)
    if data:
        choose_data(notebook, data, path.stem)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a console that cannot show a character shows "?"
    with tempfile.TemporaryDirectory(prefix="ipu_teach-", ignore_cleanup_errors=True) as scratch:
        env = dict(os.environ)
        if bundled or store:  # a solved lesson must not tick off the learner's exercises
            env["IPU_TEACH_WORK"] = scratch
        if store:  # as the tests will run it again
            env.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        else:
            env.setdefault("TQDM_NCOLS", "48")  # the bars of a cell share a line with ours
        status = execute(notebook, path.parent, path.stem, env)
    if target and status == 0:
        _write(target, page_of(notebook, path.stem))
    if store and status == 0:
        _write(path, nbformat.writes(notebook) + "\n")
    return status


# --- doctor -----------------------------------------------------------------------------------------------------------

Row = tuple[str, str, str]  # "ok", "note" (fine without) or "FIX"; what; what we know of it


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_packages() -> Iterator[Row]:
    """One row for each package that the lessons or the tests need."""
    try:
        wanted = importlib.metadata.requires("ipu_teach") or []
    except importlib.metadata.PackageNotFoundError:
        yield "FIX", "ipu_teach", f"not installed: in {ROOT}, {sys.executable} -m pip install -e .[lab,test]"
        return
    for requirement in wanted:
        parts = re.match(r"([\w.-]+)\s*(?:>=\s*([\w.]+))?.*?(?:;.*extra\s*==\s*[\"'](\w+)[\"'])?$", requirement)
        if parts is None or parts[3] not in (None, "lab", "test"):
            continue
        name, least, extra = parts[1], parts[2] or "0", parts[3]
        bad = "note" if extra == "test" else "FIX"
        why = "; only the tests need it" if extra == "test" else ""
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield bad, name, f"missing: {_install(name + '>=' + least)}{why}"
            continue
        if _numbers(version) < _numbers(least):
            yield bad, name, f"{version} is too old: {_install(name + '>=' + least)}{why}"
        else:
            yield "ok", name, version


def check_gpu() -> Row:
    """Whether a GPU is seen, and that none is needed."""
    from ipu_teach.engine.backend import cuda_devices

    if os.environ.get("IPU_TEACH_GPU") == "0":
        return "ok", "GPU", "switched off by IPU_TEACH_GPU=0; the engine runs on numpy"
    count = cuda_devices()
    seen = f"{count} CUDA device{'s' if count > 1 else ''} seen" if count else "no CUDA driver or device"
    return "ok", "GPU", f"{seen}; the engine runs on numpy in this version and needs none"


def check_data() -> Iterator[Row]:
    """The bundled digits, which must be there, and MNIST, which may be; both are read, not only found."""
    from ipu_teach import datasets

    for name, read in (("digits", datasets.digits), ("MNIST", lambda: datasets.mnist(download=False))):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield "ok", name, str(read())
        except DatasetError as error:
            if name == "digits" or Path(error.where).is_file():  # a file that is there, and is not what its name says
                yield "FIX", name, " ".join(str(error).split())
            else:
                yield "ok", name, "not here, which is fine: --data mnist fetches it once"


def check_work() -> Row:
    """Whether the learner's copies can be kept."""
    try:
        folder = work_folder()
        with tempfile.TemporaryFile(dir=folder):
            return "ok", "work folder", str(folder)
    except (LessonError, OSError) as error:
        return "FIX", "work folder", f"not writable: {error}; set IPU_TEACH_WORK to a folder that is".replace("\n", " ")


def check_memory() -> Row:
    """How much memory is free, where Linux tells."""
    try:
        text = MEMINFO.read_text(encoding="ascii")
        free = int(re.findall(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)[0]) / 2**20
    except (OSError, IndexError):
        return "ok", "memory", "cannot tell on this system; 1 GB is enough"
    if free < 1:
        return "FIX", "memory", f"{free:.1f} GB free; the full chip wants 1 GB: close other programs"
    return "ok", "memory", f"{free:.1f} GB free"


def doctor() -> int:
    """Print what is here and what to do about the rest; 1 where something must be done."""
    version = sys.version.split()[0]
    python: Row = ("ok", "Python", f"{version}, {sys.executable}")
    if sys.version_info < (3, 10):  # noqa: UP036
        python = ("FIX", "Python", f"{version} is too old: 3.10 or newer is needed")
    rows = [python, *check_packages(), check_gpu(), *check_data(), check_work(), check_memory()]
    width = max(len(name) for _, name, _ in rows)
    for mark, name, text in rows:
        print(f"{mark:4}  {name:{width}}  {text}")
    faults = sum(mark == "FIX" for mark, _, _ in rows)
    print("all is well" if not faults else f"to fix: {faults}, marked FIX above")
    return 1 if faults else 0


# --- the words --------------------------------------------------------------------------------------------------------


def _version() -> str:
    try:
        return importlib.metadata.version("ipu_teach")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def build_parser() -> argparse.ArgumentParser:
    """Every command with its help."""
    parser = argparse.ArgumentParser(prog="ipu-teach", description="Learn to program a tile machine, in Jupyter.")
    parser.add_argument("--version", action="version", version=f"ipu-teach {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    lesson = "number (07), beginning of the name, or mnist"

    text = "open a lesson in JupyterLab, as your own copy in the work folder"
    command = commands.add_parser("lab", help=text, description=text, epilog="Further options go to JupyterLab.")
    command.add_argument("lesson", nargs="?", metavar="LESSON", help=f"{lesson}; without it, the first lesson")

    text = "run a solved lesson, or a notebook file of yours, without a browser"
    command = commands.add_parser("run", help=text, description=text)
    command.add_argument("lesson", metavar="LESSON", help=f"{lesson}; or the path of an .ipynb file")
    command.add_argument("--data", choices=("digits", "mnist"), help="what a lesson that has the choice trains on")
    command.add_argument("--html", metavar="FILE", help="write the executed notebook as a page")
    command.add_argument("--store", action="store_true", help="keep the outputs in the notebook file itself (authors)")

    text = "say what is installed, what is missing, and what to do about it"
    commands.add_parser("doctor", help=text, description=text)

    text = "print every published figure beside what the kit models; golden --json prints them as data"
    commands.add_parser("golden", help=text, add_help=False)  # `ipu_teach.golden` reads its own words

    commands.add_parser("report", help=report_command.HELP, add_help=False)  # so does `ipu_teach.report.command`
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the words ask; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    to_jupyter: list[str] = []
    if words[:1] == ["lab"] and words[1:2] not in (["-h"], ["--help"]):
        split = 1 if len(words) < 2 or words[1].startswith("-") else 2  # a value of JupyterLab's is no lesson
        words, to_jupyter = words[:split], words[split:]
    arguments = build_parser().parse_args(words[:1] if words[:1] in (["golden"], ["report"]) else words)
    try:
        if arguments.command == "report":
            return report_command.main(words[1:])
        if arguments.command == "golden":
            from ipu_teach import golden

            return golden.main(words[1:])
        if arguments.command == "lab":
            return lab(arguments.lesson, to_jupyter)
        if arguments.command == "run":
            return run(arguments.lesson, arguments.data, arguments.html, arguments.store)
        return doctor()
    except IPUTeachError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, LessonError) else 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
