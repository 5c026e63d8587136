"""The command line: `ipu-teach JOB`; `python -m ipu_teach JOB` too. `jobs.py` lists the jobs.

`lab` opens the learner's notebook where there is one, `run` the solved one, for it goes to its end
by itself. A job is one parser in `build_parser`, with what it does, or a script of the repository.
Exit status: 0 done, 1 a lesson failed or something is missing, 2 the request made no sense, 130
stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from ipu_course import jobs
from ipu_course.checking import learner
from ipu_course.checking.headless import run
from ipu_course.checking.notebooks import (
    ALIASES,
    COURSE,
    find_lesson,
    install_line,
    kept_work,
    learners_copies,
    need,
    work_path,
    writable_work_path,
)
from ipu_course.checking.slides import slides
from ipu_course.classroom import command as class_command, preflight
from ipu_course.classroom.preflight import DoctorRow
from ipu_teach import __version__
from ipu_teach._support.places import (
    NOT_KEPT,
    PACKAGE,
    bundled,
    checkout,
    free_memory,
    not_kept,
    program,
    try_writing,
)
from ipu_teach.errors import DatasetError, IPUTeachError, LessonError
from ipu_teach.report import command as report_command

SPARED = {"numba": "; loops over elements run slower without it"}  # what the kit runs without
TORCH_WHEELS = "https://download.pytorch.org/whl/cpu"  # without 5 GB for GPUs
STOPPED = 130  # what a shell shows for a program that Ctrl-C ended

# --- what is kept, and where ----------------------------------------------------------------------


def homes() -> Iterator[tuple[str, Path]]:
    """Where Jupyter, IPython and matplotlib keep things of their own, each with the variable that
    moves it."""
    home = Path(os.path.expanduser("~"))
    with contextlib.suppress(ImportError):
        from jupyter_core import paths

        yield "JUPYTER_CONFIG_DIR", Path(paths.jupyter_config_dir())
        yield "JUPYTER_DATA_DIR", Path(paths.jupyter_data_dir())
        yield "JUPYTER_RUNTIME_DIR", Path(paths.jupyter_runtime_dir())
    yield "IPYTHONDIR", Path(os.environ.get("IPYTHONDIR") or home / ".ipython")
    cache = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    yield "MPLCONFIGDIR", Path(os.environ.get("MPLCONFIGDIR") or Path(cache, "matplotlib"))


def move_in() -> None:
    """Let programs keep in the work folder, for this run, what they cannot keep in the home."""
    if os.path.expanduser("~") == "~":  # a user whom this machine does not know
        os.environ["HOME"] = str(work_path())
    for name, folder in homes():
        try:
            try_writing(folder)
        except OSError:
            os.environ[name] = str(_moved(name))


def _moved(name: str) -> Path:
    return work_path() / ".jupyter" / name.lower()


def check_home() -> DoctorRow:
    """Whether what `lab` starts can keep its own, at home or in the work folder."""
    moved = [name for name, folder in homes() if folder == _moved(name)]
    if moved:
        text = f"not all of it can be written: {', '.join(moved)} go into the work folder"
        return "note", "home", f"{os.path.expanduser('~')}, {text}"
    return "ok", "home", os.path.expanduser("~")


# --- lab ------------------------------------------------------------------------------------------

# JupyterLab asks on its first start whether it may fetch news; the lessons fetch nothing.
NO_NEWS = (
    '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": '
    "false}}\n"
)


def lab(word: str | None, jupyter_arguments: Sequence[str]) -> int:
    """Open the learner's copy of a lesson in JupyterLab; where a hub starts this, it is her server
    there."""
    lesson = find_lesson(word)
    command, env = opening(lesson)
    copy = Path(env["IPU_TEACH_WORK"], lesson.name)
    print(f"opening {copy}, your own copy", file=sys.stderr, flush=True)
    return _become([*command, *jupyter_arguments], env)


def opening(lesson: Path) -> tuple[list[str], dict[str, str]]:
    """The command that opens the learner's copy of a lesson in JupyterLab, and its environment. The
    copy is made."""
    need("jupyterlab", "lab")
    kept_work()
    copy = learners_copies(lesson)
    settings = copy.parent / ".jupyter" / "labconfig" / "default_setting_overrides.json"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(NO_NEWS, encoding="utf-8")
    configs = [str(settings.parents[1]), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    env = dict(
        os.environ,
        JUPYTER_CONFIG_PATH=os.pathsep.join(filter(None, configs)),
        IPU_TEACH_WORK=str(copy.parent),
    )
    # Named by address, not as a file: so the address that --no-browser prints opens the lesson too.
    options = [
        f"--ServerApp.root_dir={copy.parent}",
        f"--LabApp.default_url=/lab/tree/{quote(copy.name)}",
    ]
    if os.name != "nt" and os.geteuid() == 0:
        # as in a container; the server listens to this machine only, behind a token
        options.append("--allow-root")
    # it names the address that it gives her, and it asks who comes
    hub = "JUPYTERHUB_SERVICE_URL" in os.environ
    if hub and os.name != "nt":
        # No ports: when a class begins, another's kernel takes one between its being found free and
        # its being bound.
        options.append("--KernelManager.transport=ipc")
        # a socket's whole name has 107 characters at most
        env.setdefault("JUPYTER_RUNTIME_DIR", str(Path.home() / ".run"))
    return [sys.executable, "-m", "jupyterhub.singleuser" if hub else "jupyterlab", *options], env


def _become(command: list[str], env: dict[str, str]) -> int:
    if os.name != "nt":
        os.execve(command[0], command, env)
    process = subprocess.Popen(command, env=env)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # JupyterLab has had it too, and asks whether it should stop
            continue


# --- doctor ---------------------------------------------------------------------------------------


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_packages() -> Iterator[DoctorRow]:
    """One row for each package that the lessons or the tests need."""
    try:
        wanted = importlib.metadata.requires("ipu_teach") or []
    except importlib.metadata.PackageNotFoundError:
        yield (
            "FIX",
            "ipu_teach",
            f"not installed: in {PACKAGE.parent}, {sys.executable} -m pip install -e .[lab,test]",
        )
        return
    for requirement in wanted:
        parts = re.match(
            r"([\w.-]+)\s*(?:>=\s*([\w.]+))?.*?(?:;.*extra\s*==\s*[\"'](\w+)[\"'])?$", requirement
        )
        if parts is None or parts[3] not in (None, "lab", "test" if checkout() else None):
            continue
        name, least, extra = parts[1], parts[2] or "0", parts[3]
        why = "; only the tests need it" if extra == "test" else SPARED.get(name, "")
        bad = "note" if why else "FIX"
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if extra == "test":  # `run.py test` adds them
                continue
            yield bad, name, f"missing: {install_line(name + '>=' + least)}{why}"
            continue
        if _numbers(version) < _numbers(least):
            yield bad, name, f"{version} is too old: {install_line(name + '>=' + least)}{why}"
        else:
            yield "ok", name, version


def check_gpu() -> DoctorRow:
    """Which engine runs, and why; a GPU that is seen and cannot be used is worth a note."""
    from ipu_teach.engine.backend import cuda_devices, cupy_module

    cupy, text = cupy_module()
    if cupy is not None:
        return "ok", "GPU", f"the engine runs on {text}"
    idle = cuda_devices() and os.environ.get("IPU_TEACH_GPU") != "0"
    return (
        "note" if idle else "ok",
        "GPU",
        f"{text}; the engine runs on numpy, which is all it needs",
    )


def check_torch() -> DoctorRow:
    """Whether `ipu_teach.poptorch` can take modules; nothing else wants torch."""
    try:
        return "ok", "torch", importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        said = "not here, which is fine: for ipu_teach.poptorch alone, 192 MB to fetch: "
        return "ok", "torch", said + f"{install_line('torch')} --index-url {TORCH_WHEELS}"


def check_data() -> Iterator[DoctorRow]:
    """The bundled digits, which must be there, and MNIST, which may be; both are read, not only
    found."""
    from ipu_teach import datasets

    for name, read in (
        ("digits", datasets.digits),
        ("MNIST", lambda: datasets.mnist(download=False)),
    ):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield "ok", name, str(read())
        except DatasetError as error:
            # a file that is there, and is not what its name says
            if name == "digits" or Path(error.where).is_file():
                yield "FIX", name, " ".join(str(error).split())
            else:
                yield "ok", name, "not here, which is fine: --data mnist fetches it once"


def check_work() -> DoctorRow:
    """Whether the learner's copies can be kept."""
    try:
        return "ok", "work folder", str(writable_work_path())
    except LessonError as error:
        return "FIX", "work folder", f"{error.tried} {error.where}: {error.next_step}"


def check_memory() -> DoctorRow:
    """How much memory is free, where Linux tells."""
    found = free_memory()
    if found is None:
        return "ok", "memory", "cannot tell on this system; 1 GB is enough"
    free = found / 2**30
    if free < 1:
        return (
            "FIX",
            "memory",
            f"{free:.1f} GB free; the full chip wants 1 GB: close other programs",
        )
    return "ok", "memory", f"{free:.1f} GB free"


def doctor() -> int:
    """Print what is here and what to do about the rest; 1 where something must be done."""
    version = sys.version.split()[0]
    python: DoctorRow = ("ok", "Python", f"{version}, {sys.executable}")
    if sys.version_info < (3, 10):  # noqa: UP036
        python = ("FIX", "Python", f"{version} is too old: 3.10 or newer is needed")
    rows = [python, *check_packages(), check_gpu(), check_torch(), *check_data()]
    rows += [check_work(), check_home(), check_memory()]
    width = max(len(name) for _, name, _ in rows)
    for mark, name, text in rows:
        print(f"{mark:4}  {name:{width}}  {text}")
    faults = sum(mark == "FIX" for mark, _, _ in rows)
    print("all is well" if not faults else f"to fix: {faults}, marked FIX above")
    return 1 if faults else 0


PREFLIGHT: dict[str, Callable[[], DoctorRow | Iterable[DoctorRow]]] = {
    "Is everything installed?": lambda: [
        row for row in check_packages() if "only the tests" not in row[2]
    ],
    "Can your work be kept?": check_work,
    "Is there enough memory?": check_memory,
}


def golden(words: Sequence[str]) -> int:
    """Print the published figures beside the model's; the status says whether all are met.

    Their programs are no part of a package. In a checkout they are beside the packages, and in a
    wheel the course carries them.
    """
    folder = str(bundled("validation", COURSE).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    status: int = importlib.import_module("validation").main(words)
    return status


# --- the words ------------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    """Every command with its help; `do` is what it does with its arguments."""
    parser = argparse.ArgumentParser(prog=program())
    parser.add_argument("--version", action="version", version=f"ipu-teach {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    lesson = "number (07), beginning of the name, mnist or cnn"

    def job(
        name: str, epilog: str | None = None, parents: Sequence[argparse.ArgumentParser] = ()
    ) -> argparse.ArgumentParser:
        words = jobs.WORDS[name]
        return commands.add_parser(name, description=words, epilog=epilog, parents=parents)

    command = job("lab", epilog="Further options go to JupyterLab.")
    command.add_argument(
        "lesson",
        nargs="?",
        metavar="LESSON",
        help=f"{lesson}, or index; without it, the first lesson",
    )
    command.set_defaults(do=lambda given: lab(given.lesson, given.to_jupyter), to_jupyter=[])

    running = argparse.ArgumentParser(add_help=False)
    running.add_argument(
        "--data", choices=("digits", "mnist"), help="what a lesson that has the choice trains on"
    )
    running.add_argument("--html", metavar="FILE", help="write the executed notebook as a page")
    running.add_argument(
        "--store",
        action="store_true",
        help="keep the outputs in the notebook file itself (authors)",
    )
    running.set_defaults(do=lambda given: run(given.lesson, given.data, given.html, given.store))
    job("run", parents=[running]).add_argument(
        "lesson", metavar="LESSON", help=f"{lesson}; or the path of an .ipynb file"
    )
    for name in ALIASES:
        job(name, parents=[running]).set_defaults(lesson=name)

    command = job("reset")
    command.add_argument("lesson", metavar="LESSON", help=f"{lesson}, or index")
    command.add_argument(
        "--progress",
        action="store_true",
        help="forget what was done in it too, predictions included",
    )
    command.set_defaults(do=lambda given: learner.reset(given.lesson, given.progress))

    command = job("slides")
    command.add_argument("lesson", metavar="LESSON", help=f"{lesson}, or tiny")
    command.add_argument("--html", metavar="FILE", help="where to; else into this folder")
    command.set_defaults(do=lambda given: slides(given.lesson, given.html))

    command = job("doctor")
    command.add_argument(
        "--workshop",
        action="store_true",
        help="open a port, a page, a kernel and a lesson: is it ready?",
    )
    command.set_defaults(
        do=lambda given: preflight.main(PREFLIGHT, opening) if given.workshop else doctor()
    )

    command = job("learner")
    command.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 where one is not what it should be",
    )
    command.set_defaults(do=lambda given: learner.check() if given.check else learner.write())
    return parser


def in_the_repository(words: Sequence[str]) -> int:
    """Do a job of those who work on the kit, which a script of the repository does."""
    root = checkout()
    if root is None:
        raise LessonError(
            f"`{words[0]}` is a job on the kit itself, and this kit came as a wheel, without it.",
            next_step=f"get the repository, and in its folder: python3 run.py {' '.join(words)}",
        )
    script = root / jobs.SCRIPTS[words[0]]
    return _become([sys.executable, str(script), *words[1:]], dict(os.environ))


# These read their own words.
OWN: dict[str, Callable[[Sequence[str]], int]] = {
    "report": report_command.main,
    "class": class_command.main,
    "golden": golden,
}


def speak_unicode() -> None:
    """Let what is printed have any letter: UTF-8 in files and pipes; on a terminal that cannot
    show one, a "?" in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                encoding=None if stream.isatty() else "utf-8",  # None keeps the terminal's own
                errors="replace",
            )


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a job. Words that it does not take are answered by its own usage."""
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        usage = f"usage: {program()} {words[0]} …; {program()} {words[0]} --help says more"
        print(f"{usage}\n{words[0]}: it does not take {' '.join(unknown)}", file=sys.stderr)
        sys.exit(2)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the words ask; the exit status."""
    speak_unicode()
    words = list(sys.argv[1:] if argv is None else argv)
    jobs.answer(program(), words)
    job, *rest = words
    try:
        if job in jobs.SCRIPTS:
            return in_the_repository(words)
        if job in OWN:
            return OWN[job](rest)
        to_jupyter: list[str] = []
        if job == "lab" and rest[:1] not in (["-h"], ["--help"]):
            # a value of JupyterLab's is no lesson
            split = 1 if not rest or rest[0].startswith("-") else 2
            words, to_jupyter = words[:split], words[split:]
        arguments = parsed(words)
        arguments.to_jupyter = to_jupyter
        if job in ("lab", "run", *ALIASES, "reset", "doctor"):
            move_in()
        status: int = arguments.do(arguments)
        return status
    except IPUTeachError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, LessonError) else 1
    except OSError as error:
        if error.errno not in NOT_KEPT:
            raise
        print(not_kept("This cannot be kept", error.filename or "", error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
